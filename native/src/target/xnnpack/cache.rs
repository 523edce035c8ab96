//! What a provider decides, apart from C.

use std::{
    cell::Cell,
    collections::HashSet,
    num::NonZero,
    ptr::NonNull,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use crate::os::fork::{Mutex, MutexGuard, ReadGuard, RwLock, WriteGuard};

use super::{
    abi::{ALIGNMENT, Abi, FingerprintFn, Key},
    names::{Called, Names},
    statistics::{Counters, add},
};
use crate::{
    Reason,
    pack::{Fingerprint, Handle, ModelId, Name, Pack, Packing, Wanted},
};

/// What the functions that XNNPACK calls ask.
#[derive(Debug)]
pub(super) struct Cache {
    /// Tells it from every other in this process.
    number: u64,
    pub(super) pack: Pack,
    pub(super) abi: Abi,
    pub(super) model: ModelId,
    pub(super) fingerprints: Option<FingerprintFn>,
    names: RwLock<Names>,
    is_finalized: AtomicBool,
    own: Mutex<Own>,
    pub(super) counters: Counters,
}

/// What goes when the provider goes.
#[derive(Debug, Default)]
struct Own {
    /// Where spaces begin that XNNPACK reserved and inserted nothing from, as it does when it gives up.
    spaces: HashSet<usize>,
    /// Packed weights that nobody else can find.
    unnamed: Vec<Handle>,
}

/// Whose weight it is that XNNPACK will pack next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// One that has a name, and was looked up in the cache with this number.
    Named(u64),
    /// Nobody knows.
    Unknown,
}

thread_local! {
    /// What the last look-up of this thread says. `reserve_space` does not say what for; but XNNPACK creates an operator in
    /// one thread, and reserves right after the look-up that missed.
    static NEXT: Cell<Next> = const { Cell::new(Next::Unknown) };
}

impl Cache {
    pub(super) fn new(pack: Pack, abi: Abi, model: ModelId) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        Self {
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            pack,
            abi,
            model,
            fingerprints: None,
            names: RwLock::default(),
            is_finalized: AtomicBool::new(false),
            own: Mutex::default(),
            counters: Counters::default(),
        }
    }

    pub(super) fn look_up(&self, key: &Key) -> Option<Handle> {
        NEXT.set(Next::Unknown);
        let found = self.wanted(key, |wanted| {
            // A miss: what comes next is this weight's space.
            NEXT.set(Next::Named(self.number));
            self.find(wanted)
        });
        match found {
            Ok(handle) => {
                NEXT.set(Next::Unknown);
                add(&self.counters.hits, 1);
                Some(handle)
            }
            Err(reason) => {
                self.counters.miss(reason);
                None
            }
        }
    }

    pub(super) fn reserve(&self, len: usize) -> Option<NonNull<u8>> {
        let in_file = NEXT.replace(Next::Unknown) == Next::Named(self.number);
        let space = if len == 0 { None } else { self.pack.instance().reserve(len, in_file).ok() };
        let space = space.map(|space| space.address());
        let Some(address) = space else {
            add(&self.counters.refused, 1);
            return None;
        };
        add(&self.counters.reservations, 1);
        add(&self.counters.reserved_bytes, len as u64);
        self.own().spaces.insert(address.as_ptr().addr());
        Some(address)
    }

    /// Takes what was packed; without an address, it only looks.
    pub(super) fn look_up_or_insert(
        &self,
        key: &Key,
        packed: Option<NonNull<u8>>,
        len: usize,
    ) -> Option<Handle> {
        NEXT.set(Next::Unknown);
        let Some(packed) = packed else { return self.wanted(key, |wanted| self.find(wanted)).ok() };
        let inserted = match self.wanted(key, |wanted| Ok(self.insert(wanted, packed, len))) {
            Ok(inserted) => inserted,
            Err(_) => self.keep(packed, len),
        };
        if inserted.is_none() {
            add(&self.counters.refused, 1);
        }
        inserted
    }

    /// Takes what was packed as this weight.
    fn insert(&self, wanted: &Wanted<'_>, packed: NonNull<u8>, len: usize) -> Option<Handle> {
        // In this order: once it is inserted, the pack may give the space to another thread.
        let was_own = self.own().spaces.remove(&packed.as_ptr().addr());
        let Some(handle) = self.pack.instance().insert(wanted, packed, len).map(|hit| hit.handle) else {
            if was_own {
                self.own().spaces.insert(packed.as_ptr().addr());
            }
            // The same may be said twice.
            let known = self.find(wanted).ok();
            return known.filter(|handle| self.address(*handle) == Some(packed));
        };
        add(&self.counters.packed, 1);
        add(&self.counters.packed_bytes, len as u64);
        Some(handle)
    }

    /// Keeps what was packed for this provider alone.
    fn keep(&self, packed: NonNull<u8>, len: usize) -> Option<Handle> {
        let handle = self.pack.instance().keep_unnamed(packed, len)?;
        add(&self.counters.unnamed, 1);
        add(&self.counters.unnamed_bytes, len as u64);
        let mut own = self.own();
        own.spaces.remove(&packed.as_ptr().addr());
        own.unnamed.push(handle);
        Some(handle)
    }

    pub(super) fn is_finalized(&self) -> bool {
        self.is_finalized.load(Ordering::Acquire)
    }

    pub(super) fn set_finalized(&self, is_finalized: bool) {
        self.is_finalized.store(is_finalized, Ordering::Release);
    }

    pub(super) fn address(&self, handle: Handle) -> Option<NonNull<u8>> {
        self.pack.instance().address(handle)
    }

    pub(super) fn names(&self) -> ReadGuard<'_, Names> {
        self.names.read()
    }

    pub(super) fn names_mut(&self) -> WriteGuard<'_, Names> {
        self.names.write()
    }

    fn own(&self) -> MutexGuard<'_, Own> {
        self.own.lock()
    }

    /// Calls `ask` with what a key stands for.
    ///
    /// # Errors
    /// Why it stands for nothing that could be found again.
    fn wanted<T>(&self, key: &Key, ask: impl FnOnce(&Wanted<'_>) -> Result<T, Reason>) -> Result<T, Reason> {
        let called = self.names().called(key.kernel, key.bias).ok_or(Reason::Unnamed)?;
        let packing = self.packing(key).ok_or(Reason::Uncacheable)?;
        let Called { weight, bias } = &called;
        let name = Name { weight, bias: bias.as_deref() };
        ask(&Wanted { name, model: self.model, packing })
    }

    /// How XNNPACK packs what the key stands for. Nothing if it could tell, and does not: operators that have no
    /// fingerprint leave the identifier as it was in memory, so that it says nothing, and differs at each start.
    fn packing(&self, key: &Key) -> Option<Packing> {
        let fingerprint = match (key.fingerprint_id, self.fingerprints) {
            (None, _) => None,
            (Some(id), None) => Some(Fingerprint { id, value: None }),
            (Some(id), Some(fingerprint)) => {
                // SAFETY: as whoever gave the function promised, any number may be asked for, and the answer is null or can
                // be read.
                let found = unsafe { fingerprint(id).as_ref() }?;
                Some(Fingerprint { id, value: Some(found.value) })
            }
        };
        Some(Packing { seed: key.seed, fingerprint })
    }

    fn find(&self, wanted: &Wanted<'_>) -> Result<Handle, Reason> {
        let handle = self.pack.instance().find(wanted, |hit| hit.handle)?;
        // Bytes of a file that cannot be mapped are read from the end of what was read before, wherever that is.
        let address = self.address(handle).ok_or(Reason::Malformed)?;
        if address.as_ptr().addr().is_multiple_of(ALIGNMENT) { Ok(handle) } else { Err(Reason::Malformed) }
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        let Own { spaces, unnamed } = self.own.get_mut();
        for address in spaces.drain().filter_map(NonZero::new) {
            // What is given back is found by its address, which is not followed.
            self.pack.instance().give_back(NonNull::without_provenance(address));
        }
        for handle in unnamed.drain(..) {
            self.pack.instance().forget_unnamed(handle);
        }
    }
}

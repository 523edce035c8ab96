//! The decisions of a provider, without its C interface.

use std::{
    cell::Cell,
    collections::HashSet,
    num::NonZero,
    ptr::NonNull,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use super::{
    abi::{ALIGNMENT, Abi, FingerprintFn, Key},
    names::Names,
    statistics::{Counters, add},
};
use crate::{
    MissReason,
    os::fork::{Mutex, RwLock},
    pack::{Fingerprint, Handle, ModelId, Name, Pack, Packing, WeightKey},
};

/// The state behind the functions that XNNPACK calls.
#[derive(Debug)]
pub(super) struct Cache {
    /// A number that no other cache of this process has.
    number: u64,
    pub(super) pack: Pack,
    pub(super) abi: Abi,
    pub(super) model: ModelId,
    pub(super) fingerprints: Option<FingerprintFn>,
    pub(super) names: RwLock<Names>,
    pub(super) is_finalized: AtomicBool,
    own: Mutex<Own>,
    pub(super) counters: Counters,
}

/// Resources that are released when the provider is dropped.
#[derive(Debug, Default)]
struct Own {
    /// The addresses of reservations that XNNPACK made and has not inserted, as when it gives up.
    reservations: HashSet<usize>,
    /// Packed weights without a name, which only this provider can use.
    unnamed: Vec<Handle>,
}

thread_local! {
    /// The number of the cache in which this thread's last look-up missed a weight with a name: XNNPACK packs that next.
    /// `reserve_space` does not name the weight; but XNNPACK creates an operator in one thread, and reserves right after the
    /// look-up.
    static NEXT: Cell<Option<u64>> = const { Cell::new(None) };
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
        NEXT.set(None);
        let found = self.wanted(key, |wanted| {
            // After a miss, the next reservation is for this weight.
            NEXT.set(Some(self.number));
            self.find(wanted)
        });
        match found {
            Ok(handle) => {
                NEXT.set(None);
                add(&self.counters.hits, 1);
                Some(handle)
            }
            Err(reason) => {
                self.counters.misses.add(reason);
                None
            }
        }
    }

    pub(super) fn reserve(&self, len: usize) -> Option<NonNull<u8>> {
        let in_file = NEXT.replace(None) == Some(self.number);
        let reserved = if len == 0 { None } else { self.pack.reserve_bytes(len, in_file).ok() };
        let Some(address) = reserved else {
            add(&self.counters.refused, 1);
            return None;
        };
        add(&self.counters.reservations, 1);
        add(&self.counters.reserved_bytes, len as u64);
        self.own.lock().reservations.insert(address.as_ptr().addr());
        Some(address)
    }

    /// Inserts a packed weight; without an address, only looks it up.
    pub(super) fn look_up_or_insert(
        &self,
        key: &Key,
        packed: Option<NonNull<u8>>,
        len: usize,
    ) -> Option<Handle> {
        NEXT.set(None);
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

    /// Inserts a packed weight under its key.
    fn insert(&self, wanted: &WeightKey<'_>, packed: NonNull<u8>, len: usize) -> Option<Handle> {
        // In this order: once it is inserted, the pack may give the bytes to another thread.
        let was_own = self.own.lock().reservations.remove(&packed.as_ptr().addr());
        let Some(handle) = self.pack.insert_bytes(wanted, packed, len).map(|hit| hit.handle) else {
            if was_own {
                self.own.lock().reservations.insert(packed.as_ptr().addr());
            }
            // XNNPACK may insert the same weight twice.
            let known = self.find(wanted).ok();
            return known.filter(|handle| self.pack.address(*handle) == Some(packed));
        };
        add(&self.counters.packed, 1);
        add(&self.counters.packed_bytes, len as u64);
        Some(handle)
    }

    /// Keeps a packed weight for this provider alone.
    fn keep(&self, packed: NonNull<u8>, len: usize) -> Option<Handle> {
        let handle = self.pack.keep_unnamed(packed, len)?;
        add(&self.counters.unnamed, 1);
        add(&self.counters.unnamed_bytes, len as u64);
        let mut own = self.own.lock();
        own.reservations.remove(&packed.as_ptr().addr());
        own.unnamed.push(handle);
        Some(handle)
    }

    /// Calls `ask` with the stored key of a weight that XNNPACK asks for.
    ///
    /// # Errors
    /// Why the weight cannot be stored: it has no name, or its packing is unknown.
    fn wanted<T>(
        &self,
        key: &Key,
        ask: impl FnOnce(&WeightKey<'_>) -> Result<T, MissReason>,
    ) -> Result<T, MissReason> {
        let (weight, bias) = self.names.read().called(key.kernel, key.bias).ok_or(MissReason::Unnamed)?;
        let packing = self.packing(key).ok_or(MissReason::Uncacheable)?;
        let name = Name { weight: &weight, bias: bias.as_deref() };
        ask(&WeightKey { name, model: self.model, packing })
    }

    /// Returns the packing of a key. `None` if XNNPACK has fingerprints, but none for this one: operators without a fingerprint
    /// leave the identifier uninitialized, so that it differs at each start.
    fn packing(&self, key: &Key) -> Option<Packing> {
        let fingerprint = match (key.fingerprint_id, self.fingerprints) {
            (None, _) => None,
            (Some(id), None) => Some(Fingerprint { id, value: None }),
            (Some(id), Some(fingerprint)) => {
                // SAFETY: the caller that set the function promised that it takes any number, and returns null or a readable
                // pointer.
                let found = unsafe { fingerprint(id).as_ref() }?;
                Some(Fingerprint { id, value: Some(found.value) })
            }
        };
        Some(Packing { seed: key.seed, fingerprint })
    }

    fn find(&self, wanted: &WeightKey<'_>) -> Result<Handle, MissReason> {
        let handle = self.pack.contents().find(wanted, |hit| hit.handle)?;
        // Bytes of a file that cannot be mapped are read into memory behind earlier ones, at any alignment.
        let address = self.pack.address(handle).ok_or(MissReason::Malformed)?;
        if address.as_ptr().addr().is_multiple_of(ALIGNMENT) {
            Ok(handle)
        } else {
            Err(MissReason::Malformed)
        }
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        let Own { reservations, unnamed } = self.own.get_mut();
        for address in reservations.drain().filter_map(NonZero::new) {
            // The reservation is found by its address, which is not dereferenced.
            self.pack.release_reservation(NonNull::without_provenance(address));
        }
        for handle in unnamed.drain(..) {
            self.pack.forget_unnamed(handle);
        }
    }
}

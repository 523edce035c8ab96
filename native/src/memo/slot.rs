//! What is kept for one handle.

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use warmstart_core::memo::{
    Entry, Evaluated, Handle, HandleError, Imported, Launched, MemoStatistics, Reduction, SpecTable, Unkept,
    Why,
};

use super::sync::{Mutex, Shared};

/// The place of a handle. A hit touches `entry` and `hits`, and nothing else.
///
/// Aligned to two cache lines, which processors fetch in pairs, so that it shares none with another slot.
#[repr(align(128))]
pub(super) struct Slot<K: Reduction> {
    /// Written only while `state` is locked.
    entry: Shared<Entry<K>>,
    hits: AtomicU64,
    state: Mutex<State<K>>,
}

/// What only launches that miss look at. While it is locked no code of others runs.
struct State<K: Reduction> {
    /// The handle that this place has, or had last.
    handle: Option<Handle>,
    /// Nothing if it was removed.
    kernel: Option<Arc<K>>,
    specs: SpecTable<K>,
    /// Why there is no entry, where there is none.
    without: Why,
    /// Counts invalidations, so that what was evaluated across one is not kept.
    invalidations: u64,
    statistics: MemoStatistics,
}

/// What an evaluation begins with.
pub(super) struct Begun<K: Reduction> {
    pub(super) kernel: Arc<K>,
    pub(super) specs: SpecTable<K>,
    pub(super) why: Why,
    invalidations: u64,
}

/// The result of a handle, if one is kept.
pub(super) type Kept<K> = Option<Arc<Entry<K>>>;

/// What was taken away: to be dropped when nothing is locked any more, because a destructor is code of others. The result and its
/// specs lie side by side: whatever takes one takes both.
pub(super) type Dropped<K> = (Kept<K>, SpecTable<K>);

impl<K: Reduction> Slot<K> {
    /// The result that is kept, of whichever handle.
    #[inline]
    pub(super) fn kept(&self) -> Kept<K> {
        self.entry.load()
    }

    #[inline]
    pub(super) fn count_hit(&self) {
        self.hits.fetch_add(1, Ordering::Relaxed);
    }

    /// Gives the place to `handle`. It is nobody's: never used, or removed.
    pub(super) fn register(&self, handle: Handle, kernel: Arc<K>) {
        let mut state = self.state.lock();
        state.handle = Some(handle);
        state.kernel = Some(kernel);
        state.without = Why::First;
    }

    pub(super) fn remove(&self, handle: Handle) -> Result<(Option<Arc<K>>, Dropped<K>), HandleError> {
        let mut state = self.state.lock();
        state.check(handle)?;
        Ok((state.kernel.take(), self.take(&mut state)))
    }

    /// The result that is kept, and why there is none if there is none.
    pub(super) fn look(&self, handle: Handle) -> Result<(Kept<K>, Why), HandleError> {
        let state = self.state.lock();
        state.check(handle)?;
        Ok((self.entry.load(), state.without))
    }

    pub(super) fn invalidate(&self, handle: Handle) -> Result<Dropped<K>, HandleError> {
        let mut state = self.state.lock();
        state.check(handle)?;
        Ok(self.take(&mut state))
    }

    /// Invalidates whatever is here.
    pub(super) fn forget(&self) -> Dropped<K> {
        self.take(&mut self.state.lock())
    }

    /// Lends out the specs of `handle` to an evaluation: who launches the same meanwhile begins without.
    pub(super) fn begin(&self, handle: Handle, moved: Option<Why>) -> Result<Begun<K>, HandleError> {
        let mut state = self.state.lock();
        let kernel = Arc::clone(state.check(handle)?);
        let specs = mem::take(&mut state.specs);
        Ok(Begun { kernel, specs, why: moved.unwrap_or(state.without), invalidations: state.invalidations })
    }

    /// An evaluation failed: the specs that did not are kept, unless another one brought more. False if somebody has invalidated them
    /// meanwhile.
    pub(super) fn give_back(&self, handle: Handle, mut begun: Begun<K>) -> bool {
        let mut state = self.state.lock();
        let is_undisturbed = state.undisturbed(handle, &begun);
        if is_undisturbed && state.specs.len() < begun.specs.len() {
            mem::swap(&mut state.specs, &mut begun.specs);
        }
        // Before `begun`, and with it what is replaced, is dropped.
        drop(state);
        is_undisturbed
    }

    /// Keeps what another process computed: the specs, and the result where there is none.
    pub(super) fn take_over(
        &self,
        handle: Handle,
        entry: Kept<K>,
        mut begun: Begun<K>,
        imported: Imported,
    ) -> Imported {
        let mut state = self.state.lock();
        let taken = if state.undisturbed(handle, &begun) {
            mem::swap(&mut state.specs, &mut begun.specs);
            let is_first = entry.is_some() && self.entry.load().is_none();
            if is_first {
                self.entry.swap(entry.clone());
            }
            Imported { output: is_first, ..imported }
        } else {
            Imported::default()
        };
        drop(state);
        // A destructor is code of others.
        drop((entry, begun));
        taken
    }

    /// An evaluation ended: keeps its result, unless there is a reason against it, and its specs.
    pub(super) fn install(&self, evaluated: Evaluated<K>, mut begun: Begun<K>) -> Launched<K> {
        let mut counted = MemoStatistics::default();
        counted.add(&evaluated);
        let entry = Arc::new(evaluated.entry);
        let mut state = self.state.lock();
        let mut unkept = evaluated.unkept;
        let mut replaced = None;
        if state.undisturbed(entry.handle(), &begun) {
            mem::swap(&mut state.specs, &mut begun.specs);
            match unkept {
                None => replaced = self.entry.swap(Some(Arc::clone(&entry))),
                Some(reason) => state.without = Why::NotKept(reason),
            }
        } else {
            unkept = Some(Unkept::Invalidated);
        }
        counted.unkept = u64::from(unkept.is_some());
        state.statistics += counted;
        drop(state);
        // A destructor is code of others.
        drop((replaced, begun));
        Launched::evaluated(entry, unkept)
    }

    /// Adds what was counted here, for all handles that the place had.
    pub(super) fn add_to(&self, sum: &mut MemoStatistics) {
        sum.hits += self.hits.load(Ordering::Relaxed);
        *sum += self.state.lock().statistics;
    }

    /// Locks what a hit must not need.
    #[cfg(all(test, not(loom)))]
    pub(super) fn locked(&self) -> impl Sized {
        self.state.lock()
    }

    fn take(&self, state: &mut State<K>) -> Dropped<K> {
        state.invalidations += 1;
        state.without = Why::Invalidated;
        (self.entry.swap(None), mem::take(&mut state.specs))
    }
}

impl<K: Reduction> Default for Slot<K> {
    fn default() -> Self {
        let state = State {
            handle: None,
            kernel: None,
            specs: SpecTable::new(),
            without: Why::First,
            invalidations: 0,
            statistics: MemoStatistics::default(),
        };
        Self { entry: Shared::empty(), hits: AtomicU64::new(0), state: Mutex::new(state) }
    }
}

impl<K: Reduction> State<K> {
    /// The kernel of `handle`, if that is the handle of this place.
    fn check(&self, handle: Handle) -> Result<&Arc<K>, HandleError> {
        match &self.kernel {
            Some(kernel) if self.handle == Some(handle) => Ok(kernel),
            _ if self.handle.is_none() => Err(HandleError::Unknown(handle)),
            _ => Err(HandleError::Stale(handle)),
        }
    }

    /// Whether nobody has invalidated or removed what an evaluation began with.
    fn undisturbed(&self, handle: Handle, begun: &Begun<K>) -> bool {
        self.check(handle).is_ok() && self.invalidations == begun.invalidations
    }
}

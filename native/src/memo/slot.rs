//! The slot of one handle: its result and its specs.

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use warmstart_core::memo::{
    Entry, Handle, HandleError, Launched, MemoStatistics, MissCause, NotCached, Reduction, SpecTable,
};

use super::sync::{Mutex, Shared};

/// The slot of a handle. A hit accesses `entry` and `hits`, and nothing else.
///
/// Aligned to two cache lines, which processors fetch in pairs, so that it shares none with another slot.
#[repr(align(128))]
pub(super) struct Slot<K: Reduction> {
    /// Written only while `state` is locked.
    pub(super) entry: Shared<Entry<K>>,
    hits: AtomicU64,
    pub(super) state: Mutex<State<K>>,
}

/// The state that only misses access. No code of the caller runs while it is locked.
pub(super) struct State<K: Reduction> {
    /// The handle of this slot, or its last one.
    handle: Option<Handle>,
    /// The kernel; nothing if it was removed.
    kernel: Option<Arc<K>>,
    pub(super) specs: SpecTable<K>,
    /// The cause of the next miss, where there is no entry.
    without: MissCause,
    /// Counts invalidations, so that no result evaluated across one is kept.
    invalidations: u64,
    statistics: MemoStatistics,
}

/// The inputs of an evaluation.
pub(super) struct Begun<K: Reduction> {
    pub(super) kernel: Arc<K>,
    pub(super) specs: SpecTable<K>,
    pub(super) cause: MissCause,
    invalidations: u64,
}

/// The result of a handle, if one is kept.
pub(super) type Cached<K> = Option<Arc<Entry<K>>>;

/// A removed result and its specs, to be dropped after the locks are released, because a destructor is the caller's code.
pub(super) type Dropped<K> = (Cached<K>, SpecTable<K>);

impl<K: Reduction> Slot<K> {
    /// Returns the kept result, of whichever handle.
    #[inline]
    pub(super) fn cached(&self) -> Cached<K> {
        self.entry.load_full()
    }

    #[inline]
    pub(super) fn count_hit(&self) {
        self.hits.fetch_add(1, Ordering::Relaxed);
    }

    /// Gives a slot that was never used, or whose kernel was removed, to `handle`.
    pub(super) fn register(&self, handle: Handle, kernel: Arc<K>) {
        let mut state = self.state.lock();
        state.handle = Some(handle);
        state.kernel = Some(kernel);
        state.without = MissCause::First;
    }

    pub(super) fn remove(&self, handle: Handle) -> Result<(Option<Arc<K>>, Dropped<K>), HandleError> {
        let mut state = self.state.lock();
        state.check(handle)?;
        Ok((state.kernel.take(), self.take(&mut state)))
    }

    /// Returns the kept result, and the cause of the next miss if there is none.
    pub(super) fn look(&self, handle: Handle) -> Result<(Cached<K>, MissCause), HandleError> {
        let state = self.state.lock();
        state.check(handle)?;
        Ok((self.entry.load_full(), state.without))
    }

    pub(super) fn invalidate(&self, handle: Handle) -> Result<Dropped<K>, HandleError> {
        let mut state = self.state.lock();
        state.check(handle)?;
        Ok(self.take(&mut state))
    }

    /// Invalidates the result, of whichever handle.
    pub(super) fn forget(&self) -> Dropped<K> {
        self.take(&mut self.state.lock())
    }

    /// Begins an evaluation of `handle` and moves the specs into it: concurrent evaluations begin without specs.
    pub(super) fn begin(&self, handle: Handle, moved: Option<MissCause>) -> Result<Begun<K>, HandleError> {
        let mut state = self.state.lock();
        let kernel = Arc::clone(state.check(handle)?);
        let specs = mem::take(&mut state.specs);
        Ok(Begun { kernel, specs, cause: moved.unwrap_or(state.without), invalidations: state.invalidations })
    }

    /// Takes back the specs of an evaluation that failed. Returns false if they were invalidated meanwhile.
    pub(super) fn give_back(&self, handle: Handle, begun: Begun<K>) -> bool {
        self.end(handle, begun, |_, is_undisturbed| is_undisturbed)
    }

    /// Keeps imported specs, and the imported result if there is none yet. Returns whether the result was kept, or nothing if
    /// neither was.
    pub(super) fn take_over(&self, handle: Handle, entry: &Cached<K>, begun: Begun<K>) -> Option<bool> {
        self.end(handle, begun, |_, is_undisturbed| {
            let is_first = is_undisturbed && entry.is_some() && self.cached().is_none();
            if is_first {
                self.entry.swap(entry.clone());
            }
            is_undisturbed.then_some(is_first)
        })
    }

    /// Ends an evaluation: keeps its specs, and its result unless `not_cached` is given.
    pub(super) fn install(
        &self,
        entry: Arc<Entry<K>>,
        not_cached: Option<NotCached>,
        mut counted: MemoStatistics,
        begun: Begun<K>,
    ) -> Launched<K> {
        let (not_cached, _replaced) = self.end(entry.handle(), begun, |state, is_undisturbed| {
            let (not_cached, replaced) = match not_cached {
                _ if !is_undisturbed => (Some(NotCached::Invalidated), None),
                None => (None, self.entry.swap(Some(Arc::clone(&entry)))),
                Some(reason) => {
                    state.without = MissCause::NotCached(reason);
                    (not_cached, None)
                }
            };
            counted.not_cached = not_cached.is_some().into();
            state.statistics += counted;
            (not_cached, replaced)
        });
        Launched::evaluated(entry, not_cached)
    }

    /// Ends an evaluation: keeps its specs, unless another evaluation brought more, if the handle was not invalidated or removed
    /// meanwhile, which `work` is told. Replaced values are dropped after the locks are released: a destructor is the caller's code.
    fn end<R>(&self, handle: Handle, mut begun: Begun<K>, work: impl FnOnce(&mut State<K>, bool) -> R) -> R {
        let mut state = self.state.lock();
        let is_undisturbed = state.check(handle).is_ok() && state.invalidations == begun.invalidations;
        if is_undisturbed && begun.specs.len() >= state.specs.len() {
            mem::swap(&mut state.specs, &mut begun.specs);
        }
        work(&mut state, is_undisturbed)
    }

    /// Adds the counters of this slot, for all its handles.
    pub(super) fn add_to(&self, sum: &mut MemoStatistics) {
        sum.hits += self.hits.load(Ordering::Relaxed);
        *sum += self.state.lock().statistics;
    }

    fn take(&self, state: &mut State<K>) -> Dropped<K> {
        state.invalidations += 1;
        state.without = MissCause::Invalidated;
        (self.entry.swap(None), mem::take(&mut state.specs))
    }
}

impl<K: Reduction> Default for Slot<K> {
    fn default() -> Self {
        let state = State {
            handle: None,
            kernel: None,
            specs: SpecTable::default(),
            without: MissCause::First,
            invalidations: 0,
            statistics: MemoStatistics::default(),
        };
        Self { entry: Shared::empty(), hits: AtomicU64::new(0), state: Mutex::new(state) }
    }
}

impl<K: Reduction> State<K> {
    /// Returns the kernel of `handle`, if that is the handle of this slot.
    fn check(&self, handle: Handle) -> Result<&Arc<K>, HandleError> {
        match &self.kernel {
            Some(kernel) if self.handle == Some(handle) => Ok(kernel),
            _ if self.handle.is_none() => Err(HandleError::Unknown(handle)),
            _ => Err(HandleError::Stale(handle)),
        }
    }
}

//! The launch memo for threads: keeps results that are computed at each launch, nearly always from the same inputs.
//!
//! [`SharedMemo`] keeps the results and can be used from every thread. The types that describe a reduction and a world are here too.
//!
//! - **A hit never waits.** It takes no lock, copies nothing and allocates nothing, whatever other threads evaluate,
//!   register or invalidate. Only the first launch of a thread allocates, once: the thread becomes known to all memos.
//! - **No lock is held while the caller's code runs:** evaluations, worlds and destructors may launch, register, invalidate and
//!   remove.
//! - **Two threads that miss both evaluate.** Waiting could be for ever: the other evaluation may wait for this thread.
//! - **A result evaluated during an invalidation is not kept.** It is returned, and [`Launched::not_cached`] says so.
//!
//! ```
//! use std::{convert::Infallible, thread};
//!
//! use warmstart::memo::{Evaluate, FieldId, LaunchError, Recorder, Reduction, SharedMemo, Tracked, World};
//!
//! /// Needs a stack as deep as its loop is long.
//! struct Kernel {
//!     trip_count: FieldId,
//! }
//!
//! impl Reduction for Kernel {
//!     type Spec = Infallible;
//!     type Value = Infallible;
//!     type Output = u32;
//!     type Error = Infallible;
//! }
//!
//! impl<W: World<Field = u32>> Evaluate<W> for Kernel {
//!     fn launch(&self, recorder: &mut Recorder<'_, Self, W>) -> Result<u32, LaunchError<Infallible>> {
//!         Ok(recorder.field(self.trip_count).map_or(0, |count| count * 16))
//!     }
//!
//!     fn spec(&self, spec: &Infallible, _: &mut Recorder<'_, Self, W>) -> Result<Infallible, LaunchError<Infallible>> {
//!         match *spec {}
//!     }
//! }
//!
//! let mut world = Tracked::<u32, ()>::new();
//! let trip_count = world.add_field(9);
//! let memo = SharedMemo::new();
//! let kernel = memo.register(Kernel { trip_count });
//!
//! assert_eq!(*memo.launch(kernel, &world.with_arguments(&[])).unwrap(), 144);
//! thread::scope(|scope| {
//!     for _ in 0..2 {
//!         scope.spawn(|| assert!(memo.launch(kernel, &world.with_arguments(&[])).unwrap().is_hit()));
//!     }
//! });
//!
//! *world.field_mut(trip_count).unwrap() = 20;
//! assert_eq!(*memo.launch(kernel, &world.with_arguments(&[])).unwrap(), 320);
//! assert_eq!(memo.statistics().hits, 2);
//! ```

use std::{fmt, num::NonZeroU32, sync::Arc};

pub use warmstart_core::memo::{
    AllocationId, ArgumentId, Arguments, Binding, Contents, Dependencies, Dependency, Entry, Evaluate,
    FieldId, Generation, Handle, HandleError, Imported, LaunchError, Launched, MemoId, MemoStatistics,
    MissCause, NotCached, Portable, PortableError, PortableResult, Recorder, Reduction, SpecTable, Tracked,
    World, WorldId,
};

mod slot;
mod sync;
mod table;

#[cfg(all(test, loom))]
mod models;
#[cfg(test)]
mod scene;
#[cfg(all(test, not(loom)))]
mod tests;

use slot::{Cached, Dropped, Slot};
use sync::Mutex;
use table::Table;

/// Keeps the result of the last launch of each handle, for all threads.
///
/// One result a handle: launches of a kernel with two sets of arguments in turns miss, so register it once for
/// each set. Launches of distinct handles write to no memory that they share.
///
/// Aligned to two cache lines, so that it can lie on the stack of a thread that writes beside it while others launch. Where a world
/// lies is for its owner to consider.
///
/// ```
/// use std::convert::Infallible;
///
/// use warmstart::memo::{Evaluate, FieldId, LaunchError, Recorder, Reduction, SharedMemo, Tracked, World};
///
/// /// Needs a stack as deep as the longest of several loops.
/// struct Kernel {
///     trip_counts: Vec<FieldId>,
/// }
///
/// impl Reduction for Kernel {
///     type Spec = usize;
///     type Value = u32;
///     type Output = Vec<u32>;
///     type Error = Infallible;
/// }
///
/// impl<W: World<Field = Vec<u32>>> Evaluate<W> for Kernel {
///     fn launch(&self, recorder: &mut Recorder<'_, Self, W>) -> Result<Vec<u32>, LaunchError<Infallible>> {
///         (0..self.trip_counts.len()).map(|spec| recorder.spec(spec)).collect()
///     }
///
///     fn spec(&self, spec: &usize, recorder: &mut Recorder<'_, Self, W>) -> Result<u32, LaunchError<Infallible>> {
///         let field = recorder.field(self.trip_counts[*spec]);
///         Ok(field.and_then(|counts| counts.iter().copied().max()).unwrap_or(0))
///     }
/// }
///
/// let mut world = Tracked::<Vec<u32>, ()>::new();
/// let trip_counts = vec![world.add_field(vec![3, 9, 4]), world.add_field(vec![7])];
/// let memo = SharedMemo::new();
/// let kernel = memo.register(Kernel { trip_counts: trip_counts.clone() });
///
/// let depths = memo.launch(kernel, &world.with_arguments(&[])).unwrap();
/// assert_eq!((&depths[..], depths.is_hit()), (&[9, 7][..], false));
/// assert!(memo.launch(kernel, &world.with_arguments(&[])).unwrap().is_hit());
///
/// world.field_mut(trip_counts[1]).unwrap().push(20);
/// let again = memo.launch(kernel, &world.with_arguments(&[])).unwrap();
/// assert_eq!(again[..], [9, 20]);
/// assert_eq!(again.miss_cause().to_string(), "field 1 at generation 0 is now field 1 at generation 1");
/// assert_eq!(memo.statistics().spec_hits, 1, "the first spec did not move");
/// assert_eq!(depths[..], [9, 7], "who holds a result keeps it");
/// ```
#[repr(align(128))]
pub struct SharedMemo<K: Reduction> {
    id: MemoId,
    table: Table<K>,
    handles: Mutex<Handles>,
}

/// The handles to issue next.
struct Handles {
    /// The number of slots ever used.
    places: u64,
    /// The next handles of the slots of removed kernels.
    free: Vec<Handle>,
}

impl<K: Reduction> SharedMemo<K> {
    /// Creates an empty memo.
    #[must_use]
    pub fn new() -> Self {
        let handles = Mutex::new(Handles { places: 0, free: Vec::new() });
        Self { id: MemoId::unused(), table: Table::new(), handles }
    }

    /// Registers `kernel`, and returns its handle, which is valid until it is [removed](Self::remove).
    ///
    /// # Panics
    /// If there are 2^32 handles.
    pub fn register(&self, kernel: K) -> Handle {
        let kernel = Arc::new(kernel);
        let (handle, slot) = {
            let mut handles = self.handles.lock();
            let handle = handles.take(self.id);
            // Under the lock: a fork while the table grows would leave it growing for ever in the child.
            (handle, self.table.get_or_grow(handle.index()))
        };
        slot.register(handle, kernel);
        handle
    }

    /// Removes the kernel of `handle` with its results. The handle is stale from now on.
    ///
    /// # Errors
    /// If the handle is unknown or stale.
    pub fn remove(&self, handle: Handle) -> Result<(), HandleError> {
        // Dropped after the locks are gone: a destructor may launch.
        let _removed = self.find(handle)?.remove(handle)?;
        self.handles.lock().free.extend(handle.next());
        Ok(())
    }

    /// Returns the result of `handle` in `world`: the kept one if its dependencies are unchanged, else a new one.
    ///
    /// # Errors
    /// If the handle is unknown or stale, or if the evaluation fails. Kept results stay.
    #[inline]
    pub fn launch<W>(&self, handle: Handle, world: &W) -> Result<Launched<K>, LaunchError<K::Error>>
    where
        K: Evaluate<W>,
        W: World + ?Sized,
    {
        let slot = self.table.get(handle.index());
        let cached = slot.and_then(Slot::cached);
        match (slot, cached) {
            (Some(slot), Some(entry)) if entry.holds(handle, world) => {
                slot.count_hit();
                Ok(Launched::hit(entry))
            }
            (_, cached) => self.evaluate(handle, world, cached),
        }
    }

    /// Returns the kept result of `handle`, if its dependencies are unchanged in `world`. Evaluates nothing.
    #[must_use]
    pub fn peek<W: World + ?Sized>(&self, handle: Handle, world: &W) -> Option<Launched<K>> {
        let cached = self.table.get(handle.index())?.cached();
        cached.filter(|entry| entry.holds(handle, world)).map(Launched::hit)
    }

    /// Returns the cause why the next launch of `handle` in `world` would be evaluated, or nothing if it would hit.
    ///
    /// # Errors
    /// If the handle is unknown or stale.
    pub fn explain<W: World + ?Sized>(
        &self,
        handle: Handle,
        world: &W,
    ) -> Result<Option<MissCause>, HandleError> {
        let (cached, without) = self.find(handle)?.look(handle)?;
        Ok(cached.map_or(Some(without), |entry| entry.moved(world)))
    }

    /// Removes the result of `handle` and its specs, and keeps no evaluation in progress: for changes that no generation counts.
    /// A launch that begins after this returns, in any thread, gets no earlier result.
    ///
    /// # Errors
    /// If the handle is unknown or stale.
    pub fn invalidate(&self, handle: Handle) -> Result<(), HandleError> {
        let _dropped_after_the_lock = self.find(handle)?.invalidate(handle)?;
        Ok(())
    }

    /// Removes all results and their specs, one after the other, as [`invalidate`](Self::invalidate) does. Handles stay valid.
    pub fn invalidate_all(&self) {
        // All are removed before the first destructor runs, which may panic.
        let _dropped_after_the_locks: Vec<Dropped<K>> = self.table.iter().map(Slot::forget).collect();
    }

    /// Exports the kept results of `handle` for other processes under the name `kernel`, as far as they hold in `world` and all their
    /// dependencies have digests. A [`LaunchRecord`](crate::launch_record::LaunchRecord) carries them beside the artifact.
    ///
    /// ```
    /// use std::convert::Infallible;
    ///
    /// use warmstart::{
    ///     Artifact, Key, KeyFields,
    ///     launch_record::LaunchRecord,
    ///     memo::{Evaluate, FieldId, LaunchError, Portable, Recorder, Reduction, SharedMemo, Tracked, World},
    /// };
    ///
    /// struct Kernel {
    ///     trip_count: FieldId,
    /// }
    ///
    /// impl Reduction for Kernel {
    ///     type Spec = ();
    ///     type Value = ();
    ///     type Output = u64;
    ///     type Error = Infallible;
    /// }
    ///
    /// impl<W: World<Field = u64>> Evaluate<W> for Kernel {
    ///     fn launch(&self, recorder: &mut Recorder<'_, Self, W>) -> Result<u64, LaunchError<Infallible>> {
    ///         Ok(recorder.field(self.trip_count).map_or(0, |count| count * 16))
    ///     }
    ///
    ///     fn spec(&self, (): &(), _: &mut Recorder<'_, Self, W>) -> Result<(), LaunchError<Infallible>> {
    ///         Ok(())
    ///     }
    /// }
    ///
    /// impl Portable for Kernel {
    ///     fn fingerprint(&self) -> Key {
    ///         KeyFields::new("stack of a loop", 1).number("trip count", self.trip_count.0.into()).key()
    ///     }
    /// }
    ///
    /// // One process launches, and keeps the result with the artifact.
    /// let (mut world, memo) = (Tracked::<u64, ()>::new(), SharedMemo::new());
    /// let kernel = memo.register(Kernel { trip_count: world.add_field(9) });
    /// assert_eq!(*memo.launch(kernel, &world.with_arguments(&[]))?, 144);
    /// let result = memo.export(kernel, "solve", &world.with_arguments(&[]))?;
    /// let artifact = LaunchRecord::new().with_result(result).attach(&Artifact::new(b"code".to_vec()))?;
    ///
    /// // Another one loads the artifact, and finds the same contents: its first launch hits.
    /// let (mut world, memo) = (Tracked::<u64, ()>::new(), SharedMemo::new());
    /// let kernel = memo.register(Kernel { trip_count: world.add_field(9) });
    /// if let Some(result) = LaunchRecord::of(&artifact)?.as_ref().and_then(|record| record.result("solve")) {
    ///     assert!(memo.import(kernel, result, &world.with_arguments(&[]))?.output);
    /// }
    /// assert!(memo.launch(kernel, &world.with_arguments(&[]))?.is_hit());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the handle is unknown or stale, if no kept result holds, if the handle is invalidated meanwhile, or if no dependency has a
    /// digest.
    pub fn export<W>(&self, handle: Handle, kernel: &str, world: &W) -> Result<PortableResult, PortableError>
    where
        K: Portable,
        W: Contents + ?Sized,
    {
        let slot = self.find(handle).map_err(PortableError::Handle)?;
        let begun = slot.begin(handle, None).map_err(PortableError::Handle)?;
        // After `begun`: what was invalidated before that is not there any more.
        let cached = slot.cached().filter(|entry| entry.handle() == handle);
        let result = PortableResult::export(kernel, &*begun.kernel, cached.as_deref(), &begun.specs, world);
        // Digests may be of what the invalidation was for.
        if slot.give_back(handle, begun) { result } else { Err(PortableError::NotCached) }
    }

    /// Imports the results of another process, as far as the contents are the same in `world`. Results already kept stay.
    ///
    /// # Errors
    /// If the handle is unknown or stale, or if the result is of another [fingerprint](Portable::fingerprint) or contradicts itself: then
    /// nothing is taken over, and the next launch evaluates.
    pub fn import<W>(
        &self,
        handle: Handle,
        result: &PortableResult,
        world: &W,
    ) -> Result<Imported, PortableError>
    where
        K: Portable,
        W: Contents + ?Sized,
    {
        let slot = self.find(handle).map_err(PortableError::Handle)?;
        let mut begun = slot.begin(handle, None).map_err(PortableError::Handle)?;
        match result.import(handle, &*begun.kernel, &mut begun.specs, world) {
            Ok((entry, imported)) => {
                let taken_over = slot.take_over(handle, &entry.map(Arc::new), begun);
                Ok(taken_over.map_or_else(Imported::default, |output| Imported { output, ..imported }))
            }
            Err(error) => {
                slot.give_back(handle, begun);
                Err(error)
            }
        }
    }

    /// Returns the counters since the memo was created. Concurrent launches may be counted or not.
    #[must_use]
    pub fn statistics(&self) -> MemoStatistics {
        let mut sum = MemoStatistics::default();
        self.table.iter().for_each(|slot| slot.add_to(&mut sum));
        sum
    }

    fn find(&self, handle: Handle) -> Result<&Slot<K>, HandleError> {
        let slot = if handle.memo() == self.id { self.table.get(handle.index()) } else { None };
        slot.ok_or(HandleError::Unknown(handle))
    }

    /// Apart from [`launch`](Self::launch), so that a hit has little code.
    #[cold]
    #[inline(never)]
    fn evaluate<W>(
        &self,
        handle: Handle,
        world: &W,
        cached: Cached<K>,
    ) -> Result<Launched<K>, LaunchError<K::Error>>
    where
        K: Evaluate<W>,
        W: World + ?Sized,
    {
        let slot = self.find(handle).map_err(LaunchError::Handle)?;
        // Before anything is locked: the world is the caller's code.
        let moved = cached.filter(|entry| entry.handle() == handle).and_then(|entry| entry.moved(world));
        let mut begun = slot.begin(handle, moved).map_err(LaunchError::Handle)?;
        match Entry::evaluate(handle, &*begun.kernel, world, begun.cause, &mut begun.specs) {
            Ok((entry, not_cached, counted)) => Ok(slot.install(Arc::new(entry), not_cached, counted, begun)),
            Err(error) => {
                slot.give_back(handle, begun);
                Err(error)
            }
        }
    }
}

impl<K: Reduction> Default for SharedMemo<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Reduction> fmt::Debug for SharedMemo<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedMemo").field("statistics", &self.statistics()).finish_non_exhaustive()
    }
}

impl Handles {
    fn take(&mut self, memo: MemoId) -> Handle {
        self.free.pop().unwrap_or_else(|| {
            let place = u32::try_from(self.places).expect("fewer than 2^32 kernels are registered");
            self.places += 1;
            Handle::new(memo, place, NonZeroU32::MIN)
        })
    }
}

//! The launch memo that threads share: a result that is computed at each launch, and nearly always from the same things.
//!
//! [`SharedMemo`] keeps what [`LaunchMemo`] keeps, answers as it does, and can be launched from every thread. Everything that is needed to
//! describe a reduction and a world is here too; [`Evaluate`] says how.
//!
//! - **A hit waits for nobody.** It takes no lock, copies nothing and allocates nothing, whatever other threads evaluate,
//!   register or invalidate. Only the first launch of a thread allocates, once: the thread becomes known to all memos.
//! - **Nothing is locked while code of others runs:** no evaluation, no question to a world, no destructor. Each may launch, register,
//!   invalidate and remove.
//! - **Two threads that miss evaluate both.** To wait for the other could be for ever: what it evaluates may wait for this thread.
//! - **What was evaluated across an invalidation is not kept.** It is handed out, and [`Launched::unkept`] says so.
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

use std::{fmt, sync::Arc};

pub use warmstart_core::memo::{
    AllocationId, ArgumentId, Arguments, Binding, Contents, Dependencies, Dependency, Entry, Evaluate,
    Evaluated, FieldId, Generation, Handle, HandleError, Imported, LaunchError, LaunchMemo, Launched, MemoId,
    MemoStatistics, Portable, PortableError, PortableResult, Recorder, Reduction, SpecTable, Tracked, Unkept,
    Why, World, WorldId,
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

use slot::{Dropped, Kept, Slot};
use sync::Mutex;
use table::Table;

/// Keeps the result of the last launch of each handle, for all threads.
///
/// One result a handle, as in a [`LaunchMemo`]: launches of a kernel with two sets of arguments in turns miss, so register it once for
/// each set. Launches of distinct handles write to no memory that they share. See the [module](self) for an example.
///
/// Aligned to two cache lines, so that it can lie on the stack of a thread that writes beside it while others launch. Where a world
/// lies is for its owner to consider.
#[repr(align(128))]
pub struct SharedMemo<K: Reduction> {
    id: MemoId,
    table: Table<K>,
    handles: Mutex<Handles>,
}

/// Which handle is given next.
struct Handles {
    /// How many places were ever used.
    places: u64,
    /// The handles that the places of removed kernels have next.
    free: Vec<Handle>,
}

impl<K: Reduction> SharedMemo<K> {
    /// A memo that keeps nothing yet.
    #[must_use]
    pub fn new() -> Self {
        let handles = Mutex::new(Handles { places: 0, free: Vec::new() });
        Self { id: MemoId::unused(), table: Table::new(), handles }
    }

    /// Names `kernel` by a handle, until it is [removed](Self::remove).
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

    /// Forgets what `handle` names, and all that was kept for it. The handle is stale from now on.
    ///
    /// # Errors
    /// If the handle is unknown or stale.
    pub fn remove(&self, handle: Handle) -> Result<(), HandleError> {
        // Dropped after the locks are gone: a destructor may launch.
        let _removed = self.find(handle)?.remove(handle)?;
        self.handles.lock().free.extend(handle.next());
        Ok(())
    }

    /// The result for `handle` in `world`: the one that is kept if nothing has moved, else a new one.
    ///
    /// # Errors
    /// If the handle is unknown or stale, or if the evaluation fails. Then what was kept stays.
    #[inline]
    pub fn launch<W>(&self, handle: Handle, world: &W) -> Result<Launched<K>, LaunchError<K::Error>>
    where
        K: Evaluate<W>,
        W: World + ?Sized,
    {
        let slot = self.table.get(handle.index());
        let kept = slot.and_then(Slot::kept);
        match (slot, kept) {
            (Some(slot), Some(entry)) if entry.holds(handle, world) => {
                slot.count_hit();
                Ok(Launched::hit(entry))
            }
            (_, kept) => self.evaluate(handle, world, kept),
        }
    }

    /// The result that is kept for `handle`, if nothing has moved in `world`. Evaluates nothing.
    #[must_use]
    pub fn peek<W: World + ?Sized>(&self, handle: Handle, world: &W) -> Option<Launched<K>> {
        let kept = self.table.get(handle.index())?.kept();
        kept.filter(|entry| entry.holds(handle, world)).map(Launched::hit)
    }

    /// Why the next launch of `handle` in `world` would be evaluated; nothing if it would hit.
    ///
    /// # Errors
    /// If the handle is unknown or stale.
    pub fn explain<W: World + ?Sized>(&self, handle: Handle, world: &W) -> Result<Option<Why>, HandleError> {
        let (kept, without) = self.find(handle)?.look(handle)?;
        Ok(kept.map_or(Some(without), |entry| entry.moved(world)))
    }

    /// Forgets the result for `handle` and its specs, and what is being evaluated for it: for what changed without being counted.
    /// A launch that begins after this has returned, in any thread, gets nothing from before.
    ///
    /// # Errors
    /// If the handle is unknown or stale.
    pub fn invalidate(&self, handle: Handle) -> Result<(), HandleError> {
        let _dropped_after_the_lock = self.find(handle)?.invalidate(handle)?;
        Ok(())
    }

    /// Forgets all results and their specs, one after the other, as [`invalidate`](Self::invalidate) does. Handles stay.
    pub fn invalidate_all(&self) {
        // All are forgotten before the first destructor runs: it may panic.
        let _dropped_after_the_locks: Vec<Dropped<K>> = self.table.iter().map(Slot::forget).collect();
    }

    /// What is kept for `handle`, in a form that another process can take over under the name `kernel`: what holds in `world` and is made of
    /// what has digests. A [`LaunchRecord`](crate::LaunchRecord) carries it beside the artifact.
    ///
    /// # Errors
    /// If the handle is unknown or stale, if nothing is kept that holds, if it is invalidated meanwhile, or if nothing of it has
    /// digests.
    pub fn export<W>(&self, handle: Handle, kernel: &str, world: &W) -> Result<PortableResult, PortableError>
    where
        K: Portable,
        W: Contents + ?Sized,
    {
        let slot = self.find(handle).map_err(PortableError::Handle)?;
        let begun = slot.begin(handle, None).map_err(PortableError::Handle)?;
        // After `begun`: what was invalidated before that is not there any more.
        let kept = slot.kept().filter(|entry| entry.handle() == handle);
        let result = PortableResult::export(kernel, &*begun.kernel, kept.as_deref(), &begun.specs, world);
        // Digests may be of what the invalidation was for.
        if slot.give_back(handle, begun) { result } else { Err(PortableError::NotKept) }
    }

    /// Takes over what another process computed, as far as the contents are the same in `world`. What is kept already stays.
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
            Ok((entry, imported)) => Ok(slot.take_over(handle, entry.map(Arc::new), begun, imported)),
            Err(error) => {
                slot.give_back(handle, begun);
                Err(error)
            }
        }
    }

    /// What was counted since the memo was made. What other threads do meanwhile may be counted or not.
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
        kept: Kept<K>,
    ) -> Result<Launched<K>, LaunchError<K::Error>>
    where
        K: Evaluate<W>,
        W: World + ?Sized,
    {
        let slot = self.find(handle).map_err(LaunchError::Handle)?;
        // Asked before anything is locked: the world is code of others.
        let moved = kept.filter(|entry| entry.handle() == handle).and_then(|entry| entry.moved(world));
        let mut begun = slot.begin(handle, moved).map_err(LaunchError::Handle)?;
        match Entry::evaluate(handle, &*begun.kernel, world, begun.why, &mut begun.specs) {
            Ok(evaluated) => Ok(slot.install(evaluated, begun)),
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
            Handle::first(memo, place)
        })
    }
}

//! The launch memo: a result that is computed at each launch, and nearly always from the same things.
//!
//! A runtime sizes stacks, bounds loops and picks tiles just before it launches a kernel, from fields and arrays that
//! hardly ever change. The memo keeps such a result under the [`Handle`] of what is launched, together with everything that was observed
//! while it was computed. At the next launch it asks whether all of that is as it was: a look at each distinct dependency, one reference
//! counted, nothing copied, nothing allocated. See [`Evaluate`] for an example.
//!
//! | type | is |
//! |---|---|
//! | [`World`], [`Tracked`] | what a launch can observe, and one that counts by itself what is written |
//! | [`Reduction`], [`Evaluate`] | what is computed, and how |
//! | [`Recorder`] | the only door to the world, so that every dependency is known |
//! | [`LaunchMemo`], [`Launched`] | what keeps results, and a result |
//! | [`Entry`], [`SpecTable`], [`Dependencies`] | what a memo is made of, for those who write another |
//!
//! [`LaunchMemo`] belongs to one thread. The native crate has one that threads share.

use alloc::{sync::Arc, vec::Vec};
use core::{
    cell::{Cell, RefCell},
    fmt, mem,
};

mod dependencies;
mod handle;
mod launched;
mod notes;
mod portable;
mod portable_bytes;
mod recorder;
mod reduction;
mod specs;
mod statistics;
#[cfg(test)]
mod tests;
mod tracked;
mod world;

pub use dependencies::{Dependencies, Dependency};
pub use handle::{Handle, HandleError, MemoId};
pub use launched::{Entry, Evaluated, Launched, Why};
pub use portable::{Contents, Imported, Portable, PortableError, PortableResult};
pub use recorder::{Evaluate, LaunchError, Recorder};
pub use reduction::{Reduction, Unkept};
pub use specs::SpecTable;
pub use statistics::MemoStatistics;
pub use tracked::{Arguments, Tracked};
pub use world::{AllocationId, ArgumentId, Binding, FieldId, Generation, World, WorldId};

/// Keeps the result of the last launch of each handle.
///
/// One result a handle: where a kernel is launched with two sets of arguments in turns, as with two buffers that are swapped, each
/// launch is a miss. Register it once for each set.
///
/// It can be launched from within an evaluation, or from within a [`World`]: nothing is borrowed while code of others runs.
pub struct LaunchMemo<K: Reduction> {
    id: MemoId,
    slots: RefCell<Slots<K>>,
    statistics: Cell<MemoStatistics>,
}

struct Slots<K: Reduction> {
    slots: Vec<Slot<K>>,
    /// The handles that the places of removed kernels have next.
    free: Vec<Handle>,
}

/// What is kept for a handle. The result and its specs lie side by side: whatever takes one takes both.
struct Slot<K: Reduction> {
    handle: Handle,
    /// Nothing if it was removed.
    kernel: Option<Arc<K>>,
    entry: Option<Arc<Entry<K>>>,
    specs: SpecTable<K>,
    /// Why there is no entry, where there is none.
    without: Why,
    /// Counts invalidations, so that what was evaluated across one is not kept.
    invalidations: u64,
}

/// What an evaluation begins with.
struct Begun<K: Reduction> {
    kernel: Arc<K>,
    specs: SpecTable<K>,
    why: Why,
    invalidations: u64,
}

impl<K: Reduction> LaunchMemo<K> {
    /// A memo that keeps nothing yet.
    #[must_use]
    pub fn new() -> Self {
        let slots = Slots { slots: Vec::new(), free: Vec::new() };
        Self { id: MemoId::unused(), slots: RefCell::new(slots), statistics: Cell::default() }
    }

    /// Names `kernel` by a handle, until it is [removed](Self::remove).
    ///
    /// # Panics
    /// If there are 2^32 handles.
    pub fn register(&self, kernel: K) -> Handle {
        let kernel = Arc::new(kernel);
        let mut slots = self.slots.borrow_mut();
        if let Some(handle) = slots.free.pop() {
            slots.slots[handle.index()] = Slot::new(handle, kernel);
            return handle;
        }
        let index = u32::try_from(slots.slots.len()).expect("fewer than 2^32 kernels are registered");
        let handle = Handle::first(self.id, index);
        slots.slots.push(Slot::new(handle, kernel));
        handle
    }

    /// Forgets what `handle` names, and all that was kept for it. The handle is stale from now on.
    ///
    /// # Errors
    /// If the handle is unknown or stale.
    pub fn remove(&self, handle: Handle) -> Result<(), HandleError> {
        // Dropped after the borrow has ended: a destructor may launch.
        let _removed = {
            let mut slots = self.slots.borrow_mut();
            let slot = slots.find(self.id, handle)?;
            slot.invalidations += 1;
            let removed = (slot.kernel.take(), slot.entry.take(), mem::take(&mut slot.specs));
            slots.free.extend(handle.next());
            removed
        };
        Ok(())
    }

    /// The result for `handle` in `world`: the one that is kept if nothing has moved, else a new one.
    ///
    /// # Errors
    /// If the handle is unknown or stale, or if the evaluation fails. Then what was kept stays.
    pub fn launch<W>(&self, handle: Handle, world: &W) -> Result<Launched<K>, LaunchError<K::Error>>
    where
        K: Evaluate<W>,
        W: World + ?Sized,
    {
        let kept = self.kept(handle);
        match kept {
            Some(entry) if entry.holds(handle, world) => {
                self.count(|statistics| statistics.hits += 1);
                Ok(Launched::hit(entry))
            }
            kept => self.evaluate(handle, world, kept.as_deref()),
        }
    }

    /// The result that is kept for `handle`, if nothing has moved in `world`. Evaluates nothing.
    #[must_use]
    pub fn peek<W: World + ?Sized>(&self, handle: Handle, world: &W) -> Option<Launched<K>> {
        self.kept(handle).filter(|entry| entry.holds(handle, world)).map(Launched::hit)
    }

    /// Why the next launch of `handle` in `world` would be evaluated; nothing if it would hit.
    ///
    /// # Errors
    /// If the handle is unknown or stale.
    pub fn explain<W: World + ?Sized>(&self, handle: Handle, world: &W) -> Result<Option<Why>, HandleError> {
        let (entry, without) = {
            let mut slots = self.slots.borrow_mut();
            let slot = slots.find(self.id, handle)?;
            (slot.entry.clone(), slot.without)
        };
        Ok(entry.map_or(Some(without), |entry| entry.moved(world)))
    }

    /// Forgets the result for `handle` and its specs, and what is being evaluated for it: for what changed without being counted.
    ///
    /// # Errors
    /// If the handle is unknown or stale.
    pub fn invalidate(&self, handle: Handle) -> Result<(), HandleError> {
        let _dropped_after_the_borrow = self.slots.borrow_mut().find(self.id, handle)?.invalidate();
        Ok(())
    }

    /// Forgets all results and their specs. Handles stay.
    pub fn invalidate_all(&self) {
        let _dropped_after_the_borrow: Vec<_> =
            self.slots.borrow_mut().slots.iter_mut().map(Slot::invalidate).collect();
    }

    /// What is kept for `handle`, in a form that another process can take over under the name `kernel`: what holds in `world` and is
    /// made of what has digests.
    ///
    /// # Errors
    /// If the handle is unknown or stale, if nothing is kept that holds, if it is invalidated meanwhile, or if nothing of it has
    /// digests.
    pub fn export<W>(&self, handle: Handle, kernel: &str, world: &W) -> Result<PortableResult, PortableError>
    where
        K: Portable,
        W: Contents + ?Sized,
    {
        let entry = self.kept(handle).filter(|entry| entry.handle() == handle);
        let mut begun =
            self.slots.borrow_mut().begin(self.id, handle, None).map_err(PortableError::Handle)?;
        let result = PortableResult::export(kernel, &*begun.kernel, entry.as_deref(), &begun.specs, world);
        let is_undisturbed = self.slots.borrow_mut().give_back(handle, &mut begun);
        // Digests may be of what the invalidation was for.
        if is_undisturbed { result } else { Err(PortableError::NotKept) }
    }

    /// Takes over what another process computed, as far as the contents are the same in `world`. What is kept already stays.
    ///
    /// # Errors
    /// If the handle is unknown or stale, or if the result is of another [fingerprint](Portable::fingerprint) or contradicts
    /// itself: then nothing is taken over, and the next launch evaluates.
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
        let mut begun =
            self.slots.borrow_mut().begin(self.id, handle, None).map_err(PortableError::Handle)?;
        let (entry, imported) = match result.import(handle, &*begun.kernel, &mut begun.specs, world) {
            Ok((entry, imported)) => (entry.map(Arc::new), Ok(imported)),
            Err(error) => (None, Err(error)),
        };
        let taken = self.slots.borrow_mut().take_over(handle, entry.as_ref(), &mut begun);
        imported.map(|imported| match taken {
            Some(output) => Imported { output, ..imported },
            None => Imported::default(),
        })
    }

    /// What was counted since the memo was made.
    #[must_use]
    pub fn statistics(&self) -> MemoStatistics {
        self.statistics.get()
    }

    fn kept(&self, handle: Handle) -> Option<Arc<Entry<K>>> {
        self.slots.borrow().slots.get(handle.index())?.entry.clone()
    }

    fn evaluate<W>(
        &self,
        handle: Handle,
        world: &W,
        kept: Option<&Entry<K>>,
    ) -> Result<Launched<K>, LaunchError<K::Error>>
    where
        K: Evaluate<W>,
        W: World + ?Sized,
    {
        // Asked before the borrow: the world is code of others.
        let moved = kept.and_then(|entry| entry.moved(world));
        let mut begun = self.slots.borrow_mut().begin(self.id, handle, moved).map_err(LaunchError::Handle)?;
        let evaluated = Entry::evaluate(handle, &*begun.kernel, world, begun.why, &mut begun.specs);
        match evaluated {
            Err(error) => {
                self.slots.borrow_mut().give_back(handle, &mut begun);
                Err(error)
            }
            Ok(evaluated) => {
                self.count(|statistics| statistics.add(&evaluated));
                let entry = Arc::new(evaluated.entry);
                let (unkept, _dropped_after_the_borrow) =
                    self.slots.borrow_mut().install(&entry, evaluated.unkept, &mut begun);
                if unkept.is_some() {
                    self.count(|statistics| statistics.unkept += 1);
                }
                Ok(Launched::evaluated(entry, unkept))
            }
        }
    }

    fn count(&self, change: impl FnOnce(&mut MemoStatistics)) {
        let mut statistics = self.statistics.get();
        change(&mut statistics);
        self.statistics.set(statistics);
    }
}

impl<K: Reduction> Default for LaunchMemo<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Reduction> fmt::Debug for LaunchMemo<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slots = self.slots.borrow().slots.len();
        f.debug_struct("LaunchMemo").field("slots", &slots).field("statistics", &self.statistics()).finish()
    }
}

/// What an entry and specs were replaced by, or taken away with: to be dropped when nothing is borrowed any more, because a
/// destructor is code of others.
type Dropped<K> = (Option<Arc<Entry<K>>>, SpecTable<K>);

impl<K: Reduction> Slots<K> {
    fn find(&mut self, memo: MemoId, handle: Handle) -> Result<&mut Slot<K>, HandleError> {
        if handle.memo() != memo {
            return Err(HandleError::Unknown(handle));
        }
        let slot = self.slots.get_mut(handle.index()).ok_or(HandleError::Unknown(handle))?;
        if slot.handle == handle && slot.kernel.is_some() {
            Ok(slot)
        } else {
            Err(HandleError::Stale(handle))
        }
    }

    /// Lends out the specs of `handle` to an evaluation: who launches the same meanwhile begins without.
    fn begin(&mut self, memo: MemoId, handle: Handle, moved: Option<Why>) -> Result<Begun<K>, HandleError> {
        let slot = self.find(memo, handle)?;
        let kernel = slot.kernel.clone().ok_or(HandleError::Stale(handle))?;
        let specs = mem::take(&mut slot.specs);
        Ok(Begun { kernel, specs, why: moved.unwrap_or(slot.without), invalidations: slot.invalidations })
    }

    /// The slot of an evaluation, if nobody has invalidated it meanwhile.
    fn undisturbed(&mut self, handle: Handle, begun: &Begun<K>) -> Option<&mut Slot<K>> {
        self.find(handle.memo(), handle).ok().filter(|slot| slot.invalidations == begun.invalidations)
    }

    /// An evaluation failed: the specs that did not are kept. False if somebody has invalidated them meanwhile.
    fn give_back(&mut self, handle: Handle, begun: &mut Begun<K>) -> bool {
        let Some(slot) = self.undisturbed(handle, begun) else { return false };
        mem::swap(&mut slot.specs, &mut begun.specs);
        true
    }

    /// Keeps what another process computed: the specs, and the result where there is none. Whether the result was kept; nothing
    /// if nothing was.
    fn take_over(
        &mut self,
        handle: Handle,
        entry: Option<&Arc<Entry<K>>>,
        begun: &mut Begun<K>,
    ) -> Option<bool> {
        let slot = self.undisturbed(handle, begun)?;
        mem::swap(&mut slot.specs, &mut begun.specs);
        if slot.entry.is_none() {
            slot.entry = entry.cloned();
            return Some(entry.is_some());
        }
        Some(false)
    }

    /// An evaluation ended: keeps its result, unless there is a reason against it, and its specs.
    fn install(
        &mut self,
        entry: &Arc<Entry<K>>,
        unkept: Option<Unkept>,
        begun: &mut Begun<K>,
    ) -> (Option<Unkept>, Option<Arc<Entry<K>>>) {
        let Some(slot) = self.undisturbed(entry.handle(), begun) else {
            return (Some(Unkept::Invalidated), None);
        };
        mem::swap(&mut slot.specs, &mut begun.specs);
        match unkept {
            None => (None, slot.entry.replace(Arc::clone(entry))),
            Some(reason) => {
                slot.without = Why::NotKept(reason);
                (unkept, None)
            }
        }
    }
}

impl<K: Reduction> Slot<K> {
    fn new(handle: Handle, kernel: Arc<K>) -> Self {
        let specs = SpecTable::new();
        Self { handle, kernel: Some(kernel), entry: None, specs, without: Why::First, invalidations: 0 }
    }

    fn invalidate(&mut self) -> Dropped<K> {
        self.invalidations += 1;
        self.without = Why::Invalidated;
        (self.entry.take(), mem::take(&mut self.specs))
    }
}

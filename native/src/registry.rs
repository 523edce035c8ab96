//! The registry that threads share: which kernel and task an id in generated code stands for.
//!
//! [`SharedRegistry`] answers as [`Registry`] does. What it gives is the caller's own: nothing stays locked. One thing differs: what is
//! adopted again keeps its value, so that a launch in its steady state writes nothing.
//!
//! ```
//! use warmstart::registry::{Adopted, RegistryId, SharedRegistry};
//!
//! let registry = SharedRegistry::new();
//! let compiled = registry.register("compute_grad", 3, "its source")?;
//!
//! // Loaded from disk, with an id that another process has baked into it. Said again at every launch.
//! let loaded = RegistryId::home("compute_other", 3);
//! for _launch in 0..2 {
//!     assert_eq!(registry.adopt(loaded, "compute_other", 3, || "its artifact")?, Adopted::Alone);
//! }
//!
//! assert_eq!(registry.resolve(compiled).to_string(), "kernel `compute_grad`, task 3");
//! assert_eq!(*registry.resolve(loaded).one().unwrap().value(), "its artifact".into());
//! # Ok::<(), warmstart::registry::RegistryError>(())
//! ```

use std::{fmt, sync::Arc};

use crate::os::fork::{ReadGuard, RwLock, WriteGuard};

use warmstart_core::launch_record::LaunchRecord;
pub use warmstart_core::registry::{
    Adopted, PROBES, Registered, Registry, RegistryError, RegistryId, Resolution,
};

/// A [`Registry`] for all threads. Its values are shared by reference.
///
/// Look-ups, and [`adopt`](Self::adopt) of what is known, do not wait for each other. Nothing is locked while code of others runs: what is
/// passed in as a function, and the destructor of a value.
pub struct SharedRegistry<T = ()> {
    // A panic leaves nothing half done in it, so that it was poisoned means nothing.
    registry: RwLock<Registry<Arc<T>>>,
}

/// Whom an id stood for when it was asked for. Shown, it is a part of a message.
pub struct Resolved<T = ()> {
    rows: Vec<Registered<Arc<T>>>,
}

impl<T> SharedRegistry<T> {
    /// An empty registry. It takes no memory.
    #[must_use]
    pub const fn new() -> Self {
        Self { registry: RwLock::new(Registry::new()) }
    }

    /// The id to bake into code that is about to be compiled, as [`Registry::register`]. If the pair is known, its value is replaced.
    ///
    /// # Errors
    /// As [`Registry::register`].
    pub fn register(&self, kernel: &str, task: i32, value: T) -> Result<RegistryId, RegistryError> {
        let value = Arc::new(value);
        // Both outlive the lock, so that no destructor runs in it.
        let (spare, _replaced);
        let mut registry = self.write();
        spare = Arc::clone(&value);
        let known = registry.id_of(kernel, task);
        _replaced = known.and_then(|id| registry.verify(id, kernel, task)).map(|row| Arc::clone(row.value()));
        let registered = registry.register(kernel, task, value);
        drop(registry);
        drop(spare);
        registered
    }

    /// Takes over what loaded code says about itself, as [`Registry::adopt`]. To be called at every launch of it, or at the
    /// first.
    ///
    /// What is known keeps its value; it is found without allocating, and without waiting for others that adopt what is
    /// known. Else `value` makes one. Where several threads adopt the same at once, the first value stays.
    ///
    /// # Errors
    /// As [`Registry::adopt`].
    pub fn adopt(
        &self,
        id: RegistryId,
        kernel: &str,
        task: i32,
        value: impl FnOnce() -> T,
    ) -> Result<Adopted, RegistryError> {
        if let Some(adopted) = known(&self.read(), id, kernel, task) {
            return Ok(adopted);
        }
        let value = Arc::new(value());
        // Outlives the lock, so that no destructor runs in it.
        let spare = Arc::clone(&value);
        let mut registry = self.write();
        let adopted = match known(&registry, id, kernel, task) {
            Some(adopted) => Ok(adopted),
            None => registry.adopt(id, kernel, task, value),
        };
        drop(registry);
        drop(spare);
        adopted
    }

    /// Whom an id stands for, as far as the id alone can tell.
    #[must_use]
    pub fn resolve(&self, id: RegistryId) -> Resolved<T> {
        let rows = match self.read().resolve(id) {
            Resolution::Unknown => Vec::new(),
            Resolution::One(row) => vec![row.clone()],
            Resolution::Several(rows) => rows.into_iter().cloned().collect(),
        };
        Resolved { rows }
    }

    /// Whom an id stands for, among those rows of which `launched` says that they can have written it, as
    /// [`Registry::resolve_among`].
    #[must_use]
    pub fn resolve_among(
        &self,
        id: RegistryId,
        launched: impl FnMut(&Registered<Arc<T>>) -> bool,
    ) -> Resolved<T> {
        let mut resolved = self.resolve(id);
        resolved.rows.retain(launched);
        resolved
    }

    /// The value of exactly this id, kernel and task. Whoever uses what an id led to asks this first.
    #[must_use]
    pub fn verify(&self, id: RegistryId, kernel: &str, task: i32) -> Option<Arc<T>> {
        self.read().verify(id, kernel, task).map(|row| Arc::clone(row.value()))
    }

    /// The first id of this pair that is still here: the one that [`register`](Self::register) gives.
    #[must_use]
    pub fn id_of(&self, kernel: &str, task: i32) -> Option<RegistryId> {
        self.read().id_of(kernel, task)
    }

    /// A copy of every row.
    #[must_use]
    pub fn rows(&self) -> Vec<Registered<Arc<T>>> {
        self.read().iter().cloned().collect()
    }

    /// A copy of every row of a kernel, of any of its tasks. All rows are looked at for it.
    #[must_use]
    pub fn rows_of(&self, kernel: &str) -> Vec<Registered<Arc<T>>> {
        self.read().rows_of(kernel).cloned().collect()
    }

    /// The number of rows: of claims of a pair to an id.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read().len()
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.read().is_empty()
    }

    /// Removes the row of exactly this id, kernel and task, as [`Registry::remove`], and returns its value.
    pub fn remove(&self, id: RegistryId, kernel: &str, task: i32) -> Option<Arc<T>> {
        self.write().remove(id, kernel, task)
    }

    fn read(&self) -> ReadGuard<'_, Registry<Arc<T>>> {
        self.registry.read()
    }

    fn write(&self) -> WriteGuard<'_, Registry<Arc<T>>> {
        self.registry.write()
    }
}

/// What adopting gives for what is there already.
fn known<T>(registry: &Registry<T>, id: RegistryId, kernel: &str, task: i32) -> Option<Adopted> {
    registry.verify(id, kernel, task)?;
    let mut claims = 0;
    // Counts them without collecting them.
    let _nothing = registry.resolve_among(id, |_| {
        claims += 1;
        false
    });
    Some(if claims > 1 { Adopted::Shared } else { Adopted::Alone })
}

impl SharedRegistry {
    /// Takes over the ids in the code of an artifact, as [`LaunchRecord::adopt_into`].
    ///
    /// # Errors
    /// As [`adopt`](Self::adopt).
    pub fn adopt_record<'a>(&self, record: &'a LaunchRecord) -> Result<Vec<&'a Registered>, RegistryError> {
        let mut shared = Vec::new();
        for row in record.rows() {
            if self.adopt(row.id(), row.kernel(), row.task(), || ())? == Adopted::Shared {
                shared.push(row);
            }
        }
        Ok(shared)
    }
}

impl<T> Default for SharedRegistry<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for SharedRegistry<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedRegistry").field("rows", &self.len()).finish_non_exhaustive()
    }
}

impl<T> Resolved<T> {
    /// All rows that it may be, in the order of their names and tasks.
    #[must_use]
    pub fn rows(&self) -> &[Registered<Arc<T>>] {
        &self.rows
    }

    /// The row, if there is exactly one.
    #[must_use]
    pub const fn one(&self) -> Option<&Registered<Arc<T>>> {
        match self.rows.as_slice() {
            [row] => Some(row),
            _ => None,
        }
    }

    /// The same as a single thread's registry gives it.
    #[must_use]
    pub fn as_resolution(&self) -> Resolution<'_, Arc<T>> {
        match self.rows.as_slice() {
            [] => Resolution::Unknown,
            [row] => Resolution::One(row),
            rows => Resolution::Several(rows.iter().collect()),
        }
    }
}

impl<T> fmt::Display for Resolved<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_resolution().fmt(f)
    }
}

impl<T> fmt::Debug for Resolved<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Resolved({self})")
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Weak,
            atomic::{AtomicU32, Ordering},
            mpsc,
        },
        thread,
        time::Duration,
    };

    use super::*;

    /// Two names of one home.
    const NAMES: [&str; 2] = ["k10823927", "k21347034"];

    /// Fails, instead of waiting for ever, if `work` waits for something that this thread holds.
    fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        let (send, receive) = mpsc::channel();
        thread::spawn(move || send.send(work()));
        receive.recv_timeout(Duration::from_secs(60)).expect("it does not wait, and does not panic")
    }

    #[test]
    fn adopting_what_is_known_waits_for_no_reader_and_keeps_the_value() {
        let registry = Arc::new(SharedRegistry::new());
        let id = RegistryId::home(NAMES[0], 0);
        let adopt = |name, value| registry.adopt(id, name, 0, move || value);
        assert_eq!(adopt(NAMES[0], 1), Ok(Adopted::Alone));
        assert_eq!(adopt(NAMES[0], 2), Ok(Adopted::Alone));
        assert_eq!(adopt(NAMES[1], 3), Ok(Adopted::Shared));
        let _reading = registry.read();
        let other = Arc::clone(&registry);
        let adopted = in_time(move || other.adopt(id, NAMES[0], 0, || unreachable!("it is known")));
        assert_eq!(adopted, Ok(Adopted::Shared));
        assert_eq!(registry.verify(id, NAMES[0], 0).as_deref(), Some(&1));
    }

    #[test]
    fn an_id_that_two_kernels_bear_names_neither_alone_unless_the_caller_knows() {
        let registry = SharedRegistry::new();
        let id = RegistryId::home(NAMES[0], 0);
        assert_eq!(registry.resolve(id).to_string(), "a kernel that is not registered");
        for name in NAMES {
            registry.adopt(id, name, 0, || ()).unwrap();
        }
        let resolved = registry.resolve(id);
        assert_eq!((resolved.rows().len(), resolved.one()), (2, None));
        assert_eq!(resolved.to_string(), "kernel `k10823927`, task 0 or kernel `k21347034`, task 0");
        // The function may ask, too.
        let launched = registry.resolve_among(id, |row| registry.len() == 2 && row.kernel() == NAMES[1]);
        assert_eq!(launched.one().map(Registered::kernel), Some(NAMES[1]));
        assert!(registry.remove(id, NAMES[1], 0).is_some());
        assert_eq!(registry.resolve(id).one().map(Registered::kernel), Some(NAMES[0]));
    }

    #[test]
    fn what_is_refused_changes_nothing() {
        let registry = SharedRegistry::new();
        assert_eq!(registry.register("", 0, ()), Err(RegistryError::EmptyKernel));
        let (id, home) = (RegistryId::home("a", 0), RegistryId::home("b", 0));
        let refused = Err(RegistryError::IdOfAnotherName { id, home });
        assert_eq!(registry.adopt(id, "b", 0, || ()), refused);
        assert!(registry.is_empty());
    }

    /// Asks the registry when it is dropped.
    struct Asking(Weak<SharedRegistry<Self>>, Arc<AtomicU32>);

    impl Drop for Asking {
        fn drop(&mut self) {
            if let Some(registry) = self.0.upgrade() {
                registry.remove(RegistryId::home("other", 0), "other", 0);
                self.1.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    #[test]
    fn nothing_is_locked_while_a_value_is_made_or_dropped() {
        let registry = Arc::new(SharedRegistry::new());
        let dropped = Arc::new(AtomicU32::new(0));
        let asking = {
            let (registry, dropped) = (Arc::downgrade(&registry), Arc::clone(&dropped));
            move || Asking(Weak::clone(&registry), Arc::clone(&dropped))
        };
        let held = Arc::clone(&registry);
        in_time(move || {
            let id = held.register("kernel", 1, asking()).unwrap();
            assert_eq!(held.register("kernel", 1, asking()), Ok(id));
            held.register("", 1, asking()).unwrap_err();
            // It became known while its value was made.
            let meanwhile = || {
                held.register("late", 0, asking()).unwrap();
                asking()
            };
            held.adopt(RegistryId::home("late", 0), "late", 0, meanwhile).unwrap();
            held.adopt(id, "not of this id", 0, &asking).unwrap_err();
            held.remove(id, "kernel", 1).unwrap();
        });
        assert_eq!(dropped.load(Ordering::Relaxed), 5);
        assert_eq!(registry.len(), 1);
    }

    #[test]
    fn threads_that_register_the_same_get_the_same_ids() {
        let registry = SharedRegistry::new();
        let count = if cfg!(miri) { 5 } else { 500 };
        let names: Vec<String> = (0..count).map(|n| format!("k{n}")).chain(NAMES.map(String::from)).collect();
        let register = || -> Vec<RegistryId> {
            let ids = names.iter().map(|name| {
                let id = registry.register(name, 7, ()).unwrap();
                assert_eq!(registry.resolve(id).one().map(Registered::kernel), Some(&**name));
                assert_eq!(registry.adopt(id, name, 7, || ()), Ok(Adopted::Alone));
                id
            });
            ids.collect()
        };
        let ids: Vec<Vec<RegistryId>> = thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(register)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(ids.windows(2).all(|pair| pair[0] == pair[1]));
        assert_eq!(registry.len(), names.len());
    }
}

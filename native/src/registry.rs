//! A registry for several threads: maps an id in generated code to its kernel and task.
//!
//! [`SharedRegistry`] answers as [`Registry`] does, but returns owned values and leaves nothing locked. One thing differs: a
//! row that is adopted again keeps its value, so that a launch in its steady state writes nothing.
//!
//! ```
//! use warmstart::registry::{RegistryId, SharedRegistry};
//!
//! let registry = SharedRegistry::new();
//! let compiled = registry.register("compute_grad", 3, "its source")?;
//!
//! // Loaded from disk, with an id that another process has baked into it. Said again at every launch.
//! let loaded = RegistryId::home("compute_other", 3);
//! for _launch in 0..2 {
//!     registry.adopt(loaded, "compute_other", 3, || "its artifact")?;
//! }
//!
//! assert_eq!(registry.resolve(compiled).to_string(), "kernel `compute_grad`, task 3");
//! assert_eq!(*registry.resolve(loaded).one().unwrap().value(), "its artifact".into());
//! # Ok::<(), warmstart::registry::RegistryError>(())
//! ```

use std::{fmt, sync::Arc};

use crate::os::fork::RwLock;

use warmstart_core::launch_record::LaunchRecord;
pub use warmstart_core::registry::{PROBES, Registered, Registry, RegistryError, RegistryId, Resolution};

/// A [`Registry`] that threads share. Its values are shared by reference.
///
/// Look-ups, and [`adopt`](Self::adopt) of known rows, do not wait for each other. No lock is held while the caller's code
/// runs: a closure passed in, or the destructor of a value.
pub struct SharedRegistry<T = ()> {
    // A panic leaves the registry consistent, so poisoning is ignored.
    registry: RwLock<Registry<Arc<T>>>,
}

impl<T> SharedRegistry<T> {
    /// Creates an empty registry, which allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { registry: RwLock::new(Registry::new()) }
    }

    /// Registers a kernel and task, and returns the id to bake into the code before it is compiled, as [`Registry::register`] does.
    ///
    /// # Errors
    /// As [`Registry::register`].
    pub fn register(&self, kernel: &str, task: i32, value: T) -> Result<RegistryId, RegistryError> {
        let value = Arc::new(value);
        // Both outlive the lock, so that no destructor runs in it.
        let _spare = Arc::clone(&value);
        let _replaced;
        let mut registry = self.registry.write();
        let known = registry.id_of(kernel, task);
        _replaced = known.and_then(|id| registry.verify(id, kernel, task)).map(|row| Arc::clone(row.value()));
        registry.register(kernel, task, value)
    }

    /// Registers loaded code under the id that is baked into it, as [`Registry::adopt`] does. Call this at every launch of the
    /// code, or at the first one.
    ///
    /// A known row keeps its value. It is found without allocating, and without waiting for other threads that adopt known
    /// rows. For a new row, `value` creates the value. If several threads adopt the same row at once, the first value stays.
    ///
    /// # Errors
    /// As [`Registry::adopt`].
    pub fn adopt(
        &self,
        id: RegistryId,
        kernel: &str,
        task: i32,
        value: impl FnOnce() -> T,
    ) -> Result<(), RegistryError> {
        if self.registry.read().verify(id, kernel, task).is_some() {
            return Ok(());
        }
        let value = Arc::new(value());
        // Outlives the lock, so that no destructor runs in it.
        let _spare = Arc::clone(&value);
        let mut registry = self.registry.write();
        if registry.verify(id, kernel, task).is_some() {
            return Ok(());
        }
        registry.adopt(id, kernel, task, value)
    }

    /// Registers the ids in the code of an artifact, as [`LaunchRecord::adopt_into`] does.
    ///
    /// # Errors
    /// As [`adopt`](Self::adopt).
    pub fn adopt_record(&self, record: &LaunchRecord) -> Result<(), RegistryError>
    where
        T: Default,
    {
        record.rows().iter().try_for_each(|row| self.adopt(row.id(), row.kernel(), row.task(), T::default))
    }

    /// Returns the rows that claim an id: none, one or several.
    #[must_use]
    pub fn resolve(&self, id: RegistryId) -> Resolution<Registered<Arc<T>>> {
        self.registry.read().resolve(id).cloned()
    }

    /// Returns the value of exactly this id, kernel and task. Call this before using a row that [`resolve`](Self::resolve)
    /// returned.
    #[must_use]
    pub fn verify(&self, id: RegistryId, kernel: &str, task: i32) -> Option<Arc<T>> {
        self.registry.read().verify(id, kernel, task).map(|row| Arc::clone(row.value()))
    }

    /// Returns the number of rows, each the claim of a pair to an id.
    #[must_use]
    pub fn len(&self) -> usize {
        self.registry.read().len()
    }

    /// Returns whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.registry.read().is_empty()
    }

    /// Removes the row of exactly this id, kernel and task, as [`Registry::remove`] does, and returns its value.
    pub fn remove(&self, id: RegistryId, kernel: &str, task: i32) -> Option<Arc<T>> {
        self.registry.write().remove(id, kernel, task)
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

    /// Two names with the same home.
    const NAMES: [&str; 2] = ["k10823927", "k21347034"];

    /// Fails, instead of waiting for ever, if `work` waits for something that this thread holds.
    fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        let (send, receive) = mpsc::channel();
        thread::spawn(move || send.send(work()));
        receive.recv_timeout(Duration::from_secs(60)).expect("it does not wait, and does not panic")
    }

    #[test]
    fn adopting_a_known_row_waits_for_no_reader_and_keeps_its_value() {
        let registry = Arc::new(SharedRegistry::new());
        let id = RegistryId::home(NAMES[0], 0);
        let adopt = |name, value| registry.adopt(id, name, 0, move || value);
        for (name, value) in [(NAMES[0], 1), (NAMES[0], 2), (NAMES[1], 3)] {
            assert_eq!(adopt(name, value), Ok(()));
        }
        let _reading = registry.registry.read();
        let other = Arc::clone(&registry);
        let adopted = in_time(move || other.adopt(id, NAMES[0], 0, || unreachable!("it is known")));
        assert_eq!(adopted, Ok(()));
        assert_eq!(registry.verify(id, NAMES[0], 0).as_deref(), Some(&1));
    }

    #[test]
    fn id_of_two_kernels_resolves_to_both_unless_the_caller_chooses() {
        let registry = SharedRegistry::new();
        let id = RegistryId::home(NAMES[0], 0);
        assert_eq!(registry.resolve(id).to_string(), "a kernel that is not registered");
        for name in NAMES {
            registry.adopt(id, name, 0, || ()).unwrap();
        }
        let resolved = registry.resolve(id);
        assert_eq!(resolved.to_string(), "kernel `k10823927`, task 0 or kernel `k21347034`, task 0");
        assert_eq!((resolved.rows().len(), resolved.clone().one()), (2, None));
        // The closure may call the registry, too.
        let launched = resolved.among(|row| registry.len() == 2 && row.kernel() == NAMES[1]);
        assert_eq!(launched.to_string(), "kernel `k21347034`, task 0");
        assert!(registry.remove(id, NAMES[1], 0).is_some());
        assert_eq!(registry.resolve(id).to_string(), "kernel `k10823927`, task 0");
    }

    #[test]
    fn refused_registration_changes_nothing() {
        let registry = SharedRegistry::new();
        assert_eq!(registry.register("", 0, ()), Err(RegistryError::EmptyKernel));
        let (id, home) = (RegistryId::home("a", 0), RegistryId::home("b", 0));
        let refused = Err(RegistryError::IdOfAnotherName { id, home });
        assert_eq!(registry.adopt(id, "b", 0, || ()), refused);
        assert!(registry.is_empty());
    }

    /// Calls the registry when it is dropped.
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
            // The row became known while its value was being created.
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
                assert!(registry.resolve(id).one().is_some_and(|row| row.kernel() == name));
                assert_eq!(registry.adopt(id, name, 7, || ()), Ok(()));
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

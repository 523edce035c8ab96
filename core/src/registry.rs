//! Maps the small id that generated code writes on an overflow to its kernel and task.
//!
//! Code is compiled with the id of its kernel and task baked in, and is cached. An id must therefore mean the same in every
//! process that ever loads the code: it is a hash of the name, and the loaded code carries the name. Hashes collide. Two
//! processes that never met can bake one id into two kernels, and one that met both bakes in the next id instead. An id may
//! therefore be claimed by several pairs of kernel and task, and a pair may have several ids. An id alone is a hint. A look-up
//! by id and name is exact; a look-up by id alone never returns a wrong name.
//!
//! Names are assumed to be those of the host's own kernels: an attacker who chooses them can provoke collisions and slow look-ups.

use alloc::{boxed::Box, vec::Vec};
use core::{fmt, slice};

use hashbrown::{HashTable, hash_table::OccupiedEntry};

use crate::bytes::XXH3_64;

mod id;

#[cfg(test)]
mod tests;

pub use id::{PROBES, RegistryError, RegistryId};

/// Pairs of kernel and task with their ids, and a value for each.
///
/// [Register](Self::register) a kernel before it is compiled, and bake the returned id into its code. [Adopt](Self::adopt)
/// loaded code with the id that it already contains.
///
/// ```
/// use warmstart_core::registry::Registry;
///
/// let mut compiling = Registry::<()>::new();
/// let id = compiling.register("compute_grad", 3, ())?;
/// assert_eq!(id.as_u32(), 0xd561_9350);
///
/// // Another process loads the artifact, which holds the id, the name and the task.
/// let mut loading = Registry::new();
/// assert_eq!(loading.resolve(id).to_string(), "a kernel that is not registered");
/// loading.adopt(id, "compute_grad", 3, ())?;
/// assert_eq!(loading.resolve(id).to_string(), "kernel `compute_grad`, task 3");
/// # Ok::<(), warmstart_core::registry::RegistryError>(())
/// ```
#[derive(Clone)]
pub struct Registry<T = ()> {
    rows: Vec<Registered<T>>,
    /// The index of every row, by its id.
    ids: HashTable<u32>,
    /// The index of the first row of every pair, by its kernel and task.
    pairs: HashTable<u32>,
}

impl<T> Registry<T> {
    /// Creates an empty registry, which allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { rows: Vec::new(), ids: HashTable::new(), pairs: HashTable::new() }
    }

    /// Registers a kernel and task, and returns the id to bake into the code before it is compiled.
    ///
    /// A known pair keeps its first id until that is [removed](Self::remove), and its value is replaced. A new pair gets the
    /// first unclaimed id, starting with its home.
    ///
    /// # Errors
    /// [`RegistryError::EmptyKernel`], and [`RegistryError::Full`] if no such id is unclaimed.
    pub fn register(&mut self, kernel: &str, task: i32, value: T) -> Result<RegistryId, RegistryError> {
        if let Some(row) = self.first(kernel, task).and_then(|at| self.rows.get_mut(at as usize)) {
            row.value = value;
            return Ok(row.id);
        }
        if kernel.is_empty() {
            return Err(RegistryError::EmptyKernel);
        }
        let home = RegistryId::home(kernel, task);
        let unclaimed = home.probes().find(|id| self.claims(*id).next().is_none());
        let id = unclaimed.ok_or(RegistryError::Full { home })?;
        self.push(Registered { kernel: kernel.into(), value, id, task })?;
        Ok(id)
    }

    /// Registers loaded code under the `id` that is baked into it. From then on the id resolves to this pair, or to several if
    /// others claim it too.
    ///
    /// Call it at every launch of the code, or at the first. A known row is found in constant time without allocating, and its value
    /// is replaced; [`verify`](Self::verify) finds it without `&mut`.
    ///
    /// ```
    /// use warmstart_core::registry::{Registry, RegistryId, Resolution};
    ///
    /// // Two processes compiled one kernel each. Neither knew of the other, and the homes are the same.
    /// let id = Registry::new().register("k10823927", 0, ())?;
    /// assert_eq!(id, RegistryId::home("k21347034", 0));
    ///
    /// let mut registry = Registry::new();
    /// registry.adopt(id, "k10823927", 0, ())?;
    /// registry.adopt(id, "k21347034", 0, ())?;
    /// assert!(matches!(registry.resolve(id), Resolution::Several(_)));
    /// let found = registry.resolve(id).among(|row| row.kernel() == "k21347034");
    /// assert_eq!(found.to_string(), "kernel `k21347034`, task 0");
    /// # Ok::<(), warmstart_core::registry::RegistryError>(())
    /// ```
    ///
    /// # Errors
    /// [`RegistryError::EmptyKernel`]; [`RegistryError::IdOfAnotherName`] if no registry gives this id to this pair;
    /// [`RegistryError::Full`] after 2^32 - 1 rows.
    pub fn adopt(&mut self, id: RegistryId, kernel: &str, task: i32, value: T) -> Result<(), RegistryError> {
        if let Some(row) = self.place(id, kernel, task).and_then(|at| self.rows.get_mut(at as usize)) {
            row.value = value;
            return Ok(());
        }
        id.check(kernel, task)?;
        self.push(Registered { kernel: kernel.into(), value, id, task })
    }

    /// Returns the rows that claim an id: none, one or several.
    #[must_use]
    pub fn resolve(&self, id: RegistryId) -> Resolution<&Registered<T>> {
        let mut claims = self.claims(id);
        let Some(first) = claims.next() else { return Resolution::Unknown };
        let Some(second) = claims.next() else { return Resolution::One(first) };
        let mut rows: Vec<_> = [first, second].into_iter().chain(claims).collect();
        rows.sort_unstable_by_key(|row| (&row.kernel, row.task));
        Resolution::Several(rows)
    }

    /// Returns the row of exactly this id, kernel and task. Call this before using a row that [`resolve`](Self::resolve)
    /// returned.
    #[must_use]
    pub fn verify(&self, id: RegistryId, kernel: &str, task: i32) -> Option<&Registered<T>> {
        self.row(self.place(id, kernel, task)?)
    }

    /// Returns the first id of this pair that was not removed: the one that [`register`](Self::register) returns.
    #[must_use]
    pub fn id_of(&self, kernel: &str, task: i32) -> Option<RegistryId> {
        self.row(self.first(kernel, task)?).map(|row| row.id)
    }

    /// Iterates over all rows, in the order of insertion as long as none was removed.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Registered<T>> {
        self.rows.iter()
    }

    /// Returns the number of rows, each the claim of a pair to an id.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Removes the row of exactly this id, kernel and task, and returns its value. Call this only once no code with this id can
    /// run any more, because the id may be given to another pair.
    ///
    /// If it was the first row of its pair, the row nearest to the pair's home becomes the first.
    pub fn remove(&mut self, id: RegistryId, kernel: &str, task: i32) -> Option<T> {
        let Self { rows, ids, pairs } = self;
        let is = |at: &u32| rows.get(*at as usize).is_some_and(|row| row.is(id, kernel, task));
        let (at, _) = ids.find_entry(id.mixed(), is).ok()?.remove();
        let first = pairs.find_entry(identity(kernel, task), |first| *first == at);
        // If every other row is the first of its pair, this pair has no row left.
        if first.map(OccupiedEntry::remove).is_ok() && self.rows.len() > self.pairs.len() + 1 {
            let mut ids = RegistryId::home(kernel, task).probes();
            if let Some(next) = ids.find_map(|id| self.place(id, kernel, task)) {
                self.make_first(next);
            }
        }
        self.move_last_to(at);
        Some(self.rows.swap_remove(at as usize).value)
    }

    /// Iterates over the rows that claim an id, in no particular order.
    pub fn claims(&self, id: RegistryId) -> impl Iterator<Item = &Registered<T>> {
        self.ids.iter_hash(id.mixed()).filter_map(|at| self.row(*at)).filter(move |row| row.id == id)
    }

    fn row(&self, at: u32) -> Option<&Registered<T>> {
        self.rows.get(at as usize)
    }

    fn place(&self, id: RegistryId, kernel: &str, task: i32) -> Option<u32> {
        let is = |at: &u32| self.row(*at).is_some_and(|row| row.is(id, kernel, task));
        self.ids.find(id.mixed(), is).copied()
    }

    fn first(&self, kernel: &str, task: i32) -> Option<u32> {
        let is = |at: &u32| self.row(*at).is_some_and(|row| row.task == task && *row.kernel == *kernel);
        self.pairs.find(identity(kernel, task), is).copied()
    }

    /// Adds a new row.
    fn push(&mut self, row: Registered<T>) -> Result<(), RegistryError> {
        let Ok(at) = u32::try_from(self.rows.len()) else {
            return Err(RegistryError::Full { home: RegistryId::home(&row.kernel, row.task) });
        };
        let is_first = self.first(&row.kernel, row.task).is_none();
        self.rows.push(row);
        let Self { rows, ids, .. } = self;
        let hash_of = |at: &u32| rows.get(*at as usize).map_or(0, |row| row.id.mixed());
        ids.insert_unique(hash_of(&at), at, hash_of);
        if is_first {
            self.make_first(at);
        }
        Ok(())
    }

    /// Makes a row the first of its pair, which has no first row.
    fn make_first(&mut self, at: u32) {
        let Self { rows, pairs, .. } = self;
        let hash_of = |at: &u32| rows.get(*at as usize).map_or(0, |row| identity(&row.kernel, row.task));
        pairs.insert_unique(hash_of(&at), at, hash_of);
    }

    /// Updates both tables, because the last row moves to `at`.
    fn move_last_to(&mut self, at: u32) {
        let Self { rows, ids, pairs } = self;
        let Some((row, last)) = rows.last().zip(u32::try_from(rows.len() - 1).ok()) else { return };
        for (table, hash) in [(ids, row.id.mixed()), (pairs, identity(&row.kernel, row.task))] {
            if let Some(index) = table.find_mut(hash, |index| *index == last) {
                *index = at;
            }
        }
    }
}

impl<T> Default for Registry<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for Registry<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.rows).finish()
    }
}

/// A row of a registry: a kernel and a task that claim an id, and a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered<T = ()> {
    kernel: Box<str>,
    value: T,
    id: RegistryId,
    task: i32,
}

impl Registered {
    /// Creates the row of an id that loaded code contains.
    ///
    /// # Errors
    /// If the kernel's name is empty, or if no registry gives this id to this kernel and task.
    pub fn new(id: RegistryId, kernel: &str, task: i32) -> Result<Self, RegistryError> {
        id.check(kernel, task)?;
        Ok(Self { kernel: kernel.into(), value: (), id, task })
    }
}

impl<T> Registered<T> {
    /// Returns the id in the code.
    #[must_use]
    pub const fn id(&self) -> RegistryId {
        self.id
    }

    /// Returns the name of the kernel.
    #[must_use]
    pub fn kernel(&self) -> &str {
        &self.kernel
    }

    /// Returns the task of the kernel.
    #[must_use]
    pub const fn task(&self) -> i32 {
        self.task
    }

    /// Returns the value registered with the row.
    #[must_use]
    pub const fn value(&self) -> &T {
        &self.value
    }

    fn is(&self, id: RegistryId, kernel: &str, task: i32) -> bool {
        self.id == id && self.task == task && *self.kernel == *kernel
    }
}

impl<T> fmt::Display for Registered<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel `{}`, task {}", self.kernel.escape_debug(), self.task)
    }
}

/// The rows that claim an id, or references to them. Its `Display` is part of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution<R> {
    /// No known row.
    Unknown,
    /// Exactly one known row.
    One(R),
    /// At least two rows, ordered by name and task.
    Several(Vec<R>),
}

impl<R> Resolution<R> {
    /// Lists all rows, ordered by name and task.
    #[must_use]
    pub fn rows(&self) -> &[R] {
        match self {
            Self::Unknown => &[],
            Self::One(row) => slice::from_ref(row),
            Self::Several(rows) => rows,
        }
    }

    /// Returns the row, if there is exactly one.
    #[must_use]
    pub fn one(self) -> Option<R> {
        match self {
            Self::One(row) => Some(row),
            Self::Unknown | Self::Several(_) => None,
        }
    }

    /// Keeps the rows for which `launched` returns true, which are those that can have written the id. Only the caller knows
    /// what it launched since the last check. If no row is left, the result is [`Unknown`](Self::Unknown).
    #[must_use]
    pub fn among(self, mut launched: impl FnMut(&R) -> bool) -> Self {
        match self {
            Self::One(row) if launched(&row) => Self::One(row),
            Self::Unknown | Self::One(_) => Self::Unknown,
            Self::Several(mut rows) => {
                rows.retain(launched);
                if rows.len() > 1 { Self::Several(rows) } else { rows.pop().map_or(Self::Unknown, Self::One) }
            }
        }
    }
}

impl<T: Clone> Resolution<&Registered<T>> {
    /// Copies the rows.
    #[must_use]
    pub fn cloned(self) -> Resolution<Registered<T>> {
        match self {
            Self::Unknown => Resolution::Unknown,
            Self::One(row) => Resolution::One(row.clone()),
            Self::Several(rows) => Resolution::Several(rows.into_iter().cloned().collect()),
        }
    }
}

impl<R: fmt::Display> fmt::Display for Resolution<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Unknown = self {
            return f.write_str("a kernel that is not registered");
        }
        self.rows().iter().enumerate().try_for_each(|(at, row)| {
            f.write_str(if at > 0 { " or " } else { "" })?;
            row.fmt(f)
        })
    }
}

/// Hashes a pair for the table of pairs. The hash for ids works byte by byte, which is too slow for each look-up.
fn identity(kernel: &str, task: i32) -> u64 {
    id::mix(XXH3_64(kernel.as_bytes()) ^ u64::from(task.cast_unsigned()))
}

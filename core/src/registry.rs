//! Which kernel and task stand behind a small number that generated code can write when something overflows.
//!
//! Code is compiled with the id of its kernel and task baked in, and is kept. So an id must mean the same in every
//! process that ever loads the code: it is a hash of the name, and what is loaded says what it is called. Hashes collide.
//! Two processes that never met can bake one id into two kernels, and one that met both bakes in the next id instead.
//! So here an id may be claimed by several pairs of kernel and task, and a pair may have several ids. An id alone is a hint.
//! What is asked with an id and a name is answered exactly, and what is asked with an id alone never gets a wrong name.
//!
//! Names are taken to be those of the host's own kernels: who can choose them can make them collide, and look-ups slow.

use alloc::vec::Vec;
use core::fmt;

use hashbrown::HashTable;

use crate::{sum::xxh3_64, table};

mod id;
mod row;

#[cfg(test)]
mod tests;

pub use id::{PROBES, RegistryError, RegistryId};
pub use row::{Registered, Resolution};

/// Pairs of kernel and task with their ids, and a value for each.
///
/// What is compiled is [registered](Self::register), and the id that this gives is baked into its code. What is loaded
/// is [adopted](Self::adopt) with the id that is in its code already.
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
    /// The place of every row, by its id.
    ids: HashTable<u32>,
    /// The place of the first row of every pair, by its kernel and task.
    pairs: HashTable<u32>,
}

/// What an id stands for, once it was adopted. It may become shared later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Adopted {
    /// For this kernel and task, and nothing else that is registered.
    Alone,
    /// For others too: their code bears the same id.
    Shared,
}

impl<T> Registry<T> {
    /// An empty registry. It takes no memory.
    #[must_use]
    pub const fn new() -> Self {
        Self { rows: Vec::new(), ids: HashTable::new(), pairs: HashTable::new() }
    }

    /// The id to bake into code that is about to be compiled.
    ///
    /// A pair that is known keeps its first id for as long as that is not [removed](Self::remove), and its value is
    /// replaced. A new one gets the first id from its home on that nobody claims.
    ///
    /// # Errors
    /// [`RegistryError::EmptyKernel`], and [`RegistryError::Full`] if there is no such id.
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

    /// Takes over what loaded code says about itself: `id` is in it and cannot be changed. From then on the id resolves to this
    /// pair, or to several if others claim it too.
    ///
    /// To be called at every launch of it, or at the first. What is known already is found in constant time without allocating, and
    /// its value is replaced; [`verify`](Self::verify) says whether it is without needing `&mut`.
    ///
    /// ```
    /// use warmstart_core::registry::{Adopted, Registry, RegistryId, Resolution};
    ///
    /// // Two processes compiled one kernel each. Neither knew of the other, and the homes are the same.
    /// let id = Registry::new().register("k10823927", 0, ())?;
    /// assert_eq!(id, RegistryId::home("k21347034", 0));
    ///
    /// let mut registry = Registry::new();
    /// assert_eq!(registry.adopt(id, "k10823927", 0, ()), Ok(Adopted::Alone));
    /// assert_eq!(registry.adopt(id, "k21347034", 0, ()), Ok(Adopted::Shared));
    /// assert!(matches!(registry.resolve(id), Resolution::Several(_)));
    /// let launched = |kernel: &str| kernel == "k21347034";
    /// let found = registry.resolve_among(id, |row| launched(row.kernel()));
    /// assert_eq!(found.to_string(), "kernel `k21347034`, task 0");
    /// # Ok::<(), warmstart_core::registry::RegistryError>(())
    /// ```
    ///
    /// # Errors
    /// [`RegistryError::EmptyKernel`]; [`RegistryError::IdOfAnotherName`] if no registry gives this id to this pair;
    /// [`RegistryError::Full`] after 2^32 - 1 rows.
    pub fn adopt(
        &mut self,
        id: RegistryId,
        kernel: &str,
        task: i32,
        value: T,
    ) -> Result<Adopted, RegistryError> {
        let (mut own, mut adopted) = (None, Adopted::Alone);
        for &at in self.ids.iter_hash(id.mixed()) {
            match self.row(at) {
                Some(row) if row.is(id, kernel, task) => own = Some(at),
                Some(row) if row.id == id => adopted = Adopted::Shared,
                _ => {}
            }
        }
        if let Some(row) = own.and_then(|at| self.rows.get_mut(at as usize)) {
            row.value = value;
            return Ok(adopted);
        }
        id.check(kernel, task)?;
        self.push(Registered { kernel: kernel.into(), value, id, task })?;
        Ok(adopted)
    }

    /// Whom an id stands for, as far as the id alone can tell.
    #[must_use]
    pub fn resolve(&self, id: RegistryId) -> Resolution<'_, T> {
        self.resolve_among(id, |_| true)
    }

    /// Whom an id stands for, among those rows of which `launched` says that they can have written it. Only the caller knows what it
    /// launched since it last looked. If that is none of the rows of this id, it is [`Resolution::Unknown`].
    #[must_use]
    pub fn resolve_among(
        &self,
        id: RegistryId,
        mut launched: impl FnMut(&Registered<T>) -> bool,
    ) -> Resolution<'_, T> {
        let mut claims = self.claims(id).filter(|row| launched(row));
        let Some(first) = claims.next() else { return Resolution::Unknown };
        let Some(second) = claims.next() else { return Resolution::One(first) };
        let mut rows: Vec<_> = [first, second].into_iter().chain(claims).collect();
        rows.sort_unstable_by_key(|row| (&row.kernel, row.task));
        Resolution::Several(rows)
    }

    /// The row of exactly this id, kernel and task. Whoever uses what an id led to asks this first.
    #[must_use]
    pub fn verify(&self, id: RegistryId, kernel: &str, task: i32) -> Option<&Registered<T>> {
        self.row(self.place(id, kernel, task)?)
    }

    /// The first id of this pair that is still here: the one that [`register`](Self::register) gives.
    #[must_use]
    pub fn id_of(&self, kernel: &str, task: i32) -> Option<RegistryId> {
        self.row(self.first(kernel, task)?).map(|row| row.id)
    }

    /// Every row, in the order in which they came, as long as none was removed.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Registered<T>> {
        self.rows.iter()
    }

    /// Every row of a kernel, of any of its tasks. All rows are looked at for it.
    pub fn rows_of(&self, kernel: &str) -> impl Iterator<Item = &Registered<T>> {
        self.rows.iter().filter(move |row| *row.kernel == *kernel)
    }

    /// The number of rows: of claims of a pair to an id.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Removes the row of exactly this id, kernel and task, and returns its value. To be called once no code that bears the id
    /// can run any more: the id may be given to another pair.
    ///
    /// If it was the first of its pair, another one becomes the first, the one that is nearest to the pair's home.
    pub fn remove(&mut self, id: RegistryId, kernel: &str, task: i32) -> Option<T> {
        let at = self.place(id, kernel, task)?;
        table::remove(&mut self.ids, id.mixed(), at);
        if table::remove(&mut self.pairs, identity(kernel, task), at) {
            // Only then can there be another row of the pair.
            if self.rows.len() > self.pairs.len() + 1 {
                let mut ids = RegistryId::home(kernel, task).probes();
                if let Some(next) = ids.find_map(|id| self.place(id, kernel, task)) {
                    self.make_first(next);
                }
            }
        }
        self.move_last_to(at);
        Some(self.rows.swap_remove(at as usize).value)
    }

    /// Every row that claims an id, in no order.
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

    /// Adds a row that is not there yet.
    fn push(&mut self, row: Registered<T>) -> Result<(), RegistryError> {
        let Ok(at) = u32::try_from(self.rows.len()) else {
            return Err(RegistryError::Full { home: RegistryId::home(&row.kernel, row.task) });
        };
        let is_first = self.first(&row.kernel, row.task).is_none();
        self.rows.push(row);
        let Self { rows, ids, .. } = self;
        table::insert(ids, at, &|at| rows.get(*at as usize).map_or(0, |row| row.id.mixed()));
        if is_first {
            self.make_first(at);
        }
        Ok(())
    }

    /// Makes a row the first of its pair, which has none.
    fn make_first(&mut self, at: u32) {
        let Self { rows, pairs, .. } = self;
        table::insert(pairs, at, &|at| {
            rows.get(*at as usize).map_or(0, |row| identity(&row.kernel, row.task))
        });
    }

    /// Makes both tables say that the last row is where `at` is.
    fn move_last_to(&mut self, at: u32) {
        let Self { rows, ids, pairs } = self;
        let Some((row, last)) = rows.last().zip(u32::try_from(rows.len() - 1).ok()) else { return };
        table::rename(ids, row.id.mixed(), last, at);
        table::rename(pairs, identity(&row.kernel, row.task), last, at);
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

/// Where a pair is among the pairs. The hash that makes ids goes byte by byte, too slow for each look-up.
fn identity(kernel: &str, task: i32) -> u64 {
    id::mix(xxh3_64(kernel.as_bytes()) ^ u64::from(task.cast_unsigned()))
}

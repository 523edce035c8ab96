//! The least-recently-used policy: chooses the entry to evict when a cap is reached. Every operation takes constant time.

use core::{
    borrow::Borrow,
    fmt,
    hash::{BuildHasher, Hash},
};

use hashlink::LinkedHashMap;

use crate::reason::MissReason;

/// The limits of a store. `None` means no limit; a limit of 0 refuses every entry.
///
/// ```
/// use warmstart_core::lru::Limits;
///
/// assert!(Limits::bytes(100).admit(100).is_ok());
/// assert!(Limits::bytes(100).admit(101).is_err());
/// assert!(Limits::bytes(0).admit(0).is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The maximum number of entries.
    pub max_entries: Option<u64>,
    /// The maximum number of bytes, as the store counts them.
    pub max_bytes: Option<u64>,
}

impl Limits {
    /// No limit.
    pub const NONE: Self = Self { max_entries: None, max_bytes: None };

    /// Limits only the bytes.
    #[must_use]
    pub const fn bytes(max: u64) -> Self {
        Self { max_entries: None, max_bytes: Some(max) }
    }

    /// Checks whether an empty store could hold an entry of `size` bytes. Call this before evicting anything for the entry.
    ///
    /// # Errors
    /// [`MissReason::Oversize`] if it could not.
    pub fn admit(&self, size: u64) -> Result<(), MissReason> {
        let fits = |limit: Option<u64>, n: u64| limit.is_none_or(|limit| limit > 0 && n <= limit);
        if fits(self.max_entries, 1) && fits(self.max_bytes, size) {
            Ok(())
        } else {
            Err(MissReason::Oversize)
        }
    }

    /// Returns whether this many entries and bytes exceed the limits.
    #[must_use]
    pub fn exceeded_by(&self, entries: u64, bytes: u64) -> bool {
        self.max_entries.is_some_and(|max| entries > max) || self.max_bytes.is_some_and(|max| bytes > max)
    }
}

/// Entries in the order of their last use, with their sizes.
///
/// The policy never evicts by itself. The store removes the [oldest](Self::oldest) entry until the new one [fits](Self::fits),
/// because only the store knows whether an entry's bytes could be removed.
///
/// ```
/// use core::hash::BuildHasherDefault;
/// use warmstart_core::lru::{Limits, Lru};
/// # type Hasher = BuildHasherDefault<std::hash::DefaultHasher>;
///
/// let mut lru: Lru<&str, (), Hasher> = Lru::new(Limits::bytes(20), Hasher::default());
/// lru.insert("a", (), 10);
/// lru.insert("b", (), 10);
/// lru.record_access("a");
/// while !lru.fits("c", 10) {
///     assert_eq!(lru.pop_oldest(), Some(("b", (), 10)));
/// }
/// lru.insert("c", (), 10);
/// assert_eq!(lru.total_bytes(), 20);
/// ```
pub struct Lru<K, V, S> {
    /// The values with their sizes, the least recently used first.
    entries: LinkedHashMap<K, (V, u64), S>,
    /// Wide enough that no sizes that a journal claims can overflow it.
    total_bytes: u128,
    limits: Limits,
}

impl<K: Hash + Eq, V, S: BuildHasher> Lru<K, V, S> {
    /// Creates an empty policy, which allocates nothing.
    pub fn new(limits: Limits, hasher: S) -> Self {
        Self { entries: LinkedHashMap::with_hasher(hasher), total_bytes: 0, limits }
    }

    /// Allocates the table for `additional` more entries at once.
    pub fn reserve(&mut self, additional: usize) {
        self.entries.reserve(additional);
    }

    /// Returns the limits that the policy was created with.
    #[must_use]
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the sum of the sizes of all entries in bytes, at most [`u64::MAX`].
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        saturate(self.total_bytes)
    }

    /// Looks up the entry of `key` and makes it the newest.
    pub fn get<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let (value, _) = self.entries.to_back(key)?;
        Some(value)
    }

    /// Looks up the entry of `key` and its size in bytes, without counting as a use.
    pub fn peek<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<(&V, u64)>
    where
        K: Borrow<Q>,
    {
        let (value, size) = self.entries.get(key)?;
        Some((value, *size))
    }

    /// Makes the entry of `key` the newest. Returns whether there is one.
    pub fn record_access<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.entries.to_back(key).is_some()
    }

    /// Returns whether an entry of `size` bytes fits without evicting anything. The entry of `key`, which it would replace, is
    /// not counted.
    pub fn fits<Q: Hash + Eq + ?Sized>(&self, key: &Q, size: u64) -> bool
    where
        K: Borrow<Q>,
    {
        let (entries, replaced) = self.peek(key).map_or((1, 0), |(_, size)| (0, size));
        let bytes = self.total_bytes - u128::from(replaced) + u128::from(size);
        !self.limits.exceeded_by(self.len() as u64 + entries, saturate(bytes))
    }

    /// Adds an entry as the newest. Replaces the entry of the same key, if there is one, and returns its value.
    pub fn insert(&mut self, key: K, value: V, size: u64) -> Option<V> {
        self.total_bytes += u128::from(size);
        let (old, replaced) = self.entries.insert(key, (value, size))?;
        self.total_bytes -= u128::from(replaced);
        Some(old)
    }

    /// Returns the least recently used entry and its size in bytes.
    #[must_use]
    pub fn oldest(&self) -> Option<(&K, &V, u64)> {
        self.entries.front().map(|(key, (value, size))| (key, value, *size))
    }

    /// Removes and returns the least recently used entry.
    pub fn pop_oldest(&mut self) -> Option<(K, V, u64)> {
        let (key, (value, size)) = self.entries.pop_front()?;
        self.total_bytes -= u128::from(size);
        Some((key, value, size))
    }

    /// Removes the entry of `key`, and returns its value and its size in bytes.
    pub fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<(V, u64)>
    where
        K: Borrow<Q>,
    {
        let (value, size) = self.entries.remove(key)?;
        self.total_bytes -= u128::from(size);
        Some((value, size))
    }

    /// Takes every entry out, so that the caller can drop them after it has released a lock.
    #[must_use]
    pub fn take(&mut self) -> Self
    where
        S: Clone,
    {
        let empty = Self::new(self.limits, self.entries.hasher().clone());
        core::mem::replace(self, empty)
    }

    /// Iterates over the entries with their sizes, the least recently used first.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V, u64)> {
        self.entries.iter().map(|(key, (value, size))| (key, value, *size))
    }
}

impl<K, V, S> fmt::Debug for Lru<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lru")
            .field("len", &self.entries.len())
            .field("total_bytes", &self.total_bytes)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

fn saturate(bytes: u128) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;
    use core::hash::{BuildHasherDefault, Hasher};

    use super::*;

    /// FNV-1a, so that the tests need neither randomness nor std.
    struct Fnv(u64);
    impl Default for Fnv {
        fn default() -> Self {
            Self(0xcbf2_9ce4_8422_2325)
        }
    }
    impl Hasher for Fnv {
        fn finish(&self) -> u64 {
            self.0
        }
        fn write(&mut self, bytes: &[u8]) {
            for byte in bytes {
                self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
            }
        }
    }
    type Policy = Lru<u64, u64, BuildHasherDefault<Fnv>>;

    fn policy(limits: Limits) -> Policy {
        Lru::new(limits, BuildHasherDefault::default())
    }

    fn order(lru: &Policy) -> Vec<u64> {
        lru.iter().map(|(key, ..)| *key).collect()
    }

    #[test]
    fn a_use_makes_an_entry_the_newest_and_a_peek_does_not() {
        let mut lru = policy(Limits::NONE);
        for key in 0..4 {
            lru.insert(key, key * 10, 1);
        }
        assert_eq!(lru.get(&0), Some(&0));
        assert!(lru.record_access(&2));
        assert_eq!(lru.peek(&1), Some((&10, 1)));
        assert_eq!(order(&lru), [1, 3, 0, 2]);
    }

    #[test]
    fn an_overwrite_adjusts_the_size_and_returns_the_old_value() {
        let mut lru = policy(Limits::bytes(100));
        assert_eq!(lru.insert(1, 1, 60), None);
        assert!(lru.fits(&1, 100) && !lru.fits(&2, 41));
        assert_eq!(lru.insert(1, 2, 30), Some(1));
        assert_eq!((lru.len(), lru.total_bytes()), (1, 30));
    }

    #[test]
    fn sizes_that_no_medium_holds_are_added_and_subtracted_exactly() {
        let mut lru = policy(Limits::bytes(100));
        for key in 0..3 {
            lru.insert(key, 0, u64::MAX);
        }
        assert_eq!(lru.total_bytes(), u64::MAX);
        assert!(!lru.fits(&9, 1));
        lru.insert(2, 0, 5);
        lru.remove(&1);
        lru.pop_oldest();
        assert_eq!(lru.total_bytes(), 5);
        assert!(lru.fits(&9, 95) && !lru.fits(&9, 96));
    }

    #[test]
    fn entry_larger_than_the_limit_is_not_admitted() {
        assert_eq!(Limits::bytes(100).admit(100), Ok(()));
        assert_eq!(Limits::bytes(100).admit(101), Err(MissReason::Oversize));
    }

    #[test]
    fn limits_of_zero_admit_nothing() {
        assert_eq!(Limits::bytes(0).admit(0), Err(MissReason::Oversize));
        assert_eq!(Limits { max_entries: Some(0), max_bytes: None }.admit(0), Err(MissReason::Oversize));
        assert_eq!(Limits::NONE.admit(u64::MAX), Ok(()));
    }

    /// Compares random operations with a plain list: the same answers, order and totals at every step.
    #[test]
    fn agrees_with_a_plain_list() {
        let limits = Limits { max_entries: Some(12), max_bytes: Some(200) };
        let mut lru = policy(limits);
        let mut list: Vec<(u64, u64, u64)> = Vec::new();
        let mut state = 1u64;
        for step in 0..if cfg!(miri) { 500 } else { 50_000 } {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (key, size) = ((state >> 40) % 20, (state >> 50) % 60);
            let place = list.iter().position(|(k, ..)| *k == key);
            match (state >> 33) % 8 {
                0..=3 => {
                    if let Some(place) = place {
                        let (_, _, old) = list.remove(place);
                        // The store protects the entry that it is about to replace from being evicted.
                        lru.record_access(&key);
                        list.push((key, 0, old));
                    }
                    while !lru.fits(&key, size) {
                        let gone = lru.pop_oldest().unwrap();
                        assert_eq!(gone, list.remove(0));
                        assert_ne!(gone.0, key);
                    }
                    list.retain(|(k, ..)| *k != key);
                    list.push((key, step, size));
                    lru.insert(key, step, size);
                }
                4 | 5 => {
                    let expected = place.map(|place| list.remove(place));
                    list.extend(expected);
                    assert_eq!(lru.get(&key).copied(), expected.map(|(_, value, _)| value));
                }
                6 => assert_eq!(
                    lru.remove(&key),
                    place.map(|place| list.remove(place)).map(|(_, v, s)| (v, s))
                ),
                _ if step % 997 == 0 => {
                    assert_eq!(order(&lru.take()), list.iter().map(|(key, ..)| *key).collect::<Vec<_>>());
                    list.clear();
                }
                _ => assert_eq!(lru.oldest().map(|(k, v, s)| (*k, *v, s)), list.first().copied()),
            }
            assert_eq!(lru.len(), list.len());
            assert_eq!(lru.total_bytes(), list.iter().map(|(.., size)| size).sum::<u64>());
            assert!(!limits.exceeded_by(lru.len() as u64, lru.total_bytes()));
            assert!(lru.iter().map(|(k, v, s)| (*k, *v, s)).eq(list.iter().copied()));
        }
    }
}

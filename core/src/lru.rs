//! The least-recently-used policy: which entry goes when a cap is reached. Every operation takes constant time.

use alloc::vec::Vec;
use core::{
    borrow::Borrow,
    fmt,
    hash::{BuildHasher, Hash},
};

use hashbrown::HashTable;

use crate::{reason::Reason, table};

/// What a store may hold. `None` is no limit; a limit of 0 refuses every entry.
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
    /// The most entries.
    pub max_entries: Option<u64>,
    /// The most bytes, as the store counts them.
    pub max_bytes: Option<u64>,
}

impl Limits {
    /// No limit.
    pub const NONE: Self = Self { max_entries: None, max_bytes: None };

    /// A limit on bytes alone.
    #[must_use]
    pub const fn bytes(max: u64) -> Self {
        Self { max_entries: None, max_bytes: Some(max) }
    }

    /// Whether an entry of `size` bytes could be held at all, were the store empty. To be asked before anything is
    /// evicted for it.
    ///
    /// # Errors
    /// [`Reason::Oversize`] if it could not.
    pub fn admit(&self, size: u64) -> Result<(), Reason> {
        let fits = |limit: Option<u64>, n: u64| limit.is_none_or(|limit| limit > 0 && n <= limit);
        if fits(self.max_entries, 1) && fits(self.max_bytes, size) { Ok(()) } else { Err(Reason::Oversize) }
    }

    /// Whether this many entries and bytes are too many.
    #[must_use]
    pub fn exceeded_by(&self, entries: u64, bytes: u64) -> bool {
        self.max_entries.is_some_and(|max| entries > max) || self.max_bytes.is_some_and(|max| bytes > max)
    }
}

/// Entries in the order of their last use, with their sizes.
///
/// The policy never evicts by itself: the store asks for the [oldest](Self::oldest) entry until what it is about to
/// add [fits](Self::fits), because only the store knows whether the entry's bytes could be removed.
///
/// ```
/// use core::hash::BuildHasherDefault;
/// use warmstart_core::lru::{Limits, Lru};
/// # type Hasher = BuildHasherDefault<std::hash::DefaultHasher>;
///
/// let mut lru: Lru<&str, (), Hasher> = Lru::new(Limits::bytes(20), Hasher::default());
/// lru.insert("a", (), 10);
/// lru.insert("b", (), 10);
/// lru.touch("a");
/// while !lru.fits("c", 10) {
///     assert_eq!(lru.pop_oldest(), Some(("b", (), 10)));
/// }
/// lru.insert("c", (), 10);
/// assert_eq!(lru.total_bytes(), 20);
/// ```
pub struct Lru<K, V, S> {
    table: HashTable<u32>,
    nodes: Vec<Node<K, V>>,
    newest: u32,
    oldest: u32,
    /// Head of the list of free nodes, linked through `older`.
    free: u32,
    /// Wide enough for any number of sizes, so that what a journal claims cannot make it overflow.
    total_bytes: u128,
    limits: Limits,
    hasher: S,
}

struct Node<K, V> {
    newer: u32,
    older: u32,
    size: u64,
    /// `None` exactly while the node is on the free list.
    entry: Option<(K, V)>,
}

/// No node. It bounds a policy to 2^32 - 1 entries.
const NIL: u32 = u32::MAX;

impl<K: Hash + Eq, V, S: BuildHasher> Lru<K, V, S> {
    /// An empty policy.
    pub const fn new(limits: Limits, hasher: S) -> Self {
        Self {
            table: HashTable::new(),
            nodes: Vec::new(),
            newest: NIL,
            oldest: NIL,
            free: NIL,
            total_bytes: 0,
            limits,
            hasher,
        }
    }

    /// Takes the memory for `additional` more entries at once.
    pub fn reserve(&mut self, additional: usize) {
        let Self { table, nodes, hasher, .. } = self;
        nodes.reserve(additional);
        table::reserve(table, additional, &hashes(hasher, nodes));
    }

    /// The limits it was made with.
    #[must_use]
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// The sizes of all entries, added up; [`u64::MAX`] if that is more.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        saturate(self.total_bytes)
    }

    /// The entry of `key`, which becomes the newest.
    pub fn get<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let at = self.find(key)?;
        self.move_to_front(at);
        self.value(at)
    }

    /// The entry of `key` and its size; no use is counted.
    pub fn peek<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<(&V, u64)>
    where
        K: Borrow<Q>,
    {
        let at = self.find(key)?;
        Some((self.value(at)?, self.node(at)?.size))
    }

    /// Makes the entry of `key` the newest; says whether there is one.
    pub fn touch<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        let found = self.find(key);
        if let Some(at) = found {
            self.move_to_front(at);
        }
        found.is_some()
    }

    /// Whether an entry of `size` bytes under `key` fits without evicting anything; what it would replace is not counted.
    pub fn fits<Q: Hash + Eq + ?Sized>(&self, key: &Q, size: u64) -> bool
    where
        K: Borrow<Q>,
    {
        let (entries, replaced) = self.peek(key).map_or((1, 0), |(_, size)| (0, size));
        let bytes = self.total_bytes - u128::from(replaced) + u128::from(size);
        !self.limits.exceeded_by(self.len() as u64 + entries, saturate(bytes))
    }

    /// Adds an entry as the newest, or replaces the one of the same key, whose value is returned.
    pub fn insert(&mut self, key: K, value: V, size: u64) -> Option<V> {
        if let Some(at) = self.find(&key) {
            self.move_to_front(at);
            let node = self.nodes.get_mut(at as usize)?;
            self.total_bytes = self.total_bytes - u128::from(node.size) + u128::from(size);
            node.size = size;
            return node.entry.replace((key, value)).map(|(_, old)| old);
        }
        let at = self.place(Node { newer: NIL, older: NIL, size, entry: Some((key, value)) });
        let Self { table, nodes, hasher, .. } = self;
        table::insert(table, at, &hashes(hasher, nodes));
        self.total_bytes += u128::from(size);
        self.push_front(at);
        None
    }

    /// The entry whose last use is longest ago.
    #[must_use]
    pub fn oldest(&self) -> Option<(&K, &V, u64)> {
        let node = self.node(self.oldest)?;
        node.entry.as_ref().map(|(key, value)| (key, value, node.size))
    }

    /// Removes the entry whose last use is longest ago.
    pub fn pop_oldest(&mut self) -> Option<(K, V, u64)> {
        let at = self.oldest;
        let (key, _) = self.node(at)?.entry.as_ref()?;
        let hash = self.hasher.hash_one(key);
        table::remove(&mut self.table, hash, at);
        self.release(at)
    }

    /// Removes the entry of `key`.
    pub fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<(V, u64)>
    where
        K: Borrow<Q>,
    {
        let Self { table, nodes, hasher, .. } = self;
        let found = table.find_entry(hasher.hash_one(key), |&at| key_at(nodes, at) == Some(key)).ok()?;
        let (at, _) = found.remove();
        self.release(at).map(|(_, value, size)| (value, size))
    }

    /// Removes every entry and gives the memory back.
    pub fn clear(&mut self)
    where
        S: Clone,
    {
        drop(self.take());
    }

    /// Takes every entry out, to be dropped when nobody waits for it.
    #[must_use]
    pub fn take(&mut self) -> Self
    where
        S: Clone,
    {
        let empty = Self::new(self.limits, self.hasher.clone());
        core::mem::replace(self, empty)
    }

    /// Every entry with its size, the one longest unused first.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V, u64)> {
        let mut at = self.oldest;
        core::iter::from_fn(move || {
            let node = self.node(at)?;
            at = node.newer;
            node.entry.as_ref().map(|(key, value)| (key, value, node.size))
        })
    }

    fn find<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<u32>
    where
        K: Borrow<Q>,
    {
        let hash = self.hasher.hash_one(key);
        self.table.find(hash, |&at| key_at(&self.nodes, at) == Some(key)).copied()
    }

    fn node(&self, at: u32) -> Option<&Node<K, V>> {
        self.nodes.get(at as usize)
    }

    fn value(&self, at: u32) -> Option<&V> {
        self.node(at)?.entry.as_ref().map(|(_, value)| value)
    }

    /// Puts a node on a free place, or on a new one.
    fn place(&mut self, node: Node<K, V>) -> u32 {
        let at = self.free;
        if let Some(free) = self.nodes.get_mut(at as usize) {
            self.free = free.older;
            *free = node;
            return at;
        }
        // NIL itself is never a place: entries in the thousands of millions do not fit in memory beside it.
        let at = u32::try_from(self.nodes.len()).unwrap_or(NIL);
        assert!(at != NIL, "an Lru holds at most 2^32 - 1 entries");
        self.nodes.push(node);
        at
    }

    /// Takes a node, whose table slot is already gone, out of the list and frees it.
    fn release(&mut self, at: u32) -> Option<(K, V, u64)> {
        self.unlink(at);
        let node = self.nodes.get_mut(at as usize)?;
        let (key, value) = node.entry.take()?;
        let size = node.size;
        node.older = self.free;
        self.free = at;
        self.total_bytes -= u128::from(size);
        Some((key, value, size))
    }

    fn move_to_front(&mut self, at: u32) {
        if self.newest != at {
            self.unlink(at);
            self.push_front(at);
        }
    }

    fn unlink(&mut self, at: u32) {
        let Some(&Node { newer, older, .. }) = self.node(at) else { return };
        match self.nodes.get_mut(newer as usize) {
            Some(node) => node.older = older,
            None => self.newest = older,
        }
        match self.nodes.get_mut(older as usize) {
            Some(node) => node.newer = newer,
            None => self.oldest = newer,
        }
    }

    fn push_front(&mut self, at: u32) {
        let second = self.newest;
        if let Some(node) = self.nodes.get_mut(at as usize) {
            (node.newer, node.older) = (NIL, second);
        }
        match self.nodes.get_mut(second as usize) {
            Some(node) => node.newer = at,
            None => self.oldest = at,
        }
        self.newest = at;
    }
}

impl<K, V, S> fmt::Debug for Lru<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lru")
            .field("len", &self.table.len())
            .field("total_bytes", &self.total_bytes)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

fn saturate(bytes: u128) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

fn key_at<K: Borrow<Q>, V, Q: ?Sized>(nodes: &[Node<K, V>], at: u32) -> Option<&Q> {
    nodes.get(at as usize)?.entry.as_ref().map(|(key, _)| key.borrow())
}

/// The hash of the entry at a place that the table names; such a place always holds one.
fn hashes<K: Hash, V>(hasher: &impl BuildHasher, nodes: &[Node<K, V>]) -> impl Fn(&u32) -> u64 {
    |at| {
        let entry = nodes.get(*at as usize).and_then(|node| node.entry.as_ref());
        entry.map_or(0, |(key, _)| hasher.hash_one(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::hash::{BuildHasherDefault, Hasher};

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
        assert!(lru.touch(&2));
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
    fn what_is_larger_than_the_limit_is_not_admitted() {
        assert_eq!(Limits::bytes(100).admit(100), Ok(()));
        assert_eq!(Limits::bytes(100).admit(101), Err(Reason::Oversize));
    }

    #[test]
    fn limits_of_zero_admit_nothing() {
        assert_eq!(Limits::bytes(0).admit(0), Err(Reason::Oversize));
        assert_eq!(Limits { max_entries: Some(0), max_bytes: None }.admit(0), Err(Reason::Oversize));
        assert_eq!(Limits::NONE.admit(u64::MAX), Ok(()));
    }

    /// Random operations against a plain list: the same answers, order and totals at every step.
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
                        // The store keeps the entry that it is about to replace from being the one evicted.
                        lru.touch(&key);
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
                    lru.clear();
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

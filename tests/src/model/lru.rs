//! The reference implementation of the policy: a list of entries in the order of use, with linear search.

use warmstart::{Limits, Metadata, MissReason, store::Totals};

/// The entries, least recently used first.
#[derive(Clone, Debug)]
pub struct NaiveLru {
    /// The limits of the store.
    pub limits: Limits,
    /// The entries in the order of their use.
    pub entries: Vec<Entry>,
}

/// An entry, with its size and its state on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The number of its key.
    pub key: usize,
    /// The number of the put that stored it.
    pub version: u64,
    /// The size that counts against the cap.
    pub size: u64,
    /// Its state on disk.
    pub state: State,
}

/// The state of an entry on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The entry is intact.
    Whole,
    /// The entry must not be returned.
    Bad(Box<Bad>),
    /// The file is gone, but the accounts still list the entry.
    Gone,
}

/// The state of an entry that must not be returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bad {
    /// The miss reason of a look-up.
    pub reason: MissReason,
    /// The result of checking the header and the length alone.
    pub seen: Result<(), MissReason>,
    /// The head as a listing shows it, or the reason why it cannot be read.
    pub told: Result<Head, MissReason>,
    /// The current length, which the accounts read before they remove the entry.
    pub size: Option<u64>,
}

/// The contents of an entry's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The full key.
    pub key: Vec<u8>,
    /// The metadata of the artifact.
    pub metadata: Metadata,
    /// The length of the payload in bytes.
    pub payload_len: u64,
    /// Whether the entry is sealed.
    pub is_sealed: bool,
}

impl State {
    /// Returns the result of checking the header and the length alone.
    ///
    /// # Errors
    /// The reason why the entry is not counted.
    pub fn seen(&self) -> Result<(), MissReason> {
        match self {
            Self::Whole => Ok(()),
            Self::Bad(bad) => bad.seen,
            Self::Gone => Err(MissReason::Absent),
        }
    }

    /// Returns whether a reader that reads the entry to its end removes it.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Bad(bad) if bad.reason.is_damage())
    }
}

impl NaiveLru {
    /// Creates an empty list.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self { limits, entries: Vec::new() }
    }

    /// Returns the entry of a key.
    #[must_use]
    pub fn find(&self, key: usize) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// Makes the entry of a key the most recently used.
    pub fn record_access(&mut self, key: usize) {
        if let Some(entry) = self.remove(key) {
            self.entries.push(entry);
        }
    }

    /// Removes the entry of a key.
    pub fn remove(&mut self, key: usize) -> Option<Entry> {
        let at = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.remove(at))
    }

    /// Stores an entry, and returns the number of evictions.
    ///
    /// # Errors
    /// [`MissReason::Oversize`] if it would not fit into an empty store.
    pub fn put(&mut self, key: usize, version: u64, size: u64) -> Result<u64, MissReason> {
        let Limits { max_entries, max_bytes } = self.limits;
        if max_entries == Some(0) || max_bytes.is_some_and(|max| max == 0 || size > max) {
            return Err(MissReason::Oversize);
        }
        self.remove(key);
        let mut evicted = 0;
        while max_entries.is_some_and(|max| self.entries.len() as u64 >= max)
            || max_bytes.is_some_and(|max| self.total() + size > max)
        {
            evicted += u64::from(self.evict().is_some());
        }
        self.entries.push(Entry { key, version, size, state: State::Whole });
        Ok(evicted)
    }

    /// Evicts entries until the rest is within these limits.
    pub fn prune(&mut self, limits: Limits) -> Totals {
        let mut pruned = Totals::default();
        while limits.max_entries.is_some_and(|max| self.entries.len() as u64 > max)
            || limits.max_bytes.is_some_and(|max| self.total() > max)
        {
            if let Some(size) = self.evict() {
                pruned.entries += 1;
                pruned.bytes += size;
            }
        }
        pruned
    }

    /// Evicts the least recently used entry, and returns its size unless its file was gone.
    fn evict(&mut self) -> Option<u64> {
        let mut oldest = self.entries.remove(0);
        match &oldest.state {
            // It is not the entry that was to go, but another one of this size, and of unknown age.
            State::Bad(bad) if bad.size.is_some_and(|now| now != oldest.size) => {
                oldest.size = bad.size.unwrap_or(oldest.size);
                self.entries.push(oldest);
                None
            }
            State::Gone => None,
            State::Whole | State::Bad(_) => Some(oldest.size),
        }
    }

    /// Returns the sum of the sizes of all entries.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.entries.iter().map(|entry| entry.size).sum()
    }
}

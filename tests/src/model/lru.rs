//! A store as it should be: a list in the order of use, searched from one end to the other.

use warmstart::{Limits, Metadata, Reason, store::Pruned};

/// The entries, the one longest unused first.
#[derive(Clone, Debug)]
pub struct NaiveLru {
    /// What it may hold.
    pub limits: Limits,
    /// The entries in the order of their use.
    pub entries: Vec<Entry>,
}

/// An entry, as it is and as it counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The number of its key.
    pub key: usize,
    /// Which put stored it.
    pub version: u64,
    /// What it counts against the cap.
    pub size: u64,
    /// What is there.
    pub state: State,
}

/// What is there of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// All that was stored.
    Whole,
    /// Something that must not be handed out.
    Bad(Box<Bad>),
    /// Nothing, but whoever keeps the accounts has not heard.
    Gone,
}

/// Something that must not be handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bad {
    /// Why not.
    pub reason: Reason,
    /// What its header and its length say of it.
    pub seen: Result<(), Reason>,
    /// What its head says, or why it could not be read.
    pub told: Result<Head, Reason>,
    /// Its length now, where whoever keeps the accounts looks at it before it is removed.
    pub size: Option<u64>,
}

/// What the head of an entry says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The full key.
    pub key: Vec<u8>,
    /// What is known about the artifact.
    pub metadata: Metadata,
    /// Bytes of the payload.
    pub payload_len: u64,
    /// Whether it bears a seal.
    pub is_sealed: bool,
}

impl State {
    /// What header and length say.
    ///
    /// # Errors
    /// The reason why it is not counted.
    pub fn seen(&self) -> Result<(), Reason> {
        match self {
            Self::Whole => Ok(()),
            Self::Bad(bad) => bad.seen,
            Self::Gone => Err(Reason::Absent),
        }
    }

    /// Whether whoever reads it to its end removes it.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Bad(bad) if bad.reason.is_damage())
    }
}

impl NaiveLru {
    /// An empty one.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self { limits, entries: Vec::new() }
    }

    /// The entry of a key.
    #[must_use]
    pub fn find(&self, key: usize) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// Makes the entry of a key the newest.
    pub fn touch(&mut self, key: usize) {
        if let Some(entry) = self.remove(key) {
            self.entries.push(entry);
        }
    }

    /// Removes the entry of a key.
    pub fn remove(&mut self, key: usize) -> Option<Entry> {
        let at = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.remove(at))
    }

    /// Stores an entry, and says how many others were removed for it.
    ///
    /// # Errors
    /// [`Reason::Oversize`] if it would not fit into an empty store.
    pub fn put(&mut self, key: usize, version: u64, size: u64) -> Result<u64, Reason> {
        let Limits { max_entries, max_bytes } = self.limits;
        if max_entries == Some(0) || max_bytes.is_some_and(|max| max == 0 || size > max) {
            return Err(Reason::Oversize);
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

    /// Removes what is beyond these limits.
    pub fn prune(&mut self, limits: Limits) -> Pruned {
        let mut pruned = Pruned::default();
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

    /// Removes the entry longest unused, and says what it counted if it was there.
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

    /// What all entries count, added up.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.entries.iter().map(|entry| entry.size).sum()
    }
}

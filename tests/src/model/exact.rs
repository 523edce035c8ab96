//! The exact model: predicts the answer of each call, until a call of the disk fails.

use warmstart::{Limits, MissReason, store::Totals};

use super::{
    lru::{Entry, NaiveLru, State},
    place::{FRONT, Kind},
};

/// The exact model of a store.
#[derive(Clone, Debug)]
pub struct Exact {
    kind: Kind,
    back: NaiveLru,
    /// The memory of a tiered store.
    front: NaiveLru,
    /// The uses that the memory of a tiered store has not reported to the store behind it yet.
    unseen: Vec<usize>,
}

/// The answer of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The number of the put that stored it.
    Hit(u64),
    /// There is no entry, or one that must not be returned.
    Miss(MissReason),
}

/// The entry that a put stores.
#[derive(Clone, Copy, Debug)]
pub struct Put {
    /// The number of the key.
    pub key: usize,
    /// The number of the put.
    pub version: u64,
    /// The size that counts against the cap.
    pub size: u64,
    /// The size that counts against the cap of a tiered store's memory.
    pub memory_size: u64,
}

impl Exact {
    /// Creates the model of an empty store.
    #[must_use]
    pub const fn new(kind: Kind, limits: Limits) -> Self {
        Self { kind, back: NaiveLru::new(limits), front: NaiveLru::new(FRONT), unseen: Vec::new() }
    }

    /// Looks up a key. `memory_size` returns the size in memory of a put, by its number.
    pub fn get(&mut self, key: usize, memory_size: impl Fn(u64) -> u64) -> Answer {
        if let Some(entry) = self.front.find(key) {
            let version = entry.version;
            self.front.record_access(key);
            self.unseen.retain(|other| *other != key);
            self.unseen.push(key);
            return Answer::Hit(version);
        }
        let Some(entry) = self.back.find(key) else { return Answer::Miss(MissReason::Absent) };
        let version = entry.version;
        match &entry.state {
            State::Whole => {
                self.back.record_access(key);
                if self.kind == Kind::Tiered {
                    let _ = self.front.put(key, version, memory_size(version));
                }
                Answer::Hit(version)
            }
            State::Bad(bad) => {
                let reason = bad.reason;
                if reason.is_damage() {
                    self.back.remove(key);
                } else if self.kind.has_database() {
                    // It counts the use before it looks at what it has read.
                    self.back.record_access(key);
                }
                Answer::Miss(reason)
            }
            State::Gone => Answer::Miss(MissReason::Absent),
        }
    }

    /// Stores an entry, and returns the number of evictions.
    ///
    /// # Errors
    /// [`MissReason::Oversize`] if the entry exceeds the limits.
    pub fn put(&mut self, put: Put) -> Result<u64, MissReason> {
        self.front.remove(put.key);
        self.pass_uses_on();
        let evicted = self.back.put(put.key, put.version, put.size)?;
        if self.kind == Kind::Tiered {
            let _ = self.front.put(put.key, put.version, put.memory_size);
        }
        Ok(evicted)
    }

    /// Removes an entry, and returns whether there was one.
    pub fn remove(&mut self, key: usize) -> bool {
        let in_front = self.front.remove(key).is_some();
        let behind = self.back.remove(key).is_some_and(|entry| entry.state != State::Gone);
        in_front || behind
    }

    /// Returns whether there is an entry with an intact header and the right length.
    #[must_use]
    pub fn contains(&self, key: usize) -> bool {
        self.front.find(key).is_some() || self.back.find(key).is_some_and(|entry| entry.state.seen().is_ok())
    }

    /// Returns the number of entries, including damaged ones.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.back.entries.iter().filter(|entry| entry.state != State::Gone).count() as u64
    }

    /// Removes damaged entries, and returns the numbers of intact and of removed ones.
    pub fn verify(&mut self) -> (u64, u64) {
        let count =
            |is: fn(&State) -> bool| self.back.entries.iter().filter(|entry| is(&entry.state)).count() as u64;
        let found = (count(|state| *state == State::Whole), count(State::is_damage));
        self.back.entries.retain(|entry| !entry.state.is_damage());
        found
    }

    /// Iterates over all entries in the order of eviction.
    pub fn entries(&mut self) -> impl Iterator<Item = &Entry> {
        self.pass_uses_on();
        self.back.entries.iter().filter(|entry| entry.state != State::Gone)
    }

    /// Evicts entries until the rest is within these limits.
    pub fn prune(&mut self, limits: Limits) -> Totals {
        self.pass_uses_on();
        self.front.entries.clear();
        self.back.prune(limits)
    }

    /// Flushes the recorded uses.
    pub fn flush(&mut self) {
        self.pass_uses_on();
    }

    /// Removes every entry.
    pub fn clear(&mut self) {
        self.front.entries.clear();
        self.back.entries.clear();
    }

    /// Records uses of these keys.
    pub fn record_access(&mut self, keys: &[usize]) {
        keys.iter().for_each(|key| self.front.record_access(*key));
        self.pass_uses_on();
        keys.iter().for_each(|key| self.back.record_access(*key));
    }

    /// Closes the store, and opens it with these limits.
    pub fn reopen(&mut self, limits: Limits) {
        self.pass_uses_on();
        self.front.entries.clear();
        self.back.limits = limits;
        if !self.kind.is_persistent() {
            self.back.entries.clear();
        }
    }

    /// Returns the sum of the sizes of all entries.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.back.total()
    }

    /// Sets the state of the stored entry of a key.
    pub fn damage(&mut self, key: usize, state: State) {
        if let Some(entry) = self.back.entries.iter_mut().find(|entry| entry.key == key) {
            entry.state = state;
        }
    }

    fn pass_uses_on(&mut self) {
        for key in self.unseen.drain(..) {
            self.back.record_access(key);
        }
    }
}

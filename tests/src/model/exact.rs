//! What each call must answer, to the entry, as long as no call of the disk failed.

use warmstart::{
    Limits, Reason,
    store::{Pruned, Verified},
};

use super::{
    lru::{Entry, NaiveLru, State},
    place::{FRONT, Kind},
};

/// A store of some kind, as it should be.
#[derive(Clone, Debug)]
pub struct Exact {
    kind: Kind,
    back: NaiveLru,
    /// The memory of a tiered store.
    front: NaiveLru,
    /// The uses that the memory answered and that the store behind has not heard of.
    unseen: Vec<usize>,
}

/// What a look-up answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// What this put stored.
    Hit(u64),
    /// There is nothing, or something that must not be handed out.
    Miss(Reason),
}

/// What a put stores.
#[derive(Clone, Copy, Debug)]
pub struct Put {
    /// The number of the key.
    pub key: usize,
    /// Which put it is.
    pub version: u64,
    /// What it counts against the cap.
    pub size: u64,
    /// What it counts in memory.
    pub memory_size: u64,
}

impl Exact {
    /// An empty store.
    #[must_use]
    pub const fn new(kind: Kind, limits: Limits) -> Self {
        Self { kind, back: NaiveLru::new(limits), front: NaiveLru::new(FRONT), unseen: Vec::new() }
    }

    /// Looks up; `memory_size` is what a put counts in memory.
    pub fn get(&mut self, key: usize, memory_size: impl Fn(u64) -> u64) -> Answer {
        if let Some(entry) = self.front.find(key) {
            let version = entry.version;
            self.front.touch(key);
            self.unseen.retain(|other| *other != key);
            self.unseen.push(key);
            return Answer::Hit(version);
        }
        let Some(entry) = self.back.find(key) else { return Answer::Miss(Reason::Absent) };
        let version = entry.version;
        match &entry.state {
            State::Whole => {
                self.back.touch(key);
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
                    self.back.touch(key);
                }
                Answer::Miss(reason)
            }
            State::Gone => Answer::Miss(Reason::Absent),
        }
    }

    /// Stores, and says how many others were evicted.
    ///
    /// # Errors
    /// [`Reason::Oversize`].
    pub fn put(&mut self, put: Put) -> Result<u64, Reason> {
        self.front.remove(put.key);
        self.pass_uses_on();
        let evicted = self.back.put(put.key, put.version, put.size)?;
        if self.kind == Kind::Tiered {
            let _ = self.front.put(put.key, put.version, put.memory_size);
        }
        Ok(evicted)
    }

    /// Removes; says whether there was anything.
    pub fn remove(&mut self, key: usize) -> bool {
        let in_front = self.front.remove(key).is_some();
        let behind = self.back.remove(key).is_some_and(|entry| entry.state != State::Gone);
        in_front || behind
    }

    /// Whether there is something whole by header and length.
    #[must_use]
    pub fn contains(&self, key: usize) -> bool {
        self.front.find(key).is_some() || self.back.find(key).is_some_and(|entry| entry.state.seen().is_ok())
    }

    /// How many are whole by header and length; those that are damaged are removed.
    pub fn count(&mut self) -> u64 {
        self.back.entries.retain(|entry| !entry.state.seen().is_err_and(Reason::is_damage));
        self.back.entries.iter().filter(|entry| entry.state.seen().is_ok()).count() as u64
    }

    /// How many are whole, and how many are not and are removed.
    pub fn verify(&mut self) -> Verified {
        let count =
            |is: fn(&State) -> bool| self.back.entries.iter().filter(|entry| is(&entry.state)).count() as u64;
        let found =
            Verified { whole: count(|state| *state == State::Whole), damaged: count(State::is_damage) };
        self.back.entries.retain(|entry| !entry.state.is_damage());
        found
    }

    /// Every entry that is there, the one that would be evicted first at first.
    pub fn entries(&mut self) -> impl Iterator<Item = &Entry> {
        self.pass_uses_on();
        self.back.entries.iter().filter(|entry| entry.state != State::Gone)
    }

    /// Removes what is beyond these limits.
    pub fn prune(&mut self, limits: Limits) -> Pruned {
        self.pass_uses_on();
        self.front.entries.clear();
        self.back.prune(limits)
    }

    /// Writes the uses down.
    pub fn flush(&mut self) {
        self.pass_uses_on();
    }

    /// Removes every entry.
    pub fn clear(&mut self) {
        self.front.entries.clear();
        self.back.entries.clear();
    }

    /// Counts uses.
    pub fn touch(&mut self, keys: &[usize]) {
        keys.iter().for_each(|key| self.front.touch(*key));
        self.pass_uses_on();
        keys.iter().for_each(|key| self.back.touch(*key));
    }

    /// Closes it and opens it with these limits.
    pub fn reopen(&mut self, limits: Limits) {
        self.pass_uses_on();
        self.front.entries.clear();
        self.back.limits = limits;
        if !self.kind.is_persistent() {
            self.back.entries.clear();
        }
    }

    /// What all entries count, added up.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.back.total()
    }

    /// Somebody did this to the stored entry of a key.
    pub fn damage(&mut self, key: usize, state: State) {
        if let Some(entry) = self.back.entries.iter_mut().find(|entry| entry.key == key) {
            entry.state = state;
        }
    }

    fn pass_uses_on(&mut self) {
        for key in self.unseen.drain(..) {
            self.back.touch(key);
        }
    }
}

//! What may be found under each key, whatever failed.

use std::collections::BTreeSet;

use super::program::KEYS;

/// What is known of the store, key by key.
#[derive(Clone, Debug, Default)]
pub struct Known {
    keys: [OfKey; KEYS],
}

/// What is known of one key.
#[derive(Clone, Debug, Default)]
pub struct OfKey {
    /// The puts of which one may be found.
    pub versions: BTreeSet<u64>,
    /// Whether one of them must be found.
    pub must_be_found: bool,
    /// Whether somebody damaged the entry: then it may or may not be counted.
    pub is_damaged: bool,
}

impl OfKey {
    /// Whether there may be anything.
    #[must_use]
    pub fn may_be_there(&self) -> bool {
        self.is_damaged || !self.versions.is_empty()
    }
}

impl Known {
    /// What is known of a key.
    pub fn of(&mut self, key: usize) -> &mut OfKey {
        &mut self.keys[key]
    }

    /// The put number `version` was accepted; nothing else can be found under its key any more.
    pub fn stored(&mut self, key: usize, version: u64) {
        self.keys[key] =
            OfKey { versions: BTreeSet::from([version]), must_be_found: true, is_damaged: false };
    }

    /// The put number `version` was refused: what is there may be it, or what was there before, or nothing.
    pub fn refused(&mut self, key: usize, version: u64) {
        self.keys[key].versions.insert(version);
        self.keys[key].must_be_found = false;
    }

    /// There is nothing under this key.
    pub fn absent(&mut self, key: usize) {
        self.keys[key] = OfKey::default();
    }

    /// There is nothing at all.
    pub fn cleared(&mut self) {
        self.keys = Default::default();
    }

    /// Entries may have been evicted, but not the one of `except`.
    pub fn evicted_except(&mut self, except: Option<usize>) {
        for (key, known) in self.keys.iter_mut().enumerate() {
            known.must_be_found &= Some(key) == except;
        }
    }

    /// Any entry may be damaged.
    pub fn damaged(&mut self) {
        for known in &mut self.keys {
            known.is_damaged = known.may_be_there();
            known.must_be_found = false;
        }
    }

    /// How many entries there are at least and at most.
    #[must_use]
    pub fn bounds(&self) -> (u64, u64) {
        let count = |is: fn(&OfKey) -> bool| self.keys.iter().filter(|known| is(known)).count() as u64;
        (count(|known| known.must_be_found), count(OfKey::may_be_there))
    }
}

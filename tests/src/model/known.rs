//! The tolerant model: the artifacts that may be found under each key, even if calls of the disk failed.

use std::collections::BTreeSet;

use super::program::KEYS;

/// The possible contents of the store, by key.
#[derive(Clone, Debug, Default)]
pub struct Known {
    keys: [OfKey; KEYS],
}

/// The possible contents of one key.
#[derive(Clone, Debug, Default)]
pub struct OfKey {
    /// The numbers of the puts that may be found.
    pub versions: BTreeSet<u64>,
    /// Whether one of them must be found.
    pub must_be_found: bool,
    /// Whether the entry was damaged; it may or may not be counted then.
    pub is_damaged: bool,
}

impl OfKey {
    /// Returns whether there may be an entry.
    #[must_use]
    pub fn may_be_there(&self) -> bool {
        self.is_damaged || !self.versions.is_empty()
    }
}

impl Known {
    /// Returns the possible contents of a key.
    pub fn of(&mut self, key: usize) -> &mut OfKey {
        &mut self.keys[key]
    }

    /// Records that put number `version` was accepted: no other can be found under its key.
    pub fn stored(&mut self, key: usize, version: u64) {
        self.keys[key] =
            OfKey { versions: BTreeSet::from([version]), must_be_found: true, is_damaged: false };
    }

    /// Records that put number `version` was refused: the key may have it, its previous entry, or none.
    pub fn refused(&mut self, key: usize, version: u64) {
        self.keys[key].versions.insert(version);
        self.keys[key].must_be_found = false;
    }

    /// Records that there is no entry under this key.
    pub fn absent(&mut self, key: usize) {
        self.keys[key] = OfKey::default();
    }

    /// Records that the store is empty.
    pub fn cleared(&mut self) {
        self.keys = Default::default();
    }

    /// Records that entries may have been evicted, except the one of `except`.
    pub fn evicted_except(&mut self, except: Option<usize>) {
        for (key, known) in self.keys.iter_mut().enumerate() {
            known.must_be_found &= Some(key) == except;
        }
    }

    /// Records that any entry may be damaged.
    pub fn damaged(&mut self) {
        for known in &mut self.keys {
            known.is_damaged = known.may_be_there();
            known.must_be_found = false;
        }
    }

    /// Returns the least and the greatest number of entries.
    #[must_use]
    pub fn bounds(&self) -> (u64, u64) {
        let count = |is: fn(&OfKey) -> bool| self.keys.iter().filter(|known| is(known)).count() as u64;
        (count(|known| known.must_be_found), count(OfKey::may_be_there))
    }
}

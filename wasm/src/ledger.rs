//! A tab's view of the sizes and the order of use of all entries, and its pending records for the other tabs.
//!
//! The core's journal is stored in rows: each row of the database's `journal` holds records that one tab
//! appended in one transaction. A row that begins with the journal's header is a snapshot, which replaces all
//! rows before it. One transaction stores an entry, and a later one, which many entries share, accounts for
//! it. A tab that dies between the two leaves an uncounted entry, which the next tab to open the database
//! counts.

use alloc::vec::Vec;

use wasm_bindgen::prelude::wasm_bindgen;

use warmstart_core::{
    journal::{self, Account, Accounts, Event, HEADER_LEN, Record},
    key::Key,
    lru::Limits,
};

use crate::names::{Last, NameHasher};

/// The accounting of all entries, and the pending records.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Ledger {
    accounts: Accounts<NameHasher>,
    limits: Limits,
    pending: Vec<Record>,
    /// The records that are being written.
    taken: Vec<Record>,
}

#[wasm_bindgen]
impl Ledger {
    /// Creates a ledger without entries. An absent limit is no limit.
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new(max_bytes: Option<f64>, max_entries: Option<f64>) -> Self {
        let limits = limits(max_bytes, max_entries);
        Self { accounts: accounts(), limits, pending: Vec::new(), taken: Vec::new() }
    }

    /// Sets the limits.
    pub fn set_limits(&mut self, max_bytes: Option<f64>, max_entries: Option<f64>) {
        self.limits = limits(max_bytes, max_entries);
    }

    /// Returns whether an entry of this size fits within the limits.
    #[must_use]
    pub fn admits(&self, size: f64) -> bool {
        self.limits.admit(size as u64).is_ok()
    }

    /// Records that an entry of this size was stored.
    pub fn stored(&mut self, name: &[u8], size: f64, unix_ms: f64) {
        self.note(name, Event::Stored { size: size as u64 }, unix_ms);
    }

    /// Records that an entry was read.
    pub fn used(&mut self, name: &[u8], unix_ms: f64) {
        self.note(name, Event::Used, unix_ms);
    }

    /// Records that an entry was removed.
    pub fn removed(&mut self, name: &[u8], unix_ms: f64) {
        self.note(name, Event::Removed, unix_ms);
    }

    /// Returns the number of entries.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn entries(&self) -> f64 {
        self.accounts.len() as f64
    }

    /// Returns the total size of the entries, in bytes.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn bytes(&self) -> f64 {
        self.accounts.total_bytes() as f64
    }

    /// Returns whether the entries exceed the limits.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn exceeds(&self) -> bool {
        self.limits.exceeded_by(self.accounts.len() as u64, self.accounts.total_bytes())
    }

    /// Returns the name of the least recently used entry.
    #[must_use]
    pub fn oldest(&self) -> Option<Vec<u8>> {
        self.accounts.oldest().map(|(name, _)| name.as_bytes().to_vec())
    }

    /// Returns the size of an entry, or 0 if it is unknown.
    #[must_use]
    pub fn size_of(&self, name: &[u8]) -> f64 {
        key(name).and_then(|name| self.accounts.size_of(&name)).unwrap_or(0) as f64
    }

    /// Returns the names of all entries, 32 bytes each, the least recently used first.
    #[must_use]
    pub fn names(&self) -> Vec<u8> {
        joined(self.accounts.iter())
    }

    /// Returns the time of last use of each of [`names`](Self::names), in milliseconds since 1970 UTC.
    #[must_use]
    pub fn uses(&self) -> Vec<f64> {
        self.accounts.iter().map(|account| account.used_unix_ms as f64).collect()
    }

    /// Reconciles the accounting with the names of the existing entries, 32 bytes each and sorted: removes
    /// names without an entry, and returns the uncounted names.
    #[must_use]
    pub fn settle(&mut self, there: &[u8], unix_ms: f64) -> Vec<u8> {
        let (there, _) = there.as_chunks::<{ Key::LEN }>();
        for name in joined(self.accounts.iter()).as_chunks::<{ Key::LEN }>().0 {
            if there.binary_search(name).is_err() {
                self.note(name, Event::Removed, unix_ms);
            }
        }
        let mut uncounted = Vec::new();
        for name in there {
            if self.accounts.size_of(&Key::from_bytes(*name)).is_none() {
                uncounted.extend_from_slice(name);
            }
        }
        uncounted
    }

    /// Replays a row of another tab or an earlier visit. If the row is invalid, the journal must be rebuilt.
    pub fn replay(&mut self, row: &[u8]) -> bool {
        let mut records = row;
        if let Some((header, rest)) = row.split_at_checked(HEADER_LEN)
            && journal::check_header(header).is_ok()
        {
            self.accounts = accounts();
            records = rest;
        }
        self.accounts.replay(records).is_ok()
    }

    /// Replays the pending records after the rows of other tabs, as if they were written now.
    pub fn reapply(&mut self) {
        for record in &self.pending {
            self.accounts.apply(record);
        }
    }

    /// Returns the names of entries with a pending record of being stored, 32 bytes each.
    #[must_use]
    pub fn pending_stored(&self) -> Vec<u8> {
        self.pending_names(|event| matches!(event, Event::Stored { .. }))
    }

    /// Returns the names of entries with a pending record of being removed, 32 bytes each.
    #[must_use]
    pub fn pending_removed(&self) -> Vec<u8> {
        self.pending_names(|event| *event == Event::Removed)
    }

    /// Returns whether there are pending records.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Takes the row to write. It has only the last of several uses of an entry.
    #[must_use]
    pub fn take(&mut self) -> Vec<u8> {
        self.taken = core::mem::take(&mut self.pending);
        let numbered = self.taken.iter().enumerate();
        let uses = numbered.filter(|(_, record)| record.event == Event::Used);
        let last = Last::of(uses.map(|(place, record)| (record.digest, place)));
        let mut row = Vec::new();
        for (place, record) in self.taken.iter().enumerate() {
            if record.event != Event::Used || last.place(&record.digest) == Some(place) {
                row.extend_from_slice(&record.encode());
            }
        }
        row
    }

    /// Makes the taken records pending again, after they could not be written.
    pub fn put_back(&mut self) {
        self.taken.append(&mut self.pending);
        core::mem::swap(&mut self.taken, &mut self.pending);
    }

    /// Discards the pending records, for a cache without a journal.
    pub fn forget_pending(&mut self) {
        self.pending.clear();
    }

    /// Forgets everything except the limits.
    pub fn reset(&mut self) {
        self.accounts = accounts();
        self.pending.clear();
        self.taken.clear();
    }

    /// Returns whether so many records are out of date that the journal should be rewritten.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn should_compact(&self) -> bool {
        self.accounts.should_compact()
    }

    /// Returns a snapshot row, including the pending records.
    #[must_use]
    pub fn snapshot(&mut self) -> Vec<u8> {
        self.pending.clear();
        let mut row = journal::header().to_vec();
        for account in self.accounts.iter() {
            let event = Event::Stored { size: account.size };
            let record = Record { digest: account.digest, event, unix_ms: account.used_unix_ms };
            row.extend_from_slice(&record.encode());
        }
        row
    }
}

impl Ledger {
    fn pending_names(&self, is_wanted: impl Fn(&Event) -> bool) -> Vec<u8> {
        let mut names = Vec::new();
        for record in &self.pending {
            if is_wanted(&record.event) {
                names.extend_from_slice(record.digest.as_bytes());
            }
        }
        names
    }

    fn note(&mut self, name: &[u8], event: Event, unix_ms: f64) {
        let Some(name) = key(name) else { return };
        let record = Record { digest: name, event, unix_ms: unix_ms as u64 };
        self.accounts.apply(&record);
        self.pending.push(record);
    }
}

/// Returns the names of all entries of the accounting, 32 bytes each.
fn joined(accounts: impl Iterator<Item = Account>) -> Vec<u8> {
    let mut names = Vec::new();
    accounts.for_each(|account| names.extend_from_slice(account.digest.as_bytes()));
    names
}

fn accounts() -> Accounts<NameHasher> {
    Accounts::new(Limits::NONE, NameHasher::default())
}

fn limits(max_bytes: Option<f64>, max_entries: Option<f64>) -> Limits {
    let whole = |limit: f64| limit as u64;
    Limits { max_entries: max_entries.map(whole), max_bytes: max_bytes.map(whole) }
}

fn key(name: &[u8]) -> Option<Key> {
    name.try_into().ok().map(Key::from_bytes)
}

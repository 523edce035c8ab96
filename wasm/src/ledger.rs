//! What a tab knows of the sizes and the order of use of all entries, and what it has yet to tell the other
//! tabs.
//!
//! The journal of the core, in rows: each row of the database's `journal` is some of its records, appended in
//! one transaction by one tab. A row that begins with the journal's header says everything anew; what was
//! before it counts no more. An entry is stored by one transaction and accounted for by a later one, which
//! many share: a tab that dies between the two leaves an entry that nobody counts, until the next one to open
//! the database finds it.

use alloc::vec::Vec;

use wasm_bindgen::prelude::wasm_bindgen;

use warmstart_core::{
    journal::{self, Account, Accounts, Event, HEADER_LEN, Record},
    key::Key,
    lru::Limits,
};

use crate::names::{Last, NameHasher};

/// The accounts of all entries, and the records that are not written yet.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Ledger {
    accounts: Accounts<NameHasher>,
    limits: Limits,
    pending: Vec<Record>,
    /// What is being written.
    taken: Vec<Record>,
}

#[wasm_bindgen]
impl Ledger {
    /// Of no entries. A limit that is not given is none.
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new(max_bytes: Option<f64>, max_entries: Option<f64>) -> Self {
        let limits = limits(max_bytes, max_entries);
        Self { accounts: accounts(), limits, pending: Vec::new(), taken: Vec::new() }
    }

    /// Other limits from now on.
    pub fn set_limits(&mut self, max_bytes: Option<f64>, max_entries: Option<f64>) {
        self.limits = limits(max_bytes, max_entries);
    }

    /// Whether an entry of this size could be held at all.
    #[must_use]
    pub fn admits(&self, size: f64) -> bool {
        self.limits.admit(size as u64).is_ok()
    }

    /// An entry of this size was stored.
    pub fn stored(&mut self, name: &[u8], size: f64, unix_ms: f64) {
        self.note(name, Event::Stored { size: size as u64 }, unix_ms);
    }

    /// An entry was read.
    pub fn used(&mut self, name: &[u8], unix_ms: f64) {
        self.note(name, Event::Used, unix_ms);
    }

    /// An entry is gone.
    pub fn removed(&mut self, name: &[u8], unix_ms: f64) {
        self.note(name, Event::Removed, unix_ms);
    }

    /// The number of entries.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn entries(&self) -> f64 {
        self.accounts.len() as f64
    }

    /// Their sizes, added up.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn bytes(&self) -> f64 {
        self.accounts.total_bytes() as f64
    }

    /// Whether there is more than the limits allow.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn exceeds(&self) -> bool {
        self.limits.exceeded_by(self.accounts.len() as u64, self.accounts.total_bytes())
    }

    /// The name of the entry longest unused.
    #[must_use]
    pub fn oldest(&self) -> Option<Vec<u8>> {
        self.accounts.oldest().map(|(name, _)| name.as_bytes().to_vec())
    }

    /// The size of an entry, or 0 if it is not known.
    #[must_use]
    pub fn size_of(&self, name: &[u8]) -> f64 {
        key(name).and_then(|name| self.accounts.size_of(&name)).unwrap_or(0) as f64
    }

    /// The names of all entries, 32 bytes each, the one longest unused first.
    #[must_use]
    pub fn names(&self) -> Vec<u8> {
        joined(self.accounts.iter())
    }

    /// When each of [`names`](Self::names) was last used, in milliseconds since 1970 UTC.
    #[must_use]
    pub fn uses(&self) -> Vec<f64> {
        self.accounts.iter().map(|account| account.used_unix_ms as f64).collect()
    }

    /// Brings the accounts to agreement with the names that are there, 32 bytes each and in their order:
    /// strikes out what is gone, and gives the names that nobody has counted.
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

    /// Replays a row that another tab wrote, or an earlier visit. If it is none, the journal has to be made
    /// anew.
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

    /// Brings the accounts to where they are once what is pending is written: behind what others wrote before
    /// it.
    pub fn reapply(&mut self) {
        for record in &self.pending {
            self.accounts.apply(record);
        }
    }

    /// The names of the entries of which it is yet to be written that they were stored, 32 bytes each.
    #[must_use]
    pub fn pending_stored(&self) -> Vec<u8> {
        self.pending_names(|event| matches!(event, Event::Stored { .. }))
    }

    /// The same of those that were removed.
    #[must_use]
    pub fn pending_removed(&self) -> Vec<u8> {
        self.pending_names(|event| *event == Event::Removed)
    }

    /// Whether there is something to write.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The row to write; of several uses of an entry only the last counts.
    #[must_use]
    pub fn take(&mut self) -> Vec<u8> {
        self.taken = core::mem::take(&mut self.pending);
        let numbered = self.taken.iter().enumerate();
        let uses = numbered.filter(|(_, record)| record.event == Event::Used);
        let last = Last::of(uses.map(|(place, record)| (record.name, place)));
        let mut row = Vec::new();
        for (place, record) in self.taken.iter().enumerate() {
            if record.event != Event::Used || last.place(&record.name) == Some(place) {
                row.extend_from_slice(&record.encode());
            }
        }
        row
    }

    /// What was taken could not be written: it is pending again.
    pub fn put_back(&mut self) {
        self.taken.append(&mut self.pending);
        core::mem::swap(&mut self.taken, &mut self.pending);
    }

    /// Forgets what is pending: where there is no journal, nobody writes it.
    pub fn forget_pending(&mut self) {
        self.pending.clear();
    }

    /// Forgets everything, but the limits.
    pub fn reset(&mut self) {
        self.accounts = accounts();
        self.pending.clear();
        self.taken.clear();
    }

    /// Whether so many records are out of date that the journal should be made anew.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn should_compact(&self) -> bool {
        self.accounts.should_compact()
    }

    /// Returns a row that says everything, also what is pending.
    #[must_use]
    pub fn snapshot(&mut self) -> Vec<u8> {
        self.pending.clear();
        let mut row = journal::header().to_vec();
        for account in self.accounts.iter() {
            let event = Event::Stored { size: account.size };
            let record = Record { name: account.name, event, unix_ms: account.used_unix_ms };
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
                names.extend_from_slice(record.name.as_bytes());
            }
        }
        names
    }

    fn note(&mut self, name: &[u8], event: Event, unix_ms: f64) {
        let Some(name) = key(name) else { return };
        let record = Record { name, event, unix_ms: unix_ms as u64 };
        self.accounts.apply(&record);
        self.pending.push(record);
    }
}

/// The names of the accounts, 32 bytes each.
fn joined(accounts: impl Iterator<Item = Account>) -> Vec<u8> {
    let mut names = Vec::new();
    accounts.for_each(|account| names.extend_from_slice(account.name.as_bytes()));
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

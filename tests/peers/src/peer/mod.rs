//! The stores that are compared, ours and others, behind one trait.

mod cacache;
#[cfg(feature = "cubecl")]
mod cubecl;
mod heed;
mod moka;
mod ours;
mod proved;
mod quick_cache;
mod redb;
mod rusqlite;

use std::path::Path;

use crate::value::{Key, Value, Values};

/// Something that keeps values under keys. Where a medium fails, it panics: then nothing can be compared.
pub(crate) trait Peer: Send + Sync {
    /// Keeps the value, in place of what was there.
    fn put(&self, key: &Key, value: &Value);

    /// Whether there is a value; its bytes are shown as the peer hands them out, and dropped within the time measured.
    fn get(&self, key: &Key, show: &mut dyn FnMut(&[u8])) -> bool;

    /// Stores the entries numbered 0 to `entries`, as quickly as it can.
    fn fill(&self, entries: u64, values: &Values) {
        for n in 0..entries {
            self.put(&crate::value::key(n), values.of(n));
        }
    }
}

/// The configuration of a peer, the same for all stores of a row.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Settings {
    /// Stored values survive a loss of power.
    pub(crate) durable: bool,
    /// Other processes use the same directory at the same time.
    pub(crate) shared: bool,
    /// The cap in bytes.
    pub(crate) max_bytes: Option<u64>,
}

/// A peer, and what is known about it.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) open: fn(&Path, Settings) -> Box<dyn Peer>,
    /// The reason why this build lacks the peer.
    pub(crate) missing: Option<&'static str>,
    /// The guarantees of our stores that this one lacks, in a phrase each; may be empty.
    pub(crate) leaves_out: &'static str,
    /// Why it cannot do these.
    pub(crate) no_durable: Option<&'static str>,
    pub(crate) no_shared: Option<&'static str>,
    pub(crate) no_cap: Option<&'static str>,
}

impl Kind {
    const fn new(
        name: &'static str,
        open: fn(&Path, Settings) -> Box<dyn Peer>,
        leaves_out: &'static str,
    ) -> Self {
        Self {
            name,
            open,
            leaves_out,
            missing: None,
            no_durable: None,
            no_shared: None,
            no_cap: Some("has no quota"),
        }
    }
}

/// Our stores that persist.
pub(crate) static OURS: [Kind; 2] = [
    Kind { no_cap: None, ..Kind::new("files", ours::files, "") },
    Kind { no_cap: None, ..Kind::new("sqlite", ours::sqlite, "") },
];

/// Our stores in memory.
pub(crate) static OURS_IN_MEMORY: [Kind; 2] = [
    Kind { no_cap: None, ..Kind::new("memory", ours::memory, "") },
    Kind { no_cap: None, ..Kind::new("tiered", ours::tiered, "") },
];

/// The others that persist. A name with a plus is a peer that is helped to what it leaves out and a few lines can add.
pub(crate) static PEERS: [Kind; 8] = [
    Kind::new("redb", redb::open, "a checksum at the hit, quota, order of use"),
    Kind::new("redb + XXH3", redb::open_proved, "quota, order of use"),
    Kind::new(
        "heed",
        heed::open,
        "a checksum at the hit, bytes of one's own (it shows a mapping), quota, order of use",
    ),
    Kind::new("heed + XXH3 + copy", heed::open_proved, "quota, order of use"),
    Kind {
        no_durable: Some("never calls fsync"),
        ..Kind::new("cacache", cacache::open, "quota, order of use")
    },
    Kind::new("rusqlite", rusqlite::open, "a checksum at the hit, quota, order of use"),
    Kind::new("rusqlite + XXH3", rusqlite::open_proved, "quota, order of use"),
    CUBECL,
];

#[cfg(feature = "cubecl")]
const CUBECL: Kind = Kind {
    no_durable: Some("has no such mode"),
    ..Kind::new("cubecl-environment", cubecl::open, "a checksum at the hit, quota, order of use")
};
#[cfg(not(feature = "cubecl"))]
const CUBECL: Kind = Kind {
    missing: Some("built without its feature"),
    ..Kind::new("cubecl-environment", |_, _| unreachable!("it is not built"), "")
};

/// The others in memory.
pub(crate) static PEERS_IN_MEMORY: [Kind; 3] = [
    Kind {
        no_cap: None,
        ..Kind::new("quick_cache", quick_cache::open, "the exact order of use; the cap holds for each shard")
    },
    Kind {
        no_cap: None,
        ..Kind::new("moka", moka::open, "the exact order of use; the cap holds a little later")
    },
    Kind { no_cap: None, ..Kind::new("moka, LRU", moka::open_lru, "the cap holds a little later") },
];

/// The kind of this name.
pub(crate) fn named(name: &str) -> Option<&'static Kind> {
    all().find(|kind| kind.name == name)
}

fn all() -> impl Iterator<Item = &'static Kind> {
    [&OURS[..], &OURS_IN_MEMORY, &PEERS, &PEERS_IN_MEMORY].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::key;

    /// Asserts that a row is valid: a value that was stored is read, and one that was not stored is missed.
    #[test]
    fn every_peer_keeps_what_it_is_given() {
        let directory = tempfile::tempdir().unwrap();
        let values = Values::new(5000);
        for kind in all().filter(|kind| kind.missing.is_none()) {
            let path = directory.path().join(kind.name);
            let peer = (kind.open)(&path, Settings::default());
            peer.fill(20, &values);
            peer.put(&key(3), values.of(50));
            for n in 0..20 {
                let mut seen = Vec::new();
                assert!(peer.get(&key(n), &mut |bytes| seen = bytes.to_vec()), "{}: {n}", kind.name);
                let expected = values.of(if n == 3 { 50 } else { n });
                assert!(seen == expected.payload(), "{}: {n}", kind.name);
            }
            assert!(!peer.get(&key(20), &mut |_| {}), "{}", kind.name);
        }
    }

    #[test]
    fn what_persists_is_found_after_opening_again() {
        let directory = tempfile::tempdir().unwrap();
        let values = Values::new(5000);
        for kind in OURS.iter().chain(&PEERS).filter(|kind| kind.missing.is_none()) {
            let path = directory.path().join(kind.name);
            for settings in [Settings::default(), Settings { shared: true, ..Settings::default() }] {
                (kind.open)(&path, settings).put(&key(1), values.of(1));
                let peer = (kind.open)(&path, settings);
                assert!(peer.get(&key(1), &mut |_| {}), "{}", kind.name);
            }
        }
    }
}

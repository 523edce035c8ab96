//! The suite that every store passes, on a fleet whose remote is empty at first.

use std::{fs, sync::Arc};

use tempfile::TempDir;
use warmstart::{
    Clock, Key, Limits, Store,
    store::{FileStore, StoreOptions},
};
use warmstart_remote::{Fleet, FleetOptions, RemoteStore};
use warmstart_tests::conformance::{self, Harness};

use crate::{Place, patient};

/// A fleet's machine, and the remote.
struct Machine {
    folder: TempDir,
    url: String,
    max_upload_bytes: Option<u64>,
}

impl Machine {
    fn remote(&self) -> RemoteStore {
        patient(&self.url)
    }
}

impl Harness for Machine {
    fn open(&self, limits: Limits, clock: Arc<dyn Clock>) -> Box<dyn Store> {
        let options = StoreOptions::default().with_limits(limits).with_clock(clock);
        let local = FileStore::open(self.folder.path().join("cache"), options).unwrap();
        let mut options = FleetOptions::default().with_directory(self.folder.path().join("fleet"));
        if let Some(max) = self.max_upload_bytes {
            options = options.with_max_upload_bytes(max);
        }
        Box::new(Fleet::new(local, self.remote(), options))
    }

    fn damage(&self, key: &[u8], alter: &mut dyn FnMut(&mut Vec<u8>)) {
        let path = self.folder.path().join("cache/entries").join(Key::digest(key).to_string());
        let mut bytes = fs::read(&path).unwrap();
        alter(&mut bytes);
        fs::write(path, bytes).unwrap();
    }
}

/// Topics that need no store on disk of one's own.
const TOPICS: &[&str] =
    &["interface", "eviction", "damage", "inspect", "into", "many", "threads", "one_call"];

/// Where an upload changes the outcome: the remote still has what the local store evicted, cleared or lost to damage, and
/// an upload reads the entry, which evicts a damaged one.
const ELSEWHERE: &[&str] = &[
    "eviction",
    "damage",
    "inspect",
    "len_and_clear",
    "what_is_too_large_is_returned_all_the_same",
    "what_is_damaged_is_built_again",
    "get_into_counts_as_a_use",
    "get_many_counts_as_a_use_of_each_key",
];

/// Returns the cases that apply, by the names of their tests: all of them where nothing is uploaded, and most of them where all is.
pub(crate) fn cases() -> impl Iterator<Item = (&'static str, impl FnOnce(&Place) + Send + 'static)> {
    let kinds = [("alone", Some(0), &[][..]), ("shared", None, ELSEWHERE)];
    kinds.into_iter().flat_map(|(kind, max_upload_bytes, left_out)| {
        let machine = move |url| {
            let machine = Machine { folder: TempDir::new().unwrap(), url, max_upload_bytes };
            conformance::Place::Any(Box::new(machine))
        };
        let applies = move |case: &conformance::Case| {
            TOPICS.contains(&case.topic)
                && !left_out.iter().any(|name| *name == case.topic || *name == case.name)
                && case.unmet(&machine(String::new())).is_empty()
        };
        conformance::cases().into_iter().filter(applies).map(move |case| {
            let name: &str = format!("{kind}::{}::{}", case.topic, case.name).leak();
            (name, move |place: &Place| case.play(&machine(place.url())))
        })
    })
}

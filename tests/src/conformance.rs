//! The suite that every store passes.
//!
//! A kind of store is a line of [`KINDS`]. `tests/tests/conformance` makes one test of each kind and of each [`Case`] of its
//! topics: of each scenario and of each function below. What can be told as data is a [scenario](mod@crate::scenario), which
//! a browser plays too; the functions are the rest.
//!
//! | topic | proves | told as |
//! |---|---|---|
//! | interface | the calls, one by one, and what they say of each other | scenarios |
//! | eviction | which entry goes when, and what the cap counts | scenarios |
//! | damage | that no damaged entry is handed out | scenarios |
//! | [`inspect`] | what a store tells about itself, and what it keeps of reports | scenarios and functions |
//! | [`into`] | that a payload read into a buffer of the caller's is the one that was stored | functions |
//! | [`many`] | that a look-up of many keys answers each as a look-up of that key alone | functions |
//! | [`threads`] | that readers and writers at once see only what was written | functions |
//! | [`one_call`] | look up, else build: single flight, failing builders, nested builds | scenarios and functions |
//! | [`read_only`] | that looking at what is on disk changes nothing | functions |
//! | [`seal`] | that a secret's store takes nothing that the secret has not sealed | functions |
//! | [`processes`] | that processes share a store, and may die at any instant | functions |
//!
//! The kinds themselves are in [`stores`].

pub mod inspect;
pub mod into;
pub mod many;
pub mod one_call;
pub mod processes;
pub mod read_only;
pub mod seal;
pub mod stores;
pub mod threads;

use std::{path::Path, process::Command, sync::Arc};

use warmstart::{Clock, Limits, Store, SystemClock};

use crate::scenario::{self, script::Scenario};

/// An empty place for one store, and how that store is opened there.
pub trait Harness {
    /// Opens the store at this place, with what it holds, if it is [persistent](Self::is_persistent).
    fn open(&self, limits: Limits, clock: Arc<dyn Clock>) -> Box<dyn Store>;

    /// Whether a store that is opened again holds what the one before it held.
    fn is_persistent(&self) -> bool {
        true
    }

    /// Whether every hit is proved, and therefore damage found.
    fn is_checked(&self) -> bool {
        self.is_persistent()
    }

    /// Alters the stored bytes of the entry of `key`, behind the store's back.
    ///
    /// # Panics
    /// If there is no such entry.
    fn damage(&self, key: &[u8], alter: &mut dyn FnMut(&mut Vec<u8>)) {
        let _ = (key, alter);
        panic!("a store that is checked says how it is damaged");
    }

    /// Opens the store without limits and with the system's clock.
    fn open_default(&self) -> Box<dyn Store> {
        self.open(Limits::NONE, Arc::new(SystemClock))
    }
}

/// A store on disk, which other processes open too.
pub trait OnDisk: Harness {
    /// Opens the store at this place.
    fn open_as(&self, opening: Opening) -> Box<dyn Store>;

    /// Returns the byte that fills the secret of [`open`](Harness::open); `None` if the store is not sealed.
    fn secret(&self) -> Option<u8>;

    /// Returns the folder of all files of the store.
    fn folder(&self) -> &Path;

    /// Adds the arguments that make `worker` work on this store.
    fn worker(&self, worker: &mut Command);

    /// Asserts that the store's counts of bytes and entries match the disk, and the cap holds.
    fn check_accounts(&self, cap: Option<u64>);

    /// Asserts that the files of a closed store are whole, and dead processes left none.
    fn check_files(&self, cap: Option<u64>);

    /// Returns the names of files that were written and not yet published.
    fn temp_files(&self) -> Vec<String>;
}

/// The options to open a store on disk.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The limits of the store.
    pub limits: Limits,
    /// The clock of the store.
    pub clock: Arc<dyn Clock>,
    /// Each byte of the secret that seals it; `None` is no seal.
    pub secret: Option<u8>,
    /// Whether it is opened read-only.
    pub is_read_only: bool,
}

impl Opening {
    /// Opens as [`Harness::open_default`] does.
    #[must_use]
    pub fn of(harness: &dyn OnDisk) -> Self {
        Self::sealed(harness.secret())
    }

    /// Opens without limits, with the system's clock and this secret.
    #[must_use]
    pub fn sealed(secret: Option<u8>) -> Self {
        Self { limits: Limits::NONE, clock: Arc::new(SystemClock), secret, is_read_only: false }
    }
}

/// A kind of store: its topics, and how an empty one is made.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The name of the store.
    pub name: &'static str,
    /// The topics of the suite that apply to it.
    pub topics: &'static [&'static str],
    /// Makes an empty place.
    pub new: New,
}

/// Makes an empty place for a store.
#[derive(Clone, Copy, Debug)]
pub enum New {
    /// In memory, or in parts.
    Any(fn() -> Box<dyn Harness>),
    /// On disk.
    OnDisk(fn() -> Box<dyn OnDisk>),
}

impl New {
    /// Makes one.
    #[must_use]
    pub fn place(self) -> Place {
        match self {
            Self::Any(new) => Place::Any(new()),
            Self::OnDisk(new) => Place::OnDisk(new()),
        }
    }
}

/// A place for a store.
#[expect(missing_debug_implementations, reason = "harnesses have none")]
pub enum Place {
    /// In memory, or in parts.
    Any(Box<dyn Harness>),
    /// On disk.
    OnDisk(Box<dyn OnDisk>),
}

/// The topics of every store that evicts and detects damage itself.
const ALL: &[&str] = &["interface", "eviction", "damage", "inspect", "into", "many", "threads", "one_call"];
/// The topics of a store on disk that can be opened with or without a seal.
const DISK: &[&str] = &[
    "interface",
    "eviction",
    "damage",
    "inspect",
    "into",
    "many",
    "threads",
    "one_call",
    "read_only",
    "seal",
    "processes",
];
/// The topics of a store on disk that is always sealed.
const SEALED: &[&str] =
    &["interface", "eviction", "damage", "inspect", "into", "many", "threads", "one_call", "read_only"];
/// The topics of memory in front of a store. The store behind it passes those of eviction and damage.
const TIERED: &[&str] = &["interface", "inspect", "threads", "one_call"];

/// The stores that pass the suite.
pub const KINDS: &[Kind] = &[
    Kind { name: "memory", topics: ALL, new: New::Any(|| Box::new(stores::Memory)) },
    Kind { name: "tiered", topics: TIERED, new: New::Any(|| Box::new(stores::Tiered::new())) },
    Kind { name: "files", topics: DISK, new: New::OnDisk(|| Box::new(stores::Files::new(None))) },
    Kind { name: "sqlite", topics: DISK, new: New::OnDisk(|| Box::new(stores::Sqlite::new(None))) },
    Kind { name: "sealed_files", topics: SEALED, new: New::OnDisk(|| Box::new(stores::Files::new(Some(1)))) },
    #[cfg(unix)]
    Kind {
        name: "sealed_shared_files",
        topics: SEALED,
        new: New::OnDisk(|| Box::new(stores::Files::shared(1))),
    },
    Kind {
        name: "sealed_sqlite",
        topics: SEALED,
        new: New::OnDisk(|| Box::new(stores::Sqlite::new(Some(1)))),
    },
];

/// A part of the suite.
#[derive(Debug)]
pub struct Case {
    /// The topic that a [`Kind`] must list to play it.
    pub topic: &'static str,
    /// The property that it proves.
    pub name: String,
    play: Play,
}

#[derive(Debug)]
enum Play {
    Scenario(Scenario),
    Any(fn(&dyn Harness)),
    OnDisk(fn(&dyn OnDisk)),
}

impl Case {
    /// Returns what a store at this place lacks to play it.
    #[must_use]
    pub fn unmet(&self, place: &Place) -> Vec<&'static str> {
        match (&self.play, place) {
            (Play::Scenario(scenario), Place::Any(harness)) => scenario.unmet(&**harness),
            (Play::Scenario(scenario), Place::OnDisk(harness)) => scenario.unmet(&**harness),
            (Play::OnDisk(_), Place::Any(_)) => vec!["a store on disk"],
            (Play::Any(_) | Play::OnDisk(_), _) => Vec::new(),
        }
    }

    /// Plays it at this place, which is empty.
    ///
    /// # Panics
    /// If the store does not do what it must, or [cannot](Self::unmet) play it.
    pub fn play(&self, place: &Place) {
        match (&self.play, place) {
            (Play::Scenario(scenario), Place::Any(harness)) => scenario::play(scenario, &**harness),
            (Play::Scenario(scenario), Place::OnDisk(harness)) => scenario::play(scenario, &**harness),
            (Play::Any(function), Place::Any(harness)) => function(&**harness),
            (Play::Any(function), Place::OnDisk(harness)) => function(&**harness),
            (Play::OnDisk(function), Place::OnDisk(harness)) => function(&**harness),
            (Play::OnDisk(_), Place::Any(_)) => panic!("it needs a store on disk"),
        }
    }
}

/// Returns all cases: the scenarios of every file, and the functions.
#[must_use]
pub fn cases() -> Vec<Case> {
    macro_rules! functions {
        ($($play:ident $topic:ident: $($function:ident),* $(,)?;)*) => {
            [$($((
                stringify!($topic),
                stringify!($function),
                Play::$play($topic::$function),
            )),*),*]
        };
    }
    let functions = functions! {
        Any inspect:
            a_visitor_of_entries_may_call_the_store,
            the_nearest_recipe_is_one_that_differs_least,
            reports_add_up_and_outlive_what_is_cleared;
        Any into:
            get_into_returns_what_get_returns,
            get_into_counts_as_a_use;
        OnDisk into:
            get_into_returns_no_damaged_payload,
            get_into_returns_no_payload_of_another_key_or_seal,
            damage_in_any_piece_of_a_large_entry_is_noticed;
        Any many:
            get_many_returns_each_key_in_order,
            get_many_counts_as_a_use_of_each_key;
        OnDisk many:
            get_many_returns_the_others_beside_damage;
        Any threads:
            every_read_is_what_was_written_under_its_key,
            readers_and_writers_race_with_eviction_and_clear;
        Any one_call:
            of_many_threads_one_builds,
            an_error_stores_nothing_and_the_next_builds,
            a_panic_stores_nothing_and_those_who_wait_go_on,
            nested_builds_never_deadlock;
        OnDisk read_only:
            looking_changes_nothing,
            a_head_that_is_not_whole_is_told_and_left_where_it_is,
            the_last_miss_is_explained_to_who_only_looks;
        OnDisk seal:
            entry_not_sealed_by_our_secret_is_a_miss_and_replaced,
            an_entry_that_is_replayed_under_another_name_is_a_miss,
            stores_of_other_secrets_or_none_leave_unproved_entries_alone,
            unsealed_entry_is_no_member_of_a_sealed_store_and_stays,
            damage_is_told_from_forgery_without_the_secret,
            the_nearest_is_none_that_anybody_could_have_put_there;
        OnDisk processes:
            eight_processes_against_eviction_and_clear,
            killed_writers_leave_nothing_torn_and_nothing_locked,
            killed_churners_leave_the_cap_and_every_entry_whole;
    };
    let scenarios = scenario::FILES.iter().flat_map(|(topic, _)| {
        let cases = scenario::of(topic).into_iter();
        cases.map(|scenario| Case { topic, name: scenario.name.clone(), play: Play::Scenario(scenario) })
    });
    let functions = functions.into_iter();
    let functions = functions.map(|(topic, name, play)| Case { topic, name: name.to_owned(), play });
    scenarios.chain(functions).collect()
}

/// Opens a store without limits, as most tests need it.
fn store(harness: &dyn Harness) -> Box<dyn Store> {
    harness.open_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A topic that no case has would take its tests away without a word.
    #[test]
    fn topics_of_kinds_are_topics_of_cases() {
        let cases = cases();
        for kind in KINDS {
            for topic in kind.topics {
                assert!(cases.iter().any(|case| case.topic == *topic), "{}: {topic}", kind.name);
            }
        }
    }
}

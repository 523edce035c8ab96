//! The suite that every store passes.
//!
//! A store is given as a [`Harness`]; [`conformance!`](crate::conformance!) makes one test of each scenario and of each
//! function below. What can be told as data is a [scenario](mod@crate::scenario), which a browser plays too; the functions
//! are the rest.
//!
//! | topic | proves | told as |
//! |---|---|---|
//! | interface | the calls, one by one, and what they say of each other | scenarios |
//! | eviction | which entry goes when, and what the cap counts | scenarios |
//! | damage | that no damaged entry is handed out | scenarios |
//! | [`inspect`] | what a store tells about itself, and what it keeps of reports | scenarios and functions |
//! | [`threads`] | that readers and writers at once see only what was written | functions |
//! | [`one_call`] | look up, else build: single flight, failing builders, nested builds | scenarios and functions |
//!
//! The harness of the file store is in [`files`], for more than one test has it.

pub mod files;
pub mod inspect;
pub mod one_call;
pub mod threads;

use std::sync::Arc;

use warmstart::{Clock, Limits, Store};

/// A kind of store, and where one of that kind is kept.
pub trait Harness {
    /// An empty place.
    fn new() -> Self
    where
        Self: Sized;

    /// Opens the store at this place, with what it holds, if it is [persistent](Self::is_persistent).
    fn open(&self, limits: Limits, clock: Arc<dyn Clock>) -> Box<dyn Store>;

    /// Whether a store that is opened anew holds what the one before it held.
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
        self.open(Limits::NONE, Arc::new(warmstart::SystemClock))
    }
}

/// One test of each scenario and of each function of the suite, for the store of a [`Harness`]; or only those of a topic.
///
/// ```ignore
/// warmstart_tests::conformance!(MyHarness);
/// warmstart_tests::conformance!(AnotherHarness: interface);
/// ```
#[macro_export]
macro_rules! conformance {
    ($harness:ty) => {
        $crate::conformance!($harness: interface);
        $crate::conformance!($harness: eviction);
        $crate::conformance!($harness: damage);
        $crate::conformance!($harness: inspect);
        $crate::conformance!($harness: threads);
        $crate::conformance!($harness: one_call);
    };
    ($harness:ty: interface) => {
        $crate::conformance!($harness: interface
            scenarios {
                text_and_bytes_are_one_key,
                what_is_put_is_found_with_metadata_and_provenance,
                an_overwrite_replaces,
                what_is_removed_is_absent,
                membership_is_what_a_look_up_would_say,
                len_and_clear,
                empty_payloads_and_empty_keys,
                a_key_of_a_mebibyte,
                keys_that_begin_alike_are_told_apart,
                after_close_everything_is_refused,
                what_was_stored_is_there_when_it_is_opened_again,
            }
            functions {}
        );
    };
    ($harness:ty: eviction) => {
        $crate::conformance!($harness: eviction
            scenarios {
                the_least_recently_used_goes_first,
                membership_is_not_a_use,
                an_overwrite_is_a_use,
                recency_survives_reopening,
                recency_survives_a_clock_that_is_set_back,
                the_cap_is_kept_at_every_step,
                an_overwrite_adjusts_the_size,
                a_removal_adjusts_the_size,
                the_oversized_are_refused_before_anything_is_evicted,
                a_cap_of_zero_refuses_everything,
                the_number_of_entries_is_capped_too,
                a_cap_of_no_entries_refuses_everything,
            }
            functions {}
        );
    };
    ($harness:ty: damage) => {
        $crate::conformance!($harness: damage
            scenarios {
                no_flipped_byte_is_handed_out,
                no_truncation_is_handed_out,
                the_reason_of_damage_is_told,
                len_removes_what_is_not_whole,
                another_keys_envelope_is_not_handed_out,
                a_newer_envelope_is_a_miss_and_left_alone,
                a_newer_envelope_is_no_entry,
                verify_finds_and_removes_what_len_cannot_see,
            }
            functions {}
        );
    };
    ($harness:ty: inspect) => {
        $crate::conformance!($harness: inspect
            scenarios {
                entries_come_in_the_order_of_their_eviction,
                the_nearest_recipe_explains_a_miss,
                what_went_is_nearest_no_more,
                a_recipe_does_not_explain_itself,
                pruning_takes_the_oldest,
                verifying_tells_of_each_entry,
                a_closed_store_tells_nothing,
            }
            functions {
                whoever_looks_at_entries_may_call_the_store,
                the_nearest_recipe_is_one_that_differs_least,
                reports_add_up_and_outlive_what_is_cleared,
            }
        );
    };
    ($harness:ty: threads) => {
        $crate::conformance!($harness: threads
            scenarios {}
            functions {
                every_read_is_what_was_written_under_its_key,
                readers_and_writers_race_with_eviction_and_clear,
            }
        );
    };
    ($harness:ty: one_call) => {
        $crate::conformance!($harness: one_call
            scenarios {
                it_builds_once_and_then_hits,
                an_error_stores_nothing,
                what_is_too_large_is_returned_all_the_same,
                a_closed_store_builds_every_time,
                what_is_damaged_is_built_again,
            }
            functions {
                of_many_threads_one_builds,
                an_error_stores_nothing_and_the_next_builds,
                a_panic_stores_nothing_and_those_who_wait_go_on,
                nested_builds_never_deadlock,
            }
        );
    };
    (
        $harness:ty: $topic:ident
        scenarios { $($scenario:ident),* $(,)? }
        functions { $($function:ident),* $(,)? }
    ) => {
        mod $topic {
            #[allow(unused_imports)]
            use super::*;
            use $crate::{conformance::Harness as _, scenario};

            #[test]
            fn no_scenario_is_left_out() {
                let played: &[&str] = &[$(stringify!($scenario)),*];
                assert_eq!(scenario::names(stringify!($topic)), played);
            }
            $(
                #[test]
                fn $scenario() {
                    scenario::play(stringify!($topic), stringify!($scenario), &<$harness>::new());
                }
            )*
            $(
                #[test]
                fn $function() {
                    $crate::conformance::$topic::$function(&<$harness>::new());
                }
            )*
        }
    };
}

/// What every test needs: a store without limits.
fn store(harness: &dyn Harness) -> Box<dyn Store> {
    harness.open_default()
}

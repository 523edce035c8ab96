//! Counting by any number of threads.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::os::fork::Mutex;

use crate::{Reason, ReasonCounts};

/// Declares what statistics are of, and `Counters` that they are a snapshot of. Each counter is exact; a snapshot that is taken
/// while others count is of no single instant.
macro_rules! counters {
    (
        $(#[$about:meta])* $statistics:ident,
        numbers: { $($(#[$number_doc:meta])* $number:ident,)* }
        reasons: { $($(#[$reasons_doc:meta])* $reasons:ident,)* }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct $statistics {
            $($(#[$number_doc])* pub $number: u64,)*
            $($(#[$reasons_doc])* pub $reasons: $crate::ReasonCounts,)*
        }

        #[derive(Debug, Default)]
        pub(super) struct Counters {
            $(pub(super) $number: std::sync::atomic::AtomicU64,)*
            $($reasons: $crate::pack::counters::ByReason,)*
        }

        impl Counters {
            pub(super) fn snapshot(&self) -> $statistics {
                $statistics {
                    $($number: self.$number.load(std::sync::atomic::Ordering::Relaxed),)*
                    $($reasons: self.$reasons.snapshot(),)*
                }
            }
        }
    };
}

pub(crate) use counters;

/// How often something happened, by reason.
#[derive(Debug, Default)]
pub(crate) struct ByReason(Mutex<ReasonCounts>);

impl ByReason {
    pub(crate) fn add(&self, reason: Reason) {
        self.0.lock().add(reason, 1);
    }

    pub(crate) fn snapshot(&self) -> ReasonCounts {
        *self.0.lock()
    }
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

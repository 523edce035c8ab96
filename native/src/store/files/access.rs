//! Whether a directory can be read and written, as far as that is known.

use std::sync::atomic::{AtomicU8, Ordering};

use warmstart_core::reason::Reason;

/// Why nothing can be looked up, and why nothing can be stored. What passes is found out anew when it matters.
#[derive(Debug, Default)]
pub(super) struct Access {
    pub(super) reads: Gate,
    pub(super) writes: Gate,
}

/// A reason, or none: 0, or 1 and the reason's index.
#[derive(Debug, Default)]
pub(super) struct Gate(AtomicU8);

impl Gate {
    pub(super) fn reason(&self) -> Option<Reason> {
        let code = usize::from(self.0.load(Ordering::Relaxed));
        Reason::ALL.get(code.wrapping_sub(1)).copied()
    }

    pub(super) fn set(&self, reason: Option<Reason>) {
        let code = reason.map_or(0, |reason| reason.index() + 1);
        self.0.store(u8::try_from(code).unwrap_or(u8::MAX), Ordering::Relaxed);
    }
}

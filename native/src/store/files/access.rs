//! Whether a directory can be read and written, as far as that is known.

use std::sync::atomic::{AtomicU8, Ordering};

use warmstart_core::reason::Reason;

use super::FileStore;
use crate::error::OpenError;

/// Why nothing can be looked up, and why nothing can be stored. What passes is found out anew when it matters.
#[derive(Debug, Default)]
pub(super) struct Access {
    reads: Gate,
    writes: Gate,
}

/// A reason, or none: 0, or 1 and the reason's index.
#[derive(Debug, Default)]
struct Gate(AtomicU8);

impl Access {
    pub(super) fn to_writes(&self) -> Option<Reason> {
        self.writes.reason()
    }
}

impl Gate {
    fn reason(&self) -> Option<Reason> {
        let code = usize::from(self.0.load(Ordering::Relaxed));
        Reason::ALL.get(code.wrapping_sub(1)).copied()
    }

    fn set(&self, reason: Option<Reason>) {
        let code = reason.map_or(0, |reason| reason.index() + 1);
        self.0.store(u8::try_from(code).unwrap_or(u8::MAX), Ordering::Relaxed);
    }
}

impl FileStore {
    /// Makes the directory if it must, and looks at what is in it.
    pub(super) fn find_out_access(&self) -> Result<(), OpenError> {
        if self.options.read_only {
            self.layout.check(&*self.options.disk)?;
            let reads = match self.ledger.is_newer() {
                true => Some(Reason::NewerVersion),
                false if !self.has_entries() => Some(Reason::Unavailable),
                false => None,
            };
            self.access.writes.set(Some(Reason::ReadOnly));
            self.access.reads.set(reads);
            return Ok(());
        }
        let missing = self.layout.prepare(&*self.options.disk, self.options.durable)?;
        self.layout.temps.begin_anew();
        let writes = missing.or_else(|| self.ledger.probe().err());
        // A read-only directory still serves what is in it; without a directory there is nothing.
        let reads = match writes {
            Some(Reason::NewerVersion) => Some(Reason::NewerVersion),
            Some(_) if !self.has_entries() => Some(Reason::Unavailable),
            _ => None,
        };
        self.access.writes.set(writes);
        self.access.reads.set(reads);
        Ok(())
    }

    /// Why nothing can be looked up. A directory that was missing may have been made by now.
    pub(super) fn access_to_reads(&self) -> Option<Reason> {
        let reason = self.access.reads.reason()?;
        if reason == Reason::Unavailable && self.has_entries() {
            self.access.reads.set(None);
        }
        self.access.reads.reason()
    }

    /// Why nothing can be stored. What kept the directory from being used may have passed by now.
    pub(super) fn access_to_writes(&self) -> Option<Reason> {
        let reason = self.access.writes.reason()?;
        let is_final = reason == Reason::NewerVersion || self.options.read_only;
        if !is_final && self.find_out_access().is_err() {
            // What is there now is not what was opened: see `OpenError`.
            self.access.writes.set(Some(Reason::Untrusted));
        }
        self.access.writes.reason()
    }

    fn has_entries(&self) -> bool {
        self.options.disk.facts(self.layout.entries()).is_ok()
    }
}

//! What is kept of the reports of caches: two small files, each written under the journal's lock.

use std::{io, path::Path};

use warmstart_core::{
    miss::{self, Miss},
    reason::Reason,
    tally::{SLOT_LEN, Tally},
};

use super::{FileStore, ledger::reason_of_write, reason_of_read};
use crate::{
    os::{FileKind, retry_sharing},
    store::{Kept, REPORT_PATIENCE, Report},
};

impl FileStore {
    pub(super) fn keep_report(&self, report: &Report) -> Result<(), Reason> {
        self.check_writable()?;
        let now = self.options.clock.unix_ms();
        // The journal itself is not read: a process that only hits need not know what is in it.
        let _held = self.ledger.hold(self.options.patience.min(REPORT_PATIENCE))?;
        if self.ledger.is_newer() {
            return Err(Reason::NewerVersion);
        }
        let stored = self.read_tally();
        let is_known = matches!(stored, Ok(_) | Err(Reason::Absent));
        let mut tally = Tally::resume(stored, now)?;
        if !is_known {
            self.clear_away(self.layout.statistics()).map_err(|error| reason_of_write(&error))?;
        }
        tally.add(&report.counted);
        self.write_tally(&tally)?;
        if let Some(miss) = &report.last_miss {
            // It explains one miss, and is not worth counting everything else twice.
            let _ = self.write_last_miss(miss);
        }
        Ok(())
    }

    pub(super) fn read_kept(&self) -> Result<Kept, Reason> {
        self.check_readable()?;
        // Somebody may be writing just now: what is damaged is read again.
        let tally = self.read_tally().or_else(|_| self.read_tally());
        let tally = Tally::resume(tally, 0)?;
        let last_miss = self
            .read_small(self.layout.last_miss(), miss::MAX_LEN as u64)
            .and_then(|bytes| Miss::decode(bytes, self.seal()))
            .ok();
        Ok(Kept { tally, last_miss })
    }

    fn read_tally(&self) -> Result<Tally, Reason> {
        self.read_small(self.layout.statistics(), 2 * SLOT_LEN as u64)
            .and_then(|bytes| Tally::decode_slots(&bytes))
    }

    /// Writes into the slot that does not hold what is there now. Replacing the file would take a thousand times as long on
    /// file systems that write out a file which takes another one's name.
    fn write_tally(&self, tally: &Tally) -> Result<(), Reason> {
        let disk = &*self.options.disk;
        let path = self.layout.statistics();
        let bytes = tally.encode();
        if bytes.len() > SLOT_LEN {
            return Err(Reason::TooLong);
        }
        let write = || retry_sharing(disk, || disk.write_at(path, tally.slot(), &bytes));
        let written = write().or_else(|error| match error.kind() {
            // What stands there by now is not ours to write to.
            io::ErrorKind::InvalidInput | io::ErrorKind::IsADirectory => {
                self.clear_away(path).and_then(|()| write())
            }
            _ => Err(error),
        });
        written.map_err(|error| reason_of_write(&error))
    }

    fn write_last_miss(&self, miss: &Miss) -> Result<(), Reason> {
        let disk = &*self.options.disk;
        let path = self.layout.last_miss();
        let encoded = miss.encode(self.seal()).ok_or(Reason::TooLong)?;
        let temp = self.layout.temps.new_path(disk);
        let written = disk.create(&temp, &[&encoded], false).map(drop).and_then(|()| {
            // Cleared away first for the same reason.
            self.clear_away(path)?;
            retry_sharing(disk, || disk.rename(&temp, path))
        });
        written.map_err(|error| {
            let _ = disk.remove(&temp);
            reason_of_write(&error)
        })
    }

    /// Makes room for a file, whatever stands there.
    fn clear_away(&self, path: &Path) -> io::Result<()> {
        let disk = &*self.options.disk;
        match disk.facts(path) {
            Ok(facts) if facts.kind == FileKind::Directory => self.layout.set_aside(disk, path),
            Ok(_) => retry_sharing(disk, || disk.remove(path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Reads a file of which no more than its first `most` bytes matter.
    fn read_small(&self, path: &Path, most: u64) -> Result<Vec<u8>, Reason> {
        let disk = &*self.options.disk;
        let facts = disk.facts(path).map_err(|error| reason_of_read(&error))?;
        // Asked first, because what is no file may not even be opened, and one of absurd length may not be read.
        if !facts.is_readable() || facts.len > 2 * most {
            return Err(Reason::Untrusted);
        }
        let (bytes, facts) = retry_sharing(disk, || disk.read(path, &|facts| facts.len.min(most)))
            .map_err(|error| reason_of_read(&error))?;
        if facts.is_readable() { Ok(bytes) } else { Err(Reason::Untrusted) }
    }
}

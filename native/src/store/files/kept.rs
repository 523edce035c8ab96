//! What is kept of the reports of caches: two small files, each replaced as a whole under the journal's lock.

use std::{io, path::Path};

use warmstart_core::{envelope, miss::Miss, reason::Reason, tally::Tally};

use super::{FileStore, ledger::reason_of_write, reason_of_read};
use crate::{
    os::{FileFacts, FileKind, retry_sharing},
    store::{Kept, REPORT_PATIENCE, Report},
};

/// A file that is longer, in bytes, is none of ours.
const LONGEST: u64 = 1 << 20;

impl FileStore {
    pub(super) fn keep_report(&self, report: &Report) -> Result<(), Reason> {
        self.check_writable()?;
        let now = self.options.clock.unix_ms();
        // The journal itself is not read: a process that only hits need not know what is in it.
        let _held = self.ledger.hold(self.options.patience.min(REPORT_PATIENCE))?;
        let mut tally = match self.read_tally() {
            Ok(tally) => tally,
            Err(Reason::Absent) => Tally::new(now),
            // Whoever could write there is not believed, and what is damaged says nothing.
            Err(reason) if reason.is_damage() || reason == Reason::Untrusted => Tally::reset(now),
            Err(reason) => return Err(reason),
        };
        tally.add(&report.counted);
        self.replace(self.layout.statistics(), &[&tally.encode()])?;
        if let Some(miss) = &report.last_miss {
            // It explains one miss, and is not worth counting everything else twice.
            let artifact = miss.to_artifact();
            if let Ok(encoded) = envelope::encode(Miss::KEY, &artifact) {
                let _ = self.replace(self.layout.last_miss(), &encoded.parts());
            }
        }
        Ok(())
    }

    pub(super) fn read_kept(&self) -> Result<Kept, Reason> {
        self.check_readable()?;
        let tally = match self.read_tally() {
            Err(Reason::Absent) => Tally::default(),
            Err(reason) if reason.is_damage() || reason == Reason::Untrusted => Tally::reset(0),
            tally => tally?,
        };
        let last_miss = self
            .read_small(self.layout.last_miss())
            .and_then(|bytes| envelope::decode(bytes, Miss::KEY))
            .and_then(|artifact| Miss::from_artifact(&artifact))
            .ok();
        Ok(Kept { tally, last_miss })
    }

    fn read_tally(&self) -> Result<Tally, Reason> {
        self.read_small(self.layout.statistics()).and_then(|bytes| Tally::decode(&bytes))
    }

    fn read_small(&self, path: &Path) -> Result<Vec<u8>, Reason> {
        let disk = &*self.options.disk;
        let wanted = |facts: &FileFacts| if facts.len > LONGEST { 0 } else { facts.len };
        let (bytes, facts) =
            retry_sharing(disk, || disk.read(path, &wanted)).map_err(|error| reason_of_read(&error))?;
        if facts.is_readable() { Ok(bytes) } else { Err(Reason::Untrusted) }
    }

    /// Writes a file apart and gives it its name.
    fn replace(&self, path: &Path, parts: &[&[u8]]) -> Result<(), Reason> {
        let disk = &*self.options.disk;
        let temp = self.layout.temps.new_path(disk);
        drop(disk.create(&temp, parts, false).map_err(|error| reason_of_write(&error))?);
        let rename = || retry_sharing(disk, || disk.rename(&temp, path));
        let renamed = rename().or_else(|error: io::Error| match disk.facts(path) {
            Ok(facts) if facts.kind == FileKind::Directory => {
                self.layout.set_aside(disk, path).and_then(|()| rename())
            }
            _ => Err(error),
        });
        renamed.map_err(|error| {
            let _ = disk.remove(&temp);
            reason_of_write(&error)
        })
    }
}

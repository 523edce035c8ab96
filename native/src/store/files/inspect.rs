//! Inspection of a cache directory: its entries, and the reported statistics and last miss, which two small files hold. Both are
//! written under the journal's lock.

use std::{collections::HashMap, io, ops::ControlFlow, path::Path, time::Duration};

use foldhash::fast::RandomState;
use warmstart_core::{
    journal::{Account, Event},
    key::Key,
    lru::Limits,
    miss::{self, Miss},
    reason::MissReason,
    statistics::{PersistedStats, SLOT_LEN, Statistics},
};

use super::{FileStore, ledger::reason_of_write, publish::Eviction, reason_of_read, rebuild::by_digest};
use crate::{
    os::{named_for, retry_sharing},
    store::{Entry, Inspect, Proof, Totals, inspect::REPORT_TIMEOUT, read_head},
};

/// The number of entries that are evicted before other processes get the lock.
const PRUNED_AT_ONCE: usize = 1024;

impl Inspect for FileStore {
    fn verify(&self, visit: &mut dyn FnMut(&Proof)) -> Result<u64, MissReason> {
        self.check_readable()?;
        let mut whole = 0;
        for digest in self.digests()? {
            let path = named_for(&self.layout.entries, &digest);
            let proof = match self.read_entry(&path) {
                // Removed since it was listed.
                Err(MissReason::Absent) => continue,
                Err(reason) => Proof::new(digest, 0, Err(reason)),
                Ok((bytes, verified, metadata)) => {
                    let verified = verified.and_then(|layout| {
                        let key = bytes.get(layout.key()).unwrap_or_default();
                        if Key::digest(key) == digest { Ok(()) } else { Err(MissReason::KeyMismatch) }
                    });
                    let is_removed =
                        verified.is_err_and(MissReason::is_damage) && self.discard(digest, &path, &metadata);
                    Proof { is_removed, ..Proof::new(digest, metadata.len, verified) }
                }
            };
            whole += u64::from(proof.result.is_ok());
            visit(&proof);
        }
        Ok(whole)
    }

    fn entries(&self, visit: &mut dyn FnMut(Entry) -> ControlFlow<()>) -> Result<(), MissReason> {
        self.check_readable()?;
        // Writes pending uses first, so that the order is current. If that fails, the order is that of the journal.
        let _ = self.write_uses(Duration::ZERO);
        let known = by_digest(self.ledger.look());
        // An entry without an account sorts last, as the newest does.
        let mut entries: Vec<_> = self
            .digests()?
            .into_iter()
            .map(|digest| (known.get(&digest).copied().unwrap_or((usize::MAX, 0)), digest))
            .collect();
        entries.sort_unstable();
        for ((_, used_unix_ms), digest) in entries {
            if let Some(entry) = describe(self, digest, used_unix_ms)
                && visit(entry).is_break()
            {
                break;
            }
        }
        Ok(())
    }

    fn totals(&self) -> Result<Totals, MissReason> {
        // Counts the entries that exist, with their sizes from the journal, or from the file if the journal lacks them.
        self.check_readable()?;
        let accounts = self.ledger.look().into_iter();
        let sizes: HashMap<Key, u64, RandomState> =
            accounts.map(|Account { digest, size, .. }| (digest, size)).collect();
        let mut totals = Totals::default();
        for digest in self.digests()? {
            let size = match sizes.get(&digest) {
                Some(size) => *size,
                None => match self.options.disk.metadata(&named_for(&self.layout.entries, &digest)) {
                    Ok(metadata) => metadata.len,
                    // Removed since it was listed. If the size is unreadable for another reason, it counts as 0, as in `entries`.
                    Err(error) if reason_of_read(&error) == MissReason::Absent => continue,
                    Err(_) => 0,
                },
            };
            totals.entries += 1;
            totals.bytes = totals.bytes.saturating_add(size);
        }
        Ok(totals)
    }

    fn is_sealed(&self) -> bool {
        self.seal().is_some()
    }

    fn prune(&self, limits: Limits) -> Result<Totals, MissReason> {
        self.check_writable()?;
        let (mut pruned, mut eviction) = (Totals::default(), None);
        loop {
            let mut ledger = self.ledger.lock(self.options.timeout)?;
            for (_, used) in self.recency.take() {
                ledger.record(used, Event::Used);
            }
            let eviction = eviction.get_or_insert_with(|| Eviction::over(&mut ledger));
            let mut is_done = false;
            // Other processes get the lock between batches.
            for _ in 0..PRUNED_AT_ONCE {
                let accounts = ledger.accounts();
                is_done = !limits.exceeded_by(accounts.len() as u64, accounts.total_bytes());
                if is_done {
                    break;
                }
                match eviction.evict_oldest(&mut ledger)? {
                    Some(gone) => {
                        pruned.entries += gone.entries;
                        pruned.bytes += gone.bytes;
                    }
                    None => is_done = true,
                }
            }
            ledger.finish()?;
            if is_done {
                return Ok(pruned);
            }
        }
    }

    fn report(&self, counted: &Statistics, last_miss: Option<&Miss>) -> Result<(), MissReason> {
        self.check_writable()?;
        let now = self.options.clock.unix_ms();
        // The journal is not replayed: a process that only hits does not need its contents.
        let _held = self.ledger.hold(self.options.timeout.min(REPORT_TIMEOUT))?;
        if self.ledger.is_newer() {
            return Err(MissReason::NewerVersion);
        }
        let stored = read_counters(self);
        let is_known = matches!(stored, Ok(_) | Err(MissReason::Absent));
        let mut stats = PersistedStats::resume(stored, now)?;
        if !is_known {
            let cleared = self.layout.clear_away(&*self.options.disk, &self.layout.statistics);
            cleared.map_err(|error| reason_of_write(&error))?;
        }
        stats.add(counted);
        write_counters(self, &stats)?;
        if let Some(miss) = last_miss {
            // The counters are written already, and a second report would count them twice: a failure here only loses one miss.
            let _ = write_last_miss(self, miss);
        }
        Ok(())
    }

    fn stats(&self) -> Result<PersistedStats, MissReason> {
        self.check_readable()?;
        // Another process may be writing: a damaged slot is read again.
        let counters = read_counters(self).or_else(|_| read_counters(self));
        let mut stats = PersistedStats::resume(counters, 0)?;
        stats.last_miss = read_small(self, &self.layout.last_miss, miss::MAX_LEN as u64)
            .and_then(|bytes| Miss::decode(bytes, self.seal()))
            .ok();
        Ok(stats)
    }
}

/// Describes an entry from its head. Returns `None` if the entry is gone.
fn describe(store: &FileStore, digest: Key, used_unix_ms: u64) -> Option<Entry> {
    let (disk, path) = (&*store.options.disk, named_for(&store.layout.entries, &digest));
    let mut size = 0;
    let head = read_head(|most| {
        let read = retry_sharing(disk, || disk.read(&path, &|metadata| metadata.len.min(most as u64)));
        let (bytes, metadata) = read.map_err(|error| reason_of_read(&error))?;
        size = metadata.len;
        if metadata.is_readable() { Ok((bytes, size)) } else { Err(MissReason::Untrusted) }
    });
    let head = match head.flatten() {
        Err(MissReason::Absent) => return None,
        Ok(head) if Key::digest(&head.key) != digest => Err(MissReason::KeyMismatch),
        head => head,
    };
    Some(Entry { used_unix_ms, ..Entry::new(digest, size, head) })
}

fn read_counters(store: &FileStore) -> Result<PersistedStats, MissReason> {
    read_small(store, &store.layout.statistics, 2 * SLOT_LEN as u64)
        .and_then(|bytes| PersistedStats::decode_slots(&bytes))
}

/// Writes into the slot that does not hold the current counters. Replacing the file instead would take a thousand times as long
/// on file systems that sync a file when it is renamed over another one.
fn write_counters(store: &FileStore, stats: &PersistedStats) -> Result<(), MissReason> {
    let (disk, path) = (&*store.options.disk, &store.layout.statistics);
    let bytes = stats.encode();
    if bytes.len() > SLOT_LEN {
        return Err(MissReason::TooLong);
    }
    let write = || retry_sharing(disk, || disk.write_at(path, stats.slot(), &bytes));
    let written = write().or_else(|error| match error.kind() {
        // Something else, such as a directory or a link, has taken the place of the file.
        io::ErrorKind::InvalidInput | io::ErrorKind::IsADirectory => {
            store.layout.clear_away(disk, path).and_then(|()| write())
        }
        _ => Err(error),
    });
    written.map_err(|error| reason_of_write(&error))
}

fn write_last_miss(store: &FileStore, miss: &Miss) -> Result<(), MissReason> {
    let (disk, layout) = (&*store.options.disk, &store.layout);
    let path = &layout.last_miss;
    let encoded = miss.encode(store.seal()).ok_or(MissReason::TooLong)?;
    let temp = layout.temps.new_path(disk);
    let written = disk.create(&temp, &[&encoded], false).map(drop).and_then(|()| {
        // Not replaced by the rename, for the same reason.
        layout.clear_away(disk, path)?;
        retry_sharing(disk, || disk.rename(&temp, path))
    });
    written.map_err(|error| {
        let _ = disk.remove(&temp);
        reason_of_write(&error)
    })
}

/// Reads at most the first `most` bytes of a small file.
fn read_small(store: &FileStore, path: &Path, most: u64) -> Result<Vec<u8>, MissReason> {
    let disk = &*store.options.disk;
    let metadata = disk.metadata(path).map_err(|error| reason_of_read(&error))?;
    // Checked before opening, because opening a pipe or a device could block, and a huge file is not one of ours.
    if !metadata.is_readable() || metadata.len > 2 * most {
        return Err(MissReason::Untrusted);
    }
    let (bytes, metadata) = retry_sharing(disk, || disk.read(path, &|metadata| metadata.len.min(most)))
        .map_err(|error| reason_of_read(&error))?;
    if metadata.is_readable() { Ok(bytes) } else { Err(MissReason::Untrusted) }
}

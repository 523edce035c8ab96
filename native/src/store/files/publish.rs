//! Publishing an entry: writing a temp file, accounting for it, and renaming it into place.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use warmstart_core::{envelope::Encoded, journal::Event, key::Key, reason::MissReason};

use super::{
    Recency, Totals,
    ledger::{Ledger, LockedLedger, reason_of_write},
};
use crate::os::{FileKind, if_there, named_for, retry_sharing};

/// How often a put is retried if another process removes the directory or a part of it at the same time.
const ATTEMPTS: usize = 4;

/// Stores an envelope as the entry `digest`. Returns how many other entries were evicted.
pub(super) fn publish(
    ledger: &Ledger,
    recency: &Recency<Key>,
    digest: Key,
    encoded: &Encoded<'_>,
) -> Result<u64, MissReason> {
    for _ in 0..ATTEMPTS {
        let (temp, file) = write_temp(ledger, encoded)?;
        let outcome = give_name(ledger, recency, digest, encoded.len(), &temp);
        drop(file);
        if let Ok(Some(stored)) = outcome {
            if ledger.options.durable {
                let synced = ledger.disk().sync_directory(&ledger.layout.entries);
                synced.map_err(|error| reason_of_write(&error))?;
            }
            return Ok(stored);
        }
        let _ = ledger.disk().remove(&temp);
        outcome?;
        restore_directory(ledger)?;
    }
    Err(MissReason::Unavailable)
}

/// Writes the envelope to a temp file.
fn write_temp(ledger: &Ledger, encoded: &Encoded<'_>) -> Result<(PathBuf, File), MissReason> {
    let disk = ledger.disk();
    for _ in 0..ATTEMPTS {
        let temp = ledger.layout.temps.new_path(disk);
        match disk.create(&temp, &encoded.parts(), ledger.options.durable) {
            Ok(file) => return Ok((temp, file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => restore_directory(ledger)?,
            // A forked child starts with its parent's names for temp files.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => ledger.layout.temps.renew(),
            Err(error) => return Err(reason_of_write(&error)),
        }
    }
    Err(MissReason::Unavailable)
}

/// Creates again the directories that another process removed.
fn restore_directory(ledger: &Ledger) -> Result<(), MissReason> {
    ledger.layout.temps.renew();
    match ledger.layout.prepare(ledger.disk(), ledger.options.durable) {
        Ok(None) => Ok(()),
        Ok(Some(reason)) => Err(reason),
        Err(_) => Err(MissReason::Untrusted),
    }
}

/// Makes room, accounts for the entry and renames the temp file. Returns `None` if that file, or the directory of the entries,
/// is gone.
fn give_name(
    ledger: &Ledger,
    recency: &Recency<Key>,
    digest: Key,
    size: u64,
    temp: &Path,
) -> Result<Option<u64>, MissReason> {
    let (layout, disk) = (&ledger.layout, ledger.disk());
    let mut locked = ledger.lock(ledger.options.timeout)?;
    for (_, used) in recency.take() {
        locked.record(used, Event::Used);
    }
    let evicted = make_room(&mut locked, digest, size, temp)?;
    let before = locked.accounts().size_of(&digest);
    // Accounted for first: if this process dies before the rename, the accounts show too much, never too little.
    locked.record(digest, Event::Stored { size: size.max(before.unwrap_or(0)) });
    locked.write()?;
    let entry = named_for(&layout.entries, &digest);
    let renamed = retry_sharing(disk, || disk.rename(temp, &entry)).or_else(|error| {
        // A directory is in the place of the entry.
        match disk.metadata(&entry) {
            Ok(metadata) if metadata.kind == FileKind::Directory => layout.quarantine(disk, &entry)?,
            _ => return Err(error),
        }
        disk.rename(temp, &entry)
    });
    if let Err(error) = renamed {
        locked.record(digest, before.map_or(Event::Removed, |size| Event::Stored { size }));
        let _ = locked.finish();
        let is_gone = error.kind() == io::ErrorKind::NotFound;
        return if is_gone { Ok(None) } else { Err(reason_of_write(&error)) };
    }
    if before.is_some_and(|before| before > size) {
        locked.record(digest, Event::Stored { size });
    }
    if locked.finish().is_err() {
        // The entry is in place, but its account was lost because another process removed the journal.
        account_again(ledger, digest, size);
    }
    Ok(Some(evicted))
}

/// Evicts least recently used entries until `size` more bytes fit. Keeps the entry `digest`. Returns how many were evicted.
fn make_room(ledger: &mut LockedLedger<'_>, digest: Key, size: u64, temp: &Path) -> Result<u64, MissReason> {
    let Ledger { layout, options, .. } = ledger.ledger;
    let mut evicted = 0;
    if !ledger.accounts().must_evict(&digest, size, 0) {
        return Ok(0);
    }
    let reserved = layout.temps.bytes_being_written(ledger.ledger.disk(), temp, options.clock.unix_ms());
    let mut eviction = Eviction::over(ledger);
    while ledger.accounts().must_evict(&digest, size, reserved) {
        let Some(gone) = eviction.evict_oldest(ledger)? else { break };
        evicted += gone.entries;
    }
    Ok(evicted)
}

/// Accounts for an entry that is already in place, and makes room for it.
fn account_again(ledger: &Ledger, digest: Key, size: u64) {
    for _ in 0..ATTEMPTS {
        let Ok(mut locked) = ledger.lock(ledger.options.timeout) else { return };
        if make_room(&mut locked, digest, size, Path::new("")).is_err() {
            return;
        }
        locked.record(digest, Event::Stored { size });
        if locked.finish().is_ok() {
            return;
        }
    }
}

/// Evicts entries one by one, and skips those that cannot be removed.
pub(super) struct Eviction {
    /// How many more attempts are made: two for each entry, because the first may find that the entry was replaced by one of
    /// another size.
    left: usize,
    refusal: Option<MissReason>,
}

impl Eviction {
    pub(super) fn over(ledger: &mut LockedLedger<'_>) -> Self {
        Self { left: 2 * ledger.accounts().len(), refusal: None }
    }

    /// Evicts the least recently used entry, and returns what was evicted; `None` if no entry is left. An entry that cannot be
    /// removed is skipped, so that it does not block all puts.
    pub(super) fn evict_oldest(
        &mut self,
        ledger: &mut LockedLedger<'_>,
    ) -> Result<Option<Totals>, MissReason> {
        let Some((victim, accounted)) = ledger.accounts().oldest() else { return Ok(None) };
        let Some(left) = self.left.checked_sub(1) else {
            return Err(self.refusal.unwrap_or(MissReason::Unavailable));
        };
        self.left = left;
        let (layout, disk) = (&ledger.ledger.layout, ledger.ledger.disk());
        let path = named_for(&layout.entries, &victim);
        let evicted = match disk.metadata(&path) {
            // A process that does not use the journal replaced it, so it is not the entry to evict.
            Ok(metadata) if metadata.kind == FileKind::File && metadata.len != accounted => {
                ledger.record(victim, Event::Stored { size: metadata.len });
                return Ok(Some(Totals::default()));
            }
            Ok(metadata) if metadata.kind == FileKind::Directory => {
                layout.quarantine(disk, &path).map(|()| Totals::default())
            }
            Ok(_) => {
                retry_sharing(disk, || disk.remove(&path)).map(|()| Totals { entries: 1, bytes: accounted })
            }
            Err(error) => Err(error),
        };
        // `None` if another process removed it already.
        let evicted = if_there(evicted).map(Option::unwrap_or_default);
        let event = if evicted.is_ok() { Event::Removed } else { Event::Used };
        ledger.record(victim, event);
        if let Err(error) = &evicted {
            self.refusal = Some(reason_of_write(error));
        }
        Ok(Some(evicted.unwrap_or_default()))
    }
}

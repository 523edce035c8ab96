//! Rebuilding the journal from the entries.

use std::{collections::HashMap, fs::File, io, time::Duration};

use foldhash::fast::RandomState;
use warmstart_core::{
    journal::{Account, Accounts, Event, Record},
    key::Key,
};

use super::layout::Layout;
use crate::os::{FileKind, StorageBackend, named_for, retry_sharing};

/// Lists the entries on disk as records, the least recently used first. Keeps the order of the `known` accounts; other
/// entries follow in the order in which they were stored.
pub(super) fn count_entries(
    disk: &dyn StorageBackend,
    layout: &Layout,
    known: Option<&Accounts<RandomState>>,
) -> io::Result<Vec<Record>> {
    let known = by_digest(known.iter().flat_map(|accounts| accounts.iter()));
    let (mut entries, mut unknown) = (Vec::new(), None);
    let listed = disk.list(&layout.entries, &mut |name| {
        let Some(digest) = name.to_str().and_then(Key::from_hex) else { return };
        match retry_sharing(disk, || disk.metadata(&named_for(&layout.entries, &digest))) {
            Ok(metadata) if metadata.kind == FileKind::File => {
                // Entries without a known use were stored later than those with one.
                let stored_ms = u64::try_from(metadata.modified_ns / 1_000_000).unwrap_or(0);
                let (place, used_ms) = known.get(&digest).copied().unwrap_or((usize::MAX, stored_ms));
                entries.push((place, metadata.modified_ns, digest, metadata.len, used_ms));
            }
            // The file may exist all the same: accounts without it would let the directory exceed the cap.
            Err(error) if error.kind() != io::ErrorKind::NotFound && !disk.is_sharing_violation(&error) => {
                unknown = Some(error);
            }
            _ => {}
        }
    });
    match listed.and_then(|()| unknown.map_or(Ok(()), Err)) {
        // The directory is gone, and all entries with it.
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => entries.sort_unstable(),
    }
    Ok(entries
        .into_iter()
        .map(|(.., digest, size, unix_ms)| Record { digest, event: Event::Stored { size }, unix_ms })
        .collect())
}

/// Returns the place of each entry in the order of use, and when it was last used.
pub(super) fn by_digest(
    accounts: impl IntoIterator<Item = Account>,
) -> HashMap<Key, (usize, u64), RandomState> {
    let uses = accounts.into_iter().zip(0..);
    uses.map(|(account, place)| (account.digest, (place, account.used_unix_ms))).collect()
}

/// Replaces the journal `old`, which is locked, by a new one, and returns that, locked.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] if `old` has lost its name meanwhile.
pub(super) fn replace_journal(
    disk: &dyn StorageBackend,
    layout: &Layout,
    old: Option<&File>,
    bytes: &[u8],
) -> io::Result<File> {
    // Without its name, the lock keeps no other handle from making a journal of its own, which may account for more.
    let is_linked = |log: &File| disk.log_state(log).is_ok_and(|state| state.is_linked);
    let check_old = || match old.is_some_and(is_linked) {
        true => Ok(()),
        false => Err(io::Error::from(io::ErrorKind::WouldBlock)),
    };
    let temp = layout.temps.new_path(disk);
    // Locked before the rename, so that no process gets the lock in between.
    let log = disk.open_log(&temp)?;
    disk.lock(&log, Duration::ZERO)
        .and_then(|()| disk.append(&log, bytes))
        // Last, because the rename replaces whatever journal is there.
        .and_then(|()| check_old())
        .and_then(|()| retry_sharing(disk, || disk.rename(&temp, &layout.journal)))
        .inspect_err(|_| _ = disk.remove(&temp))
        .map(|()| log)
}

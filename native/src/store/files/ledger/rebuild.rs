//! The journal made anew from the entries themselves, and the journal as it is read without its lock.

use std::{collections::HashMap, io, time::Duration};

use foldhash::fast::RandomState;
use warmstart_core::{
    journal::{self, Account, Accounts, Event, Record},
    key::Key,
    lru::Limits,
    reason::Reason,
};

use super::{Ledger, LockedLedger, reason_of_write};
use crate::os::{FileKind, retry_sharing};

/// No more of a journal than this, in bytes, is read at once, whatever its length claims.
const LONGEST: u64 = 256 << 20;

impl Ledger {
    /// Whether a newer version keeps this directory. Opens nothing for writing.
    pub(in super::super) fn is_newer(&self) -> bool {
        let head = self.disk.read(self.layout.journal(), &|_| journal::HEADER_LEN as u64);
        head.is_ok_and(|(head, _)| journal::check_header(&head) == Err(Reason::NewerVersion))
    }

    /// The bytes of the journal, without its lock: others may be appending. Nothing if it cannot be read.
    pub(in super::super) fn read(&self) -> Vec<u8> {
        let read = |most: u64| {
            retry_sharing(&*self.disk, || self.disk.read(self.layout.journal(), &|facts| facts.len.min(most)))
        };
        // What is no journal is not read to its end.
        let is_journal =
            read(journal::HEADER_LEN as u64).is_ok_and(|(head, _)| journal::check_header(&head).is_ok());
        if is_journal { read(LONGEST).map(|(bytes, _)| bytes).unwrap_or_default() } else { Vec::new() }
    }

    /// The accounts as the journal has them, without its lock, the entry longest unused first.
    pub(in super::super) fn look(&self) -> Vec<Account> {
        let mut accounts = Accounts::new(Limits::NONE, RandomState::default());
        // What is whole before the damage, or before the record that is being written, is as good as there is.
        let _ = accounts.replay(self.read().get(journal::HEADER_LEN..).unwrap_or_default());
        accounts.iter().collect()
    }
}

impl LockedLedger<'_> {
    /// Counts the entries themselves and makes the journal anew. The order of use is kept as far as this handle knows
    /// it; of the other entries the time of their storing tells.
    pub(in super::super) fn rebuild(&mut self) -> Result<(), Reason> {
        let Ledger { layout, disk, limits, .. } = self.ledger;
        let known: HashMap<Key, (usize, u64), RandomState> = self
            .state
            .accounts
            .iter()
            .flat_map(Accounts::iter)
            .zip(0..)
            .map(|(account, place)| (account.name, (place, account.used_unix_ms)))
            .collect();
        let (mut entries, mut unknown) = (Vec::new(), None);
        let listed = disk.list(layout.entries(), &mut |name| {
            let Some(name) = name.to_str().and_then(Key::from_hex) else { return };
            match retry_sharing(&**disk, || disk.facts(&layout.entry(&name))) {
                Ok(facts) if facts.kind == FileKind::File => {
                    // Those whose use is not known were stored since: they are the newer ones.
                    let stored_ms = u64::try_from(facts.modified_ns / 1_000_000).unwrap_or(0);
                    let (place, used_ms) = known.get(&name).copied().unwrap_or((usize::MAX, stored_ms));
                    entries.push((place, facts.modified_ns, name, facts.len, used_ms));
                }
                // It may be there all the same: accounts without it would let the directory grow above the cap.
                Err(error)
                    if error.kind() != io::ErrorKind::NotFound && !disk.is_sharing_violation(&error) =>
                {
                    unknown = Some(error);
                }
                _ => {}
            }
        });
        match listed.and_then(|()| unknown.map_or(Ok(()), Err)) {
            // The directory is gone, and all entries with it.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(reason_of_write(&error)),
            _ => entries.sort_unstable(),
        }

        let mut accounts = Accounts::new(*limits, RandomState::default());
        let mut bytes = journal::header().to_vec();
        for (.., name, size, unix_ms) in entries {
            let record = Record { name, event: Event::Stored { size }, unix_ms };
            bytes.extend_from_slice(&record.encode());
            accounts.apply(&record);
        }

        let temp = layout.temps.new_path(&**disk);
        // Locked before it takes the journal's name: nobody gets in between.
        let replaced = disk.open_log(&temp).and_then(|log| {
            disk.lock(&log, Duration::ZERO)
                .and_then(|()| disk.append(&log, &bytes))
                .and_then(|()| retry_sharing(&**disk, || disk.rename(&temp, layout.journal())))
                .inspect_err(|_| _ = disk.remove(&temp))
                .map(|()| log)
        });
        let log = match replaced {
            Ok(log) => log,
            Err(error) => {
                self.forget();
                return Err(reason_of_write(&error));
            }
        };
        // Dropping the old journal lets its lock go; whoever gets it finds that it has lost its name.
        self.state.identity = disk.log_state(&log).map_or((0, 0), |state| state.identity);
        self.state.log = Some(log);
        self.state.accounts = Some(accounts);
        self.state.replayed = bytes.len() as u64;
        self.state.was_moved = false;
        Ok(())
    }
}

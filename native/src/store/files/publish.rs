//! How an entry gets into the directory: written apart, accounted for, and given its name.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use warmstart_core::{envelope::Encoded, journal::Event, key::Key, lru::Limits, reason::Reason};

use super::{
    FileStore, Pruned, Stored,
    ledger::{LockedLedger, reason_of_write},
};
use crate::os::{FileKind, retry_sharing};

/// How often a put is begun again when somebody removes the directory, or a part of it, under its feet.
const ATTEMPTS: usize = 4;

/// How many entries are pruned before others get the lock.
const PRUNED_AT_ONCE: usize = 1024;

/// What became of an entry that was to be published.
enum Outcome {
    Published(Stored),
    /// The temp file, or the directory that it was to go to, is gone.
    Gone,
}

/// What became of an entry that was to go.
enum Evicted {
    Removed,
    /// It was not there, or it was no entry.
    Gone,
    /// It is another one, of this size.
    Replaced {
        size: u64,
    },
}

/// One step of making room.
enum Step {
    /// So many bytes are free now.
    Freed(u64),
    /// Nothing is freed, but another entry is the oldest now, or another size is known.
    Passed,
    /// No entry is left.
    Empty,
}

/// How often an entry may still be passed over. Twice each, because it may first turn out to be another one than was
/// accounted for.
struct Passes {
    left: usize,
    refusal: Option<Reason>,
}

impl Passes {
    fn over(ledger: &mut LockedLedger<'_>) -> Self {
        Self { left: 2 * ledger.accounts().len(), refusal: None }
    }

    fn count(&mut self) -> Result<(), Reason> {
        let Some(left) = self.left.checked_sub(1) else {
            return Err(self.refusal.unwrap_or(Reason::Unavailable));
        };
        self.left = left;
        Ok(())
    }
}

impl FileStore {
    /// Stores an envelope under the entry's name.
    pub(super) fn publish(&self, name: Key, encoded: &Encoded<'_>) -> Result<Stored, Reason> {
        if self.is_newer(&name) {
            return Err(Reason::NewerVersion);
        }
        let disk = &*self.options.disk;
        for _ in 0..ATTEMPTS {
            let (temp, file) = self.write_temp(encoded)?;
            let outcome = self.give_name(name, encoded.len(), &temp);
            drop(file);
            if let Ok(Outcome::Published(stored)) = outcome {
                self.keeps_quiet.store(false, std::sync::atomic::Ordering::Relaxed);
                if self.options.durable {
                    disk.sync_directory(self.layout.entries()).map_err(|error| reason_of_write(&error))?;
                }
                return Ok(stored);
            }
            let _ = disk.remove(&temp);
            outcome?;
            self.restore_directory()?;
        }
        Err(Reason::Unavailable)
    }

    /// Writes the envelope to a temp file.
    fn write_temp(&self, encoded: &Encoded<'_>) -> Result<(PathBuf, File), Reason> {
        let disk = &*self.options.disk;
        for _ in 0..ATTEMPTS {
            let temp = self.layout.temps.new_path(disk);
            match disk.create(&temp, &encoded.parts(), self.options.durable) {
                Ok(file) => return Ok((temp, file)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => self.restore_directory()?,
                // A forked child began with its parent's names.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.layout.temps.begin_anew(),
                Err(error) => return Err(reason_of_write(&error)),
            }
        }
        Err(Reason::Unavailable)
    }

    /// Makes what somebody removed while it is in use.
    fn restore_directory(&self) -> Result<(), Reason> {
        self.layout.temps.begin_anew();
        match self.layout.prepare(&*self.options.disk, self.options.durable) {
            Ok(None) => Ok(()),
            Ok(Some(reason)) => Err(reason),
            Err(_) => Err(Reason::Untrusted),
        }
    }

    /// Makes room, accounts for the entry and gives the temp file its name.
    fn give_name(&self, name: Key, size: u64, temp: &Path) -> Result<Outcome, Reason> {
        let disk = &*self.options.disk;
        let mut ledger = self.ledger.lock(self.options.patience)?;
        for used in self.recency.take().names() {
            ledger.record(*used, Event::Used);
        }
        let evicted = self.make_room(&mut ledger, name, size, temp)?;
        let before = ledger.accounts().size_of(&name);
        // Accounted for before it is there: if this process dies in between, the accounts say too much, never too little.
        ledger.record(name, Event::Stored { size: size.max(before.unwrap_or(0)) });
        ledger.write()?;
        let entry = self.layout.entry(&name);
        let renamed = retry_sharing(disk, || disk.rename(temp, &entry)).or_else(|error| {
            // A directory stands where the entry is to go.
            match disk.facts(&entry) {
                Ok(facts) if facts.kind == FileKind::Directory => self.layout.set_aside(disk, &entry)?,
                _ => return Err(error),
            }
            disk.rename(temp, &entry)
        });
        if let Err(error) = renamed {
            ledger.record(name, before.map_or(Event::Removed, |size| Event::Stored { size }));
            let _ = ledger.finish();
            let is_gone = error.kind() == io::ErrorKind::NotFound;
            return if is_gone { Ok(Outcome::Gone) } else { Err(reason_of_write(&error)) };
        }
        if before.is_some_and(|before| before > size) {
            ledger.record(name, Event::Stored { size });
        }
        if ledger.finish().is_err() {
            // The entry is there, and its account was lost with the journal that somebody removed.
            self.account_again(name, size);
        }
        Ok(Outcome::Published(Stored { evicted }))
    }

    /// Evicts what was not used for longest until `size` more bytes fit. The entry of `name` itself stays.
    fn make_room(
        &self,
        ledger: &mut LockedLedger<'_>,
        name: Key,
        size: u64,
        temp: &Path,
    ) -> Result<u64, Reason> {
        let disk = &*self.options.disk;
        let mut evicted = 0;
        if !ledger.accounts().must_evict(&name, size, 0) {
            return Ok(0);
        }
        let reserved = self.layout.temps.bytes_being_written(disk, temp, self.options.clock.unix_ms());
        let mut passes = Passes::over(ledger);
        while ledger.accounts().must_evict(&name, size, reserved) {
            match self.evict_oldest(ledger, &mut passes)? {
                Step::Freed(_) => evicted += 1,
                Step::Passed => {}
                Step::Empty => break,
            }
        }
        Ok(evicted)
    }

    /// Removes what was not used for longest, until the rest is within `limits`.
    pub(super) fn prune_to(&self, limits: Limits) -> Result<Pruned, Reason> {
        self.check_writable()?;
        let (mut pruned, mut passes) = (Pruned::default(), None);
        loop {
            let mut ledger = self.ledger.lock(self.options.patience)?;
            for used in self.recency.take().names() {
                ledger.record(*used, Event::Used);
            }
            let passes = passes.get_or_insert_with(|| Passes::over(&mut ledger));
            let mut is_done = false;
            // Others get the lock in between.
            for _ in 0..PRUNED_AT_ONCE {
                let accounts = ledger.accounts();
                is_done = !limits.exceeded_by(accounts.len() as u64, accounts.total_bytes());
                if is_done {
                    break;
                }
                match self.evict_oldest(&mut ledger, passes)? {
                    Step::Freed(bytes) => {
                        pruned.entries += 1;
                        pruned.bytes += bytes;
                    }
                    Step::Passed => {}
                    Step::Empty => is_done = true,
                }
            }
            ledger.finish()?;
            if is_done {
                return Ok(pruned);
            }
        }
    }

    /// Evicts the entry whose last use is longest ago. What cannot be removed is passed over: one such entry must not stop
    /// all writing.
    fn evict_oldest(&self, ledger: &mut LockedLedger<'_>, passes: &mut Passes) -> Result<Step, Reason> {
        let Some((victim, accounted)) = ledger.accounts().oldest() else { return Ok(Step::Empty) };
        passes.count()?;
        let step = match self.evict(&victim, accounted) {
            Ok(Evicted::Removed) => Step::Freed(accounted),
            Ok(Evicted::Gone) => Step::Passed,
            Ok(Evicted::Replaced { size }) => {
                ledger.record(victim, Event::Stored { size });
                return Ok(Step::Passed);
            }
            Err(error) => {
                passes.refusal = Some(reason_of_write(&error));
                ledger.record(victim, Event::Used);
                return Ok(Step::Passed);
            }
        };
        ledger.record(victim, Event::Removed);
        Ok(step)
    }

    fn evict(&self, victim: &Key, accounted: u64) -> io::Result<Evicted> {
        let disk = &*self.options.disk;
        let path = self.layout.entry(victim);
        let gone = |error: io::Error| match error.kind() {
            // Gone is gone, whoever did it.
            io::ErrorKind::NotFound => Ok(Evicted::Gone),
            _ => Err(error),
        };
        match disk.facts(&path) {
            // Somebody who does not keep accounts replaced it: it is not the entry that was to go.
            Ok(facts) if facts.kind == FileKind::File && facts.len != accounted => {
                Ok(Evicted::Replaced { size: facts.len })
            }
            Ok(facts) if facts.kind == FileKind::Directory => {
                self.layout.set_aside(disk, &path).map(|()| Evicted::Gone)
            }
            Ok(_) => retry_sharing(disk, || disk.remove(&path)).map(|()| Evicted::Removed).or_else(gone),
            Err(error) => gone(error),
        }
    }

    /// Accounts for an entry that is there already, and makes the room that it takes.
    fn account_again(&self, name: Key, size: u64) {
        for _ in 0..ATTEMPTS {
            let Ok(mut ledger) = self.ledger.lock(self.options.patience) else { return };
            if self.make_room(&mut ledger, name, size, Path::new("")).is_err() {
                return;
            }
            ledger.record(name, Event::Stored { size });
            if ledger.finish().is_ok() {
                return;
            }
        }
    }
}

//! The file store: one file an entry, shared by any number of processes.

mod layout;
mod ledger;
mod options;

pub use options::FileOptions;

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use warmstart_core::{
    artifact::Artifact,
    envelope::{self, Encoded},
    journal::Event,
    key::Key,
    reason::Reason,
};

use super::{Lookup, Store, Stored, recency::Recency};
use crate::{
    cache,
    error::OpenError,
    os::{FileFacts, FileKind, reason_of, retry_sharing},
};
use layout::Layout;
use ledger::{Ledger, LockedLedger};

/// The header of a file longer than this, in bytes, is looked at before the rest is read.
const LARGE: u64 = 16 << 20;

/// How often a put is begun again when somebody removes the directory, or a temp file, under its feet.
const ATTEMPTS: usize = 4;

/// Keeps each artifact in a file of its own, named by the digest of its key, in a directory that any number of
/// processes share.
///
/// A put is published by renaming a whole file into place: a reader sees all of it or nothing, and what is stored
/// survives the death of any process. A hit opens, reads and verifies one file, and takes no lock. The cap holds for the
/// directory, whoever writes to it; docs/format.md of the repository describes the files.
///
/// A medium that fails makes misses and refusals, with their reasons, and no errors.
///
/// ```
/// use warmstart::{Artifact, Store, store::{FileOptions, FileStore}};
///
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("cache");
/// FileStore::open(&path, FileOptions::default().with_max_bytes(1 << 20))?.put(b"k", &Artifact::new(vec![1, 2]))?;
///
/// let reopened = FileStore::open(&path, FileOptions::default().with_max_bytes(1 << 20))?;
/// assert_eq!(reopened.get(b"k").hit().unwrap().payload(), [1, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FileStore {
    options: FileOptions,
    layout: Arc<Layout>,
    ledger: Ledger,
    recency: Recency<Key>,
    /// Why nothing can be looked up: there is no directory, or a newer version keeps it.
    closed_to_reads: Option<Reason>,
    /// Why nothing can be stored.
    closed_to_writes: Option<Reason>,
    closed: AtomicBool,
}

impl FileStore {
    /// Opens the directory `path`, and makes it, for its owner only, if there is none. Takes the same time however many
    /// entries there are.
    ///
    /// # Errors
    /// The caller's own mistakes: `path` is a file or a link, belongs to somebody else, or may be written by others.
    /// Where the medium does not let the directory be made, the store opens, misses and refuses.
    pub fn open(path: impl AsRef<Path>, options: FileOptions) -> Result<Self, OpenError> {
        let layout = Arc::new(Layout::new(path.as_ref()));
        let disk = Arc::clone(&options.disk);
        let missing = layout.prepare(&*disk)?;
        let ledger =
            Ledger::new(options.limits, Arc::clone(&layout), Arc::clone(&disk), Arc::clone(&options.clock));
        let closed_to_writes = missing.or_else(|| ledger.probe().err());
        // A read-only directory still serves what is in it; without a directory there is nothing.
        let closed_to_reads = match closed_to_writes {
            Some(Reason::NewerVersion) => Some(Reason::NewerVersion),
            Some(_) if !layout.entries().is_dir() => Some(Reason::Unavailable),
            _ => None,
        };
        if closed_to_writes.is_none() {
            layout.sweep_temps(&*disk, options.clock.unix_ms());
            cache::sweep_locks(layout.locks());
        }
        let closed = AtomicBool::new(false);
        Ok(Self {
            options,
            layout,
            ledger,
            recency: Recency::default(),
            closed_to_reads,
            closed_to_writes,
            closed,
        })
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.layout.root()
    }

    /// The bytes of all entries, whoever stored them, as the shared accounting has them.
    ///
    /// ```
    /// # use warmstart::{Artifact, Store, store::{FileOptions, FileStore}};
    /// # let directory = tempfile::tempdir()?;
    /// let store = FileStore::open(directory.path(), FileOptions::default())?;
    /// store.put(b"k", &Artifact::new(vec![0; 1000]))?;
    /// assert_eq!(store.total_bytes()?, 128 + 1000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The reason why that is not known.
    pub fn total_bytes(&self) -> Result<u64, Reason> {
        self.check_writable()?;
        let mut ledger = self.ledger.lock(self.options.patience)?;
        Ok(ledger.accounts().total_bytes())
    }

    fn find(&self, key: &[u8]) -> Result<Artifact, Reason> {
        self.check_readable()?;
        let name = Key::digest(key);
        let path = self.layout.entry(&name);
        let disk = &*self.options.disk;
        let read = |wanted: &dyn Fn(&FileFacts) -> u64| {
            retry_sharing(disk, || disk.read(&path, wanted)).map_err(|error| {
                if disk.is_sharing_violation(&error) { Reason::Busy } else { reason_of_read(&error) }
            })
        };
        let header_of_large = |facts: &FileFacts| match facts.len {
            ..=LARGE => facts.len,
            _ => envelope::HEADER_LEN as u64,
        };
        let (mut bytes, mut facts) = read(&header_of_large)?;
        if !facts.is_readable() {
            return Err(Reason::Untrusted);
        }
        // Memory for a large file is only taken once its header says that it is an entry of this length.
        if facts.len > LARGE {
            match envelope::Layout::parse(&bytes, facts.len) {
                Ok(_) | Err(Reason::NewerVersion) => (bytes, facts) = read(&|facts| facts.len)?,
                Err(_) => {}
            }
        }
        match envelope::decode(bytes, key) {
            Ok(artifact) => {
                self.note_use(name);
                Ok(artifact)
            }
            Err(reason) => {
                if reason.is_damage() {
                    self.discard(name, &path, &facts);
                }
                Err(reason)
            }
        }
    }

    fn note_use(&self, name: Key) {
        if self.closed_to_writes.is_none() && self.recency.note(&name, |name| *name) {
            // Not now is soon enough: a hit does not wait for a lock.
            let _ = self.write_uses(Duration::ZERO);
        }
    }

    fn write_uses(&self, patience: Duration) -> Result<(), Reason> {
        let uses = self.recency.take();
        if uses.is_empty() || self.closed_to_writes.is_some() {
            return Ok(());
        }
        let written = self.ledger.record_uses(&uses, patience);
        if written.is_err() {
            self.recency.give_back(uses);
        }
        written
    }

    /// Removes a damaged entry, unless it was replaced since it was read.
    fn discard(&self, name: Key, path: &Path, seen: &FileFacts) {
        if self.closed_to_writes.is_some() {
            return;
        }
        let Ok(mut ledger) = self.ledger.lock(self.options.patience) else { return };
        let disk = &*self.options.disk;
        if disk.facts(path).is_ok_and(|now| now == *seen) && retry_sharing(disk, || disk.remove(path)).is_ok()
        {
            ledger.record(name, Event::Removed);
        }
        let _ = ledger.finish();
    }

    /// Writes the envelope to a temp file.
    fn write_temp(&self, encoded: &Encoded<'_>) -> Result<(PathBuf, File), Reason> {
        let disk = &*self.options.disk;
        for _ in 0..ATTEMPTS {
            let temp = self.layout.new_temp(disk);
            match disk.create(&temp, &encoded.parts(), self.options.durable) {
                Ok(file) => return Ok((temp, file)),
                // Somebody removed the directory while we use it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    if let Ok(Some(reason)) = self.layout.prepare(disk) {
                        return Err(reason);
                    }
                }
                Err(error) => return Err(reason_of_write(&error)),
            }
        }
        Err(Reason::Unavailable)
    }

    /// Makes room, accounts for the entry and gives the temp file its name. `Ok(None)` if the temp file is gone.
    fn publish(&self, name: Key, size: u64, temp: &Path) -> Result<Option<Stored>, Reason> {
        let disk = &*self.options.disk;
        let mut ledger = self.ledger.lock(self.options.patience)?;
        for used in self.recency.take() {
            ledger.record(used, Event::Used);
        }
        let evicted = self.make_room(&mut ledger, name, size, temp)?;
        let before = ledger.accounts().size_of(&name);
        // Accounted for before it is there: if this process dies in between, the accounts say too much, never too little.
        ledger.record(name, Event::Stored { size: size.max(before.unwrap_or(0)) });
        ledger.write()?;
        match retry_sharing(disk, || disk.rename(temp, &self.layout.entry(&name))) {
            Ok(()) => {
                if before.is_some_and(|before| before > size) {
                    ledger.record(name, Event::Stored { size });
                }
                match ledger.finish() {
                    Ok(()) => {}
                    // The entry is there, and its account was lost with the journal that somebody removed.
                    Err(_) => self.account_again(name, size),
                }
                Ok(Some(Stored { evicted }))
            }
            Err(error) => {
                ledger.record(name, before.map_or(Event::Removed, |size| Event::Stored { size }));
                let _ = ledger.finish();
                if error.kind() == io::ErrorKind::NotFound { Ok(None) } else { Err(reason_of_write(&error)) }
            }
        }
    }

    /// Evicts what was not used for longest until `size` more bytes fit.
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
        let reserved = self.layout.bytes_being_written(disk, temp, self.options.clock.unix_ms());
        while ledger.accounts().must_evict(&name, size, reserved) {
            let Some((victim, accounted)) = ledger.accounts().oldest() else { break };
            let path = self.layout.entry(&victim);
            match disk.facts(&path) {
                // Somebody who does not keep accounts replaced it: it is not the entry that was to go.
                Ok(facts) if facts.kind == FileKind::File && facts.len != accounted => {
                    ledger.record(victim, Event::Stored { size: facts.len });
                    continue;
                }
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(reason_of_write(&error)),
                _ => {}
            }
            match retry_sharing(disk, || disk.remove(&path)) {
                Ok(()) => evicted += 1,
                // Gone is gone, whoever did it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(reason_of_write(&error)),
            }
            ledger.record(victim, Event::Removed);
        }
        Ok(evicted)
    }

    fn account_again(&self, name: Key, size: u64) {
        for _ in 0..ATTEMPTS {
            let Ok(mut ledger) = self.ledger.lock(self.options.patience) else { return };
            ledger.record(name, Event::Stored { size });
            if ledger.finish().is_ok() {
                return;
            }
        }
    }

    /// Whether the entry at `path` is whole by header and length.
    fn is_whole(&self, path: &Path) -> Result<(Result<(), Reason>, FileFacts), Reason> {
        let disk = &*self.options.disk;
        let (head, facts) = retry_sharing(disk, || disk.read(path, &|_| envelope::HEADER_LEN as u64))
            .map_err(|error| reason_of_read(&error))?;
        if !facts.is_readable() {
            return Ok((Err(Reason::Untrusted), facts));
        }
        Ok((envelope::Layout::parse(&head, facts.len).map(drop), facts))
    }

    fn names(&self) -> Result<Vec<Key>, Reason> {
        let mut names = Vec::new();
        let listed = self.options.disk.list(self.layout.entries(), &mut |name| {
            names.extend(name.to_str().and_then(Key::from_hex));
        });
        match listed {
            Ok(()) => Ok(names),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(reason_of(&error)),
        }
    }

    fn check_readable(&self) -> Result<(), Reason> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(Reason::Closed);
        }
        self.closed_to_reads.map_or(Ok(()), Err)
    }

    fn check_writable(&self) -> Result<(), Reason> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(Reason::Closed);
        }
        self.closed_to_writes.map_or(Ok(()), Err)
    }
}

impl Store for FileStore {
    fn get(&self, key: &[u8]) -> Lookup {
        self.find(key).into()
    }

    fn put(&self, key: &[u8], artifact: &Artifact) -> Result<Stored, Reason> {
        self.check_writable()?;
        let encoded = envelope::encode(key, artifact)?;
        self.options.limits.admit(encoded.len())?;
        let name = Key::digest(key);
        for _ in 0..ATTEMPTS {
            let (temp, file) = self.write_temp(&encoded)?;
            let published = self.publish(name, encoded.len(), &temp);
            drop(file);
            match published {
                Ok(Some(stored)) => {
                    if self.options.durable {
                        let synced = self.options.disk.sync_directory(self.layout.entries());
                        synced.map_err(|error| reason_of_write(&error))?;
                    }
                    return Ok(stored);
                }
                Ok(None) => {}
                Err(reason) => {
                    let _ = self.options.disk.remove(&temp);
                    return Err(reason);
                }
            }
        }
        Err(Reason::Unavailable)
    }

    fn remove(&self, key: &[u8]) -> Result<bool, Reason> {
        self.check_writable()?;
        let name = Key::digest(key);
        let disk = &*self.options.disk;
        let mut ledger = self.ledger.lock(self.options.patience)?;
        match retry_sharing(disk, || disk.remove(&self.layout.entry(&name))) {
            Ok(()) => {
                ledger.record(name, Event::Removed);
                let _ = ledger.finish();
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(reason_of_write(&error)),
        }
    }

    fn contains(&self, key: &[u8]) -> Result<bool, Reason> {
        self.check_readable()?;
        match self.is_whole(&self.layout.entry(&Key::digest(key))) {
            Ok((whole, _)) => Ok(whole.is_ok()),
            Err(Reason::Absent | Reason::Untrusted) => Ok(false),
            Err(reason) => Err(reason),
        }
    }

    fn len(&self) -> Result<u64, Reason> {
        self.check_readable()?;
        let mut len = 0;
        for name in self.names()? {
            let path = self.layout.entry(&name);
            match self.is_whole(&path) {
                Ok((Ok(()), _)) => len += 1,
                Ok((Err(reason), facts)) if reason.is_damage() => self.discard(name, &path, &facts),
                // Somebody else's, or gone since it was listed.
                Ok(_) | Err(_) => {}
            }
        }
        Ok(len)
    }

    fn clear(&self) -> Result<(), Reason> {
        self.check_writable()?;
        let disk = &*self.options.disk;
        let mut ledger = self.ledger.lock(self.options.patience)?;
        let _ = self.recency.take();
        let mut failed = None;
        for name in self.names()? {
            match retry_sharing(disk, || disk.remove(&self.layout.entry(&name))) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    failed = Some(reason_of_write(&error));
                }
                _ => {}
            }
        }
        self.layout.sweep_temps(disk, self.options.clock.unix_ms());
        ledger.rebuild()?;
        ledger.finish()?;
        failed.map_or(Ok(()), Err)
    }

    fn close(&self) -> Result<(), Reason> {
        if self.closed.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        self.write_uses(self.options.patience)
    }

    fn touch(&self, keys: &[&[u8]]) {
        if self.check_writable().is_ok() {
            keys.iter().for_each(|key| self.note_use(Key::digest(key)));
        }
    }

    fn lock_directory(&self) -> Option<&Path> {
        self.check_writable().is_ok().then(|| self.layout.locks())
    }
}

impl Drop for FileStore {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

fn reason_of_read(error: &io::Error) -> Reason {
    match reason_of(error) {
        // No permission to read is not a medium that cannot be written.
        Reason::ReadOnly | Reason::NoSpace => Reason::Unavailable,
        reason => reason,
    }
}

fn reason_of_write(error: &io::Error) -> Reason {
    match reason_of(error) {
        Reason::Absent => Reason::Unavailable,
        reason => reason,
    }
}

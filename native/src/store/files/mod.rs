//! The file store: one file an entry, shared by any number of processes.

mod access;
mod inspect;
mod kept;
mod layout;
mod ledger;
mod lookup;
mod newer;
mod options;
mod publish;
mod temps;
mod verify;

pub(super) use layout::{ENTRIES, JOURNAL, TAG, TAG_FILE};
pub use options::FileOptions;

use std::{
    collections::HashSet,
    io,
    ops::ControlFlow,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::os::fork::Mutex;

use warmstart_core::{
    artifact::Artifact, envelope, journal::Event, key::Key, lru::Limits, reason::Reason, recipe::Recipe,
    seal::Seal,
};

use super::{
    Buffer, Entry, Kept, Lookup, Proof, Pruned, Report, Store, Stored, Totals, Verified, nearest_of,
    recency::Recency,
};
use crate::{
    error::OpenError,
    os::{disk_of_sealed, process_lock, reason_of, retry_sharing},
};
use access::Access;
use layout::Layout;
use ledger::{Ledger, reason_of_write};

/// Keeps each artifact in a file of its own, named by the digest of its key, in a directory that any number of
/// processes share.
///
/// A put is published by renaming a whole file into place: a reader sees all of it or nothing, and what is stored
/// survives the death of any process. A hit opens, reads and verifies one file, and takes no lock. The cap holds for the
/// directory, whoever writes to it; docs/format.md of the repository describes the files.
///
/// A medium that fails makes misses and refusals, with their reasons, and no errors. When it works again, so does the
/// store. A forked child may use the stores of its parent.
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
    access: Access,
    /// Entries that a newer version wrote, as look-ups have found: a put leaves them alone.
    newer: Mutex<HashSet<Key>>,
    found_newer: AtomicBool,
    /// Whether uses could not be written down lately. Hits do not try again before something was stored.
    keeps_quiet: AtomicBool,
    closed: AtomicBool,
}

impl FileStore {
    /// Opens the directory `path`, and makes it, for its owner only, if there is none. Takes the same time however many
    /// entries there are.
    ///
    /// # Errors
    /// The caller's own mistakes: `path` is a file or a link; without a [seal](FileOptions::with_seal) also that it belongs to
    /// somebody else, or may be written by others.
    /// Where the medium does not let the directory be made, the store opens, misses and refuses.
    pub fn open(path: impl AsRef<Path>, mut options: FileOptions) -> Result<Self, OpenError> {
        let layout = Arc::new(Layout::new(path.as_ref()));
        if options.seal.is_some() && !options.is_disk_given {
            options.disk = disk_of_sealed(layout.root());
        }
        let ledger = Ledger::new(
            options.limits,
            Arc::clone(&layout),
            Arc::clone(&options.disk),
            Arc::clone(&options.clock),
        );
        let store = Self {
            options,
            layout,
            ledger,
            recency: Recency::default(),
            access: Access::default(),
            newer: Mutex::default(),
            found_newer: AtomicBool::new(false),
            keeps_quiet: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        };
        store.find_out_access()?;
        if store.access.writes.reason().is_none() {
            store.layout.temps.sweep(&*store.options.disk, store.options.clock.unix_ms());
            process_lock::sweep(store.layout.locks());
        }
        Ok(store)
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

    fn seal(&self) -> Option<&Seal> {
        self.options.seal.as_ref()
    }

    fn note_use(&self, name: Key) {
        let is_due = self.access.writes.reason().is_none() && self.recency.note(&name, |name| *name);
        if is_due && !self.keeps_quiet.load(Ordering::Relaxed) {
            // Not now is soon enough: a hit does not wait for a lock.
            let written = self.write_uses(Duration::ZERO);
            self.keeps_quiet.store(written.is_err(), Ordering::Relaxed);
        }
    }

    fn write_uses(&self, patience: Duration) -> Result<(), Reason> {
        let uses = self.recency.take();
        if uses.is_empty() || self.access.writes.reason().is_some() {
            return Ok(());
        }
        let written = self.ledger.record_uses(uses.names(), patience);
        if written.is_err() {
            self.recency.give_back(uses);
        }
        written
    }

    fn check_readable(&self) -> Result<(), Reason> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(Reason::Closed);
        }
        self.access_to_reads().map_or(Ok(()), Err)
    }

    fn check_writable(&self) -> Result<(), Reason> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(Reason::Closed);
        }
        self.access_to_writes().map_or(Ok(()), Err)
    }

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

impl Store for FileStore {
    fn get(&self, key: &[u8]) -> Lookup {
        self.find(key).into()
    }

    fn get_into(&self, key: &[u8], buffer: &mut dyn Buffer) -> Result<usize, Reason> {
        self.find_into(key, buffer)
    }

    fn put(&self, key: &[u8], artifact: &Artifact) -> Result<Stored, Reason> {
        self.check_writable()?;
        let encoded = envelope::encode_with(key, artifact, self.seal())?;
        self.options.limits.admit(encoded.len())?;
        if encoded.len() > self.options.disk.max_file() {
            return Err(Reason::Oversize);
        }
        self.publish(Key::digest(key), &encoded)
    }

    fn remove(&self, key: &[u8]) -> Result<bool, Reason> {
        self.check_writable()?;
        let name = Key::digest(key);
        let disk = &*self.options.disk;
        let mut ledger = self.ledger.lock(self.options.patience)?;
        let removed = match retry_sharing(disk, || disk.remove(&self.layout.entry(&name))) {
            Ok(()) => true,
            // Somebody else removed it; the accounts may not have heard.
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(reason_of_write(&error)),
        };
        if ledger.accounts().size_of(&name).is_some() {
            ledger.record(name, Event::Removed);
        }
        let _ = ledger.finish();
        Ok(removed)
    }

    fn contains(&self, key: &[u8]) -> Result<bool, Reason> {
        self.check_readable()?;
        match self.is_whole(&self.layout.entry(&Key::digest(key))) {
            Ok((whole, _)) => Ok(whole.is_ok()),
            Err(Reason::Absent | Reason::Untrusted | Reason::Oversize) => Ok(false),
            Err(reason) => Err(reason),
        }
    }

    fn len(&self) -> Result<u64, Reason> {
        self.count_whole()
    }

    fn verify_each(&self, visit: &mut dyn FnMut(&Proof)) -> Result<Verified, Reason> {
        self.prove_entries(visit)
    }

    fn entries(&self, visit: &mut dyn FnMut(Entry) -> ControlFlow<()>) -> Result<(), Reason> {
        self.visit_entries(visit)
    }

    fn totals(&self) -> Result<Totals, Reason> {
        self.add_up()
    }

    fn nearest(&self, recipe: &Recipe) -> Result<Option<Entry>, Reason> {
        // Where entries are sealed, anybody may have put one there that is not.
        let is_sealed = |entry: &Entry| entry.head.as_ref().is_ok_and(|head| head.is_sealed);
        nearest_of(self, recipe, |entry| self.seal().is_none() || is_sealed(entry))
    }

    fn prune(&self, limits: Limits) -> Result<Pruned, Reason> {
        self.prune_to(limits)
    }

    fn report(&self, report: &Report) -> Result<(), Reason> {
        self.keep_report(report)
    }

    fn kept(&self) -> Result<Kept, Reason> {
        self.read_kept()
    }

    fn flush(&self) -> Result<(), Reason> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(Reason::Closed);
        }
        self.write_uses(self.options.patience)
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
        self.layout.temps.sweep(disk, self.options.clock.unix_ms());
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
    if error.kind() == io::ErrorKind::FileTooLarge {
        return Reason::Oversize;
    }
    match reason_of(error) {
        // No permission to read is not a medium that cannot be written.
        Reason::ReadOnly | Reason::NoSpace => Reason::Unavailable,
        reason => reason,
    }
}

//! The file store: one file an entry, shared by any number of processes.

mod kept;
mod layout;
mod ledger;
mod options;
mod publish;
mod temps;

pub(super) use layout::{ENTRIES, JOURNAL, TAG, TAG_FILE};
pub use options::FileOptions;

use std::{
    collections::{HashMap, HashSet},
    io,
    ops::ControlFlow,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    time::Duration,
};

use foldhash::fast::RandomState;
use warmstart_core::{
    artifact::Artifact,
    envelope,
    head::{Head, MAX_HEAD_LEN},
    journal::{Account, Event},
    key::Key,
    lru::Limits,
    reason::Reason,
    recipe::Recipe,
    seal::Seal,
};

use super::{
    Buffer, Entry, Kept, Lookup, Proof, Pruned, Report, SHORT_HEAD, Store, Stored, Totals, Verified,
    copy_into, nearest_of, recency::Recency, room_for,
};
use crate::{
    error::OpenError,
    os::{
        FileFacts, LocalDisk,
        fork::{Mutex, MutexGuard},
        process_lock, reason_of, retry_sharing, shared_disk,
    },
};
use layout::Layout;
use ledger::{Ledger, reason_of_write};

/// The header of a file longer than this, in bytes, is looked at before the rest is read.
const LARGE: u64 = 16 << 20;

/// So much of an entry is read at once to describe it, in bytes: the whole head of most.
const FIRST: u64 = 4096;

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

/// Why nothing can be looked up, and why nothing can be stored. What passes is found out anew when it matters.
#[derive(Debug, Default)]
struct Access {
    reads: Gate,
    writes: Gate,
}

/// A reason, or none: 0, or 1 and the reason's index.
#[derive(Debug, Default)]
struct Gate(AtomicU8);

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
            // Others may write to a directory whose entries are sealed.
            options.disk = shared_disk(layout.root()).unwrap_or_else(|| Arc::new(LocalDisk::new()));
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
    fn find_out_access(&self) -> Result<(), OpenError> {
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
    fn access_to_reads(&self) -> Option<Reason> {
        let reason = self.access.reads.reason()?;
        if reason == Reason::Unavailable && self.has_entries() {
            self.access.reads.set(None);
        }
        self.access.reads.reason()
    }

    /// Why nothing can be stored. What kept the directory from being used may have passed by now.
    fn access_to_writes(&self) -> Option<Reason> {
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

    fn find(&self, key: &[u8]) -> Result<Artifact, Reason> {
        self.check_readable()?;
        let name = Key::digest(key);
        let path = self.layout.entry(&name);
        let (bytes, facts) = self.read_entry(&path)?;
        if !facts.is_readable() {
            return Err(Reason::Untrusted);
        }
        let found = envelope::decode_with(bytes, key, self.seal());
        match &found {
            Ok(_) => self.note_use(name),
            Err(Reason::NewerVersion) => self.remember_newer(name),
            Err(reason) if reason.is_damage() => _ = self.discard(name, &path, &facts),
            Err(_) => {}
        }
        found
    }

    fn read_up_to(
        &self,
        path: &Path,
        wanted: &dyn Fn(&FileFacts) -> u64,
    ) -> Result<(Vec<u8>, FileFacts), Reason> {
        let disk = &*self.options.disk;
        retry_sharing(disk, || disk.read(path, wanted)).map_err(|error| {
            if disk.is_sharing_violation(&error) { Reason::Busy } else { reason_of_read(&error) }
        })
    }

    /// Reads an entry to its end. Memory for a large file is only taken once its header says that it is an entry of this
    /// length; else the header is all that is read.
    fn read_entry(&self, path: &Path) -> Result<(Vec<u8>, FileFacts), Reason> {
        let header_of_large = |facts: &FileFacts| match facts.len {
            ..=LARGE => facts.len,
            _ => envelope::HEADER_LEN as u64,
        };
        let (bytes, facts) = self.read_up_to(path, &header_of_large)?;
        if facts.len <= LARGE {
            return Ok((bytes, facts));
        }
        match envelope::Layout::parse(&bytes, facts.len) {
            Ok(_) | Err(Reason::NewerVersion) => self.read_up_to(path, &|facts| facts.len),
            Err(_) => Ok((bytes, facts)),
        }
    }

    /// Removes a damaged entry, unless it was replaced since it was read; says whether it is gone.
    fn discard(&self, name: Key, path: &Path, seen: &FileFacts) -> bool {
        if self.access.writes.reason().is_some() {
            return false;
        }
        let Ok(mut ledger) = self.ledger.lock(self.options.patience) else { return false };
        let disk = &*self.options.disk;
        let is_gone = match disk.facts(path) {
            Ok(now) if now == *seen => retry_sharing(disk, || disk.remove(path)).is_ok(),
            Ok(_) => false,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        if is_gone && ledger.accounts().size_of(&name).is_some() {
            ledger.record(name, Event::Removed);
        }
        let _ = ledger.finish();
        is_gone
    }

    /// Whether the entry at `path` is whole by header and length.
    fn is_whole(&self, path: &Path) -> Result<(Result<(), Reason>, FileFacts), Reason> {
        let disk = &*self.options.disk;
        let (head, facts) = retry_sharing(disk, || disk.read(path, &|_| envelope::HEADER_LEN as u64))
            .map_err(|error| reason_of_read(&error))?;
        if !facts.is_readable() {
            return Ok((Err(Reason::Untrusted), facts));
        }
        let layout = envelope::Layout::parse(&head, facts.len);
        Ok((layout.and_then(|layout| layout.matching(self.seal())).map(drop), facts))
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

    fn remember_newer(&self, name: Key) {
        self.newer().insert(name);
        self.found_newer.store(true, Ordering::Relaxed);
    }

    /// Whether the entry, which a look-up found to be a newer version's, still is.
    fn is_newer(&self, name: &Key) -> bool {
        if !self.found_newer.load(Ordering::Relaxed) {
            return false;
        }
        if !self.newer().contains(name) {
            return false;
        }
        // Whole by its checksum: one that only says so is damaged, and may be replaced. Read without the lock: others that
        // are found meanwhile do not wait.
        let is_still = self
            .read_entry(&self.layout.entry(name))
            .is_ok_and(|(bytes, _)| envelope::verify(&bytes) == Err(Reason::NewerVersion));
        if !is_still {
            self.newer().remove(name);
        }
        is_still
    }

    fn newer(&self) -> MutexGuard<'_, HashSet<Key>> {
        self.newer.lock()
    }

    /// What the head of an entry says. Nothing if it is gone.
    fn describe(&self, name: Key, used_unix_ms: u64) -> Option<Entry> {
        let disk = &*self.options.disk;
        let path = self.layout.entry(&name);
        let read = |most: u64| retry_sharing(disk, || disk.read(&path, &|facts| facts.len.min(most)));
        let (size, head) = match read(FIRST) {
            Err(error) => match reason_of_read(&error) {
                Reason::Absent => return None,
                reason => (0, Err(reason)),
            },
            Ok((_, facts)) if !facts.is_readable() => (facts.len, Err(Reason::Untrusted)),
            Ok((bytes, facts)) => {
                let head = envelope::Layout::parse(&bytes, facts.len).and_then(|layout| {
                    if layout.head_len() <= bytes.len() || layout.head_len() > MAX_HEAD_LEN {
                        return Head::parse(&bytes, &layout);
                    }
                    // It may have been replaced since: what is read now says itself what it is.
                    let (bytes, facts) =
                        read(layout.head_len() as u64).map_err(|error| reason_of_read(&error))?;
                    Head::parse(&bytes, &envelope::Layout::parse(&bytes, facts.len)?)
                });
                (facts.len, head)
            }
        };
        let head =
            head.and_then(
                |head| if Key::digest(&head.key) == name { Ok(head) } else { Err(Reason::KeyMismatch) },
            );
        Some(Entry { used_unix_ms, ..Entry::new(name, size, head) })
    }
}

impl Store for FileStore {
    fn get(&self, key: &[u8]) -> Lookup {
        self.find(key).into()
    }

    fn get_into(&self, key: &[u8], buffer: &mut dyn Buffer) -> Result<usize, Reason> {
        // All but a whole entry with a short head is left to `find`.
        self.check_readable()?;
        let name = Key::digest(key);
        let (path, disk) = (self.layout.entry(&name), &*self.options.disk);
        let (head, facts) = self.read_up_to(&path, &|facts| facts.len.min(SHORT_HEAD as u64))?;
        let is_readable = facts.is_readable() && facts.len <= disk.max_file();
        let layout = envelope::Layout::parse(&head, facts.len).ok().filter(|_| is_readable);
        if let Some(payload) = layout.map(|layout| layout.payload())
            && let Some((head, rest)) = head.split_at_checked(payload.start)
        {
            let room = room_for(payload.len(), buffer)?;
            let is_read = if rest.len() == room.len() {
                room.copy_from_slice(rest);
                true
            } else {
                disk.read_at(&path, payload.start as u64, room).is_ok()
            };
            if is_read && envelope::verify_split(head, room, key, self.seal()).is_ok() {
                self.note_use(name);
                return Ok(payload.len());
            }
        }
        copy_into(&self.find(key)?, buffer)
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
        self.check_readable()?;
        let mut len = 0;
        for name in self.names()? {
            let path = self.layout.entry(&name);
            match self.is_whole(&path) {
                Ok((Ok(()), _)) => len += 1,
                Ok((Err(reason), facts)) if reason.is_damage() => _ = self.discard(name, &path, &facts),
                // Somebody else's, or gone since it was listed.
                Ok(_) | Err(_) => {}
            }
        }
        Ok(len)
    }

    fn verify_each(&self, visit: &mut dyn FnMut(&Proof)) -> Result<Verified, Reason> {
        self.check_readable()?;
        let mut found = Verified::default();
        for name in self.names()? {
            let path = self.layout.entry(&name);
            let proof = match self.read_entry(&path) {
                // Gone since it was listed.
                Err(Reason::Absent) => continue,
                Err(reason) => Proof::new(name, 0, Err(reason)),
                Ok((_, facts)) if !facts.is_readable() => Proof::new(name, facts.len, Err(Reason::Untrusted)),
                Ok((bytes, facts)) => {
                    let proved = envelope::verify_with(&bytes, self.seal()).and_then(|layout| {
                        let key = bytes.get(layout.key()).unwrap_or_default();
                        if Key::digest(key) == name { Ok(()) } else { Err(Reason::KeyMismatch) }
                    });
                    let is_removed =
                        proved.is_err_and(Reason::is_damage) && self.discard(name, &path, &facts);
                    Proof { is_removed, ..Proof::new(name, facts.len, proved) }
                }
            };
            found.count(&proof);
            visit(&proof);
        }
        Ok(found)
    }

    fn entries(&self, visit: &mut dyn FnMut(Entry) -> ControlFlow<()>) -> Result<(), Reason> {
        self.check_readable()?;
        // So that the order is that of the last use. If it cannot be written down now, it is what is written down.
        let _ = self.write_uses(Duration::ZERO);
        let known: HashMap<Key, (usize, u64), RandomState> = self
            .ledger
            .look()
            .into_iter()
            .zip(0..)
            .map(|(Account { name, used_unix_ms, .. }, place)| (name, (place, used_unix_ms)))
            .collect();
        // What nobody accounted for would be evicted last, as the newest.
        let mut entries: Vec<_> = self
            .names()?
            .into_iter()
            .map(|name| (known.get(&name).copied().unwrap_or((usize::MAX, 0)), name))
            .collect();
        entries.sort_unstable();
        for ((_, used_unix_ms), name) in entries {
            if let Some(entry) = self.describe(name, used_unix_ms)
                && visit(entry).is_break()
            {
                break;
            }
        }
        Ok(())
    }

    fn totals(&self) -> Result<Totals, Reason> {
        // The entries are those that are there. Their sizes are those of the journal; of what it does not name, the file tells.
        self.check_readable()?;
        let accounts = self.ledger.look().into_iter();
        let sizes: HashMap<Key, u64, RandomState> =
            accounts.map(|Account { name, size, .. }| (name, size)).collect();
        let mut totals = Totals::default();
        for name in self.names()? {
            let size = match sizes.get(&name) {
                Some(size) => *size,
                None => match self.options.disk.facts(&self.layout.entry(&name)) {
                    Ok(facts) => facts.len,
                    // Gone since it was listed; of others, `entries` does not know the size either.
                    Err(error) if reason_of_read(&error) == Reason::Absent => continue,
                    Err(_) => 0,
                },
            };
            totals.entries += 1;
            totals.bytes = totals.bytes.saturating_add(size);
        }
        Ok(totals)
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

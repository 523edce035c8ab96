//! The file store: one file per entry, shared by any number of processes.

mod inspect;
mod layout;
mod ledger;
mod publish;
mod rebuild;
mod temps;

pub(super) use layout::{ENTRIES, JOURNAL, TAG, TAG_FILE};

use std::{
    collections::HashSet,
    fs::File,
    io::{self, Read},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    time::Duration,
};

use warmstart_core::{
    artifact::Artifact, envelope, journal::Event, key::Key, reason::MissReason, seal::Seal,
};

use super::{
    Buffer, Claims, Inspect, SHORT_HEAD, Store, StoreOptions, Totals, copy_into, recency::Recency, room_for,
};
use crate::{
    error::OpenError,
    os::{
        FileMetadata, LocalBackend, StorageBackend, fork::Mutex, if_there, named_for, parallel, process_lock,
        read_first, reason_of, retry_sharing, shared_backend,
    },
};
use layout::Layout;
use ledger::{Ledger, reason_of_write};
use publish::publish;

/// The most bytes that are read before they are hashed, so that they are in the processor's cache then.
const PIECE: usize = 256 << 10;

/// Stores each artifact in its own file, named by the digest of its key, in a directory that any number of
/// processes share.
///
/// A put renames a complete file into place: a reader sees all of it or nothing, and what is stored
/// survives the death of any process. A hit opens, reads and verifies one file, and takes no lock. The cap holds for the
/// directory, whichever processes write to it. docs/format.md of the repository describes the files.
///
/// A failing medium causes misses and refusals with their reasons, never errors. When it works again, so does the
/// store. A forked child may use the stores of its parent.
///
/// ```
/// use warmstart::{Artifact, Store, store::{FileStore, StoreOptions}};
///
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("cache");
/// FileStore::open(&path, StoreOptions::default().with_max_bytes(1 << 20))?.put(b"k", &Artifact::new(vec![1, 2]))?;
///
/// let reopened = FileStore::open(&path, StoreOptions::default().with_max_bytes(1 << 20))?;
/// assert_eq!(reopened.get(b"k")?.payload(), [1, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FileStore {
    options: Arc<StoreOptions>,
    layout: Arc<Layout>,
    ledger: Ledger,
    recency: Recency<Key>,
    /// The reasons why look-ups or puts are impossible, if there are any. Temporary ones are checked again when an operation needs
    /// it.
    reads: Gate,
    writes: Gate,
    /// Entries that look-ups found to be written by a newer version. A put does not replace them.
    newer: Mutex<HashSet<Key>>,
    found_newer: AtomicBool,
    /// Whether the last attempt to write uses failed. Hits retry only after something was stored.
    keeps_quiet: AtomicBool,
    closed: AtomicBool,
}

/// The layout of an entry that was read, or why it is not handed out.
type Verified = Result<envelope::Layout, MissReason>;

/// An optional reason: 0 is none; otherwise 1 plus the index of the reason.
#[derive(Debug, Default)]
struct Gate(AtomicU8);

impl FileStore {
    /// Opens the directory `path`, and creates it, accessible to its owner only, if it is missing. Takes the same time for any
    /// number of entries.
    ///
    /// # Errors
    /// Mistakes of the caller: `path` is a file or a link; or, without a [seal](StoreOptions::with_seal), it belongs to another
    /// user or is writable by others.
    /// If the medium prevents creating the directory, this is no error: the store opens, misses and refuses.
    pub fn open(path: impl AsRef<Path>, mut options: StoreOptions) -> Result<Self, OpenError> {
        let layout = Arc::new(Layout::new(path.as_ref()));
        if options.seal.is_some() && !options.is_backend_given {
            // Other users may write to a directory of sealed entries.
            options.disk = shared_backend(&layout.root).unwrap_or_else(|| Arc::new(LocalBackend::new()));
        }
        let options = Arc::new(options);
        let ledger = Ledger::new(Arc::clone(&layout), Arc::clone(&options));
        let store = Self {
            options,
            layout,
            ledger,
            recency: Recency::default(),
            reads: Gate::default(),
            writes: Gate::default(),
            newer: Mutex::default(),
            found_newer: AtomicBool::new(false),
            keeps_quiet: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        };
        store.find_out_access()?;
        if store.writes.reason().is_none() {
            store.layout.temps.sweep(&*store.options.disk, store.options.clock.unix_ms());
            process_lock::sweep(&store.layout.locks.0);
        }
        Ok(store)
    }

    /// Returns the path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.layout.root
    }

    /// Returns the bytes of all entries, of all processes, according to the shared accounting.
    ///
    /// ```
    /// # use warmstart::{Artifact, Store, store::{FileStore, StoreOptions}};
    /// # let directory = tempfile::tempdir()?;
    /// let store = FileStore::open(directory.path(), StoreOptions::default())?;
    /// store.put(b"k", &Artifact::new(vec![0; 1000]))?;
    /// assert_eq!(store.total_bytes()?, 128 + 1000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The reason why the accounting cannot be read.
    pub fn total_bytes(&self) -> Result<u64, MissReason> {
        self.check_writable()?;
        Ok(self.ledger.lock(self.options.timeout)?.accounts().total_bytes())
    }

    fn seal(&self) -> Option<&Seal> {
        self.options.seal.as_ref()
    }

    fn note_use(&self, digest: Key) {
        let is_due = self.writes.reason().is_none() && self.recency.note(&digest, |digest| *digest);
        if is_due && !self.keeps_quiet.load(Ordering::Relaxed) {
            // A hit does not wait for a lock: the uses can be written later.
            self.keeps_quiet.store(self.write_uses(Duration::ZERO).is_err(), Ordering::Relaxed);
        }
    }

    fn write_uses(&self, timeout: Duration) -> Result<(), MissReason> {
        let uses = self.recency.take();
        if uses.is_empty() || self.writes.reason().is_some() {
            return Ok(());
        }
        let written = self.ledger.record_uses(&uses, timeout);
        if written.is_err() {
            self.recency.give_back(uses);
        }
        written
    }

    fn check_readable(&self) -> Result<(), MissReason> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(MissReason::Closed);
        }
        self.access_to_reads().map_or(Ok(()), Err)
    }

    fn check_writable(&self) -> Result<(), MissReason> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(MissReason::Closed);
        }
        self.access_to_writes().map_or(Ok(()), Err)
    }

    /// Creates the directory if necessary, and determines whether it can be read and written.
    fn find_out_access(&self) -> Result<(), OpenError> {
        let hindrance = if self.options.read_only {
            self.layout.check(&*self.options.disk)?;
            Some(if self.ledger.is_newer() { MissReason::NewerVersion } else { MissReason::ReadOnly })
        } else {
            let missing = self.layout.prepare(&*self.options.disk, self.options.durable)?;
            self.layout.temps.renew();
            missing.or_else(|| self.ledger.probe().err())
        };
        // A read-only directory still serves its entries; without a directory there are none.
        let reads = match hindrance {
            Some(MissReason::NewerVersion) => Some(MissReason::NewerVersion),
            Some(_) if !self.has_entries() => Some(MissReason::Unavailable),
            _ => None,
        };
        self.writes.set(if self.options.read_only { Some(MissReason::ReadOnly) } else { hindrance });
        self.reads.set(reads);
        Ok(())
    }

    /// Returns the reason why look-ups are impossible. A missing directory may have been created in the meantime.
    fn access_to_reads(&self) -> Option<MissReason> {
        let reason = self.reads.reason()?;
        if reason == MissReason::Unavailable && self.has_entries() {
            self.reads.set(None);
        }
        self.reads.reason()
    }

    /// Returns the reason why puts are impossible. Whatever prevented them may have passed in the meantime.
    fn access_to_writes(&self) -> Option<MissReason> {
        let reason = self.writes.reason()?;
        let is_final = reason == MissReason::NewerVersion || self.options.read_only;
        if !is_final && self.find_out_access().is_err() {
            // The directory has been replaced by something that cannot be opened: see `OpenError`.
            self.writes.set(Some(MissReason::Untrusted));
        }
        self.writes.reason()
    }

    fn has_entries(&self) -> bool {
        self.options.disk.metadata(&self.layout.entries).is_ok()
    }

    fn access<T>(&self, mut read: impl FnMut(&dyn StorageBackend) -> io::Result<T>) -> Result<T, MissReason> {
        let disk = &*self.options.disk;
        retry_sharing(disk, || read(disk)).map_err(|error| {
            if disk.is_sharing_violation(&error) { MissReason::Busy } else { reason_of_read(&error) }
        })
    }

    /// Returns the length of a file that may be read.
    fn len_to_read(&self, metadata: &FileMetadata) -> Result<usize, MissReason> {
        match usize::try_from(metadata.len) {
            _ if !metadata.is_readable() => Err(MissReason::Untrusted),
            Ok(len) if metadata.len <= self.options.disk.max_file() => Ok(len),
            _ => Err(MissReason::Oversize),
        }
    }

    /// Reads an unsealed entry with one opening of the file, which takes longest. Verifies a short one before it is copied into the caller's
    /// buffer, and a longer one there.
    fn read_entry_into(&self, path: &Path, key: &[u8], buffer: &mut dyn Buffer) -> Result<usize, MissReason> {
        let (mut file, metadata) = self.access(|disk| disk.open(path))?;
        let len = self.len_to_read(&metadata)?;
        let mut read = |into: &mut [u8]| file.read_exact(into).map_err(|error| reason_of_read(&error));
        let mut first = [0; SHORT_HEAD];
        let first = &mut first[..SHORT_HEAD.min(len)];
        read(first)?;
        let layout = match first.len() == len {
            true => envelope::verify(first, None)?,
            false => envelope::Layout::parse(first, metadata.len)?.matching(None)?,
        };
        let payload = layout.payload();
        let begun = first.get(payload.start..).ok_or(MissReason::TooLong)?;
        if first[layout.key()] != *key {
            return Err(MissReason::KeyMismatch);
        }
        let (copied, rest) = room_for(payload.len(), buffer)?.split_at_mut(begun.len());
        copied.copy_from_slice(begun);
        if first.len() < len {
            let mut verifier = envelope::Verifier::begin(first, metadata.len)?;
            for piece in rest.chunks_mut(PIECE) {
                read(piece)?;
                verifier.update(piece);
            }
            verifier.finish()?;
        }
        Ok(payload.len())
    }

    /// Reads an entry and verifies it. Returns the bytes that were read, of a damaged one perhaps not all.
    fn read_entry(&self, path: &Path) -> Result<(Vec<u8>, Verified, FileMetadata), MissReason> {
        let (file, metadata) = self.access(|disk| disk.open(path))?;
        let mut bytes = Vec::new();
        let verified = self.len_to_read(&metadata).and_then(|len| self.read_all(&file, len, &mut bytes));
        Ok((bytes, verified, metadata))
    }

    /// Reads each piece of an entry and hashes it while it is in the processor's cache. Allocates memory for a large
    /// one only after the header says that it is an entry of this length, or of a newer version, whose length cannot be checked.
    fn read_all(&self, file: &File, len: usize, bytes: &mut Vec<u8>) -> Verified {
        let refused = |error: io::Error| reason_of_read(&error);
        // Of a large one no more than the header needs: these bytes move when the buffer grows.
        read_first(file, bytes, if len <= PIECE { len } else { SHORT_HEAD }).map_err(refused)?;
        if len <= PIECE {
            return envelope::verify(bytes, self.seal());
        }
        let mut verifier = envelope::Verifier::begin(bytes, len as u64)?;
        bytes.try_reserve_exact(len.saturating_sub(bytes.len())).map_err(|error| refused(error.into()))?;
        for at in (bytes.len()..len).step_by(PIECE) {
            file.take(PIECE.min(len - at) as u64).read_to_end(bytes).map_err(refused)?;
            // Nothing if the file has become shorter.
            verifier.update(bytes.get(at..).unwrap_or_default());
        }
        verifier.verify(bytes, self.seal())
    }

    /// Removes a damaged entry, unless it was replaced since it was read. Returns whether it is gone.
    fn discard(&self, digest: Key, path: &Path, seen: &FileMetadata) -> bool {
        if self.writes.reason().is_some() {
            return false;
        }
        let Ok(mut ledger) = self.ledger.lock(self.options.timeout) else { return false };
        let disk = &*self.options.disk;
        let is_gone = match disk.metadata(path) {
            Ok(now) if now == *seen => retry_sharing(disk, || disk.remove(path)).is_ok(),
            Ok(_) => false,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        if is_gone && ledger.accounts().size_of(&digest).is_some() {
            ledger.record(digest, Event::Removed);
        }
        let _ = ledger.finish();
        is_gone
    }

    fn digests(&self) -> Result<Vec<Key>, MissReason> {
        let mut digests = Vec::new();
        let listed = self.options.disk.list(&self.layout.entries, &mut |name| {
            digests.extend(name.to_str().and_then(Key::from_hex));
        });
        if_there(listed).map_err(|error| reason_of(&error))?;
        Ok(digests)
    }

    /// Returns whether an entry that a look-up found to be of a newer version still is.
    fn is_newer(&self, digest: &Key) -> bool {
        if !self.found_newer.load(Ordering::Relaxed) || !self.newer.lock().contains(digest) {
            return false;
        }
        // Its checksum must hold: an entry that only claims a newer version is damaged, and may be replaced. Read without the lock,
        // so that look-ups that find other such entries do not wait.
        let read = self.read_entry(&named_for(&self.layout.entries, digest));
        let is_still = matches!(read, Ok((_, Err(MissReason::NewerVersion), _)));
        if !is_still {
            self.newer.lock().remove(digest);
        }
        is_still
    }
}

impl Store for FileStore {
    fn get(&self, key: &[u8]) -> Result<Artifact, MissReason> {
        self.check_readable()?;
        let digest = Key::digest(key);
        let path = named_for(&self.layout.entries, &digest);
        let (bytes, verified, metadata) = self.read_entry(&path)?;
        let found = verified.and_then(|layout| layout.into_artifact(bytes, key));
        match &found {
            Ok(_) => self.note_use(digest),
            Err(MissReason::NewerVersion) => {
                self.newer.lock().insert(digest);
                self.found_newer.store(true, Ordering::Relaxed);
            }
            Err(reason) if reason.is_damage() => _ = self.discard(digest, &path, &metadata),
            Err(_) => {}
        }
        found
    }

    fn get_many(&self, keys: &[&[u8]]) -> Vec<Result<Artifact, MissReason>> {
        // A read takes a few microseconds, and starting a thread some tens of them.
        parallel::map(keys.len(), 32, |index| self.get(keys[index]))
    }

    fn get_into(&self, key: &[u8], buffer: &mut dyn Buffer) -> Result<usize, MissReason> {
        self.check_readable()?;
        let digest = Key::digest(key);
        let read = match self.seal() {
            None => self.read_entry_into(&named_for(&self.layout.entries, &digest), key, buffer),
            Some(_) => Err(MissReason::Sealed),
        };
        if let Ok(_) | Err(MissReason::Absent) = read {
            return read.inspect(|_| self.note_use(digest));
        }
        // Anything but a whole, unsealed entry with a short head is left to `get`, which says what is wrong.
        copy_into(&self.get(key)?, buffer)
    }

    fn put(&self, key: &[u8], artifact: &Artifact) -> Result<u64, MissReason> {
        self.check_writable()?;
        let encoded = envelope::encode(key, artifact, self.seal())?;
        self.options.limits.admit(encoded.len())?;
        if encoded.len() > self.options.disk.max_file() {
            return Err(MissReason::Oversize);
        }
        let digest = Key::digest(key);
        if self.is_newer(&digest) {
            return Err(MissReason::NewerVersion);
        }
        let evicted = publish(&self.ledger, &self.recency, digest, &encoded)?;
        self.keeps_quiet.store(false, Ordering::Relaxed);
        Ok(evicted)
    }

    fn remove(&self, key: &[u8]) -> Result<bool, MissReason> {
        self.check_writable()?;
        let digest = Key::digest(key);
        let disk = &*self.options.disk;
        let mut ledger = self.ledger.lock(self.options.timeout)?;
        let removed = retry_sharing(disk, || disk.remove(&named_for(&self.layout.entries, &digest)));
        // `None` if another process removed it, perhaps without telling the accounting.
        let removed = if_there(removed).map_err(|error| reason_of_write(&error))?.is_some();
        if ledger.accounts().size_of(&digest).is_some() {
            ledger.record(digest, Event::Removed);
        }
        let _ = ledger.finish();
        Ok(removed)
    }

    fn contains(&self, key: &[u8]) -> Result<bool, MissReason> {
        self.check_readable()?;
        let path = named_for(&self.layout.entries, &Key::digest(key));
        match self.access(|disk| disk.read(&path, &|_| envelope::HEADER_LEN as u64)) {
            Ok((header, metadata)) if metadata.is_readable() => {
                let layout = envelope::Layout::parse(&header, metadata.len);
                Ok(layout.and_then(|layout| layout.matching(self.seal())).is_ok())
            }
            Ok(_) | Err(MissReason::Absent | MissReason::Untrusted | MissReason::Oversize) => Ok(false),
            Err(reason) => Err(reason),
        }
    }

    fn flush(&self) -> Result<(), MissReason> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(MissReason::Closed);
        }
        self.write_uses(self.options.timeout)
    }

    fn clear(&self) -> Result<(), MissReason> {
        self.check_writable()?;
        let disk = &*self.options.disk;
        let mut ledger = self.ledger.lock(self.options.timeout)?;
        let _ = self.recency.take();
        let mut failed = None;
        for digest in self.digests()? {
            let removed = retry_sharing(disk, || disk.remove(&named_for(&self.layout.entries, &digest)));
            failed = if_there(removed).err().map(|error| reason_of_write(&error)).or(failed);
        }
        self.layout.temps.sweep(disk, self.options.clock.unix_ms());
        ledger.rebuild()?;
        ledger.finish()?;
        failed.map_or(Ok(()), Err)
    }

    fn close(&self) -> Result<(), MissReason> {
        if self.closed.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        self.write_uses(self.options.timeout)
    }

    fn record_access(&self, keys: &[&[u8]]) {
        if self.check_writable().is_ok() {
            keys.iter().for_each(|key| self.note_use(Key::digest(key)));
        }
    }

    fn inspect(&self) -> Option<&dyn Inspect> {
        Some(self)
    }

    fn claims(&self) -> Option<&dyn Claims> {
        self.check_writable().is_ok().then(|| &self.layout.locks as &dyn Claims)
    }
}

impl Gate {
    fn reason(&self) -> Option<MissReason> {
        let code = usize::from(self.0.load(Ordering::Relaxed));
        MissReason::ALL.get(code.wrapping_sub(1)).copied()
    }

    fn set(&self, reason: Option<MissReason>) {
        let code = reason.map_or(0, |reason| reason.index() + 1);
        self.0.store(u8::try_from(code).unwrap_or(u8::MAX), Ordering::Relaxed);
    }
}

impl Drop for FileStore {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

fn reason_of_read(error: &io::Error) -> MissReason {
    if error.kind() == io::ErrorKind::FileTooLarge {
        return MissReason::Oversize;
    }
    match reason_of(error) {
        // A missing permission to read does not mean that the medium is read-only.
        MissReason::ReadOnly | MissReason::NoSpace => MissReason::Unavailable,
        reason => reason,
    }
}

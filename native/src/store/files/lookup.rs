//! How entries are found, and what happens to damaged ones.

use std::{io, path::Path};

use warmstart_core::{artifact::Artifact, envelope, journal::Event, key::Key, reason::Reason};

use super::{FileStore, reason_of_read};
use crate::{
    os::{FileFacts, reason_of, retry_sharing},
    store::Buffer,
};

/// The header of a file longer than this, in bytes, is looked at before the rest is read.
const LARGE: u64 = 16 << 20;

/// A head of up to so many bytes is read apart from the payload.
const SHORT_HEAD: u64 = 4096;

impl FileStore {
    pub(super) fn find(&self, key: &[u8]) -> Result<Artifact, Reason> {
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

    /// Reads the payload of an entry into a buffer. Nothing if it is anything but an entry of the right key, whole and with a
    /// short head: of that, [`find`](Self::find) makes what is right.
    pub(super) fn find_into(&self, key: &[u8], buffer: &mut dyn Buffer) -> Option<Result<usize, Reason>> {
        self.check_readable().ok()?;
        let name = Key::digest(key);
        let (path, disk) = (self.layout.entry(&name), &*self.options.disk);
        let (mut head, facts) = disk.read(&path, &|facts| facts.len.min(SHORT_HEAD)).ok()?;
        let payload = envelope::Layout::parse(&head, facts.len).ok()?.payload();
        if !facts.is_readable() || facts.len > disk.max_file() || payload.start > head.len() {
            return None;
        }
        head.truncate(payload.start);
        let Some(room) = buffer.room(payload.len()) else { return Some(Err(Reason::TooLong)) };
        disk.read_at(&path, payload.start as u64, room).ok()?;
        envelope::prove(&head, room, key, self.seal()).ok()?;
        self.note_use(name);
        Some(Ok(payload.len()))
    }

    /// Reads an entry to its end. Memory for a large file is only taken once its header says that it is an entry of this
    /// length; else the header is all that is read.
    pub(super) fn read_entry(&self, path: &Path) -> Result<(Vec<u8>, FileFacts), Reason> {
        let disk = &*self.options.disk;
        let read = |wanted: &dyn Fn(&FileFacts) -> u64| {
            retry_sharing(disk, || disk.read(path, wanted)).map_err(|error| {
                if disk.is_sharing_violation(&error) { Reason::Busy } else { reason_of_read(&error) }
            })
        };
        let header_of_large = |facts: &FileFacts| match facts.len {
            ..=LARGE => facts.len,
            _ => envelope::HEADER_LEN as u64,
        };
        let (bytes, facts) = read(&header_of_large)?;
        if facts.len <= LARGE {
            return Ok((bytes, facts));
        }
        match envelope::Layout::parse(&bytes, facts.len) {
            Ok(_) | Err(Reason::NewerVersion) => read(&|facts| facts.len),
            Err(_) => Ok((bytes, facts)),
        }
    }

    /// Removes a damaged entry, unless it was replaced since it was read; says whether it is gone.
    pub(super) fn discard(&self, name: Key, path: &Path, seen: &FileFacts) -> bool {
        if self.access.to_writes().is_some() {
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
    pub(super) fn is_whole(&self, path: &Path) -> Result<(Result<(), Reason>, FileFacts), Reason> {
        let disk = &*self.options.disk;
        let (head, facts) = retry_sharing(disk, || disk.read(path, &|_| envelope::HEADER_LEN as u64))
            .map_err(|error| reason_of_read(&error))?;
        if !facts.is_readable() {
            return Ok((Err(Reason::Untrusted), facts));
        }
        let layout = envelope::Layout::parse(&head, facts.len);
        Ok((layout.and_then(|layout| layout.matching(self.seal())).map(drop), facts))
    }

    pub(super) fn names(&self) -> Result<Vec<Key>, Reason> {
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
}

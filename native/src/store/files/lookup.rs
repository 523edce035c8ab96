//! How entries are found, and what happens to damaged ones.

use std::{io, path::Path};

use warmstart_core::{artifact::Artifact, envelope, journal::Event, key::Key, reason::Reason};

use super::{FileStore, reason_of_read};
use crate::{
    os::{FileFacts, reason_of, retry_sharing},
    store::{Buffer, SHORT_HEAD, copy_into, room_for},
};

/// The header of a file longer than this, in bytes, is looked at before the rest is read.
const LARGE: u64 = 16 << 20;

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

    /// Reads the payload of an entry into a buffer. Leaves anything but a whole entry with a short head to
    /// [`find`](Self::find).
    pub(super) fn find_into(&self, key: &[u8], buffer: &mut dyn Buffer) -> Result<usize, Reason> {
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
    pub(super) fn read_entry(&self, path: &Path) -> Result<(Vec<u8>, FileFacts), Reason> {
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
    pub(super) fn discard(&self, name: Key, path: &Path, seen: &FileFacts) -> bool {
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

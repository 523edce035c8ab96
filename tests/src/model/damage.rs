//! Damages stored entries behind the store's back.

use std::fs;

use rusqlite::{Connection, OptionalExtension as _};
use warmstart::{Artifact, Metadata, MissReason, Seal};
use warmstart_core::envelope::{self, Encoded, Layout};

use super::{
    lru::{Bad, Head, State},
    place::Place,
    program::{Beside, Damage, key_of},
};

impl Place {
    /// Damages the entry of `key`, and returns its new state; `None` if there is no entry, or if it would grow.
    ///
    /// # Panics
    /// If the files of the store cannot be read or written.
    pub fn damage(&self, key: &[u8], damage: Damage) -> Option<State> {
        let mut stored = self.read(key)?;
        let (len, last) = (stored.len(), stored.len().checked_sub(1)?);
        match damage {
            // Of a database only the store itself takes entries away.
            Damage::Gone if !self.kind.has_files() => return None,
            Damage::Gone => return fs::remove_file(self.entry(key)).ok().map(|()| State::Gone),
            Damage::Flip { at, mask } => stored[last - at % (last + 1)] ^= mask,
            Damage::Cut { len } => stored.truncate(len.min(last)),
            Damage::Planted { is_sealed } => stored = self.planted(key, &stored, is_sealed)?,
            Damage::Copied { from } => {
                stored = self.read(&key_of(from))?;
                // One that had been copied from here: it would be what was once put.
                if stored.len() > len || self.verify(&stored, key).is_ok() {
                    return None;
                }
            }
        }
        self.write(key, &stored)?;
        // A bit flipped twice is whole again.
        let Err(reason) = self.verify(&stored, key) else { return Some(State::Whole) };
        let len = stored.len() as u64;
        let layout = Layout::parse(&stored, len);
        Some(State::Bad(Box::new(Bad {
            reason,
            seen: layout.clone().and_then(|layout| layout.matching(self.kind.seal().as_ref())).map(drop),
            told: layout.and_then(|layout| head(&stored, key, &layout)),
            size: self.kind.has_files().then_some(len),
        })))
    }

    /// Flips bits of a part besides the entries, while no store is open. Returns whether that part existed.
    ///
    /// # Panics
    /// If the part cannot be changed.
    #[must_use]
    pub fn vandalise(&self, what: Beside, at: usize, mask: u8) -> bool {
        // The first bytes say whose it is, and of which version: what is not ours is left alone.
        let (path, begin) = match what {
            _ if self.kind.has_database() => (self.database(), 100),
            _ if !self.kind.has_files() => return false,
            Beside::Accounts => (self.root().join("journal"), 16),
            Beside::Statistics => (self.root().join("statistics"), 0),
            Beside::LastMiss => (self.root().join("last-miss"), 0),
        };
        let Ok(mut bytes) = fs::read(&path) else { return false };
        let Some(rest) = bytes.get_mut(begin..).filter(|rest| !rest.is_empty()) else { return false };
        rest[at % rest.len()] ^= mask;
        fs::write(path, bytes).expect("the place is our own");
        true
    }

    /// Returns an artifact that was never put, no longer than what is `stored`, sealed without the secret.
    fn planted(&self, key: &[u8], stored: &[u8], is_sealed: bool) -> Option<Vec<u8>> {
        let payload_len = Layout::parse(stored, stored.len() as u64).ok()?.payload().len();
        let artifact = Artifact::new(vec![0x55; payload_len.saturating_sub(envelope::PAYLOAD_ALIGN)]);
        // Where nothing is sealed, anybody may store.
        let is_sealed = is_sealed || self.kind.seal().is_none();
        let seal = is_sealed.then(|| Seal::new(&[8; 32]));
        let encoded = envelope::encode(key, &artifact, seal.as_ref());
        encoded.as_ref().map(Encoded::to_vec).ok().filter(|planted| planted.len() <= stored.len())
    }

    fn verify(&self, stored: &[u8], key: &[u8]) -> Result<(), MissReason> {
        envelope::decode(stored.to_vec(), key, self.kind.seal().as_ref()).map(drop)
    }

    fn read(&self, key: &[u8]) -> Option<Vec<u8>> {
        const SQL: &str = "SELECT envelope FROM entry JOIN content USING (id) WHERE key = ?1";
        if self.kind.has_files() {
            fs::read(self.entry(key)).ok()
        } else if self.kind.has_database() {
            self.connect().query_row(SQL, [key], |row| row.get(0)).optional().ok()?
        } else {
            None
        }
    }

    fn write(&self, key: &[u8], stored: &[u8]) -> Option<()> {
        const SQL: &str = "UPDATE content SET envelope = ?2 WHERE id = (SELECT id FROM entry WHERE key = ?1)";
        if self.kind.has_files() {
            fs::write(self.entry(key), stored).ok()
        } else {
            self.connect().execute(SQL, (key, stored)).ok().map(drop)
        }
    }

    fn connect(&self) -> Connection {
        Connection::open(self.database()).expect("the place is our own")
    }
}

fn head(stored: &[u8], key: &[u8], layout: &Layout) -> Result<Head, MissReason> {
    if stored[layout.key()] != *key {
        return Err(MissReason::KeyMismatch);
    }
    Ok(Head {
        key: key.to_vec(),
        metadata: Metadata::decode(&stored[layout.metadata()])?,
        payload_len: layout.payload().len() as u64,
        is_sealed: layout.is_sealed(),
    })
}

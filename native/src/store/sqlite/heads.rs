//! The heads of entries, read without their payloads.

use rusqlite::{Connection, ErrorCode, OptionalExtension, blob::Blob};
use warmstart_core::{
    envelope::{HEADER_LEN, Layout},
    head::Head,
    key::Key,
    reason::MissReason,
    seal::Seal,
};

use super::error::DbError;
use crate::store::{Entry, read_head};

const ROW: &str = "SELECT key, size, accessed_at FROM entry WHERE id = ?1";

/// Reads the heads of entries, at a cost that does not depend on the length of their envelopes.
pub(super) struct Heads<'a> {
    connection: &'a Connection,
    blob: Option<Blob<'a>>,
    /// The number of bytes read so far.
    pub(super) bytes: usize,
}

impl<'a> Heads<'a> {
    pub(super) const fn new(connection: &'a Connection) -> Self {
        Self { connection, blob: None, bytes: 0 }
    }

    /// Opens the envelope of the entry. Returns `None` if it has none, as in a damaged database.
    pub(super) fn open(&mut self, id: i64) -> Result<Option<&Blob<'a>>, DbError> {
        let opened = match self.blob.take() {
            Some(mut blob) => blob.reopen(id).map(|()| blob),
            None => self.connection.blob_open("main", "content", "envelope", id, true),
        };
        match opened {
            Ok(blob) => Ok(Some(self.blob.insert(blob))),
            // SQLite reports this for a missing row.
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::Unknown) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns at most this many first bytes of the entry's envelope, and its length. Without an envelope, both are empty.
    pub(super) fn read(&mut self, id: i64, most: usize) -> Result<(Vec<u8>, u64), DbError> {
        let Some(blob) = self.open(id)? else { return Ok((Vec::new(), 0)) };
        let mut bytes = vec![0; blob.len().min(most)];
        blob.read_at_exact(&mut bytes, 0)?;
        let len = blob.len() as u64;
        self.bytes += bytes.len();
        Ok((bytes, len))
    }

    /// Returns whether the entry is whole by its header and length, and sealed if and only if the store has a secret.
    pub(super) fn look_at(
        &mut self,
        id: i64,
        seal: Option<&Seal>,
    ) -> Result<Result<(), MissReason>, DbError> {
        let (header, len) = self.read(id, HEADER_LEN)?;
        Ok(Layout::parse(&header, len).and_then(|layout| layout.matching(seal)).map(drop))
    }

    /// Describes the entry, if it exists.
    pub(super) fn entry(&mut self, id: i64) -> Result<Option<Entry>, DbError> {
        let row = self.connection.prepare_cached(ROW)?.query_row([id], |row| {
            Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
        });
        let Some((key, size, used)) = row.optional()? else { return Ok(None) };
        let head = self.head(id, &key)?;
        // Damage can make these negative.
        let [size, used_unix_ms] = [size, used].map(|number| u64::try_from(number).unwrap_or(0));
        Ok(Some(Entry { used_unix_ms, ..Entry::new(Key::digest(&key), size, head) }))
    }

    fn head(&mut self, id: i64, key: &[u8]) -> Result<Result<Head, MissReason>, DbError> {
        let head = read_head(|most| self.read(id, most))?;
        Ok(head.and_then(|head| if head.key == key { Ok(head) } else { Err(MissReason::KeyMismatch) }))
    }
}

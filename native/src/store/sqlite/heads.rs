//! The heads of entries: what they say of themselves, read without their payloads.

use rusqlite::{Connection, ErrorCode, OptionalExtension, blob::Blob};
use warmstart_core::{
    envelope::{HEADER_LEN, Layout},
    head::{Head, MAX_HEAD_LEN},
    key::Key,
    reason::Reason,
    seal::Seal,
};

use super::fault::Fault;
use crate::store::{Entry, SHORT_HEAD};

const ROW: &str = "SELECT key, size, accessed_at FROM entry WHERE id = ?1";

/// Reads heads, and nothing but heads, however large the envelopes are.
pub(super) struct Heads<'a> {
    connection: &'a Connection,
    blob: Option<Blob<'a>>,
}

impl<'a> Heads<'a> {
    pub(super) const fn new(connection: &'a Connection) -> Self {
        Self { connection, blob: None }
    }

    /// The envelope of the entry, if it has one, as only in a damaged database it has none.
    pub(super) fn open(&mut self, id: i64) -> Result<Option<&Blob<'a>>, Fault> {
        let opened = match self.blob.take() {
            Some(mut blob) => blob.reopen(id).map(|()| blob),
            None => self.connection.blob_open("main", "content", "envelope", id, true),
        };
        match opened {
            Ok(blob) => Ok(Some(self.blob.insert(blob))),
            // SQLite's word for a row that is not there.
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::Unknown) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The first bytes of the entry's envelope, at most so many, and its length: none where there is no envelope.
    pub(super) fn read(&mut self, id: i64, most: usize) -> Result<(Vec<u8>, u64), Fault> {
        let Some(blob) = self.open(id)? else { return Ok((Vec::new(), 0)) };
        let mut bytes = vec![0; blob.len().min(most)];
        blob.read_at_exact(&mut bytes, 0)?;
        Ok((bytes, blob.len() as u64))
    }

    /// Whether the entry is whole by header and length, and has a seal just if there is one.
    pub(super) fn look_at(&mut self, id: i64, seal: Option<&Seal>) -> Result<Result<(), Reason>, Fault> {
        let (header, len) = self.read(id, HEADER_LEN)?;
        Ok(Layout::parse(&header, len).and_then(|layout| layout.matching(seal)).map(drop))
    }

    /// What is known about the entry, if it is there.
    pub(super) fn entry(&mut self, id: i64) -> Result<Option<Entry>, Fault> {
        let row = self.connection.prepare_cached(ROW)?.query_row([id], |row| {
            Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
        });
        let Some((key, size, used)) = row.optional()? else { return Ok(None) };
        let head = self.head(id, &key)?;
        // Damage can make them negative.
        let [size, used_unix_ms] = [size, used].map(|number| u64::try_from(number).unwrap_or(0));
        Ok(Some(Entry { used_unix_ms, ..Entry::new(Key::digest(&key), size, head) }))
    }

    fn head(&mut self, id: i64, key: &[u8]) -> Result<Result<Head, Reason>, Fault> {
        let (mut bytes, len) = self.read(id, SHORT_HEAD)?;
        let layout = match Layout::parse(&bytes, len) {
            Ok(layout) => layout,
            Err(reason) => return Ok(Err(reason)),
        };
        // Within the envelope: the layout was checked against its length. One that is too long is not read.
        if layout.head_len() > bytes.len() && layout.head_len() <= MAX_HEAD_LEN {
            (bytes, _) = self.read(id, layout.head_len())?;
        }
        let head = Head::parse(&bytes, &layout);
        Ok(head.and_then(|head| if head.key == key { Ok(head) } else { Err(Reason::KeyMismatch) }))
    }
}

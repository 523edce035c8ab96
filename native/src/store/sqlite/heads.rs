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
use crate::store::Entry;

/// So much of an envelope is read at once: the whole head of most.
const FIRST: usize = 4096;

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

    /// Whether the entry is whole by header and length, and has a seal just if there is one.
    pub(super) fn look_at(&mut self, id: i64, seal: Option<&Seal>) -> Result<Result<(), Reason>, Fault> {
        let Some(blob) = self.open(id)? else { return Ok(Err(Reason::Truncated)) };
        let mut header = [0; HEADER_LEN];
        let read = blob.read_at(&mut header, 0)?;
        let layout = Layout::parse(header.get(..read).unwrap_or_default(), blob.len() as u64);
        Ok(layout.and_then(|layout| layout.matching(seal)).map(drop))
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
        let Some(blob) = self.open(id)? else { return Ok(Err(Reason::Truncated)) };
        let mut bytes = vec![0; blob.len().min(FIRST)];
        blob.read_at_exact(&mut bytes, 0)?;
        let layout = match Layout::parse(&bytes, blob.len() as u64) {
            Ok(layout) => layout,
            Err(reason) => return Ok(Err(reason)),
        };
        // Within the envelope: the layout was checked against its length. One that is too long is not read.
        let len = layout.head_len();
        if len > bytes.len() && len <= MAX_HEAD_LEN {
            let read = bytes.len();
            bytes.resize(len, 0);
            blob.read_at_exact(bytes.get_mut(read..).unwrap_or_default(), read)?;
        }
        let head = Head::parse(&bytes, &layout);
        Ok(head.and_then(|head| if head.key == key { Ok(head) } else { Err(Reason::KeyMismatch) }))
    }

    /// The envelope of the entry, if it has one.
    fn open(&mut self, id: i64) -> Result<Option<&Blob<'a>>, Fault> {
        let opened = match self.blob.take() {
            Some(mut blob) => blob.reopen(id).map(|()| blob),
            None => self.connection.blob_open("main", "content", "envelope", id, true),
        };
        match opened {
            Ok(blob) => Ok(Some(self.blob.insert(blob))),
            // SQLite's word for a row that is not there.
            Err(rusqlite::Error::SqliteFailure(failure, _)) if failure.code == ErrorCode::Unknown => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

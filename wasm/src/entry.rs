//! Entries: the whole envelope of a small value, or the head of a large one.

use alloc::vec::Vec;
use core::ops::Range;

use wasm_bindgen::prelude::wasm_bindgen;

use warmstart_core::{
    artifact::Provenance,
    envelope::{self, HeadWriter, Layout, Verifier, head_checksum},
    key::Key,
    reason::Reason,
};

/// Payloads of at most so many bytes are kept whole, in one record with their head. Chromium keeps records of
/// more than 64 KiB in files of their own, one more step for each read.
const SMALL: u32 = 48 * 1024;

/// The most payload bytes that a small value has.
#[wasm_bindgen]
#[must_use]
pub fn small_limit() -> u32 {
    SMALL
}

/// Encodes a small value; or gives one byte, which is the number of the reason why it cannot: too long a key
/// or metadata.
#[wasm_bindgen]
#[must_use]
pub fn encode_small(key: &[u8], metadata: &[u8], payload: &[u8], created_ms: f64, build_ms: f64) -> Vec<u8> {
    let provenance = provenance(created_ms, build_ms);
    let writer = HeadWriter::new(key, metadata, payload.len() as u64, provenance);
    or_number(writer.and_then(|mut writer| {
        writer.update(payload);
        let mut envelope = writer.finish()?;
        envelope.extend_from_slice(payload);
        Ok(envelope)
    }))
}

/// The checksum of the head of a large value, which is stored beside it: the head is handed out before the
/// payload is read.
#[wasm_bindgen]
#[must_use]
pub fn head_sum(head: &[u8]) -> u32 {
    head_checksum(head)
}

/// Reads entries, one after the other: what it says is about the last one.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Reader {
    bytes: Vec<u8>,
    key: Range<usize>,
    metadata: Range<usize>,
    payload: Range<usize>,
    provenance: Provenance,
}

#[wasm_bindgen]
impl Reader {
    /// Has read nothing yet.
    #[wasm_bindgen(constructor)]
    #[must_use]
    #[expect(clippy::new_without_default, reason = "JavaScript has constructors")]
    pub fn new() -> Self {
        Self {
            bytes: Vec::new(),
            key: 0..0,
            metadata: 0..0,
            payload: 0..0,
            provenance: Provenance::default(),
        }
    }

    /// Reads the envelope of a small value. Gives the number of what is wrong, or 0: every byte is proved.
    pub fn small(&mut self, envelope: Vec<u8>) -> u32 {
        let layout = envelope::verify(&envelope);
        self.take(envelope, layout)
    }

    /// Reads the head of a large value, given its checksum and the length of the payload in bytes. Gives the
    /// number of what is wrong, or 0: the head is proved, and the payload is not.
    pub fn large(&mut self, head: Vec<u8>, sum: u32, payload_len: f64) -> u32 {
        let layout = if head_checksum(&head) == sum {
            Verifier::new(&head, payload_len as u64).map(|(_, layout)| layout)
        } else {
            Err(Reason::ChecksumMismatch)
        };
        self.take(head, layout)
    }

    /// Whether the entry is this key's.
    #[must_use]
    pub fn is_of(&self, key: &[u8]) -> bool {
        self.bytes.get(self.key.clone()) == Some(key)
    }

    /// Whether the entry belongs under this name.
    #[must_use]
    pub fn is_under(&self, name: &[u8]) -> bool {
        self.bytes.get(self.key.clone()).is_some_and(|key| Key::digest(key).as_bytes() == name)
    }

    /// The full key.
    #[must_use]
    pub fn key(&self) -> Vec<u8> {
        self.bytes[self.key.clone()].to_vec()
    }

    /// The encoded metadata.
    #[must_use]
    pub fn metadata(&self) -> Vec<u8> {
        self.bytes[self.metadata.clone()].to_vec()
    }

    /// A number: how long the encoded metadata is (0), where in the entry the payload starts (1), how long
    /// the whole entry is (2), in bytes; when it was made, in milliseconds since 1970 UTC (3), and how long
    /// that took, in milliseconds (4).
    #[must_use]
    pub fn number(&self, which: u32) -> f64 {
        match which {
            0 => self.metadata.len() as f64,
            1 => self.payload.start as f64,
            2 => self.payload.end as f64,
            3 => self.provenance.created_unix_ms as f64,
            _ => self.provenance.build_nanos as f64 / 1e6,
        }
    }
}

impl Reader {
    fn take(&mut self, bytes: Vec<u8>, layout: Result<Layout, Reason>) -> u32 {
        self.bytes = bytes;
        // What was refused has no parts that could be asked for.
        (self.key, self.metadata, self.payload) = (0..0, 0..0, 0..0);
        match layout {
            Ok(layout) => {
                (self.key, self.metadata, self.payload) = (layout.key(), layout.metadata(), layout.payload());
                self.provenance = layout.provenance();
                0
            }
            Err(reason) => number_of(reason),
        }
    }
}

/// Milliseconds, as JavaScript counts, in the units of an envelope. What is negative or no number is 0.
pub(crate) fn provenance(created_ms: f64, build_ms: f64) -> Provenance {
    Provenance { created_unix_ms: created_ms as u64, build_nanos: (build_ms * 1e6) as u64 }
}

/// What JavaScript gets for a reason; 0 is none.
pub(crate) fn number_of(reason: Reason) -> u32 {
    1 + reason.index() as u32
}

/// What was encoded, or one byte that says why not. No envelope and no head is as short.
pub(crate) fn or_number(encoded: Result<Vec<u8>, Reason>) -> Vec<u8> {
    encoded.unwrap_or_else(|reason| Vec::from([number_of(reason) as u8]))
}

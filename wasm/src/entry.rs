//! Entries: the whole envelope of a small value, or the head of a large one.

use alloc::vec::Vec;
use core::ops::Range;

use wasm_bindgen::prelude::wasm_bindgen;

use warmstart_core::{
    artifact::Provenance,
    envelope::{self, HeadWriter, Layout, Verifier, head_checksum},
    key::Key,
    reason::MissReason,
};

/// The largest payload, in bytes, that is stored in one record with its head. Chromium stores records of more
/// than 64 KiB in files of their own, which takes one more step for each read.
const SMALL: u32 = 48 * 1024;

/// Returns the largest payload of a small value, in bytes.
#[wasm_bindgen]
#[must_use]
pub fn small_limit() -> u32 {
    SMALL
}

/// Encodes a small value. Returns one byte, the number of the reason, if the key or the metadata are too long.
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

/// Returns the checksum of the head of a large value. It is stored beside the head, which is returned before
/// the payload is read.
#[wasm_bindgen]
#[must_use]
pub fn head_sum(head: &[u8]) -> u32 {
    head_checksum(head)
}

/// Reads entries, one after the other. Its accessors describe the last one.
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
    /// Creates a reader without an entry.
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

    /// Reads the envelope of a small value, and verifies every byte. Returns the number of the reason, or 0.
    pub fn small(&mut self, envelope: Vec<u8>) -> u32 {
        let layout = envelope::verify(&envelope, None);
        self.take(envelope, layout)
    }

    /// Reads the head of a large value, given its checksum and the length of the payload in bytes. Verifies the
    /// head, but not the payload. Returns the number of the reason, or 0.
    pub fn large(&mut self, head: Vec<u8>, sum: u32, payload_len: f64) -> u32 {
        let layout = if head_checksum(&head) == sum {
            Verifier::new(&head, payload_len as u64).map(|(_, layout)| layout)
        } else {
            Err(MissReason::ChecksumMismatch)
        };
        self.take(head, layout)
    }

    /// Returns whether the entry has this key.
    #[must_use]
    pub fn is_of(&self, key: &[u8]) -> bool {
        self.bytes.get(self.key.clone()) == Some(key)
    }

    /// Returns whether the entry has this name.
    #[must_use]
    pub fn is_under(&self, name: &[u8]) -> bool {
        self.bytes.get(self.key.clone()).is_some_and(|key| Key::digest(key).as_bytes() == name)
    }

    /// Returns the full key.
    #[must_use]
    pub fn key(&self) -> Vec<u8> {
        self.bytes[self.key.clone()].to_vec()
    }

    /// Returns the encoded metadata.
    #[must_use]
    pub fn metadata(&self) -> Vec<u8> {
        self.bytes[self.metadata.clone()].to_vec()
    }

    /// Returns a number of the entry: the length of the encoded metadata (0), the offset of the payload (1), the
    /// length of the whole entry (2), in bytes; the time of creation, in milliseconds since 1970 UTC (3); and the
    /// build time, in milliseconds (4).
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
    fn take(&mut self, bytes: Vec<u8>, layout: Result<Layout, MissReason>) -> u32 {
        self.bytes = bytes;
        // A refused entry has no parts.
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

/// Converts JavaScript's milliseconds to the units of an envelope. Negative values and NaN become 0.
pub(crate) fn provenance(created_ms: f64, build_ms: f64) -> Provenance {
    Provenance { created_unix_ms: created_ms as u64, build_nanos: (build_ms * 1e6) as u64 }
}

/// Returns the number of a reason for JavaScript; 0 for none.
pub(crate) fn number_of(reason: MissReason) -> u32 {
    1 + reason.index() as u32
}

/// Returns the encoded bytes, or one byte with the reason. Envelopes and heads are longer than one byte.
pub(crate) fn or_number(encoded: Result<Vec<u8>, MissReason>) -> Vec<u8> {
    encoded.unwrap_or_else(|reason| Vec::from([number_of(reason) as u8]))
}

//! Entries: the whole envelope of a small value, or the head of a large one.

use alloc::{string::String, vec::Vec};
use core::ops::Range;

use wasm_bindgen::{JsValue, prelude::wasm_bindgen};

use warmstart_core::{
    artifact::Provenance,
    envelope::{self, HeadWriter, Layout, Verifier, head_checksum},
    key::Key,
    reason::Reason,
};

/// Payloads of at most so many bytes are kept whole, in one record with their head. Chromium keeps records of more than 64 KiB
/// in files of their own, one more step for each read.
const SMALL: u32 = 48 * 1024;

/// The most payload bytes that a small value has.
#[wasm_bindgen]
#[must_use]
pub fn small_limit() -> u32 {
    SMALL
}

/// Encodes a small value.
///
/// # Errors
/// Throws the name of a reason if key and metadata are too long.
#[wasm_bindgen]
pub fn encode_small(
    key: &[u8],
    metadata: &[u8],
    payload: &[u8],
    created_ms: f64,
    build_ms: f64,
) -> Result<Vec<u8>, JsValue> {
    let provenance = provenance(created_ms, build_ms);
    let mut writer = HeadWriter::new(key, metadata, payload.len() as u64, provenance).map_err(thrown)?;
    writer.update(payload);
    let mut envelope = writer.finish().map_err(thrown)?;
    envelope.extend_from_slice(payload);
    Ok(envelope)
}

/// The checksum of the head of a large value, which is stored beside it: the head is handed out before the payload is read.
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

    /// Reads the envelope of a small value. Says what is wrong, or nothing: every byte is proved.
    pub fn small(&mut self, envelope: Vec<u8>) -> Option<String> {
        let layout = envelope::verify(&envelope);
        self.take(envelope, layout)
    }

    /// Reads the head of a large value, given its checksum and the length of the payload in bytes. Says what is wrong, or nothing: the
    /// head is proved, and the payload is not.
    pub fn large(&mut self, head: Vec<u8>, sum: u32, payload_len: f64) -> Option<String> {
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

    /// How long the encoded metadata is in bytes; often nothing, and then it need not be asked for.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn metadata_len(&self) -> u32 {
        self.metadata.len() as u32
    }

    /// Where in the entry the payload starts, in bytes.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn payload_start(&self) -> f64 {
        self.payload.start as f64
    }

    /// The length of the whole entry in bytes.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn size(&self) -> f64 {
        self.payload.end as f64
    }

    /// When it was made, in milliseconds since 1970 UTC.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn created_ms(&self) -> f64 {
        self.provenance.created_unix_ms as f64
    }

    /// How long making it took, in milliseconds.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn build_ms(&self) -> f64 {
        self.provenance.build_nanos as f64 / 1e6
    }
}

impl Reader {
    fn take(&mut self, bytes: Vec<u8>, layout: Result<Layout, Reason>) -> Option<String> {
        self.bytes = bytes;
        // What was refused has no parts that could be asked for.
        (self.key, self.metadata, self.payload) = (0..0, 0..0, 0..0);
        match layout {
            Ok(layout) => {
                (self.key, self.metadata, self.payload) = (layout.key(), layout.metadata(), layout.payload());
                self.provenance = layout.provenance();
                None
            }
            Err(reason) => Some(reason.as_str().into()),
        }
    }
}

/// Milliseconds, as JavaScript counts, in the units of an envelope. What is negative or no number is 0.
pub(crate) fn provenance(created_ms: f64, build_ms: f64) -> Provenance {
    Provenance { created_unix_ms: created_ms as u64, build_nanos: (build_ms * 1e6) as u64 }
}

pub(crate) fn thrown(reason: Reason) -> JsValue {
    JsValue::from_str(reason.as_str())
}

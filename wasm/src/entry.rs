//! Entries: the whole envelope of a small value, or the head of a large one.

use alloc::{boxed::Box, vec, vec::Vec};

use wasm_bindgen::prelude::wasm_bindgen;

use warmstart_core::{
    artifact::Provenance,
    envelope::{self, HeadWriter, Verifier, head_checksum},
    reason::MissReason,
};

/// Returns the checksum of the head of a large value. It is stored beside the head, which is returned before
/// the payload is read.
#[wasm_bindgen]
#[must_use]
pub fn head_sum(head: &[u8]) -> u32 {
    head_checksum(head)
}

/// Verifies the head of a large value, given its checksum and the length of the payload in bytes, but not the payload.
/// Returns the number of the reason, or 0.
#[wasm_bindgen]
#[must_use]
pub fn verify_head(head: &[u8], sum: u32, payload_len: f64) -> u32 {
    if head_checksum(head) != sum {
        return number_of(MissReason::ChecksumMismatch);
    }
    Verifier::new(head, payload_len as u64).map_or_else(number_of, |_| 0)
}

/// The longest envelope that fits into the window, in bytes.
const WINDOW: usize = 64 * 1024;

/// Encodes and verifies whole envelopes in a window that JavaScript copies into and out of: one call for each.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Envelope {
    window: Box<[u8]>,
}

#[wasm_bindgen]
impl Envelope {
    /// Creates a window of 64 KiB.
    #[wasm_bindgen(constructor)]
    #[must_use]
    #[expect(clippy::new_without_default, reason = "JavaScript has constructors")]
    pub fn new() -> Self {
        Self { window: vec![0; WINDOW].into_boxed_slice() }
    }

    /// Returns the address of the window.
    #[must_use]
    pub fn window(&self) -> *const u8 {
        self.window.as_ptr()
    }

    /// Encodes the value whose key, metadata and payload are at the beginning of the window, one behind the other, and puts
    /// the envelope in their place. Returns its length; or the number of the reason, negative, if they are too long.
    pub fn encode(
        &mut self,
        key: usize,
        metadata: usize,
        payload: usize,
        created_ms: f64,
        build_ms: f64,
    ) -> i32 {
        let provenance = provenance(created_ms, build_ms);
        self.encoded(key, metadata, payload, provenance)
            .map_or_else(|reason| -(number_of(reason) as i32), |len| len as i32)
    }

    fn encoded(
        &mut self,
        key: usize,
        metadata: usize,
        payload: usize,
        provenance: Provenance,
    ) -> Result<usize, MissReason> {
        let (keys, rest) = self.window.split_at_checked(key).ok_or(MissReason::TooLong)?;
        let (metadata, rest) = rest.split_at_checked(metadata).ok_or(MissReason::TooLong)?;
        let mut writer = HeadWriter::new(keys, metadata, payload as u64, provenance)?;
        writer.update(rest.get(..payload).ok_or(MissReason::TooLong)?);
        let (begin, head) = (WINDOW - rest.len(), writer.finish()?);
        let envelope = self.window.get_mut(..head.len() + payload).ok_or(MissReason::TooLong)?;
        envelope.copy_within(begin..begin + payload, head.len());
        envelope[..head.len()].copy_from_slice(&head);
        Ok(envelope.len())
    }

    /// Verifies every byte of the envelope at the beginning of the window. Returns the number of the reason, or 0.
    #[must_use]
    pub fn verify(&self, len: usize) -> u32 {
        let envelope = self.window.get(..len).ok_or(MissReason::Malformed);
        envelope.and_then(|envelope| envelope::verify(envelope, None)).map_or_else(number_of, |_| 0)
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

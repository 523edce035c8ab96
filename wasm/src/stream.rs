//! Large values, whose payloads arrive in pieces and stay in JavaScript.

use alloc::{boxed::Box, vec, vec::Vec};

use wasm_bindgen::prelude::wasm_bindgen;

use warmstart_core::{
    envelope::{self, Layout, Verifier},
    reason::MissReason,
};

use crate::entry::{number_of, or_number, provenance};

/// The number of bytes that are copied and hashed at a time: they fit into the processor's caches with the
/// state of the hash.
const WINDOW: usize = 32 * 1024;

/// Returns the size of a window, in bytes.
#[wasm_bindgen]
#[must_use]
pub fn window_len() -> usize {
    WINDOW
}

/// Makes the head of a large value: pass all bytes of the payload through the window in order, then call
/// `finish`.
#[wasm_bindgen]
#[derive(Debug)]
pub struct HeadWriter {
    writer: Result<envelope::HeadWriter, MissReason>,
    window: Box<[u8]>,
}

/// Verifies a large value: pass all bytes of the payload through the window in order, then call `finish`.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Check {
    verifier: Result<Verifier, MissReason>,
    window: Box<[u8]>,
}

#[wasm_bindgen]
impl HeadWriter {
    /// Creates a writer for a payload of `payload_len` bytes.
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new(key: &[u8], metadata: &[u8], payload_len: f64, created_ms: f64, build_ms: f64) -> Self {
        let provenance = provenance(created_ms, build_ms);
        let writer = envelope::HeadWriter::new(key, metadata, payload_len as u64, provenance);
        Self { writer, window: window() }
    }

    /// Returns the address of the window.
    #[must_use]
    pub fn window(&self) -> *const u8 {
        self.window.as_ptr()
    }

    /// Consumes the first bytes of the window as the next of the payload.
    pub fn update(&mut self, len: usize) {
        if let (Ok(writer), Some(piece)) = (&mut self.writer, self.window.get(..len)) {
            writer.update(piece);
        }
    }

    /// Returns the head; or one byte, the number of the reason, if the key or the metadata are too long, or if
    /// there were more or fewer bytes than announced.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        or_number(self.writer.and_then(envelope::HeadWriter::finish))
    }
}

#[wasm_bindgen]
impl Check {
    /// Creates a check of the value with this head.
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new(head: &[u8]) -> Self {
        let verifier = Layout::payload_len(head).and_then(|len| Verifier::new(head, len));
        Self { verifier: verifier.map(|(verifier, _)| verifier), window: window() }
    }

    /// Returns the address of the window.
    #[must_use]
    pub fn window(&self) -> *const u8 {
        self.window.as_ptr()
    }

    /// Consumes the first bytes of the window as the next of the payload.
    pub fn update(&mut self, len: usize) {
        if let (Ok(verifier), Some(piece)) = (&mut self.verifier, self.window.get(..len)) {
            verifier.update(piece);
        }
    }

    /// Returns the number of the reason, or 0 if the value is intact.
    #[must_use]
    pub fn finish(self) -> u32 {
        self.verifier.and_then(Verifier::finish).map_or_else(number_of, |()| 0)
    }
}

fn window() -> Box<[u8]> {
    vec![0; WINDOW].into_boxed_slice()
}

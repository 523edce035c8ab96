//! Large values, whose payloads pass by in pieces and stay in JavaScript.

use alloc::{boxed::Box, vec, vec::Vec};

use wasm_bindgen::prelude::wasm_bindgen;

use warmstart_core::{
    envelope::{self, Layout, Verifier},
    reason::Reason,
};

use crate::entry::{number_of, or_number, provenance};

/// So many bytes are copied at once to be hashed: what fits into the fast caches beside the hash's own.
const WINDOW: usize = 32 * 1024;

/// How many bytes a window has.
#[wasm_bindgen]
#[must_use]
pub fn window_len() -> usize {
    WINDOW
}

/// Makes the head of a large value: every byte of the payload goes through the window in their order, then
/// `finish`.
#[wasm_bindgen]
#[derive(Debug)]
pub struct HeadWriter {
    writer: Result<envelope::HeadWriter, Reason>,
    window: Box<[u8]>,
}

/// Proves a large value: every byte of the payload goes through the window in their order, then `finish`.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Check {
    verifier: Result<Verifier, Reason>,
    window: Box<[u8]>,
}

#[wasm_bindgen]
impl HeadWriter {
    /// Of a payload of `payload_len` bytes.
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new(key: &[u8], metadata: &[u8], payload_len: f64, created_ms: f64, build_ms: f64) -> Self {
        let provenance = provenance(created_ms, build_ms);
        let writer = envelope::HeadWriter::new(key, metadata, payload_len as u64, provenance);
        Self { writer, window: window() }
    }

    /// Where in memory the window is.
    #[must_use]
    pub fn window(&self) -> *const u8 {
        self.window.as_ptr()
    }

    /// The next bytes of the payload are the first of the window.
    pub fn update(&mut self, len: usize) {
        if let (Ok(writer), Some(piece)) = (&mut self.writer, self.window.get(..len)) {
            writer.update(piece);
        }
    }

    /// The head; or one byte, which is the number of the reason why there is none: too long a key or
    /// metadata, or more or fewer bytes than were announced.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        or_number(self.writer.and_then(envelope::HeadWriter::finish))
    }
}

#[wasm_bindgen]
impl Check {
    /// Of the value with this head.
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new(head: &[u8]) -> Self {
        let verifier = Layout::payload_len(head).and_then(|len| Verifier::new(head, len));
        Self { verifier: verifier.map(|(verifier, _)| verifier), window: window() }
    }

    /// Where in memory the window is.
    #[must_use]
    pub fn window(&self) -> *const u8 {
        self.window.as_ptr()
    }

    /// The next bytes of the payload are the first of the window.
    pub fn update(&mut self, len: usize) {
        if let (Ok(verifier), Some(piece)) = (&mut self.verifier, self.window.get(..len)) {
            verifier.update(piece);
        }
    }

    /// The number of what is wrong, or 0.
    #[must_use]
    pub fn finish(self) -> u32 {
        self.verifier.and_then(Verifier::finish).map_or_else(number_of, |()| 0)
    }
}

fn window() -> Box<[u8]> {
    vec![0; WINDOW].into_boxed_slice()
}

//! Large values, whose payloads pass by in pieces and stay in JavaScript.

use alloc::{boxed::Box, vec, vec::Vec};

use js_sys::Uint8Array;
use wasm_bindgen::{JsValue, prelude::wasm_bindgen};

use warmstart_core::{
    envelope::{self, Layout, Verifier},
    reason::Reason,
};

use crate::entry::{number_of, provenance, thrown};

/// So many bytes are copied at once to be hashed: what fits into the fast caches beside the hash's own.
const WINDOW: usize = 32 * 1024;

/// Makes the head of a large value: `update` with every byte of the payload in their order, then `finish`.
#[wasm_bindgen]
#[derive(Debug)]
pub struct HeadWriter {
    writer: envelope::HeadWriter,
    window: Box<[u8]>,
}

/// Proves a large value: `update` with every byte of the payload in their order, then `finish`.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Check {
    verifier: Result<Verifier, Reason>,
    window: Box<[u8]>,
}

#[wasm_bindgen]
impl HeadWriter {
    /// Of a payload of `payload_len` bytes.
    ///
    /// # Errors
    /// Throws the number of a reason if key and metadata are too long.
    #[wasm_bindgen(constructor)]
    pub fn new(
        key: &[u8],
        metadata: &[u8],
        payload_len: f64,
        created_ms: f64,
        build_ms: f64,
    ) -> Result<Self, JsValue> {
        let provenance = provenance(created_ms, build_ms);
        let writer =
            envelope::HeadWriter::new(key, metadata, payload_len as u64, provenance).map_err(thrown)?;
        Ok(Self { writer, window: window() })
    }

    /// The next bytes of the payload.
    pub fn update(&mut self, chunk: &Uint8Array) {
        let Self { writer, window } = self;
        pass(chunk, window, |piece| writer.update(piece));
    }

    /// The head.
    ///
    /// # Errors
    /// Throws the number of a reason if more or fewer bytes came than were announced.
    pub fn finish(self) -> Result<Vec<u8>, JsValue> {
        self.writer.finish().map_err(thrown)
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

    /// The next bytes of the payload.
    pub fn update(&mut self, chunk: &Uint8Array) {
        if let Ok(verifier) = &mut self.verifier {
            pass(chunk, &mut self.window, |piece| verifier.update(piece));
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

/// Copies the chunk through the window.
fn pass(chunk: &Uint8Array, window: &mut [u8], mut piece: impl FnMut(&[u8])) {
    let mut at = 0;
    while at < chunk.length() {
        let end = chunk.length().min(at + WINDOW as u32);
        let part = &mut window[..(end - at) as usize];
        chunk.subarray(at, end).copy_to(part);
        piece(part);
        at = end;
    }
}

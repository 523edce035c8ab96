//! Reasons, as JavaScript reads them.

use alloc::string::String;

use wasm_bindgen::prelude::wasm_bindgen;

use warmstart_core::reason::Reason;

/// The name of the reason with this number, or the sentence about it for people; nothing if there is no such
/// number.
#[wasm_bindgen]
#[must_use]
pub fn reason(number: u32, is_sentence: bool) -> Option<String> {
    let reason = Reason::ALL.get((number as usize).checked_sub(1)?)?;
    Some(if is_sentence { reason.explanation() } else { reason.as_str() }.into())
}

//! Reasons for JavaScript.

use alloc::string::String;

use wasm_bindgen::prelude::wasm_bindgen;

use warmstart_core::reason::MissReason;

/// Returns the name of the reason with this number, or its sentence for people; nothing for an unknown number.
#[wasm_bindgen]
#[must_use]
pub fn reason(number: u32, is_sentence: bool) -> Option<String> {
    let reason = MissReason::ALL.get((number as usize).checked_sub(1)?)?;
    Some(if is_sentence { reason.explanation() } else { reason.as_str() }.into())
}

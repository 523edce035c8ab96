//! The digest of a model's weights.

use std::{
    ffi::{c_char, c_void},
    slice,
};

use native::pack::ModelId;

use crate::status::{Failure, call, place, text, ws_status};

/// Data that a model is packed from, and their name.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ws_weight {
    /// The name, in UTF-8.
    pub name: *const c_char,
    /// The data before they are packed.
    pub data: *const c_void,
    /// How many bytes they are.
    pub len: usize,
}

/// The digest of `count` weights, in any order: WS_DIGEST_LEN bytes that go to `digest`. Give all that a model is packed from:
/// weights, biases, and scales where weights are quantised. All of it is read, at about 1 GB a second: a digest that is at hand,
/// such as that of the model's file, is the better choice. Any NULL is WS_INVALID_ARGUMENT, but that of no weights, or of data
/// of length 0.
///
/// # Safety
/// As the header says: pointers are NULL or to what they are declared to be to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_model_digest(
    weights: *const ws_weight,
    count: usize,
    digest: *mut u8,
) -> ws_status {
    call(|| {
        let into = place(digest, "digest")?;
        // SAFETY: as the caller promises, there are so many.
        let weights = unsafe { items(weights, count, "weights") }?;
        let named = |weight: &ws_weight| {
            // SAFETY: as the caller promises, the name is text, and the data are so long.
            unsafe {
                let name = text(weight.name, "the name of a weight")?;
                Ok((name, items(weight.data.cast::<u8>(), weight.len, name)?))
            }
        };
        let weights: Vec<(&str, &[u8])> = weights.iter().map(named).collect::<Result<_, Failure>>()?;
        let model = ModelId::of_weights(weights);
        // SAFETY: as the caller promises, there is room for a digest.
        unsafe { into.cast::<[u8; ModelId::LEN]>().write_unaligned(*model.as_bytes()) };
        Ok(())
    })
}

/// So many items at a pointer, which may be null if there are none.
///
/// # Safety
/// The pointer is null, or to so many items that are there, unchanged, for `'a`.
unsafe fn items<'a, T>(pointer: *const T, count: usize, what: &str) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(Failure::invalid(format!("{what} is NULL, and not of length 0")));
    }
    // SAFETY: as the caller promises.
    Ok(unsafe { slice::from_raw_parts(pointer, count) })
}

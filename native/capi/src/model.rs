//! The digest of a model: of its file, or of its weights.

use std::{
    ffi::{c_char, c_void},
    slice,
};

use native::pack::{ModelId, model_of_file};

use crate::{
    pack::{file_name, ws_pack},
    status::{Failure, call, place, text, ws_status},
};

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

/// Digests the file that a model is in, such as a .safetensors, .gguf or .pte file: WS_DIGEST_LEN bytes go to `digest`, BLAKE2b-256
/// of the file, as `b2sum -l 256` prints it. On Windows the path is in UTF-8.
///
/// The digest is remembered beside the pack, in a file with `.models` behind the pack's name, so that the next start does not read
/// the model's file. That is so as long as the model's file is the same file, of the same length, whose times of modification and
/// of change are the same, on a local file system that can be written to, and once it has been left alone for two seconds and one more
/// for each 4 MiB. Elsewhere, as on network file systems, on overlayfs and on Windows, and where `pack` is NULL or in
/// memory, all of the file is read each time, at about 1 GB a second; so it is where the pack is read-only and the digest is not
/// remembered yet. Replace a model's file by renaming another one into its
/// place. Do not use this where a program writes to it through a mapping, or where the clock of the machine is set back.
///
/// Fails with WS_INVALID_ARGUMENT, or with WS_IO if the file cannot be read.
///
/// # Safety
/// As the header says: pointers are NULL or to what they are declared to be to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_model_digest_file(
    pack: *const ws_pack,
    path: *const c_char,
    digest: *mut u8,
) -> ws_status {
    call(|| {
        let into = place(digest, "digest")?;
        // SAFETY: as the caller promises.
        let (pack, path) = unsafe { (pack.as_ref(), file_name(path)?) };
        let model = match pack {
            Some(pack) => pack.pack.model_of_file(path),
            None => model_of_file(path),
        };
        let model = model.map_err(|error| {
            Failure::new(
                ws_status::WS_IO,
                format!("cannot read the model {}: {error}; name the model's file", path.display()),
            )
        })?;
        // SAFETY: as the caller promises, there is room for a digest.
        unsafe { into.cast::<[u8; ModelId::LEN]>().write_unaligned(*model.as_bytes()) };
        Ok(())
    })
}

/// The digest of `count` weights, in any order: WS_DIGEST_LEN bytes that go to `digest`. Give all that a model is packed from:
/// weights, biases, and scales where weights are quantised. All of it is read, at about 1 GB a second, at each start:
/// ws_model_digest_file is the better choice where the model is in a file. Any NULL is WS_INVALID_ARGUMENT, but that of no weights, or of data
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

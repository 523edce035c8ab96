//! Digests of models: of the model's file, or of its weights.

use std::{
    ffi::{c_char, c_void},
    slice,
};

use native::pack::{ModelId, model_of_file, model_of_weights};

use crate::{
    pack::{file_name, ws_pack},
    status::{Failure, call, place, text, ws_status},
};

/// A named piece of the data that a model is packed from.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ws_weight {
    /// The name, in UTF-8.
    pub name: *const c_char,
    /// The unpacked data.
    pub data: *const c_void,
    /// The length of the data, in bytes.
    pub len: usize,
}

/// Writes the digest of a model's file, such as a .safetensors, .gguf or .pte file, to `digest`: WS_DIGEST_LEN bytes, the BLAKE2b-256
/// of the file, as `b2sum -l 256` prints it. On Windows the path is UTF-8.
///
/// The digest is stored beside the pack, in a file named after it with `.models` appended, so that the next start does not read the
/// model's file. It is used while the model's file is the same file with the same length, modification time and change time, on a
/// writable local file system, and only after the file was not changed for two seconds and one more for each 4 MiB. Otherwise the
/// whole file is read each time, at about 1 GB a second: on network file systems, on overlayfs, on Windows, if `pack` is NULL or in
/// memory, and if the pack is read-only and no digest is stored yet. Replace a model's file by renaming another one to its name. Do not
/// use this if a program writes to the file through a mapping, or if the machine's clock is set back.
///
/// Fails with WS_INVALID_ARGUMENT, or with WS_IO if the file cannot be read.
///
/// # Safety
/// As the header says: each pointer is NULL, or points to what its type declares.
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

/// Writes the digest of `count` weights, in any order, to `digest`: WS_DIGEST_LEN bytes. Pass all data that the model is packed from:
/// weights, biases, and the scales of quantised weights. All data are read at each start, at about 1 GB a second:
/// ws_model_digest_file is the better choice if the model is in a file. Returns WS_INVALID_ARGUMENT for any NULL, except for no weights
/// and for data of length 0.
///
/// # Safety
/// As the header says: each pointer is NULL, or points to what its type declares.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_model_digest(
    weights: *const ws_weight,
    count: usize,
    digest: *mut u8,
) -> ws_status {
    call(|| {
        let into = place(digest, "digest")?;
        // SAFETY: as the caller promises, there are `count` weights.
        let weights = unsafe { items(weights, count, "weights") }?;
        let named = |weight: &ws_weight| {
            // SAFETY: as the caller promises, the name is text, and the data are so long.
            unsafe {
                let name = text(weight.name, "the name of a weight")?;
                Ok((name, items(weight.data.cast::<u8>(), weight.len, name)?))
            }
        };
        let weights: Vec<(&str, &[u8])> = weights.iter().map(named).collect::<Result<_, Failure>>()?;
        let model = model_of_weights(weights);
        // SAFETY: as the caller promises, there is room for a digest.
        unsafe { into.cast::<[u8; ModelId::LEN]>().write_unaligned(*model.as_bytes()) };
        Ok(())
    })
}

/// Returns `count` items at a pointer, which may be null if there are none.
///
/// # Safety
/// The pointer is null, or points to `count` items that stay unchanged for `'a`.
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

//! XNNPACK's weights cache.

use std::{
    ffi::{c_char, c_void},
    ptr, slice,
};

use native::{
    Reason,
    pack::ModelId,
    target::xnnpack::{Abi, Provider, WeightsCacheProvider, abi::Fingerprint},
};

use crate::{
    pack::{save, ws_pack},
    sized::fill,
    status::{Failure, answer, call, object, place, text, ws_status},
};

/// The XNNPACK that asks is of November 2024 or older: its xnn_weights_cache_look_up_key has no fingerprint_id.
pub const WS_ABI_2024: u32 = 2024;
/// The XNNPACK that asks is newer: its xnn_weights_cache_look_up_key has a fingerprint_id.
pub const WS_ABI_2025: u32 = 2025;

/// The length of a model's digest, in bytes.
pub const WS_DIGEST_LEN: usize = 32;

/// XNNPACK's weights cache, over a pack.
#[derive(Debug)]
pub struct ws_provider {
    provider: Provider,
}

/// xnn_get_fingerprint, or something that answers as it does: NULL, or a fingerprint that stays.
pub type ws_fingerprint_fn = Option<unsafe extern "C" fn(id: u32) -> *const Fingerprint>;

/// What XNNPACK asked of a provider since it was created, and what it got. Set `size` before it is filled.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ws_provider_counts {
    /// sizeof(ws_provider_counts). No more is filled.
    pub size: usize,
    /// Look-ups that found what they wanted: weights that XNNPACK did not pack.
    pub hits: u64,
    /// Look-ups that did not.
    pub misses: u64,
    /// Of these: nothing is stored under the name.
    pub misses_absent: u64,
    /// Of these: nobody said which weight or bias it is.
    pub misses_unnamed: u64,
    /// Of these: stored as another model's.
    pub misses_other_model: u64,
    /// Of these: packed for another micro-kernel.
    pub misses_other_seed: u64,
    /// Of these: packed by another algorithm.
    pub misses_other_fingerprint: u64,
    /// Of these: nothing tells which algorithm packs it, so that it is not kept.
    pub misses_uncacheable: u64,
    /// Spaces that XNNPACK got to pack into.
    pub reservations: u64,
    /// Bytes of them.
    pub reserved_bytes: u64,
    /// Weights that XNNPACK packed and that can be found from then on.
    pub packed: u64,
    /// Bytes of them.
    pub packed_bytes: u64,
    /// Weights that XNNPACK packed and that go when the provider goes.
    pub unnamed: u64,
    /// Bytes of them.
    pub unnamed_bytes: u64,
    /// Calls that could not be done: no memory, or not as XNNPACK calls.
    pub refused: u64,
    /// Of the misses: stored, and nothing says of which model. See ws_pack_counts.
    pub misses_unverified_model: u64,
}

/// Creates a weights cache over a pack, which may be closed after that. `abi` is WS_ABI_2024 or WS_ABI_2025, and must be that of
/// the XNNPACK that it is handed to.
///
/// `model` is a digest of WS_DIGEST_LEN bytes of all that the model is packed from: only what was packed of the same model is
/// found. A model that is changed, and keeps its digest and its names, gets the old weights. NULL is WS_INVALID_ARGUMENT.
///
/// `fingerprints` is XNNPACK's own xnn_get_fingerprint, or NULL: with it, what another version of a packing algorithm made is
/// not found, and what no fingerprint vouches for is not kept.
///
/// On success `*provider` is the provider, which ws_provider_destroy destroys; else it is NULL. Fails with WS_INVALID_ARGUMENT.
/// One provider is for one runtime at a time: create one for each that is alive. They share the pack.
///
/// # Safety
/// As the header says: pointers are NULL or to what they are declared to be to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_provider_create(
    pack: *const ws_pack,
    abi: u32,
    model: *const u8,
    fingerprints: ws_fingerprint_fn,
    provider: *mut *mut ws_provider,
) -> ws_status {
    call(|| {
        let into = place(provider, "provider")?;
        // SAFETY: the place is one for a pointer.
        unsafe { into.write(ptr::null_mut()) };
        // SAFETY: as the caller promises.
        let pack = unsafe { object(pack, "pack") }?;
        let abi = match abi {
            WS_ABI_2024 => Abi::V2024,
            WS_ABI_2025 => Abi::V2025,
            other => {
                return Err(Failure::invalid(format!(
                    "there is no ABI {other}: say WS_ABI_2024 or WS_ABI_2025"
                )));
            }
        };
        if model.is_null() {
            return Err(Failure::invalid(
                "model is NULL: give what ws_model_digest_file makes of the model's file, or ws_model_digest of its weights",
            ));
        }
        let mut digest = [0; WS_DIGEST_LEN];
        // SAFETY: as the caller promises, it is a digest, and so long.
        digest.copy_from_slice(unsafe { slice::from_raw_parts(model, WS_DIGEST_LEN) });
        let mut provider = Provider::new(pack.pack.clone(), abi, ModelId::from_bytes(digest));
        if let Some(fingerprints) = fingerprints {
            // SAFETY: as the caller promises, it answers as XNNPACK's does.
            provider = unsafe { provider.with_fingerprints(fingerprints) };
        }
        // SAFETY: the place is one for a pointer.
        unsafe { into.write(Box::into_raw(Box::new(ws_provider { provider }))) };
        Ok(())
    })
}

/// What XNNPACK is handed as its xnn_weights_cache_t: to xnn_create_runtime_v4, or when an operator is created. NULL for NULL,
/// with which XNNPACK works without a cache.
///
/// It must live as long as the runtimes and operators that it was handed to. Never give it to xnn_finalize_weights_cache or
/// xnn_delete_weights_cache, which are for XNNPACK's own.
///
/// # Safety
/// The pointer is NULL or to a provider.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_provider_as_xnnpack(provider: *const ws_provider) -> *mut WeightsCacheProvider {
    // SAFETY: as the caller promises.
    answer(ptr::null_mut(), || Ok(unsafe { object(provider, "provider") }?.provider.as_ptr()))
}

/// Says that the weight, or bias, at this address, as XNNPACK is given it, has this name in the model. XNNPACK knows weights by
/// their address alone, so this must be right: it holds until ws_provider_finalize or ws_provider_begin, and if the data go before that,
/// say ws_provider_forget. What has no name is packed into the heap. Any NULL is WS_INVALID_ARGUMENT.
///
/// # Safety
/// The pointers are NULL, or to a provider, any data, and text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_provider_register(
    provider: *const ws_provider,
    data: *const c_void,
    name: *const c_char,
) -> ws_status {
    call(|| {
        // SAFETY: as the caller promises.
        let (provider, name) = unsafe { (object(provider, "provider")?, text(name, "name")?) };
        if data.is_null() {
            return Err(Failure::invalid(format!("the data of \"{name}\" is NULL")));
        }
        provider.provider.register(data, name);
        Ok(())
    })
}

/// Forgets what lies at this address, before it is used for something else. NULL data are at no address; a NULL provider is
/// WS_INVALID_ARGUMENT.
///
/// # Safety
/// The provider is NULL or one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_provider_forget(provider: *const ws_provider, data: *const c_void) -> ws_status {
    call(|| {
        // SAFETY: as the caller promises.
        unsafe { object(provider, "provider") }?.provider.forget(data);
        Ok(())
    })
}

/// Begins anew, before another runtime is created with the same provider: forgets all names, so register after this, and finds
/// from now on what other processes saved. A provider that was just created has begun. NULL is WS_INVALID_ARGUMENT.
///
/// # Safety
/// The provider is NULL or one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_provider_begin(provider: *const ws_provider) -> ws_status {
    call(|| {
        // SAFETY: as the caller promises.
        unsafe { object(provider, "provider") }?.provider.begin();
        Ok(())
    })
}

/// Ends packing: call it after the runtime was created and before it is set up, which XNNPACK refuses until then. Forgets all
/// names: the unpacked weights may be freed now. Begins to write what was packed to the medium, and does not wait. NULL is
/// WS_INVALID_ARGUMENT.
///
/// # Safety
/// The provider is NULL or one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_provider_finalize(provider: *const ws_provider) -> ws_status {
    call(|| {
        // SAFETY: as the caller promises.
        unsafe { object(provider, "provider") }?.provider.finalize();
        Ok(())
    })
}

/// Saves the pack: see ws_pack_save.
///
/// # Safety
/// The provider is NULL or one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_provider_save(provider: *const ws_provider) -> ws_status {
    // SAFETY: as the caller promises.
    call(|| save(unsafe { object(provider, "provider") }?.provider.pack()))
}

/// What XNNPACK asked, and what it got. Set `counts->size` to sizeof(ws_provider_counts) before. NULL is WS_INVALID_ARGUMENT.
///
/// # Safety
/// The pointers are NULL, or to a provider and to so many bytes as the size says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_provider_statistics(
    provider: *const ws_provider,
    counts: *mut ws_provider_counts,
) -> ws_status {
    call(|| {
        // SAFETY: as the caller promises.
        let statistics = unsafe { object(provider, "provider") }?.provider.statistics();
        let of = |reason| statistics.misses.of(reason);
        let filled = ws_provider_counts {
            size: 0,
            hits: statistics.hits,
            misses: statistics.misses.total(),
            misses_absent: of(Reason::Absent),
            misses_unnamed: of(Reason::Unnamed),
            misses_other_model: of(Reason::OtherModel),
            misses_other_seed: of(Reason::OtherSeed),
            misses_other_fingerprint: of(Reason::OtherFingerprint),
            misses_uncacheable: of(Reason::Uncacheable),
            reservations: statistics.reservations,
            reserved_bytes: statistics.reserved_bytes,
            packed: statistics.packed,
            packed_bytes: statistics.packed_bytes,
            unnamed: statistics.unnamed,
            unnamed_bytes: statistics.unnamed_bytes,
            refused: statistics.refused + statistics.panics,
            misses_unverified_model: of(Reason::UnverifiedModel),
        };
        // SAFETY: as the caller promises.
        unsafe { fill(counts, filled) }
    })
}

/// Destroys a provider, once all runtimes and operators that it was handed to are deleted. NULL does nothing. No other call may be
/// using it, and none may use it again.
///
/// # Safety
/// The pointer is NULL or to a provider.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_provider_destroy(provider: *mut ws_provider) {
    call(|| {
        if !provider.is_null() {
            // SAFETY: as the caller promises, it is one that `ws_provider_create` made, and nobody uses it.
            drop(unsafe { Box::from_raw(provider) });
        }
        Ok(())
    });
}

//! XNNPACK's weights cache.

use std::{
    ffi::{c_char, c_void},
    ptr, slice,
};

use native::{
    MissReason,
    pack::ModelId,
    target::xnnpack::{Abi, Provider, WeightsCacheProvider, abi::Fingerprint},
};

use crate::{
    pack::{save, ws_pack},
    status::{Failure, answer, call, call_on, destroy, fill, object, place, text, ws_status},
};

/// XNNPACK of November 2024 or older: its xnn_weights_cache_look_up_key has no fingerprint_id.
pub const WS_ABI_2024: u32 = 2024;
/// Newer XNNPACK: its xnn_weights_cache_look_up_key has a fingerprint_id.
pub const WS_ABI_2025: u32 = 2025;

/// The length of a model's digest, in bytes.
pub const WS_DIGEST_LEN: usize = 32;

/// A weights cache for XNNPACK that stores in a pack.
#[derive(Debug)]
pub struct ws_provider {
    provider: Provider,
}

/// xnn_get_fingerprint, or a function with the same contract: returns NULL, or a fingerprint that stays valid.
pub type ws_fingerprint_fn = Option<unsafe extern "C" fn(id: u32) -> *const Fingerprint>;

/// Counters of a provider since it was created. Set `size` before the call that fills it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ws_provider_counts {
    /// sizeof(ws_provider_counts), which limits what is filled.
    pub size: usize,
    /// Look-ups that found their weight, which XNNPACK then did not pack.
    pub hits: u64,
    /// Look-ups that did not find it.
    pub misses: u64,
    /// Misses: nothing is stored under the name.
    pub misses_absent: u64,
    /// Misses: the weight or the bias was not registered under a name.
    pub misses_unnamed: u64,
    /// Misses: stored only for another model.
    pub misses_other_model: u64,
    /// Misses: packed for another micro-kernel.
    pub misses_other_seed: u64,
    /// Misses: packed by another algorithm.
    pub misses_other_fingerprint: u64,
    /// Misses: the packing algorithm has no fingerprint, so that the weight is never stored.
    pub misses_uncacheable: u64,
    /// Spaces that XNNPACK reserved to pack into.
    pub reservations: u64,
    /// Bytes of these spaces.
    pub reserved_bytes: u64,
    /// Weights that XNNPACK packed and that can be found from then on.
    pub packed: u64,
    /// Bytes of these weights.
    pub packed_bytes: u64,
    /// Weights without a name that XNNPACK packed: they are dropped with the provider.
    pub unnamed: u64,
    /// Bytes of these weights.
    pub unnamed_bytes: u64,
    /// Calls that failed: out of memory, or with arguments that XNNPACK does not pass.
    pub refused: u64,
    /// Misses: stored without a model. See ws_pack_counts.
    pub misses_unverified_model: u64,
}

/// Creates a weights cache over a pack, which may be closed after that. `abi` is WS_ABI_2024 or WS_ABI_2025, and must match
/// the XNNPACK that uses the cache.
///
/// `model` is a digest, of WS_DIGEST_LEN bytes, of all data that the model is packed from: only weights of the same model are found.
/// A model that changes, but keeps its digest and its names, gets the old weights. NULL is WS_INVALID_ARGUMENT.
///
/// `fingerprints` is XNNPACK's xnn_get_fingerprint, or NULL: with it, weights that another version of a packing algorithm made are
/// not found, and weights whose algorithm has no fingerprint are not stored.
///
/// On success `*provider` is the provider, to be destroyed by ws_provider_destroy; otherwise it is NULL. Fails with
/// WS_INVALID_ARGUMENT. A provider serves one runtime at a time: create one for each live runtime. They share the pack.
///
/// # Safety
/// As the header says: each pointer is NULL, or points to what its type declares.
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
        // SAFETY: `into` is a place for a pointer.
        unsafe { into.write(ptr::null_mut()) };
        // SAFETY: as the caller promises.
        let pack = unsafe { object(pack, "pack") }?;
        let abi = match abi {
            WS_ABI_2024 => Abi::V2024,
            WS_ABI_2025 => Abi::V2025,
            other => {
                return Err(Failure::invalid(format!("the ABI is {other}: pass WS_ABI_2024 or WS_ABI_2025")));
            }
        };
        if model.is_null() {
            return Err(Failure::invalid(
                "model is NULL: pass the digest from ws_model_digest_file or ws_model_digest",
            ));
        }
        let mut digest = [0; WS_DIGEST_LEN];
        // SAFETY: as the caller promises, it points to a digest of that length.
        digest.copy_from_slice(unsafe { slice::from_raw_parts(model, WS_DIGEST_LEN) });
        let mut provider = Provider::new(pack.pack.clone(), abi, ModelId::from_bytes(digest));
        if let Some(fingerprints) = fingerprints {
            // SAFETY: as the caller promises, it answers as XNNPACK's does.
            provider = unsafe { provider.with_fingerprints(fingerprints) };
        }
        // SAFETY: `into` is a place for a pointer.
        unsafe { into.write(Box::into_raw(Box::new(ws_provider { provider }))) };
        Ok(())
    })
}

/// Returns the provider as an xnn_weights_cache_t, for xnn_create_runtime_v4 or for the creation of an operator. Returns NULL for
/// a NULL provider, and XNNPACK then works without a cache.
///
/// The provider must outlive the runtimes and operators that use it. Never pass it to xnn_finalize_weights_cache or
/// xnn_delete_weights_cache, which only take XNNPACK's own caches.
///
/// # Safety
/// The pointer is NULL or to a provider.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_provider_as_xnnpack(provider: *const ws_provider) -> *mut WeightsCacheProvider {
    // SAFETY: as the caller promises.
    answer(ptr::null_mut(), || Ok(unsafe { object(provider, "provider") }?.provider.as_ptr()))
}

/// Names the weight, or the bias, at the address that XNNPACK is given. XNNPACK knows weights only by their addresses, so the name
/// must be right. It holds until ws_provider_finalize or ws_provider_begin; if the data are freed before, call ws_provider_forget.
/// A weight without a name is packed into the heap. Returns WS_INVALID_ARGUMENT for any NULL.
///
/// # Safety
/// The pointers are NULL, or point to a provider, to any data, and to text.
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

/// Forgets the name of this address: call it before the memory is reused. Does nothing for NULL data. Returns WS_INVALID_ARGUMENT
/// for a NULL provider.
///
/// # Safety
/// The pointer is NULL, or points to a provider.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_provider_forget(provider: *const ws_provider, data: *const c_void) -> ws_status {
    // SAFETY: as the caller promises.
    unsafe { call_on(provider, "provider", |provider| provider.provider.forget(data)) }
}

/// Prepares the provider for another runtime: forgets all names, so register after this call, and finds what other processes saved
/// meanwhile. A new provider needs no such call. Returns WS_INVALID_ARGUMENT for NULL.
///
/// # Safety
/// The pointer is NULL, or points to a provider.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_provider_begin(provider: *const ws_provider) -> ws_status {
    // SAFETY: as the caller promises.
    unsafe { call_on(provider, "provider", |provider| provider.provider.begin()) }
}

/// Ends packing: call it after the runtime is created and before it is set up, which XNNPACK refuses until then. Forgets all names,
/// so the unpacked weights may be freed. Starts to write the packed weights to the medium, without waiting. Returns
/// WS_INVALID_ARGUMENT for NULL.
///
/// # Safety
/// The pointer is NULL, or points to a provider.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_provider_finalize(provider: *const ws_provider) -> ws_status {
    // SAFETY: as the caller promises.
    unsafe { call_on(provider, "provider", |provider| provider.provider.finalize()) }
}

/// Saves the pack: see ws_pack_save.
///
/// # Safety
/// The pointer is NULL, or points to a provider.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_provider_save(provider: *const ws_provider) -> ws_status {
    // SAFETY: as the caller promises.
    call(|| save(unsafe { object(provider, "provider") }?.provider.pack()))
}

/// Fills `counts` with the provider's counters. Set `counts->size` to sizeof(ws_provider_counts) before. Returns
/// WS_INVALID_ARGUMENT for NULL.
///
/// # Safety
/// The pointers are NULL, or point to a provider and to as many bytes as the size says.
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
            misses_absent: of(MissReason::Absent),
            misses_unnamed: of(MissReason::Unnamed),
            misses_other_model: of(MissReason::OtherModel),
            misses_other_seed: of(MissReason::OtherSeed),
            misses_other_fingerprint: of(MissReason::OtherFingerprint),
            misses_uncacheable: of(MissReason::Uncacheable),
            reservations: statistics.reservations,
            reserved_bytes: statistics.reserved_bytes,
            packed: statistics.packed,
            packed_bytes: statistics.packed_bytes,
            unnamed: statistics.unnamed,
            unnamed_bytes: statistics.unnamed_bytes,
            refused: statistics.refused + statistics.panics,
            misses_unverified_model: of(MissReason::UnverifiedModel),
        };
        // SAFETY: as the caller promises.
        unsafe { fill(counts, filled) }
    })
}

/// Destroys a provider. Delete all runtimes and operators that use it first. Does nothing for NULL. No other call may use this
/// provider at the same time or later.
///
/// # Safety
/// The pointer is NULL or to a provider.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_provider_destroy(provider: *mut ws_provider) {
    // SAFETY: as the caller promises, it is one that `ws_provider_create` made, and no other call uses it.
    unsafe { destroy(provider) }
}

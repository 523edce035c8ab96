//! The functions that XNNPACK calls: each converts the arguments, asks the cache, and catches panics.

use std::{
    ffi::c_void,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::{self, NonNull},
    sync::atomic::Ordering,
};

use super::{
    abi::{INVALID_PARAMETER, KeyV2024, NOT_FOUND, OUT_OF_MEMORY, SUCCESS, Status, WeightsCacheProvider},
    cache::Cache,
    statistics::add,
};
use crate::pack::Handle;

/// Returns the table of functions for XNNPACK, over a cache that does not move.
pub(super) fn table(cache: *const Cache) -> WeightsCacheProvider {
    WeightsCacheProvider {
        context: cache.cast_mut().cast(),
        look_up,
        reserve_space,
        look_up_or_insert,
        is_finalized,
        offset_to_addr,
        delete_cache,
        alias_data,
    }
}

/// Calls a function of the cache. Returns `without` if there is no cache, and `panicked` if the function panicked.
///
/// # Safety
/// The context is null, or to a cache that lives.
unsafe fn ask<T>(context: *mut c_void, without: T, panicked: T, ask: impl FnOnce(&Cache) -> T) -> T {
    // SAFETY: as the caller promises. A cache is only ever shared: what it changes is behind locks.
    let Some(cache) = (unsafe { context.cast::<Cache>().as_ref() }) else { return without };
    // A cache is whole after a panic: what its locks guard is changed by single calls of collections.
    catch_unwind(AssertUnwindSafe(|| ask(cache))).unwrap_or_else(|payload| {
        // The payload of a panic may panic when it is dropped.
        std::mem::forget(payload);
        add(&cache.counters.panics, 1);
        panicked
    })
}

fn offset(handle: Option<Handle>) -> usize {
    handle.map_or(NOT_FOUND, Handle::get)
}

fn pointer(address: Option<NonNull<u8>>) -> *mut c_void {
    address.map_or(ptr::null_mut(), |address| address.as_ptr().cast())
}

/// # Safety
/// XNNPACK's contract: `context` is the provider's, and `key` can be read during the call.
unsafe extern "C" fn look_up(context: *mut c_void, key: *const KeyV2024) -> usize {
    let look_up = |cache: &Cache| {
        // SAFETY: the key is one of the interface that the host named.
        let key = unsafe { cache.abi.read(key) };
        offset(key.and_then(|key| cache.look_up(&key)))
    };
    // SAFETY: the context is the provider's.
    unsafe { ask(context, NOT_FOUND, NOT_FOUND, look_up) }
}

/// # Safety
/// As of `look_up`.
unsafe extern "C" fn reserve_space(context: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: the context is the provider's.
    unsafe { ask(context, ptr::null_mut(), ptr::null_mut(), |cache| pointer(cache.reserve(size))) }
}

/// # Safety
/// As of `look_up`. What was reserved at `packed` is not written to any more.
unsafe extern "C" fn look_up_or_insert(
    context: *mut c_void,
    key: *const KeyV2024,
    packed: *mut c_void,
    size: usize,
) -> usize {
    let insert = |cache: &Cache| {
        // SAFETY: the key is one of the interface that the host named.
        let key = unsafe { cache.abi.read(key) };
        offset(key.and_then(|key| cache.look_up_or_insert(&key, NonNull::new(packed.cast()), size)))
    };
    // SAFETY: the context is the provider's.
    unsafe { ask(context, NOT_FOUND, NOT_FOUND, insert) }
}

/// # Safety
/// As of `look_up`.
unsafe extern "C" fn is_finalized(context: *mut c_void) -> bool {
    // SAFETY: the context is the provider's.
    unsafe { ask(context, false, false, |cache| cache.is_finalized.load(Ordering::Acquire)) }
}

/// # Safety
/// As of `look_up`.
unsafe extern "C" fn offset_to_addr(context: *mut c_void, offset: usize) -> *mut c_void {
    let address = |cache: &Cache| pointer(cache.pack.address(Handle::from_number(offset)));
    // SAFETY: the context is the provider's.
    unsafe { ask(context, ptr::null_mut(), ptr::null_mut(), address) }
}

/// Does nothing: the host owns the provider, and drops it.
///
/// # Safety
/// As of `look_up`.
unsafe extern "C" fn delete_cache(context: *mut c_void) -> Status {
    if context.is_null() { INVALID_PARAMETER } else { SUCCESS }
}

/// # Safety
/// As of `look_up`. The two addresses are not followed.
unsafe extern "C" fn alias_data(context: *mut c_void, alias: *mut c_void, original: *mut c_void) -> Status {
    let take = |cache: &Cache| {
        cache.names.write().alias(alias.addr(), original.addr());
        SUCCESS
    };
    // A name that the alias has by mistake would be a wrong hit: then let XNNPACK give up.
    // SAFETY: the context is the provider's.
    unsafe { ask(context, INVALID_PARAMETER, OUT_OF_MEMORY, take) }
}

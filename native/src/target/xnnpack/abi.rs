//! XNNPACK's C interface to a weights cache, in two versions.
//!
//! Copied from `include/xnnpack.h`. The functions of the older interface are the first ones of the newer, so one table serves
//! both. The older key ends before the fingerprint, and reading that from an older XNNPACK would be out of bounds. A call does
//! not show which version calls, so the host must say ([`Abi`]).

use std::{ffi::c_void, ptr};

/// The version of XNNPACK's interface to a weights cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Abi {
    /// November 2024 and before: keys have no `fingerprint_id`, and the provider has no `alias_data`.
    V2024,
    /// Since 2025: with `fingerprint_id` and `alias_data`.
    V2025,
}

/// `struct xnn_weights_cache_look_up_key` up to 2024.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyV2024 {
    /// A hash of the packing: shapes, tiles and the operator.
    pub seed: u32,
    /// The address of the unpacked weight.
    pub kernel: *const c_void,
    /// The address of the unpacked bias, or null.
    pub bias: *const c_void,
}

/// `struct xnn_weights_cache_look_up_key` since 2025.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyV2025 {
    /// The older key.
    pub before: KeyV2024,
    /// The identifier of the packing algorithm.
    pub fingerprint_id: u32,
}

/// `struct xnn_fingerprint`: a hash of the output of a packing algorithm for known weights.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// The identifier of the packing algorithm.
    pub id: u32,
    /// The hash of the output.
    pub value: u32,
}

/// `xnn_get_fingerprint`: the fingerprint with this identifier, or null if XNNPACK has not computed it.
pub type FingerprintFn = unsafe extern "C" fn(id: u32) -> *const Fingerprint;

/// `enum xnn_status`.
pub type Status = i32;

/// `xnn_status_success`.
pub const SUCCESS: Status = 0;
/// `xnn_status_invalid_parameter`.
pub const INVALID_PARAMETER: Status = 2;
/// `xnn_status_out_of_memory`.
pub const OUT_OF_MEMORY: Status = 6;

/// The result of a look-up that found nothing: `SIZE_MAX`.
pub const NOT_FOUND: usize = usize::MAX;

/// The alignment in bytes of the addresses that `reserve_space` returns.
pub const ALIGNMENT: usize = 64;

/// `struct xnn_weights_cache_provider`. Its `context` is the first argument of each function.
///
/// Keys are passed as pointers to [`KeyV2024`], which is also what a [`KeyV2025`] begins with.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "XNNPACK's header says what they do")]
pub struct WeightsCacheProvider {
    pub context: *mut c_void,
    pub look_up: unsafe extern "C" fn(context: *mut c_void, key: *const KeyV2024) -> usize,
    pub reserve_space: unsafe extern "C" fn(context: *mut c_void, size: usize) -> *mut c_void,
    pub look_up_or_insert: unsafe extern "C" fn(
        context: *mut c_void,
        key: *const KeyV2024,
        packed: *mut c_void,
        size: usize,
    ) -> usize,
    pub is_finalized: unsafe extern "C" fn(context: *mut c_void) -> bool,
    pub offset_to_addr: unsafe extern "C" fn(context: *mut c_void, offset: usize) -> *mut c_void,
    pub delete_cache: unsafe extern "C" fn(context: *mut c_void) -> Status,
    pub alias_data:
        unsafe extern "C" fn(context: *mut c_void, alias: *mut c_void, original: *mut c_void) -> Status,
}

/// A key of either interface. The addresses are only compared, never dereferenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) seed: u32,
    pub(super) kernel: usize,
    /// Zero if there is none.
    pub(super) bias: usize,
    pub(super) fingerprint_id: Option<u32>,
}

impl Abi {
    /// Reads a key, no further than this interface defines it. `None` for null.
    ///
    /// # Safety
    /// The pointer is null, or to a key of this interface.
    pub(super) unsafe fn read(self, key: *const KeyV2024) -> Option<Key> {
        if key.is_null() {
            return None;
        }
        let (before, fingerprint_id) = match self {
            // SAFETY: as the caller promises, it is a key of this interface.
            Self::V2024 => (unsafe { ptr::read_unaligned(key) }, None),
            Self::V2025 => {
                // SAFETY: as above. The identifier is read as a number, because some operators leave it unset.
                let key = unsafe { ptr::read_unaligned(key.cast::<KeyV2025>()) };
                (key.before, Some(key.fingerprint_id))
            }
        };
        let KeyV2024 { seed, kernel, bias } = before;
        Some(Key { seed, kernel: kernel.addr(), bias: bias.addr(), fingerprint_id })
    }
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    #[test]
    fn all_is_laid_out_as_in_c() {
        let word = size_of::<usize>();
        assert_eq!((offset_of!(KeyV2024, kernel), offset_of!(KeyV2024, bias)), (word, 2 * word));
        assert_eq!(size_of::<KeyV2024>(), 3 * word);
        assert_eq!(offset_of!(KeyV2025, fingerprint_id), 3 * word);
        assert_eq!(size_of::<KeyV2025>(), 3 * word + word.max(4));
        assert_eq!(offset_of!(WeightsCacheProvider, look_up), word);
        assert_eq!(offset_of!(WeightsCacheProvider, is_finalized), 4 * word);
        assert_eq!(offset_of!(WeightsCacheProvider, alias_data), 7 * word);
        assert_eq!(size_of::<WeightsCacheProvider>(), 8 * word);
    }

    #[test]
    fn a_key_is_read_as_its_interface_has_it() {
        let (weight, bias) = (ptr::without_provenance(64), ptr::without_provenance(128));
        let key = KeyV2025 { before: KeyV2024 { seed: 1, kernel: weight, bias }, fingerprint_id: 4 };
        let read = Key { seed: 1, kernel: 64, bias: 128, fingerprint_id: Some(4) };
        let pointer = (&raw const key).cast();
        // SAFETY: the pointer is to a newer key, which begins with an older one.
        let (newer, older) = unsafe { (Abi::V2025.read(pointer), Abi::V2024.read(pointer)) };
        assert_eq!(newer, Some(read));
        assert_eq!(older, Some(Key { fingerprint_id: None, ..read }));
        // SAFETY: null is allowed.
        assert_eq!(unsafe { Abi::V2025.read(ptr::null()) }, None);
    }
}

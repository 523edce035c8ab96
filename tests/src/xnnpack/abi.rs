//! XNNPACK's C interface, as far as it is used here. The names are those of its header without the prefix.

use std::ffi::{c_char, c_void};

use super::{Fingerprint, Status};

/// The key of an entry of a weights cache.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookUpKey {
    /// Of the packing: shapes, tiles and the operator, mixed.
    pub seed: u32,
    /// The weight before it was packed.
    pub kernel: *const c_void,
    /// The bias before it was packed; may be null.
    pub bias: *const c_void,
    /// The fingerprint that tells the version of the packing.
    pub fingerprint_id: u32,
}

/// The functions of a weights cache. `context` is the first argument of each.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "XNNPACK's header says what they do")]
pub struct Provider {
    pub context: *mut c_void,
    pub look_up: unsafe extern "C" fn(*mut c_void, *const LookUpKey) -> usize,
    pub reserve_space: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void,
    pub look_up_or_insert: unsafe extern "C" fn(*mut c_void, *const LookUpKey, *mut c_void, usize) -> usize,
    pub is_finalized: unsafe extern "C" fn(*mut c_void) -> bool,
    pub offset_to_addr: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void,
    pub delete_cache: unsafe extern "C" fn(*mut c_void) -> i32,
    pub alias_data: Option<unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void) -> i32>,
}

/// XNNPACK may read so many bytes behind any tensor.
pub(super) const EXTRA_BYTES: usize = 16;
/// An identifier that no value has.
pub(super) const INVALID_VALUE: u32 = u32::MAX;
/// The runtime's caller gives the value.
pub(super) const EXTERNAL_INPUT: u32 = 1;
/// The runtime's caller gets the value.
pub(super) const EXTERNAL_OUTPUT: u32 = 2;
/// A tensor has at most so many dimensions.
pub(super) const MAX_DIMENSIONS: usize = 6;

/// `xnn_datatype`.
pub(super) const FP32: i32 = 1;
pub(super) const BF16: i32 = 14;

/// A subgraph, a runtime or an operator: only XNNPACK knows what is in it.
pub(super) type Handle = *mut c_void;

/// `xnn_unary_params` where it holds the bounds of a clamp, which are also its longest variant.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct ClampParams {
    pub(super) min: f32,
    pub(super) max: f32,
}

/// Where the data of an external value are.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct ExternalValue {
    pub(super) id: u32,
    pub(super) data: *mut c_void,
}

// A `Status` is an `int`, as the enumeration is, and may be any number.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer(i32);

impl From<Answer> for Status {
    fn from(answer: Answer) -> Self {
        Self(answer.0)
    }
}

/// Declares the table of functions, and how it is filled from a library: each is looked up as `xnn_` and its name.
macro_rules! functions {
    ($($name:ident: fn($($argument:ty),* $(,)?) $(-> $answer:ty)?;)+) => {
        /// The functions that are called here.
        #[derive(Clone, Copy, Debug)]
        pub(super) struct Functions {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $answer)?,)+
        }

        impl Functions {
            /// Looks all of them up.
            ///
            /// # Safety
            ///
            /// The library is an XNNPACK with the interface that this module describes, and is never unloaded.
            pub(super) unsafe fn of(library: &libloading::Library) -> Result<Self, libloading::Error> {
                Ok(Self {
                    // SAFETY: the function has this type in the interface, and the library stays loaded.
                    $($name: unsafe { *library.get(concat!("xnn_", stringify!($name), "\0"))? },)+
                })
            }
        }
    };
}

functions! {
    initialize: fn(*const c_void) -> Answer;
    experimental_get_build_identifier_data: fn() -> *const u8;
    experimental_get_build_identifier_size: fn() -> usize;
    get_fingerprint: fn(u32) -> *const Fingerprint;
    check_fingerprint: fn(Fingerprint) -> Answer;
    fingerprint_fully_connected_nc: fn(u32) -> Answer;
    fingerprint_id_to_string_u32: fn(u32) -> *const c_char;

    create_subgraph: fn(u32, u32, *mut Handle) -> Answer;
    delete_subgraph: fn(Handle) -> Answer;
    define_tensor_value: fn(Handle, i32, usize, *const usize, *const c_void, u32, u32, *mut u32) -> Answer;
    define_fully_connected: fn(Handle, f32, f32, u32, u32, u32, u32, u32) -> Answer;
    define_unary: fn(Handle, i32, *const ClampParams, u32, u32, u32) -> Answer;
    define_binary: fn(Handle, i32, *const c_void, u32, u32, u32, u32) -> Answer;

    create_runtime_v4: fn(Handle, *mut Provider, *mut c_void, *mut c_void, u32, *mut Handle) -> Answer;
    delete_runtime: fn(Handle) -> Answer;
    reshape_external_value: fn(Handle, u32, usize, *const usize) -> Answer;
    get_external_value_shape: fn(Handle, u32, *mut usize, *mut usize) -> Answer;
    reshape_runtime: fn(Handle) -> Answer;
    setup_runtime_v2: fn(Handle, usize, *const ExternalValue) -> Answer;
    invoke_runtime: fn(Handle) -> Answer;

    create_fully_connected_nc_f32: fn(
        usize, usize, usize, usize, *const f32, *const f32, f32, f32, u32, *mut Provider, *mut Handle
    ) -> Answer;
    reshape_fully_connected_nc_f32: fn(Handle, usize, *mut c_void) -> Answer;
    setup_fully_connected_nc_f32: fn(Handle, *const f32, *mut f32) -> Answer;
    run_operator: fn(Handle, *mut c_void) -> Answer;
    delete_operator: fn(Handle) -> Answer;
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn a_key_and_a_provider_are_laid_out_as_in_c() {
        assert_eq!(offset_of!(LookUpKey, kernel), 8);
        assert_eq!(offset_of!(LookUpKey, bias), 16);
        assert_eq!(offset_of!(LookUpKey, fingerprint_id), 24);
        assert_eq!(size_of::<LookUpKey>(), 32);
        assert_eq!(offset_of!(Provider, alias_data), 56);
        assert_eq!(size_of::<Provider>(), 64);
    }
}

//! The real XNNPACK, loaded while the tests run.
//!
//! [`library`] finds what `cargo xtask runtimes --xnnpack` fetched. On a [`Library`] two things can be made: a
//! [`FullyConnected`] operator by itself, and a [`Subgraph`] that is compiled to a [`Runtime`]. Either takes a
//! [`WeightsCache`]: the provider that XNNPACK then asks for packed weights.
//!
//! Only what the tests need is bound, and only for the release that is pinned: the numbers of XNNPACK's enumerations have
//! changed before.

pub mod abi;
mod library;
mod operator;
mod subgraph;
mod tensor;

use std::{fmt, marker::PhantomData, path::PathBuf, sync::OnceLock};

use self::abi::Provider;
pub use self::{
    library::Library,
    operator::FullyConnected,
    subgraph::{Binary, Binding, Runtime, Subgraph, Unary, Value},
    tensor::{Bf16, Element, Tensor, View},
};
pub use warmstart::target::xnnpack::abi::Fingerprint;

use crate::runtimes;

/// The provider of a weights cache, as XNNPACK is handed it.
#[derive(Clone, Copy, Debug)]
pub struct WeightsCache<'a> {
    provider: *mut Provider,
    cache: PhantomData<&'a ()>,
}

/// Why a call was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The library, or a function in it, was not found.
    Load {
        /// The item that was to be loaded.
        what: String,
        /// The message of the loader.
        reason: String,
    },
    /// XNNPACK refused.
    Call {
        /// The function.
        call: &'static str,
        /// The status that it returned.
        status: Status,
    },
    /// It would not be sound to ask XNNPACK.
    Unsound(String),
}

/// A status of XNNPACK.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Status(pub i32);

/// Loads XNNPACK, once for the process.
///
/// # Panics
///
/// If it is not there, or cannot be loaded.
#[must_use]
pub fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let folder = folder();
        // SAFETY: the folder holds what was fetched, whose checksum is pinned, or what a person set there on purpose.
        let loaded = unsafe { Library::load(&folder) };
        loaded.unwrap_or_else(|error| panic!("XNNPACK in {}: {error}", folder.display()))
    })
}

/// Returns the folder that `WARMSTART_XNNPACK` names, else the one that `cargo xtask runtimes --xnnpack` installed.
///
/// # Panics
///
/// If they are not there.
#[must_use]
pub fn folder() -> PathBuf {
    runtimes::xnnpack().expect("XNNPACK is not there: run cargo xtask runtimes --xnnpack")
}

impl<'a> WeightsCache<'a> {
    /// A provider that lasts for `'a`.
    ///
    /// # Safety
    ///
    /// `provider` points to a [`Provider`] that stays where it is for `'a`, and so does all that it hands out: what
    /// `reserve_space(n)` returns can be written to for `n` bytes until it was inserted, and what `offset_to_addr`
    /// returns for the offset of an entry can be read for its size for `'a`. What is handed out for a key was packed under
    /// the same key, from the same weight.
    #[must_use]
    pub unsafe fn from_raw(provider: *mut std::ffi::c_void) -> Self {
        Self { provider: provider.cast(), cache: PhantomData }
    }

    /// A null pointer if there is no cache.
    fn pointer(cache: Option<Self>) -> *mut Provider {
        cache.map_or(std::ptr::null_mut(), |cache| cache.provider)
    }
}

impl Error {
    /// The status of XNNPACK, if it was called.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        match self {
            Self::Call { status, .. } => Some(*status),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Load { what, reason } => write!(f, "{what} cannot be loaded: {reason}"),
            Self::Call { call, status } => write!(f, "{call} answers {status:?}"),
            Self::Unsound(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Error {}

impl Status {
    /// The call was done.
    pub const SUCCESS: Self = Self(0);
    /// An argument cannot be.
    pub const INVALID_PARAMETER: Self = Self(2);
    /// Not yet, or not any more; a weights cache that is not finalised, among others.
    pub const INVALID_STATE: Self = Self(3);
    /// There is no memory; the weights cache reserved none, among others.
    pub const OUT_OF_MEMORY: Self = Self(6);

    fn check(self, call: &'static str) -> Result<(), Error> {
        if self == Self::SUCCESS { Ok(()) } else { Err(Error::Call { call, status: self }) }
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.0 {
            0 => "success",
            1 => "uninitialized",
            2 => "invalid parameter",
            3 => "invalid state",
            4 => "unsupported parameter",
            5 => "unsupported hardware",
            6 => "out of memory",
            7 => "reallocation required",
            8 => "deprecated",
            _ => "a status without a name",
        };
        write!(f, "{} ({name})", self.0)
    }
}

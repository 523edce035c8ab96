//! A weights cache for XNNPACK: packed weights are stored in a [`Pack`], so that the next process packs none.
//!
//! A host passes a [`Provider`] to XNNPACK when it creates a runtime or an operator. XNNPACK looks up each weight, and packs
//! missing ones straight into the file. It identifies weights by their address alone, so the host first registers the name of
//! the weight at each address.
//!
//! ```
//! use std::ffi::c_void;
//! use warmstart::{
//!     pack::{ModelId, Pack, PackOptions},
//!     target::xnnpack::{Abi, Provider},
//! };
//!
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("model.xpwc");
//! # let (weight, bias) = (vec![0.5_f32; 64], vec![0.25_f32; 8]);
//! # let digest = [7; 32];
//! // One provider for each loaded model. Providers may share a pack.
//! let pack = Pack::open(&path, PackOptions::default())?;
//! let provider = Provider::new(pack, Abi::V2025, ModelId::from_bytes(digest));
//!
//! provider.register(weight.as_ptr(), "encoder.0.weight");
//! provider.register(bias.as_ptr(), "encoder.0.bias");
//! let handed_over: *mut c_void = provider.as_ptr().cast();
//! // xnn_create_runtime_v4(subgraph, handed_over, ...);
//! # assert!(!handed_over.is_null());
//! provider.finalize();
//! provider.pack().save()?;
//! // xnn_reshape_runtime, xnn_setup_runtime_v2, xnn_invoke_runtime, and at the end xnn_delete_runtime.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Order of calls
//! [`begin`](Provider::begin), except before the first time; [`register`](Provider::register) all weights and biases; create the
//! runtime; [`finalize`](Provider::finalize); [`save`](Pack::save); run. The provider outlives the runtime.
//!
//! # Keys of packed weights
//! A packed weight is found by its name and that of its bias, the [model](Provider::new), XNNPACK's seed, and the
//! [fingerprint](Provider::with_fingerprints) of the packing algorithm. A weight without a name, or with a bias without one, is
//! packed into the heap, and not stored in the file.

pub mod abi;

mod cache;
mod callbacks;
mod names;
mod statistics;

pub use abi::{Abi, FingerprintFn, WeightsCacheProvider};
pub use statistics::ProviderStatistics;

use std::{
    cell::UnsafeCell,
    fmt, ptr,
    sync::{Arc, atomic::Ordering},
};

use self::cache::Cache;
use crate::pack::{ModelId, Pack};

/// A weights cache for XNNPACK over a [`Pack`].
///
/// All methods, and the functions that XNNPACK calls, can be called by several threads at once. But a provider is for one
/// runtime at a time: while a second is created, the first cannot be set up, and [`finalize`](Self::finalize) forgets the names
/// of both. Create one provider for each runtime; that is cheap, and they share the pack.
///
/// A provider must outlive every runtime and operator that it was passed to: these keep addresses in the pack and of the
/// provider.
pub struct Provider {
    shared: Arc<Shared>,
}

/// The part to which XNNPACK keeps addresses. It does not move, and only the provider owns it.
struct Shared {
    cache: Cache,
    table: Table,
}

/// XNNPACK gets a mutable pointer, but does not write through it.
struct Table(UnsafeCell<WeightsCacheProvider>);

// SAFETY: it holds the addresses of functions, and of a cache that does not move and may be used by any thread.
unsafe impl Send for Table {}
// SAFETY: it is written once, before another thread has it.
unsafe impl Sync for Table {}

impl Provider {
    /// Creates a provider over a pack, for an XNNPACK with this interface and for the weights of this model. Weights can be
    /// registered at once.
    ///
    /// The interface must be that of the XNNPACK to which the provider is passed: see [`Abi`].
    ///
    /// Only weights packed for the same model are found. Use a digest of the model's file if there is one;
    /// [`model_of_weights`](crate::pack::model_of_weights) computes one from all weights. It must also cover everything else that
    /// is packed with the weights, such as scales. Without fingerprints, mix XNNPACK's build identifier into the digest, so that
    /// weights packed by another build are not used. If a changed model keeps its digest and the names of its weights, it gets the
    /// old weights.
    #[must_use]
    pub fn new(pack: Pack, abi: Abi, model: ModelId) -> Self {
        let table = Table(UnsafeCell::new(callbacks::table(ptr::null())));
        let shared = Arc::new(Shared { cache: Cache::new(pack, abi, model), table });
        // SAFETY: no other thread has the table yet.
        unsafe { *shared.table.0.get() = callbacks::table(&raw const (*Arc::as_ptr(&shared)).cache) };
        Self { shared }
    }

    /// Sets the function that returns the fingerprints of packing algorithms: `xnn_get_fingerprint` of the XNNPACK to which the
    /// provider is passed. Their values are then stored and checked, and weights packed by another algorithm are not found.
    ///
    /// Weights of operators without a fingerprint are then not stored at all, because their algorithm is unknown. In 2026 these
    /// are batch matrix multiplication and sparse convolution. Without this function, only the identifier of the algorithm is
    /// checked, not its value.
    ///
    /// # Safety
    /// For any number, the function returns null or a pointer to a [`Fingerprint`](abi::Fingerprint) that can be read while the
    /// function can be called, which is as long as this lives, by any thread.
    #[must_use]
    pub unsafe fn with_fingerprints(mut self, fingerprints: FingerprintFn) -> Self {
        // The provider was not passed to XNNPACK yet, so no other thread uses it.
        let shared = Arc::get_mut(&mut self.shared).expect("a provider is the only owner");
        shared.cache.fingerprints = Some(fingerprints);
        self
    }

    /// Returns the pointer to pass to XNNPACK, as `xnn_weights_cache_t`. It stays valid if the provider is moved. Call the `with_`
    /// methods first.
    ///
    /// The caller promises XNNPACK, as its header says, that the bytes found for a weight are that weight, packed as XNNPACK
    /// would pack it now. So each [registered](Self::register) address must have the weight that its name stands for in this
    /// model. XNNPACK checks nothing, not even the length. The provider must live as long as the runtimes and operators that
    /// use it, and must not be passed to `xnn_finalize_weights_cache` or `xnn_delete_weights_cache`, which are for XNNPACK's own
    /// caches.
    #[must_use]
    pub fn as_ptr(&self) -> *mut WeightsCacheProvider {
        self.shared.table.0.get()
    }

    /// Registers the name in the model of the weight or bias at an address. Null is ignored.
    ///
    /// The address is the one passed to the subgraph or operator: that of the data before packing. The name is valid until
    /// [`finalize`](Self::finalize). If the data is freed before, [`forget`](Self::forget) the address: other data at the same
    /// address would be taken for it.
    pub fn register<T>(&self, data: *const T, name: &str) {
        self.shared.cache.names.write().register(data.addr(), name);
    }

    /// Forgets the name of the data at an address.
    pub fn forget<T>(&self, data: *const T) {
        self.shared.cache.names.write().forget(data.addr());
    }

    /// Forgets the names of all addresses.
    pub fn forget_all(&self) {
        self.shared.cache.names.write().clear();
    }

    /// Returns the number of addresses with a name.
    #[must_use]
    pub fn registered(&self) -> usize {
        self.shared.cache.names.read().len()
    }

    /// Prepares for creating another runtime. Forgets all names, so register weights after this call. Look-ups find what other
    /// processes saved meanwhile. Until [`finalize`](Self::finalize), XNNPACK sets up no operator that was created with this
    /// provider.
    pub fn begin(&self) {
        self.forget_all();
        self.shared.cache.is_finalized.store(false, Ordering::Release);
        self.shared.cache.pack.refresh();
    }

    /// Ends packing: XNNPACK may run after this. Forgets all names, because the unpacked weights may be freed and other data take
    /// their addresses. Makes the system begin to write the newly packed weights to the medium, and does not wait for it.
    pub fn finalize(&self) {
        self.forget_all();
        self.shared.cache.pack.finalize();
        self.shared.cache.is_finalized.store(true, Ordering::Release);
    }

    /// Returns whether XNNPACK may run: see [`finalize`](Self::finalize).
    #[must_use]
    pub fn is_finalized(&self) -> bool {
        self.shared.cache.is_finalized.load(Ordering::Acquire)
    }

    /// Returns the pack.
    #[must_use]
    pub fn pack(&self) -> &Pack {
        &self.shared.cache.pack
    }

    /// Returns the counters of this provider. [`Pack::statistics`] has those of all providers of the pack.
    #[must_use]
    pub fn statistics(&self) -> ProviderStatistics {
        self.shared.cache.counters.snapshot()
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider")
            .field("abi", &self.shared.cache.abi)
            .field("model", &self.shared.cache.model)
            .field("has_fingerprints", &self.shared.cache.fingerprints.is_some())
            .field("is_finalized", &self.is_finalized())
            .field("pack", &self.shared.cache.pack)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

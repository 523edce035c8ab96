//! A weights cache for XNNPACK: what it packs goes into a [`Pack`], and the next process packs nothing.
//!
//! A host hands XNNPACK a [`Provider`] when it creates a runtime or an operator. XNNPACK then asks it for each weight, packs
//! those that are not found straight into the file, and finds the others there. It knows weights by their address alone, so the
//! host says first which weight lies where.
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
//! // Once for each model that is loaded. They may share a pack.
//! let pack = Pack::open(&path, PackOptions::default())?;
//! let provider = Provider::new(pack, Abi::V2025, ModelId::from_bytes(digest));
//!
//! provider.register(weight.as_ptr(), "encoder.0.weight");
//! provider.register(bias.as_ptr(), "encoder.0.bias");
//! let handed_over: *mut c_void = provider.as_ptr().cast();
//! // xnn_create_runtime_v4(subgraph, handed_over, ...);
//! # assert!(!handed_over.is_null());
//! provider.finalize();
//! provider.save()?;
//! // xnn_reshape_runtime, xnn_setup_runtime_v2, xnn_invoke_runtime, and at the end xnn_delete_runtime.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # In which order
//! [`begin`](Provider::begin), except before the first time; [`register`](Provider::register) all weights and biases; create the
//! runtime; [`finalize`](Provider::finalize); [`save`](Provider::save); run. The provider outlives the runtime.
//!
//! # What a packed weight is found by
//! Its name and that of its bias, the [model](Provider::new), XNNPACK's seed, and the
//! [fingerprint](Provider::with_fingerprints) of the packing algorithm. A weight without a name, or with a bias without one, is
//! packed into the heap, and no byte of it goes into the file.

pub mod abi;

mod cache;
mod callbacks;
mod names;
mod statistics;

pub use abi::{Abi, FingerprintFn, WeightsCacheProvider};
pub use statistics::ProviderStatistics;

use std::{cell::UnsafeCell, fmt, ptr, sync::Arc};

use self::cache::Cache;
use crate::{
    Reason,
    pack::{ModelId, Pack, Saved},
};

/// A weights cache that XNNPACK can be handed, over a [`Pack`].
///
/// All methods, and all that XNNPACK calls, can be called by any number of threads at once. But one provider is for one
/// runtime at a time: while a second is created, the first cannot be set up, and [`finalize`](Self::finalize) forgets the names
/// of both. Make one for each; that is cheap, and they share the pack.
///
/// It must outlive every runtime and operator that it was handed to: these have addresses in the pack, and of this.
pub struct Provider {
    shared: Arc<Shared>,
}

/// What XNNPACK has addresses in. It does not move, and nobody but the provider owns it.
struct Shared {
    cache: Cache,
    table: Table,
}

/// XNNPACK gets a pointer that it could write through. It does not.
struct Table(UnsafeCell<WeightsCacheProvider>);

// SAFETY: it holds the addresses of functions, and of a cache that stays where it is and may be used by any thread.
unsafe impl Send for Table {}
// SAFETY: it is written to once, before anybody else has it.
unsafe impl Sync for Table {}

impl Provider {
    /// A provider over a pack, for an XNNPACK with this interface, and for the weights of this model. It has begun: weights can
    /// be registered.
    ///
    /// The interface must be that of the XNNPACK that it is handed to: see [`Abi`].
    ///
    /// Only what was packed of the same model is found. A digest of the model's file is best, if one is at hand;
    /// [`ModelId::of_weights`] makes one, and reads all weights for it. What weights are packed with must be in it too, such as
    /// scales. Where XNNPACK cannot be asked for fingerprints, mix its build identifier into the digest: then nothing that
    /// another build packed is used. A model that is changed, and keeps its digest and the names of its weights, gets the old
    /// weights.
    #[must_use]
    pub fn new(pack: Pack, abi: Abi, model: ModelId) -> Self {
        let table = Table(UnsafeCell::new(callbacks::table(ptr::null())));
        let shared = Arc::new(Shared { cache: Cache::new(pack, abi, model), table });
        // SAFETY: nobody else has the table yet.
        unsafe { *shared.table.0.get() = callbacks::table(&raw const (*Arc::as_ptr(&shared)).cache) };
        Self { shared }
    }

    /// Says where the fingerprints of packing algorithms are to be had: `xnn_get_fingerprint` of the XNNPACK that this is
    /// handed to. Then their values are kept and checked, and what another algorithm packed is not found.
    ///
    /// Weights of operators that have no fingerprint are not kept at all from then on, for nothing tells what packed them. In
    /// 2026 these are batch matrix multiplication and sparse convolution. Without this, the identifier of the algorithm is
    /// checked, but not its value.
    ///
    /// # Safety
    /// For any number, the function returns null or a pointer to a [`Fingerprint`](abi::Fingerprint) that can be read while the
    /// function can be called, which is as long as this lives, by any thread.
    #[must_use]
    pub unsafe fn with_fingerprints(mut self, fingerprints: FingerprintFn) -> Self {
        self.cache_mut().fingerprints = Some(fingerprints);
        self
    }

    /// Only what was not handed over yet is built, so that nobody asks meanwhile.
    fn cache_mut(&mut self) -> &mut Cache {
        &mut Arc::get_mut(&mut self.shared).expect("a provider is the only owner").cache
    }

    fn cache(&self) -> &Cache {
        &self.shared.cache
    }

    /// What XNNPACK is handed, as `xnn_weights_cache_t`. It stays where it is, also if this is moved. First say all that there
    /// is to say by the `with_` methods.
    ///
    /// Whoever hands it over promises XNNPACK, as its header says, that what is found for a weight is that weight, packed as it
    /// would pack it now. So each [registered](Self::register) address must have the weight that its name stands for in this
    /// model. XNNPACK does not check so much as the length. The provider must live as long as what it was handed to, and
    /// must not be given to `xnn_finalize_weights_cache` or `xnn_delete_weights_cache`, which are for XNNPACK's own.
    #[must_use]
    pub fn as_ptr(&self) -> *mut WeightsCacheProvider {
        self.shared.table.0.get()
    }

    /// Says that the weight, or bias, at this address has this name in the model. Null has no name.
    ///
    /// The address is what the subgraph or operator is given: the data before they are packed. The name holds until
    /// [`finalize`](Self::finalize). If the data go before that, [`forget`](Self::forget) the address: others may come to
    /// lie there, and would be taken for them.
    pub fn register<T>(&self, data: *const T, name: &str) {
        self.cache().names_mut().register(data.addr(), name);
    }

    /// Registers all of these.
    pub fn register_all<T, N: AsRef<str>>(&self, data: impl IntoIterator<Item = (*const T, N)>) {
        let mut names = self.cache().names_mut();
        data.into_iter().for_each(|(data, name)| names.register(data.addr(), name.as_ref()));
    }

    /// Forgets what lies at this address.
    pub fn forget<T>(&self, data: *const T) {
        self.cache().names_mut().forget(data.addr());
    }

    /// Forgets what lies at any address.
    pub fn forget_all(&self) {
        self.cache().names_mut().clear();
    }

    /// How many addresses have a name.
    #[must_use]
    pub fn registered(&self) -> usize {
        self.cache().names().len()
    }

    /// Begins anew: another runtime is to be created. Forgets all names, so register after this, and finds from now on what
    /// other processes saved meanwhile. Until [`finalize`](Self::finalize), XNNPACK sets up no operator that was created with
    /// this provider.
    pub fn begin(&self) {
        self.forget_all();
        self.cache().set_finalized(false);
        self.cache().pack.refresh();
    }

    /// Ends packing: XNNPACK may run from now on. Forgets all names, because the unpacked weights are not needed any more, and
    /// what comes to lie at their addresses is not them. Has the system begin to write what was packed since the last time to
    /// the medium, and does not wait for it.
    pub fn finalize(&self) {
        self.forget_all();
        self.cache().pack.finalize();
        self.cache().set_finalized(true);
    }

    /// Whether XNNPACK may run: see [`finalize`](Self::finalize).
    #[must_use]
    pub fn is_finalized(&self) -> bool {
        self.cache().is_finalized()
    }

    /// Saves what was packed: [`Pack::save`].
    ///
    /// # Errors
    /// As of [`Pack::save`]. What was packed is found in this process as before, and the next save tries again.
    pub fn save(&self) -> Result<Saved, Reason> {
        self.cache().pack.save()
    }

    /// The pack.
    #[must_use]
    pub fn pack(&self) -> &Pack {
        &self.cache().pack
    }

    /// What XNNPACK asked since this was made, and what it got. What all providers of the pack did together is in
    /// [`Pack::statistics`].
    #[must_use]
    pub fn statistics(&self) -> ProviderStatistics {
        self.cache().counters.snapshot()
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider")
            .field("abi", &self.cache().abi)
            .field("model", &self.cache().model)
            .field("has_fingerprints", &self.cache().fingerprints.is_some())
            .field("is_finalized", &self.is_finalized())
            .field("pack", &self.cache().pack)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

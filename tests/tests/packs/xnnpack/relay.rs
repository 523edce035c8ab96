//! A table of functions between XNNPACK and a provider: it counts the calls, and can change the seeds, as an XNNPACK that packed
//! for another micro-kernel would.

use std::{
    ffi::c_void,
    sync::{Mutex, PoisonError},
};

use warmstart::target::xnnpack::{Provider, WeightsCacheProvider};
use warmstart_tests::xnnpack::{
    WeightsCache,
    abi::{self, LookUpKey},
};

/// Passes every call on to a provider.
pub(crate) struct Relay {
    inner: WeightsCacheProvider,
    /// The bits that are flipped in the seed of each key.
    seed_mask: u32,
    calls: Mutex<Calls>,
    table: Option<Box<abi::Provider>>,
}

/// The number of calls of each function so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Calls {
    pub(crate) look_up: u64,
    pub(crate) reserve_space: u64,
    pub(crate) look_up_or_insert: u64,
    pub(crate) is_finalized: u64,
    pub(crate) offset_to_addr: u64,
    pub(crate) delete_cache: u64,
    pub(crate) alias_data: u64,
}

impl Relay {
    /// Passes all on to `provider`, which must outlive this.
    pub(crate) fn to(provider: &Provider) -> Box<Self> {
        Self::with_seed_mask(provider, 0)
    }

    /// As [`to`](Self::to), but the provider is asked with other seeds.
    pub(crate) fn with_other_seeds(provider: &Provider) -> Box<Self> {
        Self::with_seed_mask(provider, u32::MAX)
    }

    fn with_seed_mask(provider: &Provider, seed_mask: u32) -> Box<Self> {
        // SAFETY: the table can be read while the provider lives, which the callers see to.
        let inner = unsafe { *provider.as_ptr() };
        let mut this = Box::new(Self { inner, seed_mask, calls: Mutex::default(), table: None });
        this.table = Some(Box::new(abi::Provider {
            context: (&raw mut *this).cast(),
            look_up: Self::look_up,
            reserve_space: Self::reserve_space,
            look_up_or_insert: Self::look_up_or_insert,
            is_finalized: Self::is_finalized,
            offset_to_addr: Self::offset_to_addr,
            delete_cache: Self::delete_cache,
            alias_data: Some(Self::alias_data),
        }));
        this
    }

    /// Returns the calls so far.
    pub(crate) fn calls(&self) -> Calls {
        *self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the weights cache to hand to XNNPACK.
    pub(crate) fn cache(&self) -> WeightsCache<'_> {
        let table: *const abi::Provider = &raw const **self.table.as_ref().unwrap();
        // SAFETY: as of the provider that all is passed on to.
        unsafe { WeightsCache::from_raw(table.cast_mut().cast()) }
    }

    /// Counts a call, and returns the relay.
    ///
    /// # Safety
    /// The context is a relay that lives.
    unsafe fn counted<'a>(context: *mut c_void, count: impl FnOnce(&mut Calls)) -> &'a Self {
        // SAFETY: as the caller promises.
        let this = unsafe { &*context.cast::<Self>() };
        count(&mut this.calls.lock().unwrap_or_else(PoisonError::into_inner));
        this
    }

    fn key(&self, key: &LookUpKey) -> LookUpKey {
        LookUpKey { seed: key.seed ^ self.seed_mask, ..*key }
    }

    // SAFETY, of all below: the context is this, and the rest is passed on as XNNPACK gave it.

    unsafe extern "C" fn look_up(context: *mut c_void, key: *const LookUpKey) -> usize {
        // SAFETY: see above.
        let (this, key) = unsafe { (Self::counted(context, |calls| calls.look_up += 1), &*key) };
        let (inner, key) = (&this.inner, this.key(key));
        // SAFETY: see above.
        unsafe { (inner.look_up)(inner.context, (&raw const key).cast()) }
    }

    unsafe extern "C" fn reserve_space(context: *mut c_void, size: usize) -> *mut c_void {
        // SAFETY: see above.
        let inner = unsafe { &Self::counted(context, |calls| calls.reserve_space += 1).inner };
        // SAFETY: see above.
        unsafe { (inner.reserve_space)(inner.context, size) }
    }

    unsafe extern "C" fn look_up_or_insert(
        context: *mut c_void,
        key: *const LookUpKey,
        packed: *mut c_void,
        size: usize,
    ) -> usize {
        // SAFETY: see above.
        let (this, key) = unsafe { (Self::counted(context, |calls| calls.look_up_or_insert += 1), &*key) };
        let (inner, key) = (&this.inner, this.key(key));
        // SAFETY: see above.
        unsafe { (inner.look_up_or_insert)(inner.context, (&raw const key).cast(), packed, size) }
    }

    unsafe extern "C" fn is_finalized(context: *mut c_void) -> bool {
        // SAFETY: see above.
        let inner = unsafe { &Self::counted(context, |calls| calls.is_finalized += 1).inner };
        // SAFETY: see above.
        unsafe { (inner.is_finalized)(inner.context) }
    }

    unsafe extern "C" fn offset_to_addr(context: *mut c_void, offset: usize) -> *mut c_void {
        // SAFETY: see above.
        let inner = unsafe { &Self::counted(context, |calls| calls.offset_to_addr += 1).inner };
        // SAFETY: see above.
        unsafe { (inner.offset_to_addr)(inner.context, offset) }
    }

    unsafe extern "C" fn delete_cache(context: *mut c_void) -> i32 {
        // SAFETY: see above.
        let inner = unsafe { &Self::counted(context, |calls| calls.delete_cache += 1).inner };
        // SAFETY: see above.
        unsafe { (inner.delete_cache)(inner.context) }
    }

    unsafe extern "C" fn alias_data(context: *mut c_void, alias: *mut c_void, original: *mut c_void) -> i32 {
        // SAFETY: see above.
        let inner = unsafe { &Self::counted(context, |calls| calls.alias_data += 1).inner };
        // SAFETY: see above.
        unsafe { (inner.alias_data)(inner.context, alias, original) }
    }
}

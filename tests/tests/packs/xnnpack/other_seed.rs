//! XNNPACK as it would be if it packed for another micro-kernel.

use std::ffi::c_void;

use warmstart::target::xnnpack::{Provider, WeightsCacheProvider};
use warmstart_tests::xnnpack::{
    WeightsCache,
    abi::{self, LookUpKey},
};

/// A provider that is asked with other seeds.
pub(crate) struct OtherSeed {
    inner: WeightsCacheProvider,
    table: Option<Box<abi::Provider>>,
}

impl OtherSeed {
    /// Passes all on to `provider`, which must outlive this.
    pub(crate) fn of(provider: &Provider) -> Box<Self> {
        // SAFETY: the table can be read while the provider lives, which the callers see to.
        let inner = unsafe { *provider.as_ptr() };
        let mut this = Box::new(Self { inner, table: None });
        this.table = Some(Box::new(abi::Provider {
            context: (&raw mut *this).cast(),
            look_up: Self::look_up,
            reserve_space: Self::reserve_space,
            look_up_or_insert: Self::look_up_or_insert,
            is_finalized: Self::is_finalized,
            offset_to_addr: Self::offset_to_addr,
            delete_cache: Self::delete_cache,
            alias_data: None,
        }));
        this
    }

    /// What XNNPACK is handed.
    pub(crate) fn cache(&self) -> WeightsCache<'_> {
        let table: *const abi::Provider = &raw const **self.table.as_ref().unwrap();
        // SAFETY: as of the provider that all is passed on to.
        unsafe { WeightsCache::from_raw(table.cast_mut().cast()) }
    }

    // SAFETY, of all below: the context is this, and the rest is passed on as XNNPACK gave it.

    unsafe extern "C" fn look_up(context: *mut c_void, key: *const LookUpKey) -> usize {
        // SAFETY: see above.
        let (inner, key) = unsafe { (&(*context.cast::<Self>()).inner, &*key) };
        let other = LookUpKey { seed: !key.seed, ..*key };
        // SAFETY: see above.
        unsafe { (inner.look_up)(inner.context, (&raw const other).cast()) }
    }

    unsafe extern "C" fn reserve_space(context: *mut c_void, size: usize) -> *mut c_void {
        // SAFETY: see above.
        let inner = unsafe { &(*context.cast::<Self>()).inner };
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
        let (inner, key) = unsafe { (&(*context.cast::<Self>()).inner, &*key) };
        let other = LookUpKey { seed: !key.seed, ..*key };
        // SAFETY: see above.
        unsafe { (inner.look_up_or_insert)(inner.context, (&raw const other).cast(), packed, size) }
    }

    unsafe extern "C" fn is_finalized(context: *mut c_void) -> bool {
        // SAFETY: see above.
        let inner = unsafe { &(*context.cast::<Self>()).inner };
        // SAFETY: see above.
        unsafe { (inner.is_finalized)(inner.context) }
    }

    unsafe extern "C" fn offset_to_addr(context: *mut c_void, offset: usize) -> *mut c_void {
        // SAFETY: see above.
        let inner = unsafe { &(*context.cast::<Self>()).inner };
        // SAFETY: see above.
        unsafe { (inner.offset_to_addr)(inner.context, offset) }
    }

    unsafe extern "C" fn delete_cache(_: *mut c_void) -> i32 {
        0
    }
}

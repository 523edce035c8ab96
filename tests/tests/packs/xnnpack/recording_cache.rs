//! The simplest weights cache that XNNPACK accepts: on the heap, never shrinking, writing down every call.

use std::{
    alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error},
    collections::HashMap,
    ffi::c_void,
    sync::{Mutex, MutexGuard},
};

use warmstart_tests::xnnpack::{
    WeightsCache,
    abi::{LookUpKey, Provider},
};

/// The least alignment that XNNPACK requires, in bytes.
const ALIGNMENT: usize = 64;

/// A weights cache. It knows weights by their address, so they must live as long as it does: one that came to lie where
/// another was before would be taken for that.
#[derive(Debug)]
pub(crate) struct RecordingCache {
    provider: Box<Provider>,
    state: Box<Mutex<State>>,
}

/// A call of a weights cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    LookUp(Key, Option<usize>),
    ReserveSpace(usize),
    LookUpOrInsert(Key, usize),
    IsFinalized,
    OffsetToAddr(usize),
    DeleteCache,
    /// The alias, and what it stands for.
    AliasData(usize, usize),
}

/// A key that can be told to another thread.
pub(crate) type Key = LookUpKey;

#[derive(Debug, Default)]
struct State {
    calls: Vec<Call>,
    blocks: Vec<(*mut u8, Layout)>,
    /// The offset of an entry is its number.
    entries: Vec<*mut c_void>,
    offsets: HashMap<(u32, usize, usize, u32), usize>,
    is_finalized: bool,
    is_full: bool,
}

impl RecordingCache {
    /// One that has no room.
    pub(crate) fn full() -> Self {
        let recorder = Self::default();
        recorder.state().is_full = true;
        recorder
    }

    /// Returns the weights cache to hand to XNNPACK.
    pub(crate) fn cache(&self) -> WeightsCache<'_> {
        // SAFETY: provider and state are on the heap and live as long as the recorder, which is borrowed. Blocks have the
        // length that was asked for, are freed with the recorder, and are found again by the whole key; the tests keep weights.
        unsafe { WeightsCache::from_raw((&raw const *self.provider).cast_mut().cast()) }
    }

    /// From now on it is finalised.
    pub(crate) fn finalize(&self) {
        self.state().is_finalized = true;
    }

    /// All calls so far.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.state().calls.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl Default for RecordingCache {
    fn default() -> Self {
        let state = Box::new(Mutex::new(State::default()));
        let context = (&raw const *state).cast_mut().cast();
        let provider = Box::new(Provider {
            context,
            look_up,
            reserve_space,
            look_up_or_insert,
            is_finalized,
            offset_to_addr,
            delete_cache,
            alias_data: Some(alias_data),
        });
        Self { provider, state }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        for (block, layout) in &self.blocks {
            // SAFETY: it was allocated with this layout, and is freed once.
            unsafe { dealloc(*block, *layout) };
        }
    }
}

impl State {
    fn offset(&self, key: &Key) -> Option<usize> {
        self.offsets.get(&as_numbers(key)).copied()
    }
}

fn as_numbers(key: &Key) -> (u32, usize, usize, u32) {
    (key.seed, key.kernel.addr(), key.bias.addr(), key.fingerprint_id)
}

/// # Safety
///
/// `context` is the provider's, and the recorder lives.
unsafe fn state<'a>(context: *mut c_void) -> MutexGuard<'a, State> {
    // SAFETY: as the caller promises.
    unsafe { &*context.cast::<Mutex<State>>() }.lock().unwrap()
}

// SAFETY, of all below: XNNPACK calls them with the context that the provider names while the recorder is borrowed, and with
// keys that can be read during the call.

unsafe extern "C" fn look_up(context: *mut c_void, key: *const Key) -> usize {
    // SAFETY: see above.
    let (mut state, key) = unsafe { (state(context), &*key) };
    let offset = state.offset(key);
    state.calls.push(Call::LookUp(*key, offset));
    offset.unwrap_or(usize::MAX)
}

unsafe extern "C" fn reserve_space(context: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: see above.
    let mut state = unsafe { state(context) };
    state.calls.push(Call::ReserveSpace(size));
    if state.is_full {
        return std::ptr::null_mut();
    }
    let layout = Layout::from_size_align(size.max(1), ALIGNMENT).unwrap();
    // SAFETY: the layout has a size.
    let block = unsafe { alloc_zeroed(layout) };
    if block.is_null() {
        handle_alloc_error(layout);
    }
    state.blocks.push((block, layout));
    block.cast()
}

unsafe extern "C" fn look_up_or_insert(
    context: *mut c_void,
    key: *const Key,
    packed: *mut c_void,
    size: usize,
) -> usize {
    // SAFETY: see above.
    let (mut state, key) = unsafe { (state(context), &*key) };
    state.calls.push(Call::LookUpOrInsert(*key, size));
    state.offset(key).unwrap_or_else(|| {
        let offset = state.entries.len();
        state.entries.push(packed);
        state.offsets.insert(as_numbers(key), offset);
        offset
    })
}

unsafe extern "C" fn is_finalized(context: *mut c_void) -> bool {
    // SAFETY: see above.
    let mut state = unsafe { state(context) };
    state.calls.push(Call::IsFinalized);
    state.is_finalized
}

unsafe extern "C" fn offset_to_addr(context: *mut c_void, offset: usize) -> *mut c_void {
    // SAFETY: see above.
    let mut state = unsafe { state(context) };
    state.calls.push(Call::OffsetToAddr(offset));
    state.entries.get(offset).copied().unwrap_or(std::ptr::null_mut())
}

unsafe extern "C" fn delete_cache(context: *mut c_void) -> i32 {
    // SAFETY: see above.
    unsafe { state(context) }.calls.push(Call::DeleteCache);
    0
}

unsafe extern "C" fn alias_data(context: *mut c_void, alias: *mut c_void, original: *mut c_void) -> i32 {
    // SAFETY: see above.
    unsafe { state(context) }.calls.push(Call::AliasData(alias.addr(), original.addr()));
    0
}

//! XNNPACK's part is played here; `tests/tests/packs/xnnpack/provider.rs` has the real one.

use std::{ffi::c_void, path::PathBuf, ptr, thread};

use super::{
    abi::{Fingerprint, INVALID_PARAMETER, KeyV2024, KeyV2025, NOT_FOUND, SUCCESS},
    *,
};
use crate::{MissReason, pack::PackOptions};

/// Data before they are packed: only the address of each byte counts.
static WEIGHTS: [u8; 64] = [0; 64];

const MODEL: ModelId = ModelId::from_bytes([1; 32]);
/// The identifier of an algorithm that [`fingerprint`] does not know.
const UNKNOWN: u32 = 99;

fn weight(number: usize) -> *const u8 {
    &raw const WEIGHTS[number]
}

fn place() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("weights.xpwc");
    (directory, path)
}

fn provider(path: &std::path::Path) -> Provider {
    Provider::new(Pack::open(path, PackOptions::default()).unwrap(), Abi::V2025, MODEL)
}

fn key(number: usize, bias: usize) -> KeyV2025 {
    let bias = if bias == 0 { ptr::null() } else { weight(bias).cast() };
    KeyV2025 { before: KeyV2024 { seed: 3, kernel: weight(number).cast(), bias }, fingerprint_id: 5 }
}

unsafe extern "C" fn fingerprint(id: u32) -> *const Fingerprint {
    static KNOWN: Fingerprint = Fingerprint { id: 5, value: 50 };
    if id == UNKNOWN { ptr::null() } else { &raw const KNOWN }
}

unsafe extern "C" fn other_fingerprint(_: u32) -> *const Fingerprint {
    static KNOWN: Fingerprint = Fingerprint { id: 5, value: 51 };
    &raw const KNOWN
}

/// XNNPACK's calls. Safe here, for the provider lives and keys are borrowed.
impl Provider {
    fn table(&self) -> WeightsCacheProvider {
        // SAFETY: the table is the provider's.
        unsafe { *self.as_ptr() }
    }

    fn look_up(&self, key: &KeyV2025) -> Option<usize> {
        let table = self.table();
        // SAFETY: the context is the provider's, and the key can be read.
        let offset = unsafe { (table.look_up)(table.context, (&raw const *key).cast()) };
        (offset != NOT_FOUND).then_some(offset)
    }

    fn reserve(&self, len: usize) -> *mut u8 {
        let table = self.table();
        // SAFETY: the context is the provider's.
        unsafe { (table.reserve_space)(table.context, len) }.cast()
    }

    fn insert(&self, key: &KeyV2025, packed: *mut u8, len: usize) -> Option<usize> {
        let table = self.table();
        // SAFETY: the context is the provider's, and the key can be read.
        let offset =
            unsafe { (table.look_up_or_insert)(table.context, (&raw const *key).cast(), packed.cast(), len) };
        (offset != NOT_FOUND).then_some(offset)
    }

    fn address(&self, offset: usize) -> *mut u8 {
        let table = self.table();
        // SAFETY: the context is the provider's.
        unsafe { (table.offset_to_addr)(table.context, offset) }.cast()
    }

    fn alias(&self, alias: *const u8, original: *const u8) -> i32 {
        let table = self.table();
        // SAFETY: the context is the provider's.
        unsafe { (table.alias_data)(table.context, alias.cast_mut().cast(), original.cast_mut().cast()) }
    }

    /// As an operator is created. Says whether it had to pack, and what it got.
    fn create(&self, key: &KeyV2025, fill: u8) -> (bool, *mut u8) {
        if let Some(offset) = self.look_up(key) {
            return (false, self.address(offset));
        }
        (true, self.pack_again(key, fill))
    }

    /// As an operator is created that does not look before it packs.
    fn pack_again(&self, key: &KeyV2025, fill: u8) -> *mut u8 {
        let packed = self.reserve(256);
        assert!(packed.addr().is_multiple_of(abi::ALIGNMENT) && !packed.is_null());
        // SAFETY: so much was reserved.
        unsafe { packed.write_bytes(fill, 256) };
        self.address(self.insert(key, packed, 256).unwrap())
    }
}

fn first_byte(packed: *mut u8) -> u8 {
    // SAFETY: it was packed, and the pack is open.
    unsafe { *packed }
}

#[test]
fn a_named_weight_is_packed_into_the_file_and_found_by_the_next() {
    let (_directory, path) = place();
    let cold = provider(&path);
    [(weight(1), "w"), (weight(2), "b")].into_iter().for_each(|(data, name)| cold.register(data, name));
    let (has_packed, packed) = cold.create(&key(1, 2), 42);
    assert!(has_packed);
    cold.finalize();
    assert_eq!(cold.pack().save().unwrap().entries, 1);
    assert_eq!(first_byte(packed), 42);
    drop(cold);

    let warm = provider(&path);
    // At other addresses.
    [(weight(11), "w"), (weight(12), "b")].into_iter().for_each(|(data, name)| warm.register(data, name));
    let (has_packed, packed) = warm.create(&key(11, 12), 0);
    assert!(!has_packed);
    assert_eq!(first_byte(packed), 42);
    let statistics = warm.statistics();
    assert_eq!((statistics.hits, statistics.reservations, statistics.packed), (1, 0, 0));
}

#[test]
fn unnamed_weight_is_on_the_heap_until_the_provider_is_dropped() {
    let (_directory, path) = place();
    let one = provider(&path);
    one.register(weight(1), "w");
    for key in [key(3, 0), key(1, 3), key(3, 1)] {
        let (has_packed, packed) = one.create(&key, 7);
        assert!(has_packed);
        assert_eq!(first_byte(packed), 7);
        assert!(one.look_up(&key).is_none());
    }
    assert_eq!(one.statistics().unnamed, 3);
    assert_eq!(one.statistics().misses.of(MissReason::Unnamed), 6);
    assert_eq!(one.pack().save().unwrap().entries, 0);
    assert!(!path.exists());

    let pack = one.pack().clone();
    let other = provider(&path);
    let offset = {
        assert!(other.look_up(&key(3, 0)).is_none());
        let packed = other.reserve(64);
        other.insert(&key(3, 0), packed, 64).unwrap()
    };
    assert!(!one.address(offset).is_null());
    drop(other);
    assert!(one.address(offset).is_null(), "it was the other's alone");
    drop(pack);
}

#[test]
fn a_weight_with_another_bias_is_another_weight() {
    let (_directory, path) = place();
    let provider = provider(&path);
    [(weight(1), "w"), (weight(2), "b"), (weight(3), "c")]
        .into_iter()
        .for_each(|(data, name)| provider.register(data, name));
    let [(_, none), (_, b), (_, c)] =
        [0, 2, 3].map(|bias| provider.create(&key(1, bias), u8::try_from(bias).unwrap()));
    assert_eq!([none, b, c].map(first_byte), [0, 2, 3]);
    for (bias, packed) in [(0, none), (2, b), (3, c)] {
        assert_eq!(provider.create(&key(1, bias), 9), (false, packed));
    }
}

#[test]
fn names_end_with_finalize_and_with_begin() {
    let (_directory, path) = place();
    let provider = provider(&path);
    provider.register(weight(1), "w");
    assert!(!provider.is_finalized() && provider.create(&key(1, 0), 1).0);
    provider.finalize();
    assert!(provider.is_finalized() && provider.registered() == 0);
    assert!(provider.look_up(&key(1, 0)).is_none(), "other data may lie there now");
    provider.register(weight(1), "stale");
    provider.begin();
    assert!(!provider.is_finalized() && provider.registered() == 0);
    provider.register(weight(1), "w");
    assert!(provider.look_up(&key(1, 0)).is_some());
    provider.forget(weight(1));
    assert!(provider.look_up(&key(1, 0)).is_none());
}

#[test]
fn an_alias_finds_what_its_original_is_called() {
    let (_directory, path) = place();
    let provider = provider(&path);
    provider.register(weight(1), "w");
    let (_, packed) = provider.create(&key(1, 0), 8);
    assert_eq!(provider.alias(weight(5), weight(1)), SUCCESS);
    assert_eq!(provider.create(&key(5, 0), 0), (false, packed));
    assert_eq!(provider.alias(weight(5), weight(6)), SUCCESS);
    assert!(provider.look_up(&key(5, 0)).is_none());
    assert_eq!(provider.alias(ptr::null(), ptr::null()), SUCCESS);
}

#[test]
fn another_model_seed_or_algorithm_is_a_miss_with_its_reason() {
    let (_directory, path) = place();
    let pack = || Pack::open(&path, PackOptions::default()).unwrap();
    // SAFETY: both functions return pointers to what is there for ever.
    let of =
        |model, function| unsafe { Provider::new(pack(), Abi::V2025, model).with_fingerprints(function) };
    let first = of(MODEL, fingerprint as FingerprintFn);
    first.register(weight(1), "w");
    first.create(&key(1, 0), 1);
    first.pack().save().unwrap();

    let other = KeyV2025 { before: KeyV2024 { seed: 4, ..key(1, 0).before }, ..key(1, 0) };
    let cases = [
        (of(ModelId::from_bytes([2; 32]), fingerprint), key(1, 0), MissReason::OtherModel),
        (of(MODEL, other_fingerprint), key(1, 0), MissReason::OtherFingerprint),
        (of(MODEL, fingerprint), other, MissReason::OtherSeed),
    ];
    for (provider, key, reason) in cases {
        provider.register(weight(1), "w");
        let (has_packed, packed) = provider.create(&key, 2);
        assert!(has_packed && first_byte(packed) == 2, "{reason:?}");
        assert_eq!(provider.statistics().misses.of(reason), 1);
        assert_eq!(provider.create(&key, 3), (false, packed));
    }
    first.create(&key(1, 0), 4);
    assert_eq!(first.statistics().hits, 1);
}

#[test]
fn what_no_fingerprint_vouches_for_is_not_kept() {
    let (_directory, path) = place();
    // SAFETY: the function returns null or a pointer to what is there for ever.
    let provider = unsafe { provider(&path).with_fingerprints(fingerprint) };
    provider.register(weight(1), "w");
    let unset = KeyV2025 { fingerprint_id: UNKNOWN, ..key(1, 0) };
    assert!(provider.create(&unset, 1).0 && provider.create(&unset, 1).0);
    assert_eq!(provider.statistics().misses.of(MissReason::Uncacheable), 2);
    assert_eq!((provider.statistics().unnamed, provider.pack().save().unwrap().entries), (2, 0));
}

#[test]
fn weight_packed_without_a_look_up_is_saved_and_found() {
    let (_directory, path) = place();
    let cold = provider(&path);
    cold.register(weight(1), "w");
    cold.pack_again(&key(1, 0), 6);
    assert_eq!(cold.pack().save().unwrap().entries, 1);
    let (has_packed, packed) = cold.create(&key(1, 0), 0);
    assert!(!has_packed && first_byte(packed) == 6);
    drop(cold);
    let image = std::fs::read(&path).unwrap();

    let warm = provider(&path);
    warm.register(weight(1), "w");
    let found = warm.address(warm.look_up(&key(1, 0)).unwrap());
    for _ in 0..3 {
        assert_eq!(warm.pack_again(&key(1, 0), 6), found, "the bytes are those of the file");
    }
    assert_eq!(warm.pack().save().unwrap().entries, 0);
    assert_eq!(std::fs::read(&path).unwrap(), image);
}

#[test]
fn what_cannot_be_is_refused() {
    let (_directory, path) = place();
    let provider = provider(&path);
    provider.register(weight(1), "w");
    for absurd in [0, usize::MAX, usize::MAX - 4096, isize::MAX.unsigned_abs(), 1 << 62] {
        assert!(provider.look_up(&key(1, 0)).is_none());
        assert!(provider.reserve(absurd).is_null(), "{absurd}");
    }
    assert!(provider.insert(&key(1, 0), ptr::null_mut(), 64).is_none());
    for key in [key(1, 0), key(3, 0)] {
        assert!(provider.insert(&key, weight(1).cast_mut(), 1).is_none(), "nothing was reserved there");
        assert!(provider.look_up(&key).is_none());
        let packed = provider.reserve(64);
        assert!(provider.insert(&key, packed, 65).is_none(), "less was reserved");
        let offset = provider.insert(&key, packed, 64).unwrap();
        assert_eq!(provider.address(offset), packed);
    }
    assert_eq!(provider.address(NOT_FOUND), ptr::null_mut());
    assert_eq!(provider.address(1 << 40), ptr::null_mut());

    let table = provider.table();
    let (no_key, no_context) = (ptr::null(), ptr::null_mut::<c_void>());
    // SAFETY: null is allowed where a context or key is expected, and answered.
    unsafe {
        assert_eq!((table.look_up)(table.context, no_key), NOT_FOUND);
        assert_eq!((table.look_up_or_insert)(table.context, no_key, ptr::null_mut(), 0), NOT_FOUND);
        assert_eq!((table.look_up)(no_context, no_key), NOT_FOUND);
        assert_eq!((table.look_up_or_insert)(no_context, no_key, ptr::null_mut(), 0), NOT_FOUND);
        assert!((table.reserve_space)(no_context, 1).is_null());
        assert!(!(table.is_finalized)(no_context));
        assert!((table.offset_to_addr)(no_context, 0).is_null());
        assert_eq!((table.delete_cache)(no_context), INVALID_PARAMETER);
        assert_eq!((table.alias_data)(no_context, no_context, no_context), INVALID_PARAMETER);
        assert_eq!((table.delete_cache)(table.context), SUCCESS);
    }
    assert_eq!(provider.statistics().panics, 0);
}

#[test]
fn weight_inserted_twice_or_after_a_hit_is_accepted() {
    let (_directory, path) = place();
    let provider = provider(&path);
    provider.register(weight(1), "w");
    assert!(provider.look_up(&key(1, 0)).is_none());
    let packed = provider.reserve(64);
    let offset = provider.insert(&key(1, 0), packed, 64);
    assert!(offset.is_some());
    assert_eq!(provider.insert(&key(1, 0), packed, 64), offset);
    assert_eq!(provider.insert(&key(1, 0), ptr::null_mut(), 64), offset);
    assert_eq!(provider.look_up(&key(1, 0)), offset);
}

#[test]
fn a_look_up_of_another_provider_or_thread_names_no_space() {
    let (directory, path) = place();
    let one = provider(&path);
    let other = provider(&directory.path().join("other.xpwc"));
    one.register(weight(1), "w");
    assert!(one.look_up(&key(1, 0)).is_none());
    assert!(!other.reserve(64).is_null());
    assert!(one.look_up(&key(1, 0)).is_none());
    thread::scope(|scope| {
        scope.spawn(|| assert!(!one.reserve(64).is_null()));
    });
    assert!(!path.exists() && !other.pack().path().unwrap().exists(), "all went to the heap");
    assert!(!one.reserve(64).is_null());
    assert!(path.exists(), "this one did not");
}

#[test]
fn threads_that_pack_the_same_weights_all_get_the_right_bytes() {
    let (_directory, path) = place();
    let shared = provider(&path);
    (0..32).for_each(|number| shared.register(weight(number), &format!("w{number}")));
    thread::scope(|scope| {
        for start in 0..8 {
            let shared = &shared;
            scope.spawn(move || {
                for step in 0..64 {
                    let number = (start * 5 + step) % 32;
                    let fill = u8::try_from(number).unwrap();
                    assert_eq!(first_byte(shared.create(&key(number, 0), fill).1), fill);
                }
            });
        }
    });
    assert_eq!(shared.pack().save().unwrap().entries, 32);
    drop(shared);
    let warm = provider(&path);
    for number in 0..32 {
        warm.register(weight(number), &format!("w{number}"));
        let (has_packed, packed) = warm.create(&key(number, 0), 0);
        assert_eq!((has_packed, usize::from(first_byte(packed))), (false, number));
    }
}

#[test]
fn an_older_key_is_not_read_beyond_its_end() {
    let (_directory, path) = place();
    let pack = Pack::open(&path, PackOptions::default()).unwrap();
    let older = Provider::new(pack, Abi::V2024, MODEL);
    older.register(weight(1), "w");
    older.create(&key(1, 0), 3);
    let other = KeyV2025 { fingerprint_id: 77, ..key(1, 0) };
    assert!(older.look_up(&other).is_some(), "what lies behind an older key does not count");
}

#[test]
fn weight_that_lost_its_name_during_packing_moves_to_the_heap() {
    let (_directory, path) = place();
    let provider = provider(&path);
    provider.register(weight(1), "w");
    assert!(provider.look_up(&key(1, 0)).is_none());
    let packed = provider.reserve(5000);
    // SAFETY: so much was reserved.
    unsafe { packed.write_bytes(9, 5000) };
    provider.finalize();
    let offset = provider.insert(&key(1, 0), packed, 5000).unwrap();
    provider.pack().save().unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 4096, "of the file there is the header alone");
    assert_eq!(first_byte(provider.address(offset)), 9);
}

#[test]
fn packing_replaced_by_another_is_still_readable_after_a_save() {
    let (_directory, path) = place();
    let provider = provider(&path);
    provider.register(weight(1), "w");
    let pack_into_file = |fill| {
        provider.register(weight(2), "nothing of this name");
        assert!(provider.look_up(&key(2, 0)).is_none());
        provider.pack_again(&key(1, 0), fill)
    };
    pack_into_file(1);
    provider.pack().save().unwrap();
    let (two, one) = (pack_into_file(2), pack_into_file(1));
    assert_eq!(provider.pack().save().unwrap().entries, 0, "it is saved with these bytes");
    assert_eq!([two, one].map(first_byte), [2, 1]);
}

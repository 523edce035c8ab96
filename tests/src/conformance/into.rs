//! A payload that is read into the caller's buffer is the one that was stored.

use warmstart::{Artifact, Limits, MissReason, SystemClock, store::Buffer};
use warmstart_core::{envelope, seal::Seal};

use super::{Harness, OnDisk, store};
use crate::proof::{artifact, verify};

/// Payloads and keys of many lengths: a head that is longer than a page is read in another way.
pub fn get_into_returns_what_get_returns(harness: &dyn Harness) {
    let store = store(harness);
    let mut buffer = vec![0xff; 100];
    for (key_len, len) in [(1, 24), (0, 16), (30, 4096), (4000, 5000), (9000, 70_001), (64, 3 << 20)] {
        let key = vec![7; key_len];
        store.put(&key, &artifact(&key, len as u64, len)).unwrap();
        assert_eq!(store.get_into(&key, &mut buffer), Ok(len));
        assert_eq!(verify(&key, &Artifact::new(buffer.clone())), len as u64);
        assert_eq!(store.get(&key).unwrap().payload(), buffer);
        let mut exact = vec![0; len];
        assert_eq!(store.get_into(&key, &mut &mut exact[..]), Ok(len));
        assert_eq!(exact, buffer);
        assert_eq!(store.get_into(&key, &mut &mut exact[1..]), Err(MissReason::TooLong));
    }
    store.put(b"key", &artifact(b"key", 1, 100)).unwrap();
    for wrong in [0, 99, 101] {
        assert_eq!(store.get_into(b"key", &mut Wrong(vec![0; wrong])), Err(MissReason::TooLong));
    }
    store.put(b"empty", &Artifact::new(Vec::new())).unwrap();
    assert_eq!((store.get_into(b"empty", &mut buffer), buffer.len()), (Ok(0), 0));
    assert_eq!(store.get_into(b"absent", &mut buffer), Err(MissReason::Absent));
    store.close().unwrap();
    assert_eq!(store.get_into(b"empty", &mut buffer), Err(MissReason::Closed));
}

/// Returns room of another length than was asked for.
struct Wrong(Vec<u8>);

impl Buffer for Wrong {
    fn room(&mut self, _: usize) -> Option<&mut [u8]> {
        Some(&mut self.0)
    }
}

/// Every bit of an entry matters, in its head and in its payload.
pub fn get_into_returns_no_damaged_payload(harness: &dyn OnDisk) {
    let store = harness.open_default();
    let (key, mut buffer) = (b"key", Vec::new());
    store.put(key, &artifact(key, 1, 20)).unwrap();
    let mut len = 0;
    harness.damage(key, &mut |bytes| len = bytes.len());
    for at in 0..len {
        store.put(key, &artifact(key, 1, 20)).unwrap();
        harness.damage(key, &mut |bytes| bytes[at] ^= 0x10);
        let reason = store.get_into(key, &mut buffer).unwrap_err();
        assert!(reason.is_damage(), "byte {at}: {reason:?}");
        assert_eq!(store.get_into(key, &mut buffer), Err(MissReason::Absent), "damage is removed");
    }
    store.put(key, &artifact(key, 1, 20)).unwrap();
    harness.damage(key, &mut |bytes| bytes.truncate(len - 1));
    assert!(store.get_into(key, &mut buffer).unwrap_err().is_damage());
}

/// An intact entry that is another key's, or that is sealed where the store is not or the other way round, is a miss.
pub fn get_into_returns_no_payload_of_another_key_or_seal(harness: &dyn OnDisk) {
    let store = harness.open_default();
    let seal = Seal::new(&[9; 32]);
    let (seal, expected) = match harness.secret() {
        None => (Some(&seal), MissReason::Sealed),
        Some(_) => (None, MissReason::Unsealed),
    };
    // Short, in one page, in two, and in several pieces.
    for len in [100, 3_800, 5_000, 600_000] {
        let mut other = Vec::new();
        store.put(b"oth", &artifact(b"oth", 1, len)).unwrap();
        harness.damage(b"oth", &mut |bytes| other.clone_from(bytes));
        let sealed = envelope::encode(b"key", &artifact(b"key", 1, len), seal).unwrap().to_vec();
        for (wrong, expected) in [(other, MissReason::KeyMismatch), (sealed, expected)] {
            store.put(b"key", &artifact(b"key", 1, len)).unwrap();
            harness.damage(b"key", &mut |bytes| bytes.clone_from(&wrong));
            assert_eq!(store.get_into(b"key", &mut Vec::new()), Err(expected), "{len} bytes");
        }
    }
}

/// A payload of several pieces is verified as they are read.
pub fn damage_in_any_piece_of_a_large_entry_is_noticed(harness: &dyn OnDisk) {
    const LEN: usize = 600_000;
    let store = harness.open_default();
    let (key, mut buffer) = (b"key", Vec::new());
    for damage in [100, 130, 4095, 4096, 262_143, 262_144, 266_240, 524_288, LEN, usize::MAX] {
        for into in [false, true] {
            store.put(key, &artifact(key, 1, LEN)).unwrap();
            assert_eq!(store.get(key).unwrap().payload(), artifact(key, 1, LEN).payload());
            assert_eq!(store.get_into(key, &mut buffer), Ok(LEN));
            assert_eq!(buffer, artifact(key, 1, LEN).payload());
            harness.damage(key, &mut |bytes| match bytes.get_mut(damage) {
                Some(byte) => *byte ^= 1,
                None => bytes.truncate(bytes.len() - 300_000),
            });
            let found = if into { store.get_into(key, &mut buffer).err() } else { store.get(key).err() };
            assert!(found.is_some_and(MissReason::is_damage), "byte {damage}: {found:?}");
            assert_eq!(store.get(key).err(), Some(MissReason::Absent), "damage is removed");
        }
    }
}

/// A payload read into a buffer counts as an access.
pub fn get_into_counts_as_a_use(harness: &dyn Harness) {
    let limits = Limits { max_entries: Some(2), ..Limits::NONE };
    let store = harness.open(limits, std::sync::Arc::new(SystemClock));
    let mut buffer = Vec::new();
    for key in [b"a", b"b"] {
        store.put(key, &artifact(key, 1, 100)).unwrap();
    }
    store.get_into(b"a", &mut buffer).unwrap();
    store.put(b"c", &artifact(b"c", 1, 100)).unwrap();
    assert_eq!(store.get_into(b"b", &mut buffer), Err(MissReason::Absent));
    assert_eq!(store.get_into(b"a", &mut buffer), Ok(100));
}

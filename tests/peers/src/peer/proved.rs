//! A peer with a checksum: what any program could add to it.

use std::hint::black_box;

use xxhash_rust::xxh3::xxh3_64;

use super::Peer;
use crate::value::{Key, Value};

/// A peer that stores the bytes that it is told to.
pub(super) trait Raw: Send + Sync {
    fn put_raw(&self, key: &Key, bytes: &[u8]);

    fn get_raw(&self, key: &Key, show: &mut dyn FnMut(&[u8])) -> bool;
}

/// Stores the payload as it is.
pub(super) struct Plain<R>(pub(super) R);

/// Stores the XXH3 of the payload behind it, checks it at a hit, and hands out bytes of one's own. A peer that is asked for
/// a copy anyway is copied once more only if it `shows_a_view`.
pub(super) struct Proved<R> {
    pub(super) raw: R,
    pub(super) shows_a_view: bool,
}

impl<R: Raw> Peer for Plain<R> {
    fn put(&self, key: &Key, value: &Value) {
        self.0.put_raw(key, value.payload());
    }

    fn get(&self, key: &Key, show: &mut dyn FnMut(&[u8])) -> bool {
        self.0.get_raw(key, show)
    }
}

impl<R: Raw> Peer for Proved<R> {
    fn put(&self, key: &Key, value: &Value) {
        black_box(xxh3_64(black_box(value.payload())));
        self.raw.put_raw(key, value.with_sum());
    }

    fn get(&self, key: &Key, show: &mut dyn FnMut(&[u8])) -> bool {
        let mut whole = false;
        let found = self.raw.get_raw(key, &mut |bytes| {
            // The bytes of a mapping may change while they are checked, so they are copied first.
            let own = self.shows_a_view.then(|| bytes.to_vec());
            let bytes = own.as_deref().unwrap_or(bytes);
            if let Some((payload, sum)) = bytes.split_last_chunk::<8>()
                && xxh3_64(payload) == u64::from_le_bytes(*sum)
            {
                whole = true;
                show(payload);
            }
        });
        found && whole
    }
}

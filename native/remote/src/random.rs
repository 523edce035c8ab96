//! Numbers for jitter and for names of files: no secrets.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
};

/// Returns any number.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

//! The cost of sealing, against BLAKE2b of the same bytes.

use std::{fs, hint::black_box};

use blake2::{
    Blake2bMac,
    digest::{Mac, consts::U32},
};
use warmstart::{
    Key, Seal, Store,
    store::{FileStore, StoreOptions},
};
use warmstart_core::envelope;
use warmstart_tests::proof::artifact;

use super::{SIZES, medium::Medium};
use crate::{
    Rows,
    measure::{Comparison, Plan},
    row::Compared,
};

const SECRET: [u8; 32] = [7; 32];

/// Bytes of payload in a directory that is read, and that are stored before the directories are emptied.
const BYTES: usize = 32 << 20;

/// The bound of sealing: a multiple of BLAKE2b of the same bytes.
const BOUND: f64 = 1.1;

/// The bytes of a sealed envelope before the payload, if the key has 32 and there is no metadata.
const HEAD: [u8; 128] = [1; 128];

/// The rows of sealed stores, on a tmpfs if there is one: a slow disk would hide what sealing costs.
pub(super) fn rows(plan: &Plan) -> Rows {
    let medium = Medium::tmpfs()?.map_or_else(Medium::disk, Ok)?;
    let mut rows = Vec::new();
    for (label, size) in SIZES {
        rows.extend(hit(plan, &medium, label, size)?);
    }
    for (label, size) in SIZES {
        rows.extend(put(plan, &medium, label, size)?);
    }
    for (label, size) in SIZES {
        rows.extend(alone(plan, label, size)?);
    }
    Ok(rows)
}

/// A hit of a sealed store. The floor is a hit of the same store without a seal, and keyed BLAKE2b-256 of as many bytes as
/// the sealed entry has.
fn hit(plan: &Plan, medium: &Medium, label: &str, size: usize) -> Rows {
    let (sealed, plain) = stores(medium)?;
    let keys: Vec<Key> = (0..(BYTES / size).min(1000)).map(|n| Key::digest(&n.to_le_bytes())).collect();
    for key in &keys {
        for store in [&sealed, &plain] {
            store.put(key.as_bytes(), &artifact(key.as_bytes(), 1, size))?;
            store.get(key.as_bytes()).ok().ok_or("sealed_hit: an entry was not kept")?;
        }
    }
    let at = |call: u64| keys[(call as usize).wrapping_mul(619) % keys.len()].as_bytes();
    let floor = |call| plain.get(at(call)).ok().map(|found| (raw(found.payload()), found));
    let compared = plan.compare(|call| sealed.get(at(call)).ok(), floor);
    finish(medium, &format!("sealed_hit/{label}"), compared)
}

/// A put of a sealed store. The floor is a put of the same store without a seal, and keyed BLAKE2b-256 of as many bytes as
/// the sealed entry has.
fn put(plan: &Plan, medium: &Medium, label: &str, size: usize) -> Rows {
    let (sealed, plain) = stores(medium)?;
    let artifact = artifact(b"any", 1, size);
    let empty = || {
        sealed.clear().expect("the store can be cleared");
        plain.clear().expect("the store can be cleared");
    };
    let mut stored = 0;
    let between = |calls: u64| {
        stored += calls as usize * size;
        if stored >= BYTES {
            stored = 0;
            empty();
        }
    };
    let key = |call: u64| {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&call.to_le_bytes());
        key
    };
    let put = |store: &FileStore, call| store.put(&key(call), &artifact).expect("there is room");
    let compared = plan.compare_with(
        |call| put(&sealed, call),
        |call| (raw(artifact.payload()), put(&plain, call)),
        between,
    );
    finish(medium, &format!("sealed_put/{label}"), compared)
}

/// Checking and making a sealed envelope in memory, where nothing else is measured. The floor does the same to one without a
/// seal, and keyed BLAKE2b-256 of as many bytes.
fn alone(plan: &Plan, label: &str, size: usize) -> Rows {
    let (key, artifact, seal) = ([1; 32], artifact(b"any", 1, size), Seal::new(&SECRET));
    let plain = envelope::encode(&key, &artifact, None)?.to_vec();
    let sealed = envelope::encode(&key, &artifact, Some(&seal))?.to_vec();
    if plain.len() != sealed.len() || sealed.len() != HEAD.len() + size {
        return Err("seal: the floor does not hash as many bytes".into());
    }
    let checked = plan.compare(
        |_| envelope::verify(black_box(&sealed), Some(&seal)),
        |_| (envelope::verify(black_box(&plain), None), raw(artifact.payload())),
    );
    let made = plan.compare(
        |_| envelope::encode(&key, &artifact, Some(&seal)).map(|encoded| encoded.len()),
        |_| (envelope::encode(&key, &artifact, None).map(|encoded| encoded.len()), raw(artifact.payload())),
    );
    let rows = |name: &str, compared: Comparison| compared.rows(&format!("{name}/{label}"), "floor", BOUND);
    Ok([rows("seal_checked", checked), rows("seal_made", made)].concat())
}

fn stores(medium: &Medium) -> Result<(FileStore, FileStore), Box<dyn std::error::Error>> {
    let options = StoreOptions::default;
    let sealed = FileStore::open(medium.path("sealed"), options().with_seal(Seal::new(&SECRET)))?;
    Ok((sealed, FileStore::open(medium.path("plain"), options())?))
}

/// The floor of sealing: BLAKE2b with a key, a personalisation and 32 bytes of output.
fn raw(payload: &[u8]) -> [u8; 32] {
    let keyed = Blake2bMac::<U32>::new_with_salt_and_personal(Some(&SECRET), &[], b"warmstart bench1");
    let keyed = keyed.expect("the lengths are within BLAKE2b's limits");
    keyed.chain_update(black_box(&HEAD)).chain_update(black_box(payload)).finalize().into_bytes().into()
}

fn finish(medium: &Medium, name: &str, compared: Comparison) -> Rows {
    fs::remove_dir_all(medium.path("sealed"))?;
    fs::remove_dir_all(medium.path("plain"))?;
    Ok(compared.rows(name, "floor", BOUND).map(|row| row.on(medium.name)).to_vec())
}

//! The file store against the system calls that it cannot do without.

use std::{
    error::Error,
    fs::{self, File, OpenOptions},
    hint::black_box,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    time::Instant,
};

use warmstart::{
    Artifact, Key, Limits, Store,
    store::{FileStore, StoreOptions},
};
use warmstart_core::envelope;
use warmstart_tests::proof::artifact;
use xxhash_rust::xxh3::xxh3_64;

use super::{SIZES, get_into, medium::Medium};
use crate::{
    Rows,
    measure::{Plan, median},
    row::{Compared, Row, Sense},
};

/// Bytes of payload in a directory that is read, so that all sizes fit in memory alike.
const READ_BYTES: usize = 32 << 20;

/// Bytes of payload that are stored before the directories are emptied.
const PUT_BYTES: usize = 64 << 20;

/// The rows of the file store.
pub(super) fn rows(plan: &Plan) -> Rows {
    let disk = Medium::disk()?;
    let tmpfs = Medium::tmpfs()?;
    let mut rows = Vec::new();
    for medium in tmpfs.iter().chain([&disk]) {
        for (label, size) in SIZES {
            rows.extend(hit(plan, medium, label, size)?);
        }
    }
    for (label, size) in SIZES {
        if let Some(tmpfs) = &tmpfs {
            rows.extend(put(plan, tmpfs, &format!("files_put/{label}"), size, false, 1.3)?);
        }
        rows.extend(put(plan, &disk, &format!("files_put_durable/{label}"), size, true, 1.2)?);
    }
    for medium in tmpfs.iter().chain([&disk]) {
        rows.extend(many(plan, medium)?);
    }
    Ok(rows)
}

fn hit(plan: &Plan, medium: &Medium, label: &str, size: usize) -> Rows {
    let root = medium.path(&format!("hit-{label}"));
    let store = FileStore::open(&root, StoreOptions::default())?;
    let keys: Vec<Key> = (0..(READ_BYTES / size).min(1000)).map(|n| Key::digest(&n.to_le_bytes())).collect();
    let mut paths = Vec::new();
    for key in &keys {
        store.put(key.as_bytes(), &artifact(key.as_bytes(), 1, size))?;
        store.get(key.as_bytes()).ok().ok_or("files_hit: an entry was not kept")?;
        let path = root.join("entries").join(Key::digest(key.as_bytes()).to_string());
        read_and_hash(&path)?;
        paths.push(path);
    }
    let at = |call: u64| (call as usize).wrapping_mul(619) % keys.len();
    let compared = plan.compare(
        |call| store.get(keys[at(call)].as_bytes()).ok(),
        |call| read_and_hash(&paths[at(call)]).ok(),
    );
    let mut rows = compared.rows(&format!("files_hit/{label}"), "floor", 1.3).to_vec();
    let (mut ours, mut raw) = (Vec::new(), Vec::new());
    let compared = plan.compare(
        |call| store.get_into(keys[at(call)].as_bytes(), &mut ours),
        |call| read_into_and_hash(&paths[at(call)], &mut raw).ok(),
    );
    rows.extend(get_into(&compared, label, "files"));
    fs::remove_dir_all(&root)?;
    Ok(rows.into_iter().map(|row| row.on(medium.name)).collect())
}

/// The floor of a hit that is read into a buffer: as [`read_and_hash`], into a buffer that is there.
fn read_into_and_hash(path: &Path, buffer: &mut Vec<u8>) -> io::Result<u64> {
    let mut file = no_follow().read(true).open(path)?;
    buffer.resize(file.metadata()?.len() as usize, 0);
    file.read_exact(buffer)?;
    Ok(xxh3_64(black_box(buffer)))
}

/// The floor of a hit: open without following links, fstat, read, close, checksum.
fn read_and_hash(path: &Path) -> io::Result<(u64, Vec<u8>)> {
    let file = no_follow().read(true).open(path)?;
    let len = file.metadata()?.len();
    let mut bytes = Vec::with_capacity(len as usize);
    file.take(len).read_to_end(&mut bytes)?;
    Ok((xxh3_64(black_box(&bytes)), bytes))
}

fn put(plan: &Plan, medium: &Medium, name: &str, size: usize, durable: bool, bound: f64) -> Rows {
    let (root, floor) = (medium.path("put"), medium.path("floor"));
    let store = FileStore::open(&root, StoreOptions::default().with_durability(durable))?;
    let floor_entries = floor.join("entries");
    fs::create_dir_all(floor.join("tmp"))?;
    fs::create_dir_all(&floor_entries)?;
    // One artifact under ever new keys, as the floor writes the bytes of one entry under ever new names.
    let artifact = artifact(b"any", 1, size);
    let entry = envelope::encode(&0u64.to_le_bytes(), &artifact, None)?.to_vec();
    let empty = || {
        store.clear().expect("the store can be cleared");
        for entry in fs::read_dir(&floor_entries).expect("it is a directory").flatten() {
            fs::remove_file(entry.path()).expect("it can be removed");
        }
    };
    let against = |bytes: &[u8]| {
        empty();
        let mut stored = 0;
        plan.compare_with(
            |call| store.put(&call.to_le_bytes(), &artifact).expect("there is room"),
            |call| write_and_rename(&floor, call, bytes, durable).expect("there is room"),
            |calls| {
                stored += calls as usize * size;
                if stored >= PUT_BYTES {
                    stored = 0;
                    empty();
                }
            },
        )
    };
    let mut rows = against(&entry).rows(name, "floor", bound).map(|row| row.on(medium.name)).to_vec();
    // The floor with a header: the least work that keeps the payload, without verifying it.
    let without_header = (against(artifact.payload()).ratio(), "ratio");
    rows.push(Row::note(format!("{name}/payload_alone"), without_header, "floor").on(medium.name));
    fs::remove_dir_all(&root)?;
    fs::remove_dir_all(&floor)?;
    Ok(rows)
}

/// The floor of a put: checksum, create, write, rename into place; with fsync of file and directory if durable. The bytes
/// are those that the store writes for the artifact, as the floor of a hit reads those that the store reads.
fn write_and_rename(floor: &Path, call: u64, entry: &[u8], durable: bool) -> io::Result<u64> {
    let sum = xxh3_64(entry);
    let name = format!("{call:064x}");
    let temp = floor.join("tmp").join(&name);
    let mut file = no_follow().write(true).create_new(true).open(&temp)?;
    file.write_all(entry)?;
    if durable {
        file.sync_all()?;
    }
    drop(file);
    let entries = floor.join("entries");
    fs::rename(temp, entries.join(name))?;
    if durable {
        File::open(entries)?.sync_all()?;
    }
    Ok(sum)
}

/// Measures a put at the cap and an open in a directory of many entries.
fn many(plan: &Plan, medium: &Medium) -> Rows {
    const MANY: u64 = 50_000;
    const FEW: u64 = 100;
    let options = |entries| {
        StoreOptions::default().with_limits(Limits { max_entries: Some(entries), max_bytes: Some(u64::MAX) })
    };
    let filled = |entries: u64| -> Result<(FileStore, PathBuf), Box<dyn Error>> {
        let root = medium.path(&format!("at-cap-{entries}"));
        let store = FileStore::open(&root, options(entries))?;
        for n in 0..entries {
            store.put(&n.to_le_bytes(), &Artifact::new(vec![0; 1024]))?;
        }
        Ok((store, root))
    };
    let (many, many_root) = filled(MANY)?;
    let (few, few_root) = filled(FEW)?;
    let artifact = Artifact::new(vec![1; 1024]);
    let put = |store: &FileStore, call: u64| {
        let stored = store.put(&(call + (1 << 32)).to_le_bytes(), &artifact).expect("there is room");
        assert_eq!(stored, 1);
    };
    let compared = plan.compare(|call| put(&many, call), |call| put(&few, call));
    let mut rows: Vec<Row> =
        compared.rows("files_put_at_cap/50000", "100 entries", 1.5).map(|row| row.on(medium.name)).to_vec();

    let (mut opens, mut first_puts) = (Vec::new(), Vec::new());
    for n in 0..11u64 {
        let start = Instant::now();
        let store = FileStore::open(&many_root, options(MANY))?;
        opens.push(start.elapsed().as_secs_f64() * 1e3);
        store.put(&(n + (1 << 48)).to_le_bytes(), &artifact)?;
        first_puts.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let opened = (median(opens), "ms");
    rows.push(Row::bounded("files_open/50000", opened, "limit", Sense::AtMost, 10.0).on(medium.name));
    // The first put reads the accounts that the open did not need.
    rows.push(
        Row::note("files_open/50000/and_first_put", (median(first_puts), "ms"), "none").on(medium.name),
    );
    drop((many, few));
    fs::remove_dir_all(many_root)?;
    fs::remove_dir_all(few_root)?;
    Ok(rows)
}

#[cfg(unix)]
fn no_follow() -> OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;

    let mut options = OpenOptions::new();
    options.mode(0o600).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    options
}

#[cfg(not(unix))]
fn no_follow() -> OpenOptions {
    OpenOptions::new()
}

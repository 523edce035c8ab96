//! Detects which store a path leads to, without opening anything that could block or that a link leads to.

use std::{
    fs,
    io::{self, Read},
    path::Path,
};

use warmstart_core::{journal, key::Key, reason::MissReason};

use super::files::{ENTRIES, JOURNAL, TAG, TAG_FILE};
use crate::os::{private_options, with_suffix};

/// "WSCA", the application id in the header of every warmstart database.
pub(super) const APPLICATION_ID: i32 = 0x5753_4341;

/// The first bytes of every SQLite database.
pub(super) const DATABASE: &[u8; 16] = b"SQLite format 3\0";

/// The bytes of the header that hold the application id.
const APPLICATION_AT: usize = 68;

/// The kind of store at a path, as [`detect`] finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Detected {
    /// A cache directory. Open it with [`FileStore`](super::FileStore).
    Files,
    /// A warmstart database, damaged or not, or one whose application id is not yet in the database file. `SqliteStore` opens it,
    /// or refuses it.
    Sqlite,
    /// An SQLite database of another application.
    OtherDatabase,
    /// Not a store.
    Other,
}

/// Detects which store `path` leads to. Follows a link at `path` itself, and no other. Creates and changes nothing, and never
/// blocks on a pipe. One sign suffices, so that a damaged store is detected too.
///
/// Do not call this for a database that this process has open. Where locks belong to a process, as on Unix, closing any file
/// descriptor of the database releases SQLite's locks.
///
/// ```
/// use warmstart::store::{FileStore, StoreOptions, Detected, detect};
///
/// let directory = tempfile::tempdir()?;
/// assert_eq!(detect(directory.path())?, Detected::Other);
/// FileStore::open(directory.path(), StoreOptions::default())?;
/// assert_eq!(detect(directory.path())?, Detected::Files);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Those of the system, such as [`io::ErrorKind::NotFound`] if nothing is at `path`.
pub fn detect(path: &Path) -> io::Result<Detected> {
    let path = &fs::canonicalize(path)?;
    let metadata = fs::symlink_metadata(path)?;
    if metadata.is_dir() {
        return Ok(if is_cache(path) { Detected::Files } else { Detected::Other });
    }
    if !metadata.is_file() {
        return Ok(Detected::Other);
    }
    let head = head(path, APPLICATION_AT + size_of::<i32>())?;
    if !head.starts_with(DATABASE) {
        return Ok(Detected::Other);
    }
    let application = head.get(APPLICATION_AT..).and_then(|bytes| bytes.try_into().ok());
    Ok(match application.map(i32::from_be_bytes) {
        Some(APPLICATION_ID) => Detected::Sqlite,
        // The newest pages, possibly with the application id, stay in the log until a checkpoint.
        Some(0) if has_log(path) => Detected::Sqlite,
        _ => Detected::OtherDatabase,
    })
}

fn is_cache(path: &Path) -> bool {
    let begins = |name: &str, len: usize| head(&path.join(name), len).unwrap_or_default();
    let has_journal = || {
        let checked = journal::check_header(&begins(JOURNAL, journal::HEADER_LEN));
        !matches!(checked, Err(MissReason::Foreign | MissReason::Truncated))
    };
    let has_entries = || {
        let entries = path.join(ENTRIES);
        // Directories of others, which a link could lead to, are not listed.
        let is_directory = fs::symlink_metadata(&entries).is_ok_and(|metadata| metadata.is_dir());
        let names = is_directory.then(|| fs::read_dir(entries)).into_iter().flatten().flatten().flatten();
        names.take(16).any(|entry| entry.file_name().to_str().and_then(Key::from_hex).is_some())
    };
    has_journal() || begins(TAG_FILE, TAG.len()) == TAG || has_entries()
}

fn has_log(path: &Path) -> bool {
    fs::symlink_metadata(with_suffix(path, "-wal"))
        .is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0)
}

/// Reads up to `len` bytes from the start of a regular file.
fn head(path: &Path, len: usize) -> io::Result<Vec<u8>> {
    let unless_regular = |metadata: &fs::Metadata| {
        if metadata.is_file() { Ok(()) } else { Err(io::Error::from(io::ErrorKind::InvalidInput)) }
    };
    // Opening a device can have side effects.
    unless_regular(&fs::symlink_metadata(path)?)?;
    let file = private_options().read(true).open(path)?;
    unless_regular(&file.metadata()?)?;
    let mut bytes = Vec::with_capacity(len);
    file.take(len as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database(application: [u8; 4]) -> Vec<u8> {
        let mut bytes = vec![0; 4096];
        bytes[..DATABASE.len()].copy_from_slice(DATABASE);
        bytes[APPLICATION_AT..][..4].copy_from_slice(&application);
        bytes
    }

    #[test]
    fn database_without_an_id_is_ours_if_it_has_a_log() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("database");
        let log = directory.path().join("database-wal");
        let detected = |application: &[u8; 4], logged: &[u8]| {
            fs::write(&path, database(*application)).unwrap();
            fs::write(&log, logged).unwrap();
            detect(&path).unwrap()
        };
        assert_eq!(detected(b"WSCA", b""), Detected::Sqlite);
        assert_eq!(detected(&[0; 4], b""), Detected::OtherDatabase);
        assert_eq!(detected(&[0; 4], b"log"), Detected::Sqlite);
        assert_eq!(detected(b"GPKG", b"log"), Detected::OtherDatabase);
        fs::write(&path, &DATABASE[..15]).unwrap();
        assert_eq!(detect(&path).unwrap(), Detected::Other);
    }

    #[cfg(unix)]
    #[test]
    fn links_below_the_given_path_are_not_followed() {
        use std::os::unix::fs::symlink;

        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir(at("store")).unwrap();
        fs::write(at("store").join(JOURNAL), journal::header()).unwrap();
        symlink(at("store"), at("link")).unwrap();
        assert_eq!(detect(&at("link")).unwrap(), Detected::Files);

        for name in [JOURNAL, TAG_FILE, ENTRIES] {
            let foreign = at(&format!("with {name}"));
            fs::create_dir(&foreign).unwrap();
            fs::create_dir_all(at("store").join(ENTRIES).join("0".repeat(64))).unwrap();
            fs::write(at("store").join(TAG_FILE), TAG).unwrap();
            symlink(at("store").join(name), foreign.join(name)).unwrap();
            assert_eq!(detect(&foreign).unwrap(), Detected::Other, "{name}");
        }
    }
}

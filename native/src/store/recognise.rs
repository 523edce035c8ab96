//! Which store a path leads to, found out without opening anything that could block or that leads elsewhere.

use std::{
    ffi::OsString,
    fs,
    io::{self, Read},
    path::Path,
};

use warmstart_core::{journal, key::Key, reason::Reason};

use super::files::{ENTRIES, JOURNAL, TAG, TAG_FILE};
use crate::os::private_options;

/// "WSCA", in the header of every SQLite database of ours.
pub(super) const APPLICATION_ID: i32 = 0x5753_4341;

/// How every SQLite database begins.
pub(super) const DATABASE: &[u8; 16] = b"SQLite format 3\0";

/// Where the number of the application is in it.
const APPLICATION_AT: usize = 68;

/// What a path leads to, as [`recognise`] finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recognised {
    /// A cache directory: [`FileStore`](super::FileStore) opens it.
    Files,
    /// A database of ours, however damaged, or one of which only opening it tells whose it is: `SqliteStore` opens it, or
    /// refuses it.
    Sqlite,
    /// Another application's SQLite database.
    OtherDatabase,
    /// No store.
    Other,
}

/// Says which store `path` leads to. A link at `path` itself is followed, others are not. Changes nothing, makes nothing,
/// and never waits for a pipe. One sign is enough, so that a store is known however damaged it is.
///
/// Do not ask this about a database that this process has open: where locks belong to a process, as on Unix, closing any
/// file of it gives up SQLite's locks.
///
/// ```
/// use warmstart::store::{FileOptions, FileStore, Recognised, recognise};
///
/// let directory = tempfile::tempdir()?;
/// assert_eq!(recognise(directory.path())?, Recognised::Other);
/// FileStore::open(directory.path(), FileOptions::default())?;
/// assert_eq!(recognise(directory.path())?, Recognised::Files);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As the system reports: [`io::ErrorKind::NotFound`] if there is nothing at `path`.
pub fn recognise(path: &Path) -> io::Result<Recognised> {
    let path = &fs::canonicalize(path)?;
    let metadata = fs::symlink_metadata(path)?;
    if metadata.is_dir() {
        return Ok(if is_cache(path) { Recognised::Files } else { Recognised::Other });
    }
    if !metadata.is_file() {
        return Ok(Recognised::Other);
    }
    let head = head(path, APPLICATION_AT + size_of::<i32>())?;
    if !head.starts_with(DATABASE) {
        return Ok(Recognised::Other);
    }
    let application = head.get(APPLICATION_AT..).and_then(|bytes| bytes.try_into().ok());
    Ok(match application.map(i32::from_be_bytes) {
        Some(APPLICATION_ID) => Recognised::Sqlite,
        // What was written last, the number perhaps too, is in the log until it is copied over.
        Some(0) if has_log(path) => Recognised::Sqlite,
        _ => Recognised::OtherDatabase,
    })
}

fn is_cache(path: &Path) -> bool {
    let begins = |name: &str, len: usize| head(&path.join(name), len).unwrap_or_default();
    let has_journal = || {
        let checked = journal::check_header(&begins(JOURNAL, journal::HEADER_LEN));
        !matches!(checked, Err(Reason::Foreign | Reason::Truncated))
    };
    let has_entries = || {
        let entries = path.join(ENTRIES);
        // Nobody else's directory, which a link could lead to, is listed.
        let is_directory = fs::symlink_metadata(&entries).is_ok_and(|metadata| metadata.is_dir());
        let names = is_directory.then(|| fs::read_dir(entries)).into_iter().flatten().flatten().flatten();
        names.take(16).any(|entry| entry.file_name().to_str().and_then(Key::from_hex).is_some())
    };
    has_journal() || begins(TAG_FILE, TAG.len()) == TAG || has_entries()
}

fn has_log(path: &Path) -> bool {
    let mut log = OsString::from(path);
    log.push("-wal");
    fs::symlink_metadata(log).is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0)
}

/// The first bytes of a regular file, or all that there are.
fn head(path: &Path, len: usize) -> io::Result<Vec<u8>> {
    let unless_regular = |metadata: &fs::Metadata| {
        if metadata.is_file() { Ok(()) } else { Err(io::Error::from(io::ErrorKind::InvalidInput)) }
    };
    // To open a device can do something.
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
    fn a_database_without_a_number_may_have_it_in_its_log() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("it");
        let log = directory.path().join("it-wal");
        let recognised = |application: &[u8; 4], logged: &[u8]| {
            fs::write(&path, database(*application)).unwrap();
            fs::write(&log, logged).unwrap();
            recognise(&path).unwrap()
        };
        assert_eq!(recognised(b"WSCA", b""), Recognised::Sqlite);
        assert_eq!(recognised(&[0; 4], b""), Recognised::OtherDatabase);
        assert_eq!(recognised(&[0; 4], b"log"), Recognised::Sqlite);
        assert_eq!(recognised(b"GPKG", b"log"), Recognised::OtherDatabase);
        fs::write(&path, &DATABASE[..15]).unwrap();
        assert_eq!(recognise(&path).unwrap(), Recognised::Other);
    }

    #[cfg(unix)]
    #[test]
    fn only_the_link_that_was_named_is_followed() {
        use std::os::unix::fs::symlink;

        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir(at("store")).unwrap();
        fs::write(at("store").join(JOURNAL), journal::header()).unwrap();
        symlink(at("store"), at("link")).unwrap();
        assert_eq!(recognise(&at("link")).unwrap(), Recognised::Files);

        for name in [JOURNAL, TAG_FILE, ENTRIES] {
            let foreign = at(&format!("with {name}"));
            fs::create_dir(&foreign).unwrap();
            fs::create_dir_all(at("store").join(ENTRIES).join("0".repeat(64))).unwrap();
            fs::write(at("store").join(TAG_FILE), TAG).unwrap();
            symlink(at("store").join(name), foreign.join(name)).unwrap();
            assert_eq!(recognise(&foreign).unwrap(), Recognised::Other, "{name}");
        }
    }
}

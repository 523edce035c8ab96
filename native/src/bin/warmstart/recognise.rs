//! What a path leads to, found out without opening anything that could block or that belongs to somebody else.

use std::{
    fs::{self, File, FileType},
    io::{self, Read},
    path::Path,
};

use warmstart::Key;

use crate::{failure::Failure, text::visible_path};

/// How the journal of a cache directory begins, and its tag: docs/format.md has both.
const JOURNAL: &[u8] = b"\x89WSJ\r\n\x1a\n";
const TAG: &[u8] = b"made by warmstart";

/// How an SQLite database begins, and the number by which ours are known, which is at byte 68.
const SQLITE: &[u8] = b"SQLite format 3\0";
const APPLICATION: &[u8] = b"WSCA";
const APPLICATION_AT: usize = 68;

/// What a store is kept as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Files,
    Sqlite,
}

impl Kind {
    /// The name for programs.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Sqlite => "sqlite",
        }
    }

    /// What a person calls it.
    pub(crate) const fn noun(self) -> &'static str {
        match self {
            Self::Files => "directory",
            Self::Sqlite => "SQLite file",
        }
    }
}

/// Which store `path` is.
pub(crate) fn recognise(path: &Path) -> Result<Kind, Failure> {
    let shown = visible_path(path);
    let foreign =
        |found: &str| Failure::new("not_a_store", format!("{shown} is {found}, not a warmstart store"));
    let unreadable = |error: &io::Error| Failure::new("unreadable", format!("cannot read {shown}: {error}"));
    let metadata = fs::metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Failure::new("missing", format!("there is nothing at {shown}")),
        _ => unreadable(&error),
    })?;
    if metadata.is_dir() {
        return match directory(path).map_err(|error| unreadable(&error))? {
            Directory::Ours => Ok(Kind::Files),
            Directory::Empty => Err(Failure::new(
                "not_a_store",
                format!("{shown} is an empty directory: nothing was stored there"),
            )),
            Directory::Foreign(stores) if stores.is_empty() => Err(foreign("a directory of something else")),
            Directory::Foreign(stores) => Err(Failure::new(
                "not_a_store",
                format!("{shown} is not a warmstart store itself; name one in it: {}", stores.join(", ")),
            )),
        };
    }
    if !metadata.is_file() {
        return Err(foreign(special(metadata.file_type())));
    }
    let head = head(path, APPLICATION_AT + APPLICATION.len()).map_err(|error| unreadable(&error))?;
    if head.is_empty() {
        Err(foreign("an empty file"))
    } else if !head.starts_with(SQLITE) {
        Err(foreign("a file of something else"))
    } else if head.get(APPLICATION_AT..) != Some(APPLICATION) {
        Err(foreign("another application's SQLite database"))
    } else {
        Ok(Kind::Sqlite)
    }
}

enum Directory {
    Ours,
    Empty,
    /// The names of the stores in it.
    Foreign(Vec<String>),
}

/// One sign is enough, so that a store is known however damaged it is.
fn directory(path: &Path) -> io::Result<Directory> {
    if is_cache(path) {
        return Ok(Directory::Ours);
    }
    let mut names = Vec::new();
    let mut is_empty = true;
    // Somebody may have named the root of everything.
    const ENOUGH: usize = 1000;
    for entry in fs::read_dir(path)?.take(ENOUGH) {
        is_empty = false;
        let path = entry?.path();
        if path.is_dir() && is_cache(&path) || is_database(&path) {
            names.push(visible_path(&path));
        }
    }
    names.sort();
    Ok(if is_empty { Directory::Empty } else { Directory::Foreign(names) })
}

fn is_cache(path: &Path) -> bool {
    let begins = |name: &str, len: usize| regular_head(&path.join(name), len).unwrap_or_default();
    let is_tagged = || begins("CACHEDIR.TAG", 256).windows(TAG.len()).any(|part| part == TAG);
    let has_entries = || {
        let entries = fs::read_dir(path.join("entries")).into_iter().flatten().flatten();
        entries.take(16).any(|entry| entry.file_name().to_str().and_then(Key::from_hex).is_some())
    };
    begins("journal", JOURNAL.len()) == JOURNAL || is_tagged() || has_entries()
}

fn is_database(path: &Path) -> bool {
    let head = regular_head(path, APPLICATION_AT + APPLICATION.len()).unwrap_or_default();
    head.starts_with(SQLITE) && head.ends_with(APPLICATION)
}

/// The first bytes of a regular file; nothing of anything else, which could block.
fn regular_head(path: &Path, len: usize) -> Option<Vec<u8>> {
    if fs::metadata(path).ok()?.is_file() { head(path, len).ok() } else { None }
}

fn head(path: &Path, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(len);
    File::open(path)?.take(len as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(unix)]
fn special(kind: FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt;

    if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

#[cfg(not(unix))]
fn special(_: FileType) -> &'static str {
    "neither a file nor a directory"
}

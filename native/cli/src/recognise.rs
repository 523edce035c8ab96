//! What is said of a path that leads to no store.

use std::{
    fs::{self, FileType},
    io,
    path::Path,
};

use warmstart::store::{self, Recognised};

use crate::{failure::Failure, text::visible_path};

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
    let unreadable = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Failure::new("missing", format!("there is nothing at {shown}")),
        _ => Failure::new("unreadable", format!("cannot read {shown}: {error}")),
    };
    match store::recognise(path).map_err(unreadable)? {
        Recognised::Files => return Ok(Kind::Files),
        Recognised::Sqlite => return Ok(Kind::Sqlite),
        Recognised::OtherDatabase => return Err(foreign("another application's SQLite database")),
        _ => {}
    }
    if is_pack(path) {
        return Err(Failure::new(
            "not_a_store",
            format!(
                "{shown} is a file of packed weights, not a store: \
                 `inspect`, `verify`, `compact` and `convert` take it, without the name of an entry"
            ),
        ));
    }
    let metadata = fs::metadata(path).map_err(unreadable)?;
    Err(if metadata.is_dir() {
        match stores_in(path).map_err(unreadable)? {
            None => Failure::new(
                "not_a_store",
                format!("{shown} is an empty directory: nothing was stored there"),
            ),
            Some(stores) if stores.is_empty() => foreign("a directory of something else"),
            Some(stores) => Failure::new(
                "not_a_store",
                format!("{shown} is not a warmstart store itself; name one in it: {}", stores.join(", ")),
            ),
        }
    } else if !metadata.is_file() {
        foreign(special(metadata.file_type()))
    } else if metadata.len() == 0 {
        foreign("an empty file")
    } else if fs::symlink_metadata(path).map_err(unreadable)?.is_symlink() {
        Failure::new(
            "not_a_store",
            format!("{shown} is a link, which is not followed; name the file it leads to"),
        )
    } else {
        foreign("a file of something else")
    })
}

/// Whether `path` is, or was meant to be, a file of packed weights.
pub(crate) fn is_pack(path: &Path) -> bool {
    warmstart::pack::recognise(path).unwrap_or(false)
}

/// The names of the stores in a directory; nothing if it is empty.
fn stores_in(path: &Path) -> io::Result<Option<Vec<String>>> {
    let mut names = Vec::new();
    let mut is_empty = true;
    // Somebody may have named the root of everything.
    const ENOUGH: usize = 1000;
    for entry in fs::read_dir(path)?.take(ENOUGH) {
        is_empty = false;
        let path = entry?.path();
        if matches!(store::recognise(&path), Ok(Recognised::Files | Recognised::Sqlite)) {
            names.push(visible_path(&path));
        }
    }
    names.sort();
    Ok(if is_empty { None } else { Some(names) })
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

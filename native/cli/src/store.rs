//! Opens a store to inspect or to change it, lists its entries, and refuses a path that is no store.

use std::{
    fs::{self, File},
    io::{self, Read},
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use serde::Serialize;
use serde_json::{Value, json};
use warmstart::{
    Key, Metadata, MissReason, OpenError, Seal, Store,
    store::{self, Detected, Entry, FileStore, Inspect, SqliteStore, StoreOptions},
};

use crate::{failure::Failure, screen, text::visible_path};

/// The access to a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Changes nothing, and leaves no file behind.
    Look,
    Change,
}

/// The kind of a store.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Files,
    Sqlite,
}

impl Kind {
    /// Returns the kind in words.
    pub(crate) const fn noun(self) -> &'static str {
        match self {
            Self::Files => "directory",
            Self::Sqlite => "SQLite file",
        }
    }
}

/// An open store with its path.
pub(crate) struct Opened {
    pub(crate) store: Box<dyn Store>,
    pub(crate) kind: Kind,
    path: PathBuf,
}

/// Opens the store at `path`, with the secret if there is one. Fails if there is no store.
pub(crate) fn open(path: &Path, seal: Option<&Seal>, access: Access) -> Result<Opened, Failure> {
    if access == Access::Change {
        // Opening a store of a newer version for a change could leave a trace.
        open(path, seal, Access::Look)?.ask("change", |store| match store.contains(b"") {
            Err(MissReason::NewerVersion) => Err(MissReason::NewerVersion),
            _ => Ok(()),
        })?;
    }
    let is_read_only = access == Access::Look;
    let options = StoreOptions::default().with_read_only(is_read_only);
    let options = seal.cloned().into_iter().fold(options, StoreOptions::with_seal);
    let kind = detect(path)?;
    let store: Box<dyn Store> = match kind {
        Kind::Files => Box::new(FileStore::open(path, options)?),
        Kind::Sqlite => Box::new(SqliteStore::open(path, options)?),
    };
    Ok(Opened { store, kind, path: path.to_path_buf() })
}

impl Opened {
    /// Returns the path with control characters escaped.
    pub(crate) fn path(&self) -> String {
        visible_path(&self.path)
    }

    /// Returns the first fields of every JSON answer.
    pub(crate) fn head(&self) -> Value {
        json!({ "path": self.path.to_string_lossy(), "kind": self.kind })
    }

    /// Calls `visit` with every entry, and shows the progress.
    pub(crate) fn entries(&self, mut visit: impl FnMut(Entry)) -> Result<(), Failure> {
        let progress = screen::progress("reading", None);
        let mut visit = |entry| {
            visit(entry);
            screen::step(&progress);
            ControlFlow::Continue(())
        };
        self.look("read", |inspect| inspect.entries(&mut visit))
    }

    /// Runs an operation of the store, which `verb` names in a failure.
    pub(crate) fn ask<T>(
        &self,
        verb: &str,
        ask: impl FnOnce(&(dyn Store + 'static)) -> Result<T, MissReason>,
    ) -> Result<T, Failure> {
        ask(&*self.store).map_err(|reason| Failure::of_store(verb, &self.path(), reason))
    }

    /// Runs an operation of the store's [`Inspect`](warmstart::store::Inspect), as [`ask`](Self::ask) does.
    pub(crate) fn look<T>(
        &self,
        verb: &str,
        look: impl FnOnce(&dyn Inspect) -> Result<T, MissReason>,
    ) -> Result<T, Failure> {
        self.ask(verb, |store| look(store.inspect().ok_or(MissReason::Unavailable)?))
    }
}

/// An entry in the JSON of `ls`, `inspect` and `explain`. Unknown fields are null.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    pub(crate) name: String,
    pub(crate) size: u64,
    payload_bytes: Option<u64>,
    pub(crate) created_unix_ms: Option<u64>,
    pub(crate) used_unix_ms: Option<u64>,
    pub(crate) build_nanos: Option<u64>,
    pub(crate) domain: Option<String>,
    pub(crate) label: Option<String>,
    is_sealed: Option<bool>,
    /// The reason why the head could not be read, if so.
    pub(crate) problem: Option<&'static str>,
}

impl Summary {
    pub(crate) fn new(entry: &Entry) -> Self {
        let known = |n: u64| (n > 0).then_some(n);
        let content = entry.head.as_ref().ok();
        let recipe = content.and_then(|content| content.metadata.recipe());
        let attribute = || {
            let value = content?.metadata.attribute(Metadata::LABEL)?;
            Some(String::from_utf8_lossy(value).into_owned())
        };
        Self {
            name: entry.digest.to_string(),
            size: entry.size,
            payload_bytes: content.map(|content| content.payload_len),
            created_unix_ms: content.and_then(|content| known(content.provenance.created_unix_ms)),
            used_unix_ms: known(entry.used_unix_ms),
            build_nanos: content.and_then(|content| known(content.provenance.build_nanos)),
            domain: recipe.map(|recipe| recipe.domain().to_owned()),
            label: attribute().or_else(|| recipe?.name().map(ToOwned::to_owned)),
            is_sealed: content.map(|content| content.is_sealed),
            problem: entry.head.as_ref().err().map(|reason| reason.as_str()),
        }
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        let code = match &error {
            error if error.is_untrusted() => "untrusted",
            error if error.is_wrong_kind() => "not_a_store",
            _ => "unreadable",
        };
        Self::new(code, error.to_string())
    }
}

/// Reads a secret of 32 bytes, raw or in hexadecimal.
pub(crate) fn read_secret(path: &Path) -> Result<[u8; 32], Failure> {
    // Longer than any form of a secret, so that a longer file is refused.
    const ENOUGH: u64 = 128;
    let wrong = |what: &str| Failure::new("bad_seal_key", format!("{}: {what}", visible_path(path)));
    let unread = |error: io::Error| wrong(&format!("cannot read the secret: {error}"));
    // Reading a pipe would block.
    if !fs::metadata(path).map_err(unread)?.is_file() {
        return Err(wrong("not a regular file; write the secret into one"));
    }
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(ENOUGH).read_to_end(&mut bytes)).map_err(unread)?;
    let of_digits = || Key::from_hex(std::str::from_utf8(&bytes).ok()?.trim()).map(|key| *key.as_bytes());
    let secret = <[u8; 32]>::try_from(bytes.as_slice()).ok().or_else(of_digits);
    secret.ok_or_else(|| {
        wrong("a secret is 32 bytes, or 64 hexadecimal digits; `head -c 32 /dev/urandom` makes one")
    })
}

/// Returns whether `path` is, or was meant to be, a file of packed weights.
pub(crate) fn is_pack(path: &Path) -> bool {
    warmstart::pack::detect(path).unwrap_or(false)
}

/// Returns the kind of the store at `path`.
///
/// # Errors
/// If the path is no store; the failure says what it is.
pub(crate) fn detect(path: &Path) -> Result<Kind, Failure> {
    let shown = visible_path(path);
    let unreadable = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => {
            Failure::new("missing", format!("there is nothing at {shown}; check the path"))
        }
        _ => Failure::new("unreadable", format!("cannot read {shown}: {error}")),
    };
    let found = match store::detect(path).map_err(unreadable)? {
        Detected::Files => return Ok(Kind::Files),
        Detected::Sqlite => return Ok(Kind::Sqlite),
        Detected::OtherDatabase => "another application's SQLite database, not a warmstart store",
        _ if is_pack(path) => {
            "a file of packed weights, not a store: \
             use `inspect`, `verify`, `compact` or `convert`, without the name of an entry"
        }
        _ => {
            // A store is not detected in a directory that may not be read.
            if path.is_dir() {
                fs::read_dir(path).map_err(unreadable)?;
            }
            "neither a warmstart store nor a file of packed weights; name the path that one was opened with"
        }
    };
    Err(Failure::new("not_a_store", format!("{shown} is {found}")))
}

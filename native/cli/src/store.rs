//! A store, opened to be looked into or to be changed.

use std::{
    fs::{self, File},
    io::{self, Read},
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use serde::Serialize;
use warmstart::{
    Key, OpenError, Reason, Seal, Store,
    store::{Entry, FileOptions, FileStore, SqliteOptions, SqliteStore},
};

use crate::{
    failure::Failure,
    recognise::{Kind, recognise},
    screen::Progress,
    text::visible_path,
};

/// What may be done to a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Nothing is changed, and nothing is left behind.
    Look,
    Change,
}

/// An open store, and where it is.
pub(crate) struct Opened {
    pub(crate) store: Box<dyn Store>,
    pub(crate) kind: Kind,
    path: PathBuf,
    has_secret: bool,
}

/// How every answer for programs begins.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Head {
    path: String,
    kind: &'static str,
}

/// Opens stores, with the secret if there is one.
pub(crate) struct Opener {
    seal: Option<Seal>,
}

impl Opener {
    /// Reads the secret from its file.
    pub(crate) fn new(seal_key: Option<&Path>) -> Result<Self, Failure> {
        Ok(Self { seal: seal_key.map(read_seal).transpose()? })
    }

    /// Opens the store at `path`. There is one already, or it is a failure.
    pub(crate) fn open(&self, path: &Path, access: Access) -> Result<Opened, Failure> {
        let kind = recognise(path)?;
        let looked = self.open_as(kind, path, Access::Look)?;
        if access == Access::Look {
            return Ok(looked);
        }
        // Opening what a newer version wrote in order to change it could leave a trace.
        if looked.store.contains(b"") == Err(Reason::NewerVersion) {
            return Err(looked.cannot("change", Reason::NewerVersion));
        }
        drop(looked);
        self.open_as(kind, path, access)
    }

    fn open_as(&self, kind: Kind, path: &Path, access: Access) -> Result<Opened, Failure> {
        let store = match kind {
            Kind::Files => self.files(path, access)?,
            Kind::Sqlite => self.sqlite(path, access)?,
        };
        Ok(Opened { store, kind, path: path.to_path_buf(), has_secret: self.seal.is_some() })
    }

    fn files(&self, path: &Path, access: Access) -> Result<Box<dyn Store>, Failure> {
        let mut options = FileOptions::default().with_read_only(access == Access::Look);
        if let Some(seal) = &self.seal {
            options = options.with_seal(seal.clone());
        }
        Ok(Box::new(FileStore::open(path, options).map_err(|error| refused(&error))?))
    }

    fn sqlite(&self, path: &Path, access: Access) -> Result<Box<dyn Store>, Failure> {
        let mut options = SqliteOptions::default().with_read_only(access == Access::Look);
        if let Some(seal) = &self.seal {
            options = options.with_seal(seal.clone());
        }
        Ok(Box::new(SqliteStore::open(path, options).map_err(|error| refused(&error))?))
    }
}

impl Opened {
    /// The path, as it may be shown.
    pub(crate) fn path(&self) -> String {
        visible_path(&self.path)
    }

    pub(crate) fn head(&self) -> Head {
        Head { path: self.path.to_string_lossy().into_owned(), kind: self.kind.as_str() }
    }

    /// Calls `visit` with every entry, and shows how far that has come.
    pub(crate) fn entries(&self, mut visit: impl FnMut(Entry)) -> Result<(), Failure> {
        let mut progress = Progress::new("reading", None);
        let read = self.store.entries(&mut |entry| {
            visit(entry);
            progress.step();
            ControlFlow::Continue(())
        });
        read.map_err(|reason| self.cannot("read", reason))
    }

    /// Whether entries are sealed, as the first head that can be read says, and no secret was named to check seals with.
    pub(crate) fn may_hide_seals(&self) -> Result<bool, Failure> {
        let mut is_sealed = false;
        if !self.has_secret {
            let read = self.store.entries(&mut |entry| match entry.head {
                Ok(head) => {
                    is_sealed = head.is_sealed;
                    ControlFlow::Break(())
                }
                Err(_) => ControlFlow::Continue(()),
            });
            read.map_err(|reason| self.cannot("read", reason))?;
        }
        Ok(is_sealed)
    }

    /// That the store does not let itself be read, or changed.
    pub(crate) fn cannot(&self, verb: &str, reason: Reason) -> Failure {
        Failure::of_store(&format!("cannot {verb}"), &self.path(), reason)
    }
}

fn refused(error: &OpenError) -> Failure {
    let code = if error.is_untrusted() {
        "untrusted"
    } else if error.is_wrong_kind() {
        "not_a_store"
    } else {
        "unreadable"
    };
    Failure::new(code, error.to_string())
}

/// A secret of 32 bytes, as they are or in hexadecimal.
fn read_seal(path: &Path) -> Result<Seal, Failure> {
    // More than any form of it has, so that a longer file is not taken for a secret.
    const ENOUGH: u64 = 128;
    let wrong = |what: String| Failure::new("bad_seal_key", format!("{}: {what}", visible_path(path)));
    let unread = |error: io::Error| wrong(format!("cannot read the secret: {error}"));
    // A pipe would be waited for.
    if !fs::metadata(path).map_err(unread)?.is_file() {
        return Err(wrong("is no regular file; write the secret into one".to_owned()));
    }
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(ENOUGH).read_to_end(&mut bytes)).map_err(unread)?;
    let of_digits = || Key::from_hex(std::str::from_utf8(&bytes).ok()?.trim()).map(|key| *key.as_bytes());
    let secret = <[u8; 32]>::try_from(bytes.as_slice()).ok().or_else(of_digits);
    let secret = secret.ok_or_else(|| wrong("a secret is 32 bytes, or 64 hexadecimal digits".to_owned()))?;
    Ok(Seal::new(&secret))
}

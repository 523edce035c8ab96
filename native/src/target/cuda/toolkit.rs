//! Libraries of the CUDA toolkit: identifies the build of a file, by a few short reads or by a digest of all of it, keeps its
//! version in the store, and loads it.

pub(super) mod part;
#[cfg(test)]
mod tests;

use std::{
    fs::File,
    io::{self, Read, Seek},
    path::{Path, PathBuf},
};

use warmstart_core::{
    artifact::{Artifact, Metadata},
    key::{Key, KeyFields},
};

use self::part::{Part, beside, build_id};
use super::{
    error::{CudaError, CudaProblem},
    library::Loaded,
};
use crate::{
    Limits,
    os::FileIdentity,
    store::{MemoryStore, Store},
};

/// The longest version in bytes; a longer one in the store is ignored.
const MAX_VERSION: usize = 64;

/// The size in bytes of the pieces in which a file is digested.
const PIECE: usize = 1 << 20;

/// A library file and the build in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identified {
    pub(super) part: Part,
    pub(super) path: PathBuf,
    pub(super) identity: FileIdentity,
    /// The build id, or the digest of the whole file if it has none.
    pub(super) build: Vec<u8>,
    has_id: bool,
    size: u64,
}

impl Identified {
    /// Identifies the build of a file.
    ///
    /// # Errors
    /// [`CudaError`] if the file cannot be read, or is no library that this machine can load.
    pub(super) fn read(part: Part, path: &Path, store: &(impl Store + ?Sized)) -> Result<Self, CudaError> {
        let unusable = |why: String, source: Option<io::Error>| {
            let (path, source) = (path.into(), source.map(Into::into));
            CudaError::new(CudaProblem::Unusable { part, path, why, source })
        };
        let unread = |error: io::Error| unusable(format!("cannot be read: {error}"), Some(error));
        // Checked before opening: the writer of a pipe would take this process for its reader.
        let metadata = path.metadata().map_err(unread)?;
        if !metadata.is_file() {
            let what = if metadata.is_dir() { "a directory" } else { "no file" };
            return Err(unusable(format!("is no shared library: it is {what}"), None));
        }
        let mut file = File::open(path).map_err(unread)?;
        let metadata = file.metadata().map_err(unread)?;
        let (identity, size) = (FileIdentity::of(&metadata), metadata.len());
        let id = if cfg!(windows) { None } else { build_id(&mut file).map_err(|why| unusable(why, None))? };
        let has_id = id.is_some();
        let build = match id {
            Some(id) => id,
            None => contents(&mut file, &identity, store).map_err(unread)?.to_vec(),
        };
        Ok(Self { part, path: path.into(), identity, build, has_id, size })
    }

    /// Loads the file, and checks that it is still the identified one.
    pub(super) fn load(&self) -> Result<Loaded, CudaError> {
        let (part, path) = (self.part, &self.path);
        // SAFETY: it is a whole library for this machine, and is where the toolkit is installed.
        let loaded = unsafe { Loaded::open(part, path) }?;
        let holds = match loaded.build_id() {
            Some(found) if self.has_id => !self.differs(found),
            // Memory has no build id to compare.
            _ => self.identity.is_at(&self.path),
        };
        if holds {
            return Ok(loaded);
        }
        let found = loaded.build_id().map(<[u8]>::to_vec);
        // SAFETY: none of its functions was called.
        unsafe { loaded.discard() };
        // If memory has the file of now, the file was replaced, and another attempt can succeed. Otherwise the process has loaded
        // an older file from the same path, and the loader keeps that as long as the process lives.
        let now = Self::read(part, path, &MemoryStore::new(Limits::NONE))?;
        let (path, other) = (path.clone(), "an older one from the same path");
        Err(CudaError::new(match found {
            Some(found) if now.differs(&found) => CudaProblem::Loaded { part, path, other },
            _ => CudaProblem::Changed { part, path },
        }))
    }

    /// Returns whether `found`, the build id in memory, is another build. False if the file has no build id.
    pub(super) fn differs(&self, found: &[u8]) -> bool {
        self.has_id && self.build != found
    }
}

/// Returns the digest of the whole file, from the store if it has it for this file identity.
fn contents(
    file: &mut File,
    identity: &FileIdentity,
    store: &(impl Store + ?Sized),
) -> io::Result<[u8; Key::LEN]> {
    let numbers = identity.numbers();
    let key = numbers
        .into_iter()
        .fold(KeyFields::new("warmstart.cuda.library contents", 1), |fields, number| {
            fields.number("identity", number)
        })
        .key();
    if let Ok(artifact) = store.get(key.as_bytes())
        && let Ok(digest) = artifact.payload().try_into()
    {
        return Ok(digest);
    }
    let digest = digest(file)?;
    // A young file may change again without a change of its times.
    if identity.is_settled() && FileIdentity::of(&file.metadata()?) == *identity {
        // If the store fails, the file is read again next time.
        let _ = store.put(key.as_bytes(), &Artifact::new(digest.to_vec()));
    }
    Ok(digest)
}

/// Computes the digest of a file, in pieces because it may be large.
fn digest(file: &mut File) -> io::Result<[u8; Key::LEN]> {
    file.rewind()?;
    let mut fields = KeyFields::new("warmstart.cuda.library digest", 1);
    let mut piece = Vec::with_capacity(PIECE);
    loop {
        piece.clear();
        if Read::take(&mut *file, PIECE as u64).read_to_end(&mut piece)? == 0 {
            return Ok(*fields.key().as_bytes());
        }
        fields = fields.bytes("piece", Key::digest(&piece).as_bytes().to_vec());
    }
}

/// Returns the version of a library of this build, if the store has it.
pub(super) fn known_version(file: &Identified, store: &(impl Store + ?Sized)) -> Option<String> {
    let artifact = store.get(version_key(file).as_bytes()).ok()?;
    let version = str::from_utf8(artifact.payload()).ok()?;
    is_version(version).then(|| version.into())
}

/// Stores the version for the next process.
pub(super) fn keep_version(file: &Identified, version: &str, store: &(impl Store + ?Sized)) {
    if !is_version(version) {
        return;
    }
    let label = Metadata::new().with_attribute(Metadata::LABEL, format!("{} {version}", file.part).as_str());
    let artifact = Artifact::new(version.as_bytes().to_vec()).with_metadata(&label);
    // If the store fails, the library is asked again next time.
    let _ = store.put(version_key(file).as_bytes(), &artifact);
}

/// Returns the key under which the version is stored: made of the build, and never of the file's name or times.
fn version_key(file: &Identified) -> Key {
    KeyFields::new("warmstart.cuda.library", 1)
        .text("library", file.part.facts().label)
        .bytes("build", &file.build[..])
        .number("size", file.size)
        .key()
}

fn is_version(version: &str) -> bool {
    let is_of_version = |byte: u8| byte.is_ascii_alphanumeric() || b". ".contains(&byte);
    (1..=MAX_VERSION).contains(&version.len()) && version.bytes().all(is_of_version)
}

/// Finds the builtins, a file beside NVRTC that NVRTC of this version loads by name when it compiles.
pub(super) fn find_builtins(library: &Path, version: &str) -> Result<PathBuf, CudaError> {
    let name = if cfg!(windows) {
        format!("nvrtc-builtins64_{}.dll", version.replace('.', ""))
    } else {
        format!("libnvrtc-builtins.so.{version}")
    };
    let found = beside(library, Part::Builtins);
    let found = found.into_iter().find(|path| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|other| other.eq_ignore_ascii_case(&name))
    });
    found.ok_or_else(|| {
        let directory = library.parent().unwrap_or(library).display();
        missing(Part::Builtins, format!("{directory}, beside NVRTC, which needs {name}"))
    })
}

pub(super) fn missing(part: Part, looked_in: String) -> CudaError {
    CudaError::new(CudaProblem::Missing { part, looked_in })
}

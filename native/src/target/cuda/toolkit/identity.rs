//! Which library a file is, down to the build.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use warmstart_core::{
    artifact::Artifact,
    key::{Key, KeyFields},
    metadata::Metadata,
};

use super::{elf, search::Part};
use crate::{
    os::FileIdentity,
    store::{Lookup, Store},
    target::cuda::error::{CudaError, CudaProblem},
};

/// A file, and what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identified {
    pub(super) identity: FileIdentity,
    /// Which build it is: its build id, or where it has none the digest of all of it.
    pub(super) build: Vec<u8>,
    pub(super) has_id: bool,
    pub(super) size: u64,
}

/// The longest version that a store is believed to have kept.
const MAX_VERSION: usize = 64;
/// The contents of a file are digested in pieces of so many bytes.
const PIECE: usize = 1 << 20;

impl Identified {
    /// Reads from the file which build it is.
    ///
    /// # Errors
    /// It cannot be read, or is no library that this machine can load.
    pub(super) fn read(part: Part, path: &Path, store: &(impl Store + ?Sized)) -> Result<Self, CudaError> {
        let unusable = |why: String, source: Option<io::Error>| {
            let (path, source) = (path.into(), source.map(Into::into));
            CudaError::new(CudaProblem::Unusable { part, path, why, source })
        };
        let unread = |error: io::Error| unusable(format!("cannot be read: {error}"), Some(error));
        // Before it is opened: whoever writes to a pipe shall not take us for its reader.
        let metadata = path.metadata().map_err(unread)?;
        if !metadata.is_file() {
            let what = if metadata.is_dir() { "a directory" } else { "no file" };
            return Err(unusable(format!("is no shared library: it is {what}"), None));
        }
        let mut file = File::open(path).map_err(unread)?;
        let metadata = file.metadata().map_err(unread)?;
        let (identity, size) = (FileIdentity::of(&metadata), metadata.len());
        let id =
            if cfg!(windows) { None } else { elf::build_id(&mut file).map_err(|why| unusable(why, None))? };
        let has_id = id.is_some();
        let build = match id {
            Some(id) => id,
            None => contents(&mut file, &identity, store).map_err(unread)?.to_vec(),
        };
        Ok(Self { identity, build, has_id, size })
    }

    /// Whether `found`, which the loader says of what is in memory, is another build. Without a build id nobody knows.
    pub(super) fn differs(&self, found: &[u8]) -> bool {
        self.has_id && self.build != found
    }
}

/// The digest of all of the file, from the store if it has that of this file.
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
    if let Lookup::Hit(artifact) = store.get(key.as_bytes())
        && let Ok(digest) = artifact.payload().try_into()
    {
        return Ok(digest);
    }
    let digest = digest(file)?;
    // A file that is young may change again without a change of its times.
    if identity.is_settled() && FileIdentity::of(&file.metadata()?) == *identity {
        // Not kept means read again, nothing worse.
        let _ = store.put(key.as_bytes(), &Artifact::new(digest.to_vec()));
    }
    Ok(digest)
}

/// In pieces, for it may be large.
fn digest(file: &mut File) -> io::Result<[u8; Key::LEN]> {
    io::Seek::rewind(file)?;
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

/// The version that a library of this build says it is, if the store knows.
pub(super) fn known_version(part: Part, file: &Identified, store: &(impl Store + ?Sized)) -> Option<String> {
    let Lookup::Hit(artifact) = store.get(version_key(part, file).as_bytes()) else { return None };
    let version = str::from_utf8(artifact.payload()).ok()?;
    is_version(version).then(|| version.into())
}

/// Has the store keep the version for the next process.
pub(super) fn keep_version(part: Part, file: &Identified, version: &str, store: &(impl Store + ?Sized)) {
    if !is_version(version) {
        return;
    }
    let label = Metadata::new().with_attribute(Metadata::LABEL, format!("{part} {version}").as_str());
    let artifact = Artifact::new(version.as_bytes().to_vec()).with_metadata(&label);
    // Not kept means asked again, nothing worse.
    let _ = store.put(version_key(part, file).as_bytes(), &artifact);
}

/// By the build, never by the file's name or times: another library has another.
fn version_key(part: Part, file: &Identified) -> Key {
    KeyFields::new("warmstart.cuda.library", 1)
        .text("library", part.facts().label)
        .bytes("build", &file.build[..])
        .number("size", file.size)
        .key()
}

fn is_version(version: &str) -> bool {
    let is_of_version = |byte: u8| byte.is_ascii_alphanumeric() || b". ".contains(&byte);
    (1..=MAX_VERSION).contains(&version.len()) && version.bytes().all(is_of_version)
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;
    use crate::{Limits, store::MemoryStore};

    fn file(build: Vec<u8>) -> Identified {
        let file = tempfile::NamedTempFile::new().unwrap();
        Identified { identity: FileIdentity::of_path(file.path()).unwrap(), build, has_id: true, size: 5 }
    }

    #[test]
    fn a_version_is_known_by_build_and_size_and_is_one() {
        let store = MemoryStore::new(Limits::NONE);
        let library = file(vec![7; 20]);
        keep_version(Part::Nvvm, &library, "2.0 IR 2.0 debug 3.2", &store);
        let known = |part, library: &Identified| known_version(part, library, &store);
        assert_eq!(known(Part::Nvvm, &library).as_deref(), Some("2.0 IR 2.0 debug 3.2"));
        assert_eq!(known(Part::Nvvm, &Identified { size: 6, ..library.clone() }), None);
        assert_eq!(known(Part::Nvvm, &file(vec![8; 20])), None);
        assert_eq!(known(Part::NvJitLink, &library), None);
        for wrong in [&b""[..], b"\xff\xfe", b"13.5\n", b"13/5", &[b'1'; MAX_VERSION + 1]] {
            let key = version_key(Part::Nvvm, &library);
            store.put(key.as_bytes(), &Artifact::new(wrong.to_vec())).unwrap();
            assert_eq!(known(Part::Nvvm, &library), None, "{wrong:?}");
        }
    }

    #[test]
    fn source_of_an_unreadable_library_is_the_error_of_the_system() {
        let store = MemoryStore::new(Limits::NONE);
        let error = Identified::read(Part::Nvrtc, Path::new("/no/such/library.so"), &store).unwrap_err();
        let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
        assert_eq!(source.map(io::Error::kind), Some(io::ErrorKind::NotFound));
    }

    #[test]
    fn contents_are_told_apart_to_the_last_byte() {
        let digest_of = |bytes: &[u8]| {
            let path = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(path.path(), bytes).unwrap();
            digest(&mut File::open(path.path()).unwrap()).unwrap()
        };
        let mut bytes = vec![1; 2 * PIECE + 1];
        let whole = digest_of(&bytes);
        assert_eq!(digest_of(&bytes), whole);
        assert_ne!(digest_of(&bytes[..2 * PIECE]), whole);
        bytes[2 * PIECE] = 2;
        assert_ne!(digest_of(&bytes), whole);
    }
}

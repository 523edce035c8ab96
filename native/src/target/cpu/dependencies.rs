//! What an object was made from beside its source: headers by content, and places where nothing may appear.
//!
//! Everything is kept relative to the directory it was searched in, so that a checkout may move, and another home
//! and another machine find what is the same there.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use foldhash::fast::RandomState;
use serde::{Deserialize, Serialize};
use warmstart_core::key::{Key, KeyFields};

use super::stat::FileIdentity;

/// How many digests are remembered at most. Then all are forgotten, which costs reading the headers once more.
const MAX_DIGESTS: usize = 1 << 16;

/// A directory that headers are looked for in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Root {
    /// Where the source would stand.
    Source,
    /// One of the caller's, by its place.
    Include(u32),
    /// One of the compiler's own, by its place.
    System(u32),
    /// None: the path is absolute, because a source or a header spells it so.
    Absolute,
}

/// A file as the compiler spells it: a directory, and the rest of the path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Located {
    pub(super) root: Root,
    pub(super) path: String,
}

/// Where the roots are this time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Roots<'a> {
    pub(super) source: Option<&'a Path>,
    pub(super) includes: &'a [PathBuf],
    pub(super) system: &'a [String],
}

/// A file that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) at: Located,
    pub(super) digest: [u8; Key::LEN],
}

/// A place where the compiler looked, or may have looked, without reading.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    pub(super) at: Located,
    pub(super) state: State,
}

/// What stands at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum State {
    Absent,
    File,
    Directory,
}

/// Everything beside the source that decides what the compiler makes of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Dependencies {
    /// In the order of the compiler's list.
    pub(super) headers: Vec<Header>,
    pub(super) places: Vec<Place>,
}

impl Dependencies {
    /// Whether every header still has its content and every place its state.
    pub(super) fn hold(&self, roots: Roots<'_>, digests: &Digests) -> bool {
        self.places
            .iter()
            .all(|place| roots.path(&place.at).is_some_and(|path| State::of(&path) == place.state))
            && self.headers.iter().all(|header| {
                roots
                    .path(&header.at)
                    .and_then(|path| digests.of(&path))
                    .is_some_and(|digest| digest.as_bytes() == &header.digest)
            })
    }

    /// No bytes only if a value cannot be encoded, which no value of these types is known to do; they decode to none.
    pub(super) fn encode(&self) -> Vec<u8> {
        postcard::to_allocvec(self).unwrap_or_default()
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        postcard::from_bytes(bytes).ok()
    }

    /// Adds the dependencies to the fields of a key: one field for each of the caller's headers, so that a miss names
    /// the one that changed, and one for all of the compiler's.
    pub(super) fn add_to<'a>(&self, mut fields: KeyFields<'a>) -> KeyFields<'a> {
        let mut system = Vec::new();
        for header in &self.headers {
            match header.at.shown() {
                Some(shown) => fields = fields.bytes(format!("header {shown}"), header.digest.to_vec()),
                None => system.extend_from_slice(&header.digest),
            }
        }
        let places: Vec<u8> = self.places.iter().flat_map(Place::bytes).collect();
        fields.digest("system headers", Key::digest(&system).as_bytes().to_vec(), "by content").digest(
            "header search",
            Key::digest(&places).as_bytes().to_vec(),
            "what was not found, and where",
        )
    }
}

impl Place {
    /// For a key: nothing in it says where the roots are.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = match self.at.root {
            Root::System(place) => format!("system{place}/{}", self.at.path),
            _ => self.at.shown().unwrap_or_default(),
        }
        .into_bytes();
        bytes.extend_from_slice(&[0, self.state as u8]);
        bytes
    }
}

impl Located {
    pub(super) fn new(root: Root, path: impl Into<String>) -> Self {
        Self { root, path: path.into() }
    }

    /// The file that `name` means when this file includes it in quotes.
    pub(super) fn sibling(&self, name: &str) -> Self {
        let directory = self.path.rfind('/').map_or("", |slash| &self.path[..=slash]);
        Self::new(self.root, format!("{directory}{name}"))
    }

    /// Whether the file is the caller's and not the compiler's.
    pub(super) fn is_callers(&self) -> bool {
        !matches!(self.root, Root::System(_))
    }

    /// The path for people, if it is below a directory of the caller's.
    fn shown(&self) -> Option<String> {
        match self.root {
            Root::Source => Some(format!("source/{}", self.path)),
            Root::Include(place) => Some(format!("include{place}/{}", self.path)),
            Root::System(_) | Root::Absolute => None,
        }
    }
}

impl Roots<'_> {
    /// Where the file is this time, if its root is still there.
    pub(super) fn path(&self, at: &Located) -> Option<PathBuf> {
        let root = match at.root {
            Root::Source => self.source?,
            Root::Include(place) => self.includes.get(place as usize)?,
            Root::System(place) => Path::new(self.system.get(place as usize)?),
            Root::Absolute => return Some(PathBuf::from(&at.path)),
        };
        Some(if at.path.is_empty() { root.to_path_buf() } else { root.join(&at.path) })
    }
}

impl State {
    pub(super) fn of(path: &Path) -> Self {
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => Self::Directory,
            Ok(_) => Self::File,
            // What cannot be looked at cannot be included either.
            Err(_) => Self::Absent,
        }
    }
}

/// A file that was read.
#[derive(Debug)]
pub(super) struct FileContent {
    pub(super) bytes: Vec<u8>,
    pub(super) identity: FileIdentity,
    pub(super) digest: Key,
}

/// The digests of files, by what the file system says about them. A file that is younger than its times are coarse is
/// read each time.
#[derive(Debug, Default)]
pub(super) struct Digests(Mutex<HashMap<FileIdentity, Key, RandomState>>);

impl Digests {
    /// The digest of the file at `path`. Nothing if it cannot be read.
    fn of(&self, path: &Path) -> Option<Key> {
        let identity = FileIdentity::of_path(path)?;
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&identity).copied();
        known.or_else(|| self.read(path).ok().map(|content| content.digest))
    }

    /// Reads the file at `path`, and remembers its digest.
    pub(super) fn read(&self, path: &Path) -> io::Result<FileContent> {
        let mut file = File::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let identity = FileIdentity::of(&metadata);
        let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
        file.read_to_end(&mut bytes)?;
        let digest = Key::digest(&bytes);
        // Settled when it was opened, and nothing changed while it was read.
        if identity.is_settled() && FileIdentity::of(&file.metadata()?) == identity {
            let mut digests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if digests.len() >= MAX_DIGESTS {
                digests.clear();
            }
            digests.insert(identity, digest);
        }
        Ok(FileContent { bytes, identity, digest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_hold_until_a_header_or_a_place_changes() {
        let directory = tempfile::tempdir().unwrap();
        let includes = [directory.path().to_path_buf()];
        let roots = Roots { source: None, includes: &includes, system: &[] };
        fs::write(directory.path().join("a.h"), "1").unwrap();
        let dependencies = Dependencies {
            headers: vec![Header {
                at: Located::new(Root::Include(0), "a.h"),
                digest: *Key::digest(b"1").as_bytes(),
            }],
            places: vec![Place { at: Located::new(Root::Include(0), "b.h"), state: State::Absent }],
        };
        let digests = Digests::default();
        assert!(dependencies.hold(roots, &digests));

        fs::write(directory.path().join("b.h"), "").unwrap();
        assert!(!dependencies.hold(roots, &digests));
        fs::remove_file(directory.path().join("b.h")).unwrap();
        assert!(dependencies.hold(roots, &digests));
        fs::write(directory.path().join("a.h"), "2").unwrap();
        assert!(!dependencies.hold(roots, &digests));
        assert!(!dependencies.hold(Roots { includes: &[], ..roots }, &digests));
    }

    #[test]
    fn two_files_of_one_size_and_time_have_their_own_digests() {
        let directory = tempfile::tempdir().unwrap();
        let digests = Digests::default();
        for content in ["1", "2", "3"] {
            let path = directory.path().join("a.h");
            fs::write(&path, content).unwrap();
            assert_eq!(digests.of(&path), Some(Key::digest(content.as_bytes())));
        }
        assert!(digests.0.lock().unwrap().is_empty(), "a file that was just written is not remembered");
    }

    #[test]
    fn a_quoted_name_is_looked_for_beside_the_file_that_includes_it() {
        let at = Located::new(Root::Include(1), "a/b.h");
        assert_eq!(at.sibling("c.h"), Located::new(Root::Include(1), "a/c.h"));
        assert_eq!(Located::new(Root::Source, "b.h").sibling("../c.h"), Located::new(Root::Source, "../c.h"));
        assert_eq!(Located::new(Root::Absolute, "/x/b.h").sibling("c.h").path, "/x/c.h");
    }
}

//! The dependencies of an object besides its source: the contents of headers, and places where no file may appear.
//!
//! Paths are relative to the directories that were searched, so that an object is found from a moved checkout, another home
//! directory or another machine.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use foldhash::fast::RandomState;
use serde::{Deserialize, Serialize};
use warmstart_core::key::{Key, KeyFields};

use crate::{
    os::FileIdentity,
    target::files::{Memo, value_of},
};

/// The most sets of a manifest: one for each recent state of the headers.
const MAX_SETS: usize = 8;

/// A memo of the digests of files.
pub(super) type Digests = Memo<Key>;

/// A directory that is searched for headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Root {
    /// The directory of the source.
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

/// The absolute paths of the roots in this process.
#[derive(Debug)]
pub(super) struct Roots<'a> {
    pub(super) source: Option<PathBuf>,
    pub(super) includes: Vec<PathBuf>,
    pub(super) system: &'a [String],
}

/// A file that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) at: Located,
    pub(super) digest: [u8; Key::LEN],
}

/// A place where the compiler searched, or may have searched, without reading a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    pub(super) at: Located,
    pub(super) state: State,
}

/// The state of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum State {
    Absent,
    File,
    Directory,
}

/// Everything besides the source that decides the object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Dependencies {
    /// In the order of the compiler's list.
    pub(super) headers: Vec<Header>,
    pub(super) places: Vec<Place>,
    /// The headers that have the content of another: compilers then ask whether they are the same file.
    pub(super) duplicates: Vec<DuplicateHeader>,
}

/// A header that has the content of another. With `#pragma once`, gcc takes two files for one if they were modified in
/// the same second, clang if they have the same inode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DuplicateHeader {
    /// The number of the header.
    pub(super) header: u32,
    /// The first header of this content that is the same file.
    pub(super) same_file: u32,
    /// The first header of this content that was modified in the same second.
    pub(super) same_time: u32,
}

impl Dependencies {
    /// Returns whether every header still has its content and every place its state.
    pub(super) fn hold(&self, roots: &Roots<'_>, digests: &Digests) -> bool {
        self.places
            .iter()
            .all(|place| roots.path(&place.at).is_some_and(|path| State::of(&path) == place.state))
            && self.headers.iter().all(|header| {
                roots
                    .path(&header.at)
                    .and_then(|path| value_of(digests, &path, Key::digest))
                    .is_some_and(|digest| digest.as_bytes() == &header.digest)
            })
            // Without duplicates, all digests differ.
            && (self.duplicates.is_empty() || self.find_duplicates(roots).as_ref() == Some(&self.duplicates))
    }

    /// Returns the headers that are duplicates. `None` if one is gone.
    pub(super) fn find_duplicates(&self, roots: &Roots<'_>) -> Option<Vec<DuplicateHeader>> {
        let mut by_digest: HashMap<&[u8; Key::LEN], Vec<u32>, RandomState> = HashMap::default();
        for (number, header) in (0..).zip(&self.headers) {
            by_digest.entry(&header.digest).or_default().push(number);
        }
        let mut duplicates = Vec::new();
        let groups = (0..).zip(&self.headers).map(|(number, header)| (number, &by_digest[&header.digest]));
        // Each is compared with the first of its group only, so the cost is linear.
        for (_, same) in groups.filter(|(number, same)| same.len() > 1 && same[0] == *number) {
            let (mut files, mut times) = (HashMap::new(), HashMap::new());
            for &number in same {
                let identity = FileIdentity::of_path(&roots.path(&self.headers[number as usize].at)?)?;
                duplicates.push(DuplicateHeader {
                    header: number,
                    same_file: *files.entry(identity.file()).or_insert(number),
                    same_time: *times.entry(identity.modified_second()).or_insert(number),
                });
            }
        }
        Some(duplicates)
    }

    /// Adds the dependencies to the fields of a key: one field for each of the caller's headers, so that a miss names
    /// the one that changed, and one for all of the compiler's.
    pub(super) fn add_to<'a>(&self, mut fields: KeyFields<'a>) -> KeyFields<'a> {
        let mut system = Vec::new();
        for header in &self.headers {
            if let Root::Source | Root::Include(_) = header.at.root {
                let label = format!("header {}/{}", header.at.root.name(), header.at.path);
                fields = fields.bytes(label, header.digest.to_vec());
            } else {
                header.at.add_to(&mut system);
                system.extend_from_slice(&header.digest);
            }
        }
        let mut search = Vec::new();
        for place in &self.places {
            place.at.add_to(&mut search);
            search.push(place.state as u8);
        }
        for duplicate in &self.duplicates {
            for number in [duplicate.header, duplicate.same_file, duplicate.same_time] {
                search.extend_from_slice(&number.to_le_bytes());
            }
        }
        fields.digest("system headers", Key::digest(&system).as_bytes().to_vec(), "by content").digest(
            "header search",
            Key::digest(&search).as_bytes().to_vec(),
            "what was not found, and where",
        )
    }
}

/// The dependencies of kernels of one source and one set of flags, kept under the key of those two: the newest first.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) sets: Vec<Dependencies>,
}

impl Manifest {
    /// Decodes a manifest. `None` if the bytes are something else.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let manifest: Self = postcard::from_bytes(bytes).ok()?;
        (manifest.sets.len() <= MAX_SETS).then_some(manifest)
    }

    /// Adds `newest` in front, and drops the oldest set if there are too many.
    #[must_use]
    pub(super) fn with(mut self, newest: Dependencies) -> Self {
        self.sets.retain(|set| *set != newest);
        self.sets.insert(0, newest);
        self.sets.truncate(MAX_SETS);
        self
    }
}

impl Located {
    pub(super) fn new(root: Root, path: impl Into<String>) -> Self {
        Self { root, path: path.into() }
    }

    /// Returns the file that `name` means if this file includes it in quotes.
    pub(super) fn sibling(&self, name: &str) -> Self {
        let directory = self.path.rfind('/').map_or("", |slash| &self.path[..=slash]);
        Self::new(self.root, format!("{directory}{name}"))
    }

    /// Encodes the place for a key, unlike every other place. The paths of the roots are not in it; an absolute path is one that
    /// the source spells, which is in the key already.
    fn add_to(&self, bytes: &mut Vec<u8>) {
        for part in [&self.root.name(), &self.path] {
            bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
            bytes.extend_from_slice(part.as_bytes());
        }
    }
}

impl Root {
    fn name(self) -> String {
        match self {
            Self::Source => String::from("source"),
            Self::Include(place) => format!("include{place}"),
            Self::System(place) => format!("system{place}"),
            Self::Absolute => String::from("absolute"),
        }
    }
}

impl Roots<'_> {
    /// Returns the present path of the file, if its root still exists.
    pub(super) fn path(&self, at: &Located) -> Option<PathBuf> {
        let root: &Path = match at.root {
            Root::Source => self.source.as_ref()?,
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
            // A file that cannot be accessed cannot be included either.
            Err(_) => Self::Absent,
        }
    }
}

/// Encodes a value for the store. Empty if that fails, which is not known to happen; empty bytes decode to `None`.
pub(super) fn encoded(value: &impl Serialize) -> Vec<u8> {
    postcard::to_allocvec(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{super::encoded, *};

    #[test]
    fn dependencies_hold_until_a_header_or_a_place_changes() {
        let directory = tempfile::tempdir().unwrap();
        let roots = Roots { source: None, includes: vec![directory.path().to_path_buf()], system: &[] };
        fs::write(directory.path().join("a.h"), "1").unwrap();
        let dependencies = Dependencies {
            headers: vec![Header {
                at: Located::new(Root::Include(0), "a.h"),
                digest: *Key::digest(b"1").as_bytes(),
            }],
            places: vec![Place { at: Located::new(Root::Include(0), "b.h"), state: State::Absent }],
            duplicates: Vec::new(),
        };
        let digests = Digests::default();
        assert!(dependencies.hold(&roots, &digests));

        fs::write(directory.path().join("b.h"), "").unwrap();
        assert!(!dependencies.hold(&roots, &digests));
        fs::remove_file(directory.path().join("b.h")).unwrap();
        assert!(dependencies.hold(&roots, &digests));
        fs::write(directory.path().join("a.h"), "2").unwrap();
        assert!(!dependencies.hold(&roots, &digests));
        assert!(!dependencies.hold(&Roots { includes: Vec::new(), ..roots }, &digests));
    }

    #[test]
    fn a_quoted_name_is_looked_for_beside_the_file_that_includes_it() {
        let at = Located::new(Root::Include(1), "a/b.h");
        assert_eq!(at.sibling("c.h"), Located::new(Root::Include(1), "a/c.h"));
        assert_eq!(Located::new(Root::Source, "b.h").sibling("../c.h"), Located::new(Root::Source, "../c.h"));
        assert_eq!(Located::new(Root::Absolute, "/x/b.h").sibling("c.h").path, "/x/c.h");
    }

    #[test]
    fn no_two_sets_of_places_have_the_same_key() {
        let set = |places: &[(Root, &str)]| {
            let place =
                |(root, path): &(Root, &str)| Place { at: Located::new(*root, *path), state: State::Absent };
            let places = places.iter().map(place).collect();
            Dependencies { places, ..Dependencies::default() }.add_to(KeyFields::new("test", 1)).key()
        };
        let sets: [&[(Root, &str)]; 7] = [
            &[],
            &[(Root::Absolute, "/a")],
            &[(Root::Absolute, "/b")],
            &[(Root::Absolute, "/a"), (Root::Absolute, "/b")],
            &[(Root::System(1), "a")],
            &[(Root::System(2), "a")],
            &[(Root::Include(1), "a")],
        ];
        let keys: std::collections::HashSet<_> =
            sets.into_iter().map(|places| *set(places).as_bytes()).collect();
        assert_eq!(keys.len(), sets.len());
    }

    fn set(number: u8) -> Dependencies {
        let header = Header { at: Located::new(Root::Source, "a.h"), digest: [number; 32] };
        Dependencies { headers: vec![header], ..Dependencies::default() }
    }

    #[test]
    fn the_newest_set_is_first_and_each_is_there_once() {
        let manifest = (0..20).chain([15]).map(set).fold(Manifest::default(), Manifest::with);
        let numbers: Vec<_> = manifest.sets.iter().map(|set| set.headers[0].digest[0]).collect();
        assert_eq!(numbers, [15, 19, 18, 17, 16, 14, 13, 12]);
        assert_eq!(Manifest::decode(&encoded(&manifest)), Some(manifest));
    }

    #[test]
    fn the_bytes_are_those_of_the_documentation() {
        let at = |root, path| Located { root, path: String::from(path) };
        let places = [
            (Root::Include(1), State::Absent, &[1, 1, 1, b'x', 0][..]),
            (Root::System(300), State::File, &[2, 0xAC, 2, 1, b'x', 1]),
            (Root::Absolute, State::Directory, &[3, 1, b'x', 2]),
        ];
        let mut set = set(7);
        let mut bytes = [&[1, 1, 0, 3][..], b"a.h", &[7; 32], &[3]].concat();
        for (root, state, encoded) in places {
            set.places.push(Place { at: at(root, "x"), state });
            bytes.extend_from_slice(encoded);
        }
        set.duplicates.push(DuplicateHeader { header: 300, same_file: 1, same_time: 2 });
        bytes.extend_from_slice(&[1, 0xAC, 2, 1, 2]);
        assert_eq!(encoded(&Manifest::default().with(set)), bytes);
    }

    #[test]
    fn a_damaged_manifest_is_none_and_takes_no_memory() {
        let bytes = encoded(&Manifest::default().with(set(1)));
        for end in 0..bytes.len() {
            assert_eq!(Manifest::decode(&bytes[..end]), None);
        }
        // 2^63 sets of which none follows.
        assert_eq!(Manifest::decode(&[255, 255, 255, 255, 255, 255, 255, 255, 127]), None);
    }
}

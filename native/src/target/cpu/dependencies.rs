//! What an object was made from beside its source: headers by content, and places where nothing may appear.
//!
//! Everything is kept relative to the directory it was searched in, so that a checkout may move, and another home
//! and another machine find what is the same there.

use std::{
    collections::HashMap,
    fs, io,
    path::{self, Path, PathBuf},
};

use foldhash::fast::RandomState;
use serde::{Deserialize, Serialize};
use warmstart_core::key::{Key, KeyFields};

use super::{kernel::Kernel, probe::Probe};
use crate::{os::FileIdentity, target::files::Memo};

/// A kernel as it is compiled now, and all that this reads.
pub(super) struct Compilation<'a> {
    pub(super) compiler: &'a Path,
    pub(super) digests: &'a Digests,
    pub(super) kernel: &'a Kernel,
    pub(super) probe: &'a Probe,
    pub(super) roots: Roots<'a>,
    /// What selects the features of the CPU.
    pub(super) options: Vec<String>,
}

/// How many sets a manifest has at most: one for each state of the headers that is worth returning to.
const MAX_SETS: usize = 8;

/// The digests of files that were read.
pub(super) type Digests = Memo<Key>;

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

/// Where the roots are this time, as absolute paths.
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
    /// The headers that have the content of another: compilers then ask whether they are the same file.
    pub(super) twins: Vec<Twin>,
}

/// A header that has the content of another. With `#pragma once`, gcc takes two files for one if they were modified in
/// the same second, clang if they have the same inode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Twin {
    /// Which of the headers.
    pub(super) header: u32,
    /// The first twin that is the same file.
    pub(super) same_file: u32,
    /// The first twin that was modified in the same second.
    pub(super) same_time: u32,
}

impl Dependencies {
    /// Whether every header still has its content and every place its state.
    pub(super) fn hold(&self, roots: &Roots<'_>, digests: &Digests) -> bool {
        self.places
            .iter()
            .all(|place| roots.path(&place.at).is_some_and(|path| State::of(&path) == place.state))
            && self.headers.iter().all(|header| {
                roots
                    .path(&header.at)
                    .and_then(|path| digests.of(&path, Key::digest))
                    .is_some_and(|digest| digest.as_bytes() == &header.digest)
            })
            // Without twins no two digests are the same.
            && (self.twins.is_empty() || self.find_twins(roots).as_ref() == Some(&self.twins))
    }

    /// The headers that are twins. Nothing if one is gone.
    pub(super) fn find_twins(&self, roots: &Roots<'_>) -> Option<Vec<Twin>> {
        let mut by_digest: HashMap<&[u8; Key::LEN], Vec<u32>, RandomState> = HashMap::default();
        for (number, header) in (0..).zip(&self.headers) {
            by_digest.entry(&header.digest).or_default().push(number);
        }
        let mut twins = Vec::new();
        let groups = (0..).zip(&self.headers).map(|(number, header)| (number, &by_digest[&header.digest]));
        // Each is compared with the first of its kind, so a group costs what it has members.
        for (_, same) in groups.filter(|(number, same)| same.len() > 1 && same[0] == *number) {
            let (mut files, mut times) = (HashMap::new(), HashMap::new());
            for &number in same {
                let identity = FileIdentity::of_path(&roots.path(&self.headers[number as usize].at)?)?;
                twins.push(Twin {
                    header: number,
                    same_file: *files.entry(identity.file()).or_insert(number),
                    same_time: *times.entry(identity.modified_second()).or_insert(number),
                });
            }
        }
        Some(twins)
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
        for twin in &self.twins {
            for number in [twin.header, twin.same_file, twin.same_time] {
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

/// What kernels of one source and one set of flags were made from, kept under the key of those two: the newest first.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) sets: Vec<Dependencies>,
}

impl Manifest {
    /// Reads what was encoded. Nothing if it is something else.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let manifest: Self = postcard::from_bytes(bytes).ok()?;
        (manifest.sets.len() <= MAX_SETS).then_some(manifest)
    }

    /// Puts `newest` in front; the oldest goes if there are too many.
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

    /// The file that `name` means when this file includes it in quotes.
    pub(super) fn sibling(&self, name: &str) -> Self {
        let directory = self.path.rfind('/').map_or("", |slash| &self.path[..=slash]);
        Self::new(self.root, format!("{directory}{name}"))
    }

    /// For a key: unlike for every other place. An absolute path is one that the source spells, which is in the key
    /// already; nothing says where the roots are.
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

impl<'a> Roots<'a> {
    /// Those of a kernel and of the compiler.
    ///
    /// # Errors
    /// The current directory is not known.
    pub(super) fn of(kernel: &Kernel, probe: &'a Probe) -> io::Result<Self> {
        Ok(Self {
            source: kernel.source_dir.as_ref().map(path::absolute).transpose()?,
            includes: kernel.include_dirs.iter().map(path::absolute).collect::<io::Result<_>>()?,
            system: &probe.system,
        })
    }

    /// Where the file is this time, if its root is still there.
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
            // What cannot be looked at cannot be included either.
            Err(_) => Self::Absent,
        }
    }
}

/// The bytes that are kept. None only if a value cannot be encoded, which no value that is kept is known to be; they
/// decode to none.
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
            twins: Vec::new(),
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
        set.twins.push(Twin { header: 300, same_file: 1, same_time: 2 });
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

//! What an object was made from beside its source: headers by content, and places where nothing may appear.
//!
//! Everything is kept relative to the directory it was searched in, so that a checkout may move, and another home
//! and another machine find what is the same there.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
};

use foldhash::fast::RandomState;
use serde::{Deserialize, Serialize};
use warmstart_core::{
    key::{Key, KeyFields},
    reason::Reason,
};

use crate::{
    os::FileIdentity,
    target::files::{FileContent, Memo},
};

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
            // Without twins no two digests are the same.
            && (self.twins.is_empty() || self.find_twins(roots).as_ref() == Some(&self.twins))
    }

    /// Notes which headers are twins, when all are known.
    ///
    /// # Errors
    /// A header is gone.
    pub(super) fn note_twins(&mut self, roots: Roots<'_>) -> Result<(), Reason> {
        self.twins = self.find_twins(roots).ok_or(Reason::InputUnstable)?;
        Ok(())
    }

    fn find_twins(&self, roots: Roots<'_>) -> Option<Vec<Twin>> {
        let mut by_digest: HashMap<&[u8; Key::LEN], Vec<u32>, RandomState> = HashMap::default();
        for (number, header) in (0..).zip(&self.headers) {
            by_digest.entry(&header.digest).or_default().push(number);
        }
        let mut twins = Vec::new();
        for (number, header) in (0..).zip(&self.headers) {
            let same = &by_digest[&header.digest];
            // Each is compared with the first of its kind, so a group costs what it has members.
            if same.len() > 1 && same[0] == number {
                let mut files = HashMap::new();
                let mut times = HashMap::new();
                for &number in same {
                    let path = roots.path(&self.headers[number as usize].at)?;
                    let identity = FileIdentity::of_path(&path)?;
                    twins.push(Twin {
                        header: number,
                        same_file: *files.entry(identity.file()).or_insert(number),
                        same_time: *times.entry(identity.modified_second()).or_insert(number),
                    });
                }
            }
        }
        Some(twins)
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
                None => {
                    header.at.add_to(&mut system);
                    system.extend_from_slice(&header.digest);
                }
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

    /// For a key: unlike for every other place. An absolute path is one that the source spells, which is in the key
    /// already; nothing says where the roots are.
    fn add_to(&self, bytes: &mut Vec<u8>) {
        let root = match self.root {
            Root::Source => String::from("source"),
            Root::Include(place) => format!("include{place}"),
            Root::System(place) => format!("system{place}"),
            Root::Absolute => String::from("absolute"),
        };
        for part in [&root, &self.path] {
            bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
            bytes.extend_from_slice(part.as_bytes());
        }
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

/// The digests of files that were read.
#[derive(Debug, Default)]
pub(super) struct Digests(Memo<Key>);

impl Digests {
    /// The digest of the file at `path`. Nothing if it cannot be read.
    fn of(&self, path: &Path) -> Option<Key> {
        self.0.of(path, Key::digest)
    }

    /// Reads the file at `path`, and remembers its digest.
    pub(super) fn read(&self, path: &Path) -> io::Result<FileContent<Key>> {
        self.0.read(path, Key::digest)
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
            twins: Vec::new(),
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
}

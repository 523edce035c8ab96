//! The list of what kernels of one source and one set of flags were made from, kept under the key of those two.

use serde::{Deserialize, Serialize};

use super::dependencies::Dependencies;

/// How many sets are kept: one for each state of the headers that is worth returning to.
const MAX_SETS: usize = 8;

/// Sets of dependencies, the newest first.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) sets: Vec<Dependencies>,
}

impl Manifest {
    /// Reads what [`encode`](Self::encode) wrote. Nothing if it is something else.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let manifest: Self = postcard::from_bytes(bytes).ok()?;
        (manifest.sets.len() <= MAX_SETS).then_some(manifest)
    }

    /// Nothing only if a value cannot be encoded, which no value of these types is known to do.
    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        postcard::to_allocvec(self).ok()
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

#[cfg(test)]
mod tests {
    use super::super::dependencies::{Header, Located, Place, Root, State, Twin};
    use super::*;

    fn set(number: u8) -> Dependencies {
        let header = Header { at: Located::new(Root::Source, "a.h"), digest: [number; 32] };
        Dependencies { headers: vec![header], ..Dependencies::default() }
    }

    #[test]
    fn the_newest_set_is_first_and_each_is_there_once() {
        let manifest = (0..20).chain([15]).map(set).fold(Manifest::default(), Manifest::with);
        let numbers: Vec<_> = manifest.sets.iter().map(|set| set.headers[0].digest[0]).collect();
        assert_eq!(numbers, [15, 19, 18, 17, 16, 14, 13, 12]);
        assert_eq!(Manifest::decode(&manifest.encode().unwrap()), Some(manifest));
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
        assert_eq!(Manifest::default().with(set).encode().unwrap(), bytes);
    }

    #[test]
    fn a_damaged_manifest_is_none_and_takes_no_memory() {
        let bytes = Manifest::default().with(set(1)).encode().unwrap();
        for end in 0..bytes.len() {
            assert_eq!(Manifest::decode(&bytes[..end]), None);
        }
        // 2^63 sets of which none follows.
        assert_eq!(Manifest::decode(&[255, 255, 255, 255, 255, 255, 255, 255, 127]), None);
    }
}

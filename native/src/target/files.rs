//! A memo of the files that a target reads: a file is read again only if its identity changed, or cannot be trusted yet.

use std::{
    collections::HashMap,
    io::{self, Read},
    path::Path,
};

use foldhash::fast::RandomState;

use crate::os::{FileIdentity, fork::Mutex, open_regular};

/// The most files that are remembered. If there are more, all are forgotten and read again.
const MAX_FILES: usize = 1 << 16;

/// A file that was read.
#[derive(Debug)]
pub(in crate::target) struct FileContent<V> {
    pub(in crate::target) bytes: Vec<u8>,
    pub(in crate::target) identity: FileIdentity,
    /// The value that was made of the contents.
    pub(in crate::target) made: V,
}

/// Values made of the contents of files, by the files' identity. A file is read each time until it is older than the resolution
/// of its times.
pub(in crate::target) type Memo<V> = Mutex<HashMap<FileIdentity, V, RandomState>>;

/// Returns the value that `make` makes of the file at `path`. `None` if the file cannot be read.
pub(in crate::target) fn value_of<V: Clone>(
    memo: &Memo<V>,
    path: &Path,
    make: impl FnOnce(&[u8]) -> V,
) -> Option<V> {
    let identity = FileIdentity::of_path(path)?;
    let known = memo.lock().get(&identity).cloned();
    known.or_else(|| read(memo, path, make).ok().map(|content| content.made))
}

/// Reads the file at `path`, and remembers the value that `make` makes of it.
pub(in crate::target) fn read<V: Clone>(
    memo: &Memo<V>,
    path: &Path,
    make: impl FnOnce(&[u8]) -> V,
) -> io::Result<FileContent<V>> {
    let (mut file, metadata) = open_regular(path)?;
    let identity = FileIdentity::of(&metadata);
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
    file.read_to_end(&mut bytes)?;
    let made = make(&bytes);
    // The file was settled when it was opened, and did not change while it was read.
    if identity.is_settled() && FileIdentity::of(&file.metadata()?) == identity {
        let mut known = memo.lock();
        if known.len() >= MAX_FILES {
            known.clear();
        }
        known.insert(identity, made.clone());
    }
    Ok(FileContent { bytes, identity, made })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn two_files_of_one_size_and_time_are_told_apart() {
        let directory = tempfile::tempdir().unwrap();
        let memo = Memo::default();
        for content in ["1", "2", "3"] {
            let path = directory.path().join("a.h");
            fs::write(&path, content).unwrap();
            assert_eq!(value_of(&memo, &path, <[u8]>::to_vec), Some(content.as_bytes().to_vec()));
        }
        assert!(memo.lock().is_empty(), "a file that was just written is not remembered");
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_is_left_alone_is_read_once() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs");
        let memo = Memo::default();
        let len = value_of(&memo, &path, <[u8]>::len);
        assert!(len > Some(0));
        assert_eq!(value_of(&memo, &path, |_| unreachable!("it is remembered")), len);
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_is_refused_and_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.h");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert_eq!(value_of(&Memo::default(), &path, <[u8]>::len), None);
    }
}

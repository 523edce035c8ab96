//! Finds the files below a directory that are opened.

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    mem::MaybeUninit,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

/// Returns the result of `action`, and the files below `root` opened meanwhile.
pub(crate) fn opened<T>(root: &Path, action: impl FnOnce() -> T) -> (T, BTreeSet<PathBuf>) {
    let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
    let mut directories = HashMap::new();
    add(&watch, &fs::canonicalize(root).unwrap(), &mut directories);
    let done = action();
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = Reader::new(&watch, &mut buffer);
    let mut files = BTreeSet::new();
    while let Ok(event) = reader.next() {
        assert!(!event.events().contains(ReadFlags::QUEUE_OVERFLOW));
        if let Some(name) = event.file_name().filter(|_| !event.events().contains(ReadFlags::ISDIR)) {
            files.insert(directories[&event.wd()].join(std::ffi::OsStr::from_bytes(name.to_bytes())));
        }
    }
    (done, files)
}

fn add(watch: &OwnedFd, directory: &Path, directories: &mut HashMap<i32, PathBuf>) {
    let number = inotify::add_watch(watch, directory, WatchFlags::OPEN).unwrap();
    directories.insert(number, directory.to_path_buf());
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            add(watch, &entry.path(), directories);
        }
    }
}

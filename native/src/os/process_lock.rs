//! Single flight between processes: one OS lock a key, released by death.
//!
//! The lock of a key is a file named for it in the store's lock directory. The holder has the OS lock on the file and removes the
//! file before it lets go. A process that acquires the OS lock checks that the file is still the one that the name leads to.

use std::{
    fs::{File, TryLockError},
    io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use warmstart_core::key::Key;

use super::{
    fork::LockHolder,
    platform::lock::{is_named, list, open_existing, open_or_create, remove},
};

/// The name of the lock under which a damaged database is quarantined.
const SET_ASIDE: &str = "set-aside";

const FIRST_PAUSE: Duration = Duration::from_micros(500);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// A held lock.
#[derive(Debug)]
pub(crate) struct ProcessLock {
    path: PathBuf,
    file: LockHolder,
}

impl ProcessLock {
    /// Waits for the lock of `name` until `deadline`. Returns nothing after a timeout, or if the directory can have no locks: then
    /// the caller builds without.
    pub(crate) fn acquire(directory: &Path, name: &Key, deadline: Option<Instant>) -> Option<Self> {
        let path = directory.join(name.to_string());
        let mut pause = FIRST_PAUSE;
        let open = || LockHolder::open(|| open(&path).ok_or(())).ok();
        let mut file = open()?;
        loop {
            let is_late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            match file.try_lock() {
                Ok(()) if is_named(&file, &path) => return Some(Self { path, file }),
                // The holder removed the file before it let go: the lock is another file now.
                Ok(()) if is_nameless(&file) && !is_late => {
                    file = open()?;
                    continue;
                }
                Err(TryLockError::WouldBlock) if !is_late => {}
                // A file that has another name too may be a file of this user's that was linked here.
                Ok(()) | Err(_) => return None,
            }
            thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

impl Drop for ProcessLock {
    fn drop(&mut self) {
        // In a forked child, the lock and its file are the parent's.
        if self.file.is_own() {
            // While the lock is held, so that the next holder's file stays.
            let _ = remove(&self.path);
        }
    }
}

/// Removes the lock files that dead processes left behind, and no file with a name of another kind.
pub(crate) fn sweep(directory: &Path) {
    let mut paths = Vec::new();
    let _ = list(directory, &mut |name| {
        let is_ours = name == SET_ASIDE || name.to_str().is_some_and(|name| Key::from_hex(name).is_some());
        paths.extend(is_ours.then(|| directory.join(name)));
    });
    for path in paths {
        // Opened without creating: a file that its holder removes meanwhile must not come back.
        let Ok(file) = open_existing(&path) else { continue };
        if file.try_lock().is_ok() && is_named(&file, &path) {
            let _ = remove(&path);
        }
    }
}

fn open(path: &Path) -> Option<File> {
    open_or_create(path)
        .or_else(|error| match (error.kind(), path.parent()) {
            // Somebody removed the directory while it is in use.
            (io::ErrorKind::NotFound, Some(directory)) => {
                super::make_private_directory(directory).and_then(|()| open_or_create(path))
            }
            _ => Err(error),
        })
        .ok()
}

fn is_nameless(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| !super::is_linked(&metadata))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A waits while B holds, and acquires the file that B has removed: it must not believe that to be the lock, or C,
    /// who finds no file, would hold it too.
    #[test]
    #[cfg(unix)]
    fn a_lock_whose_file_was_removed_is_not_held() {
        use std::sync::mpsc;

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let name = Key::digest(b"k");
        let held = ProcessLock::acquire(path, &name, None).unwrap();
        thread::scope(|scope| {
            let (acquired, when_acquired) = mpsc::channel();
            let (release, when_released) = mpsc::channel();
            scope.spawn(move || {
                let lock = ProcessLock::acquire(path, &name, None).unwrap();
                acquired.send(()).unwrap();
                when_released.recv().unwrap();
                drop(lock);
            });
            // Long enough for the other to have the file open and to wait for it.
            thread::sleep(Duration::from_millis(100));
            drop(held);
            when_acquired.recv().unwrap();
            let soon = Instant::now() + Duration::from_millis(50);
            assert!(ProcessLock::acquire(path, &name, Some(soon)).is_none(), "two held one lock");
            release.send(()).unwrap();
        });
        assert!(ProcessLock::acquire(path, &name, Some(Instant::now())).is_some());
        assert_eq!(fs::read_dir(path).unwrap().count(), 0, "no file is left behind");
    }

    #[test]
    fn a_directory_that_was_removed_is_made_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("locks");
        let name = Key::digest(b"k");
        let held = ProcessLock::acquire(&path, &name, None).unwrap();
        assert!(
            ProcessLock::acquire(&path, &name, Some(Instant::now())).is_none(),
            "one's own lock is held too"
        );
        drop(held);
    }

    #[test]
    fn the_files_of_the_dead_are_swept_and_those_of_the_living_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let name = Key::digest(b"alive");
        let held = ProcessLock::acquire(path, &name, None).unwrap();
        fs::write(path.join(Key::digest(b"dead").to_string()), b"").unwrap();
        fs::write(path.join(SET_ASIDE), b"").unwrap();
        fs::write(path.join("not a lock"), b"").unwrap();
        sweep(path);
        let mut left: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        left.sort();
        assert_eq!(left, [path.join(name.to_string()), path.join("not a lock")]);
        drop(held);
    }
}

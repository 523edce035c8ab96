//! Single flight between processes: one OS lock per key, released when its holder dies.
//!
//! The lock of a key is a file named after it in the store's lock directory. The holder has the OS lock on the file, and removes the
//! file before it releases the lock. A process that acquires the OS lock checks that the name still leads to the locked file.

use std::{
    fs::{File, TryLockError},
    io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use warmstart_core::{key::Key, reason::MissReason};

use super::{
    disk::{make_private_directory, named_for},
    fork::LockHolder,
    platform::{
        at::{is_named, list, open_existing, open_or_create, remove},
        is_linked,
    },
};

/// The name of the lock under which a damaged database is quarantined.
const QUARANTINE: &str = "set-aside";

const FIRST_PAUSE: Duration = Duration::from_micros(500);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// A held lock.
#[derive(Debug)]
pub(crate) struct ProcessLock {
    path: PathBuf,
    file: LockHolder,
}

impl ProcessLock {
    /// Waits for the lock of `name` until `deadline`, or without limit if that is `None`. Returns `None` on a timeout.
    ///
    /// # Errors
    /// The reason why the directory cannot have locks now.
    pub(crate) fn acquire(
        directory: &Path,
        digest: &Key,
        deadline: Option<Instant>,
    ) -> Result<Option<Self>, MissReason> {
        let path = named_for(directory, digest);
        let mut pause = FIRST_PAUSE;
        let open = || LockHolder::open(|| open(&path).ok_or(MissReason::Unavailable));
        let mut file = open()?;
        loop {
            let is_late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            match file.try_lock() {
                Ok(()) if is_named(&file, &path) => return Ok(Some(Self { path, file })),
                // The holder removed the file before it released the lock, so the lock is another file now.
                Ok(()) if file.metadata().is_ok_and(|metadata| !is_linked(&metadata)) => {
                    if is_late {
                        return Ok(None);
                    }
                    file = open()?;
                    continue;
                }
                Err(TryLockError::WouldBlock) if is_late => return Ok(None),
                Err(TryLockError::WouldBlock) => {}
                // A file with a second name may be another file of this user that was linked here.
                Ok(()) | Err(_) => return Err(MissReason::Unavailable),
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
            // Removed while the lock is held, so that the file of the next holder stays.
            let _ = remove(&self.path);
        }
    }
}

/// Removes the lock files of dead processes, and no files with other names.
pub(crate) fn sweep(directory: &Path) {
    let mut paths = Vec::new();
    let _ = list(directory, &mut |name| {
        let is_ours = name == QUARANTINE || name.to_str().is_some_and(|name| Key::from_hex(name).is_some());
        paths.extend(is_ours.then(|| directory.join(name)));
    });
    for path in paths {
        // Opened without creating it: a file that its holder removes meanwhile must not be created again.
        let Ok(file) = open_existing(&path) else { continue };
        if file.try_lock().is_ok() && is_named(&file, &path) {
            let _ = remove(&path);
        }
    }
}

fn open(path: &Path) -> Option<File> {
    open_or_create(path)
        .or_else(|error| match (error.kind(), path.parent()) {
            // Another process removed the directory while it is in use.
            (io::ErrorKind::NotFound, Some(directory)) => {
                make_private_directory(directory).and_then(|()| open_or_create(path))
            }
            _ => Err(error),
        })
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A waits while B holds, and acquires the file that B has removed: it must not take that for the lock, because C,
    /// which finds no file, would hold the lock too.
    #[test]
    #[cfg(unix)]
    fn lock_whose_file_was_removed_is_not_held() {
        use std::sync::mpsc;

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let digest = Key::digest(b"k");
        let held = ProcessLock::acquire(path, &digest, None).unwrap().unwrap();
        thread::scope(|scope| {
            let (acquired, when_acquired) = mpsc::channel();
            let (release, when_released) = mpsc::channel();
            scope.spawn(move || {
                let lock = ProcessLock::acquire(path, &digest, None).unwrap().unwrap();
                acquired.send(()).unwrap();
                when_released.recv().unwrap();
                drop(lock);
            });
            // Long enough for the other thread to open the file and wait for it.
            thread::sleep(Duration::from_millis(100));
            drop(held);
            when_acquired.recv().unwrap();
            let soon = Instant::now() + Duration::from_millis(50);
            assert!(
                ProcessLock::acquire(path, &digest, Some(soon)).unwrap().is_none(),
                "two callers held one lock"
            );
            release.send(()).unwrap();
        });
        assert!(ProcessLock::acquire(path, &digest, Some(Instant::now())).unwrap().is_some());
        assert_eq!(fs::read_dir(path).unwrap().count(), 0, "no file is left behind");
    }

    #[test]
    fn removed_lock_directory_is_created_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("locks");
        let digest = Key::digest(b"k");
        let held = ProcessLock::acquire(&path, &digest, None).unwrap().unwrap();
        assert!(
            ProcessLock::acquire(&path, &digest, Some(Instant::now())).unwrap().is_none(),
            "the lock is still held"
        );
        drop(held);
    }

    #[test]
    fn lock_files_are_swept_only_if_their_process_is_dead() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let digest = Key::digest(b"alive");
        let held = ProcessLock::acquire(path, &digest, None).unwrap().unwrap();
        fs::write(path.join(Key::digest(b"dead").to_string()), b"").unwrap();
        fs::write(path.join(QUARANTINE), b"").unwrap();
        fs::write(path.join("not a lock"), b"").unwrap();
        sweep(path);
        let mut left: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        left.sort();
        assert_eq!(left, [path.join(digest.to_string()), path.join("not a lock")]);
        drop(held);
    }
}

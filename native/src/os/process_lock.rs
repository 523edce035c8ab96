//! Single flight between processes: one OS lock a key, released by death.
//!
//! The lock of a key is a file named for it in the store's lock directory. Who holds it, holds the OS lock on the file
//! and removes the file before letting go; who acquires it checks that the file is still the one that the name leads
//! to. While a holder waits for something else, the files that it holds name what it waits for (32 bytes). So whoever
//! would close a circle of waiting processes can see it, and builds for itself instead.

use std::{
    cell::RefCell,
    fs::{File, TryLockError},
    io::{self, Read, Seek, Write},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use warmstart_core::key::Key;

use super::{
    fork::LockHolder,
    platform::lock::{is_named, list, open_existing, open_or_create, remove},
};

/// The longest chain of waiting holders that is followed. A longer one is waited for, which is bounded too.
const MAX_CHAIN: usize = 64;

/// What whoever sets a damaged database aside locks.
const SET_ASIDE: &str = "set-aside";

const FIRST_PAUSE: Duration = Duration::from_micros(500);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

thread_local! {
    /// The locks that this thread holds, the innermost last.
    static HELD: RefCell<Vec<Held>> = const { RefCell::new(Vec::new()) };
}

#[derive(Debug)]
struct Held {
    name: Key,
    directory: PathBuf,
    file: LockHolder,
}

/// A held lock. It belongs to the thread that acquired it.
#[derive(Debug)]
pub(crate) struct ProcessLock {
    name: Key,
    /// A lock is let go by the thread that acquired it, in whose `HELD` it is.
    not_send: std::marker::PhantomData<*const ()>,
}

impl ProcessLock {
    /// Waits for the lock of `name` until `deadline`. Nothing if it does not come, if waiting for it would never end,
    /// or if the directory has no locks: then one builds without.
    pub(crate) fn acquire(directory: &Path, name: &Key, deadline: Option<Instant>) -> Option<Self> {
        let path = lock_path(directory, name);
        let mut announced = None;
        let mut pause = FIRST_PAUSE;
        let open = || LockHolder::open(|| open(&path).ok_or(())).ok();
        let mut file = open()?;
        loop {
            let is_late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
            match file.try_lock() {
                Ok(()) if is_named(&file, &path) => break,
                // The holder removed the file before it let go: the lock is another file now.
                Ok(()) if is_nameless(&file) && !is_late() => {
                    file = open()?;
                    continue;
                }
                Err(TryLockError::WouldBlock) => {}
                // One that has another name too may be a file of this user's, which somebody linked here.
                Ok(()) | Err(TryLockError::Error(_)) => return None,
            }
            let wait = announced.get_or_insert_with(|| announce_wait(directory, name));
            if is_late() || wait.would_never_end() {
                return None;
            }
            thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        drop(announced);
        HELD.with_borrow_mut(|held| {
            held.push(Held { name: *name, directory: directory.to_path_buf(), file });
        });
        Some(Self { name: *name, not_send: std::marker::PhantomData })
    }
}

impl Drop for ProcessLock {
    fn drop(&mut self) {
        let held = HELD.with_borrow_mut(|held| {
            let place = held.iter().rposition(|held| held.name == self.name)?;
            Some(held.remove(place))
        });
        // In a forked child, the lock and its file are the parent's.
        if let Some(held) = held.filter(|held| held.file.is_own()) {
            // While the lock is held, so that nobody removes the next holder's file.
            let _ = remove(&lock_path(&held.directory, &held.name));
        }
    }
}

/// Says in every lock of `directory` that this thread holds that it waits for `name`, until what is returned is dropped.
/// Both write to files.
pub(crate) fn announce_wait<'a>(directory: &'a Path, name: &'a Key) -> AnnouncedWait<'a> {
    note_in_held(directory, name.as_bytes());
    AnnouncedWait { directory, name }
}

/// See [`announce_wait`].
#[derive(Debug)]
pub(crate) struct AnnouncedWait<'a> {
    directory: &'a Path,
    name: &'a Key,
}

impl AnnouncedWait<'_> {
    /// After how long to ask again whether it [would never end](Self::would_never_end). Nothing if the answer cannot
    /// become another, because nobody waits for a thread that holds no lock.
    pub(crate) fn interval(&self) -> Option<Duration> {
        let holds_any = HELD.with_borrow(|held| held.iter().any(|held| held.directory == self.directory));
        holds_any.then_some(LONGEST_PAUSE)
    }

    /// Whether the holder of the lock, through whatever it waits for, waits for this thread. Reads files.
    pub(crate) fn would_never_end(&self) -> bool {
        would_never_end(self.directory, self.name)
    }
}

impl Drop for AnnouncedWait<'_> {
    fn drop(&mut self) {
        note_in_held(self.directory, &[]);
    }
}

fn note_in_held(directory: &Path, bytes: &[u8]) {
    HELD.with_borrow_mut(|held| {
        let here = held.iter_mut().filter(|held| held.directory == directory);
        here.for_each(|held| note(&mut held.file, bytes));
    });
}

/// Removes the lock files that dead processes left behind, and nothing that has another name than they.
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

/// Whether the holder of `name`, through whatever it waits for, waits for this thread.
fn would_never_end(directory: &Path, name: &Key) -> bool {
    HELD.with_borrow(|held| {
        if held.is_empty() {
            return false;
        }
        let mut at = *name;
        for _ in 0..MAX_CHAIN {
            if held.iter().any(|held| held.name == at && held.directory == directory) {
                return true;
            }
            match noted(directory, &at) {
                Some(next) => at = next,
                None => return false,
            }
        }
        false
    })
}

/// What the holder of `name` waits for. A note that is damaged or half written says nothing, and then the wait is
/// only bounded.
fn noted(directory: &Path, name: &Key) -> Option<Key> {
    let mut bytes = Vec::new();
    open_existing(&lock_path(directory, name)).ok()?.take(64).read_to_end(&mut bytes).ok()?;
    Some(Key::from_bytes(bytes.try_into().ok()?))
}

/// Best effort: without its note a circle is only ended by patience.
fn note(file: &mut File, bytes: &[u8]) {
    let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(bytes));
}

fn lock_path(directory: &Path, name: &Key) -> PathBuf {
    directory.join(name.to_string())
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
        fs::write(lock_path(path, &Key::digest(b"dead")), b"").unwrap();
        fs::write(path.join(SET_ASIDE), b"").unwrap();
        fs::write(path.join("not a lock"), b"").unwrap();
        sweep(path);
        let mut left: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        left.sort();
        assert_eq!(left, [lock_path(path, &name), path.join("not a lock")]);
        drop(held);
    }
}

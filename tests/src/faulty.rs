//! A disk that fails when it is told to.

use std::{
    ffi::OsStr,
    fmt,
    fs::File,
    io,
    ops::Range,
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicI32, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use warmstart::os::{Disk, FileFacts, LocalDisk, LogState};

/// The real disk, with a call that fails, or several in a row.
#[derive(Debug, Default)]
pub struct FaultyDisk {
    inner: LocalDisk,
    calls: AtomicU64,
    first: AtomicU64,
    last: AtomicU64,
    code: AtomicI32,
    failures: AtomicU64,
    /// Whether errors 5, 32 and 33 mean what they mean on Windows.
    windows: bool,
    before_rename: Hook,
    after_read: Hook,
    /// How many removals are still to fail.
    removals: AtomicU64,
    directory_syncs: AtomicU64,
}

/// Runs once, as another process would at that moment.
#[derive(Default)]
struct Hook(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

impl Hook {
    fn set(&self, action: impl FnOnce() + Send + 'static) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(action));
    }

    fn run(&self) {
        let action = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(action) = action {
            action();
        }
    }
}

impl FaultyDisk {
    /// A disk that works.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A disk that works, on which errors 5, 32 and 33 are the sharing violations of Windows.
    #[must_use]
    pub fn windows() -> Self {
        Self { windows: true, ..Self::default() }
    }

    /// From now on, the calls number `skip` to `skip + count` fail with this error code; the first call is number 0.
    pub fn fail(&self, skip: u64, count: u64, code: i32) {
        self.calls.store(0, SeqCst);
        self.code.store(code, SeqCst);
        self.first.store(skip, SeqCst);
        self.last.store(skip.saturating_add(count), SeqCst);
    }

    /// The next `count` removals fail with this error code.
    pub fn fail_removals(&self, count: u64, code: i32) {
        self.code.store(code, SeqCst);
        self.removals.store(count, SeqCst);
    }

    /// Somebody else does `action` just before the next rename.
    pub fn before_rename(&self, action: impl FnOnce() + Send + 'static) {
        self.before_rename.set(action);
    }

    /// Runs `action` once, just after the next read of a file.
    pub fn after_read(&self, action: impl FnOnce() + Send + 'static) {
        self.after_read.set(action);
    }

    /// How many calls there were since [`fail`](Self::fail).
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls.load(SeqCst)
    }

    /// How many calls have failed because they were told to.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.failures.load(SeqCst)
    }

    /// How often a directory was synced.
    #[must_use]
    pub fn directory_syncs(&self) -> u64 {
        self.directory_syncs.load(SeqCst)
    }

    fn check(&self) -> io::Result<()> {
        let call = self.calls.fetch_add(1, SeqCst);
        if (self.first.load(SeqCst)..self.last.load(SeqCst)).contains(&call) {
            self.failures.fetch_add(1, SeqCst);
            return Err(io::Error::from_raw_os_error(self.code.load(SeqCst)));
        }
        Ok(())
    }
}

impl Disk for FaultyDisk {
    fn read(&self, path: &Path, wanted: &dyn Fn(&FileFacts) -> u64) -> io::Result<(Vec<u8>, FileFacts)> {
        self.check()?;
        let found = self.inner.read(path, wanted);
        self.after_read.run();
        found
    }

    fn read_at(&self, path: &Path, at: u64, into: &mut [u8]) -> io::Result<FileFacts> {
        self.check()?;
        self.inner.read_at(path, at, into)
    }

    fn create(&self, path: &Path, parts: &[&[u8]], durable: bool) -> io::Result<File> {
        self.check()?;
        self.inner.create(path, parts, durable)
    }

    /// A failing one writes half of what it was given, if the file is there.
    fn write_at(&self, path: &Path, at: u64, bytes: &[u8]) -> io::Result<()> {
        if let Err(error) = self.check() {
            if path.exists() {
                self.inner.write_at(path, at, &bytes[..bytes.len() / 2])?;
            }
            return Err(error);
        }
        self.inner.write_at(path, at, bytes)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check()?;
        self.before_rename.run();
        self.inner.rename(from, to)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.check()?;
        self.directory_syncs.fetch_add(1, SeqCst);
        self.inner.sync_directory(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.check()?;
        if self.removals.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok() {
            self.failures.fetch_add(1, SeqCst);
            return Err(io::Error::from_raw_os_error(self.code.load(SeqCst)));
        }
        self.inner.remove(path)
    }

    fn facts(&self, path: &Path) -> io::Result<FileFacts> {
        self.check()?;
        self.inner.facts(path)
    }

    fn list(&self, directory: &Path, visit: &mut dyn FnMut(&OsStr)) -> io::Result<()> {
        self.check()?;
        self.inner.list(directory, visit)
    }

    fn open_log(&self, path: &Path) -> io::Result<File> {
        self.check()?;
        self.inner.open_log(path)
    }

    /// A failing append writes half of what it was given, as a disk does that is full half way.
    fn append(&self, log: &File, bytes: &[u8]) -> io::Result<()> {
        if let Err(error) = self.check() {
            self.inner.append(log, &bytes[..bytes.len() / 2])?;
            return Err(error);
        }
        self.inner.append(log, bytes)
    }

    fn make_directory(&self, path: &Path) -> io::Result<()> {
        self.check()?;
        self.inner.make_directory(path)
    }

    fn read_log(&self, log: &File, range: Range<u64>) -> io::Result<Vec<u8>> {
        self.check()?;
        self.inner.read_log(log, range)
    }

    fn log_state(&self, log: &File) -> io::Result<LogState> {
        self.check()?;
        self.inner.log_state(log)
    }

    fn lock(&self, file: &File, patience: Duration) -> io::Result<()> {
        self.check()?;
        self.inner.lock(file, patience)
    }

    fn is_sharing_violation(&self, error: &io::Error) -> bool {
        self.windows && matches!(error.raw_os_error(), Some(5 | 32 | 33))
    }
}

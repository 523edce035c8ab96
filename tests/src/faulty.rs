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

use warmstart::os::{FileMetadata, LocalBackend, LogState, StorageBackend};

/// The real disk, with a call that fails, or several in a row.
#[derive(Debug, Default)]
pub struct FaultyBackend {
    inner: LocalBackend,
    calls: AtomicU64,
    first: AtomicU64,
    last: AtomicU64,
    code: AtomicI32,
    failures: AtomicU64,
    /// Whether errors 5, 32 and 33 mean what they mean on Windows.
    windows: bool,
    before_rename: Hook,
    after_open: Hook,
    after_list: Hook,
    /// The number of removals still to fail.
    removals: AtomicU64,
    directory_syncs: AtomicU64,
    synced_files: AtomicU64,
    lists: AtomicU64,
    /// The name to which no file can be renamed, and the error code.
    refused_name: Mutex<Option<(&'static str, i32)>>,
    lock_timeout: Mutex<Duration>,
    /// The length of the longest file, if there is a limit.
    max_file: Option<u64>,
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

impl FaultyBackend {
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

    /// A disk that works, and reads and writes no file longer than `max_file` bytes.
    #[must_use]
    pub fn with_max_file(max_file: u64) -> Self {
        Self { max_file: Some(max_file), ..Self::default() }
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

    /// From now on, renaming a file to this name fails with this error code.
    pub fn fail_renames_to(&self, name: &'static str, code: i32) {
        *self.refused_name.lock().unwrap_or_else(PoisonError::into_inner) = Some((name, code));
    }

    /// Runs `action`, as another process would, just before the next rename.
    pub fn before_rename(&self, action: impl FnOnce() + Send + 'static) {
        self.before_rename.set(action);
    }

    /// Runs `action` once, just after the next file was opened to be read.
    pub fn after_open(&self, action: impl FnOnce() + Send + 'static) {
        self.after_open.set(action);
    }

    /// Runs `action` once, just after the next listing of a directory.
    pub fn after_list(&self, action: impl FnOnce() + Send + 'static) {
        self.after_list.set(action);
    }

    /// Returns the number of calls since [`fail`](Self::fail).
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls.load(SeqCst)
    }

    /// Returns the number of calls that were made to fail.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.failures.load(SeqCst)
    }

    /// Returns the number of syncs of a directory.
    #[must_use]
    pub fn directory_syncs(&self) -> u64 {
        self.directory_syncs.load(SeqCst)
    }

    /// Returns the number of files that were created and synced.
    #[must_use]
    pub fn synced_files(&self) -> u64 {
        self.synced_files.load(SeqCst)
    }

    /// Returns the number of directories that were listed.
    #[must_use]
    pub fn lists(&self) -> u64 {
        self.lists.load(SeqCst)
    }

    /// Returns the timeout of the last lock.
    #[must_use]
    pub fn lock_timeout(&self) -> Duration {
        *self.lock_timeout.lock().unwrap_or_else(PoisonError::into_inner)
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

impl StorageBackend for FaultyBackend {
    fn read(
        &self,
        path: &Path,
        wanted: &dyn Fn(&FileMetadata) -> u64,
    ) -> io::Result<(Vec<u8>, FileMetadata)> {
        self.check()?;
        if self.max_file.is_some() && self.inner.metadata(path)?.len > self.max_file() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.inner.read(path, wanted)
    }

    fn open(&self, path: &Path) -> io::Result<(File, FileMetadata)> {
        self.check()?;
        let opened = self.inner.open(path);
        self.after_open.run();
        opened
    }

    fn create(&self, path: &Path, parts: &[&[u8]], durable: bool) -> io::Result<File> {
        self.check()?;
        self.synced_files.fetch_add(u64::from(durable), SeqCst);
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
        let refused = *self.refused_name.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, code)) = refused.filter(|(name, _)| to.ends_with(name)) {
            self.failures.fetch_add(1, SeqCst);
            return Err(io::Error::from_raw_os_error(code));
        }
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

    fn metadata(&self, path: &Path) -> io::Result<FileMetadata> {
        self.check()?;
        self.inner.metadata(path)
    }

    fn list(&self, directory: &Path, visit: &mut dyn FnMut(&OsStr)) -> io::Result<()> {
        self.check()?;
        self.lists.fetch_add(1, SeqCst);
        let listed = self.inner.list(directory, visit);
        self.after_list.run();
        listed
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

    fn lock(&self, file: &File, timeout: Duration) -> io::Result<()> {
        self.check()?;
        *self.lock_timeout.lock().unwrap_or_else(PoisonError::into_inner) = timeout;
        self.inner.lock(file, timeout)
    }

    fn max_file(&self) -> u64 {
        self.max_file.unwrap_or(u64::MAX)
    }

    fn is_sharing_violation(&self, error: &io::Error) -> bool {
        self.windows && matches!(error.raw_os_error(), Some(5 | 32 | 33))
    }
}

//! The real file system.

use std::{
    ffi::OsStr,
    fs::{self, File, Metadata},
    io::{self, IoSlice, Read, Seek, SeekFrom, Write},
    ops::Range,
    path::Path,
    time::Duration,
};

use super::{
    Disk, FileFacts, FileKind, LogState,
    platform::{self, User},
    private_options,
};

/// The file system of this machine.
#[derive(Clone, Copy, Debug)]
pub struct LocalDisk {
    user: User,
}

impl LocalDisk {
    /// The file system as the current user sees it.
    #[must_use]
    pub fn new() -> Self {
        Self { user: User::current() }
    }

    pub(super) fn describe(self, metadata: &Metadata) -> FileFacts {
        let file_type = metadata.file_type();
        let kind = if file_type.is_file() {
            FileKind::File
        } else if file_type.is_dir() {
            FileKind::Directory
        } else if file_type.is_symlink() {
            FileKind::Link
        } else {
            FileKind::Other
        };
        let (identity, modified_ns, is_trusted) = self.user.identify(metadata);
        FileFacts { kind, len: metadata.len(), identity, modified_ns, is_trusted }
    }

    /// Whether others may make files in a directory of ours, as in `/tmp`, but not rename or remove those of ours.
    #[cfg(feature = "sqlite")]
    pub(crate) fn is_sticky(self, directory: &Path) -> bool {
        self.user.is_sticky(directory)
    }
}

impl Default for LocalDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl Disk for LocalDisk {
    fn read(&self, path: &Path, wanted: &dyn Fn(&FileFacts) -> u64) -> io::Result<(Vec<u8>, FileFacts)> {
        let file = private_options().read(true).open(path)?;
        let facts = self.describe(&file.metadata()?);
        let mut bytes = Vec::new();
        if facts.is_readable() {
            let len = facts.len.min(wanted(&facts));
            // A length that memory cannot hold is a miss, not an abort.
            bytes.try_reserve_exact(usize::try_from(len).unwrap_or(usize::MAX))?;
            file.take(len).read_to_end(&mut bytes)?;
        }
        Ok((bytes, facts))
    }

    fn read_at(&self, path: &Path, at: u64, into: &mut [u8]) -> io::Result<FileFacts> {
        let mut file = private_options().read(true).open(path)?;
        let facts = self.describe(&file.metadata()?);
        if facts.is_readable() {
            file.seek(SeekFrom::Start(at))?;
            file.read_exact(into)?;
        }
        Ok(facts)
    }

    fn create(&self, path: &Path, parts: &[&[u8]], durable: bool) -> io::Result<File> {
        let mut file = private_options().write(true).create_new(true).open(path)?;
        let written =
            write_parts(&mut file, parts).and_then(|()| if durable { file.sync_all() } else { Ok(()) });
        match written {
            Ok(()) => Ok(file),
            Err(error) => {
                let _ = fs::remove_file(path);
                Err(error)
            }
        }
    }

    fn write_at(&self, path: &Path, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut file = private_options().write(true).create(true).truncate(false).open(path)?;
        let metadata = file.metadata()?;
        if !self.describe(&metadata).is_readable() || !super::has_one_name(&metadata) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        file.seek(SeekFrom::Start(at))?;
        file.write_all(bytes)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        platform::sync_directory(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn facts(&self, path: &Path) -> io::Result<FileFacts> {
        fs::symlink_metadata(path).map(|metadata| self.describe(&metadata))
    }

    fn list(&self, directory: &Path, visit: &mut dyn FnMut(&OsStr)) -> io::Result<()> {
        for entry in fs::read_dir(directory)? {
            visit(&entry?.file_name());
        }
        Ok(())
    }

    fn make_directory(&self, path: &Path) -> io::Result<()> {
        make_private_directory(path)
    }

    fn open_log(&self, path: &Path) -> io::Result<File> {
        private_options().read(true).append(true).create(true).open(path)
    }

    fn append(&self, mut log: &File, bytes: &[u8]) -> io::Result<()> {
        log.write_all(bytes)
    }

    fn read_log(&self, mut log: &File, range: Range<u64>) -> io::Result<Vec<u8>> {
        let len = range.end.saturating_sub(range.start);
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(usize::try_from(len).unwrap_or(usize::MAX))?;
        // Appending does not depend on where the file's cursor is.
        log.seek(SeekFrom::Start(range.start))?;
        log.take(len).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn log_state(&self, log: &File) -> io::Result<LogState> {
        let metadata = log.metadata()?;
        let facts = self.describe(&metadata);
        Ok(LogState { len: facts.len, is_linked: super::is_linked(&metadata), identity: facts.identity })
    }

    fn lock(&self, file: &File, patience: Duration) -> io::Result<()> {
        super::lock_within(file, patience)
    }
}

/// One call writes everything, unless the system takes less.
pub(super) fn write_parts(file: &mut File, parts: &[&[u8]]) -> io::Result<()> {
    let slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
    let mut written = file.write_vectored(&slices)?;
    for part in parts {
        let skipped = written.min(part.len());
        written -= skipped;
        file.write_all(&part[skipped..])?;
    }
    Ok(())
}

/// Makes a directory, and those that lead to it if they are missing, for the owner only. One that is there is left as
/// it is.
#[cfg(any(feature = "packs", feature = "sqlite"))]
pub(crate) fn make_private_directories(path: &Path) -> io::Result<()> {
    platform::private_directories().recursive(true).create(path)
}

/// Makes one directory for the owner only. What is there under its name is left as it is.
pub(crate) fn make_private_directory(path: &Path) -> io::Result<()> {
    match platform::private_directories().create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}

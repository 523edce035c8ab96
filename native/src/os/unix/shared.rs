//! The file system below a directory that several users write to.

use std::{
    ffi::OsStr,
    fs::{File, Metadata, Permissions},
    io::{self, Read, Seek, SeekFrom, Write},
    ops::Range,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rustix::fs::OFlags;

use super::at;
use crate::os::{Disk, FileFacts, FileKind, LocalDisk, LogState, local::write_parts};

/// The longest file that is read where others may have made it, in bytes: memory is taken for it before it is proved.
const MAX_FILE: u64 = 1 << 30;

/// A file system on which it does not matter who owns a file and who may write to it, because every entry is sealed.
///
/// No link is followed below the root, no file is touched that has a name elsewhere too, and no call waits for the other end
/// of a pipe. What is made gets the permissions that group and others have on the root, whatever the umask.
#[derive(Clone, Debug)]
struct SharedDisk {
    root: PathBuf,
    /// Of the root: what group and others may do there.
    mode: u32,
    local: LocalDisk,
}

/// The disk of a directory that others may write to.
pub(crate) fn shared_disk(root: &Path) -> Option<Arc<dyn Disk>> {
    Some(Arc::new(SharedDisk::below(root)?))
}

impl SharedDisk {
    /// Below `root`, if that is there and anybody but this user has any rights in it. A directory of one's own needs no
    /// other rules because its entries are sealed.
    fn below(root: &Path) -> Option<Self> {
        let root = std::path::absolute(root).ok()?;
        let metadata = root.symlink_metadata().ok()?;
        let mode = metadata.mode() & 0o077;
        let is_ours = metadata.uid() == rustix::process::geteuid().as_raw();
        let is_shared = metadata.is_dir() && (mode != 0 || !is_ours);
        is_shared.then(|| Self { root, mode, local: LocalDisk::new() })
    }

    fn describe(&self, metadata: &Metadata) -> FileFacts {
        let facts = self.local.describe(metadata);
        // One that is open may have lost its name.
        FileFacts { is_trusted: facts.kind != FileKind::File || metadata.nlink() <= 1, ..facts }
    }

    /// Gives what this user has just made the rights of the root.
    fn share(&self, made: &File, own: u32) -> io::Result<()> {
        // Another's bits that the system has set, such as the group's inheritance, stay.
        let kept = made.metadata()?.mode() & 0o7000;
        let rights = if own & 0o100 == 0 { self.mode & 0o066 } else { self.mode };
        made.set_permissions(Permissions::from_mode(kept | own | rights))
    }

    /// Gives the directory its name when it has its permissions: nobody finds one that they cannot use.
    fn make_shared_directory(&self, path: &Path) -> io::Result<()> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let n = MADE.fetch_add(1, Ordering::Relaxed);
        let unnamed = path.with_extension(format!("{}-{n}.new", std::process::id()));
        // Of a process with this number that has died half way.
        let _ = at::remove_directory(&unnamed);
        at::make_directory(&unnamed)?;
        at::directory(&unnamed)
            .and_then(|made| self.share(&made, 0o700))
            .and_then(|()| at::rename(&unnamed, path))
            .inspect_err(|_| _ = at::remove_directory(&unnamed))
    }
}

impl Disk for SharedDisk {
    fn read(&self, path: &Path, wanted: &dyn Fn(&FileFacts) -> u64) -> io::Result<(Vec<u8>, FileFacts)> {
        let file = at::open(path, OFlags::RDONLY)?;
        let facts = self.describe(&file.metadata()?);
        let mut bytes = Vec::new();
        if facts.is_readable() {
            if facts.len > self.max_file() {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            let len = facts.len.min(wanted(&facts));
            bytes.try_reserve_exact(usize::try_from(len).unwrap_or(usize::MAX))?;
            file.take(len).read_to_end(&mut bytes)?;
        }
        Ok((bytes, facts))
    }

    fn read_at(&self, path: &Path, at: u64, into: &mut [u8]) -> io::Result<FileFacts> {
        let mut file = super::at::open(path, OFlags::RDONLY)?;
        let facts = self.describe(&file.metadata()?);
        if facts.is_readable() {
            file.seek(SeekFrom::Start(at))?;
            file.read_exact(into)?;
        }
        Ok(facts)
    }

    fn create(&self, path: &Path, parts: &[&[u8]], durable: bool) -> io::Result<File> {
        let mut file = at::open(path, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?;
        let written = self
            .share(&file, 0o600)
            .and_then(|()| write_parts(&mut file, parts))
            .and_then(|()| if durable { file.sync_all() } else { Ok(()) });
        match written {
            Ok(()) => Ok(file),
            Err(error) => {
                let _ = at::remove(path);
                Err(error)
            }
        }
    }

    fn write_at(&self, path: &Path, place: u64, bytes: &[u8]) -> io::Result<()> {
        let mut file = at::open_or_make(path, OFlags::RDWR, |made| self.share(made, 0o600))?;
        // Somebody may have linked a file of another directory here, for this user to write to.
        if !self.describe(&file.metadata()?).is_readable() || !at::is_only_name(&file, path) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        file.seek(SeekFrom::Start(place))?;
        file.write_all(bytes)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        at::rename(from, to)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        at::directory(path)?.sync_all()
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        at::remove(path)
    }

    fn facts(&self, path: &Path) -> io::Result<FileFacts> {
        path.symlink_metadata().map(|metadata| self.describe(&metadata))
    }

    fn list(&self, directory: &Path, visit: &mut dyn FnMut(&OsStr)) -> io::Result<()> {
        at::list(directory, visit)
    }

    /// If somebody removed the root, it is made for its owner only: who was to share it is not known any more.
    fn make_directory(&self, path: &Path) -> io::Result<()> {
        let made = if path.starts_with(&self.root) && path != self.root {
            self.make_shared_directory(path)
        } else {
            at::make_directory(path)
        };
        // Somebody else may have made it meanwhile.
        made.or_else(|error| if self.facts(path).is_ok() { Ok(()) } else { Err(error) })
    }

    fn open_log(&self, path: &Path) -> io::Result<File> {
        let log = at::open_or_make(path, OFlags::RDWR | OFlags::APPEND, |log| self.share(log, 0o600))?;
        // Somebody may have linked a file of another directory here, for this user to write to.
        if at::is_only_name(&log, path) { Ok(log) } else { Err(io::ErrorKind::ResourceBusy.into()) }
    }

    fn append(&self, log: &File, bytes: &[u8]) -> io::Result<()> {
        self.local.append(log, bytes)
    }

    fn read_log(&self, log: &File, range: Range<u64>) -> io::Result<Vec<u8>> {
        self.local.read_log(log, range)
    }

    fn log_state(&self, log: &File) -> io::Result<LogState> {
        self.local.log_state(log)
    }

    fn lock(&self, file: &File, patience: Duration) -> io::Result<()> {
        self.local.lock(file, patience)
    }

    fn max_file(&self) -> u64 {
        MAX_FILE
    }
}

//! The file system below a directory that several users may write to.

use std::{
    ffi::OsStr,
    fs::{File, Metadata, Permissions},
    io::{self, Seek, SeekFrom, Write},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use rustix::fs::OFlags;

use super::at;
use crate::os::disk::{FileKind, FileMetadata, LocalBackend, LogState, StorageBackend, write_parts};

/// The longest file, in bytes, that is read if other users may have written it: memory is allocated before it is verified.
const MAX_FILE: u64 = 1 << 30;

/// A file system that ignores the owners and modes of files, because every entry is sealed.
///
/// It follows no link below the root, touches no file that has another name elsewhere, and never blocks on a
/// pipe. New files get the permissions that group and others have on the root, whatever the umask.
#[derive(Clone, Debug)]
struct SharedBackend {
    root: PathBuf,
    /// The permissions of group and others on the root.
    mode: u32,
    local: LocalBackend,
}

/// Returns the disk of a directory that other users may write to.
pub(crate) fn shared_backend(root: &Path) -> Option<Arc<dyn StorageBackend>> {
    Some(Arc::new(SharedBackend::below(root)?))
}

impl SharedBackend {
    /// Creates a disk for `root`, if that exists and grants permissions to other users. A private directory needs no
    /// other rules just because its entries are sealed.
    fn below(root: &Path) -> Option<Self> {
        let root = std::path::absolute(root).ok()?;
        let metadata = root.symlink_metadata().ok()?;
        let mode = metadata.mode() & 0o077;
        let is_ours = metadata.uid() == rustix::process::geteuid().as_raw();
        let is_shared = metadata.is_dir() && (mode != 0 || !is_ours);
        is_shared.then(|| Self { root, mode, local: LocalBackend::new() })
    }

    fn describe(&self, metadata: &Metadata) -> FileMetadata {
        let described = self.local.describe(metadata);
        // An open file may have lost its name.
        FileMetadata { is_trusted: described.kind != FileKind::File || metadata.nlink() <= 1, ..described }
    }

    /// Sets the permissions of the root on a file that this user just created.
    fn share(&self, made: &File, own: u32) -> io::Result<()> {
        // Other bits that the system has set, such as set-group-id, are kept.
        let kept = made.metadata()?.mode() & 0o7000;
        let rights = if own & 0o100 == 0 { self.mode & 0o066 } else { self.mode };
        made.set_permissions(Permissions::from_mode(kept | own | rights))
    }

    /// Gives the directory its name after its permissions, so that no user finds one without access to it.
    fn make_shared_directory(&self, path: &Path) -> io::Result<()> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let n = MADE.fetch_add(1, Ordering::Relaxed);
        let unnamed = path.with_extension(format!("{}-{n}.new", std::process::id()));
        // The file of an earlier process with this id that died in between.
        let _ = at::remove_directory(&unnamed);
        at::make_directory(&unnamed)?;
        at::directory(&unnamed)
            .and_then(|made| self.share(&made, 0o700))
            .and_then(|()| at::rename(&unnamed, path))
            .inspect_err(|_| _ = at::remove_directory(&unnamed))
    }
}

impl StorageBackend for SharedBackend {
    fn open(&self, path: &Path) -> io::Result<(File, FileMetadata)> {
        let file = at::open(path, OFlags::RDONLY)?;
        let described = self.describe(&file.metadata()?);
        Ok((file, described))
    }

    fn create(&self, path: &Path, parts: &[&[u8]], durable: bool) -> io::Result<File> {
        let mut file = at::open(path, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?;
        let written = self.share(&file, 0o600).and_then(|()| write_parts(&mut file, parts, durable));
        written.inspect_err(|_| _ = at::remove(path)).map(|()| file)
    }

    fn write_at(&self, path: &Path, place: u64, bytes: &[u8]) -> io::Result<()> {
        let mut file = at::open_or_make(path, OFlags::RDWR, |made| self.share(made, 0o600))?;
        // Another user may have linked a file of another directory here, so that this user writes to it.
        if !at::is_named(&file, path) {
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

    fn metadata(&self, path: &Path) -> io::Result<FileMetadata> {
        path.symlink_metadata().map(|metadata| self.describe(&metadata))
    }

    fn list(&self, directory: &Path, visit: &mut dyn FnMut(&OsStr)) -> io::Result<()> {
        at::list(directory, visit)
    }

    /// If the root was removed, it is created for its owner only: its earlier permissions are lost.
    fn make_directory(&self, path: &Path) -> io::Result<()> {
        let made = if path.starts_with(&self.root) && path != self.root {
            self.make_shared_directory(path)
        } else {
            at::make_directory(path)
        };
        // Another process may have created it meanwhile.
        made.or_else(|error| if self.metadata(path).is_ok() { Ok(()) } else { Err(error) })
    }

    fn open_log(&self, path: &Path) -> io::Result<File> {
        let log = at::open_or_make(path, OFlags::RDWR | OFlags::APPEND, |log| self.share(log, 0o600))?;
        // Another user may have linked a file of another directory here, so that this user writes to it.
        if at::is_named(&log, path) { Ok(log) } else { Err(io::ErrorKind::ResourceBusy.into()) }
    }

    fn log_state(&self, log: &File) -> io::Result<LogState> {
        self.local.log_state(log)
    }

    fn max_file(&self) -> u64 {
        MAX_FILE
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    /// Another user may link a file of this user into the directory, so that this user changes it.
    #[test]
    fn file_that_is_linked_elsewhere_is_neither_read_nor_written() {
        let directory = tempfile::tempdir().unwrap();
        let (root, other) = (directory.path().join("root"), directory.path().join("other"));
        fs::create_dir(&root).unwrap();
        fs::set_permissions(&root, Permissions::from_mode(0o770)).unwrap();
        let (path, disk) = (root.join("file"), SharedBackend::below(&root).unwrap());
        fs::write(&other, "1234").unwrap();

        symlink(&other, &path).unwrap();
        assert!(disk.write_at(&path, 0, b"5").is_err() && disk.open_log(&path).is_err());
        assert!(disk.read(&path, &|metadata| metadata.len).is_err());
        fs::remove_file(&path).unwrap();

        fs::hard_link(&other, &path).unwrap();
        assert_eq!(disk.write_at(&path, 0, b"5").unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(disk.open_log(&path).unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        let (bytes, metadata) = disk.read(&path, &|metadata| metadata.len).unwrap();
        assert!(bytes.is_empty() && !metadata.is_trusted);
        assert_eq!(fs::read(&other).unwrap(), b"1234");

        fs::remove_file(&other).unwrap();
        disk.write_at(&path, 0, b"5").unwrap();
        assert_eq!(disk.read(&path, &|metadata| metadata.len).unwrap().0, b"5234");
        assert!(disk.open_log(&path).is_ok());
    }
}

//! Small files in the directory of a machine. A link there may lead to any file of the user, and a pipe stops who opens it.

use std::{fs, io, path::Path};

use warmstart::os::{LocalBackend, StorageBackend as _};

/// Returns whether this is a file, or nothing yet.
pub(crate) fn is_file_or_absent(path: &Path) -> bool {
    match fs::symlink_metadata(path) {
        Ok(found) => found.is_file(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Reads the first bytes of a file; none unless it is a file that only this user could have written.
pub(crate) fn read(path: &Path, longest: u64) -> Vec<u8> {
    let read = || LocalBackend::new().read(path, &|_| longest);
    if is_file_or_absent(path) { read().map_or_else(|_| Vec::new(), |(bytes, _)| bytes) } else { Vec::new() }
}

/// Writes the first bytes of a file, and creates it for this user alone.
///
/// # Errors
/// It is none, or others could have written it, or any error of the system.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if !is_file_or_absent(path) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    LocalBackend::new().write_at(path, 0, bytes)
}

/// Creates a directory for this user alone, and those above it, unless they exist.
///
/// # Errors
/// Any error of the system.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    LocalBackend::new().make_directory(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn link_is_neither_read_nor_written() {
        let folder = tempfile::tempdir().unwrap();
        let [victim, link, dangling] = ["victim", "link", "dangling"].map(|name| folder.path().join(name));
        write(&victim, b"whole").unwrap();
        std::os::unix::fs::symlink(&victim, &link).unwrap();
        std::os::unix::fs::symlink(folder.path().join("absent"), &dangling).unwrap();
        assert_eq!((read(&victim, 3), read(&link, 3)), (b"who".to_vec(), Vec::new()));
        assert!(write(&link, b"x").is_err() && write(&dangling, b"x").is_err());
        assert_eq!(fs::read(&victim).unwrap(), b"whole");
        assert!(!folder.path().join("absent").exists());
    }
}

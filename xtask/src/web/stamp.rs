//! What something was made from, kept beside it: the next time nothing is made that is there already.

use std::{
    fs,
    path::{Path, PathBuf},
};

use xxhash_rust::xxh3::Xxh3;

use crate::process::Failure;

/// The sum of some files and their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamp(String);

impl Stamp {
    /// Of files, and of all files in folders.
    pub(crate) fn of(paths: &[&Path]) -> Result<Self, Failure> {
        let mut files = Vec::new();
        for path in paths {
            collect(path, &mut files)?;
        }
        files.sort();
        let mut sum = Xxh3::new();
        for path in &files {
            let bytes = fs::read(path).map_err(|error| failed(path, &error))?;
            sum.update(path.to_string_lossy().as_bytes());
            // Lengths part the names from the contents.
            sum.update(&(bytes.len() as u64).to_le_bytes());
            sum.update(&bytes);
        }
        Ok(Self(format!("{:032x}\n", sum.digest128())))
    }

    /// Whether what lies beside `path` was made from this.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        fs::read_to_string(path).is_ok_and(|found| found == self.0)
    }

    /// Says at `path` that what lies beside it was made from this.
    pub(crate) fn write(&self, path: &Path) -> Result<(), Failure> {
        fs::write(path, &self.0).map_err(|error| failed(path, &error))
    }
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let entries = fs::read_dir(path).map_err(|error| failed(path, &error))?;
    for entry in entries {
        collect(&entry.map_err(|error| failed(path, &error))?.path(), files)?;
    }
    Ok(())
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::workspace_root;

    #[test]
    fn a_file_that_is_changed_renamed_or_new_changes_the_stamp() {
        let folder = workspace_root().join("target/stamp-test");
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(folder.join("inner")).unwrap();
        let stamp = || Stamp::of(&[&folder]).unwrap();
        let mut stamps = vec![stamp()];
        fs::write(folder.join("inner/a"), "1").unwrap();
        stamps.push(stamp());
        assert_eq!(stamps[1], stamp());
        fs::write(folder.join("inner/a"), "2").unwrap();
        stamps.push(stamp());
        fs::rename(folder.join("inner/a"), folder.join("inner/b")).unwrap();
        stamps.push(stamp());
        fs::remove_dir_all(&folder).unwrap();
        for (at, one) in stamps.iter().enumerate() {
            assert!(!stamps[..at].contains(one), "{at}");
        }
    }
}

//! Single files out of a Python wheel.

use std::{fs, io, path::Path};

use xxhash_rust::xxh3::xxh3_64;

use super::folder;
use crate::process::{Failure, Invocation, workspace_root};

/// A wheel of which some files are needed, and neither Python nor what the wheel depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wheel {
    pub(super) name: &'static str,
    /// Where its files are kept, with those of other wheels if they belong together.
    pub(super) folder: &'static str,
    /// With its version.
    pub(super) package: &'static str,
    /// Of the wheel, in hexadecimal digits, as pip wants it.
    pub(super) sha256: &'static str,
    pub(super) platform: Platform,
    /// A folder in it that is kept as it is, beside the files.
    pub(super) tree: Option<&'static str>,
    pub(super) files: &'static [File],
}

/// A file in a wheel.
#[derive(Clone, Copy, Debug)]
pub(super) struct File {
    /// Where it is in the wheel.
    pub(super) member: &'static str,
    /// In bytes.
    pub(super) size: u64,
    /// XXH3-64, by which one that was damaged later is noticed. That it is the right one says the wheel's SHA-256.
    pub(super) sum: u64,
}

/// What a wheel was built for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Platform {
    Any,
    /// Linux with the GNU C library on 64-bit x86.
    LinuxX86,
}

impl Wheel {
    pub(super) fn list(&self) {
        println!("{}: {}", self.name, self.package);
    }

    /// Fetches it if not all of its files are there and whole. Where there is no such wheel, says so.
    pub(super) fn ensure(&self) -> Result<(), Failure> {
        if !self.platform.is_ours() {
            let (system, machine) = (std::env::consts::OS, std::env::consts::ARCH);
            println!("{}: there is no wheel {} for {system} on {machine}", self.name, self.package);
            return Ok(());
        }
        let kept = folder(self.folder);
        let has_tree = self.tree.is_none_or(|tree| kept.join(last_part(tree)).is_dir());
        if has_tree && self.files.iter().all(|file| file.is_whole_at(&kept.join(file.name()))) {
            println!("{}: is there", self.name);
            return Ok(());
        }
        if Invocation::new("python3 -m pip --version").output().is_err() {
            return Err(Failure::new(
                "pip fetches wheels, and python3 -m pip does not run: install Python 3 with pip (on Debian and \
                 Ubuntu: apt-get install python3-pip)",
            ));
        }
        let incoming = folder(&format!("{}.incoming", self.name));
        self.fetch(&incoming)?;
        self.keep(&incoming, &kept)
    }

    /// Fills a folder with the wheel and all that is in it.
    fn fetch(&self, incoming: &Path) -> Result<(), Failure> {
        let requirement = incoming.join("requirement.txt");
        let wheels = incoming.join("wheels");
        let prepare = || {
            if incoming.exists() {
                fs::remove_dir_all(incoming)?;
            }
            fs::create_dir_all(incoming)?;
            fs::write(&requirement, format!("{} --hash=sha256:{}\n", self.package, self.sha256))
        };
        prepare().map_err(|error| failed(incoming, &error))?;
        // What it was built for is named, so that any Python on the right machine takes it.
        Invocation::new(
            "python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
             --only-binary=:all: --implementation cp --python-version 3.11 --platform manylinux_2_28_x86_64 \
             --platform manylinux_2_12_x86_64",
        )
        .argument("--dest")
        .argument(shown(&wheels))
        .argument("--requirement")
        .argument(shown(&requirement))
        .run()?;
        let mut fetched = fs::read_dir(&wheels).map_err(|error| failed(&wheels, &error))?;
        let wheel = fetched.next().and_then(Result::ok).map(|entry| entry.path());
        let wheel = wheel.ok_or_else(|| Failure::new(format!("pip left nothing in {}", wheels.display())))?;
        Invocation::new("python3 -m zipfile -e").argument(shown(&wheel)).argument(shown(incoming)).run()
    }

    /// Checks what was fetched, and only then puts it where it is looked for.
    fn keep(&self, incoming: &Path, kept: &Path) -> Result<(), Failure> {
        if let Some(file) = self.files.iter().find(|file| !file.is_whole_at(&incoming.join(file.member))) {
            return Err(Failure::new(format!("{} of {} is not what it was", file.member, self.package)));
        }
        let moved = fs::create_dir_all(kept).and_then(|()| {
            self.tree.map_or(Ok(()), |tree| {
                let to = kept.join(last_part(tree));
                if to.exists() {
                    fs::remove_dir_all(&to)?;
                }
                fs::rename(incoming.join(tree), to)
            })?;
            self.files.iter().try_for_each(|file| {
                let from = incoming.join(file.member);
                make_executable(&from)?;
                fs::rename(from, kept.join(file.name()))
            })
        });
        moved.and_then(|()| fs::remove_dir_all(incoming)).map_err(|error| failed(kept, &error))
    }
}

impl File {
    /// The last part of where it is.
    fn name(&self) -> &'static str {
        last_part(self.member)
    }

    fn is_whole_at(&self, path: &Path) -> bool {
        // The size first: it spares reading what is only half there.
        fs::metadata(path).is_ok_and(|found| found.len() == self.size)
            && fs::read(path).is_ok_and(|bytes| xxh3_64(&bytes) == self.sum)
    }
}

impl Platform {
    fn is_ours(self) -> bool {
        match self {
            Self::Any => true,
            Self::LinuxX86 => cfg!(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu")),
        }
    }
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// What unpacks a wheel forgets which of its files are programs.
#[cfg(unix)]
fn make_executable(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> io::Result<()> {
    Ok(())
}

/// The path as a command shows it: from the root of the workspace, where commands run.
fn shown(path: &Path) -> &Path {
    path.strip_prefix(workspace_root()).unwrap_or(path)
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_cut_or_changed_is_not_whole() {
        let folder = workspace_root().join("target/wheel-test");
        let path = folder.join("part.so");
        fs::create_dir_all(&folder).unwrap();
        let file = File { member: "package/lib/part.so", size: 5, sum: xxh3_64(b"whole") };
        let found = [&b"whole"[..], b"whol", b"whole and more", b"wholf"].map(|bytes| {
            fs::write(&path, bytes).unwrap();
            file.is_whole_at(&path)
        });
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, [true, false, false, false]);
        assert!(!file.is_whole_at(&path));
        assert_eq!(file.name(), "part.so");
    }
}

//! The machine's C compiler: finds it, and identifies it without running it.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use warmstart_core::{
    artifact::{Artifact, Metadata},
    key::{Key, KeyFields},
};

use super::{
    dependencies::encoded,
    error::{CompileError, CompileProblem},
    probe::{Probe, find_programs, is_program},
};
use crate::{
    os::{FileIdentity, fork::Mutex},
    store::Store,
};

/// A C compiler that takes the options of gcc and clang.
///
/// The compiler is run once to identify it, down to the contents of the programs that it runs. The result is kept in the store.
///
/// ```no_run
/// use warmstart::target::cpu::{Compiler, CpuTarget};
///
/// let target = CpuTarget::new(Compiler::find()?);
/// # Ok::<(), warmstart::target::cpu::CompileError>(())
/// ```
#[derive(Debug)]
pub struct Compiler {
    path: PathBuf,
    known: Mutex<Option<Known>>,
}

/// The identity of a compiler, and when it was last checked.
#[derive(Debug)]
struct Known {
    probe: Arc<Probe>,
    /// The `PATH` in which it found its programs.
    path: Option<OsString>,
    /// When all of its parts were last checked.
    checked: Instant,
}

/// The time for which the parts of a compiler are trusted unchecked. The compiler itself is checked each time.
const TRUSTED: Duration = Duration::from_secs(1);

impl Compiler {
    /// Finds the compiler that the environment variable `CC` names, else `cc` on the `PATH`. Links to `ccache`, `distcc` or
    /// `sccache` under a compiler's name are skipped.
    ///
    /// # Errors
    /// [`CompileError`] if there is no compiler, if `CC` holds more than the name of a compiler, as in `ccache gcc` or
    /// `gcc -m32`, or on Windows, where no compiler is supported yet.
    pub fn find() -> Result<Self, CompileError> {
        let name = env::var_os("CC").filter(|name| !name.is_empty());
        Self::named(&name.unwrap_or_else(|| OsString::from("cc")))
    }

    fn named(name: &OsStr) -> Result<Self, CompileError> {
        let found = find_programs(name).find(|path| !is_wrapper(path)).or_else(|| find_programs(name).next());
        let missing = || CompileProblem::NoCompiler(format!("`{}` on the PATH", name.display()));
        Self::at(found.ok_or_else(missing)?)
    }

    /// Takes the compiler at `path`.
    ///
    /// # Errors
    /// [`CompileError`] if there is no compiler, if it is `ccache` or similar, which hide the compiler that they run, or on
    /// Windows, where no compiler is supported yet.
    pub fn at(path: impl AsRef<Path>) -> Result<Self, CompileError> {
        if cfg!(not(unix)) {
            let nothing = "nothing, because C kernels are not supported on this system yet";
            return Err(CompileProblem::NoCompiler(nothing.into()).into());
        }
        // Links are not resolved: the name by which a compiler is called can decide what it does.
        let absolute = std::path::absolute(&path).ok();
        let is_compiler = |path: &PathBuf| is_program(path) && !is_wrapper(path);
        let path = absolute.filter(is_compiler).ok_or_else(|| missing(path.as_ref()))?;
        Ok(Self { path, known: Mutex::new(None) })
    }

    /// Returns the path of the compiler.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the compiler's identity: remembered, else read from the store and checked against its files, else by running it.
    pub(super) fn identity(&self, store: &impl Store) -> Result<Arc<Probe>, CompileError> {
        // Held while the compiler is run, so that it is run once.
        let mut known = self.known.lock();
        let driver = FileIdentity::of_path(&self.path).ok_or_else(|| missing(&self.path))?;
        let search = env::var_os("PATH");
        if let Some(known) = &mut *known
            && known.probe.driver == driver
            && known.path == search
        {
            if known.checked.elapsed() < TRUSTED {
                return Ok(known.probe.clone());
            }
            if known.probe.holds() {
                known.checked = Instant::now();
                return Ok(known.probe.clone());
            }
        }
        let key = probe_key(&self.path, &driver, search.as_deref());
        let stored = store.get(key.as_bytes()).ok();
        let stored = stored.and_then(|artifact| postcard::from_bytes::<Probe>(artifact.payload()).ok());
        let probe = match stored.filter(|probe| probe.driver == driver && probe.holds()) {
            Some(probe) => probe,
            None => {
                let probe = Probe::ask(&self.path, driver)?;
                if probe.is_settled() {
                    let label = Metadata::new().with_attribute(Metadata::LABEL, probe.version.as_str());
                    // If the store fails, the compiler is run again next time.
                    let artifact = Artifact::new(encoded(&probe)).with_metadata(&label);
                    let _ = store.put(key.as_bytes(), &artifact);
                }
                probe
            }
        };
        let probe = Arc::new(probe);
        *known = Some(Known { probe: Arc::clone(&probe), path: search, checked: Instant::now() });
        Ok(probe)
    }

    /// Returns whether the compiler is still the one that `probe` identifies. If not, the next call runs it again.
    pub(super) fn is_still(&self, probe: &Probe) -> bool {
        let still = FileIdentity::of_path(&self.path) == Some(probe.driver) && probe.holds();
        if !still {
            *self.known.lock() = None;
        }
        still
    }
}

/// Returns the key under which a probe is stored. It has the name, because one program can be several compilers by the names of
/// its links, and the `PATH`, because a compiler may be a script that runs the one that it finds there.
fn probe_key(path: &Path, driver: &FileIdentity, search: Option<&OsStr>) -> Key {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let search = Key::digest(search.unwrap_or_default().as_encoded_bytes());
    let fields = KeyFields::new("warmstart.cpu.compiler", 2).text("name", name).digest(
        "PATH",
        search.as_bytes().to_vec(),
        "where programs are looked for",
    );
    driver.numbers().into_iter().fold(fields, |fields, number| fields.number("identity", number)).key()
}

/// Programs that run a compiler, and whose answers do not show which one.
const WRAPPERS: &[&str] = &["ccache", "distcc", "sccache", "icecc", "buildcache"];

/// Returns whether the program is one of [`WRAPPERS`], perhaps under the name of a compiler.
fn is_wrapper(path: &Path) -> bool {
    let is_one = |path: &Path| WRAPPERS.iter().any(|wrapper| path.file_stem() == Some(OsStr::new(wrapper)));
    is_one(path) || fs::canonicalize(path).is_ok_and(|path| is_one(&path))
}

fn missing(path: &Path) -> CompileProblem {
    CompileProblem::NoCompiler(path.display().to_string())
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    #[test]
    fn several_words_are_refused_with_what_to_write_instead() {
        for name in ["ccache gcc -m32", "/opt/bin/sccache clang", "gcc -m32", "no-such-compiler"] {
            let error = Compiler::named(OsStr::new(name)).unwrap_err().to_string();
            for part in [name, "install", "CC", "ccache", "Kernel::flag"] {
                assert!(error.contains(part), "{error}");
            }
        }
    }

    #[test]
    fn a_wrapper_under_the_name_of_a_compiler_is_refused() {
        use std::os::unix::fs::{PermissionsExt, symlink};

        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("ccache"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(at("ccache"), fs::Permissions::from_mode(0o755)).unwrap();
        symlink(at("ccache"), at("gcc")).unwrap();
        for name in ["ccache", "gcc"] {
            let error = Compiler::at(at(name)).unwrap_err();
            assert!(error.is_no_compiler() && error.to_string().contains("ccache and its like"), "{error}");
        }
    }
}

//! The machine's C compiler: finding it, and knowing it again without running it.

use std::{
    env,
    ffi::{OsStr, OsString},
    fmt, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use warmstart_core::{
    artifact::Artifact,
    key::{Key, KeyFields},
    metadata::Metadata,
};

use super::{
    error::{CompileError, CompileProblem},
    probe::Probe,
};
use crate::{
    os::{FileIdentity, fork::Mutex},
    store::{Lookup, Store},
};

/// A C compiler that takes the options of gcc and clang.
///
/// What it is, down to the contents of the programs that it runs, is found out by running it once and is kept in the
/// store from then on.
///
/// ```no_run
/// use warmstart::target::cpu::{Compiler, CpuTarget};
///
/// let target = CpuTarget::new(Compiler::find()?);
/// # Ok::<(), warmstart::target::cpu::CompileError>(())
/// ```
pub struct Compiler {
    path: PathBuf,
    known: Mutex<Option<Known>>,
}

/// What a compiler was found to be.
struct Known {
    probe: Arc<Probe>,
    /// The `PATH` by which it found its programs.
    path: Option<OsString>,
    /// When all its parts were last looked at.
    checked: Instant,
}

/// How long the parts of a compiler are taken to be what they were. The compiler itself is looked at each time.
const TRUSTED: Duration = Duration::from_secs(1);

impl Compiler {
    /// The compiler that the environment variable `CC` names, else `cc` on the `PATH`. What stands there under a
    /// compiler's name and is `ccache`, `distcc` or `sccache` is passed over.
    ///
    /// # Errors
    /// There is none, `CC` holds more than the name of a compiler, as in `ccache gcc` or `gcc -m32`, or this is Windows,
    /// where none is supported yet.
    pub fn find() -> Result<Self, CompileError> {
        let name = env::var_os("CC").filter(|name| !name.is_empty());
        Self::named(&name.unwrap_or_else(|| OsString::from("cc")))
    }

    fn named(name: &OsStr) -> Result<Self, CompileError> {
        let missing = || {
            let looked_for = format!("`{}` on the PATH", name.display());
            name.to_str().and_then(several_words).unwrap_or(CompileProblem::NoCompiler(looked_for))
        };
        let is_compiler = |path: &PathBuf| wrapper_at(path).is_none();
        let found = find_programs(name).find(is_compiler).or_else(|| find_programs(name).next());
        Self::at(found.ok_or_else(missing)?)
    }

    /// The compiler at `path`.
    ///
    /// # Errors
    /// There is none, it is `ccache` or its like, which hide what the compiler is, or this is Windows, where none is supported yet.
    pub fn at(path: impl AsRef<Path>) -> Result<Self, CompileError> {
        let path = path.as_ref();
        if cfg!(not(unix)) {
            let nothing = "nothing, because C kernels are not supported on this system yet";
            return Err(CompileProblem::NoCompiler(nothing.into()).into());
        }
        // Not behind its links: the name that a compiler is called by can decide what it does.
        let path =
            std::path::absolute(path).ok().filter(|path| is_program(path)).ok_or_else(|| missing(path))?;
        if let Some(wrapper) = wrapper_at(&path) {
            return Err(hides(&path.display().to_string(), wrapper, "gcc").into());
        }
        Ok(Self { path, known: Mutex::new(None) })
    }

    /// Where the compiler is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the compiler is: remembered, else read from the store and checked against the file system, else asked.
    pub(super) fn identity(&self, store: &impl Store) -> Result<Arc<Probe>, CompileError> {
        // Held while the compiler is asked, so that it is asked once.
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
        let mut keep = |probe| {
            let probe = Arc::new(probe);
            *known = Some(Known { probe: Arc::clone(&probe), path: search.clone(), checked: Instant::now() });
            probe
        };
        let key = probe_key(&self.path, &driver, search.as_deref());
        if let Lookup::Hit(artifact) = store.get(key.as_bytes())
            && let Some(probe) = Probe::decode(artifact.payload())
            && probe.driver == driver
            && probe.holds()
        {
            return Ok(keep(probe));
        }
        let probe = Probe::ask(&self.path, driver)?;
        if probe.is_settled()
            && let Some(bytes) = probe.encode()
        {
            let label = Metadata::new().with_attribute(Metadata::LABEL, probe.version.as_str());
            // Not kept means asked again, nothing worse.
            let _ = store.put(key.as_bytes(), &Artifact::new(bytes).with_metadata(&label));
        }
        Ok(keep(probe))
    }

    /// Whether the compiler is still what `probe` says. If not, it is asked anew the next time.
    pub(super) fn is_still(&self, probe: &Probe) -> bool {
        let still = FileIdentity::of_path(&self.path) == Some(probe.driver) && probe.holds();
        if !still {
            *self.known.lock() = None;
        }
        still
    }
}

impl fmt::Debug for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiler").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Where a probe is kept. The name counts, because one program can be several compilers by the names of its links.
/// The `PATH` counts, because a compiler may be a script that runs the one that it finds there.
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

/// The compiler's command with nothing in its environment that could change what it does.
pub(super) fn command(path: &Path, temporary: &Path) -> Command {
    let mut command = Command::new(path);
    command.env_clear().env("LC_ALL", "C").env("TMPDIR", temporary).current_dir(temporary);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Some(path) = env::var_os("PATH") {
        command.env("PATH", path);
    }
    command
}

/// Programs that run a compiler, and which one does not show in what they answer.
const WRAPPERS: &[&str] = &["ccache", "distcc", "sccache", "icecc", "buildcache"];

/// Which of [`WRAPPERS`] the program is, perhaps under the name of a compiler.
fn wrapper_at(path: &Path) -> Option<&'static str> {
    wrapper_of(path).or_else(|| wrapper_of(&fs::canonicalize(path).ok()?))
}

fn wrapper_of(path: &Path) -> Option<&'static str> {
    WRAPPERS.iter().copied().find(|wrapper| path.file_stem() == Some(OsStr::new(wrapper)))
}

/// The problem with a name of several words: a wrapper and a compiler, or a compiler and its flags.
fn several_words(named: &str) -> Option<CompileProblem> {
    let (first, rest) = named.trim().split_once(char::is_whitespace)?;
    let second = rest.split_whitespace().next()?;
    if let Some(wrapper) = wrapper_of(Path::new(first)) {
        return Some(hides(named, wrapper, second));
    }
    let problem = format!(
        "is named with arguments, which would not be in the keys; set CC={first} and give flags to Kernel::flag"
    );
    Some(CompileProblem::Unusable { compiler: named.into(), problem })
}

fn hides(named: &str, wrapper: &str, compiler: &str) -> CompileProblem {
    let problem = format!(
        "is {wrapper}, a cache of its own that hides which compiler it runs; name the compiler itself, as in CC={compiler}"
    );
    CompileProblem::Unusable { compiler: named.into(), problem }
}

fn missing(path: &Path) -> CompileProblem {
    CompileProblem::NoCompiler(path.display().to_string())
}

/// The programs of this name: on the `PATH` if it is a bare name.
pub(super) fn find_programs(name: &OsStr) -> impl Iterator<Item = PathBuf> {
    let is_bare = Path::new(name).components().count() <= 1;
    let directories = if is_bare { env::var_os("PATH").unwrap_or_default() } else { OsString::new() };
    let found = env::split_paths(&directories).map(|directory| directory.join(name)).collect();
    let found: Vec<_> = if is_bare { found } else { vec![PathBuf::from(name)] };
    found.into_iter().filter(|path| is_program(path))
}

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;

    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.is_file()
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    #[test]
    fn several_words_are_refused_with_what_to_write_instead() {
        let said = |name: &str| Compiler::named(OsStr::new(name)).unwrap_err().to_string();
        let error = said("ccache gcc -m32");
        assert!(error.contains("ccache") && error.contains("CC=gcc"), "{error}");
        let error = said("/opt/bin/sccache clang");
        assert!(error.contains("a cache of its own") && error.contains("CC=clang"), "{error}");
        let error = said("gcc -m32");
        assert!(error.contains("CC=gcc") && error.contains("Kernel::flag"), "{error}");
        assert!(said("no-such-compiler").contains("install"));
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
            assert!(error.is_no_compiler() && error.to_string().contains("a cache of its own"), "{error}");
        }
    }
}

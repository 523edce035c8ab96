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

use crate::os::fork::Mutex;

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
    os::FileIdentity,
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
        match env::var_os("CC") {
            Some(name) if !name.is_empty() => Self::named(&name, "the one that CC names"),
            _ => Self::named(OsStr::new("cc"), "the default"),
        }
    }

    /// The compiler at `path`.
    ///
    /// # Errors
    /// There is none, it is `ccache` or its like, which hide what the compiler is, or this is Windows, where none is supported yet.
    pub fn at(path: impl AsRef<Path>) -> Result<Self, CompileError> {
        let path = path.as_ref();
        let missing = || CompileError::new(CompileProblem::NoCompiler(path.display().to_string()));
        if cfg!(not(unix)) {
            return Err(CompileError::new(CompileProblem::NoCompiler(String::from(
                "nothing, because C kernels are not supported on this system yet",
            ))));
        }
        // Not behind its links: the name that a compiler is called by can decide what it does.
        let path = std::path::absolute(path).map_err(|_| missing())?;
        if !is_program(&path) {
            return Err(missing());
        }
        if let Some(wrapper) = wrapper_at(&path) {
            return Err(CompileError::new(CompileProblem::Wrapped {
                named: path.display().to_string(),
                wrapper,
                compiler: None,
            }));
        }
        Ok(Self { path, known: Mutex::new(None) })
    }

    /// Where the compiler is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn named(name: &OsStr, role: &str) -> Result<Self, CompileError> {
        match find_compiler(name) {
            Some(path) => Self::at(path),
            None => Err(CompileError::new(holds_more(name).unwrap_or_else(|| {
                CompileProblem::NoCompiler(format!("`{}` ({role}) on the PATH", name.display()))
            }))),
        }
    }

    /// What the compiler is: remembered, else read from the store and checked against the file system, else asked.
    pub(super) fn identity(&self, store: &impl Store) -> Result<Arc<Probe>, CompileError> {
        // Held while the compiler is asked, so that it is asked once.
        let mut known = self.known.lock();
        let missing = || CompileError::new(CompileProblem::NoCompiler(self.path.display().to_string()));
        let driver = FileIdentity::of_path(&self.path).ok_or_else(missing)?;
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
    [
        path.file_stem().map(OsStr::to_os_string),
        fs::canonicalize(path).ok()?.file_stem().map(OsStr::to_os_string),
    ]
    .into_iter()
    .flatten()
    .find_map(|name| WRAPPERS.iter().copied().find(|wrapper| name == *wrapper))
}

/// The problem with a name of several words: a wrapper and a compiler, or a compiler and its flags.
fn holds_more(name: &OsStr) -> Option<CompileProblem> {
    let named = name.to_str()?;
    let mut words = named.split_whitespace();
    let first = words.next()?;
    let second = words.next()?;
    let wrapper =
        WRAPPERS.iter().copied().find(|wrapper| Path::new(first).file_stem() == Some(OsStr::new(wrapper)));
    let named = String::from(named);
    Some(match wrapper {
        Some(wrapper) => CompileProblem::Wrapped { named, wrapper, compiler: Some(second.into()) },
        None => CompileProblem::Arguments { named, compiler: first.into() },
    })
}

/// The program of this name that is no wrapper, where there is a choice.
fn find_compiler(name: &OsStr) -> Option<PathBuf> {
    find_programs(name).find(|path| wrapper_at(path).is_none()).or_else(|| find_program(name))
}

/// The program of this name: on the `PATH` if it is a bare name.
pub(super) fn find_program(name: &OsStr) -> Option<PathBuf> {
    find_programs(name).next()
}

fn find_programs(name: &OsStr) -> impl Iterator<Item = PathBuf> {
    let path = Path::new(name);
    let is_bare = path.components().count() <= 1;
    let directories = env::var_os("PATH").filter(|_| is_bare).unwrap_or_default();
    let found: Vec<_> = if is_bare {
        env::split_paths(&directories).map(|directory| directory.join(name)).collect()
    } else {
        vec![path.to_path_buf()]
    };
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
        let said =
            |name: &str| Compiler::named(OsStr::new(name), "the one that CC names").unwrap_err().to_string();
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

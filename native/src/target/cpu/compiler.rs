//! The machine's C compiler: finding it, and knowing it again without running it.

use std::{
    env,
    ffi::{OsStr, OsString},
    fmt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use warmstart_core::{
    artifact::Artifact,
    key::{Key, KeyFields},
};

use super::{
    error::{CompileError, CompileProblem},
    probe::Probe,
    stat::FileIdentity,
};
use crate::store::{Lookup, Store};

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
    /// The compiler that the environment variable `CC` names, else `cc` on the `PATH`.
    ///
    /// # Errors
    /// There is none, or this is Windows, where none is supported yet.
    pub fn find() -> Result<Self, CompileError> {
        match env::var_os("CC") {
            Some(name) if !name.is_empty() => Self::named(&name, "the one that CC names"),
            _ => Self::named(OsStr::new("cc"), "the default"),
        }
    }

    /// The compiler at `path`.
    ///
    /// # Errors
    /// There is none, or this is Windows, where none is supported yet.
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
        Ok(Self { path, known: Mutex::new(None) })
    }

    /// Where the compiler is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn named(name: &OsStr, role: &str) -> Result<Self, CompileError> {
        match find_program(name) {
            Some(path) => Self::at(path),
            None => Err(CompileError::new(CompileProblem::NoCompiler(format!(
                "`{}` ({role}) on the PATH",
                name.display()
            )))),
        }
    }

    /// What the compiler is: remembered, else read from the store and checked against the file system, else asked.
    pub(super) fn identity(&self, store: &impl Store) -> Result<Arc<Probe>, CompileError> {
        // Held while the compiler is asked, so that it is asked once.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
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
            // Not kept means asked again, nothing worse.
            let _ = store.put(key.as_bytes(), &Artifact::new(bytes));
        }
        Ok(keep(probe))
    }

    /// Whether the compiler is still what `probe` says. If not, it is asked anew the next time.
    pub(super) fn is_still(&self, probe: &Probe) -> bool {
        let still = FileIdentity::of_path(&self.path) == Some(probe.driver) && probe.holds();
        if !still {
            *self.known.lock().unwrap_or_else(PoisonError::into_inner) = None;
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

/// The program of this name: on the `PATH` if it is a bare name.
pub(super) fn find_program(name: &OsStr) -> Option<PathBuf> {
    let path = Path::new(name);
    if path.components().count() > 1 {
        return is_program(path).then(|| path.to_path_buf());
    }
    env::split_paths(&env::var_os("PATH")?)
        .map(|directory| directory.join(name))
        .find(|path| is_program(path))
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

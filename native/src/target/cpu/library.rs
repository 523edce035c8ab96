//! A loaded object.

use std::{fmt, fs, io, ops::Deref, path::Path};

use warmstart_core::artifact::Artifact;

use super::{
    FEATURES, MACHINE,
    error::{LoadError, LoadProblem},
    features::CpuFeatures,
    machine,
};

/// A shared object in this process, unloaded when dropped.
///
/// ```no_run
/// # use warmstart::{Artifact, target::cpu::Library};
/// # let artifact = Artifact::new(Vec::new());
/// // SAFETY: we compiled the object from a source of ours, and `add` has this type there.
/// let sum = unsafe {
///     let library = Library::load(&artifact)?;
///     let add = library.symbol::<unsafe extern "C" fn(i32, i32) -> i32>("add")?;
///     add(1, 2)
/// };
/// # Ok::<(), warmstart::target::cpu::LoadError>(())
/// ```
#[derive(Debug)]
pub struct Library {
    // Unloaded before what it was loaded from goes, because fields are dropped in this order.
    handle: libloading::Library,
    #[expect(dead_code, reason = "kept until the library is unloaded")]
    backing: Backing,
}

/// What a library was loaded from.
#[derive(Debug)]
enum Backing {
    /// Kept open: profilers and debuggers open the name that the library was loaded by, and the number of a closed
    /// descriptor would lead them to another file.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    Memory(#[expect(dead_code, reason = "kept until the library is unloaded")] fs::File),
    /// The name is gone already.
    #[cfg(unix)]
    Unlinked,
    /// A file that is in use cannot be removed here.
    #[cfg(not(unix))]
    Directory(#[expect(dead_code, reason = "removed when dropped")] tempfile::TempDir),
}

impl Library {
    /// Loads an object that a [`CpuTarget`](super::CpuTarget) compiled.
    ///
    /// # Errors
    /// The host lacks a feature that the object needs, or the system's loader refuses the object.
    ///
    /// # Safety
    /// Loading runs the object's constructors: it has to come from a source that you would run.
    pub unsafe fn load(artifact: &Artifact) -> Result<Self, LoadError> {
        check(artifact)?;
        let object = artifact.payload();
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            // SAFETY: the caller vouches for the object.
            if let Ok(library) = unsafe { load_from_memory(object) } {
                return Ok(library);
            }
            // Some kernels let nothing be executed from memory.
        }
        // SAFETY: the caller vouches for the object.
        unsafe { load_from_file(object) }
    }

    /// The symbol of this name: a function pointer, or a pointer to data.
    ///
    /// # Errors
    /// There is no such symbol.
    ///
    /// # Safety
    /// The symbol has to be of type `T` in the object's source.
    pub unsafe fn symbol<T>(&self, name: &str) -> Result<Symbol<'_, T>, LoadError> {
        // SAFETY: the caller vouches for the type.
        let symbol = unsafe { self.handle.get::<T>(name.as_bytes()) };
        symbol.map(Symbol).map_err(|error| LoadError::new(LoadProblem::Symbol(String::from(name), error)))
    }
}

/// A symbol of a [`Library`], which it cannot outlive.
pub struct Symbol<'library, T>(libloading::Symbol<'library, T>);

impl<T> Deref for Symbol<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Symbol<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Refuses what this host cannot run. What says nothing about itself is left to the system's loader.
fn check(artifact: &Artifact) -> Result<(), LoadError> {
    let Ok(metadata) = artifact.metadata() else { return Ok(()) };
    let text = |name| metadata.attribute(name).and_then(|bytes| std::str::from_utf8(bytes).ok());
    if let Some(built_for) = text(MACHINE)
        && built_for != machine()
    {
        return Err(LoadError::new(LoadProblem::OtherMachine(String::from(built_for))));
    }
    let missing =
        CpuFeatures::parse(text(FEATURES).unwrap_or_default()).missing_from(CpuFeatures::loadable());
    if missing == CpuFeatures::none() {
        return Ok(());
    }
    Err(LoadError::new(LoadProblem::MissingFeatures(missing.to_string())))
}

/// # Safety
/// As [`Library::load`].
#[cfg(any(target_os = "linux", target_os = "android"))]
unsafe fn load_from_memory(object: &[u8]) -> Result<Library, LoadError> {
    use std::{io::Write, os::fd::AsRawFd};

    let io = |error| LoadError::new(LoadProblem::Io(error));
    let memory = rustix::fs::memfd_create(c"warmstart", rustix::fs::MemfdFlags::CLOEXEC)
        .map_err(|error| io(error.into()))?;
    let mut memory = fs::File::from(memory);
    memory.write_all(object).map_err(io)?;
    let path = spelt_anew(memory.as_raw_fd());
    // SAFETY: the caller vouches for the object.
    let handle = unsafe { open(Path::new(&path)) }?;
    Ok(Library { handle, backing: Backing::Memory(memory) })
}

/// A spelling of the descriptor's path that no other load of this process uses.
///
/// The loader returns the library that it already has under a name. A library can outlive its descriptor (its author
/// may forbid that it is unloaded), and the number of the descriptor then names another: so every load writes the
/// path with another sequence of `/` and `/.`, which lead to the same place.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn spelt_anew(descriptor: std::os::fd::RawFd) -> String {
    use std::sync::atomic::{AtomicU64, Ordering};

    static LOADS: AtomicU64 = AtomicU64::new(1);
    let mut number = LOADS.fetch_add(1, Ordering::Relaxed);
    let mut path = String::from("/proc/self/fd");
    while number > 0 {
        path.push_str(if number & 1 == 1 { "/." } else { "/" });
        number >>= 1;
    }
    path + &format!("/{descriptor}")
}

/// # Safety
/// As [`Library::load`].
unsafe fn load_from_file(object: &[u8]) -> Result<Library, LoadError> {
    let io = |error| LoadError::new(LoadProblem::Io(error));
    let directory = private_directory("warmstart-").map_err(io)?;
    // The directory's name is random: no name is used twice.
    let path = directory.path().join(if cfg!(windows) { "kernel.dll" } else { "kernel.so" });
    fs::write(&path, object).map_err(io)?;
    // SAFETY: the caller vouches for the object.
    let handle = unsafe { open(&path) }?;
    #[cfg(unix)]
    let backing = Backing::Unlinked;
    #[cfg(not(unix))]
    let backing = Backing::Directory(directory);
    Ok(Library { handle, backing })
}

/// # Safety
/// As [`Library::load`].
unsafe fn open(path: &Path) -> Result<libloading::Library, LoadError> {
    let failed = |error| LoadError::new(LoadProblem::Open(error));
    #[cfg(unix)]
    {
        use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

        // SAFETY: the caller vouches for the object.
        unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map(Into::into).map_err(failed)
    }
    #[cfg(not(unix))]
    // SAFETY: the caller vouches for the object.
    unsafe { libloading::Library::new(path) }.map_err(failed)
}

/// A new directory that nobody else can enter, removed when dropped.
pub(super) fn private_directory(prefix: &str) -> io::Result<tempfile::TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    builder.tempdir()
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use crate::{Cache, Limits, store::MemoryStore, target::cpu};

    fn object(value: i32) -> Artifact {
        let target = cpu::CpuTarget::new(cpu::Compiler::find().unwrap());
        let kernel = cpu::Kernel::new("f", format!("int f(void) {{ return {value}; }}"));
        target.compile(&Cache::new(MemoryStore::new(Limits::NONE)), &kernel).unwrap().into_artifact()
    }

    #[test]
    fn where_nothing_can_be_executed_from_memory_a_file_is_loaded() {
        let libraries = [1, 2, 1].map(|value| {
            // SAFETY: the object is this test's.
            (value, unsafe { load_from_file(object(value).payload()) }.unwrap())
        });
        for (value, library) in &libraries {
            // SAFETY: it has this type.
            let f = unsafe { library.symbol::<unsafe extern "C" fn() -> i32>("f") }.unwrap();
            // SAFETY: it has no preconditions.
            assert_eq!(unsafe { f() }, *value);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_descriptor_is_spelt_in_a_new_way_each_time() {
        use std::{collections::HashSet, os::fd::AsRawFd};

        let file = tempfile::tempfile().unwrap();
        let paths: HashSet<_> = (0..1000).map(|_| spelt_anew(file.as_raw_fd())).collect();
        assert_eq!(paths.len(), 1000);
        for path in paths {
            assert!(fs::metadata(&path).is_ok(), "{path}");
        }
    }

    #[test]
    fn what_is_not_an_object_is_refused() {
        for bytes in [&b""[..], b"\x7fELF", &object(1).payload()[..100]] {
            // SAFETY: the loader refuses it.
            assert!(unsafe { Library::load(&Artifact::from(bytes)) }.is_err());
        }
    }
}

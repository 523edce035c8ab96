//! Loads objects into the process.

#[cfg(any(target_os = "linux", target_os = "android"))]
use std::sync::atomic::{AtomicU64, Ordering};
use std::{
    fs::{self, File},
    ops::Deref,
    path::Path,
};

use warmstart_core::artifact::Artifact;

use super::{
    error::{LoadError, LoadProblem},
    features::{FEATURES, MACHINE, machine, missing_here},
    probe::private_directory,
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
    // Dropped first: the library is unloaded before its file is closed.
    handle: libloading::Library,
    /// Kept open: profilers and debuggers open the name that the library was loaded by, and the number of a closed
    /// descriptor would lead them to another file.
    #[expect(dead_code, reason = "kept until the library is unloaded")]
    memory: Option<File>,
}

impl Library {
    /// Loads an object that a [`CpuTarget`](super::CpuTarget) compiled.
    ///
    /// # Errors
    /// [`LoadError`] if the host lacks a feature that the object needs, or the system's loader refuses the object.
    ///
    /// # Safety
    /// Loading runs the object's constructors, so its source must be trusted to run in this process.
    pub unsafe fn load(artifact: &Artifact) -> Result<Self, LoadError> {
        check(artifact)?;
        // Some operating system kernels forbid to execute memory files.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        // SAFETY: the caller vouches for the object.
        if let Ok((handle, memory)) = unsafe { load_from_memory(artifact.payload()) } {
            return Ok(Self { handle, memory: Some(memory) });
        }
        // SAFETY: the caller vouches for the object.
        let handle = unsafe { load_from_file(artifact.payload()) }?;
        Ok(Self { handle, memory: None })
    }

    /// Returns the symbol of this name: a function pointer, or a pointer to data.
    ///
    /// # Errors
    /// [`LoadError`] if there is no such symbol.
    ///
    /// # Safety
    /// The symbol must be of type `T` in the object's source.
    pub unsafe fn symbol<T>(&self, name: &str) -> Result<Symbol<'_, T>, LoadError> {
        // SAFETY: the caller vouches for the type.
        let symbol = unsafe { self.handle.get::<T>(name.as_bytes()) };
        Ok(Symbol(symbol.map_err(|error| LoadProblem::Symbol(String::from(name), error))?))
    }
}

/// A symbol of a [`Library`], which it cannot outlive.
#[derive(Debug)]
pub struct Symbol<'library, T>(libloading::Symbol<'library, T>);

impl<T> Deref for Symbol<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Refuses an object for other machines or CPU features. One without these attributes is left to the system's loader.
fn check(artifact: &Artifact) -> Result<(), LoadError> {
    let text = |name| artifact.attribute(name).and_then(|bytes| std::str::from_utf8(bytes).ok());
    if let Some(built_for) = text(MACHINE)
        && built_for != machine()
    {
        return Err(LoadProblem::OtherMachine(String::from(built_for)).into());
    }
    match missing_here(text(FEATURES).unwrap_or_default()) {
        missing if missing.is_empty() => Ok(()),
        missing => Err(LoadProblem::MissingFeatures(missing.join(" ")).into()),
    }
}

/// Loads an object from a file in a private directory, which can be removed while the object is in use.
///
/// # Safety
/// As [`Library::load`].
unsafe fn load_from_file(object: &[u8]) -> Result<libloading::Library, LoadProblem> {
    let directory = private_directory("warmstart-").map_err(LoadProblem::Io)?;
    // The directory's name is random: no name is used twice.
    let path = directory.path().join("kernel.so");
    fs::write(&path, object).map_err(LoadProblem::Io)?;
    // SAFETY: the caller vouches for the object.
    unsafe { open(&path) }
}

/// # Safety
/// As [`Library::load`].
unsafe fn open(path: &Path) -> Result<libloading::Library, LoadProblem> {
    // Missing symbols are found now, and not when they are called.
    #[cfg(unix)]
    // SAFETY: the caller vouches for the object.
    let opened = unsafe {
        use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
        Library::open(Some(path), RTLD_NOW | RTLD_LOCAL).map(Into::into)
    };
    #[cfg(not(unix))]
    // SAFETY: the caller vouches for the object.
    let opened = unsafe { libloading::Library::new(path) };
    opened.map_err(LoadProblem::Open)
}

/// Loads an object from memory.
///
/// # Safety
/// As [`Library::load`].
#[cfg(any(target_os = "linux", target_os = "android"))]
unsafe fn load_from_memory(object: &[u8]) -> Result<(libloading::Library, File), LoadProblem> {
    use std::{io::Write, os::fd::AsRawFd};

    let memory = rustix::fs::memfd_create(c"warmstart", rustix::fs::MemfdFlags::CLOEXEC);
    let mut memory = File::from(memory.map_err(|error| LoadProblem::Io(error.into()))?);
    memory.write_all(object).map_err(LoadProblem::Io)?;
    let path = unique_path(memory.as_raw_fd());
    // SAFETY: the caller vouches for the object.
    Ok((unsafe { open(Path::new(&path)) }?, memory))
}

/// A spelling of the descriptor's path that no other load of this process uses.
///
/// The loader returns the library that it already has under a name. A library can outlive its descriptor (its author
/// may forbid that it is unloaded), and the number of the descriptor then names another: so every load writes the
/// path with another sequence of `/` and `/.`, which lead to the same place.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn unique_path(descriptor: std::os::fd::RawFd) -> String {
    static LOADS: AtomicU64 = AtomicU64::new(1);
    let mut number = LOADS.fetch_add(1, Ordering::Relaxed);
    let mut path = String::from("/proc/self/fd");
    while number > 0 {
        path.push_str(if number & 1 == 1 { "/." } else { "/" });
        number >>= 1;
    }
    path + &format!("/{descriptor}")
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
            let f = unsafe { library.get::<unsafe extern "C" fn() -> i32>(b"f") }.unwrap();
            // SAFETY: it has no preconditions.
            assert_eq!(unsafe { f() }, *value);
        }
    }

    #[test]
    fn what_is_not_an_object_is_refused() {
        for bytes in [&b""[..], b"\x7fELF", &object(1).payload()[..100]] {
            // SAFETY: the loader refuses it.
            assert!(unsafe { Library::load(&Artifact::from(bytes)) }.is_err());
        }
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[test]
    fn a_descriptor_is_spelt_in_a_new_way_each_time() {
        use std::{collections::HashSet, os::fd::AsRawFd};

        let file = tempfile::tempfile().unwrap();
        let paths: HashSet<_> = (0..1000).map(|_| unique_path(file.as_raw_fd())).collect();
        assert_eq!(paths.len(), 1000);
        for path in paths {
            assert!(fs::metadata(&path).is_ok(), "{path}");
        }
    }
}

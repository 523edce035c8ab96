//! A loaded object.

use std::{fmt, fs, io, ops::Deref};

use cfg_if::cfg_if;
use warmstart_core::artifact::Artifact;

use super::{
    FEATURES, MACHINE,
    error::{LoadError, LoadProblem},
    features::CpuFeatures,
    machine,
};

cfg_if! {
    if #[cfg(any(target_os = "linux", target_os = "android"))] {
        mod linux;
        mod unix;
        use linux as platform;
    } else if #[cfg(unix)] {
        mod unix;
        use unix as platform;
    } else {
        mod other;
        use other as platform;
    }
}

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
    backing: platform::Backing,
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
        // SAFETY: the caller vouches for the object.
        let (handle, backing) = unsafe { platform::load(artifact.payload()) }?;
        Ok(Self { handle, backing })
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

/// Loads an object from a file in a directory of its own.
///
/// # Safety
/// As [`Library::load`].
unsafe fn load_from_file(object: &[u8]) -> Result<(libloading::Library, tempfile::TempDir), LoadError> {
    let io = |error| LoadError::new(LoadProblem::Io(error));
    let directory = private_directory("warmstart-").map_err(io)?;
    // The directory's name is random: no name is used twice.
    let path = directory.path().join(if cfg!(windows) { "kernel.dll" } else { "kernel.so" });
    fs::write(&path, object).map_err(io)?;
    // SAFETY: the caller vouches for the object.
    let handle = unsafe { platform::open(&path) };
    Ok((handle.map_err(|error| LoadError::new(LoadProblem::Open(error)))?, directory))
}

/// A new directory that nobody else can enter, removed when dropped.
pub(super) fn private_directory(prefix: &str) -> io::Result<tempfile::TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix);
    platform::restrict(&mut builder);
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
            (value, unsafe { unix::load(object(value).payload()) }.unwrap().0)
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
}

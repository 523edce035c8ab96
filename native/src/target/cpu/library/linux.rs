//! Objects are loaded from memory, where the kernel lets it be executed.

use std::{
    fs::File,
    io::Write,
    os::fd::{AsRawFd, RawFd},
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use super::{
    super::error::{LoadError, LoadProblem},
    unix,
};

pub(super) use super::unix::{open, restrict};

/// The memory, kept open: profilers and debuggers open the name that the library was loaded by, and the number of a
/// closed descriptor would lead them to another file.
pub(super) type Backing = Option<File>;

/// # Safety
/// As [`Library::load`](super::Library::load).
pub(super) unsafe fn load(object: &[u8]) -> Result<(libloading::Library, Backing), LoadError> {
    // SAFETY: the caller vouches for the object.
    if let Ok((library, memory)) = unsafe { load_from_memory(object) } {
        return Ok((library, Some(memory)));
    }
    // Some kernels let nothing be executed from memory. SAFETY: the caller vouches for the object.
    unsafe { unix::load(object) }.map(|(library, ())| (library, None))
}

/// # Safety
/// As [`Library::load`](super::Library::load).
unsafe fn load_from_memory(object: &[u8]) -> Result<(libloading::Library, File), LoadError> {
    let io = |error| LoadError::new(LoadProblem::Io(error));
    let memory = rustix::fs::memfd_create(c"warmstart", rustix::fs::MemfdFlags::CLOEXEC)
        .map_err(|error| io(error.into()))?;
    let mut memory = File::from(memory);
    memory.write_all(object).map_err(io)?;
    let path = unique_path(memory.as_raw_fd());
    // SAFETY: the caller vouches for the object.
    let library = unsafe { open(Path::new(&path)) };
    Ok((library.map_err(|error| LoadError::new(LoadProblem::Open(error)))?, memory))
}

/// A spelling of the descriptor's path that no other load of this process uses.
///
/// The loader returns the library that it already has under a name. A library can outlive its descriptor (its author
/// may forbid that it is unloaded), and the number of the descriptor then names another: so every load writes the
/// path with another sequence of `/` and `/.`, which lead to the same place.
fn unique_path(descriptor: RawFd) -> String {
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
mod tests {
    use std::{collections::HashSet, fs};

    use super::*;

    #[test]
    fn a_descriptor_is_spelt_in_a_new_way_each_time() {
        let file = tempfile::tempfile().unwrap();
        let paths: HashSet<_> = (0..1000).map(|_| unique_path(file.as_raw_fd())).collect();
        assert_eq!(paths.len(), 1000);
        for path in paths {
            assert!(fs::metadata(&path).is_ok(), "{path}");
        }
    }
}

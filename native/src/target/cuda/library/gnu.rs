//! Reads the build id of a library from memory, through the loader: the file under its path may have been replaced.

use std::{
    ffi::{OsStr, c_char, c_int, c_void},
    mem,
    path::Path,
    ptr::null_mut,
    slice,
};

use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL, RTLD_NOW};
use object::{Endianness, read::elf::NoteIterator};

use crate::target::cuda::toolkit::part::{HostHeader, build_id_of};

/// Loads a library, and returns it with its build id in memory.
///
/// # Safety
/// As [`Loaded::open`](super::Loaded::open).
pub(super) unsafe fn open(path: &Path) -> Result<(libloading::Library, Option<Vec<u8>>), libloading::Error> {
    // SAFETY: the caller vouches for the library.
    unsafe { open_with(path.as_os_str(), RTLD_NOW | RTLD_LOCAL) }
}

/// Returns the build id of the loaded library that has this name in itself, whatever its file is called. `None` if no such
/// library is loaded.
pub(in crate::target::cuda) fn build_id_by_name(name: &str) -> Option<Vec<u8>> {
    // SAFETY: nothing is loaded, and so nothing runs.
    unsafe { open_with(name.as_ref(), RTLD_LAZY | libc::RTLD_NOLOAD) }.ok()?.1
}

/// # Safety
/// As [`open`], unless the flags say that nothing is loaded.
unsafe fn open_with(
    name: &OsStr,
    flags: c_int,
) -> Result<(libloading::Library, Option<Vec<u8>>), libloading::Error> {
    // SAFETY: the caller vouches for the library.
    let handle = unsafe { Library::open(Some(name), flags) }?.into_raw();
    // SAFETY: it is open, and is closed by `library` only.
    let (library, build_id) = unsafe { (Library::from_raw(handle), build_id_of_handle(handle)) };
    Ok((library.into(), build_id))
}

/// The first fields of every `link_map` of the loader.
#[repr(C)]
struct LinkMap {
    base: usize,
    name: *mut c_char,
    dynamic: *const c_void,
}

/// The library to find among the loaded ones.
struct Wanted {
    /// An address in it.
    address: usize,
    build_id: Option<Vec<u8>>,
}

/// Reads the build id of the library with this handle from memory.
///
/// # Safety
/// The handle is one of `dlopen`, and is open until this returns.
unsafe fn build_id_of_handle(handle: *mut c_void) -> Option<Vec<u8>> {
    let mut map: *const LinkMap = null_mut();
    // SAFETY: the handle is open, and for this request the last is where a pointer is put.
    let failed = unsafe { libc::dlinfo(handle, libc::RTLD_DI_LINKMAP, (&raw mut map).cast()) } != 0;
    if failed || map.is_null() {
        return None;
    }
    // SAFETY: the loader's own entry of a library that is open begins with these three.
    let address = unsafe { (*map).dynamic } as usize;
    let mut wanted = Wanted { address, build_id: None };
    // SAFETY: the callback is handed `wanted`, and is not called after this returns.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut wanted).cast()) };
    wanted.build_id
}

/// # Safety
/// As `dl_iterate_phdr` calls it, with a [`Wanted`].
unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, size: libc::size_t, wanted: *mut c_void) -> c_int {
    // The fields after the segments are not in every version, and not needed.
    if size < mem::offset_of!(libc::dl_phdr_info, dlpi_phnum) + mem::size_of::<libc::Elf64_Half>() {
        return 0;
    }
    // SAFETY: both are what the caller says, and nothing else refers to `wanted`.
    let (info, wanted) = unsafe { (&*info, &mut *wanted.cast::<Wanted>()) };
    if info.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: the loader keeps the segments of what is loaded, as many as it says.
    let segments = unsafe { slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let place = |segment: &libc::Elf64_Phdr| {
        ((info.dlpi_addr as usize).wrapping_add(segment.p_vaddr as usize), segment.p_memsz as usize)
    };
    let is_in = |segment: &&_| {
        let (start, len) = place(segment);
        wanted.address.wrapping_sub(start) < len
    };
    let loaded = || segments.iter().filter(|segment| segment.p_type == libc::PT_LOAD);
    if !loaded().any(|segment| is_in(&segment)) {
        return 0;
    }
    for note in segments.iter().filter(|segment| segment.p_type == libc::PT_NOTE) {
        let (start, len) = place(note);
        let is_loaded = loaded().any(|segment| {
            let (from, loaded) = place(segment);
            start.checked_sub(from).and_then(|at| at.checked_add(len)).is_some_and(|end| end <= loaded)
        });
        if !is_loaded {
            continue;
        }
        // SAFETY: the loader has mapped it for reading, and it stays while the library is open. It does not change.
        let notes = unsafe { slice::from_raw_parts(start as *const u8, len) };
        let notes = NoteIterator::<HostHeader>::new(Endianness::default(), note.p_align, notes);
        if let Some(id) = notes.ok().and_then(build_id_of) {
            wanted.build_id = Some(id);
            break;
        }
    }
    1
}

//! Files of packed weights.

use std::{ffi::c_char, path::Path, ptr, time::Duration};

use native::{
    Reason,
    pack::{Checks, Pack, PackOptions},
};

use crate::{
    sized::fill,
    status::{Failure, answer, call, object, place, text, ws_status},
};

/// No payload is proved by its checksum. The index of a file always is.
pub const WS_CHECKS_NONE: u32 = 0;
/// Each payload is proved at the first look-up that finds it.
pub const WS_CHECKS_FIRST_USE: u32 = 1;
/// All payloads are proved when the pack is opened.
pub const WS_CHECKS_ALL: u32 = 2;

/// Never write to the file: what is packed goes to the heap.
pub const WS_READ_ONLY: u32 = 1;
/// Have the system read the whole file ahead when it is opened.
pub const WS_PREFETCH: u32 = 2;
/// Use entries of an unverified model: those of a file of ExecuTorch's that was converted without saying of which model it is. If the model was changed under the same names, these are the old weights.
pub const WS_UNVERIFIED: u32 = 4;

/// A file of packed weights that is open.
#[derive(Debug)]
pub struct ws_pack {
    pub(crate) pack: Pack,
}

/// How a pack is opened. Fill it with zeros and set `size`; zeros are what NULL options mean.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ws_pack_options {
    /// sizeof(ws_pack_options).
    pub size: usize,
    /// WS_CHECKS_NONE, WS_CHECKS_FIRST_USE or WS_CHECKS_ALL.
    pub checks: u32,
    /// Of WS_READ_ONLY, WS_PREFETCH and WS_UNVERIFIED.
    pub flags: u32,
    /// How long to wait for another writer, in milliseconds, before weights go to the heap instead.
    pub patience_ms: u64,
}

/// What happened with a pack since it was opened in this process. Set `size` before it is filled.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ws_pack_counts {
    /// sizeof(ws_pack_counts). No more is filled.
    pub size: usize,
    /// Entries that the file has.
    pub entries: u64,
    /// Look-ups that found what they wanted.
    pub hits: u64,
    /// Look-ups that did not.
    pub misses: u64,
    /// Of these, look-ups of weights that are stored as another model's.
    pub misses_other_model: u64,
    /// Of these, look-ups of weights that are stored as packed for another micro-kernel or by another algorithm.
    pub misses_other_packing: u64,
    /// Weights that were packed and can be found.
    pub packed: u64,
    /// Weights that went to the heap.
    pub heap_entries: u64,
    /// Bytes of them.
    pub heap_bytes: u64,
    /// Saves that wrote something.
    pub saves: u64,
    /// Entries that they added to the file.
    pub saved_entries: u64,
    /// Bytes that they added to the file.
    pub written_bytes: u64,
    /// Weights that did not go to the file, and saves that did not happen: no space, busy, read-only, damaged, cut off, unnamed.
    pub refusals: u64,
    /// Of the misses, look-ups of weights that are stored, and of which nothing says of which model they are. Convert the file
    /// with `warmstart convert FILE --to 3 --model MODEL`, or open it with WS_UNVERIFIED.
    pub misses_unverified_model: u64,
}

impl ws_pack_options {
    /// What a caller set, who may know fewer fields.
    ///
    /// # Safety
    /// The pointer is null, or to so many bytes as the first field says.
    unsafe fn read(options: *const Self) -> Result<PackOptions, Failure> {
        let mut read = Self::default();
        if !options.is_null() {
            // SAFETY: as the caller promises: the size is the first field.
            let size = unsafe { options.cast::<usize>().read_unaligned() };
            if size < size_of::<usize>() || size > size_of::<Self>() {
                return Err(Failure::invalid(format!(
                    "the options say that their size is {size}: set it to sizeof(ws_pack_options), which is at most {} here",
                    size_of::<Self>()
                )));
            }
            // SAFETY: both are so long, and a field of any bits is a number.
            unsafe { ptr::copy_nonoverlapping(options.cast::<u8>(), (&raw mut read).cast(), size) };
        }
        let checks = match read.checks {
            WS_CHECKS_NONE => Checks::None,
            WS_CHECKS_FIRST_USE => Checks::FirstUse,
            WS_CHECKS_ALL => Checks::All,
            other => return Err(Failure::invalid(format!("{other} are no checks: see WS_CHECKS_NONE"))),
        };
        let known = WS_READ_ONLY | WS_PREFETCH | WS_UNVERIFIED;
        if read.flags & !known != 0 {
            return Err(Failure::invalid(format!("flags {:#x} have no meaning", read.flags & !known)));
        }
        let has = |flag| read.flags & flag != 0;
        Ok(PackOptions::default()
            .with_checks(checks)
            .with_read_only(has(WS_READ_ONLY))
            .with_prefetch(has(WS_PREFETCH))
            .with_unverified(has(WS_UNVERIFIED))
            .with_patience(Duration::from_millis(read.patience_ms)))
    }
}

/// The path that a pointer is to: any bytes on Unix, else UTF-8.
///
/// # Safety
/// The pointer is null, or to bytes that end with a zero and are there, unchanged, for `'a`.
pub(crate) unsafe fn file_name<'a>(path: *const c_char) -> Result<&'a Path, Failure> {
    #[cfg(unix)]
    if !path.is_null() {
        use std::os::unix::ffi::OsStrExt;

        // SAFETY: as the caller promises.
        return Ok(Path::new(std::ffi::OsStr::from_bytes(
            unsafe { std::ffi::CStr::from_ptr(path) }.to_bytes(),
        )));
    }
    // SAFETY: as the caller promises.
    unsafe { text(path, "path") }.map(Path::new)
}

/// Opens the pack under `path`, on Windows in UTF-8; the file is made when something is first packed into it. An empty path opts out: all
/// is kept in the heap, and nothing is saved. `options` may be NULL. If the pack is open in this process already, this is
/// another handle on it, and the options must be the same.
///
/// On success `*pack` is the pack, which ws_pack_close closes; else it is NULL. Fails with WS_INVALID_ARGUMENT, WS_WRONG_FILE,
/// WS_UNTRUSTED or WS_IO. A file that is damaged, or that cannot be read or written just now, is no failure.
///
/// A file that ExecuTorch wrote (version 2) is WS_WRONG_FILE: the command `warmstart convert FILE --to 3 --model MODEL` makes it
/// version 3. Never give ExecuTorch and this library one path: each
/// takes the other's file for damaged, and ExecuTorch truncates what it cannot read.
///
/// # Safety
/// As the header says: pointers are NULL or to what they are declared to be to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_pack_open(
    path: *const c_char,
    options: *const ws_pack_options,
    pack: *mut *mut ws_pack,
) -> ws_status {
    call(|| {
        let into = place(pack, "pack")?;
        // SAFETY: the place is one for a pointer.
        unsafe { into.write(ptr::null_mut()) };
        // SAFETY: as the caller promises.
        let (path, options) = unsafe { (file_name(path)?, ws_pack_options::read(options)?) };
        let pack = if path.as_os_str().is_empty() {
            Pack::in_memory()
        } else {
            Pack::open(path, options).map_err(|error| {
                let status = match () {
                    () if error.is_wrong_kind() => ws_status::WS_WRONG_FILE,
                    () if error.is_untrusted() => ws_status::WS_UNTRUSTED,
                    () if error.is_other_options() => ws_status::WS_INVALID_ARGUMENT,
                    () => ws_status::WS_IO,
                };
                Failure::new(status, error.to_string())
            })?
        };
        // SAFETY: the place is one for a pointer.
        unsafe { into.write(Box::into_raw(Box::new(ws_pack { pack }))) };
        Ok(())
    })
}

/// Makes what was packed since the last save what the next process finds, and waits until it is on the medium. With nothing
/// new, nothing is written. If another program cut the file off or wrote over it, nothing is saved, and what was saved in it or
/// packed into it is not found any more. NULL is WS_INVALID_ARGUMENT; else the status is WS_OK or WS_NOT_SAVED.
///
/// # Safety
/// The pointer is NULL or to an open pack.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_pack_save(pack: *const ws_pack) -> ws_status {
    // SAFETY: as the caller promises.
    call(|| save(&unsafe { object(pack, "pack") }?.pack))
}

pub(crate) fn save(pack: &Pack) -> Result<(), Failure> {
    let not_saved = |reason: Reason| {
        let remedy = match reason {
            Reason::OldVersion => {
                "; make it a file that can be written to with: warmstart convert FILE --to 3 --model MODEL"
            }
            Reason::Truncated => {
                "; remove the file, and what it held is packed again; if another program writes to it, give each a path of \
                 its own"
            }
            Reason::Absent => "; make the directory that the file is to be in",
            _ => "",
        };
        Failure::new(ws_status::WS_NOT_SAVED, format!("not saved: {reason}{remedy}"))
    };
    match pack.save().map_err(not_saved)?.left {
        0 => Ok(()),
        left => Err(Failure::new(
            ws_status::WS_NOT_SAVED,
            format!("{left} weights were not saved: no space is left for them; make room, and save again"),
        )),
    }
}

/// Looks at the file again: what other processes saved meanwhile is found from now on, and what was in a file that another program
/// cut off or wrote over is not. ws_provider_begin does so too. NULL is
/// WS_INVALID_ARGUMENT.
///
/// # Safety
/// The pointer is NULL or to an open pack.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_pack_refresh(pack: *const ws_pack) -> ws_status {
    call(|| {
        // SAFETY: as the caller promises.
        unsafe { object(pack, "pack") }?.pack.refresh();
        Ok(())
    })
}

/// Has the system read all of the file ahead, and does not wait for it. NULL is WS_INVALID_ARGUMENT.
///
/// # Safety
/// The pointer is NULL or to an open pack.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_pack_prefetch(pack: *const ws_pack) -> ws_status {
    call(|| {
        // SAFETY: as the caller promises.
        unsafe { object(pack, "pack") }?.pack.prefetch();
        Ok(())
    })
}

/// Gives the pages of the file back to the system until they are touched again. NULL is WS_INVALID_ARGUMENT.
///
/// # Safety
/// The pointer is NULL or to an open pack.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_pack_release(pack: *const ws_pack) -> ws_status {
    call(|| {
        // SAFETY: as the caller promises.
        unsafe { object(pack, "pack") }?.pack.release();
        Ok(())
    })
}

/// How many weights are saved in the file, as far as this process has looked. 0 for NULL.
///
/// # Safety
/// The pointer is NULL or to an open pack.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_pack_len(pack: *const ws_pack) -> usize {
    // SAFETY: as the caller promises.
    answer(0, || Ok(unsafe { object(pack, "pack") }?.pack.len()))
}

/// What happened with the pack. Set `counts->size` to sizeof(ws_pack_counts) before. NULL is WS_INVALID_ARGUMENT.
///
/// # Safety
/// The pointers are NULL, or to an open pack and to so many bytes as the size says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_pack_statistics(pack: *const ws_pack, counts: *mut ws_pack_counts) -> ws_status {
    call(|| {
        // SAFETY: as the caller promises.
        let pack = &unsafe { object(pack, "pack") }?.pack;
        let statistics = pack.statistics();
        let of = |reason| statistics.misses.of(reason);
        let filled = ws_pack_counts {
            size: 0,
            entries: pack.len() as u64,
            hits: statistics.hits,
            misses: statistics.misses.total(),
            misses_other_model: of(Reason::OtherModel),
            misses_other_packing: of(Reason::OtherSeed) + of(Reason::OtherFingerprint),
            packed: statistics.packed,
            heap_entries: statistics.heap_entries,
            heap_bytes: statistics.heap_bytes,
            saves: statistics.saves,
            saved_entries: statistics.saved_entries,
            written_bytes: statistics.written_bytes,
            refusals: statistics.refusals.total(),
            misses_unverified_model: of(Reason::UnverifiedModel),
        };
        // SAFETY: as the caller promises.
        unsafe { fill(counts, filled) }
    })
}

/// Closes a pack, without what was not saved. Providers over it stay good, and keep the file open until they are destroyed.
/// NULL does nothing. No other call may be using this handle, and none may use it again.
///
/// # Safety
/// The pointer is NULL or to an open pack.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_pack_close(pack: *mut ws_pack) {
    call(|| {
        if !pack.is_null() {
            // SAFETY: as the caller promises, it is a pack that `ws_pack_open` made, and nobody uses it.
            drop(unsafe { Box::from_raw(pack) });
        }
        Ok(())
    });
}

//! Files of packed weights.

use std::{ffi::c_char, path::Path, ptr, time::Duration};

use native::{
    MissReason,
    pack::{Checks, Pack, PackOptions},
};

use crate::status::{Failure, answer, call, call_on, destroy, fill, object, place, text, ws_status};

/// Verifies no payload by its checksum. The index of a file is always verified.
pub const WS_CHECKS_NONE: u32 = 0;
/// Verifies each payload at the first look-up that finds it.
pub const WS_CHECKS_FIRST_USE: u32 = 1;
/// Verifies all payloads when the pack is opened.
pub const WS_CHECKS_ALL: u32 = 2;

/// Never writes to the file: weights are packed into the heap.
pub const WS_READ_ONLY: u32 = 1;
/// Asks the system to read the whole file ahead when it is opened.
pub const WS_PREFETCH: u32 = 2;
/// Uses entries of an unverified model: those of an ExecuTorch file that was converted without `--model`. If the model was changed
/// under the same names, these are the old weights.
pub const WS_UNVERIFIED: u32 = 4;

/// An open file of packed weights.
#[derive(Debug)]
pub struct ws_pack {
    pub(crate) pack: Pack,
}

/// Options of ws_pack_open. Fill it with zeros and set `size`; zeros mean the same as NULL options.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ws_pack_options {
    /// sizeof(ws_pack_options).
    pub size: usize,
    /// WS_CHECKS_NONE, WS_CHECKS_FIRST_USE or WS_CHECKS_ALL.
    pub checks: u32,
    /// WS_READ_ONLY, WS_PREFETCH and WS_UNVERIFIED, combined by `|`.
    pub flags: u32,
    /// Timeout for another writer, in milliseconds; after it, weights go to the heap instead.
    pub timeout_ms: u64,
}

/// Counters of a pack since it was opened in this process. Set `size` before the call that fills it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ws_pack_counts {
    /// sizeof(ws_pack_counts), which limits what is filled.
    pub size: usize,
    /// Entries in the file.
    pub entries: u64,
    /// Look-ups that found their weight.
    pub hits: u64,
    /// Look-ups that did not find it.
    pub misses: u64,
    /// Misses of weights that are stored only for another model.
    pub misses_other_model: u64,
    /// Misses of weights that are stored only as packed for another micro-kernel or by another algorithm.
    pub misses_other_packing: u64,
    /// Weights that were packed and can be found.
    pub packed: u64,
    /// Weights that went to the heap.
    pub heap_entries: u64,
    /// Bytes of these weights.
    pub heap_bytes: u64,
    /// Saves that wrote something.
    pub saves: u64,
    /// Entries that saves added to the file.
    pub saved_entries: u64,
    /// Bytes that saves added to the file.
    pub written_bytes: u64,
    /// Weights that were not stored in the file, and saves that failed: no space, busy, read-only, damaged, truncated, unnamed.
    pub refusals: u64,
    /// Misses of weights that are stored without a model. Convert the file with `warmstart convert FILE --to 3 --model MODEL`, or
    /// open it with WS_UNVERIFIED.
    pub misses_unverified_model: u64,
}

impl ws_pack_options {
    /// Reads the options that a caller set. A caller compiled with an older header knows fewer fields.
    ///
    /// # Safety
    /// The pointer is null, or points to as many bytes as the first field says.
    unsafe fn read(options: *const Self) -> Result<PackOptions, Failure> {
        let mut read = Self::default();
        if !options.is_null() {
            // SAFETY: as the caller promises: the size is the first field.
            let size = unsafe { options.cast::<usize>().read_unaligned() };
            if size < size_of::<usize>() || size > size_of::<Self>() {
                return Err(Failure::invalid(format!(
                    "the size of the options is {size}: set it to sizeof(ws_pack_options), which is at most {} here",
                    size_of::<Self>()
                )));
            }
            // SAFETY: both are that long, and any bits of a field are a valid number.
            unsafe { ptr::copy_nonoverlapping(options.cast::<u8>(), (&raw mut read).cast(), size) };
        }
        let checks = match read.checks {
            WS_CHECKS_NONE => Checks::None,
            WS_CHECKS_FIRST_USE => Checks::FirstUse,
            WS_CHECKS_ALL => Checks::All,
            other => return Err(Failure::invalid(format!("checks are {other}: use a WS_CHECKS_ constant"))),
        };
        let known = WS_READ_ONLY | WS_PREFETCH | WS_UNVERIFIED;
        if read.flags & !known != 0 {
            return Err(Failure::invalid(format!(
                "unknown flags {:#x}: see ws_pack_options",
                read.flags & !known
            )));
        }
        let has = |flag| read.flags & flag != 0;
        Ok(PackOptions::default()
            .with_checks(checks)
            .with_read_only(has(WS_READ_ONLY))
            .with_prefetch(has(WS_PREFETCH))
            .with_unverified(has(WS_UNVERIFIED))
            .with_timeout(Duration::from_millis(read.timeout_ms)))
    }
}

/// Returns the path at a pointer: any bytes on Unix, else UTF-8.
///
/// # Safety
/// The pointer is null, or points to bytes that end with a zero and stay unchanged for `'a`.
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

/// Opens the pack at `path`, which is UTF-8 on Windows. The file is created when a weight is first packed into it. An empty path opts
/// out: all weights are kept in the heap, and nothing is saved. `options` may be NULL. If this process has the pack open already, the
/// result is another handle to it, and the options must be the same.
///
/// On success `*pack` is the pack, to be closed by ws_pack_close; otherwise it is NULL. Fails with WS_INVALID_ARGUMENT, WS_WRONG_FILE,
/// WS_UNTRUSTED or WS_IO. A file that is damaged, or that cannot be read or written at the moment, is not a failure.
///
/// A file that ExecuTorch wrote (version 2) is WS_WRONG_FILE: `warmstart convert FILE --to 3 --model MODEL` converts it
/// to version 3. Never give ExecuTorch and this library the same path: each takes the other's file for a damaged one, and ExecuTorch
/// truncates a file that it cannot read.
///
/// # Safety
/// As the header says: each pointer is NULL, or points to what its type declares.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_pack_open(
    path: *const c_char,
    options: *const ws_pack_options,
    pack: *mut *mut ws_pack,
) -> ws_status {
    call(|| {
        let into = place(pack, "pack")?;
        // SAFETY: `into` is a place for a pointer.
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
        // SAFETY: `into` is a place for a pointer.
        unsafe { into.write(Box::into_raw(Box::new(ws_pack { pack }))) };
        Ok(())
    })
}

/// Saves the weights that were packed since the last save, and returns when they are on the medium; other processes find them from
/// then on. Writes nothing if nothing is new. If another program truncated or overwrote the file, nothing is saved, and its weights
/// are not found any more. Returns WS_OK or WS_NOT_SAVED, and WS_INVALID_ARGUMENT for NULL.
///
/// # Safety
/// The pointer is NULL or to an open pack.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_pack_save(pack: *const ws_pack) -> ws_status {
    // SAFETY: as the caller promises.
    call(|| save(&unsafe { object(pack, "pack") }?.pack))
}

pub(crate) fn save(pack: &Pack) -> Result<(), Failure> {
    let not_saved = |reason: MissReason| {
        let remedy = match reason {
            MissReason::OldVersion => "; convert it with: warmstart convert FILE --to 3 --model MODEL",
            MissReason::Truncated => {
                "; remove the file, and its weights are packed again; if another program writes to it, give each program a \
                 path of its own"
            }
            MissReason::Absent => "; create the directory of the file",
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

/// Reads the file's index again: weights that other processes saved meanwhile are found from then on; those of a file that another
/// program truncated or overwrote are not. ws_provider_begin does so too. Returns WS_INVALID_ARGUMENT for NULL.
///
/// # Safety
/// The pointer is NULL or to an open pack.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_pack_refresh(pack: *const ws_pack) -> ws_status {
    // SAFETY: as the caller promises.
    unsafe { call_on(pack, "pack", |pack| pack.pack.refresh()) }
}

/// Asks the system to read the whole file ahead, without waiting for it. Returns WS_INVALID_ARGUMENT for NULL.
///
/// # Safety
/// The pointer is NULL or to an open pack.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_pack_prefetch(pack: *const ws_pack) -> ws_status {
    // SAFETY: as the caller promises.
    unsafe { call_on(pack, "pack", |pack| pack.pack.prefetch()) }
}

/// Returns the pages of the file to the system until they are used again. Returns WS_INVALID_ARGUMENT for NULL.
///
/// # Safety
/// The pointer is NULL or to an open pack.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_pack_release(pack: *const ws_pack) -> ws_status {
    // SAFETY: as the caller promises.
    unsafe { call_on(pack, "pack", |pack| pack.pack.release()) }
}

/// Returns the number of weights that are saved in the file, as of the last open, save or refresh. Returns 0 for NULL.
///
/// # Safety
/// The pointer is NULL or to an open pack.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_pack_len(pack: *const ws_pack) -> usize {
    // SAFETY: as the caller promises.
    answer(0, || Ok(unsafe { object(pack, "pack") }?.pack.len()))
}

/// Fills `counts` with the pack's counters. Set `counts->size` to sizeof(ws_pack_counts) before. Returns WS_INVALID_ARGUMENT for NULL.
///
/// # Safety
/// Each pointer is NULL, or points to an open pack and to as many bytes as the size says.
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
            misses_other_model: of(MissReason::OtherModel),
            misses_other_packing: of(MissReason::OtherSeed) + of(MissReason::OtherFingerprint),
            packed: statistics.packed,
            heap_entries: statistics.heap_entries,
            heap_bytes: statistics.heap_bytes,
            saves: statistics.saves,
            saved_entries: statistics.saved_entries,
            written_bytes: statistics.written_bytes,
            refusals: statistics.refusals.total(),
            misses_unverified_model: of(MissReason::UnverifiedModel),
        };
        // SAFETY: as the caller promises.
        unsafe { fill(counts, filled) }
    })
}

/// Closes a pack without saving it. Its providers remain usable, and keep the file open until they are destroyed. Does nothing for
/// NULL. No other call may use this handle at the same time or later.
///
/// # Safety
/// The pointer is NULL or to an open pack.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_pack_close(pack: *mut ws_pack) {
    // SAFETY: as the caller promises, it is a pack that `ws_pack_open` made, and no other call uses it.
    unsafe { destroy(pack) }
}

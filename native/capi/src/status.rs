//! The status of a call and the message of its failure.

use std::{
    cell::RefCell,
    ffi::{CStr, CString, c_char},
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::{self, NonNull},
};

/// The status of a call. For any but WS_OK, ws_last_error() returns a message.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ws_status {
    /// The call succeeded.
    WS_OK = 0,
    /// An argument is invalid: a required pointer is NULL, text is not UTF-8, or a number is unknown.
    WS_INVALID_ARGUMENT = 1,
    /// The path leads to something other than a file of packed weights. Use another path.
    WS_WRONG_FILE = 2,
    /// Another user owns the file or may write to it. Kernels run on packed weights: give the file to this user, with mode 0600.
    WS_UNTRUSTED = 3,
    /// The system cannot open the path.
    WS_IO = 4,
    /// Weights were not saved. They remain usable in this process, and the next save tries again.
    WS_NOT_SAVED = 5,
    /// A bug in warmstart. Please report it with the message.
    WS_INTERNAL = 6,
}

/// The status and the message of a failed call.
#[derive(Debug)]
pub(crate) struct Failure {
    status: ws_status,
    message: String,
}

pub(crate) type Done = Result<(), Failure>;

impl Failure {
    pub(crate) fn new(status: ws_status, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ws_status::WS_INVALID_ARGUMENT, message)
    }
}

/// An upper bound on the size of these structures in any version, in bytes.
const LARGEST: usize = 4096;

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// Runs a call and returns its status; sets the thread's message if it failed.
pub(crate) fn call(act: impl FnOnce() -> Done) -> ws_status {
    let done = catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|payload| {
        let message = payload.downcast_ref::<&str>().map(|message| (*message).to_owned());
        let message = message.or_else(|| payload.downcast_ref::<String>().cloned());
        // The payload of a panic may panic when it is dropped.
        std::mem::forget(payload);
        Err(Failure::new(ws_status::WS_INTERNAL, message.unwrap_or_else(|| "it panicked".to_owned())))
    });
    let Err(Failure { status, message }) = done else { return ws_status::WS_OK };
    let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
    // A thread that is ending has no message any more.
    let _ = LAST_ERROR.try_with(|last| last.replace(message));
    status
}

/// Runs a call on the object behind a pointer.
///
/// # Safety
/// As for `object`.
pub(crate) unsafe fn call_on<T>(pointer: *const T, what: &str, act: impl FnOnce(&T)) -> ws_status {
    call(|| {
        // SAFETY: as the caller promises.
        act(unsafe { object(pointer, what) }?);
        Ok(())
    })
}

/// Runs a call and returns its answer, or `without` if it failed.
pub(crate) fn answer<T>(without: T, act: impl FnOnce() -> Result<T, Failure>) -> T {
    let mut answer = without;
    call(|| {
        answer = act()?;
        Ok(())
    });
    answer
}

/// Returns the object behind a pointer.
///
/// # Safety
/// The pointer is null, or points to a `T` that lives for `'a` and is not borrowed mutably.
pub(crate) unsafe fn object<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: as the caller promises.
    unsafe { pointer.as_ref() }.ok_or_else(|| Failure::invalid(format!("{what} is NULL")))
}

/// Drops what a function of the library made, if there is anything.
///
/// # Safety
/// The pointer is null, or that function returned it, and no other call uses it.
pub(crate) unsafe fn destroy<T>(pointer: *mut T) {
    call(|| {
        // SAFETY: as the caller promises.
        drop((!pointer.is_null()).then(|| unsafe { Box::from_raw(pointer) }));
        Ok(())
    });
}

/// Returns a pointer to write an answer to.
pub(crate) fn place<T>(pointer: *mut T, what: &str) -> Result<NonNull<T>, Failure> {
    NonNull::new(pointer)
        .ok_or_else(|| Failure::invalid(format!("{what} is NULL: pass a pointer to write the answer to")))
}

/// Returns the text behind a pointer.
///
/// # Safety
/// The pointer is null, or points to bytes that end with a zero and stay unchanged for `'a`.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str, Failure> {
    if pointer.is_null() {
        return Err(Failure::invalid(format!("{what} is NULL")));
    }
    // SAFETY: as the caller promises.
    let bytes = unsafe { CStr::from_ptr(pointer) };
    bytes.to_str().map_err(|_| Failure::invalid(format!("{what} is not UTF-8")))
}

/// Fills a structure that begins with its size, up to the size that the caller set.
///
/// # Safety
/// The pointer is null, or points to as many bytes as the first field says, all of them writable.
pub(crate) unsafe fn fill<T: Copy>(into: *mut T, counts: T) -> Result<(), Failure> {
    let into = place(into, "counts")?;
    // SAFETY: as the caller promises: the size is the first field.
    let size = unsafe { into.cast::<usize>().read_unaligned() };
    // A size that was never set must not be trusted.
    if !(size_of::<usize>()..=LARGEST).contains(&size) {
        return Err(Failure::invalid(format!(
            "the size of the counts is {size}: set it to sizeof of the structure"
        )));
    }
    // If the caller's structure is longer, the fields that are unknown here are set to zero.
    // SAFETY: as the caller promises, `size` bytes may be written. The size itself is not overwritten.
    unsafe {
        let rest = into.as_ptr().cast::<u8>();
        rest.add(size_of::<usize>()).write_bytes(0, size - size_of::<usize>());
        let known = size.min(size_of::<T>()) - size_of::<usize>();
        let from = (&raw const counts).cast::<u8>().add(size_of::<usize>());
        ptr::copy_nonoverlapping(from, rest.add(size_of::<usize>()), known);
    }
    Ok(())
}

/// Returns the message of this thread's last failed call; empty if none failed, and never NULL. It is valid until the next call of
/// this thread fails.
#[unsafe(no_mangle)]
pub extern "C" fn ws_last_error() -> *const c_char {
    LAST_ERROR.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Returns the version of this library, such as "0.1.0". Structures begin with their size, so that a program compiled with another
/// version's header works. Functions keep their meaning as long as the first nonzero number of the version stays the same.
#[unsafe(no_mangle)]
pub extern "C" fn ws_version() -> *const c_char {
    static VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}

//! How a call went, and what is said about it.

use std::{
    cell::RefCell,
    ffi::{CStr, CString, c_char},
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::NonNull,
};

/// How a call went. Of those that are not WS_OK, ws_last_error() says more.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ws_status {
    /// It was done.
    WS_OK = 0,
    /// An argument cannot be: NULL where something is needed, text that is not UTF-8, a number that has no meaning.
    WS_INVALID_ARGUMENT = 1,
    /// Something else than a file of packed weights is under the path. Name another.
    WS_WRONG_FILE = 2,
    /// Somebody else owns the file or may write to it. Packed weights are run by kernels: give the file to this user, mode 0600.
    WS_UNTRUSTED = 3,
    /// The system refuses the path.
    WS_IO = 4,
    /// It was not saved. What was packed is used as before, and the next save tries again.
    WS_NOT_SAVED = 5,
    /// A bug of warmstart's. Please report it with the message.
    WS_INTERNAL = 6,
}

/// What a call answers that was not done.
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

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// Does a call: its status, and the message of the thread if it failed.
pub(crate) fn call(act: impl FnOnce() -> Done) -> ws_status {
    let done = catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|payload| {
        let message = payload.downcast_ref::<&str>().map(|message| (*message).to_owned());
        let message = message.or_else(|| payload.downcast_ref::<String>().cloned());
        // What a panic carries may panic when it is dropped.
        std::mem::forget(payload);
        Err(Failure::new(ws_status::WS_INTERNAL, message.unwrap_or_else(|| "it panicked".to_owned())))
    });
    let Err(Failure { status, message }) = done else { return ws_status::WS_OK };
    let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
    // A thread that ends has no message any more.
    let _ = LAST_ERROR.try_with(|last| last.replace(message));
    status
}

/// As `call`, for functions that answer something else: `without` if it failed.
pub(crate) fn answer<T>(without: T, act: impl FnOnce() -> Result<T, Failure>) -> T {
    let mut answer = without;
    call(|| {
        answer = act()?;
        Ok(())
    });
    answer
}

/// The object that a pointer is to.
///
/// # Safety
/// The pointer is null, or to such an object, which lives for `'a` and is not borrowed mutably.
pub(crate) unsafe fn object<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: as the caller promises.
    unsafe { pointer.as_ref() }.ok_or_else(|| Failure::invalid(format!("{what} is NULL")))
}

/// Where an answer goes.
pub(crate) fn place<T>(pointer: *mut T, what: &str) -> Result<NonNull<T>, Failure> {
    NonNull::new(pointer)
        .ok_or_else(|| Failure::invalid(format!("{what} is NULL: it says where the answer goes")))
}

/// The text that a pointer is to.
///
/// # Safety
/// The pointer is null, or to bytes that end with a zero and are there, unchanged, for `'a`.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str, Failure> {
    if pointer.is_null() {
        return Err(Failure::invalid(format!("{what} is NULL")));
    }
    // SAFETY: as the caller promises.
    let bytes = unsafe { CStr::from_ptr(pointer) };
    bytes.to_str().map_err(|_| Failure::invalid(format!("{what} is not UTF-8")))
}

/// What was wrong with the last call of this thread that failed, in words; empty if none did. Never NULL. The text is good
/// until the next call of this thread that fails.
#[unsafe(no_mangle)]
pub extern "C" fn ws_last_error() -> *const c_char {
    LAST_ERROR.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// The version of this library, such as "0.1.0". Structures begin with their size, so that a program that was compiled with
/// another version's header works, and functions keep their meaning as long as the first number that is not 0 stays the same.
#[unsafe(no_mangle)]
pub extern "C" fn ws_version() -> *const c_char {
    static VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}

//! What callers are told: exceptions, reasons, and warnings in the log.

use std::{io, path::Path};

use pyo3::{
    exceptions::{PyOSError, PyPermissionError, PyValueError},
    prelude::*,
    sync::PyOnceLock,
};
use warmstart::{MissReason, OpenError};

/// Passes on the result of a call that Python answers with None or a reason, and logs the reason.
pub(crate) fn reason_of<T>(
    py: Python<'_>,
    call: &str,
    result: Result<T, MissReason>,
) -> Option<&'static str> {
    let reason = result.err()?;
    warn(py, &format!("{call}: {reason}"));
    Some(reason.as_str())
}

/// Logs the reason why a look-up missed, if the entry was damaged.
pub(crate) fn warn_of_damage(py: Python<'_>, reason: MissReason) {
    if reason.is_damage() {
        warn(py, &format!("a damaged entry was removed, and is a miss: {reason}"));
    }
}

/// Logs a warning. A logger that fails is reported as unraisable.
pub(crate) fn warn(py: Python<'_>, message: &str) {
    static LOGGER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let logged = LOGGER
        .get_or_try_init(py, || Ok(py.import("logging")?.call_method1("getLogger", ("warmstart",))?.unbind()))
        .and_then(|logger| logger.call_method1(py, "warning", ("%s", message)));
    if let Err(error) = logged {
        error.write_unraisable(py, None);
    }
}

pub(crate) fn open_error(error: &OpenError) -> PyErr {
    let message = error.to_string();
    if error.is_untrusted() {
        PyPermissionError::new_err(message)
    } else if error.is_wrong_kind() {
        PyOSError::new_err(message)
    } else {
        PyValueError::new_err(message)
    }
}

/// Returns the error of a file with its number and path, as Python's own functions do.
pub(crate) fn file_error(error: &io::Error, path: &Path) -> PyErr {
    match error.raw_os_error() {
        Some(number) => PyOSError::new_err((number, error.to_string(), path.to_path_buf())),
        None => PyOSError::new_err(format!("cannot read {path:?}: {error}")),
    }
}

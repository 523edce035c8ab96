//! The native part of the Python package `warmstart`. `warmstart/_warmstart.pyi` describes it for Python.
//!
//! The interpreter's lock is released around files, databases and waiting, and kept for memory. No call of the native crate that
//! holds one of its locks waits for the interpreter: a fork holds the interpreter's lock and waits for those.

#![expect(clippy::needless_pass_by_value, reason = "arguments are converted from Python, which lends none")]

mod artifact;
mod buffer;
mod cache;
mod inspect;
mod key;
mod pack;

use std::{ffi::OsString, io, path::Path};

use pyo3::{
    exceptions::{PyOSError, PyPermissionError, PyValueError},
    prelude::*,
    sync::PyOnceLock,
    types::PyDict,
};
use warmstart::{MissReason, OpenError};

/// Defines the module.
#[pymodule]
mod _warmstart {
    #[pymodule_export]
    use super::{
        artifact::{Artifact, Miss},
        buffer::array_view,
        cache::Cache,
        inspect::{Change, Damaged, Entry, Explanation, Removed, Verification},
        key::Fields,
        pack::Pack,
        run_command,
    };
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("REASONS", super::reasons(module.py())?)
    }
}

/// Runs the command.
#[pyfunction]
fn run_command(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| warmstart_cli::run([OsString::from("warmstart")].into_iter().chain(arguments)))
}

/// Returns the names of all reasons with their explanations.
fn reasons(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let names = PyDict::new(py);
    for reason in MissReason::ALL {
        names.set_item(reason.as_str(), reason.explanation())?;
    }
    Ok(names)
}

/// Passes on the result of a call that Python answers with None or a reason, and logs the reason.
fn reason_of<T>(py: Python<'_>, call: &str, result: Result<T, MissReason>) -> Option<&'static str> {
    let reason = result.err()?;
    warn(py, &format!("{call}: {reason}"));
    Some(reason.as_str())
}

/// Logs the reason why a look-up missed, if the entry was damaged.
fn warn_of_damage(py: Python<'_>, reason: MissReason) {
    if reason.is_damage() {
        warn(py, &format!("a damaged entry was removed, and is a miss: {reason}"));
    }
}

/// Logs a warning. A logger that fails is reported as unraisable.
fn warn(py: Python<'_>, message: &str) {
    static LOGGER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let logged = LOGGER
        .get_or_try_init(py, || Ok(py.import("logging")?.call_method1("getLogger", ("warmstart",))?.unbind()))
        .and_then(|logger| logger.call_method1(py, "warning", ("%s", message)));
    if let Err(error) = logged {
        error.write_unraisable(py, None);
    }
}

fn open_error(error: &OpenError) -> PyErr {
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
fn file_error(error: &io::Error, path: &Path) -> PyErr {
    match error.raw_os_error() {
        Some(number) => PyOSError::new_err((number, error.to_string(), path.to_path_buf())),
        None => PyOSError::new_err(format!("cannot read {path:?}: {error}")),
    }
}

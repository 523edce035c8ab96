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
mod report;

use std::ffi::OsString;

use pyo3::{prelude::*, types::PyDict};
use warmstart::MissReason;

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

//! What look-ups return.

use std::ffi::c_int;

use pyo3::{ffi, prelude::*, types::PyBytes};
use warmstart::{
    MissReason,
    cache::{Fetched, Origin},
};

use crate::buffer;

/// The bytes that a cache keeps, as a read-only buffer: `memoryview(artifact)` copies nothing, `bytes(artifact)` copies.
///
/// An artifact is true, even one of no bytes.
#[pyclass(frozen, module = "warmstart")]
pub(crate) struct Artifact {
    artifact: warmstart::Artifact,
    origin: Origin,
}

/// A look-up that found nothing. A miss is false.
#[pyclass(frozen, module = "warmstart")]
pub(crate) struct Miss(pub(crate) MissReason);

impl Artifact {
    pub(crate) const fn hit(artifact: warmstart::Artifact) -> Self {
        Self { artifact, origin: Origin::Hit }
    }
}

impl From<Fetched> for Artifact {
    fn from(fetched: Fetched) -> Self {
        let origin = fetched.origin();
        Self { artifact: fetched.into_artifact(), origin }
    }
}

#[pymethods]
impl Artifact {
    /// `hit`: it was stored. `coalesced`: another caller built it meanwhile. `built`: this caller built it.
    #[getter]
    const fn origin(&self) -> &'static str {
        match self.origin {
            Origin::Coalesced { .. } => "coalesced",
            Origin::Built { .. } => "built",
            // Origins may be added, and all others come from the store.
            _ => "hit",
        }
    }

    /// Why the look-up missed, a name of `REASONS`; None for a hit.
    #[getter]
    const fn miss(&self) -> Option<&'static str> {
        match self.origin {
            Origin::Coalesced { miss } | Origin::Built { miss, .. } => Some(miss.as_str()),
            _ => None,
        }
    }

    /// Why the artifact that this caller built was not stored, a name of `REASONS`; None if it was, or was not built here.
    #[getter]
    const fn refusal(&self) -> Option<&'static str> {
        match self.origin {
            Origin::Built { stored: Err(reason), .. } => Some(reason.as_str()),
            _ => None,
        }
    }

    /// When it was built, in seconds since 1970 UTC; None if unknown.
    #[getter]
    fn created(&self) -> Option<f64> {
        seconds_since_1970(self.artifact.provenance().created_unix_ms)
    }

    /// How long its build took, in seconds; None if unknown.
    #[getter]
    fn build_seconds(&self) -> Option<f64> {
        let nanos = self.artifact.provenance().build_nanos;
        (nanos > 0).then(|| seconds(nanos))
    }

    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        // SAFETY: Python wants this view filled. The object is frozen, so its artifact keeps the payload in place.
        unsafe { buffer::export(slf.as_any(), slf.get().artifact.payload(), view, flags) }
    }

    const fn __bool__(&self) -> bool {
        true
    }

    fn __len__(&self) -> usize {
        self.artifact.payload().len()
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.artifact.payload())
    }

    fn __repr__(&self) -> String {
        format!("<warmstart.Artifact of {} bytes, {}>", self.__len__(), self.origin())
    }
}

#[pymethods]
impl Miss {
    /// The reason, a name of `REASONS`, such as `absent` or `checksum_mismatch`.
    #[getter]
    const fn reason(&self) -> &'static str {
        self.0.as_str()
    }

    /// The reason in plain English.
    #[getter]
    const fn explanation(&self) -> &'static str {
        self.0.explanation()
    }

    /// Whether the entry was damaged; it is removed then.
    #[getter]
    const fn is_damage(&self) -> bool {
        self.0.is_damage()
    }

    const fn __bool__(&self) -> bool {
        false
    }

    fn __repr__(&self) -> String {
        format!("<warmstart.Miss: {}>", self.0)
    }
}

/// Returns a time as Python has it; nothing if it is unknown.
#[expect(clippy::cast_precision_loss, reason = "times are exact to a microsecond for the next centuries")]
pub(crate) fn seconds_since_1970(unix_ms: u64) -> Option<f64> {
    (unix_ms > 0).then(|| unix_ms as f64 / 1e3)
}

#[expect(clippy::cast_precision_loss, reason = "a duration needs no more digits")]
pub(crate) fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

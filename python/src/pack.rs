//! `Pack`, as Python has it.

use std::{
    ffi::c_int,
    path::PathBuf,
    process,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use pyo3::{
    exceptions::{PyMemoryError, PyValueError},
    ffi,
    prelude::*,
    types::{PyBytes, PyDict, PyMemoryView, PyTuple},
};
use warmstart::pack::{Checks, ModelId, Name, PackOptions, Packing, WeightKey, Weights};

use crate::{
    artifact::Miss,
    buffer,
    inspect::by_reason,
    report::{file_error, open_error, reason_of},
};

/// A file of packed weights that is mapped, so that all processes share one copy. A context manager.
///
/// `checks` says whose checksums are verified: of no payloads, of each when it is first looked up, or of all when the file is
/// opened; the index always is. `timeout` is how many seconds to wait for another writer. Raise OSError if `path` is something
/// else than a pack or another user could have written it, and ValueError if it is open in this process with other options.
///
/// A forked child opens the pack again.
#[pyclass(frozen, weakref, module = "warmstart")]
pub(crate) struct Pack {
    /// Nothing once it is closed. Locked by threads that hold the interpreter's lock only.
    pack: Mutex<Option<warmstart::pack::Pack>>,
    /// The process that opened it. A forked child shares what its parent packs and has not saved.
    process: u32,
}

/// A packed weight, which keeps its pack open.
#[pyclass(frozen, module = "warmstart")]
struct Weight {
    bytes: *const [u8],
    _pack: warmstart::pack::Pack,
}

// SAFETY: the bytes are only read.
unsafe impl Send for Weight {}
// SAFETY: as above.
unsafe impl Sync for Weight {}

#[pymethods]
impl Weight {
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        // SAFETY: weights stay in place while their pack is open, and `slf` keeps it open.
        let bytes = unsafe { &*slf.get().bytes };
        // SAFETY: Python wants this view filled, and the bytes are those of `slf`.
        unsafe { buffer::export(slf.as_any(), bytes, view, flags) }
    }
}

#[pymethods]
impl Pack {
    #[new]
    #[pyo3(signature = (path, *, checks = "none", read_only = false, prefetch = false, timeout = 0.0))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        checks: &str,
        read_only: bool,
        prefetch: bool,
        timeout: f64,
    ) -> PyResult<Self> {
        let checks = match checks {
            "none" => Checks::None,
            "first_use" => Checks::FirstUse,
            "all" => Checks::All,
            _ => {
                let message = format!("there are no checks {checks:?}: give none, first_use or all");
                return Err(PyValueError::new_err(message));
            }
        };
        let Ok(timeout) = Duration::try_from_secs_f64(timeout) else {
            return Err(PyValueError::new_err(format!("the timeout is {timeout}: give seconds from 0 on")));
        };
        let options = PackOptions::default()
            .with_checks(checks)
            .with_read_only(read_only)
            .with_prefetch(prefetch)
            .with_timeout(timeout);
        let pack = py.detach(|| warmstart::pack::Pack::open(path, options));
        let pack = pack.map_err(|error| open_error(&error))?;
        Ok(Self { pack: Mutex::new(Some(pack)), process: process::id() })
    }

    /// Return the weight as a read-only view of the mapping, or None.
    ///
    /// `model` is 32 bytes that identify the model, as `model_of_file` returns them. `packing` is a number from 0 to 2**32 - 1
    /// that changes whenever the packed bytes would. The view keeps the pack open.
    #[pyo3(signature = (name, *, model, packing, bias = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        model: &Bound<'py, PyAny>,
        packing: u32,
        bias: Option<&str>,
    ) -> PyResult<Option<Bound<'py, PyMemoryView>>> {
        let key = key(name, model, packing, bias)?;
        let pack = self.open()?;
        py.detach(|| pack.look_up(&key)).ok().map(|weights| view(py, &pack, weights)).transpose()
    }

    /// Return the weight as `get` does, or a miss with its reason.
    #[pyo3(signature = (name, *, model, packing, bias = None))]
    fn look_up<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        model: &Bound<'py, PyAny>,
        packing: u32,
        bias: Option<&str>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let key = key(name, model, packing, bias)?;
        let pack = self.open()?;
        match py.detach(|| pack.look_up(&key)) {
            Ok(weights) => Ok(view(py, &pack, weights)?.into_any()),
            Err(reason) => Ok(Bound::new(py, Miss(reason))?.into_any()),
        }
    }

    /// Copy a packed weight into the file, and return the view of it. `save` makes it last.
    #[pyo3(signature = (name, data, *, model, packing, bias = None))]
    fn put<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        data: &Bound<'py, PyAny>,
        model: &Bound<'py, PyAny>,
        packing: u32,
        bias: Option<&str>,
    ) -> PyResult<Bound<'py, PyMemoryView>> {
        let key = key(name, model, packing, bias)?;
        let pack = self.open()?;
        let data = buffer::copy(data)?;
        let reserved = py.detach(|| {
            let mut reservation = pack.reserve(data.len())?;
            reservation.bytes_mut().copy_from_slice(&data);
            Ok::<_, std::io::Error>(pack.insert(&key, reservation))
        });
        let no_memory = |error| {
            PyMemoryError::new_err(format!("no memory for a weight of {} bytes: {error}", data.len()))
        };
        view(py, &pack, reserved.map_err(no_memory)?)
    }

    /// Save what was put, for the next process; return None, or a name of `REASONS` that says why it was not saved.
    fn save(&self, py: Python<'_>) -> PyResult<Option<&'static str>> {
        let pack = self.open()?;
        Ok(reason_of(py, "packed weights were not saved", py.detach(|| pack.save())))
    }

    /// Find what other processes have saved since.
    fn refresh(&self, py: Python<'_>) -> PyResult<()> {
        let pack = self.open()?;
        py.detach(|| pack.refresh());
        Ok(())
    }

    /// Return the digest of a model's file, 32 bytes, remembered beside the pack. Raise OSError if it cannot be read.
    fn model_of_file<'py>(&self, py: Python<'py>, path: PathBuf) -> PyResult<Bound<'py, PyBytes>> {
        let pack = self.open()?;
        let model = py.detach(|| pack.model_of_file(&path)).map_err(|error| file_error(&error, &path))?;
        Ok(PyBytes::new(py, model.as_bytes()))
    }

    /// Return the counters.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counted = self.open()?.statistics();
        let stats = PyDict::new(py);
        stats.set_item("hits", counted.hits)?;
        stats.set_item("misses", by_reason(py, &counted.misses)?)?;
        stats.set_item("packed", counted.packed)?;
        stats.set_item("saved", counted.saved_entries)?;
        stats.set_item("heap_bytes", counted.heap_bytes)?;
        stats.set_item("refusals", by_reason(py, &counted.refusals)?)?;
        Ok(stats)
    }

    /// Close the pack. Views of it stay valid; later calls raise ValueError.
    fn close(&self, py: Python<'_>) {
        let pack = self.pack.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(pack));
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().open()?;
        Ok(slf)
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) {
        self.close(py);
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.open()?.len())
    }

    const fn __bool__(&self) -> bool {
        true
    }
}

impl Pack {
    /// Returns another handle on the pack, unless it is closed or of another process.
    fn open(&self) -> PyResult<warmstart::pack::Pack> {
        if self.process != process::id() {
            return Err(PyValueError::new_err(
                "the pack was opened before a fork: open it again in the child",
            ));
        }
        let pack = self.pack.lock().unwrap_or_else(PoisonError::into_inner).clone();
        pack.ok_or_else(|| PyValueError::new_err("the pack is closed: open it again"))
    }
}

fn key<'a>(
    name: &'a str,
    model: &Bound<'_, PyAny>,
    packing: u32,
    bias: Option<&'a str>,
) -> PyResult<WeightKey<'a>> {
    let model = buffer::copy(model)?;
    let model: [u8; ModelId::LEN] = (&*model).try_into().map_err(|_| {
        let wrong = format!("the model has {} bytes: give the 32 of model_of_file", model.len());
        PyValueError::new_err(wrong)
    })?;
    let name = Name { weight: name, bias };
    Ok(WeightKey { name, model: ModelId::from_bytes(model), packing: Packing::of_seed(packing) })
}

fn view<'py>(
    py: Python<'py>,
    pack: &warmstart::pack::Pack,
    weights: Weights<'_>,
) -> PyResult<Bound<'py, PyMemoryView>> {
    let weight = Weight { bytes: weights.bytes(), _pack: pack.clone() };
    PyMemoryView::from(&Bound::new(py, weight)?.into_any())
}

//! Bytes that cross between Python and the native crate.

use std::{
    ffi::{CString, c_int},
    ptr, slice,
};

use pyo3::{
    buffer::PyUntypedBuffer,
    exceptions::{PyBufferError, PyTypeError, PyValueError},
    ffi,
    prelude::*,
    types::{PyBytes, PyMemoryView},
};
use warmstart::store::Buffer;

/// Copies the bytes of any contiguous buffer, while no other Python code runs that could change them.
pub(crate) fn copy(object: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(bytes.as_bytes().to_vec());
    }
    let buffer = PyUntypedBuffer::get(object)
        .map_err(|_| PyTypeError::new_err(format!("{} has no buffer: give bytes", type_name(object))))?;
    if !buffer.is_c_contiguous() {
        return Err(PyBufferError::new_err(format!("{} is not contiguous: give a copy", type_name(object))));
    }
    let len = buffer.len_bytes();
    if len == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: a contiguous buffer has this many bytes at its start, and stays exported until it is dropped. It may be uninitialised
    // by no rule of Python's, and the interpreter's lock keeps Python code from writing to it.
    Ok(unsafe { slice::from_raw_parts(buffer.buf_ptr().cast::<u8>(), len) }.to_vec())
}

pub(crate) fn type_name(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map_or_else(|_| String::from("the object"), |name| name.to_string())
}

/// Fills a request for a view with bytes that `owner` keeps in place while it lives.
///
/// # Safety
/// `view` is what Python passed to `__getbuffer__` of `owner`, and `bytes` are neither moved nor written while `owner` lives.
pub(crate) unsafe fn export(
    owner: &Bound<'_, PyAny>,
    bytes: &[u8],
    view: *mut ffi::Py_buffer,
    flags: i32,
) -> PyResult<()> {
    let len = ffi::Py_ssize_t::try_from(bytes.len()).expect("a slice has at most isize::MAX bytes");
    let start = bytes.as_ptr().cast_mut().cast();
    // SAFETY: the caller passes the view that Python wants filled; read-only, so that no Python code writes to the bytes.
    let filled = unsafe { ffi::PyBuffer_FillInfo(view, owner.as_ptr(), start, len, 1, flags) };
    if filled == 0 { Ok(()) } else { Err(PyErr::fetch(owner.py())) }
}

/// The longest payload, in bytes, whose copy takes less time than attaching to the interpreter during a look-up.
const SHORT: usize = 4096;

/// A new bytes object, made once the length of the payload is known.
#[derive(Default)]
pub(crate) struct NewBytes {
    object: Option<Py<PyBytes>>,
    /// A short payload, until the call is attached to the interpreter again.
    short: Vec<u8>,
}

impl NewBytes {
    /// Returns the object, once a store has filled it.
    pub(crate) fn into_bytes(self, py: Python<'_>) -> Bound<'_, PyBytes> {
        self.object.map_or_else(|| PyBytes::new(py, &self.short), |object| object.into_bound(py))
    }
}

impl Buffer for NewBytes {
    fn room(&mut self, len: usize) -> Option<&mut [u8]> {
        self.object = None;
        if len <= SHORT {
            return self.short.room(len);
        }
        Python::attach(|py| {
            let size = ffi::Py_ssize_t::try_from(len).ok()?;
            // SAFETY: without a source, Python allocates an object of this size for its creator to fill.
            let object = unsafe { ffi::PyBytes_FromStringAndSize(ptr::null(), size) };
            // SAFETY: it is a new reference to a bytes object, or null with an exception set.
            let object = unsafe { Bound::from_owned_ptr_or_err(py, object) }.ok()?;
            // SAFETY: it was created as a bytes object.
            let object = unsafe { object.cast_into_unchecked::<PyBytes>() };
            // SAFETY: it is a bytes object.
            let start = unsafe { ffi::PyBytes_AsString(object.as_ptr()) };
            self.object = Some(object.unbind());
            // SAFETY: nothing else refers to the object before `into_bytes`, and `self` keeps it. A store writes all of it before it
            // reads any of it, so that no byte is read before it is initialised.
            Some(unsafe { slice::from_raw_parts_mut(start.cast::<u8>(), len) })
        })
    }
}

/// The bytes of another object, seen as an array. `memoryview.cast` knows fewer formats, and no array without items.
#[pyclass(frozen, module = "warmstart")]
struct Array {
    source: PyUntypedBuffer,
    format: CString,
    itemsize: ffi::Py_ssize_t,
    shape: Vec<ffi::Py_ssize_t>,
    strides: Vec<ffi::Py_ssize_t>,
}

/// Views the bytes of a buffer as an array in the order of C.
#[pyfunction]
#[pyo3(signature = (buffer, format, itemsize, shape, /))]
pub(crate) fn array_view<'py>(
    buffer: &Bound<'py, PyAny>,
    format: CString,
    itemsize: ffi::Py_ssize_t,
    shape: Vec<ffi::Py_ssize_t>,
) -> PyResult<Bound<'py, PyMemoryView>> {
    let source = PyUntypedBuffer::get(buffer)?;
    let mut strides = vec![itemsize; shape.len()];
    let mut len = Some(itemsize).filter(|size| *size > 0);
    for (stride, length) in strides.iter_mut().zip(&shape).rev() {
        *stride = len.unwrap_or_default();
        len = len.and_then(|len| len.checked_mul(*length)).filter(|_| *length >= 0);
    }
    let len = len.and_then(|len| usize::try_from(len).ok());
    if !source.is_c_contiguous() || len != Some(source.len_bytes()) {
        let message = format!("{} bytes are no array of {shape:?} with {itemsize} each", source.len_bytes());
        return Err(PyValueError::new_err(message));
    }
    let array = Bound::new(buffer.py(), Array { source, format, itemsize, shape, strides })?;
    PyMemoryView::from(array.as_any())
}

#[pymethods]
impl Array {
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let array = slf.get();
        let start =
            if array.source.len_bytes() == 0 { ptr::dangling() } else { array.source.buf_ptr().cast::<u8>() };
        // SAFETY: the buffer is contiguous and of this length, and is exported while `slf` lives.
        let bytes = unsafe { slice::from_raw_parts(start, array.source.len_bytes()) };
        // SAFETY: Python wants this view filled.
        unsafe { export(slf.as_any(), bytes, view, flags)? };
        // SAFETY: `export` has checked and filled the view. The lists have one item for each dimension, and stay in place while the
        // view holds a reference to `slf`. Python does not write to them.
        unsafe {
            (*view).itemsize = array.itemsize;
            if flags & ffi::PyBUF_FORMAT == ffi::PyBUF_FORMAT {
                (*view).format = array.format.as_ptr().cast_mut();
            }
            if flags & ffi::PyBUF_ND == ffi::PyBUF_ND {
                (*view).ndim =
                    c_int::try_from(array.shape.len()).expect("Python refuses more than 64 dimensions");
                (*view).shape = array.shape.as_ptr().cast_mut();
            }
            if flags & ffi::PyBUF_STRIDES == ffi::PyBUF_STRIDES {
                (*view).strides = array.strides.as_ptr().cast_mut();
            }
        }
        Ok(())
    }
}

//! Keys: labelled fields, or bytes and texts as they are.

use std::{path::PathBuf, sync::Arc};

use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{PyBytes, PyString},
};
use warmstart::{KeyFields, cache::Request, pack};

use crate::{buffer, report::file_error};

/// The labelled fields that a key is made of. Immutable: each method returns a new object.
///
/// `domain` separates kinds of artifacts. Raise `schema`, from 0 to 2**32 - 1, when the meaning of the fields changes.
/// The order of the fields matters. Put no path, home directory or time into a key: a moved checkout would miss.
///
/// >>> Fields("my-runtime", 1).text("source", "kernel").list("flags", ["-O3"]).number("width", 4)
/// Fields('my-runtime', 1, source, flags, width)
#[pyclass(frozen, eq, hash, module = "warmstart")]
#[derive(Clone)]
pub(crate) struct Fields {
    domain: Arc<str>,
    schema: u32,
    fields: Vec<Arc<Field>>,
}

struct Field {
    label: String,
    value: Value,
}

enum Value {
    Text(String),
    Bytes(Vec<u8>),
    Number(u64),
    List(Vec<String>),
    Digest { digest: Vec<u8>, note: String },
}

#[pymethods]
impl Fields {
    #[new]
    #[pyo3(signature = (domain, schema = 1))]
    fn new(domain: &str, schema: u32) -> Self {
        Self { domain: domain.into(), schema, fields: Vec::new() }
    }

    /// Add a text.
    fn text(&self, label: String, value: String) -> Self {
        self.with(label, Value::Text(value))
    }

    /// Add bytes, copied from any contiguous buffer. They never equal a text with the same bytes.
    fn bytes(&self, label: String, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(self.with(label, Value::Bytes(buffer::copy(value)?)))
    }

    /// Add a number from 0 to 2**64 - 1; raise OverflowError for another one.
    fn number(&self, label: String, value: u64) -> Self {
        self.with(label, Value::Number(value))
    }

    /// Add texts whose boundaries count: `["ab"]` is not `["a", "b"]`.
    fn list(&self, label: String, values: &Bound<'_, PyAny>) -> PyResult<Self> {
        if values.is_instance_of::<PyString>() {
            return Err(PyTypeError::new_err("the values are a str: give a list of str, or use text"));
        }
        let values = values.try_iter()?.map(|value| value?.extract::<String>()).collect::<PyResult<_>>()?;
        Ok(self.with(label, Value::List(values)))
    }

    /// Add a digest that was computed elsewhere. `note` is shown by `explain` and is no part of the key.
    #[pyo3(signature = (label, digest, note = String::new()))]
    fn digest(&self, label: String, digest: &Bound<'_, PyAny>, note: String) -> PyResult<Self> {
        Ok(self.with(label, Value::Digest { digest: buffer::copy(digest)?, note }))
    }

    /// Add the contents of a file. Its path is no part of the key; its last component is shown by `explain`.
    ///
    /// Raise OSError if the file cannot be read.
    fn file(&self, py: Python<'_>, label: String, path: PathBuf) -> PyResult<Self> {
        // Reads part by part.
        let digest = py.detach(|| pack::model_of_file(&path)).map_err(|error| file_error(&error, &path))?;
        let note = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(self.with(label, Value::Digest { digest: digest.as_bytes().to_vec(), note }))
    }

    /// The 32 bytes of the key.
    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.key_fields().key().as_bytes())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let domain = PyString::new(py, &self.domain).repr()?;
        let labels = self.fields.iter().map(|field| format!(", {}", field.label));
        Ok(format!("Fields({domain}, {}{})", self.schema, labels.collect::<String>()))
    }
}

impl Fields {
    fn with(&self, label: String, value: Value) -> Self {
        let mut fields = self.clone();
        fields.fields.push(Arc::new(Field { label, value }));
        fields
    }

    /// Returns the fields as the native crate takes them. Copies no value.
    pub(crate) fn key_fields(&self) -> KeyFields<'_> {
        self.fields.iter().fold(KeyFields::new(&*self.domain, self.schema), |fields, field| {
            let label = &*field.label;
            match &field.value {
                Value::Text(text) => fields.text(label, text),
                Value::Bytes(bytes) => fields.bytes(label, bytes),
                Value::Number(number) => fields.number(label, *number),
                Value::List(values) => fields.list(label, values),
                // Bytes without a note are shown by their digest.
                Value::Digest { digest, note } if note.is_empty() => fields.bytes(label, digest),
                Value::Digest { digest, note } => fields.digest(label, digest, note),
            }
        })
    }
}

impl PartialEq for Fields {
    fn eq(&self, other: &Self) -> bool {
        self.key_fields().key() == other.key_fields().key()
    }
}

impl std::hash::Hash for Fields {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.key_fields().key().hash(state);
    }
}

/// A key as Python code gives it.
pub(crate) enum Key<'py> {
    Fields(Bound<'py, Fields>),
    Bytes(Bound<'py, PyBytes>),
    Text(Bound<'py, PyString>),
    /// The bytes of something that Python code may change.
    Copied(Vec<u8>),
}

/// A key as the native crate takes it, without references to the interpreter.
pub(crate) enum Prepared<'a> {
    Fields(KeyFields<'a>),
    Bytes(&'a [u8]),
}

impl<'py> Key<'py> {
    #[inline]
    pub(crate) fn of(key: &Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = key.cast::<PyBytes>() {
            Ok(Self::Bytes(bytes.clone()))
        } else if let Ok(fields) = key.cast::<Fields>() {
            Ok(Self::Fields(fields.clone()))
        } else if let Ok(text) = key.cast::<PyString>() {
            Ok(Self::Text(text.clone()))
        } else {
            let wrong = |_| {
                let name = buffer::type_name(key);
                PyTypeError::new_err(format!("a key is no {name}: give Fields, bytes or str"))
            };
            buffer::copy(key).map(Self::Copied).map_err(wrong)
        }
    }

    #[inline]
    pub(crate) fn prepare(&self) -> PyResult<Prepared<'_>> {
        Ok(match self {
            Self::Fields(fields) => Prepared::Fields(fields.get().key_fields()),
            Self::Bytes(bytes) => Prepared::Bytes(bytes.as_bytes()),
            Self::Text(text) => Prepared::Bytes(text.to_str()?.as_bytes()),
            Self::Copied(bytes) => Prepared::Bytes(bytes),
        })
    }
}

impl<'a> From<&'a Prepared<'a>> for Request<'a> {
    #[inline]
    fn from(key: &'a Prepared<'a>) -> Self {
        match key {
            Prepared::Fields(fields) => fields.into(),
            Prepared::Bytes(bytes) => (*bytes).into(),
        }
    }
}

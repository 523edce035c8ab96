//! Descriptions of entries and of what is done to them, as Python sees them.

use pyo3::{prelude::*, types::PyDict};
use warmstart::{FieldChange, ReasonCounts, Recipe, Statistics, store};

use crate::artifact::{seconds, seconds_since_1970};

/// An entry, as its head describes it. Its payload is not read.
#[pyclass(frozen, get_all, module = "warmstart")]
pub(crate) struct Entry {
    /// The digest of the key, 64 hexadecimal digits, which identifies the entry in the store.
    digest: String,
    /// The bytes that it counts against the cap.
    size: u64,
    /// When it was last stored or used, in seconds since 1970 UTC; None if unknown.
    used: Option<f64>,
    /// When it was built, in seconds since 1970 UTC; None if unknown.
    created: Option<f64>,
    /// A short text for people: of the field `name`, `kernel` or `label`, or else of the first text.
    name: Option<String>,
    /// The domain of its key; None if it was not stored under `Fields`.
    domain: Option<String>,
    /// The labels of its key, each with the value, cut to 256 bytes; None for bytes without a note.
    fields: Vec<(String, Option<String>)>,
    /// Why its head cannot be read, a name of `REASONS`; None if it can.
    unreadable: Option<&'static str>,
}

/// A field in which two keys differ.
#[pyclass(frozen, get_all, module = "warmstart")]
pub(crate) struct Change {
    /// The label of the field.
    label: String,
    /// The value of the stored entry, or a short digest of it; None if it has no such field.
    old: Option<String>,
    /// The value that was looked up, likewise; None if there is no such field.
    new: Option<String>,
}

/// The stored entry that is nearest to a key, and the fields that differ. `str` is one line for people.
#[pyclass(frozen, module = "warmstart")]
pub(crate) struct Explanation {
    /// The nearest entry of the same domain.
    #[pyo3(get)]
    nearest: Py<Entry>,
    /// The fields that differ.
    #[pyo3(get)]
    changes: Vec<Py<Change>>,
    line: String,
}

/// An entry that is not whole.
#[pyclass(frozen, get_all, module = "warmstart")]
pub(crate) struct Damaged {
    /// The digest of the key, 64 hexadecimal digits.
    digest: String,
    /// Why it is not whole, a name of `REASONS`.
    reason: &'static str,
    /// Whether it was removed.
    removed: bool,
}

/// The result of `verify`. It is true if every entry is whole.
#[pyclass(frozen, get_all, module = "warmstart")]
pub(crate) struct Verification {
    /// The number of whole entries.
    pub(crate) whole: u64,
    /// The others.
    pub(crate) damaged: Vec<Py<Damaged>>,
    /// Why not all entries could be read, a name of `REASONS`; None if all were.
    pub(crate) reason: Option<&'static str>,
}

/// What `prune` removed.
#[pyclass(frozen, get_all, module = "warmstart")]
pub(crate) struct Removed {
    /// The number of entries.
    pub(crate) entries: u64,
    /// The bytes that they counted against the cap.
    pub(crate) bytes: u64,
    /// Why pruning ended early, a name of `REASONS`; None if it did not.
    pub(crate) reason: Option<&'static str>,
}

impl Entry {
    pub(crate) fn new(entry: &store::Entry) -> Self {
        let head = entry.head.as_ref();
        let recipe = entry.recipe();
        let label = || {
            let label = head.ok()?.metadata.attribute(warmstart::Metadata::LABEL)?;
            Some(String::from_utf8_lossy(label).into_owned())
        };
        let fields = recipe.map(Recipe::fields).unwrap_or_default();
        Self {
            digest: entry.digest.to_string(),
            size: entry.size,
            used: seconds_since_1970(entry.used_unix_ms),
            created: head.ok().and_then(|head| seconds_since_1970(head.provenance.created_unix_ms)),
            name: recipe.and_then(|recipe| recipe.name().map(str::to_owned)).or_else(label),
            domain: recipe.map(|recipe| recipe.domain().to_owned()),
            fields: fields
                .iter()
                .map(|field| (field.label().to_owned(), field.value().map(str::to_owned)))
                .collect(),
            unreadable: head.err().map(|reason| reason.as_str()),
        }
    }
}

impl Explanation {
    pub(crate) fn new(py: Python<'_>, explanation: warmstart::cache::Explanation) -> PyResult<Self> {
        let line = explanation.to_string();
        let change = |FieldChange { label, old, new }| Py::new(py, Change { label, old, new });
        Ok(Self {
            nearest: Py::new(py, Entry::new(&explanation.nearest))?,
            changes: explanation.changes.into_iter().map(change).collect::<PyResult<_>>()?,
            line,
        })
    }
}

impl Damaged {
    /// Describes an entry that is not whole; nothing if it is.
    pub(crate) fn new(proof: &store::Proof) -> Option<Self> {
        let reason = proof.result.err()?.as_str();
        Some(Self { digest: proof.digest.to_string(), reason, removed: proof.is_removed })
    }
}

#[pymethods]
impl Entry {
    fn __repr__(&self) -> String {
        let name = self.name.as_deref().unwrap_or("without a name");
        format!("<warmstart.Entry {}, {name:?}, {} bytes>", &self.digest[..12], self.size)
    }
}

#[pymethods]
impl Change {
    fn __repr__(&self) -> String {
        format!("<warmstart.Change of {}: {:?}, now {:?}>", self.label, self.old, self.new)
    }
}

#[pymethods]
impl Explanation {
    fn __str__(&self) -> &str {
        &self.line
    }

    fn __repr__(&self) -> String {
        format!("<warmstart.Explanation: {}>", self.line)
    }
}

#[pymethods]
impl Damaged {
    fn __repr__(&self) -> String {
        format!("<warmstart.Damaged {}: {}>", &self.digest[..12], self.reason)
    }
}

#[pymethods]
impl Verification {
    const fn __bool__(&self) -> bool {
        self.damaged.is_empty() && self.reason.is_none()
    }

    fn __repr__(&self) -> String {
        format!("<warmstart.Verification: {} whole, {} damaged>", self.whole, self.damaged.len())
    }
}

#[pymethods]
impl Removed {
    fn __repr__(&self) -> String {
        format!("<warmstart.Removed: {} entries, {} bytes>", self.entries, self.bytes)
    }
}

/// Returns counters by the names that Python knows them under.
pub(crate) fn stats<'py>(py: Python<'py>, counted: &Statistics) -> PyResult<Bound<'py, PyDict>> {
    let stats = PyDict::new(py);
    stats.set_item("hits", counted.hits)?;
    stats.set_item("misses", by_reason(py, &counted.misses)?)?;
    stats.set_item("refusals", by_reason(py, &counted.refusals)?)?;
    stats.set_item("builds", counted.builds)?;
    stats.set_item("coalesced", counted.shared)?;
    stats.set_item("evictions", counted.evictions)?;
    stats.set_item("bytes_read", counted.bytes_read)?;
    stats.set_item("bytes_written", counted.bytes_written)?;
    stats.set_item("build_seconds", seconds(counted.build_nanos))?;
    stats.set_item("wait_seconds", seconds(counted.wait_nanos))?;
    stats.set_item("saved_seconds", seconds(counted.saved_nanos))?;
    Ok(stats)
}

/// Returns the reasons that occurred, by name.
pub(crate) fn by_reason<'py>(py: Python<'py>, counts: &ReasonCounts) -> PyResult<Bound<'py, PyDict>> {
    let named = PyDict::new(py);
    for (reason, count) in counts.iter() {
        named.set_item(reason.as_str(), count)?;
    }
    Ok(named)
}

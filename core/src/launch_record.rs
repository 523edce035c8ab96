//! What travels with an artifact for its launches: rows of the registry, and results of reductions.
//!
//! An attribute of the artifact's [`Metadata`], so that it is stored, checked, evicted and replaced together with the code. docs/format.md has
//! the layout.

use alloc::vec::Vec;
use core::{error, fmt};

#[cfg(test)]
mod tests;

use crate::{
    artifact::Artifact,
    memo::PortableResult,
    metadata::Metadata,
    registry::{Adopted, Registered, Registry, RegistryError, RegistryId},
    wire::{MAX_ITEMS, Malformed, put, take, take_count},
};

/// The version of the layout.
const VERSION: u32 = 1;

/// What the launches of an artifact need beside its code.
///
/// ```
/// use warmstart_core::{artifact::Artifact, launch_record::LaunchRecord, registry::Registry};
///
/// // The process that compiles.
/// let mut registry = Registry::new();
/// let id = registry.register("compute_grad", 3, ())?;
/// let code = Artifact::new(b"code that writes the id when it overflows".to_vec());
/// let record = LaunchRecord::new().with_row(id, "compute_grad", 3)?;
/// let artifact = record.attach(&code)?;
///
/// // The process that loads, at the first launch and at every one.
/// let mut registry = Registry::new();
/// let record = LaunchRecord::of(&artifact)?.expect("it was attached");
/// record.adopt_into(&mut registry)?;
/// assert_eq!(registry.resolve(id).to_string(), "kernel `compute_grad`, task 3");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchRecord {
    /// Ascending, each once.
    rows: Vec<Registered>,
    /// Ascending by the name of the kernel, each once.
    results: Vec<PortableResult>,
}

/// Why the bytes of a record are refused. The artifact is then to be taken for a miss: what its code says when it overflows
/// could not be named. A cache does not look into records and goes on hitting: build anew, and put it over what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordError {
    /// Bytes are missing, left over, or contradict themselves.
    Malformed,
    /// A layout of another version.
    OtherVersion(u32),
    /// A row has no name, or an id that its name cannot have.
    Row(RegistryError),
    /// Something is there twice, or not in order.
    Disorder,
    /// There are more than [`MAX_ITEMS`] of a kind.
    TooMany,
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => f.write_str("the launch record contradicts itself: compile the artifact anew"),
            Self::OtherVersion(version) => write!(
                f,
                "the launch record has version {version}, this warmstart knows {VERSION}: compile the artifact anew"
            ),
            Self::Row(error) => write!(f, "the launch record has a row that is refused: {error}"),
            Self::TooMany => {
                write!(f, "a launch record holds {MAX_ITEMS} items of a kind: divide the artifact")
            }
            Self::Disorder => f.write_str(
                "the launch record has something twice or not in order: compile the artifact anew",
            ),
        }
    }
}

impl error::Error for RecordError {}

impl LaunchRecord {
    /// The attribute that holds a record.
    pub const ATTRIBUTE: &'static str = "launch";

    /// A record of nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { rows: Vec::new(), results: Vec::new() }
    }

    /// Adds what an id in the code stands for. What is there already is not added again.
    ///
    /// # Errors
    /// As [`Registered::new`].
    pub fn with_row(mut self, id: RegistryId, kernel: &str, task: i32) -> Result<Self, RegistryError> {
        let row = Registered::new(id, kernel, task)?;
        if let Err(place) = self.rows.binary_search_by(|other| order(other).cmp(&order(&row))) {
            self.rows.insert(place, row);
        }
        Ok(self)
    }

    /// Adds the result of a kernel's reduction; that of a kernel of the same name is replaced.
    #[must_use]
    pub fn with_result(mut self, result: PortableResult) -> Self {
        match self.results.binary_search_by(|other| other.kernel().cmp(result.kernel())) {
            Ok(place) => self.results[place] = result,
            Err(place) => self.results.insert(place, result),
        }
        self
    }

    /// The ids in the code, ascending.
    #[must_use]
    pub fn rows(&self) -> &[Registered] {
        &self.rows
    }

    /// The results, by the names of their kernels, ascending.
    #[must_use]
    pub fn results(&self) -> &[PortableResult] {
        &self.results
    }

    /// The result that was kept under this name.
    #[must_use]
    pub fn result(&self, kernel: &str) -> Option<&PortableResult> {
        let place = self.results.binary_search_by(|other| other.kernel().cmp(kernel)).ok()?;
        Some(&self.results[place])
    }

    /// Registers the ids in the code where it is launched. Cheap where they are registered already, so do it at every launch, or at
    /// the first one. The rows whose ids stand for other kernels too are returned: a diagnostic then has to know which kernels were launched
    /// ([`Registry::resolve_among`]).
    ///
    /// # Errors
    /// As [`Registry::adopt`].
    pub fn adopt_into(&self, registry: &mut Registry) -> Result<Vec<&Registered>, RegistryError> {
        let mut shared = Vec::new();
        for row in &self.rows {
            if registry.adopt(row.id(), row.kernel(), row.task(), ())? == Adopted::Shared {
                shared.push(row);
            }
        }
        Ok(shared)
    }

    /// The record of an artifact, if it has one.
    ///
    /// # Errors
    /// If the artifact's metadata or its record is refused.
    pub fn of(artifact: &Artifact) -> Result<Option<Self>, RecordError> {
        let metadata = artifact.metadata().map_err(|_| RecordError::Malformed)?;
        metadata.attribute(Self::ATTRIBUTE).map(Self::decode).transpose()
    }

    /// The artifact with this record instead of the one that it had. Copies the payload if the artifact is shared.
    ///
    /// Results are known only after a launch: attach them to the artifact that the cache gave, and put that under the same key. It
    /// replaces the one without.
    ///
    /// # Errors
    /// [`RecordError::Malformed`] if the artifact's metadata was not written by this crate, or as [`encode`](Self::encode).
    pub fn attach(&self, artifact: &Artifact) -> Result<Artifact, RecordError> {
        let metadata = artifact.metadata().map_err(|_| RecordError::Malformed)?;
        let metadata: Metadata = metadata.with_attribute(Self::ATTRIBUTE, self.encode()?);
        Ok(artifact.clone().with_metadata(&metadata))
    }

    /// The record as postcard writes it. Equal records have equal bytes.
    ///
    /// # Errors
    /// [`RecordError::TooMany`].
    pub fn encode(&self) -> Result<Vec<u8>, RecordError> {
        let mut bytes = Vec::new();
        put(&mut bytes, &VERSION);
        put_count(&mut bytes, self.rows.len())?;
        for row in &self.rows {
            put(&mut bytes, &(row.id().as_u32(), row.kernel(), row.task()));
        }
        put_count(&mut bytes, self.results.len())?;
        for result in &self.results {
            result.put(&mut bytes)?;
        }
        Ok(bytes)
    }

    /// Reads what [`encode`](Self::encode) wrote. Takes memory only for what is there, whatever a count claims.
    ///
    /// # Errors
    /// If the bytes are not exactly one record of this version, or if a row's id is not one of its name's.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let mut rest = bytes;
        let version: u32 = take(&mut rest)?;
        if version != VERSION {
            return Err(RecordError::OtherVersion(version));
        }
        let mut record = Self::new();
        for _ in 0..take_count(&mut rest)? {
            let (id, kernel, task): (u32, &str, i32) = take(&mut rest)?;
            let id = RegistryId::new(id).ok_or(RecordError::Malformed)?;
            let row = Registered::new(id, kernel, task).map_err(RecordError::Row)?;
            if record.rows.last().is_some_and(|last| order(last) >= order(&row)) {
                return Err(RecordError::Disorder);
            }
            record.rows.push(row);
        }
        for _ in 0..take_count(&mut rest)? {
            let result = PortableResult::take(&mut rest)?;
            if record.results.last().is_some_and(|last| last.kernel() >= result.kernel()) {
                return Err(RecordError::Disorder);
            }
            record.results.push(result);
        }
        if rest.is_empty() { Ok(record) } else { Err(RecordError::Malformed) }
    }
}

/// By what rows ascend.
fn order(row: &Registered) -> (RegistryId, &str, i32) {
    (row.id(), row.kernel(), row.task())
}

impl From<Malformed> for RecordError {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

pub(crate) fn put_count(bytes: &mut Vec<u8>, count: usize) -> Result<(), RecordError> {
    let count = count as u64;
    if count > MAX_ITEMS {
        return Err(RecordError::TooMany);
    }
    put(bytes, &count);
    Ok(())
}

//! Launch records: rows of the registry and results of reductions, stored with an artifact.
//!
//! A record is an attribute of the artifact's [`Metadata`], so that it is stored, verified, evicted and replaced together with
//! the code. docs/format.md has the layout.

use alloc::vec::Vec;

#[cfg(test)]
mod tests;

use thiserror::Error;

use crate::{
    artifact::{Artifact, MAX_ITEMS, Malformed, Metadata, put, take, take_count},
    memo::portable::{Content, Part, PortableResult},
    registry::{Registered, Registry, RegistryError, RegistryId},
};

/// The version of the layout.
const VERSION: u32 = 1;

/// The data that launches of an artifact need in addition to its code.
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
    /// Ascending, without duplicates.
    rows: Vec<Registered>,
    /// Ascending by the name of the kernel, without duplicates.
    results: Vec<PortableResult>,
}

/// The reason why a record is refused. Treat the artifact as a miss then, because an overflow in its code could not be reported
/// by name. A cache does not decode records and keeps hitting: build the artifact again, and replace the stored one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RecordError {
    /// Bytes are missing or left over, or contradict each other.
    #[error("the launch record contradicts itself: compile the artifact again")]
    Malformed,
    /// The layout is of another version.
    #[error("the launch record has version {0}, this warmstart knows {VERSION}: compile the artifact again")]
    OtherVersion(u32),
    /// A row has no name, or an id that its name cannot have.
    #[error("the launch record has a row that is refused: {0}")]
    Row(RegistryError),
    /// An item is duplicated, or out of order.
    #[error("the launch record has something twice or not in order: compile the artifact again")]
    Disorder,
    /// There are more than [`MAX_ITEMS`] items of one kind.
    #[error("a launch record holds {MAX_ITEMS} items of a kind: divide the artifact")]
    TooMany,
}

impl LaunchRecord {
    /// The attribute that holds a record.
    pub const ATTRIBUTE: &'static str = "launch";

    /// Creates an empty record.
    #[must_use]
    pub const fn new() -> Self {
        Self { rows: Vec::new(), results: Vec::new() }
    }

    /// Adds the kernel and task that an id in the code stands for. An existing row is not added again.
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

    /// Adds the result of a kernel's reduction, and replaces that of a kernel with the same name.
    #[must_use]
    pub fn with_result(mut self, result: PortableResult) -> Self {
        match self.results.binary_search_by(|other| other.kernel().cmp(result.kernel())) {
            Ok(place) => self.results[place] = result,
            Err(place) => self.results.insert(place, result),
        }
        self
    }

    /// Returns the rows for the ids in the code, ascending.
    #[must_use]
    pub fn rows(&self) -> &[Registered] {
        &self.rows
    }

    /// Returns the results, ascending by the names of their kernels.
    #[must_use]
    pub fn results(&self) -> &[PortableResult] {
        &self.results
    }

    /// Returns the result of the kernel with this name.
    #[must_use]
    pub fn result(&self, kernel: &str) -> Option<&PortableResult> {
        let place = self.results.binary_search_by(|other| other.kernel().cmp(kernel)).ok()?;
        Some(&self.results[place])
    }

    /// Registers the ids in the code with the registry of the process that launches it. This is cheap if they are already
    /// registered, so do it at every launch, or at the first one.
    ///
    /// # Errors
    /// As [`Registry::adopt`].
    pub fn adopt_into(&self, registry: &mut Registry) -> Result<(), RegistryError> {
        self.rows.iter().try_for_each(|row| registry.adopt(row.id(), row.kernel(), row.task(), ()))
    }

    /// Returns the record of an artifact, if it has one.
    ///
    /// # Errors
    /// If the artifact's metadata or its record is refused.
    pub fn of(artifact: &Artifact) -> Result<Option<Self>, RecordError> {
        let metadata = artifact.metadata().map_err(|_| RecordError::Malformed)?;
        metadata.attribute(Self::ATTRIBUTE).map(Self::decode).transpose()
    }

    /// Returns the artifact with this record in place of its old one. Copies the payload if the artifact is shared.
    ///
    /// Results are known only after a launch: attach them to the artifact that the cache returned, and put it under the same
    /// key, where it replaces the one without them.
    ///
    /// # Errors
    /// [`RecordError::Malformed`] if the artifact's metadata was not written by this crate, or as [`encode`](Self::encode).
    pub fn attach(&self, artifact: &Artifact) -> Result<Artifact, RecordError> {
        let metadata = artifact.metadata().map_err(|_| RecordError::Malformed)?;
        let metadata: Metadata = metadata.with_attribute(Self::ATTRIBUTE, self.encode()?);
        Ok(artifact.clone().with_metadata(&metadata))
    }

    /// Encodes the record with postcard. Equal records have equal bytes.
    ///
    /// # Errors
    /// [`RecordError::TooMany`].
    pub fn encode(&self) -> Result<Vec<u8>, RecordError> {
        let mut counts = self.results.iter().flat_map(|result| [result.contents.len(), result.specs.len()]);
        let most = counts.by_ref().chain([self.rows.len(), self.results.len()]).max();
        if most.is_some_and(|most| most as u64 > MAX_ITEMS) {
            return Err(RecordError::TooMany);
        }
        let rows = self.rows.iter().map(|row| (row.id().as_u32(), row.kernel(), row.task()));
        let mut bytes = Vec::new();
        put(&mut bytes, &(VERSION, rows.collect::<Vec<_>>(), &self.results));
        Ok(bytes)
    }

    /// Decodes the bytes that [`encode`](Self::encode) returns. Takes memory only for bytes that are there, whatever a count
    /// claims.
    ///
    /// # Errors
    /// If the bytes are not exactly one record of this version, or if a row's id is not one of its name's.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let mut rest = bytes;
        let version: u32 = take(&mut rest)?;
        if version != VERSION {
            return Err(RecordError::OtherVersion(version));
        }
        let rows = take_ascending(&mut rest, take_row, |one, other| order(one) < order(other))?;
        let results = take_ascending(&mut rest, take_result, |one, other| one.kernel() < other.kernel())?;
        if rest.is_empty() { Ok(Self { rows, results }) } else { Err(RecordError::Malformed) }
    }
}

fn take_row(rest: &mut &[u8]) -> Result<Registered, RecordError> {
    let (id, kernel, task): (u32, &str, i32) = take(rest)?;
    let id = RegistryId::new(id).ok_or(RecordError::Malformed)?;
    Registered::new(id, kernel, task).map_err(RecordError::Row)
}

fn take_result(rest: &mut &[u8]) -> Result<PortableResult, RecordError> {
    let (kernel, fingerprint): (&str, _) = take(rest)?;
    let contents = take_ascending(rest, |rest| Ok(take(rest)?), Content::is_before)?;
    let output = if take(rest)? { Some(take_part(rest, &contents)?) } else { None };
    let take_spec = |rest: &mut &[u8]| Ok((take::<&[u8]>(rest)?.to_vec(), take_part(rest, &contents)?));
    let specs = take_ascending(rest, take_spec, |(one, _), (other, _)| one < other)?;
    Ok(PortableResult { kernel: kernel.into(), fingerprint, contents, output, specs })
}

fn take_part(rest: &mut &[u8], contents: &[Content]) -> Result<Part, RecordError> {
    let from = take_ascending(rest, |rest| Ok(take(rest)?), |one: &u32, other| one < other)?;
    if from.last().is_some_and(|last| *last as usize >= contents.len()) {
        return Err(RecordError::Malformed);
    }
    Ok(Part { from, bytes: take::<&[u8]>(rest)?.to_vec() })
}

/// Decodes a list in which each item `is_before` the next.
fn take_ascending<T>(
    rest: &mut &[u8],
    mut take_item: impl FnMut(&mut &[u8]) -> Result<T, RecordError>,
    is_before: impl Fn(&T, &T) -> bool,
) -> Result<Vec<T>, RecordError> {
    let mut items = Vec::new();
    for _ in 0..take_count(rest)? {
        let item = take_item(rest)?;
        if items.last().is_some_and(|last| !is_before(last, &item)) {
            return Err(RecordError::Disorder);
        }
        items.push(item);
    }
    Ok(items)
}

/// Returns the values by which rows are sorted.
fn order(row: &Registered) -> (RegistryId, &str, i32) {
    (row.id(), row.kernel(), row.task())
}

impl From<Malformed> for RecordError {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

//! Inspection of a file of packed weights, without changing it.

use std::path::Path;

use warmstart_core::trailer::{Entry, FormatError, HEADER_LEN, ModelId, Name, Packing, VERSION};

use super::{
    error::PackError,
    file::{PackReader, Trailer},
};
use crate::os::LocalMapBackend;

/// The contents of a file of packed weights.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// The version, 2 or 3.
    pub version: u32,
    /// The entries, in ascending order of offset.
    pub entries: Vec<PackEntry>,
    /// The models of the entries, ascending, except for entries that were imported without a model. A host that names no model saves
    /// under zeros. Empty for version 2.
    pub models: Vec<ModelId>,
    /// The number of bytes that are neither header, entry, padding, index nor footer, such as former indexes. What a writer
    /// has not saved yet counts too.
    pub dead_bytes: u64,
    /// The length of the file in bytes.
    pub file_bytes: u64,
    /// The number of the last commit of version 3, from 1; 0 if there was none, and for version 2.
    pub generation: u64,
    /// The reason why the newest index is not used, if an earlier one is used instead.
    pub refusal: Option<FormatError>,
}

/// An entry of a file of packed weights.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackEntry {
    /// The name of the weight. For version 2 and entries imported from it, the joined name of weight and bias.
    pub weight: String,
    /// The name of the bias, if there is one.
    pub bias: Option<String>,
    /// The model; zeros if it is unknown. For an imported entry, the model given at import.
    pub model: ModelId,
    /// The packing of the weight.
    pub packing: Packing,
    /// The start of the payload, in bytes from the start of the file.
    pub offset: u64,
    /// The length of the payload in bytes.
    pub size: u64,
    /// The XXH3-64 of the payload; version 2 has none.
    pub checksum: Option<u64>,
    /// The commit that added it; 0 for version 2.
    pub generation: u64,
    /// Whether it is of version 2, or was imported from it: its packing is not verified.
    pub is_imported: bool,
}

/// The result of verifying a file of packed weights.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Verification {
    /// The contents of the file.
    pub inspection: Inspection,
    /// Whether payloads have checksums. Version 2 has none, so only its structure was verified.
    pub has_checksums: bool,
    /// The number of whole payloads.
    pub whole: u64,
    /// The indexes of the damaged ones among the entries.
    pub damaged: Vec<usize>,
    /// The reason why some entries cannot be found, if so.
    pub misfiled: Option<FormatError>,
}

impl PackEntry {
    /// Returns the name of the entry.
    #[must_use]
    pub fn name(&self) -> Name<'_> {
        Name { weight: &self.weight, bias: self.bias.as_deref() }
    }

    /// Returns whether the model of the entry is known. It is not for version 2, nor for imports without a model.
    #[must_use]
    pub fn has_model(&self) -> bool {
        !self.is_imported || self.model != ModelId::default()
    }
}

impl From<Entry<'_>> for PackEntry {
    fn from(entry: Entry<'_>) -> Self {
        Self {
            weight: entry.name.weight.to_owned(),
            bias: entry.name.bias.map(ToOwned::to_owned),
            model: entry.model,
            packing: entry.packing,
            offset: entry.offset,
            size: entry.size,
            checksum: entry.checksum,
            generation: entry.generation,
            is_imported: entry.is_imported,
        }
    }
}

impl Verification {
    /// Returns whether no damage was found.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.damaged.is_empty() && self.misfiled.is_none() && self.inspection.refusal.is_none()
    }
}

/// Returns the contents of a file of packed weights, of version 2 or 3. Reads its index and no payload, changes nothing, follows no
/// link, and does not wait.
///
/// ```
/// use warmstart::pack::{ModelId, Name, Pack, PackOptions, Packing, WeightKey, inspect};
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("weights.xpwc");
/// # let (name, model, packing) = (Name::new("w").with_bias("b"), ModelId::default(), Packing::of_seed(7));
/// let pack = Pack::open(&path, PackOptions::default())?;
/// pack.insert(&WeightKey { name, model, packing }, pack.reserve(100)?);
/// pack.save()?;
///
/// let inspection = inspect(&path)?;
/// assert_eq!((inspection.version, inspection.generation, inspection.dead_bytes), (3, 1, 0));
/// assert_eq!((inspection.entries[0].name(), inspection.entries[0].size), (name, 100));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The error of reading the file, or of refusing it.
pub fn inspect(path: impl AsRef<Path>) -> Result<Inspection, PackError> {
    let disk = LocalMapBackend::new();
    Ok(inspection(&PackReader::open(&disk, path.as_ref())?))
}

/// Verifies a file of packed weights: the checksum of every payload, and that every entry can be found. Calls `visit` for
/// each entry with whether its payload is whole, or with `None` if it has no checksum. Changes nothing.
///
/// # Errors
/// The error of reading the file, or of refusing it.
pub fn verify(
    path: impl AsRef<Path>,
    visit: &mut dyn FnMut(&PackEntry, Option<bool>),
) -> Result<Verification, PackError> {
    let disk = LocalMapBackend::new();
    let look = PackReader::open(&disk, path.as_ref())?;
    let inspection = inspection(&look);
    let misfiled = match &look.trailer {
        Trailer::Version3(_, Some(picked)) => picked.layout.view(&picked.block).verify().err(),
        _ => None,
    };
    let has_checksums = inspection.version == VERSION;
    let mut found = Verification { inspection, has_checksums, whole: 0, damaged: Vec::new(), misfiled };
    for (at, entry) in found.inspection.entries.iter().enumerate() {
        let is_whole = match entry.checksum {
            Some(expected) => {
                let actual = look.each_part(entry.offset, entry.size, &mut |_| Ok(()))?;
                Some(actual == expected)
            }
            None => None,
        };
        match is_whole {
            Some(true) => found.whole += 1,
            Some(false) => found.damaged.push(at),
            None => {}
        }
        visit(entry, is_whole);
    }
    Ok(found)
}

pub(super) fn inspection(file: &PackReader<'_>) -> Inspection {
    let mut found = Inspection {
        version: VERSION,
        entries: file.entries().into_iter().map(Into::into).collect(),
        models: Vec::new(),
        dead_bytes: 0,
        file_bytes: file.len,
        generation: 0,
        refusal: None,
    };
    match &file.trailer {
        Trailer::Version2(_) => {
            found.version = 2;
            found.dead_bytes = file.version2().map_or(0, |trailer| trailer.dead_bytes());
        }
        Trailer::Version3(commits, None) => {
            found.dead_bytes = file.len.saturating_sub(HEADER_LEN as u64);
            found.refusal = commits.refused();
        }
        Trailer::Version3(_, Some(picked)) => {
            let index = picked.layout.view(&picked.block);
            let has = |model| found.entries.iter().any(|entry| entry.has_model() && entry.model == model);
            found.models = index.models().filter(|model| has(*model)).collect();
            // Bytes behind the index, from an interrupted writer, are dead too.
            found.dead_bytes = index.dead_bytes() + file.len.saturating_sub(picked.slot.end());
            found.generation = picked.slot.generation;
            found.refusal = picked.refused;
        }
    }
    found
}

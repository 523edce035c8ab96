//! Looking into a file of packed weights without changing it.

use std::{fs::File, io, path::Path};

use warmstart_core::trailer::{
    Checksum, Entry, ModelId, Name, Packing, Refusal, VERSION, pick::Picked, version2::Version2,
};

use super::look::{FileError, IndexBytes, Look};
use crate::os::{LocalMapDisk, MapDisk};

/// What a file of packed weights holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// 2 or 3.
    pub version: u32,
    /// In ascending order of offset.
    pub entries: Vec<PackEntry>,
    /// The models that there are entries of, ascending, apart from entries that were imported without a model. That of all zeros is what a host saves that names none. Version 2 knows none.
    pub models: Vec<ModelId>,
    /// Bytes that are neither header, entry, padding, index nor footer, such as indexes that were current once. What a writer
    /// has not saved yet counts as dead, too.
    pub dead_bytes: u64,
    /// The length of the file in bytes.
    pub file_bytes: u64,
    /// Counts the commits of version 3, from 1; 0 if there was none, and in version 2.
    pub generation: u64,
    /// Why the newest index does not count, if an earlier one does in its place.
    pub refusal: Option<Refusal>,
}

/// An entry of a file of packed weights.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackEntry {
    /// The name of the weight. Of version 2, and of what was imported from it, the joined name of weight and bias.
    pub weight: String,
    /// The name of the bias, if there is one.
    pub bias: Option<String>,
    /// Of which model; of all zeros if that is not known. That of an imported entry is the one given then.
    pub model: ModelId,
    /// Packed how.
    pub packing: Packing,
    /// Where the payload begins, in bytes from the start of the file.
    pub offset: u64,
    /// Bytes of the payload.
    pub size: u64,
    /// XXH3-64 of the payload; version 2 has none.
    pub checksum: Option<u64>,
    /// The commit that added it; 0 in version 2.
    pub generation: u64,
    /// Whether it is of version 2, or was imported from there: nothing proves its packing.
    pub is_imported: bool,
}

/// What proving a file of packed weights found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Verification {
    /// What the file holds.
    pub inspection: Inspection,
    /// Whether there are checksums to prove payloads by: version 2 has none, so that its structure alone was proved.
    pub has_checksums: bool,
    /// How many payloads are whole.
    pub whole: u64,
    /// The places of those that are not among the entries.
    pub damaged: Vec<usize>,
    /// Why some entries cannot be found, if that is so.
    pub misfiled: Option<Refusal>,
}

impl PackEntry {
    /// What the entry is called.
    #[must_use]
    pub fn name(&self) -> Name<'_> {
        Name { weight: &self.weight, bias: self.bias.as_deref() }
    }

    /// Whether it is known of which model the entry is: not so in version 2, nor where it was imported without a model.
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
    /// Whether nothing is wrong, as far as can be told.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.damaged.is_empty() && self.misfiled.is_none() && self.inspection.refusal.is_none()
    }
}

/// Says what a file of packed weights holds, of version 2 or 3. Reads its index and no payload, changes nothing, follows no
/// link, and waits for nobody.
///
/// ```
/// use warmstart::pack::{ModelId, Name, Pack, PackOptions, Packing, Wanted, inspect};
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("weights.xpwc");
/// # let (name, model, packing) = (Name::new("w").with_bias("b"), ModelId::default(), Packing::of_seed(7));
/// let pack = Pack::open(&path, PackOptions::default())?;
/// pack.insert(&Wanted { name, model, packing }, pack.reserve(100)?);
/// pack.save()?;
///
/// let inspection = inspect(&path)?;
/// assert_eq!((inspection.version, inspection.generation, inspection.dead_bytes), (3, 1, 0));
/// assert_eq!((inspection.entries[0].name(), inspection.entries[0].size), (name, 100));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the file cannot be read, or is refused.
pub fn inspect(path: impl AsRef<Path>) -> Result<Inspection, FileError> {
    let disk = LocalMapDisk::new();
    inspection(&Look::open(&disk, path.as_ref())?)
}

/// Proves all of a file of packed weights: every payload by its checksum, and that every entry is found. `visit` is called for
/// each entry, with whether its payload is whole; with nothing where there is no checksum. Changes nothing.
///
/// # Errors
/// If the file cannot be read, or is refused.
pub fn verify(
    path: impl AsRef<Path>,
    visit: &mut dyn FnMut(&PackEntry, Option<bool>),
) -> Result<Verification, FileError> {
    let disk = LocalMapDisk::new();
    let look = Look::open(&disk, path.as_ref())?;
    let inspection = inspection(&look)?;
    let misfiled = match &look.index {
        IndexBytes::Version3 { index: Some(picked), .. } => picked.layout.view(&picked.block).verify().err(),
        _ => None,
    };
    let has_checksums = inspection.version == VERSION;
    let mut found = Verification { inspection, has_checksums, whole: 0, damaged: Vec::new(), misfiled };
    for (at, entry) in found.inspection.entries.iter().enumerate() {
        let is_whole = match entry.checksum {
            Some(expected) => {
                let actual = each_part(&disk, &look.file, entry.offset, entry.size, &mut |_| Ok(()))?;
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

pub(super) fn inspection(look: &Look<'_>) -> Result<Inspection, FileError> {
    let mut inspection = Inspection {
        version: VERSION,
        entries: Vec::new(),
        models: Vec::new(),
        dead_bytes: look.dead_bytes()?,
        file_bytes: look.len,
        generation: 0,
        refusal: None,
    };
    match &look.index {
        IndexBytes::Version2(_) => {
            inspection.version = 2;
            inspection.entries = look.version2().iter().flat_map(Version2::entries).map(Into::into).collect();
        }
        IndexBytes::Version3 { index, .. } => {
            inspection.refusal = look.refusal();
            if let Some(Picked { layout, slot, block, .. }) = index.as_deref() {
                inspection.entries = layout.view(block).entries().map(Into::into).collect();
                let has =
                    |model| inspection.entries.iter().any(|entry| entry.has_model() && entry.model == model);
                inspection.models = layout.view(block).models().filter(|model| has(*model)).collect();
                inspection.generation = slot.generation;
            }
        }
    }
    Ok(inspection)
}

/// Reads a payload in parts, hands them on, and returns its checksum.
pub(super) fn each_part(
    disk: &dyn MapDisk,
    file: &File,
    offset: u64,
    size: u64,
    take: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<u64> {
    const PART: u64 = 1 << 20;
    let mut sum = Checksum::new();
    let mut buffer = vec![0; usize::try_from(size.min(PART)).unwrap_or_default()];
    let mut at = 0;
    while at < size {
        let len = usize::try_from((size - at).min(PART)).unwrap_or(buffer.len());
        let part = &mut buffer[..len];
        disk.read_at(file, offset + at, part)?;
        sum.update(part);
        take(part)?;
        at += len as u64;
    }
    Ok(sum.finish())
}

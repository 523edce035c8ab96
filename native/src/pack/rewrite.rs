//! Files of packed weights, written anew: without what nobody reaches, or in another version.
//!
//! The new file is written beside the old one and takes its name at the end. Whatever instant a process dies at, one of the two
//! is there, whole; who has the old one mapped keeps it.

use std::{
    collections::HashMap,
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use warmstart_core::trailer::{
    ALIGNMENT, Entry, HEADER_LEN, ModelId, Name, Refusal, VERSION,
    build::{IndexBuilder, NewEntry},
    header::{Header, Place, Slot},
    version2,
};

use super::{
    inspect::{PackEntry, each_part, inspection},
    look::{FileError, IndexBytes, Look},
    publish::NewFile,
    writer::random,
};
use crate::os::{LocalMapDisk, Lock, MapDisk};

/// ExecuTorch puts payloads at multiples of this, in bytes.
const PAGE: u64 = 4096;

/// How a file is rewritten. The [default](Self::default) keeps all models, puts the new file in the place of the old one, and
/// does not wait for a writer.
#[derive(Clone, Debug)]
pub struct RewriteOptions {
    models: Option<Vec<ModelId>>,
    model: Option<ModelId>,
    output: Option<PathBuf>,
    patience: Duration,
    disk: Arc<dyn MapDisk>,
}

/// What rewriting a file did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rewritten {
    /// Whether a file was written. If not, the old one is as it was, to the byte and the time.
    pub is_changed: bool,
    /// How many entries the file has now.
    pub entries: u64,
    /// How many whole ones were left out: they are of other models, or are older packings.
    pub left_out: u64,
    /// How many were dropped because their payload is damaged.
    pub damaged: u64,
    /// How many entries of the file are imported without a model. Look-ups that name a model find them only
    /// [if told to](super::PackOptions::with_unverified).
    pub unverified: u64,
    /// The length of the old file in bytes.
    pub bytes_before: u64,
    /// The length of the new file in bytes.
    pub bytes_after: u64,
}

impl Default for RewriteOptions {
    fn default() -> Self {
        let disk = Arc::new(LocalMapDisk::new());
        Self { models: None, model: None, output: None, patience: Duration::ZERO, disk }
    }
}

impl RewriteOptions {
    /// Keeps the entries of these models alone. Entries that were imported from version 2 without a model are of that of all
    /// zeros.
    #[must_use]
    pub fn with_models(self, models: impl IntoIterator<Item = ModelId>) -> Self {
        Self { models: Some(models.into_iter().collect()), ..self }
    }

    /// Says of which model the entries are that are [imported](import): [`model_of_file`](super::model_of_file) returns it.
    /// Nothing proves that it is right, nor that the version of XNNPACK that packed them is the one that will run them.
    #[must_use]
    pub fn with_imported_model(self, model: ModelId) -> Self {
        Self { model: Some(model), ..self }
    }

    /// Leaves the old file where it is, and writes the new one here, where no file may be yet. [`compact`] does not heed it.
    #[must_use]
    pub fn with_output(self, output: impl Into<PathBuf>) -> Self {
        Self { output: Some(output.into()), ..self }
    }

    /// Waits this long for whoever writes to the file.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Asks another file system than the machine's: for tests.
    #[must_use]
    pub fn with_disk(self, disk: Arc<dyn MapDisk>) -> Self {
        Self { disk, ..self }
    }

    fn keeps(&self, entry: &PackEntry) -> bool {
        self.models.as_ref().is_none_or(|models| models.contains(&entry.model))
    }
}

/// Writes a file of version 3 anew without what nobody reaches: indexes that were current once, packings that were replaced,
/// models that are not kept, payloads that are damaged. Where that would change nothing, the file is not touched.
///
/// Holds the writer's lock meanwhile. Payloads are proved while they are copied.
///
/// # Errors
/// [`FileError::Busy`] if somebody writes to the file for longer than the patience; [`FileError::WrongVersion`] if it is of
/// version 2, which [`import`] makes version 3; [`FileError::NoSuchModel`] if the file has nothing of a model that is to be kept; why it could not be read or written. Then it is as it was.
pub fn compact(path: impl AsRef<Path>, options: &RewriteOptions) -> Result<Rewritten, FileError> {
    let (disk, path) = (&*options.disk, path.as_ref());
    let look = Look::lock(disk, path, Lock::Writer, options.patience)?;
    let IndexBytes::Version3 { commits, .. } = &look.index else {
        return Err(FileError::WrongVersion(2));
    };
    let all = inspection(&look)?;
    // To keep nothing is more likely a slip than a wish.
    let is_missing = |model: &&ModelId| !all.entries.iter().any(|entry| entry.model == **model);
    if let Some(missing) = options.models.iter().flatten().find(is_missing) {
        return Err(FileError::NoSuchModel(*missing));
    }
    let (kept, others): (Vec<_>, Vec<_>) = all.entries.into_iter().partition(|entry| options.keeps(entry));
    let is_tidy = all.dead_bytes == 0 && all.refusal.is_none() && others.is_empty();
    if is_tidy && are_whole(disk, &look.file, &kept)? {
        return Ok(Rewritten {
            entries: kept.len() as u64,
            bytes_before: look.len,
            bytes_after: look.len,
            ..Rewritten::default()
        });
    }
    let generation = commits.next_generation();
    let mut done = write_version3(disk, &look.file, path, &kept, generation)?;
    done.left_out = others.len() as u64;
    done.bytes_before = look.len;
    Ok(done)
}

/// Writes a file of version 3 as one of version 2, for ExecuTorch: page-aligned, under joined names. What version 2 has no room
/// for is lost: models, fingerprints, checksums. Damaged payloads are not exported.
///
/// Version 2 holds one packing of a name. Where there are several, of one model or of many, it must be
/// [said](RewriteOptions::with_models) which one model is wanted; of several packings of its, the newest is taken.
///
/// # Errors
/// [`FileError::Clash`] if the joined names of two weights are the same; [`FileError::Several`]; [`FileError::NoSuchModel`];
/// [`FileError::Exists`]; [`FileError::Busy`]; why the file could not be read or written. Then nothing was written.
pub fn export(path: impl AsRef<Path>, options: &RewriteOptions) -> Result<Rewritten, FileError> {
    rewrite_as(2, path.as_ref(), options, |disk, look, place| {
        let all = inspection(look)?;
        let count = all.entries.len();
        let kept: Vec<_> = all.entries.into_iter().filter(|entry| options.keeps(entry)).collect();
        let one_model = options.models.as_deref().filter(|models| models.len() == 1);
        if let (true, Some([model, ..])) = (kept.is_empty(), options.models.as_deref()) {
            return Err(FileError::NoSuchModel(*model));
        }
        let chosen = one_of_each_name(kept, one_model.is_some())?;
        let mut done = write_version2(disk, &look.file, place, &chosen)?;
        done.left_out = (count - chosen.len()) as u64;
        Ok(done)
    })
}

/// Writes a file of version 2 as one of version 3. Every entry keeps its joined name and is flagged as imported. It is found where
/// no entry of the name, model and packing is, unless the weight is stored as packed by another algorithm; which algorithm packed
/// it, nothing says. It is said to be unverified.
///
/// [Say of which model](RewriteOptions::with_imported_model) the entries are, and look-ups that name that model find them. Else only
/// those do that name none, or [take unverified entries](super::PackOptions::with_unverified). The model can be said later: of a
/// file that was imported without one, importing it again with a model changes that.
///
/// # Errors
/// [`FileError::Exists`], [`FileError::Busy`], or why the file could not be read or written. Then nothing was written.
pub fn import(path: impl AsRef<Path>, options: &RewriteOptions) -> Result<Rewritten, FileError> {
    rewrite_as(VERSION, path.as_ref(), options, |disk, look, place| {
        let mut entries = inspection(look)?.entries;
        let generation = match &look.index {
            IndexBytes::Version2(_) => {
                entries.iter_mut().for_each(|entry| entry.generation = 1);
                1
            }
            IndexBytes::Version3 { commits, .. } => commits.next_generation(),
        };
        let model = options.model.unwrap_or_default();
        entries.iter_mut().filter(|entry| !entry.has_model()).for_each(|entry| entry.model = model);
        let mut done = write_version3(disk, &look.file, place, &entries, generation)?;
        done.unverified = entries.iter().filter(|entry| !entry.has_model()).count() as u64;
        Ok(done)
    })
}

/// Has a file written in another version. One that has it already is not touched, unless entries of it lack a model that is
/// given.
fn rewrite_as(
    version: u32,
    path: &Path,
    options: &RewriteOptions,
    write: impl FnOnce(&dyn MapDisk, &Look<'_>, &Path) -> Result<Rewritten, FileError>,
) -> Result<Rewritten, FileError> {
    let disk = &*options.disk;
    let look = match &options.output {
        None => Look::lock(disk, path, Lock::Writer, options.patience)?,
        Some(output) => {
            match disk.facts_at(output) {
                Ok(_) => return Err(FileError::Exists),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
            // What was committed in version 3 is never written again. ExecuTorch locks a file while it writes.
            let look = match Look::open(disk, path)? {
                Look { index: IndexBytes::Version2(_), .. } => {
                    Look::lock(disk, path, Lock::Shared, options.patience)?
                }
                look => look,
            };
            if !disk.facts(&look.file)?.is_trusted {
                return Err(FileError::Untrusted);
            }
            look
        }
    };
    let found = if look.version2().is_some() { 2 } else { VERSION };
    let entries = if found == version { inspection(&look)?.entries } else { Vec::new() };
    let unverified = match version {
        VERSION => entries.iter().filter(|entry| !entry.has_model()).count() as u64,
        _ => 0,
    };
    let mut done = if found != version || options.model.is_some() && unverified > 0 {
        write(disk, &look, options.output.as_deref().unwrap_or(path))?
    } else if options.output.is_some() {
        return Err(FileError::WrongVersion(found));
    } else {
        let entries = entries.len() as u64;
        Rewritten { entries, unverified, bytes_after: look.len, ..Rewritten::default() }
    };
    done.bytes_before = look.len;
    Ok(done)
}

fn are_whole(disk: &dyn MapDisk, file: &File, entries: &[PackEntry]) -> io::Result<bool> {
    for entry in entries {
        let sum = each_part(disk, file, entry.offset, entry.size, &mut |_| Ok(()))?;
        if entry.checksum.is_some_and(|expected| expected != sum) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Of entries of one name, the newest, if that is allowed.
fn one_of_each_name(entries: Vec<PackEntry>, takes_newest: bool) -> Result<Vec<PackEntry>, FileError> {
    let mut chosen: Vec<PackEntry> = Vec::with_capacity(entries.len());
    let mut places: HashMap<String, usize> = HashMap::with_capacity(entries.len());
    for entry in entries {
        let joined = format!("{}{}", entry.weight, entry.bias.as_deref().unwrap_or_default());
        let at = *places.entry(joined).or_insert(chosen.len());
        let Some(other) = chosen.get_mut(at) else {
            chosen.push(entry);
            continue;
        };
        // One weight, that was imported and has been packed since.
        if other.is_imported != entry.is_imported && other.model == entry.model {
            if other.is_imported {
                *other = entry;
            }
            continue;
        }
        if other.name() != entry.name() {
            return Err(FileError::Clash(other.name().to_string(), entry.name().to_string()));
        }
        if !takes_newest {
            return Err(FileError::Several(entry.name().to_string()));
        }
        let age = |entry: &PackEntry| (entry.generation, entry.offset);
        if age(&entry) > age(other) {
            *other = entry;
        }
    }
    chosen.sort_by_key(|entry| (entry.offset, entry.size));
    Ok(chosen)
}

/// An entry, where its payload is now, and the checksum of that.
type Copied<'e> = (&'e PackEntry, u64, u64);

/// Copies payloads to multiples of `alignment` from `start`. Returns those that are whole, and where the last ends.
fn copy<'e>(
    new: &NewFile<'_>,
    from: &File,
    entries: &'e [PackEntry],
    (start, alignment): (u64, u64),
) -> Result<(Vec<Copied<'e>>, u64), FileError> {
    let next = |end: u64| end.checked_next_multiple_of(alignment).ok_or(Refusal::TooLong);
    let room = entries.iter().try_fold(start, |at, entry| next(at.saturating_add(entry.size)))?;
    new.allocate(room)?;
    let (mut whole, mut at) = (Vec::with_capacity(entries.len()), start);
    for entry in entries {
        let (is_whole, checksum) = new.copy(from, (entry.offset, entry.size), at, entry.checksum)?;
        if is_whole {
            whole.push((entry, at, checksum));
            let end = at + entry.size;
            at = next(end)?;
            // A payload that was dropped may have been here.
            new.zero(end, at)?;
        }
    }
    Ok((whole, at))
}

fn write_version3(
    disk: &dyn MapDisk,
    from: &File,
    place: &Path,
    entries: &[PackEntry],
    generation: u64,
) -> Result<Rewritten, FileError> {
    let mut new = NewFile::beside(disk, place)?;
    let (whole, index_start) = copy(&new, from, entries, (HEADER_LEN as u64, ALIGNMENT))?;
    let mut builder = IndexBuilder::new();
    for (entry, offset, checksum) in &whole {
        let kept = NewEntry {
            name: entry.name(),
            model: entry.model,
            packing: entry.packing,
            offset: *offset,
            size: entry.size,
            checksum: *checksum,
            generation: entry.generation,
        };
        if entry.is_imported { builder.push_imported(kept) } else { builder.push(kept) }
    }
    let block = builder.finish(index_start, generation)?;
    let slot = Slot::of(generation, index_start, &block);
    // Another file than the old one: nothing of the two may be taken for the other's.
    let file = random();
    let mut page = Header::encode(file);
    let at = usize::try_from(Place::A.offset()).unwrap_or_default();
    let bytes = slot.encode(&file);
    page[at..at + bytes.len()].copy_from_slice(&bytes);
    new.write(index_start, &block)?;
    new.write(0, &page)?;
    finish(new, place, entries.len(), whole.len())
}

fn write_version2(
    disk: &dyn MapDisk,
    from: &File,
    place: &Path,
    entries: &[PackEntry],
) -> Result<Rewritten, FileError> {
    let mut new = NewFile::beside(disk, place)?;
    let (whole, index_start) = copy(&new, from, entries, (0, PAGE))?;
    let exported = whole.iter().map(|(entry, offset, _)| Entry {
        name: Name { weight: &entry.weight, bias: entry.bias.as_deref() },
        model: ModelId::default(),
        packing: entry.packing,
        offset: *offset,
        size: entry.size,
        checksum: None,
        generation: 0,
        is_imported: true,
    });
    let trailer = version2::encode(exported, index_start)?;
    new.write(index_start, &trailer)?;
    finish(new, place, entries.len(), whole.len())
}

fn finish(new: NewFile<'_>, place: &Path, entries: usize, whole: usize) -> Result<Rewritten, FileError> {
    Ok(Rewritten {
        is_changed: true,
        entries: whole as u64,
        damaged: (entries - whole) as u64,
        bytes_after: new.publish(place)?,
        ..Rewritten::default()
    })
}

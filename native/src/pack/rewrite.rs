//! Rewriting files of packed weights: without unreachable data, or in another version.
//!
//! The new file is written beside the old one and renamed at the end. Whenever a process dies, one of the two
//! is there, whole. Processes that have the old one mapped keep it.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use warmstart_core::trailer::{
    ALIGNMENT, Entry, FormatError, HEADER_LEN, Header, ModelId, Place, Slot, VERSION, index::encode, version2,
};

use super::{
    error::PackError,
    file::{PackReader, Trailer},
    inspect::inspection,
    publish::{NewFile, random},
};
use crate::os::{LocalMapBackend, Lock, MapBackend, if_there};

/// The alignment of ExecuTorch's payloads, in bytes.
const PAGE: u64 = 4096;

/// Options of a rewrite. The [default](Self::default) keeps all models, replaces the old file, and
/// does not wait for a writer.
#[derive(Clone, Debug)]
pub struct RewriteOptions {
    models: Option<Vec<ModelId>>,
    model: Option<ModelId>,
    output: Option<PathBuf>,
    timeout: Duration,
    disk: Arc<dyn MapBackend>,
}

/// The result of a rewrite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rewritten {
    /// Whether a file was written. If not, the old one is unchanged, including its times.
    pub is_changed: bool,
    /// The number of entries in the file now.
    pub entries: u64,
    /// The number of whole entries that were left out: those of other models, and older packings.
    pub left_out: u64,
    /// The number of entries that were dropped because their payload is damaged.
    pub damaged: u64,
    /// The number of entries in the file that were imported without a model. Look-ups that name a model find them only
    /// [on request](super::PackOptions::with_unverified).
    pub unverified: u64,
    /// The length of the old file in bytes.
    pub bytes_before: u64,
    /// The length of the new file in bytes.
    pub bytes_after: u64,
}

impl Default for RewriteOptions {
    fn default() -> Self {
        let disk = Arc::new(LocalMapBackend::new());
        Self { models: None, model: None, output: None, timeout: Duration::ZERO, disk }
    }
}

impl RewriteOptions {
    /// Keeps only the entries of these models. Entries that were imported from version 2 without a model belong to the model of
    /// zeros.
    #[must_use]
    pub fn with_models(self, models: impl IntoIterator<Item = ModelId>) -> Self {
        Self { models: Some(models.into_iter().collect()), ..self }
    }

    /// Sets the model of the entries that are [imported](import): [`model_of_file`](super::model_of_file) returns it.
    /// Nothing verifies that it is right, nor that the same version of XNNPACK packed the entries and runs them.
    #[must_use]
    pub fn with_imported_model(self, model: ModelId) -> Self {
        Self { model: Some(model), ..self }
    }

    /// Keeps the old file, and writes the new one to this path, where no file may exist. [`compact`] ignores this.
    #[must_use]
    pub fn with_output(self, output: impl Into<PathBuf>) -> Self {
        Self { output: Some(output.into()), ..self }
    }

    /// Sets how long to wait for another process that writes to the file.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Uses `disk` instead of the real file system, for tests.
    #[must_use]
    pub fn with_backend(self, disk: Arc<dyn MapBackend>) -> Self {
        Self { disk, ..self }
    }

    fn keeps(&self, entry: &Entry<'_>) -> bool {
        self.models.as_ref().is_none_or(|models| models.contains(&entry.model))
    }
}

/// Rewrites a file of version 3 without unreachable data: former indexes, replaced packings, models that are not kept, and
/// damaged payloads. Does not touch the file if that would change nothing.
///
/// Holds the writer's lock meanwhile. Verifies payloads as they are copied.
///
/// # Errors
/// [`PackError::Busy`] if another process writes to the file for longer than the timeout; [`PackError::WrongVersion`] if it is of
/// version 2, which [`import`] converts to version 3; [`PackError::NoSuchModel`] if the file has no entries of a model to keep; or an
/// error of reading or writing. The file is then unchanged.
pub fn compact(path: impl AsRef<Path>, options: &RewriteOptions) -> Result<Rewritten, PackError> {
    let (disk, path) = (&*options.disk, path.as_ref());
    let look = PackReader::lock(disk, path, Lock::Writer, options.timeout)?;
    let Trailer::Version3(commits, _) = &look.trailer else {
        return Err(PackError::WrongVersion(2));
    };
    let all = inspection(&look);
    // Keeping nothing is more likely a mistake than an intention.
    let entries = look.entries();
    let is_missing = |model: &&ModelId| !entries.iter().any(|entry| entry.model == **model);
    if let Some(missing) = options.models.iter().flatten().find(is_missing) {
        return Err(PackError::NoSuchModel(*missing));
    }
    let (kept, others): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| options.keeps(entry));
    let is_tidy = all.dead_bytes == 0 && all.refusal.is_none() && others.is_empty();
    if is_tidy && are_whole(&look, &kept)? {
        return Ok(Rewritten {
            entries: kept.len() as u64,
            bytes_before: look.len,
            bytes_after: look.len,
            ..Rewritten::default()
        });
    }
    let generation = commits.next_generation();
    let mut done = write_version3(&look, path, &kept, generation)?;
    done.left_out = others.len() as u64;
    done.bytes_before = look.len;
    Ok(done)
}

/// Writes a file of version 3 as one of version 2, for ExecuTorch: page-aligned, under joined names. Models, fingerprints and
/// checksums are lost, because version 2 cannot hold them. Damaged payloads are not exported.
///
/// Version 2 holds one packing per name. If the file has several models, one must be
/// [chosen](RewriteOptions::with_models); of its packings of a name, the newest is exported.
///
/// # Errors
/// [`PackError::Clash`] if the joined names of two weights are the same; [`PackError::Several`]; [`PackError::NoSuchModel`];
/// [`PackError::Exists`]; [`PackError::Busy`]; or an error of reading or writing. Nothing was written then.
pub fn export(path: impl AsRef<Path>, options: &RewriteOptions) -> Result<Rewritten, PackError> {
    rewrite_as(2, path.as_ref(), options, |look, place| {
        let entries = look.entries();
        let count = entries.len();
        let kept: Vec<_> = entries.into_iter().filter(|entry| options.keeps(entry)).collect();
        let one_model = options.models.as_deref().filter(|models| models.len() == 1);
        if let (true, Some([model, ..])) = (kept.is_empty(), options.models.as_deref()) {
            return Err(PackError::NoSuchModel(*model));
        }
        let chosen = one_of_each_name(kept, one_model.is_some())?;
        let mut done = write(look, place, &chosen, (0, PAGE), |new, whole, index_start| {
            Ok(new.write(index_start, &version2::encode(whole, index_start)?)?)
        })?;
        done.left_out = (count - chosen.len()) as u64;
        Ok(done)
    })
}

/// Writes a file of version 2 as one of version 3. Every entry keeps its joined name and is marked as imported, and unverified,
/// because the file does not say which algorithm packed it. Look-ups find it if there is no entry of the requested name, model and
/// packing, unless the weight is stored as packed by another algorithm.
///
/// If the [model is given](RewriteOptions::with_imported_model), look-ups that name it find the entries. Otherwise only look-ups
/// that name no model do, or those that [accept unverified entries](super::PackOptions::with_unverified). The model can be given
/// later: importing a file again with a model sets that of entries imported without one.
///
/// # Errors
/// [`PackError::Exists`], [`PackError::Busy`], or an error of reading or writing. Nothing was written then.
pub fn import(path: impl AsRef<Path>, options: &RewriteOptions) -> Result<Rewritten, PackError> {
    rewrite_as(VERSION, path.as_ref(), options, |look, place| {
        let mut entries = look.entries();
        let generation = match &look.trailer {
            Trailer::Version2(_) => {
                entries.iter_mut().for_each(|entry| entry.generation = 1);
                1
            }
            Trailer::Version3(commits, _) => commits.next_generation(),
        };
        let model = options.model.unwrap_or_default();
        entries.iter_mut().filter(|entry| lacks_model(entry)).for_each(|entry| entry.model = model);
        let mut done = write_version3(look, place, &entries, generation)?;
        done.unverified = entries.iter().filter(|entry| lacks_model(entry)).count() as u64;
        Ok(done)
    })
}

/// Writes a file in another version. Does not touch one that already has it, unless entries lack a model that is
/// given.
fn rewrite_as(
    version: u32,
    path: &Path,
    options: &RewriteOptions,
    write: impl FnOnce(&PackReader<'_>, &Path) -> Result<Rewritten, PackError>,
) -> Result<Rewritten, PackError> {
    let disk = &*options.disk;
    let look = match &options.output {
        None => PackReader::lock(disk, path, Lock::Writer, options.timeout)?,
        Some(output) => {
            if if_there(disk.metadata_at(output))?.is_some() {
                return Err(PackError::Exists);
            }
            // Bytes committed in version 3 are never written again. ExecuTorch locks a file while it writes.
            let look = match PackReader::open(disk, path)? {
                PackReader { trailer: Trailer::Version2(_), .. } => {
                    PackReader::lock(disk, path, Lock::Shared, options.timeout)?
                }
                look => look,
            };
            if !disk.metadata(&look.file)?.is_trusted {
                return Err(PackError::Untrusted);
            }
            look
        }
    };
    let found = if look.version2().is_some() { 2 } else { VERSION };
    let entries = if found == version { look.entries() } else { Vec::new() };
    let unverified = match version {
        VERSION => entries.iter().filter(|entry| lacks_model(entry)).count() as u64,
        _ => 0,
    };
    let mut done = if found != version || options.model.is_some() && unverified > 0 {
        write(&look, options.output.as_deref().unwrap_or(path))?
    } else if options.output.is_some() {
        return Err(PackError::WrongVersion(found));
    } else {
        let entries = entries.len() as u64;
        Rewritten { entries, unverified, bytes_after: look.len, ..Rewritten::default() }
    };
    done.bytes_before = look.len;
    Ok(done)
}

/// Returns whether the model of an entry is unknown.
fn lacks_model(entry: &Entry<'_>) -> bool {
    entry.is_imported && entry.model == ModelId::default()
}

fn are_whole(file: &PackReader<'_>, entries: &[Entry<'_>]) -> io::Result<bool> {
    for entry in entries {
        let sum = file.each_part(entry.offset, entry.size, &mut |_| Ok(()))?;
        if entry.checksum.is_some_and(|expected| expected != sum) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the newest of the entries of one name, if choosing one is allowed.
fn one_of_each_name(entries: Vec<Entry<'_>>, takes_newest: bool) -> Result<Vec<Entry<'_>>, PackError> {
    let mut chosen: Vec<Entry<'_>> = Vec::with_capacity(entries.len());
    let mut places: HashMap<String, usize> = HashMap::with_capacity(entries.len());
    for entry in entries {
        let joined = format!("{}{}", entry.name.weight, entry.name.bias.unwrap_or_default());
        let at = *places.entry(joined).or_insert(chosen.len());
        let Some(other) = chosen.get_mut(at) else {
            chosen.push(entry);
            continue;
        };
        // The same weight, imported once and packed since.
        if other.is_imported != entry.is_imported && other.model == entry.model {
            if other.is_imported {
                *other = entry;
            }
            continue;
        }
        if other.name != entry.name {
            return Err(PackError::Clash(other.name.to_string(), entry.name.to_string()));
        }
        if !takes_newest {
            return Err(PackError::Several(entry.name.to_string()));
        }
        let age = |entry: &Entry<'_>| (entry.generation, entry.offset);
        if age(&entry) > age(other) {
            *other = entry;
        }
    }
    chosen.sort_by_key(|entry| (entry.offset, entry.size));
    Ok(chosen)
}

/// Writes a file at `place`: whole payloads at multiples of `alignment` from `start`, and what `finish` writes for the entries
/// with their new offsets and the end of the last one.
fn write<'e>(
    from: &PackReader<'_>,
    place: &Path,
    entries: &[Entry<'e>],
    (start, alignment): (u64, u64),
    finish: impl FnOnce(&mut NewFile<'_>, Vec<Entry<'e>>, u64) -> Result<(), PackError>,
) -> Result<Rewritten, PackError> {
    let mut new = NewFile::beside(from.disk, place)?;
    let next = |end: u64| end.checked_next_multiple_of(alignment).ok_or(FormatError::TooLong);
    let room = entries.iter().try_fold(start, |at, entry| next(at.saturating_add(entry.size)))?;
    new.allocate(room)?;
    let (mut whole, mut at) = (Vec::with_capacity(entries.len()), start);
    for entry in entries {
        let checksum = new.copy(from, entry, at)?;
        if entry.checksum.is_none_or(|expected| expected == checksum) {
            whole.push(Entry { offset: at, checksum: Some(checksum), ..*entry });
            let end = at + entry.size;
            at = next(end)?;
            // Part of a dropped payload may be here. Less than a page is zeroed.
            let padding = [0; PAGE as usize];
            new.write(end, padding.get(..(at - end) as usize).unwrap_or_default())?;
        }
    }
    let (all, kept) = (entries.len() as u64, whole.len() as u64);
    finish(&mut new, whole, at)?;
    Ok(Rewritten {
        is_changed: true,
        entries: kept,
        damaged: all - kept,
        bytes_after: new.publish(place)?,
        ..Rewritten::default()
    })
}

fn write_version3(
    from: &PackReader<'_>,
    place: &Path,
    entries: &[Entry<'_>],
    generation: u64,
) -> Result<Rewritten, PackError> {
    write(from, place, entries, (HEADER_LEN as u64, ALIGNMENT), |new, whole, index_start| {
        let block = encode(whole, index_start, generation)?;
        let slot = Slot::of(generation, index_start, &block);
        // The new file is another file, and nothing of it may be taken for part of the old one.
        let file = random();
        let mut page = Header::encode(file);
        let at = usize::try_from(Place::A.offset()).unwrap_or_default();
        let bytes = slot.encode(&file);
        page[at..at + bytes.len()].copy_from_slice(&bytes);
        new.write(index_start, &block)?;
        Ok(new.write(0, &page)?)
    })
}

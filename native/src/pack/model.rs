//! Digests of model files, cached in a file beside a pack. docs/format.md describes that file.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use warmstart_core::trailer::{ModelDigest, ModelId, checksum};

use super::{error::PackError, options::PackOptions, publish::NewFile};
use crate::os::{
    Access, FileIdentity, FileMetadata, MapBackend, if_there, keeps_times, make_private_directories,
    open_regular, with_suffix,
};

const MAGIC: [u8; 8] = *b"WSMODEL1";

/// The suffix that the file beside a pack adds to the name of the pack.
const SUFFIX: &str = ".models";

const IDENTITY_LEN: usize = 7 * 8;
const RECORD_LEN: usize = IDENTITY_LEN + ModelId::LEN + 8;

/// The slowest speed, in bytes per second, at which one call may write a model file. Times are stamped when a call begins, so a file
/// counts as complete only when it was unchanged for as long as writing all of it may take.
const WRITE_BYTES_PER_SECOND: u64 = 4 << 20;

/// The number of digests that are kept beside a pack: the most recent ones.
const MAX_RECORDS: usize = 64;

/// Returns the digest of a model file, such as a `.safetensors`, `.gguf` or `.pte` file: the BLAKE2b-256 that
/// `b2sum -l 256 FILE` prints.
///
/// Reads the whole file, at about 1 GB a second. [`Pack::model_of_file`](super::Pack::model_of_file) caches the digest.
///
/// # Errors
/// The file cannot be read, or is not a regular file.
pub fn model_of_file(path: impl AsRef<Path>) -> io::Result<ModelId> {
    digest(&open_regular(path.as_ref())?.0)
}

fn digest(mut file: &File) -> io::Result<ModelId> {
    let (mut digest, mut part) = (ModelDigest::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut part) {
            Ok(0) => return Ok(digest.finish()),
            Ok(len) => digest.update(&part[..len]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Returns the cached digest of a file, if there is one and the file has not changed since.
pub(super) fn remembered(pack: Option<&Path>, options: &PackOptions, path: &Path) -> io::Result<ModelId> {
    let (file, metadata) = open_regular(path)?;
    let identity = FileIdentity::of(&metadata);
    let can_remember = identity.is_left_alone(WRITE_BYTES_PER_SECOND) && keeps_times(&file);
    let Some(pack) = pack.filter(|_| can_remember) else { return digest(&file) };
    let cache = with_suffix(pack, SUFFIX);
    let disk = &*options.disk;
    let record = record_of(&identity);
    let Some(mut known) = read_cache(disk, &cache) else { return digest(&file) };
    if let Some(model) = known.iter().find_map(|(known, model)| (*known == record).then_some(*model)) {
        return Ok(model);
    }
    let model = digest(&file)?;
    // Unchanged for long enough before it was read, and not changed during the read.
    if !options.read_only && FileIdentity::of(&file.metadata()?) == identity {
        known.push((record, model));
        let recent = &known[known.len().saturating_sub(MAX_RECORDS)..];
        // If the digest cannot be cached, the next start computes it again.
        let _ = write_cache(disk, &cache, recent);
    }
    Ok(model)
}

type Known = ([u8; IDENTITY_LEN], ModelId);

fn record_of(identity: &FileIdentity) -> [u8; IDENTITY_LEN] {
    let mut record = [0; IDENTITY_LEN];
    let (numbers, _) = record.as_chunks_mut::<8>();
    numbers.iter_mut().zip(identity.numbers()).for_each(|(bytes, number)| *bytes = number.to_le_bytes());
    record
}

/// Reads the cached digests; none if the file is not ours, or other users could have written it. Then it is left
/// alone: it may be the model itself, or another pack.
fn read_cache(disk: &dyn MapBackend, cache: &Path) -> Option<Vec<Known>> {
    const MAX_LEN: u64 = (MAGIC.len() + MAX_RECORDS * RECORD_LEN) as u64;
    let Some(file) = if_there(disk.open(cache, Access::Read)).ok()? else { return Some(Vec::new()) };
    let metadata = disk.metadata(&file).ok().filter(FileMetadata::is_readable)?;
    decode(&disk.read(&file, 0..metadata.len.min(MAX_LEN)).ok()?)
}

fn write_cache(disk: &dyn MapBackend, cache: &Path, known: &[Known]) -> Result<(), PackError> {
    if let Some(directory) = cache.parent() {
        make_private_directories(directory)?;
    }
    let mut new = NewFile::beside(disk, cache)?;
    new.write(0, &encode(known))?;
    new.publish(cache)?;
    Ok(())
}

fn encode(known: &[Known]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    for (identity, model) in known {
        let record = [&identity[..], model.as_bytes()].concat();
        bytes.extend_from_slice(&record);
        bytes.extend_from_slice(&checksum(&record).to_le_bytes());
    }
    bytes
}

/// Decodes the records that are whole.
fn decode(bytes: &[u8]) -> Option<Vec<Known>> {
    let (records, _) = bytes.strip_prefix(&MAGIC)?.as_chunks::<RECORD_LEN>();
    let whole = records.iter().filter_map(|record| {
        let (rest, sum) = record.split_last_chunk::<8>()?;
        let (identity, model) = rest.split_first_chunk::<IDENTITY_LEN>()?;
        let model = ModelId::from_bytes(model.try_into().ok()?);
        (checksum(rest) == u64::from_le_bytes(*sum)).then_some((*identity, model))
    });
    Some(whole.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_record_matches_the_format() {
        let bytes = encode(&[([1; IDENTITY_LEN], ModelId::from_bytes([2; ModelId::LEN]))]);
        let record = [[1; 56].as_slice(), &[2; 32]].concat();
        let sum = xxhash_of(&record);
        assert_eq!(bytes, [b"WSMODEL1".as_slice(), &record, &sum.to_le_bytes()].concat());
    }

    fn xxhash_of(bytes: &[u8]) -> u64 {
        xxhash_rust::xxh3::xxh3_64(bytes)
    }

    #[test]
    fn damaged_record_is_forgotten_and_others_are_kept() {
        let known: Vec<Known> =
            (0..3).map(|n| ([n; IDENTITY_LEN], ModelId::from_bytes([n; ModelId::LEN]))).collect();
        let bytes = encode(&known);
        assert_eq!(decode(&bytes).as_deref(), Some(&known[..]));
        let second = MAGIC.len() + RECORD_LEN;
        for bit in 8 * second..8 * (second + RECORD_LEN) {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&damaged), Some(vec![known[0], known[2]]), "bit {bit}");
        }
        assert_eq!(decode(&bytes[..second + 7]), Some(vec![known[0]]));
        assert_eq!((decode(b""), decode(b"WSMODEL2")), (None, None));
    }
}

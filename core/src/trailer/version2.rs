//! The trailer of version 2, ExecuTorch's format.
//!
//! ```text
//! entry    name_len u32 | name | file_offset u64 | data_size u64 | seed u32
//! trailer  entries, in any order | footer
//! ```
//!
//! The name is that of the weight, immediately followed by that of the bias, if there is one: `"ab"` with `"c"` is the same as
//! `"a"` with `"bc"`. Entries do not record their model, and payloads have no checksum. ExecuTorch puts payloads at multiples
//! of 4096; any other offset is damage.

use alloc::vec::Vec;

use super::{Entry, FOOTER_LEN, Footer, FormatError, ModelId, Name, PAGE, Packing, dead_between};
use crate::bytes::{u32_at, u64_at};

const VERSION: u32 = 2;

/// The length of an entry without its name, in bytes.
const FIXED_LEN: usize = 24;

/// The number of entries for which space is reserved before they are read, at most, whatever the file claims.
const MAX_RESERVED: usize = 1 << 16;

/// A trailer of version 2 that was checked.
///
/// ```
/// use warmstart_core::trailer::{Entry, ModelId, Name, Packing, version2};
///
/// let entry = Entry {
///     name: Name::new("fc.weight").with_bias("fc.bias"),
///     model: ModelId::default(),
///     packing: Packing::of_seed(7),
///     offset: 0,
///     size: 100,
///     checksum: None,
///     generation: 0,
///     is_imported: true,
/// };
/// let trailer = version2::encode([entry], 4096)?;
/// let file_len = 4096 + trailer.len() as u64;
///
/// let footer = version2::footer(&trailer, file_len)?;
/// assert_eq!(footer.index_start, 4096);
/// let read = version2::decode(&trailer, file_len)?;
/// assert_eq!(read.entries().next().map(|entry| entry.name), Some(Name::new("fc.weightfc.bias")));
/// # Ok::<(), warmstart_core::trailer::FormatError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Version2<'a> {
    /// In ascending order of offset, each with its position in the file's own order.
    entries: Vec<(u32, Entry<'a>)>,
    index_start: u64,
}

/// Decodes the footer of a file of version 2 from at least its last [`FOOTER_LEN`] bytes. The footer says where the trailer
/// begins, so that only the trailer needs to be read.
///
/// # Errors
/// As [`Footer::decode`]; also [`FormatError::Headless`] if the footer is of version 3.
pub fn footer(tail: &[u8], file_len: u64) -> Result<Footer, FormatError> {
    let footer = Footer::decode(tail, file_len)?;
    if footer.version == VERSION { Ok(footer) } else { Err(FormatError::Headless) }
}

/// Decodes the whole trailer of a file of `file_len` bytes: from the start of the index, which [its footer](footer) gives, to
/// the end of the file.
///
/// Takes memory in proportion to the trailer. Payloads are neither read nor verified.
///
/// # Errors
/// As [`footer`]; also [`FormatError::Lengths`] if `trailer` does not begin at the index. With the position of an entry in the
/// trailer: [`FormatError::EntryLength`] if entries do not fill the index exactly, [`FormatError::NotUtf8`],
/// [`FormatError::OutOfBounds`], [`FormatError::Misaligned`], [`FormatError::Overlap`] or [`FormatError::Duplicate`].
pub fn decode(trailer: &[u8], file_len: u64) -> Result<Version2<'_>, FormatError> {
    let footer = footer(trailer, file_len)?;
    if file_len.checked_sub(footer.index_start) != Some(trailer.len() as u64) {
        return Err(FormatError::Lengths);
    }
    let mut rest = trailer.get(..trailer.len().saturating_sub(FOOTER_LEN)).unwrap_or_default();
    // Does not reserve what the count claims before the bytes are there.
    let room = (footer.entry_count as usize).min(rest.len() / FIXED_LEN).min(MAX_RESERVED);
    let mut entries: Vec<(u32, Entry<'_>)> = Vec::with_capacity(room);
    for ordinal in 0..footer.entry_count {
        let (entry, next) = split_entry(rest, ordinal)?;
        let end = entry.offset.checked_add(entry.size);
        if end.is_none_or(|end| end > footer.index_start) {
            return Err(FormatError::OutOfBounds(ordinal));
        }
        if !entry.offset.is_multiple_of(PAGE) {
            return Err(FormatError::Misaligned(ordinal));
        }
        // A sparse file can claim any number of equal entries at no cost: refuse an equal neighbour at once, before any
        // sorting.
        if entries.last().is_some_and(|(_, before)| before.name == entry.name) {
            return Err(FormatError::Duplicate(ordinal));
        }
        entries.push((ordinal, entry));
        rest = next;
    }
    if !rest.is_empty() {
        return Err(FormatError::EntryLength(footer.entry_count));
    }

    entries.sort_unstable_by_key(|(ordinal, entry)| (entry.offset, entry.size, *ordinal));
    if let Some(pair) = entries.windows(2).find(|pair| pair[0].1.end() > pair[1].1.offset) {
        return Err(FormatError::Overlap(pair[1].0));
    }
    let mut names: Vec<(&str, u32)> =
        entries.iter().map(|(ordinal, entry)| (entry.name.weight, *ordinal)).collect();
    names.sort_unstable();
    if let Some(pair) = names.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(FormatError::Duplicate(pair[1].1));
    }
    Ok(Version2 { entries, index_start: footer.index_start })
}

/// Encodes the trailer of these entries, to be written at `index_start`. Omits everything for which version 2 has no field:
/// model, fingerprint, checksum, generation, and where the name of the bias begins.
///
/// # Errors
/// [`FormatError::Duplicate`] if the joined names of two entries are the same; [`FormatError::OutOfBounds`],
/// [`FormatError::Misaligned`] or [`FormatError::Overlap`]; each with the position of an entry in the order given.
/// [`FormatError::TooLong`].
pub fn encode<'a>(
    entries: impl IntoIterator<Item = Entry<'a>>,
    index_start: u64,
) -> Result<Vec<u8>, FormatError> {
    let (mut bytes, mut entry_count) = (Vec::new(), 0u32);
    for Entry { name: Name { weight, bias }, packing, offset, size, .. } in entries {
        let bias = bias.unwrap_or_default();
        let name_len = weight.len().checked_add(bias.len()).and_then(|len| u32::try_from(len).ok());
        bytes.extend_from_slice(&name_len.ok_or(FormatError::TooLong)?.to_le_bytes());
        bytes.extend_from_slice(weight.as_bytes());
        bytes.extend_from_slice(bias.as_bytes());
        bytes.extend_from_slice(&offset.to_le_bytes());
        bytes.extend_from_slice(&size.to_le_bytes());
        bytes.extend_from_slice(&packing.seed.to_le_bytes());
        entry_count = entry_count.checked_add(1).ok_or(FormatError::TooLong)?;
    }
    bytes.extend_from_slice(&Footer { index_start, entry_count, version: VERSION }.encode());
    let file_len = index_start.checked_add(bytes.len() as u64).ok_or(FormatError::TooLong)?;
    // Refuses to write what would be refused when it is read.
    decode(&bytes, file_len)?;
    Ok(bytes)
}

impl<'a> Version2<'a> {
    /// Returns the start of the trailer, in bytes from the start of the file. All payloads are before it.
    #[must_use]
    pub const fn index_start(&self) -> u64 {
        self.index_start
    }

    /// Iterates over all entries, in ascending order of offset. Their names are the joined ones.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = Entry<'a>> {
        self.entries.iter().map(|(_, entry)| *entry)
    }

    /// Returns the number of dead bytes in the file: the gaps from the end of a payload, rounded up to a page, to the next
    /// payload. Old trailers and their padding are among them.
    #[must_use]
    pub fn dead_bytes(&self) -> u64 {
        let spans = self.entries().map(|entry| (entry.offset, entry.end()));
        dead_between(spans, 0, self.index_start, PAGE)
    }
}

/// Splits off the first entry, and returns it with the bytes after it.
fn split_entry(bytes: &[u8], ordinal: u32) -> Result<(Entry<'_>, &[u8]), FormatError> {
    let too_short = FormatError::EntryLength(ordinal);
    let (len, rest) = bytes.split_first_chunk().ok_or(too_short)?;
    let len = usize::try_from(u32::from_le_bytes(*len)).map_err(|_| too_short)?;
    let (name, rest) = rest.split_at_checked(len).ok_or(too_short)?;
    let name = core::str::from_utf8(name).map_err(|_| FormatError::NotUtf8(ordinal))?;
    let (numbers, rest) = rest.split_at_checked(FIXED_LEN - 4).ok_or(too_short)?;
    let entry = Entry {
        name: Name::new(name),
        model: ModelId::default(),
        packing: Packing::of_seed(u32_at(numbers, 16).ok_or(too_short)?),
        offset: u64_at(numbers, 0).ok_or(too_short)?,
        size: u64_at(numbers, 8).ok_or(too_short)?,
        checksum: None,
        generation: 0,
        is_imported: true,
    };
    Ok((entry, rest))
}

#[cfg(test)]
mod tests;

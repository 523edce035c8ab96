//! The trailer of version 2, which is ExecuTorch's.
//!
//! ```text
//! entry    name_len u32 | name | file_offset u64 | data_size u64 | seed u32
//! trailer  entries, in any order | footer
//! ```
//!
//! The name is that of the weight, immediately followed by that of the bias, if there is one: `"ab"` with `"c"` is the
//! same as `"a"` with `"bc"`. Nothing says of which model an entry is, and nothing proves its payload. ExecuTorch puts
//! payloads at multiples of 4096: another offset is damage.

use alloc::vec::Vec;
use core::{cmp::Ordering, ops::Range};

pub use super::footer::Footer;
use super::{Entry, FOOTER_LEN, ModelId, Name, PAGE, Packing, Refusal, space};
use crate::{
    bytes::{u32_at, u64_at},
    reason::Reason,
};

const VERSION: u32 = 2;

/// Bytes of an entry without its name.
const FIXED_LEN: usize = 24;

/// Room for so many entries is reserved before they are read, and not for more, whatever the file claims.
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
/// assert_eq!(read.look_up(&entry.name, 7)?.size, 100);
/// assert_eq!(read.entries().next().map(|entry| entry.name), Some(Name::new("fc.weightfc.bias")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Version2<'a> {
    /// In ascending order of offset.
    items: Vec<Item<'a>>,
    /// Their places in ascending order of name.
    by_name: Vec<u32>,
    index_start: u64,
}

#[derive(Clone, Copy, Debug)]
struct Item<'a> {
    name: &'a str,
    offset: u64,
    size: u64,
    seed: u32,
    /// Its place in the file's own order.
    ordinal: u32,
}

/// The footer of a file of version 2, from at least its last [`FOOTER_LEN`] bytes: says where the trailer begins, so that
/// no more than that need be read.
///
/// # Errors
/// As [`Footer::decode`], and [`Refusal::Headless`] if it is of version 3.
pub fn footer(tail: &[u8], file_len: u64) -> Result<Footer, Refusal> {
    let footer = Footer::decode(tail, file_len)?;
    if footer.version == VERSION { Ok(footer) } else { Err(Refusal::Headless) }
}

/// Reads the trailer of a file of `file_len` bytes: all of it, from where [its footer](footer) says that the index begins
/// to the end of the file.
///
/// Takes memory in proportion to the trailer. No payload is read; what the trailer says of them is not proved.
///
/// # Errors
/// As [`footer`]. [`Refusal::Lengths`] if `trailer` does not begin at the index; with the place of an entry in the
/// trailer, [`Refusal::EntryLength`] if entries do not fill the index exactly, [`Refusal::NotUtf8`],
/// [`Refusal::OutOfBounds`], [`Refusal::Misaligned`], [`Refusal::Overlap`] or [`Refusal::Duplicate`].
pub fn decode(trailer: &[u8], file_len: u64) -> Result<Version2<'_>, Refusal> {
    let footer = footer(trailer, file_len)?;
    if file_len.checked_sub(footer.index_start) != Some(trailer.len() as u64) {
        return Err(Refusal::Lengths);
    }
    let mut rest = trailer.get(..trailer.len().saturating_sub(FOOTER_LEN)).unwrap_or_default();
    // What the count claims is not reserved before the bytes are there.
    let mut items: Vec<Item<'_>> =
        Vec::with_capacity((footer.entry_count as usize).min(rest.len() / FIXED_LEN).min(MAX_RESERVED));
    for ordinal in 0..footer.entry_count {
        let (bytes, item) = split_entry(rest, ordinal)?;
        item.offset
            .checked_add(item.size)
            .filter(|end| *end <= footer.index_start)
            .ok_or(Refusal::OutOfBounds(ordinal))?;
        if !item.offset.is_multiple_of(PAGE) {
            return Err(Refusal::Misaligned(ordinal));
        }
        // The holes of a file cost whoever made it nothing: that what they say is twice there need not be sorted to be seen.
        if items.last().is_some_and(|before| before.name == item.name) {
            return Err(Refusal::Duplicate(ordinal));
        }
        items.push(item);
        rest = bytes;
    }
    if !rest.is_empty() {
        return Err(Refusal::EntryLength(footer.entry_count));
    }

    items.sort_unstable_by_key(|item| (item.offset, item.size, item.ordinal));
    if let Some(pair) = items.windows(2).find(|pair| pair[0].offset + pair[0].size > pair[1].offset) {
        return Err(Refusal::Overlap(pair[1].ordinal));
    }
    let mut by_name: Vec<u32> = (0u32..).zip(&items).map(|(at, _)| at).collect();
    by_name.sort_unstable_by_key(|at| items[*at as usize].name);
    let name = |at: u32| items[at as usize].name;
    if let Some(pair) = by_name.windows(2).find(|pair| name(pair[0]) == name(pair[1])) {
        let ordinal = |at: u32| items[at as usize].ordinal;
        return Err(Refusal::Duplicate(ordinal(pair[0]).max(ordinal(pair[1]))));
    }
    Ok(Version2 { items, by_name, index_start: footer.index_start })
}

/// Writes the trailer of these entries, to stand at `index_start`. What version 2 has no room for is left out: model,
/// fingerprint, checksum, generation, and where the name of the bias begins.
///
/// # Errors
/// [`Refusal::Duplicate`] if the joined names of two entries are the same; [`Refusal::OutOfBounds`],
/// [`Refusal::Misaligned`] or [`Refusal::Overlap`]; each with the place of an entry in the order given. [`Refusal::TooLong`].
pub fn encode<'a>(
    entries: impl IntoIterator<Item = Entry<'a>>,
    index_start: u64,
) -> Result<Vec<u8>, Refusal> {
    let (mut bytes, mut entry_count) = (Vec::new(), 0u32);
    for Entry { name: Name { weight, bias }, packing, offset, size, .. } in entries {
        let bias = bias.unwrap_or_default();
        let name_len = weight.len().checked_add(bias.len()).and_then(|len| u32::try_from(len).ok());
        bytes.extend_from_slice(&name_len.ok_or(Refusal::TooLong)?.to_le_bytes());
        bytes.extend_from_slice(weight.as_bytes());
        bytes.extend_from_slice(bias.as_bytes());
        bytes.extend_from_slice(&offset.to_le_bytes());
        bytes.extend_from_slice(&size.to_le_bytes());
        bytes.extend_from_slice(&packing.seed.to_le_bytes());
        entry_count = entry_count.checked_add(1).ok_or(Refusal::TooLong)?;
    }
    bytes.extend_from_slice(&Footer { index_start, entry_count, version: VERSION }.encode());
    let file_len = index_start.checked_add(bytes.len() as u64).ok_or(Refusal::TooLong)?;
    // What is refused when it is read is refused before it is written.
    decode(&bytes, file_len)?;
    Ok(bytes)
}

impl<'a> Version2<'a> {
    /// The number of entries.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is no entry.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Where the trailer begins, in bytes from the start of the file. All payloads are before it.
    #[must_use]
    pub const fn index_start(&self) -> u64 {
        self.index_start
    }

    /// All entries, in ascending order of offset. Their names are the joined ones.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = Entry<'a>> {
        self.items.iter().map(Item::entry)
    }

    /// The entry whose joined name is that of weight and bias, one after the other.
    ///
    /// # Errors
    /// [`Reason::Absent`], or [`Reason::OtherSeed`] if it was packed for another micro-kernel.
    pub fn look_up(&self, name: &Name<'_>, seed: u32) -> Result<Entry<'a>, Reason> {
        let item_at = |at: &u32| self.items.get(*at as usize);
        let compare = |at: &u32| item_at(at).map_or(Ordering::Less, |item| compare_joined(item.name, name));
        let found = self.by_name.binary_search_by(compare).ok();
        let item = found.and_then(|at| item_at(self.by_name.get(at)?)).ok_or(Reason::Absent)?;
        if item.seed == seed { Ok(item.entry()) } else { Err(Reason::OtherSeed) }
    }

    /// What is between the payloads, and before the first and behind the last: from the end of one, rounded up to a page, to
    /// the next. What of it is dead, its bytes tell: see [`dead_in_gap`].
    pub fn gaps(&self) -> impl Iterator<Item = Range<u64>> {
        let spans = self.items.iter().map(|item| (item.offset, item.offset + item.size));
        space::gaps(spans, 0, self.index_start, PAGE)
    }
}

impl<'a> Item<'a> {
    const fn entry(&self) -> Entry<'a> {
        Entry {
            name: Name::new(self.name),
            model: ModelId::from_bytes([0; ModelId::LEN]),
            packing: Packing::of_seed(self.seed),
            offset: self.offset,
            size: self.size,
            checksum: None,
            generation: 0,
            is_imported: true,
        }
    }
}

/// Splits the first entry off, and gives what follows it too.
fn split_entry(bytes: &[u8], ordinal: u32) -> Result<(&[u8], Item<'_>), Refusal> {
    let too_short = Refusal::EntryLength(ordinal);
    let (rest, name) = split_name(bytes).ok_or(too_short)?;
    let name = core::str::from_utf8(name).map_err(|_| Refusal::NotUtf8(ordinal))?;
    let (numbers, rest) = rest.split_at_checked(FIXED_LEN - 4).ok_or(too_short)?;
    let (offset, size) = (u64_at(numbers, 0).ok_or(too_short)?, u64_at(numbers, 8).ok_or(too_short)?);
    let seed = u32_at(numbers, 16).ok_or(too_short)?;
    Ok((rest, Item { name, offset, size, seed, ordinal }))
}

/// Splits a length and a name off, and gives what follows them first.
fn split_name(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    let (name, rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*len)).ok()?)?;
    Some((rest, name))
}

/// The length of the trailer that begins at byte `start` of its file, and at the first of these bytes: so many entries as
/// its footer counts, and the footer. Nothing if there is none.
fn old_trailer(bytes: &[u8], start: u64) -> Option<usize> {
    let mut rest = bytes;
    for entry_count in 0u32.. {
        let expected = Footer { index_start: start, entry_count, version: VERSION }.encode();
        if rest.starts_with(&expected) {
            return Some(bytes.len() - rest.len() + FOOTER_LEN);
        }
        let (entry, item) = split_entry(rest, entry_count).ok()?;
        if item.offset.checked_add(item.size)? > start {
            return None;
        }
        rest = entry;
    }
    None
}

/// How `joined` stands to the two names, one after the other.
fn compare_joined(joined: &str, name: &Name<'_>) -> Ordering {
    let (weight, bias) = (name.weight.as_bytes(), name.bias.unwrap_or_default().as_bytes());
    let (first, second) = joined.as_bytes().split_at(joined.len().min(weight.len()));
    // A part that is shorter than the weight is before it, or differs from it.
    first.cmp(weight).then_with(|| second.cmp(bias))
}

/// The dead bytes of a file of version 2, of which at least all before the trailer is given: only its
/// [gaps](Version2::gaps) are read.
#[must_use]
pub fn dead_bytes(trailer: &Version2<'_>, file: &[u8]) -> u64 {
    let dead = trailer.gaps().map(|gap| {
        let place = |at| usize::try_from(at).unwrap_or(usize::MAX);
        dead_in_gap(file.get(place(gap.start)..place(gap.end)).unwrap_or_default(), gap.start)
    });
    dead.sum()
}

/// The dead bytes of a gap in a file of version 2 that begins at byte `start`.
///
/// Old trailers are dead, and what follows one up to the next page is padding. Of all else, zeros at the end are padding if
/// they are less than a page, and the rest is dead.
#[must_use]
pub fn dead_in_gap(gap: &[u8], start: u64) -> u64 {
    let (mut rest, mut start, mut dead) = (gap, start, 0);
    while let Some(len) = old_trailer(rest, start) {
        dead += len as u64;
        let end = start.saturating_add(len as u64);
        let next = end.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX);
        rest = usize::try_from(next - start).ok().and_then(|skipped| rest.get(skipped..)).unwrap_or_default();
        start = next;
    }
    let last = rest.get(rest.len().saturating_sub(PAGE as usize - 1)..).unwrap_or_default();
    let zeros = last.len() - last.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    dead + (rest.len() - zeros) as u64
}

#[cfg(test)]
mod tests;

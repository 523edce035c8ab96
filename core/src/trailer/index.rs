//! The index of version 3: which weights a pack holds, and where. It is searched in place.
//!
//! ```text
//!   0  magic          "XPWCIDX3"
//!   8  generation     u64  that of the commit slot
//!  16  entry_count    u32
//!  20  model_count    u32
//!  24  bucket_bits    u32  at most 31; so many that there is about one entry in a bucket
//!  28  zeros to 32
//!  32  records_len    u64  bytes of all records
//!  40  zeros to 64
//!  64  models         32 bytes each, ascending
//!      buckets        u32 x (2^bucket_bits + 1): where each bucket begins among the slots, and where the last one ends;
//!                     zeros to a multiple of 8
//!      slots          8 bytes each: tag u32, the low half of the name's hash; at u32, where the record is, in units of
//!                     8 bytes from the first. Strictly ascending by bucket (the hash's top bits), tag, and key
//!      records        in ascending order of offset, which are multiples of 128, without overlap
//!      footer         20 bytes, version 3
//! ```
//!
//! The hash of a name is XXH3-64 of the weight's name. The key is (weight, bias, imported, model, packing). An absent bias,
//! fingerprint or fingerprint value sorts before any that is present, and entries imported from version 2 sort after the
//! others.
//!
//! An imported entry has the joined name as its weight's name, and a model of all zeros if it was imported without one. Only
//! the weight's name is hashed: few weights are packed with more than one bias, and all packings of a weight are neighbours, so
//! that a miss can say which others are stored.

#[cfg(test)]
mod tests;

use alloc::{collections::BTreeSet, vec::Vec};
use core::{cmp::Ordering, str};

use super::{
    ALIGNMENT, Entry, FOOTER_LEN, Footer, FormatError, HEADER_LEN, ModelId, Name, Slot, VERSION, WeightKey,
    dead_between,
    format::{Form, INDEX_SLOT_LEN, IndexSlot, RECORD_LEN, Record, UNIT, bucket, hash, hash_joined, tag},
};
use crate::{bytes::XXH3_64, reason::MissReason};

const MAGIC: [u8; 8] = *b"XPWCIDX3";

/// The length of the part before the models, in bytes.
const FIXED_LEN: usize = 64;

/// The number of slots that are compared without knowing how many a bucket has. Fewer than one bucket in a hundred has more.
const FEW: usize = 4;

const MAX_BUCKET_BITS: u32 = 31;

/// The constructor of an error that still needs the position of its entry.
type OfEntry = fn(u32) -> FormatError;

/// The top bit of every byte, which is set in bytes that are not ASCII.
const NOT_ASCII: u64 = 0x8080_8080_8080_8080;

/// Encodes the index block of these entries, in any order, to be written at `index_start` by the commit of this generation.
///
/// Of an entry that was imported from version 2, under its joined name, only the seed of the packing is encoded, because
/// version 2 records no more. Only [`look_up_imported`](Index::look_up_imported) finds such an entry.
///
/// ```
/// use warmstart_core::trailer::{Entry, ModelId, Name, Packing, Slot, index::{check, encode}};
///
/// let entry = Entry {
///     name: Name::new("layer.0.weight").with_bias("layer.0.bias"),
///     model: ModelId::from_bytes([1; 32]),
///     packing: Packing::of_seed(7),
///     offset: 4096,
///     size: 100,
///     checksum: Some(0x1234),
///     generation: 1,
///     is_imported: false,
/// };
/// // Behind the last payload, at a multiple of 128.
/// let index_start = 4224;
/// let block = encode(vec![entry], index_start, 1)?;
/// let layout = check(&block, &Slot::of(1, index_start, &block))?;
/// assert_eq!(layout.view(&block).len(), 1);
/// # Ok::<(), warmstart_core::trailer::FormatError>(())
/// ```
///
/// # Errors
/// [`FormatError::Flags`] if an entry has no checksum, or an imported one has a bias of its own; [`FormatError::SlotPlace`] if
/// `index_start` or `generation` is invalid; [`FormatError::Misaligned`], [`FormatError::OutOfBounds`],
/// [`FormatError::Overlap`] or [`FormatError::Duplicate`] with the position of an entry in ascending order of offset;
/// [`FormatError::TooLong`].
pub fn encode(
    mut entries: Vec<Entry<'_>>,
    index_start: u64,
    generation: u64,
) -> Result<Vec<u8>, FormatError> {
    let count = u32::try_from(entries.len()).map_err(|_| FormatError::TooLong)?;
    entries.iter_mut().filter(|entry| entry.is_imported).for_each(|entry| entry.packing.fingerprint = None);
    // An empty payload sorts before one that begins at the same offset.
    entries.sort_by_key(|entry| (entry.offset, entry.size));
    check_places(&entries, index_start)?;
    // Each model once, ascending.
    let models: BTreeSet<ModelId> = entries.iter().map(|entry| entry.model).collect();
    let models: Vec<ModelId> = models.into_iter().collect();
    let bucket_bits = count.max(1).checked_next_power_of_two().map_or(31, u32::trailing_zeros).min(31);
    let order = order(&entries, bucket_bits)?;
    let mut slot_of = alloc::vec![0; entries.len()];
    for (slot, filed) in (0u32..).zip(&order) {
        slot_of[filed.entry as usize] = slot;
    }
    let (records, places) = records(&entries, &models, &slot_of)?;

    let mut block = Vec::with_capacity(FOOTER_LEN + FIXED_LEN);
    block.extend_from_slice(&MAGIC);
    block.extend_from_slice(&generation.to_le_bytes());
    for number in [count, models.len() as u32, bucket_bits, 0] {
        block.extend_from_slice(&number.to_le_bytes());
    }
    block.extend_from_slice(&(records.len() as u64).to_le_bytes());
    block.resize(FIXED_LEN, 0);
    block.extend(models.iter().flat_map(ModelId::as_bytes));
    push_buckets(&mut block, &order, bucket_bits);
    for Filed { hash, entry, .. } in &order {
        let slot = IndexSlot { tag: tag(*hash), at: places[*entry as usize] };
        block.extend_from_slice(&slot.encode());
    }
    block.extend_from_slice(&records);
    block.extend_from_slice(&Footer { index_start, entry_count: count, version: VERSION }.encode());
    Slot { generation, index_start, index_len: block.len() as u64, index_sum: 0 }.check()?;
    Ok(block)
}

/// Verifies an index block: by the checksum in its commit slot, and by checking every number in it. Takes one pass over the
/// bytes in addition to the checksum's, and allocates nothing.
///
/// This does not check that every entry is in the slot where look-ups find it: [`Index::verify`] does.
///
/// # Errors
/// The first problem found.
pub fn check(block: &[u8], slot: &Slot) -> Result<Layout, FormatError> {
    slot.check()?;
    if (block.len() as u64) < slot.index_len {
        return Err(FormatError::Short { len: block.len() as u64, needed: slot.index_len });
    }
    if block.len() as u64 != slot.index_len {
        return Err(FormatError::Lengths);
    }
    if XXH3_64(block) != slot.index_sum {
        return Err(FormatError::IndexChecksum);
    }
    let mut layout = layout(block, slot)?;
    let footer = Footer::decode(block.get(layout.records_end..).unwrap_or_default(), slot.end())?;
    let expected =
        Footer { index_start: slot.index_start, entry_count: layout.entry_count, version: VERSION };
    if footer != expected {
        return Err(FormatError::Footer);
    }

    let mut index = layout.view(block);
    // Padding may have added one more.
    let buckets = index.buckets.split_at_checked((1usize << layout.bucket_bits).saturating_add(1));
    let (buckets, padding) = buckets.ok_or(FormatError::Lengths)?;
    if padding.iter().any(|bytes| *bytes != [0; 4]) {
        return Err(FormatError::Lengths);
    }
    index.buckets = buckets;
    if !index.models.is_sorted_by(|one, next| one < next) {
        return Err(FormatError::Models);
    }
    layout.has_imported = check_records(&index)?;
    if !buckets_are_strictly_ascending(&index)? {
        check_order(&index)?;
    }
    Ok(layout)
}

/// The locations of an index's parts, as verified by [`check`]: plain numbers, to be kept beside the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    index_start: u64,
    entry_count: u32,
    bucket_bits: u32,
    /// Whether any entry was imported from version 2.
    has_imported: bool,
    /// Where each part begins. The part before it ends there, except for the padding of the buckets.
    buckets: usize,
    slots: usize,
    pub(super) records: usize,
    records_end: usize,
}

impl Layout {
    /// Returns the index in the bytes that were checked. In any other bytes, look-ups find nothing.
    #[inline]
    #[must_use]
    pub fn view<'a>(&self, block: &'a [u8]) -> Index<'a> {
        let part = |from, to| block.get(from..to).unwrap_or_default();
        Index {
            index_start: self.index_start,
            bucket_bits: self.bucket_bits,
            has_imported: self.has_imported,
            models: part(FIXED_LEN, self.buckets).as_chunks().0,
            buckets: part(self.buckets, self.slots).as_chunks().0,
            slots: part(self.slots, self.records).as_chunks().0,
            records: part(self.records, self.records_end),
        }
    }
}

/// An entry with the bucket and the hash by which look-ups find it.
struct Filed {
    bucket: u64,
    hash: u64,
    /// The position of the entry in ascending order of offset.
    entry: u32,
}

/// Checks that payloads are aligned, between the header and the index, and do not overlap.
fn check_places(entries: &[Entry<'_>], index_start: u64) -> Result<(), FormatError> {
    let mut before = HEADER_LEN as u64;
    for (ordinal, entry) in (0u32..).zip(entries) {
        if entry.checksum.is_none() || entry.is_imported && entry.name.bias.is_some() {
            return Err(FormatError::Flags(ordinal));
        }
        if !entry.offset.is_multiple_of(ALIGNMENT) {
            return Err(FormatError::Misaligned(ordinal));
        }
        let end = entry.offset.checked_add(entry.size).ok_or(FormatError::OutOfBounds(ordinal))?;
        if entry.offset < HEADER_LEN as u64 || end > index_start {
            return Err(FormatError::OutOfBounds(ordinal));
        }
        if entry.offset < before {
            return Err(FormatError::Overlap(ordinal));
        }
        before = end;
    }
    Ok(())
}

/// Returns the entries in the order of their slots.
fn order(entries: &[Entry<'_>], bucket_bits: u32) -> Result<Vec<Filed>, FormatError> {
    let filed = |(ordinal, entry): (u32, &Entry<'_>)| {
        let hash = hash(&entry.name);
        Filed { bucket: bucket(hash, bucket_bits), hash, entry: ordinal }
    };
    let mut order: Vec<Filed> = (0u32..).zip(entries).map(filed).collect();
    let key = |filed: &Filed| {
        let entry = &entries[filed.entry as usize];
        (entry.name, entry.is_imported, entry.model, entry.packing)
    };
    order.sort_unstable_by(|one, next| {
        let place = |filed: &Filed| (filed.bucket, tag(filed.hash));
        place(one).cmp(&place(next)).then_with(|| key(one).cmp(&key(next)))
    });
    match order.windows(2).find(|pair| pair[0].hash == pair[1].hash && key(&pair[0]) == key(&pair[1])) {
        Some(pair) => Err(FormatError::Duplicate(pair[0].entry.max(pair[1].entry))),
        None => Ok(order),
    }
}

/// Encodes the records, and returns them with the position of each.
fn records(
    entries: &[Entry<'_>],
    models: &[ModelId],
    slot_of: &[u32],
) -> Result<(Vec<u8>, Vec<u32>), FormatError> {
    let (mut bytes, mut places) = (Vec::new(), Vec::with_capacity(entries.len()));
    for (entry, slot) in entries.iter().zip(slot_of) {
        places.push(u32::try_from(bytes.len() / UNIT).map_err(|_| FormatError::TooLong)?);
        let record = Record {
            offset: entry.offset,
            size: entry.size,
            checksum: entry.checksum.unwrap_or_default(),
            generation: entry.generation,
            model: models.binary_search(&entry.model).map_or(0, |at| at as u32),
            slot: *slot,
            form: Form::new(&entry.name, &entry.packing, entry.is_imported).ok_or(FormatError::TooLong)?,
        };
        record.encode(&mut bytes);
        let Name { weight, bias } = entry.name;
        bytes.extend_from_slice(weight.as_bytes());
        bytes.extend_from_slice(bias.unwrap_or_default().as_bytes());
        bytes.resize(bytes.len().next_multiple_of(UNIT), 0);
    }
    Ok((bytes, places))
}

/// Appends the start of each bucket among the slots, and the end of the last bucket.
fn push_buckets(block: &mut Vec<u8>, order: &[Filed], bucket_bits: u32) {
    let mut start = 0;
    for bucket in 0..=1u64 << bucket_bits {
        while order.get(start).is_some_and(|filed| filed.bucket < bucket) {
            start += 1;
        }
        block.extend_from_slice(&(start as u32).to_le_bytes());
    }
    block.resize(block.len().next_multiple_of(UNIT), 0);
}

/// Computes the layout from the numbers at the start of an index.
fn layout(block: &[u8], slot: &Slot) -> Result<Layout, FormatError> {
    let short = FormatError::Short { len: block.len() as u64, needed: (FIXED_LEN + FOOTER_LEN) as u64 };
    let head = block.first_chunk::<FIXED_LEN>().ok_or(short)?;
    if !head.starts_with(&MAGIC) {
        return Err(FormatError::IndexMagic);
    }
    let (numbers, rest) = head.split_at(40);
    let [_, generation, _, _, records_len] = *numbers.as_chunks().0 else { return Err(short) };
    if u64::from_le_bytes(generation) != slot.generation {
        return Err(FormatError::Generation);
    }
    let [entries, models, bits, zero] = *numbers[16..32].as_chunks().0 else { return Err(short) };
    if zero != [0; 4] || rest.iter().any(|byte| *byte != 0) {
        return Err(FormatError::Reserved);
    }
    let [entry_count, model_count, bucket_bits] = [entries, models, bits].map(u32::from_le_bytes);
    if bucket_bits > MAX_BUCKET_BITS {
        return Err(FormatError::Buckets);
    }
    // None of these sums overflows: each is below 2^37.
    let buckets = FIXED_LEN as u64 + ModelId::LEN as u64 * u64::from(model_count);
    let slots = (buckets + 4 * ((1 << bucket_bits) + 1)).next_multiple_of(UNIT as u64);
    let records = slots + INDEX_SLOT_LEN as u64 * u64::from(entry_count);
    let records_end = records.checked_add(u64::from_le_bytes(records_len)).ok_or(FormatError::Lengths)?;
    if records_end.checked_add(FOOTER_LEN as u64) != Some(block.len() as u64) {
        return Err(FormatError::Lengths);
    }
    let place = |at| usize::try_from(at).map_err(|_| FormatError::Lengths);
    Ok(Layout {
        index_start: slot.index_start,
        entry_count,
        bucket_bits,
        has_imported: false,
        buckets: place(buckets)?,
        slots: place(slots)?,
        records: place(records)?,
        records_end: place(records_end)?,
    })
}

/// Checks that there are as many records as slots, each in the slot that points to it, with valid names, and with a payload
/// after the previous one and before the index. Returns whether any entry was imported.
fn check_records(index: &Index<'_>) -> Result<bool, FormatError> {
    let (mut rest, mut has_imported) = (index.records, false);
    let mut payload_end = HEADER_LEN as u64;
    for ordinal in 0..index.slots.len() as u32 {
        let at = (index.records.len() - rest.len()) as u64;
        let (record, next) =
            check_record(rest, &mut payload_end, index).map_err(|refusal| refusal(ordinal))?;
        let found = index.slots.get(record.slot as usize).map(|slot| IndexSlot::decode(*slot).at);
        if found.map(|at| u64::from(at) * UNIT as u64) != Some(at) {
            return Err(FormatError::Unlinked(ordinal));
        }
        has_imported |= record.is_imported();
        rest = next;
    }
    if rest.is_empty() { Ok(has_imported) } else { Err(FormatError::Lengths) }
}

/// Checks that the buckets divide the slots without a gap, and returns whether tags ascend strictly in each bucket.
fn buckets_are_strictly_ascending(index: &Index<'_>) -> Result<bool, FormatError> {
    let tag = |slot: &[u8; INDEX_SLOT_LEN]| IndexSlot::decode(*slot).tag;
    // Tags may fall where a bucket begins, and nowhere else. Counting both is faster than walking through each bucket, because
    // no processor can predict how many slots a bucket has.
    let falls = index.slots.windows(2).filter(|pair| tag(&pair[0]) >= tag(&pair[1])).count();
    let (mut between, mut before, mut has_order) = (0, 0, true);
    for start in index.buckets {
        let start = u32::from_le_bytes(*start);
        let at = start as usize;
        let here = index.slots.get(at).map_or(u64::MAX, |slot| tag(slot).into());
        let last = index.slots.get(at.wrapping_sub(1)).map_or(0, |slot| tag(slot).into());
        has_order &= before <= start;
        between += usize::from((start != before) & (last >= here));
        before = start;
    }
    let begins = index.buckets.first() == Some(&[0; 4]);
    if !begins || !has_order || before as usize != index.slots.len() {
        return Err(FormatError::Buckets);
    }
    Ok(falls == between)
}

/// Checks, where tags are equal, that slots ascend within their bucket by the keys of their records.
fn check_order(index: &Index<'_>) -> Result<(), FormatError> {
    for bounds in index.buckets.windows(2) {
        let (from, to) = (u32::from_le_bytes(bounds[0]) as usize, u32::from_le_bytes(bounds[1]) as usize);
        for pair in index.slots.get(from..to).unwrap_or_default().windows(2) {
            let (one, next) = (IndexSlot::decode(pair[0]), IndexSlot::decode(pair[1]));
            let order = one.tag.cmp(&next.tag).then_with(|| compare(index, one, next));
            match order {
                Ordering::Less => {}
                Ordering::Equal => return Err(FormatError::Duplicate(ordinal(index, next))),
                Ordering::Greater => return Err(FormatError::Order),
            }
        }
    }
    Ok(())
}

/// Checks the first of these records, but not its slot, and returns it with the bytes after it.
#[inline(always)]
fn check_record<'a>(
    records: &'a [u8],
    payload_end: &mut u64,
    index: &Index<'_>,
) -> Result<(Record, &'a [u8]), OfEntry> {
    let too_short: OfEntry = FormatError::EntryLength;
    let record = Record::decode(records).ok_or(too_short)?;
    if !record.offset.is_multiple_of(ALIGNMENT) {
        return Err(FormatError::Misaligned);
    }
    if record.offset < *payload_end {
        let is_in_header = record.offset < HEADER_LEN as u64;
        return Err(if is_in_header { FormatError::OutOfBounds } else { FormatError::Overlap });
    }
    match record.offset.checked_add(record.size) {
        Some(end) if end <= index.index_start => *payload_end = end,
        _ => return Err(FormatError::OutOfBounds),
    }
    if !record.has_right_flags() {
        return Err(FormatError::Flags);
    }
    if record.model as usize >= index.models.len() {
        return Err(FormatError::UnknownModel);
    }
    let (this, next) = record.len().and_then(|len| records.split_at_checked(len)).ok_or(too_short)?;
    check_names(&record, this)?;
    Ok((record, next))
}

/// Compares the keys of two slots. Models ascend, so their positions compare as they do.
fn compare(index: &Index<'_>, one: IndexSlot, next: IndexSlot) -> Ordering {
    let key = |slot| {
        let (record, bytes) = index.record(slot)?;
        Some((record.names(bytes)?, record.is_imported(), record.model, record.packing()))
    };
    key(one).cmp(&key(next))
}

/// Returns the position of a slot's record among all records.
#[cold]
fn ordinal(index: &Index<'_>, slot: IndexSlot) -> u32 {
    let offset = index.record(slot).map_or(0, |(record, _)| record.offset);
    let before = index.entries().take_while(|entry| entry.offset < offset).count();
    u32::try_from(before).unwrap_or(u32::MAX)
}

/// Checks that both names are UTF-8 and followed by zeros.
#[inline]
fn check_names(record: &Record, bytes: &[u8]) -> Result<(), OfEntry> {
    let (_, run) = bytes.split_at_checked(RECORD_LEN).ok_or(FormatError::EntryLength as OfEntry)?;
    let used = record.names_len().unwrap_or(0) % UNIT;
    let last = run.last_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    if used != 0 && last >> (8 * used) != 0 {
        return Err(FormatError::EntryLength);
    }
    if any_bits(run) & NOT_ASCII == 0 { Ok(()) } else { check_text(bytes) }
}

/// Checks that both names are UTF-8. A function of its own leaves its callers more registers.
#[cold]
#[inline(never)]
fn check_text(bytes: &[u8]) -> Result<(), OfEntry> {
    let (weight, bias) = Record::decode(bytes)
        .and_then(|record| record.names(bytes))
        .ok_or(FormatError::EntryLength as OfEntry)?;
    let is_text = str::from_utf8(weight).is_ok() && bias.is_none_or(|bias| str::from_utf8(bias).is_ok());
    if is_text { Ok(()) } else { Err(FormatError::NotUtf8) }
}

/// Returns the bits that are set in any word of these bytes.
#[inline]
fn any_bits(run: &[u8]) -> u64 {
    const WIDE: usize = 4 * UNIT;
    let any_of = |bytes: &[u8]| {
        let (words, _) = bytes.as_chunks::<UNIT>();
        words.iter().fold(0, |any, word| any | u64::from_le_bytes(*word))
    };
    // Nearly all names are this long. Always reads four parts, which may overlap, because no processor can predict how many are
    // needed.
    match run.len().checked_sub(WIDE) {
        Some(last) if last <= 3 * WIDE => (0..4).fold(0, |any, part| {
            let at = last.min(part * WIDE);
            any | run.get(at..at + WIDE).map_or(0, any_of)
        }),
        _ => any_of(run),
    }
}

/// An index that was checked, and the bytes that contain it.
///
/// If the bytes change after the check, as those of a mapped file can, answers may be wrong, but nothing panics.
///
/// ```
/// # use warmstart_core::trailer::{Entry, ModelId, Name, Packing, Slot, WeightKey, index::encode};
/// use warmstart_core::{reason::MissReason, trailer::index::check};
///
/// # let (name, model, packing) = (Name::new("layer.0.weight"), ModelId::default(), Packing::of_seed(7));
/// # let (checksum, generation, is_imported) = (Some(0), 1, false);
/// # let entry = Entry { name, model, packing, offset: 4096, size: 100, checksum, generation, is_imported };
/// # let block = encode(vec![entry], 4224, 1)?;
/// # let slot = Slot::of(1, 4224, &block);
/// let index = check(&block, &slot)?.view(&block);
/// let wanted = WeightKey { name, model, packing };
/// assert_eq!(index.look_up(&wanted)?.offset, 4096);
/// assert_eq!(index.look_up(&WeightKey { packing: Packing::of_seed(8), ..wanted }), Err(MissReason::OtherSeed));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Index<'a> {
    index_start: u64,
    bucket_bits: u32,
    /// Whether any entry was imported from version 2.
    has_imported: bool,
    models: &'a [[u8; ModelId::LEN]],
    buckets: &'a [[u8; 4]],
    slots: &'a [[u8; INDEX_SLOT_LEN]],
    records: &'a [u8],
}

impl<'a> Index<'a> {
    /// Returns the number of entries.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns whether there are no entries.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns the models of the pack's entries, ascending.
    pub fn models(&self) -> impl ExactSizeIterator<Item = ModelId> + use<'a> {
        self.models.iter().copied().map(ModelId::from_bytes)
    }

    /// Iterates over all entries, in ascending order of offset.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'a>> + use<'a> {
        let (index, mut rest) = (*self, self.records);
        // At most this many, even if the bytes have changed since they were checked.
        (0..self.len()).map_while(move |_| {
            let record = Record::decode(rest)?;
            let (weight, bias) = record.names(rest)?;
            let bias = bias.map(str::from_utf8).transpose().ok()?;
            let name = Name { weight: str::from_utf8(weight).ok()?, bias };
            rest = rest.get(record.len()?..)?;
            Some(entry_of_record(&record, name, index.model(record.model)?))
        })
    }

    /// Returns the number of dead bytes in the pack, up to its index: the gaps from the end of a payload, rounded up, to the
    /// next payload. Earlier indexes are among them. Bytes after the index were not committed, and are overwritten.
    #[must_use]
    pub fn dead_bytes(&self) -> u64 {
        let spans = self.entries().map(|entry| (entry.offset, entry.end()));
        dead_between(spans, HEADER_LEN as u64, self.index_start, ALIGNMENT)
    }

    /// Verifies what [`check`] leaves out: that every entry is where look-ups search for it. Hashes every name.
    ///
    /// # Errors
    /// [`FormatError::Misfiled`] with the position of the first entry that is elsewhere.
    pub fn verify(&self) -> Result<(), FormatError> {
        let mut ordinal = 0;
        for entry in self.entries() {
            let wanted = entry.weight_key();
            let found =
                if entry.is_imported { self.look_up_imported(&wanted, false) } else { self.look_up(&wanted) };
            if found != Ok(entry) {
                return Err(FormatError::Misfiled(ordinal));
            }
            ordinal += 1;
        }
        if ordinal as usize == self.len() { Ok(()) } else { Err(FormatError::Misfiled(ordinal)) }
    }

    /// Looks up the entry of this name, model and packing. The returned entry borrows its name from `wanted`.
    ///
    /// # Errors
    /// [`MissReason::Absent`], or the difference of the nearest entry with that name: [`MissReason::OtherModel`] if none has
    /// the model, [`MissReason::OtherSeed`] if none of that model has the seed, else [`MissReason::OtherFingerprint`].
    #[inline]
    pub fn look_up<'w>(&self, wanted: &WeightKey<'w>) -> Result<Entry<'w>, MissReason> {
        entry_of(self.find(wanted)?, wanted).ok_or(MissReason::Absent)
    }

    /// Retries, with [`look_up_imported`](Self::look_up_imported), a [`look_up`](Self::look_up) that missed for the reason
    /// `missed`.
    ///
    /// # Errors
    /// `missed`; or the reason of the second look-up, if nothing else is stored under the name. If the weight is stored as
    /// packed by another algorithm, an imported entry may be as well, so that this stays a miss.
    #[cold]
    pub fn after_miss<'w>(
        &self,
        missed: MissReason,
        wanted: &WeightKey<'w>,
        takes_unverified: bool,
    ) -> Result<Entry<'w>, MissReason> {
        if missed == MissReason::OtherFingerprint {
            return Err(missed);
        }
        match self.look_up_imported(wanted, takes_unverified) {
            Err(_) if missed != MissReason::Absent => Err(missed),
            imported => imported,
        }
    }

    /// Looks up the entry that was imported from version 2 under the joined name of weight and bias, for the wanted model. If
    /// `takes_unverified` is true, falls back to an entry without a model.
    ///
    /// The packing algorithm is not compared, because version 2 does not record it.
    ///
    /// # Errors
    /// [`MissReason::Absent`], or the difference of the nearest entry with that name: [`MissReason::OtherModel`],
    /// [`MissReason::UnverifiedModel`] or [`MissReason::OtherSeed`].
    pub fn look_up_imported<'w>(
        &self,
        wanted: &WeightKey<'w>,
        takes_unverified: bool,
    ) -> Result<Entry<'w>, MissReason> {
        if !self.has_imported {
            return Err(MissReason::Absent);
        }
        let name = &wanted.name;
        let bias = name.bias.unwrap_or_default();
        let hash = hash_joined(name);
        let mut nearest = Err(MissReason::Absent);
        for slot in self.bucket(bucket(hash, self.bucket_bits)).unwrap_or_default() {
            let slot = IndexSlot::decode(*slot);
            let Some((record, bytes)) = self.record(slot).filter(|_| slot.tag == tag(hash)) else { continue };
            let joined = record.names(bytes).map(|(joined, _)| joined).unwrap_or_default();
            let is_name =
                joined.split_at_checked(name.weight.len()) == Some((name.weight.as_bytes(), bias.as_bytes()));
            if !record.is_imported() || !is_name {
                continue;
            }
            let Some(model) = self.model(record.model) else { continue };
            let is_unknown = model == ModelId::default();
            let found = match model == wanted.model || takes_unverified && is_unknown {
                false if is_unknown => Err(MissReason::UnverifiedModel),
                false => Err(MissReason::OtherModel),
                true if record.form.seed != wanted.packing.seed => Err(MissReason::OtherSeed),
                true => Ok(entry_of_record(&record, *name, model)),
            };
            match found {
                Ok(entry) if entry.model == wanted.model => return found,
                Ok(_) => nearest = found,
                Err(reason) => nearest = nearest.map_err(|before| nearer(before, reason)),
            }
        }
        nearest
    }

    /// Returns the fixed bytes of the wanted entry's record: less to return than an entry, most of which callers do not read.
    fn find(&self, wanted: &WeightKey<'_>) -> Result<&'a [u8; RECORD_LEN], MissReason> {
        let hash = hash(&wanted.name);
        let (bucket, tag) = (bucket(hash, self.bucket_bits), tag(hash));
        match self.first_slots(bucket).and_then(|slots| self.among(slots, tag, wanted)) {
            Some(fixed) => Ok(fixed),
            None => self.search(bucket, tag, wanted),
        }
    }

    /// Returns the slots from the start of a bucket on, if there are enough. They may belong to the next bucket: comparing a
    /// slot of another bucket costs less than a branch on the bucket's end, which a processor must guess.
    #[inline]
    fn first_slots(&self, bucket: u64) -> Option<&'a [[u8; INDEX_SLOT_LEN]; FEW]> {
        let start = self.buckets.get(usize::try_from(bucket).ok()?)?;
        self.slots.get(u32::from_le_bytes(*start) as usize..)?.first_chunk()
    }

    /// Returns the fixed bytes of the wanted entry's record, if one of these slots points to it.
    #[inline]
    fn among(
        &self,
        slots: &[[u8; INDEX_SLOT_LEN]; FEW],
        tag: u32,
        wanted: &WeightKey<'_>,
    ) -> Option<&'a [u8; RECORD_LEN]> {
        let form = Form::new(&wanted.name, &wanted.packing, false)?;
        let is_alike = slots.map(|slot| IndexSlot::decode(slot).tag == tag);
        let mut alike = is_alike.iter().rev().fold(0u32, |bits, is_alike| bits << 1 | u32::from(*is_alike));
        while let Some(slot) = slots.get(alike.trailing_zeros() as usize) {
            if let Some(bytes) = self.bytes_at(IndexSlot::decode(*slot))
                && let Some((fixed, names)) = bytes.split_first_chunk()
                && form.is_of(fixed)
                && self.has_model(fixed, wanted)
                && begins_with_name(names, &wanted.name)
            {
                return Some(fixed);
            }
            alike &= alike - 1;
        }
        None
    }

    /// Returns the bytes from the record on that a slot points to.
    #[inline]
    fn bytes_at(&self, slot: IndexSlot) -> Option<&'a [u8]> {
        self.records.get((slot.at as usize).checked_mul(UNIT)?..)
    }

    #[inline]
    fn has_model(&self, fixed: &[u8; RECORD_LEN], wanted: &WeightKey<'_>) -> bool {
        let model = fixed[36..].first_chunk().map_or(u32::MAX, |model| u32::from_le_bytes(*model));
        self.models.get(model as usize) == Some(wanted.model.as_bytes())
    }

    /// Searches all slots of a bucket, however many there are. If the entry is not there, returns the reason of the miss.
    #[inline(never)]
    fn search(
        &self,
        bucket: u64,
        tag: u32,
        wanted: &WeightKey<'_>,
    ) -> Result<&'a [u8; RECORD_LEN], MissReason> {
        let slots = self.bucket(bucket).unwrap_or_default();
        let found = slots.binary_search_by(|slot| self.compare(IndexSlot::decode(*slot), tag, wanted));
        let at = found.map_err(|at| self.nearest(slots, at, tag, wanted))?;
        let bytes = slots.get(at).and_then(|slot| self.bytes_at(IndexSlot::decode(*slot)));
        bytes.and_then(<[u8]>::first_chunk).ok_or(MissReason::Absent)
    }

    /// Returns the slots of a bucket.
    #[inline]
    fn bucket(&self, bucket: u64) -> Option<&'a [[u8; INDEX_SLOT_LEN]]> {
        let at = usize::try_from(bucket).ok()?;
        let [from, to] = self.buckets.get(at..)?.first_chunk::<2>()?.map(u32::from_le_bytes);
        self.slots.get(from as usize..to as usize)
    }

    /// Returns the record that a slot points to, and the bytes from there on.
    #[inline]
    pub(super) fn record(&self, slot: IndexSlot) -> Option<(Record, &'a [u8])> {
        let bytes = self.bytes_at(slot)?;
        Some((Record::decode(bytes)?, bytes))
    }

    /// Compares a slot of the right bucket with the wanted key.
    #[inline]
    fn compare(&self, slot: IndexSlot, tag: u32, wanted: &WeightKey<'_>) -> Ordering {
        slot.tag.cmp(&tag).then_with(|| {
            let found = self.record(slot).and_then(|(record, bytes)| {
                let key = (record.names(bytes)?, record.is_imported(), self.model(record.model)?);
                let name = name_bytes(&wanted.name);
                let order = key.cmp(&(name, false, wanted.model));
                Some(order.then_with(|| record.packing().cmp(&wanted.packing)))
            });
            // Happens only if the bytes have changed since they were checked.
            found.unwrap_or(Ordering::Less)
        })
    }

    /// Returns the reason why the wanted entry is not between the slot before `at` and the slot at `at`. Slots are sorted by
    /// name, model and seed in this order, so that no other slot has more in common with the wanted key.
    fn nearest(
        &self,
        slots: &[[u8; INDEX_SLOT_LEN]],
        at: usize,
        tag: u32,
        wanted: &WeightKey<'_>,
    ) -> MissReason {
        let differs = |at: Option<usize>| {
            let slot = IndexSlot::decode(*slots.get(at?)?);
            let (record, bytes) = self.record(slot)?;
            let is_name = record.names(bytes)? == name_bytes(&wanted.name);
            if slot.tag != tag || !is_name || record.is_imported() {
                return None;
            }
            Some(match self.model(record.model)? == wanted.model {
                false => MissReason::OtherModel,
                true if record.form.seed != wanted.packing.seed => MissReason::OtherSeed,
                true => MissReason::OtherFingerprint,
            })
        };
        let [before, here] = [differs(at.checked_sub(1)), differs(Some(at))];
        nearer(before.unwrap_or(MissReason::Absent), here.unwrap_or(MissReason::Absent))
    }

    /// Returns the model at this position in the list.
    #[inline]
    fn model(&self, at: u32) -> Option<ModelId> {
        self.models.get(at as usize).copied().map(ModelId::from_bytes)
    }
}

/// Returns the reason that leaves fewer differences to the wanted entry.
fn nearer(one: MissReason, other: MissReason) -> MissReason {
    const BY_DISTANCE: [MissReason; 4] = [
        MissReason::OtherFingerprint,
        MissReason::OtherSeed,
        MissReason::UnverifiedModel,
        MissReason::OtherModel,
    ];
    BY_DISTANCE.into_iter().find(|reason| [one, other].contains(reason)).unwrap_or(MissReason::Absent)
}

/// Returns both names as a record holds them.
fn name_bytes<'a>(name: &Name<'a>) -> (&'a [u8], Option<&'a [u8]>) {
    (name.weight.as_bytes(), name.bias.map(str::as_bytes))
}

/// Returns whether these bytes begin with both names, whose lengths are already known to be equal.
#[inline]
fn begins_with_name(bytes: &[u8], name: &Name<'_>) -> bool {
    let (weight, bias) = (name.weight.as_bytes(), name.bias.unwrap_or_default().as_bytes());
    let Some((first, rest)) = bytes.split_at_checked(weight.len()) else { return false };
    first == weight && rest.get(..bias.len()) == Some(bias)
}

/// Creates the entry of a record whose name, model and packing are the wanted ones.
#[inline]
fn entry_of<'a>(fixed: &[u8; RECORD_LEN], wanted: &WeightKey<'a>) -> Option<Entry<'a>> {
    let [offset, size, checksum, generation, ..] = *fixed.as_chunks().0 else { return None };
    Some(Entry {
        name: wanted.name,
        model: wanted.model,
        packing: wanted.packing,
        offset: u64::from_le_bytes(offset),
        size: u64::from_le_bytes(size),
        checksum: Some(u64::from_le_bytes(checksum)),
        generation: u64::from_le_bytes(generation),
        is_imported: false,
    })
}

/// Creates the entry of a record with this name and model.
fn entry_of_record<'a>(record: &Record, name: Name<'a>, model: ModelId) -> Entry<'a> {
    Entry {
        name,
        model,
        packing: record.packing(),
        offset: record.offset,
        size: record.size,
        checksum: Some(record.checksum),
        generation: record.generation,
        is_imported: record.is_imported(),
    }
}

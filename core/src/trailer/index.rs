//! The index of version 3: which weights a pack holds, and where. It is looked up in place.
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
//! The hash of a name is XXH3-64 of the weight's name. The key is (weight, bias, imported, model, packing); a bias, a
//! fingerprint, or its value that is absent is before any that is not, and what was imported from version 2 is behind what was
//! not.
//! An imported entry has the joined name as its weight's, and the model of all zeros if it was imported without one. Only the weight's name is hashed: few weights are packed with more than one bias, and all packings of a weight are
//! neighbours, so that a miss can say what else is there.

mod look_up;
mod slot;

pub(super) use slot::{IndexSlot, SLOT_LEN, bucket, hash, tag};

use core::{cmp::Ordering, iter::FusedIterator, str};

use xxhash_rust::xxh3::xxh3_64;

use super::{
    ALIGNMENT, Entry, FOOTER_LEN, HEADER_LEN, ModelId, Name, Refusal, VERSION,
    footer::Footer,
    header::Slot,
    record::{self, Record, UNIT},
};
use crate::bytes::{u32_at, u64_at};

pub(super) const MAGIC: [u8; 8] = *b"XPWCIDX3";

/// The length of what is before the models, in bytes.
pub(super) const FIXED_LEN: usize = 64;

const MAX_BUCKET_BITS: u32 = 31;

/// A refusal that lacks the place of the entry.
type OfEntry = fn(u32) -> Refusal;

/// The top bit of every byte: set in what is not ASCII.
const NOT_ASCII: u64 = 0x8080_8080_8080_8080;

/// Where the parts of an index are, as a check has found them to be right: plain numbers, to be kept beside the bytes.
///
/// ```
/// # use warmstart_core::trailer::{ModelId, Name, Packing, Wanted, build::{IndexBuilder, NewEntry}, header::Slot};
/// use warmstart_core::{reason::Reason, trailer::index::Layout};
///
/// # let (name, model) = (Name::new("layer.0.weight"), ModelId::default());
/// # let packing = Packing::of_seed(7);
/// # let mut builder = IndexBuilder::new();
/// # builder.push(NewEntry { name, model, packing, offset: 4096, size: 100, checksum: 0, generation: 1 });
/// # let block = builder.finish(4224, 1)?;
/// # let slot = Slot::of(1, 4224, &block);
/// let layout = Layout::check(&block, &slot)?;
/// let index = layout.view(&block);
/// let wanted = Wanted { name, model, packing };
/// assert_eq!(index.look_up(&wanted)?.offset, 4096);
/// assert_eq!(index.look_up(&Wanted { packing: Packing::of_seed(8), ..wanted }), Err(Reason::OtherSeed));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub(super) generation: u64,
    pub(super) index_start: u64,
    pub(super) entry_count: u32,
    pub(super) model_count: u32,
    pub(super) bucket_bits: u32,
    /// Whether any entry was imported from version 2.
    pub(super) has_imported: bool,
    /// Where each part begins; what is before it ends there, but for the padding of the buckets.
    pub(super) buckets: usize,
    pub(super) slots: usize,
    pub(super) records: usize,
    pub(super) records_end: usize,
}

/// An index that was checked, and the bytes that it is in.
///
/// If the bytes change after the check, as those of a mapped file can, answers may be wrong; nothing panics.
#[derive(Clone, Copy, Debug)]
pub struct Index<'a> {
    layout: Layout,
    models: &'a [[u8; ModelId::LEN]],
    buckets: &'a [[u8; 4]],
    slots: &'a [[u8; SLOT_LEN]],
    records: &'a [u8],
}

impl Layout {
    /// Proves an index block: by the checksum that its commit slot gives, and by checking every number in it. Takes one
    /// pass over the bytes besides the checksum's, and no memory.
    ///
    /// That every entry is in the slot where it is looked for is left to [`Index::verify`].
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(block: &[u8], slot: &Slot) -> Result<Self, Refusal> {
        slot.check()?;
        if (block.len() as u64) < slot.index_len {
            return Err(Refusal::Short { len: block.len() as u64, needed: slot.index_len });
        }
        if block.len() as u64 != slot.index_len {
            return Err(Refusal::Lengths);
        }
        if xxh3_64(block) != slot.index_sum {
            return Err(Refusal::IndexChecksum);
        }
        let mut layout = layout(block, slot)?;
        let footer = Footer::decode(block.get(layout.records_end..).unwrap_or_default(), slot.end())?;
        let expected =
            Footer { index_start: slot.index_start, entry_count: layout.entry_count, version: VERSION };
        if footer != expected {
            return Err(Refusal::Footer);
        }

        let parts = Parts::of(&layout, block).ok_or(Refusal::Lengths)?;
        if !parts.models.is_sorted_by(|one, next| one < next) {
            return Err(Refusal::Models);
        }
        layout.has_imported = parts.check_records(slot.index_start)?;
        if !parts.buckets_are_strictly_ascending()? {
            parts.check_order(&layout.view(block))?;
        }
        Ok(layout)
    }

    /// The index in the bytes that were checked. In others, nothing is found.
    #[inline]
    #[must_use]
    pub fn view<'a>(&self, block: &'a [u8]) -> Index<'a> {
        let part = |from, to| block.get(from..to).unwrap_or_default();
        Index {
            layout: *self,
            models: part(FIXED_LEN, self.buckets).as_chunks().0,
            buckets: part(self.buckets, self.slots).as_chunks().0,
            slots: part(self.slots, self.records).as_chunks().0,
            records: part(self.records, self.records_end),
        }
    }

    /// The commit that wrote the index.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Where the index begins in its file, in bytes. All payloads are before it.
    #[must_use]
    pub const fn index_start(&self) -> u64 {
        self.index_start
    }

    /// The number of entries.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.entry_count as usize
    }

    /// Whether there is no entry.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entry_count == 0
    }
}

impl<'a> Index<'a> {
    /// Where the parts are.
    #[must_use]
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The number of entries.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.layout.len()
    }

    /// Whether there is no entry.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.layout.is_empty()
    }

    /// The models that the pack has entries of, ascending.
    pub fn models(&self) -> impl ExactSizeIterator<Item = ModelId> + use<'a> {
        self.models.iter().copied().map(ModelId::from_bytes)
    }

    /// All entries, in ascending order of offset.
    #[must_use]
    pub const fn entries(&self) -> Entries<'a> {
        Entries::of(*self)
    }

    /// Proves what [`Layout::check`] leaves out: that every entry is where it is looked for. This hashes every name.
    ///
    /// # Errors
    /// [`Refusal::Misfiled`] with the first entry that is not.
    pub fn verify(&self) -> Result<(), Refusal> {
        let mut ordinal = 0;
        for entry in self.entries() {
            let wanted = entry.wanted();
            let found =
                if entry.is_imported { self.look_up_imported(&wanted, false) } else { self.look_up(&wanted) };
            if found != Ok(entry) {
                return Err(Refusal::Misfiled(ordinal));
            }
            ordinal += 1;
        }
        if ordinal == self.layout.entry_count { Ok(()) } else { Err(Refusal::Misfiled(ordinal)) }
    }
}

impl<'a> IntoIterator for Index<'a> {
    type Item = Entry<'a>;
    type IntoIter = Entries<'a>;

    fn into_iter(self) -> Entries<'a> {
        self.entries()
    }
}

/// The entries of an index, in ascending order of offset.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    index: Index<'a>,
    /// Where the next record is.
    at: usize,
    left: usize,
}

impl<'a> Entries<'a> {
    const fn of(index: Index<'a>) -> Self {
        Self { index, at: 0, left: index.len() }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        self.left = self.left.checked_sub(1)?;
        let bytes = self.index.records.get(self.at..)?;
        let entry = Record::decode(bytes).and_then(|record| {
            self.at = self.at.checked_add(record.len()?)?;
            let (weight, bias) = record.names(bytes)?;
            let text = |bytes| str::from_utf8(bytes).ok();
            let bias = match bias {
                Some(bias) => Some(text(bias)?),
                None => None,
            };
            let model = self.index.models.get(record.model as usize)?;
            let name = Name { weight: text(weight)?, bias };
            Some(entry_of_record(&record, name, ModelId::from_bytes(*model)))
        });
        if entry.is_none() {
            self.left = 0;
        }
        entry
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Entries<'_> {}

impl FusedIterator for Entries<'_> {}

/// The entry of a record whose names and model these are.
pub(super) fn entry_of_record<'a>(record: &Record, name: Name<'a>, model: ModelId) -> Entry<'a> {
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

/// Reads the numbers that an index begins with, and adds them up.
fn layout(block: &[u8], slot: &Slot) -> Result<Layout, Refusal> {
    let short = Refusal::Short { len: block.len() as u64, needed: (FIXED_LEN + FOOTER_LEN) as u64 };
    let head = block.first_chunk::<FIXED_LEN>().ok_or(short)?;
    if !head.starts_with(&MAGIC) {
        return Err(Refusal::IndexMagic);
    }
    let number = |at| u32_at(head, at).ok_or(short);
    let long = |at| u64_at(head, at).ok_or(short);
    if long(8)? != slot.generation {
        return Err(Refusal::Generation);
    }
    if number(28)? != 0 || head[40..].iter().any(|byte| *byte != 0) {
        return Err(Refusal::Reserved);
    }
    let (entry_count, model_count, bucket_bits) = (number(16)?, number(20)?, number(24)?);
    if bucket_bits > MAX_BUCKET_BITS {
        return Err(Refusal::Buckets);
    }
    // None of these overflows: each is below 2^37.
    let buckets = FIXED_LEN as u64 + ModelId::LEN as u64 * u64::from(model_count);
    let slots = (buckets + 4 * ((1 << bucket_bits) + 1)).next_multiple_of(UNIT as u64);
    let records = slots + SLOT_LEN as u64 * u64::from(entry_count);
    let records_end = records.checked_add(long(32)?).ok_or(Refusal::Lengths)?;
    if records_end.checked_add(FOOTER_LEN as u64) != Some(block.len() as u64) {
        return Err(Refusal::Lengths);
    }
    let place = |at| usize::try_from(at).map_err(|_| Refusal::Lengths);
    Ok(Layout {
        generation: slot.generation,
        index_start: slot.index_start,
        entry_count,
        model_count,
        bucket_bits,
        has_imported: false,
        buckets: place(buckets)?,
        slots: place(slots)?,
        records: place(records)?,
        records_end: place(records_end)?,
    })
}

/// The parts of an index whose lengths add up.
struct Parts<'a> {
    models: &'a [[u8; ModelId::LEN]],
    buckets: &'a [[u8; 4]],
    slots: &'a [[u8; SLOT_LEN]],
    records: &'a [u8],
}

impl<'a> Parts<'a> {
    fn of(layout: &Layout, block: &'a [u8]) -> Option<Self> {
        let (buckets, _) = block.get(layout.buckets..layout.slots)?.as_chunks();
        // Padding may have made one more.
        let (buckets, padding) = buckets.split_at_checked((1usize << layout.bucket_bits).checked_add(1)?)?;
        if padding.iter().any(|bytes| *bytes != [0; 4]) {
            return None;
        }
        Some(Self {
            models: block.get(FIXED_LEN..layout.buckets)?.as_chunks().0,
            buckets,
            slots: block.get(layout.slots..layout.records)?.as_chunks().0,
            records: block.get(layout.records..layout.records_end)?,
        })
    }

    /// That there are as many records as slots, each in the slot that points to it, with right names and a payload that
    /// is behind the one before and before the index. Returns whether any was imported.
    fn check_records(&self, index_start: u64) -> Result<bool, Refusal> {
        let (mut rest, mut has_imported) = (self.records, false);
        let mut payload_end = HEADER_LEN as u64;
        for ordinal in 0..self.slots.len() as u32 {
            let at = (self.records.len() - rest.len()) as u64;
            let (record, next) = check_record(rest, &mut payload_end, index_start, self.models)
                .map_err(|refusal| refusal(ordinal))?;
            let found = self.slots.get(record.slot as usize).map(|slot| IndexSlot::decode(*slot).at);
            if found.map(|at| u64::from(at) * UNIT as u64) != Some(at) {
                return Err(Refusal::Unlinked(ordinal));
            }
            has_imported |= record.is_imported();
            rest = next;
        }
        if rest.is_empty() { Ok(has_imported) } else { Err(Refusal::Lengths) }
    }

    /// That the buckets divide the slots, without a gap. Then, whether tags ascend in each of them.
    fn buckets_are_strictly_ascending(&self) -> Result<bool, Refusal> {
        let tag = |slot: &[u8; SLOT_LEN]| IndexSlot::decode(*slot).tag;
        // Tags may not ascend where a bucket begins, and nowhere else. To count both is quicker than to walk through each
        // bucket: how many slots it has, no processor can predict.
        let falls = self.slots.windows(2).filter(|pair| tag(&pair[0]) >= tag(&pair[1])).count();
        let (mut between, mut before, mut has_order) = (0, 0, true);
        for start in self.buckets {
            let start = u32::from_le_bytes(*start);
            let at = start as usize;
            let here = self.slots.get(at).map_or(u64::MAX, |slot| tag(slot).into());
            let last = self.slots.get(at.wrapping_sub(1)).map_or(0, |slot| tag(slot).into());
            has_order &= before <= start;
            between += usize::from((start != before) & (last >= here));
            before = start;
        }
        let begins = self.buckets.first() == Some(&[0; 4]);
        if !begins || !has_order || before as usize != self.slots.len() {
            return Err(Refusal::Buckets);
        }
        Ok(falls == between)
    }

    /// That slots ascend in their bucket, where tags alone do not say so: by the keys of their records.
    fn check_order(&self, index: &Index<'_>) -> Result<(), Refusal> {
        for bounds in self.buckets.windows(2) {
            let (from, to) = (u32::from_le_bytes(bounds[0]) as usize, u32::from_le_bytes(bounds[1]) as usize);
            for pair in self.slots.get(from..to).unwrap_or_default().windows(2) {
                let (one, next) = (IndexSlot::decode(pair[0]), IndexSlot::decode(pair[1]));
                let order = one.tag.cmp(&next.tag).then_with(|| compare(index, one, next));
                match order {
                    Ordering::Less => {}
                    Ordering::Equal => return Err(Refusal::Duplicate(ordinal(index, next))),
                    Ordering::Greater => return Err(Refusal::Order),
                }
            }
        }
        Ok(())
    }
}

/// Checks the first of these records, but not its slot, and gives what follows it too.
#[inline(always)]
fn check_record<'a>(
    records: &'a [u8],
    payload_end: &mut u64,
    index_start: u64,
    models: &[[u8; ModelId::LEN]],
) -> Result<(Record, &'a [u8]), OfEntry> {
    let too_short: OfEntry = Refusal::EntryLength;
    let record = Record::decode(records).ok_or(too_short)?;
    if !record.offset.is_multiple_of(ALIGNMENT) {
        return Err(Refusal::Misaligned);
    }
    if record.offset < *payload_end {
        let is_in_header = record.offset < HEADER_LEN as u64;
        return Err(if is_in_header { Refusal::OutOfBounds } else { Refusal::Overlap });
    }
    match record.offset.checked_add(record.size) {
        Some(end) if end <= index_start => *payload_end = end,
        _ => return Err(Refusal::OutOfBounds),
    }
    if !record.has_right_flags() {
        return Err(Refusal::Flags);
    }
    if record.model as usize >= models.len() {
        return Err(Refusal::UnknownModel);
    }
    let (this, next) = record.len().and_then(|len| records.split_at_checked(len)).ok_or(too_short)?;
    check_names(&record, this)?;
    Ok((record, next))
}

/// How the keys of two slots stand to each other. Models ascend, and so their places do as they do.
fn compare(index: &Index<'_>, one: IndexSlot, next: IndexSlot) -> Ordering {
    let key = |slot| {
        let (record, bytes) = index.record(slot)?;
        Some((record.names(bytes)?, record.is_imported(), record.model, record.packing()))
    };
    key(one).cmp(&key(next))
}

/// The place of a slot's record among all.
#[cold]
fn ordinal(index: &Index<'_>, slot: IndexSlot) -> u32 {
    let offset = index.record(slot).map_or(0, |(record, _)| record.offset);
    let before = index.entries().take_while(|entry| entry.offset < offset).count();
    u32::try_from(before).unwrap_or(u32::MAX)
}

/// That both names are UTF-8, and what is behind them is zeros.
#[inline]
fn check_names(record: &Record, bytes: &[u8]) -> Result<(), OfEntry> {
    let (_, run) = bytes.split_at_checked(record::FIXED_LEN).ok_or(Refusal::EntryLength as OfEntry)?;
    let used = record.names_len().unwrap_or(0) % UNIT;
    let last = run.last_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    if used != 0 && last >> (8 * used) != 0 {
        return Err(Refusal::EntryLength);
    }
    if any_bits(run) & NOT_ASCII == 0 {
        return Ok(());
    }
    let (weight, bias) = record.names(bytes).ok_or(Refusal::EntryLength as OfEntry)?;
    let is_text = str::from_utf8(weight).is_ok() && bias.is_none_or(|bias| str::from_utf8(bias).is_ok());
    if is_text { Ok(()) } else { Err(Refusal::NotUtf8) }
}

/// The bits that are set in any word of these.
#[inline]
fn any_bits(run: &[u8]) -> u64 {
    const WIDE: usize = 4 * UNIT;
    let any_of = |bytes: &[u8]| {
        let (words, _) = bytes.as_chunks::<UNIT>();
        words.iter().fold(0, |any, word| any | u64::from_le_bytes(*word))
    };
    // Nearly all names are so long. Always four parts, which may overlap: how many there must be, no processor can
    // predict.
    match run.len().checked_sub(WIDE) {
        Some(last) if last <= 3 * WIDE => (0..4).fold(0, |any, part| {
            let at = last.min(part * WIDE);
            any | run.get(at..at + WIDE).map_or(0, any_of)
        }),
        _ => any_of(run),
    }
}

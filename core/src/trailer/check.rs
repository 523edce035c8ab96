//! Proves that an index of version 3 is whole and contradicts itself nowhere, in one pass and without memory.

use core::{cmp::Ordering, str};

use xxhash_rust::xxh3::xxh3_64;

use super::{
    ALIGNMENT, FOOTER_LEN, HEADER_LEN, ModelId, Refusal, VERSION,
    footer::Footer,
    header::Slot,
    index::{FIXED_LEN, Index, IndexSlot, Layout, MAGIC, SLOT_LEN},
    record::{self, Record, UNIT},
};
use crate::bytes::{u32_at, u64_at};

const MAX_BUCKET_BITS: u32 = 31;

/// A refusal that lacks the place of the entry.
type OfEntry = fn(u32) -> Refusal;

/// The top bit of every byte: set in what is not ASCII.
const NOT_ASCII: u64 = 0x8080_8080_8080_8080;

/// As [`Layout::check`].
pub(super) fn check(block: &[u8], slot: &Slot) -> Result<Layout, Refusal> {
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

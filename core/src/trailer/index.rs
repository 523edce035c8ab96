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
//! not. Only the weight's name is hashed: few weights are packed with more than one bias, and all packings of a weight are
//! neighbours, so that a miss can say what else is there.

use core::{cmp::Ordering, iter::FusedIterator};

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::{
    Entry, ModelId, Name, Refusal, Wanted,
    header::Slot,
    record::{self, Form, Record, UNIT},
};
use crate::{bytes::u64_at, reason::Reason};

pub(super) const MAGIC: [u8; 8] = *b"XPWCIDX3";

/// The length of what is before the models, in bytes.
pub(super) const FIXED_LEN: usize = 64;

/// The length of a slot in bytes.
pub(super) const SLOT_LEN: usize = 8;

/// So many slots are looked at, without a guess at how many a bucket has. Fewer than one bucket in a hundred has more.
const FEW: usize = 4;

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

/// The entries of an index, in ascending order of offset.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    index: Index<'a>,
    /// Where the next record is.
    at: usize,
    left: usize,
}

/// A slot of the index: not a commit slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct IndexSlot {
    pub(super) tag: u32,
    /// Where the record is, in units of 8 bytes.
    pub(super) at: u32,
}

/// The hash that a name is filed under.
#[inline]
pub(super) fn hash(name: &Name<'_>) -> u64 {
    xxh3_64(name.weight.as_bytes())
}

/// The bucket that a hash belongs to.
#[inline]
pub(super) const fn bucket(hash: u64, bucket_bits: u32) -> u64 {
    // Of no bits, that is a shift by all 64.
    match hash.checked_shr(u64::BITS - bucket_bits) {
        Some(bucket) => bucket,
        None => 0,
    }
}

/// The tag that a hash has in its slot.
#[inline]
pub(super) const fn tag(hash: u64) -> u32 {
    (hash & 0xffff_ffff) as u32
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
        super::check::check(block, slot)
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

    /// The entry of this name, model and packing. The entry borrows its name from what is asked for.
    ///
    /// # Errors
    /// [`Reason::Absent`], or what the nearest entry of that name differs in: [`Reason::OtherModel`] if none is of the
    /// model, [`Reason::OtherSeed`] if none of the model has the seed, else [`Reason::OtherFingerprint`].
    #[inline]
    pub fn look_up<'w>(&self, wanted: &Wanted<'w>) -> Result<Entry<'w>, Reason> {
        let hash = hash(&wanted.name);
        let (bucket, tag) = (bucket(hash, self.layout.bucket_bits), tag(hash));
        match self.first_slots(bucket).and_then(|slots| self.among(slots, tag, wanted)) {
            Some(record) => entry_of(record, wanted).ok_or(Reason::Absent),
            None => self.search(bucket, tag, wanted),
        }
    }

    /// The entry that was imported from version 2 whose joined name is that of weight and bias, one after the other. Nothing
    /// proves of which model it is, and by which algorithm it was packed.
    ///
    /// # Errors
    /// [`Reason::Absent`], or [`Reason::OtherSeed`] if all of that name were packed for other micro-kernels.
    pub fn look_up_imported<'w>(&self, name: &Name<'w>, seed: u32) -> Result<Entry<'w>, Reason> {
        // They are of the model of all zeros, which is before all others.
        if self.models.first() != Some(&[0; ModelId::LEN]) {
            return Err(Reason::Absent);
        }
        let bias = name.bias.unwrap_or_default();
        let mut hasher = Xxh3::new();
        hasher.update(name.weight.as_bytes());
        hasher.update(bias.as_bytes());
        let hash = hasher.digest();
        let mut reason = Reason::Absent;
        for slot in self.bucket(bucket(hash, self.layout.bucket_bits)).unwrap_or_default() {
            let slot = IndexSlot::decode(*slot);
            let Some((record, bytes)) = self.record(slot).filter(|_| slot.tag == tag(hash)) else { continue };
            let joined = record.names(bytes).map(|(joined, _)| joined).unwrap_or_default();
            let is_name =
                joined.split_at_checked(name.weight.len()) == Some((name.weight.as_bytes(), bias.as_bytes()));
            if !record.is_imported() || !is_name {
                continue;
            }
            if record.seed == seed {
                return Ok(entry_of_record(&record, *name, ModelId::default()));
            }
            reason = Reason::OtherSeed;
        }
        Err(reason)
    }

    /// All entries, in ascending order of offset.
    #[must_use]
    pub const fn entries(&self) -> Entries<'a> {
        Entries { index: *self, at: 0, left: self.len() }
    }

    /// Proves what [`Layout::check`] leaves out: that every entry is where it is looked for. This hashes every name.
    ///
    /// # Errors
    /// [`Refusal::Misfiled`] with the first entry that is not.
    pub fn verify(&self) -> Result<(), Refusal> {
        let mut ordinal = 0;
        for entry in self.entries() {
            let found = if entry.is_imported {
                self.look_up_imported(&entry.name, entry.packing.seed)
            } else {
                self.look_up(&entry.wanted())
            };
            if found != Ok(entry) {
                return Err(Refusal::Misfiled(ordinal));
            }
            ordinal += 1;
        }
        if ordinal == self.layout.entry_count { Ok(()) } else { Err(Refusal::Misfiled(ordinal)) }
    }

    /// The slots from the beginning of a bucket on, if there are so many. They may be the next bucket's: where a bucket ends
    /// is not asked, for what a processor must guess costs more than to look at a slot that is another's.
    #[inline]
    fn first_slots(&self, bucket: u64) -> Option<&'a [[u8; SLOT_LEN]; FEW]> {
        let start = self.buckets.get(usize::try_from(bucket).ok()?)?;
        self.slots.get(u32::from_le_bytes(*start) as usize..)?.first_chunk()
    }

    /// The fixed bytes of the record of what is wanted, if one of these slots points to it.
    #[inline]
    fn among(
        &self,
        slots: &[[u8; SLOT_LEN]; FEW],
        tag: u32,
        wanted: &Wanted<'_>,
    ) -> Option<&'a [u8; record::FIXED_LEN]> {
        let form = Form::new(&wanted.name, &wanted.packing)?;
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

    /// The bytes from the record on that a slot points to.
    #[inline]
    fn bytes_at(&self, slot: IndexSlot) -> Option<&'a [u8]> {
        self.records.get((slot.at as usize).checked_mul(UNIT)?..)
    }

    #[inline]
    fn has_model(&self, fixed: &[u8; record::FIXED_LEN], wanted: &Wanted<'_>) -> bool {
        let model = record::model_of(fixed).and_then(|model| self.models.get(model as usize));
        model == Some(wanted.model.as_bytes())
    }

    /// Looks among all slots of a bucket, however many they are, and if it is not there says what is.
    #[inline(never)]
    fn search<'w>(&self, bucket: u64, tag: u32, wanted: &Wanted<'w>) -> Result<Entry<'w>, Reason> {
        let slots = self.bucket(bucket).unwrap_or_default();
        let found = slots.binary_search_by(|slot| self.compare(IndexSlot::decode(*slot), tag, wanted));
        let at = found.map_err(|at| self.nearest(slots, at, tag, wanted))?;
        let bytes = slots.get(at).and_then(|slot| self.bytes_at(IndexSlot::decode(*slot)));
        bytes.and_then(|bytes| entry_of(bytes.first_chunk()?, wanted)).ok_or(Reason::Absent)
    }

    /// The slots of a bucket.
    #[inline]
    fn bucket(&self, bucket: u64) -> Option<&'a [[u8; SLOT_LEN]]> {
        let at = usize::try_from(bucket).ok()?;
        let [from, to] = self.buckets.get(at..)?.first_chunk::<2>()?.map(u32::from_le_bytes);
        self.slots.get(from as usize..to as usize)
    }

    /// The record that a slot points to, and the bytes from there on.
    #[inline]
    pub(super) fn record(&self, slot: IndexSlot) -> Option<(Record, &'a [u8])> {
        let bytes = self.bytes_at(slot)?;
        Some((Record::decode(bytes)?, bytes))
    }

    /// How a slot of the right bucket stands to what is wanted.
    #[inline]
    fn compare(&self, slot: IndexSlot, tag: u32, wanted: &Wanted<'_>) -> Ordering {
        slot.tag.cmp(&tag).then_with(|| {
            let found = self.record(slot).and_then(|(record, bytes)| {
                let (weight, bias) = record.names(bytes)?;
                let model = self.models.get(record.model as usize)?;
                let name = (wanted.name.weight.as_bytes(), wanted.name.bias.map(str::as_bytes));
                Some(
                    (weight, bias)
                        .cmp(&name)
                        .then_with(|| record.is_imported().cmp(&false))
                        .then_with(|| model.cmp(wanted.model.as_bytes()))
                        .then_with(|| record.packing().cmp(&wanted.packing)),
                )
            });
            // Only where the bytes have changed since they were checked.
            found.unwrap_or(Ordering::Less)
        })
    }

    /// Why there is nothing between the slots before and at this place. Slots are sorted by name, model and seed in this
    /// order, so that no other has more in common with what is wanted.
    fn nearest(&self, slots: &[[u8; SLOT_LEN]], at: usize, tag: u32, wanted: &Wanted<'_>) -> Reason {
        let common = |at: Option<usize>| {
            let slot = IndexSlot::decode(*slots.get(at?)?);
            let (record, bytes) = self.record(slot)?;
            let (weight, bias) = record.names(bytes)?;
            let is_name =
                weight == wanted.name.weight.as_bytes() && bias == wanted.name.bias.map(str::as_bytes);
            if slot.tag != tag || !is_name || record.is_imported() {
                return None;
            }
            let is_model = self.models.get(record.model as usize) == Some(wanted.model.as_bytes());
            Some(match (is_model, record.seed == wanted.packing.seed) {
                (false, _) => Nearness::Name,
                (true, false) => Nearness::Model,
                (true, true) => Nearness::Seed,
            })
        };
        match common(at.checked_sub(1)).max(common(Some(at))) {
            None => Reason::Absent,
            Some(Nearness::Name) => Reason::OtherModel,
            Some(Nearness::Model) => Reason::OtherSeed,
            Some(Nearness::Seed) => Reason::OtherFingerprint,
        }
    }
}

/// What an entry has in common with what is wanted, besides what stands before it here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Nearness {
    Name,
    Model,
    Seed,
}

impl IndexSlot {
    #[inline]
    pub(super) fn decode(bytes: [u8; SLOT_LEN]) -> Self {
        let number = u64::from_le_bytes(bytes);
        Self { tag: tag(number), at: (number >> 32) as u32 }
    }

    pub(super) fn encode(self) -> [u8; SLOT_LEN] {
        (u64::from(self.at) << 32 | u64::from(self.tag)).to_le_bytes()
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
            let text = |bytes| core::str::from_utf8(bytes).ok();
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

impl<'a> IntoIterator for Index<'a> {
    type Item = Entry<'a>;
    type IntoIter = Entries<'a>;

    fn into_iter(self) -> Entries<'a> {
        self.entries()
    }
}

/// Whether these bytes begin with both names, whose lengths are known to be right.
#[inline]
fn begins_with_name(bytes: &[u8], name: &Name<'_>) -> bool {
    let (weight, bias) = (name.weight.as_bytes(), name.bias.unwrap_or_default().as_bytes());
    let Some((first, rest)) = bytes.split_at_checked(weight.len()) else { return false };
    first == weight && rest.get(..bias.len()) == Some(bias)
}

/// The entry of a record whose names and model these are.
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

/// The entry of a record that is of this name, model and packing.
#[inline]
fn entry_of<'a>(fixed: &[u8; record::FIXED_LEN], wanted: &Wanted<'a>) -> Option<Entry<'a>> {
    Some(Entry {
        name: wanted.name,
        model: wanted.model,
        packing: wanted.packing,
        offset: u64_at(fixed, 0)?,
        size: u64_at(fixed, 8)?,
        checksum: Some(u64_at(fixed, 16)?),
        generation: u64_at(fixed, 24)?,
        is_imported: false,
    })
}

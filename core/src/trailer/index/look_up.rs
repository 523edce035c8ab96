//! Looking one entry up, where the index is.

use core::cmp::Ordering;

use super::{
    Index, entry_of_record,
    slot::{IndexSlot, SLOT_LEN, bucket, hash, hash_joined, tag},
};
use crate::{
    bytes::u64_at,
    reason::Reason,
    trailer::{
        Entry, ModelId, Name, Wanted,
        record::{self, Form, Record, UNIT},
    },
};

/// So many slots are looked at, without a guess at how many a bucket has. Fewer than one bucket in a hundred has more.
const FEW: usize = 4;

impl<'a> Index<'a> {
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

    /// Finds by [`look_up_imported`](Self::look_up_imported) what [`look_up`](Self::look_up) missed for this reason.
    ///
    /// # Errors
    /// That reason; or why no imported entry is what is wanted, where nothing else is stored under the name. Where the
    /// weight is stored as packed by another algorithm, an imported entry may be as well: that stays a miss.
    #[cold]
    pub fn after_miss<'w>(
        &self,
        missed: Reason,
        wanted: &Wanted<'w>,
        takes_unverified: bool,
    ) -> Result<Entry<'w>, Reason> {
        if missed == Reason::OtherFingerprint {
            return Err(missed);
        }
        match self.look_up_imported(wanted, takes_unverified) {
            Err(_) if missed != Reason::Absent => Err(missed),
            imported => imported,
        }
    }

    /// Finds the entry that was imported from version 2 under the joined name of weight and bias, of the model that is
    /// wanted. With `takes_unverified`, falls back to an entry without a model.
    ///
    /// The algorithm that packed the weight is not compared: version 2 does not say which it was.
    ///
    /// # Errors
    /// [`Reason::Absent`], or what all entries of that name differ in: [`Reason::OtherModel`],
    /// [`Reason::UnverifiedModel`] or [`Reason::OtherSeed`].
    pub fn look_up_imported<'w>(
        &self,
        wanted: &Wanted<'w>,
        takes_unverified: bool,
    ) -> Result<Entry<'w>, Reason> {
        if !self.layout.has_imported {
            return Err(Reason::Absent);
        }
        let name = &wanted.name;
        let bias = name.bias.unwrap_or_default();
        let hash = hash_joined(name);
        let mut nearest = Err(Reason::Absent);
        for slot in self.bucket(bucket(hash, self.layout.bucket_bits)).unwrap_or_default() {
            let slot = IndexSlot::decode(*slot);
            let Some((record, bytes)) = self.record(slot).filter(|_| slot.tag == tag(hash)) else { continue };
            let joined = record.names(bytes).map(|(joined, _)| joined).unwrap_or_default();
            let is_name =
                joined.split_at_checked(name.weight.len()) == Some((name.weight.as_bytes(), bias.as_bytes()));
            if !record.is_imported() || !is_name {
                continue;
            }
            let Some(model) = self.models.get(record.model as usize) else { continue };
            let model = ModelId::from_bytes(*model);
            let is_unknown = model == ModelId::default();
            let found = match model == wanted.model || takes_unverified && is_unknown {
                false if is_unknown => Err(Reason::UnverifiedModel),
                false => Err(Reason::OtherModel),
                true if record.seed != wanted.packing.seed => Err(Reason::OtherSeed),
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
    pub(in crate::trailer) fn record(&self, slot: IndexSlot) -> Option<(Record, &'a [u8])> {
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

/// Of two reasons why an imported entry is not what is wanted, the one that leaves less to differ.
fn nearer(one: Reason, other: Reason) -> Reason {
    const BY_DISTANCE: [Reason; 3] = [Reason::OtherSeed, Reason::UnverifiedModel, Reason::OtherModel];
    BY_DISTANCE.into_iter().find(|reason| [one, other].contains(reason)).unwrap_or(Reason::Absent)
}

/// What an entry has in common with what is wanted, besides what stands before it here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Nearness {
    Name,
    Model,
    Seed,
}

/// Whether these bytes begin with both names, whose lengths are known to be right.
#[inline]
fn begins_with_name(bytes: &[u8], name: &Name<'_>) -> bool {
    let (weight, bias) = (name.weight.as_bytes(), name.bias.unwrap_or_default().as_bytes());
    let Some((first, rest)) = bytes.split_at_checked(weight.len()) else { return false };
    first == weight && rest.get(..bias.len()) == Some(bias)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trailer::{
        Fingerprint, Packing, Refusal,
        build::{IndexBuilder, NewEntry},
        header::Slot,
        index::Layout,
    };

    fn entry(name: Name<'_>, seed: u32, offset: u64) -> NewEntry<'_> {
        let (model, packing) = (ModelId::default(), Packing::of_seed(seed));
        NewEntry { name, model, packing, offset, size: 1, checksum: 0, generation: 1 }
    }

    #[test]
    fn no_ordinary_look_up_finds_what_was_imported() {
        let mut builder = IndexBuilder::new();
        builder.push_imported(entry(Name::new("wb"), 5, 4096));
        builder.push_imported(entry(Name::new("only"), 5, 4096 + 128));
        builder.push(entry(Name::new("wb"), 5, 4096 + 256));
        builder.push(entry(Name::new("wb"), 4, 4096 + 384));
        let block = builder.finish(4096 + 512, 1).unwrap();
        let slot = Slot::of(1, 4096 + 512, &block);
        let layout = Layout::check(&block, &slot).unwrap();
        let index = layout.view(&block);
        index.verify().unwrap();
        let look_up = |name, seed| {
            index
                .look_up(&Wanted { name, model: ModelId::default(), packing: Packing::of_seed(seed) })
                .map(|entry| entry.offset)
        };
        assert_eq!(look_up(Name::new("wb"), 5), Ok(4096 + 256));
        assert_eq!(look_up(Name::new("wb"), 6), Err(Reason::OtherSeed));
        for seed in 4..7 {
            assert_eq!(look_up(Name::new("only"), seed), Err(Reason::Absent));
        }
        let imported = |name, seed| {
            let wanted = Wanted { name, model: ModelId::default(), packing: Packing::of_seed(seed) };
            index.look_up_imported(&wanted, false).map(|entry| entry.offset)
        };
        assert_eq!(imported(Name::new("w").with_bias("b"), 5), Ok(4096));
        assert_eq!(imported(Name::new("").with_bias("only"), 5), Ok(4096 + 128));
        assert_eq!(imported(Name::new("wb"), 4), Err(Reason::OtherSeed));
        assert_eq!(imported(Name::new("o"), 5), Err(Reason::Absent));

        let mut builder = IndexBuilder::new();
        builder.push_imported(entry(Name::new("w").with_bias("b"), 5, 4096));
        assert_eq!(builder.finish(4096 + 128, 1), Err(Refusal::Flags(0)));
    }

    #[test]
    fn an_imported_record_says_nothing_but_a_name_a_seed_and_a_place() {
        let mut builder = IndexBuilder::new();
        builder.push_imported(entry(Name::new("only"), 5, 4096));
        let block = builder.finish(4096 + 128, 1).unwrap();
        let layout = |block: &[u8]| Layout::check(block, &Slot::of(1, 4096 + 128, block));
        let record = layout(&block).unwrap().records;
        // The model, the fingerprint, and all flags but the one that says that it is imported.
        for bit in (8 * 36..8 * 48).chain(8 * 60..8 * 64).filter(|bit| *bit != 8 * 60 + 3) {
            let mut bytes = block.clone();
            bytes[record + bit / 8] ^= 1 << (bit % 8);
            assert!(layout(&bytes).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn imported_entry_is_found_by_model_or_as_unverified() {
        let [one, two, three] = [1, 2, 3].map(|byte| ModelId::from_bytes([byte; ModelId::LEN]));
        let of = |model, entry| NewEntry { model, ..entry };
        let fingerprint = Some(Fingerprint { id: 1, value: Some(2) });
        let mut builder = IndexBuilder::new();
        builder.push_imported(of(one, entry(Name::new("wb"), 5, 4096)));
        builder.push_imported(of(two, entry(Name::new("wb"), 6, 4096 + 128)));
        builder.push_imported(entry(Name::new("wb"), 7, 4096 + 256));
        builder.push_imported(of(one, entry(Name::new("named"), 5, 4096 + 384)));
        // The same weight, as another host has packed it.
        builder.push(of(two, entry(Name::new("w").with_bias("b"), 5, 4096 + 512)));
        let block = builder.finish(4096 + 640, 1).unwrap();
        let layout = Layout::check(&block, &Slot::of(1, 4096 + 640, &block)).unwrap();
        let index = layout.view(&block);
        index.verify().unwrap();
        let find = |name, model, seed, takes_unverified| {
            let wanted = Wanted { name, model, packing: Packing { seed, fingerprint } };
            let found = index.look_up(&wanted);
            let found = found.or_else(|missed| index.after_miss(missed, &wanted, takes_unverified));
            found.map(|entry| entry.offset - 4096)
        };
        let (wb, named) = (Name::new("w").with_bias("b"), Name::new("named"));
        for takes_unverified in [false, true] {
            assert_eq!(
                find(wb, one, 5, takes_unverified),
                Ok(0),
                "what is stored as another's hides nothing"
            );
            assert_eq!(find(wb, two, 6, takes_unverified), Ok(128));
            assert_eq!(find(wb, one, 6, takes_unverified), Err(Reason::OtherModel));
            assert_eq!(find(wb, ModelId::default(), 7, takes_unverified), Ok(256));
            assert_eq!(find(named, one, 6, takes_unverified), Err(Reason::OtherSeed));
            assert_eq!(find(named, three, 5, takes_unverified), Err(Reason::OtherModel));
            assert_eq!(find(named, ModelId::default(), 5, takes_unverified), Err(Reason::OtherModel));
        }
        assert_eq!((find(wb, three, 7, false), find(wb, three, 7, true)), (Err(Reason::OtherModel), Ok(256)));
        // The file itself says that another algorithm packs this weight now.
        let mut builder = IndexBuilder::new();
        builder.push_imported(of(one, entry(Name::new("wb"), 5, 4096)));
        builder.push(of(one, entry(wb, 5, 4096 + 128)));
        let block = builder.finish(4096 + 256, 1).unwrap();
        let layout = Layout::check(&block, &Slot::of(1, 4096 + 256, &block)).unwrap();
        let wanted = Wanted { name: wb, model: one, packing: Packing { seed: 5, fingerprint } };
        let missed = layout.view(&block).look_up(&wanted).unwrap_err();
        assert_eq!(missed, Reason::OtherFingerprint);
        assert_eq!(layout.view(&block).after_miss(missed, &wanted, true), Err(missed));

        let imported = |seed, takes_unverified| {
            let wanted = Wanted { name: wb, model: three, packing: Packing::of_seed(seed) };
            index.look_up_imported(&wanted, takes_unverified).map(|entry| entry.model)
        };
        assert_eq!(imported(7, false), Err(Reason::UnverifiedModel));
        assert_eq!(imported(7, true), Ok(ModelId::default()));
        assert_eq!(imported(8, true), Err(Reason::OtherSeed));
    }
}

//! How an index of version 3 is made: from entries in any order.

use alloc::vec::Vec;

use super::{
    ALIGNMENT, FOOTER_LEN, HEADER_LEN, ModelId, Name, Packing, Refusal, VERSION, Wanted,
    footer::Footer,
    index::{self, IndexSlot},
    record::{Form, Record, UNIT},
};

/// An entry that an index is to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewEntry<'a> {
    /// Which weight.
    pub name: Name<'a>,
    /// Of which model.
    pub model: ModelId,
    /// Packed how.
    pub packing: Packing,
    /// Where the payload begins, in bytes from the start of the file: a multiple of [`ALIGNMENT`] behind the header.
    pub offset: u64,
    /// Bytes of the payload.
    pub size: u64,
    /// XXH3-64 of the payload.
    pub checksum: u64,
    /// The commit that adds it.
    pub generation: u64,
}

/// Collects entries, and makes the index of them.
///
/// ```
/// use warmstart_core::trailer::{ModelId, Name, Packing, build::{IndexBuilder, NewEntry}, header::Slot, index::Layout};
///
/// let mut builder = IndexBuilder::new();
/// builder.push(NewEntry {
///     name: Name::new("layer.0.weight").with_bias("layer.0.bias"),
///     model: ModelId::from_bytes([1; 32]),
///     packing: Packing::of_seed(7),
///     offset: 4096,
///     size: 100,
///     checksum: 0x1234,
///     generation: 1,
/// });
/// // Behind the last payload, at a multiple of 128.
/// let index_start = 4224;
/// let block = builder.finish(index_start, 1)?;
/// let layout = Layout::check(&block, &Slot::of(1, index_start, &block))?;
/// assert_eq!(layout.len(), 1);
/// # Ok::<(), warmstart_core::trailer::Refusal>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct IndexBuilder<'a> {
    entries: Vec<Given<'a>>,
}

/// An entry, and whether it came from version 2.
#[derive(Clone, Copy, Debug)]
struct Given<'a> {
    entry: NewEntry<'a>,
    is_imported: bool,
}

impl<'a> NewEntry<'a> {
    /// What finds the entry.
    #[must_use]
    pub const fn wanted(&self) -> Wanted<'a> {
        Wanted { name: self.name, model: self.model, packing: self.packing }
    }
}

impl<'a> IndexBuilder<'a> {
    /// Of no entries.
    #[must_use]
    pub const fn new() -> Self {
        Self { entries: Vec::new() }
    }

    /// Adds an entry. It is checked when the index is finished.
    pub fn push(&mut self, entry: NewEntry<'a>) {
        self.entries.push(Given { entry, is_imported: false });
    }

    /// Adds an entry of a file of version 2, under its joined name, of the model given, which is of all zeros if it
    /// is not known. Of its packing only the seed counts: version 2 says no more. It is found by
    /// [`look_up_imported`](index::Index::look_up_imported) alone.
    pub fn push_imported(&mut self, entry: NewEntry<'a>) {
        let packing = Packing::of_seed(entry.packing.seed);
        self.entries.push(Given { entry: NewEntry { packing, ..entry }, is_imported: true });
    }

    /// The number of entries.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The index block of these entries, to be written at `index_start` by the commit of this generation.
    ///
    /// # Errors
    /// [`Refusal::Flags`] if an imported entry has a bias of its own; [`Refusal::SlotPlace`] if no index can be there, or of
    /// this generation; [`Refusal::Misaligned`],
    /// [`Refusal::OutOfBounds`], [`Refusal::Overlap`] or [`Refusal::Duplicate`] with the place of an entry among all in
    /// ascending order of offset; [`Refusal::TooLong`].
    pub fn finish(mut self, index_start: u64, generation: u64) -> Result<Vec<u8>, Refusal> {
        let count = u32::try_from(self.entries.len()).map_err(|_| Refusal::TooLong)?;
        // What takes no room is before what begins where it does.
        self.entries.sort_by_key(|given| (given.entry.offset, given.entry.size));
        check_places(&self.entries, index_start)?;
        let models = models(&self.entries);
        let bucket_bits = count.max(1).checked_next_power_of_two().map_or(31, u32::trailing_zeros).min(31);
        let order = order(&self.entries, bucket_bits)?;
        let mut slot_of = alloc::vec![0; self.entries.len()];
        for (slot, filed) in (0u32..).zip(&order) {
            slot_of[filed.entry as usize] = slot;
        }
        let (records, places) = records(&self.entries, &models, &slot_of)?;

        let mut block = head(generation, [count, models.len() as u32, bucket_bits], records.len() as u64);
        block.extend(models.iter().flat_map(ModelId::as_bytes));
        push_buckets(&mut block, &order, bucket_bits);
        for Filed { hash, entry, .. } in &order {
            let slot = IndexSlot { tag: index::tag(*hash), at: places[*entry as usize] };
            block.extend_from_slice(&slot.encode());
        }
        block.extend_from_slice(&records);
        block.extend_from_slice(&Footer { index_start, entry_count: count, version: VERSION }.encode());
        super::header::Slot { generation, index_start, index_len: block.len() as u64, index_sum: 0 }
            .check()?;
        Ok(block)
    }
}

impl<'a> Extend<NewEntry<'a>> for IndexBuilder<'a> {
    fn extend<I: IntoIterator<Item = NewEntry<'a>>>(&mut self, entries: I) {
        self.entries.extend(entries.into_iter().map(|entry| Given { entry, is_imported: false }));
    }
}

impl<'a> FromIterator<NewEntry<'a>> for IndexBuilder<'a> {
    fn from_iter<I: IntoIterator<Item = NewEntry<'a>>>(entries: I) -> Self {
        let mut builder = Self::new();
        builder.extend(entries);
        builder
    }
}

/// Where an entry is looked for.
struct Filed {
    bucket: u64,
    hash: u64,
    /// Its place among all in ascending order of offset.
    entry: u32,
}

/// That payloads are aligned, behind the header, before the index, and behind each other.
fn check_places(entries: &[Given<'_>], index_start: u64) -> Result<(), Refusal> {
    let mut before = HEADER_LEN as u64;
    for (ordinal, Given { entry, is_imported }) in (0u32..).zip(entries) {
        if *is_imported && entry.name.bias.is_some() {
            return Err(Refusal::Flags(ordinal));
        }
        if !entry.offset.is_multiple_of(ALIGNMENT) {
            return Err(Refusal::Misaligned(ordinal));
        }
        let end = entry.offset.checked_add(entry.size).ok_or(Refusal::OutOfBounds(ordinal))?;
        if entry.offset < HEADER_LEN as u64 || end > index_start {
            return Err(Refusal::OutOfBounds(ordinal));
        }
        if entry.offset < before {
            return Err(Refusal::Overlap(ordinal));
        }
        before = end;
    }
    Ok(())
}

/// Every model once, ascending.
fn models(entries: &[Given<'_>]) -> Vec<ModelId> {
    let mut models: Vec<ModelId> = Vec::new();
    for Given { entry, .. } in entries {
        // Entries of a model mostly follow each other, and there are few models.
        if models.last() != Some(&entry.model) {
            models.push(entry.model);
        }
    }
    models.sort_unstable();
    models.dedup();
    models
}

/// The entries in the order of their slots.
fn order(entries: &[Given<'_>], bucket_bits: u32) -> Result<Vec<Filed>, Refusal> {
    let filed = |(ordinal, Given { entry, .. }): (u32, &Given<'_>)| {
        let hash = index::hash(&entry.name);
        Filed { bucket: index::bucket(hash, bucket_bits), hash, entry: ordinal }
    };
    let mut order: Vec<Filed> = (0u32..).zip(entries).map(filed).collect();
    let key = |filed: &Filed| {
        let Given { entry, is_imported } = &entries[filed.entry as usize];
        (entry.name, *is_imported, entry.model, entry.packing)
    };
    order.sort_unstable_by(|one, next| {
        let place = |filed: &Filed| (filed.bucket, index::tag(filed.hash));
        place(one).cmp(&place(next)).then_with(|| key(one).cmp(&key(next)))
    });
    match order.windows(2).find(|pair| pair[0].hash == pair[1].hash && key(&pair[0]) == key(&pair[1])) {
        Some(pair) => Err(Refusal::Duplicate(pair[0].entry.max(pair[1].entry))),
        None => Ok(order),
    }
}

/// The records, and where each begins.
fn records(
    entries: &[Given<'_>],
    models: &[ModelId],
    slot_of: &[u32],
) -> Result<(Vec<u8>, Vec<u32>), Refusal> {
    let (mut bytes, mut places) = (Vec::new(), Vec::with_capacity(entries.len()));
    for (Given { entry, is_imported }, slot) in entries.iter().zip(slot_of) {
        places.push(u32::try_from(bytes.len() / UNIT).map_err(|_| Refusal::TooLong)?);
        let model = models.binary_search(&entry.model).map_or(0, |at| at as u32);
        let numbers = [entry.offset, entry.size, entry.checksum, entry.generation];
        let form = Form::new(&entry.name, &entry.packing).ok_or(Refusal::TooLong)?;
        let record = Record::new(numbers, form, [model, *slot]);
        let record = if *is_imported { record.imported() } else { record };
        record.encode(&mut bytes);
        let Name { weight, bias } = entry.name;
        bytes.extend_from_slice(weight.as_bytes());
        bytes.extend_from_slice(bias.unwrap_or_default().as_bytes());
        bytes.resize(bytes.len().next_multiple_of(UNIT), 0);
    }
    Ok((bytes, places))
}

/// What an index begins with.
fn head(generation: u64, counts: [u32; 3], records_len: u64) -> Vec<u8> {
    let mut block = Vec::with_capacity(FOOTER_LEN + index::FIXED_LEN);
    block.extend_from_slice(&index::MAGIC);
    block.extend_from_slice(&generation.to_le_bytes());
    counts.iter().for_each(|count| block.extend_from_slice(&count.to_le_bytes()));
    block.extend_from_slice(&[0; 4]);
    block.extend_from_slice(&records_len.to_le_bytes());
    block.resize(index::FIXED_LEN, 0);
    block
}

/// Where each bucket begins among the slots, and where the last one ends.
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

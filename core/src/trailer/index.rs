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

mod entries;
mod look_up;
mod slot;

pub use entries::Entries;
pub(super) use slot::{IndexSlot, SLOT_LEN, bucket, hash, tag};

use super::{Entry, ModelId, Refusal, header::Slot};

pub(super) const MAGIC: [u8; 8] = *b"XPWCIDX3";

/// The length of what is before the models, in bytes.
pub(super) const FIXED_LEN: usize = 64;

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

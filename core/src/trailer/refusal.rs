//! Why the bytes of a pack were refused: one variant for each kind of fault.

use core::fmt;

use crate::reason::Reason;

/// Why a file of packed weights, or a part of one, was refused. Nothing of what was refused is used.
///
/// Faults of an entry carry its place among the records, or in the order in which it was given, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// There are fewer bytes than the part needs.
    Short {
        /// Bytes that there are.
        len: u64,
        /// Bytes that there must be at least.
        needed: u64,
    },
    /// Neither a header nor a footer of a pack.
    Foreign,
    /// Written in big-endian order.
    BigEndian,
    /// Version 1, which has no seeds.
    Version1,
    /// A version that is none, or is newer.
    UnknownVersion(u32),
    /// A footer of version 3 in a file that does not begin with the header of version 3.
    Headless,
    /// The header's checksum is not that of its bytes.
    HeaderChecksum,
    /// A commit slot was written, and its checksum is not that of its bytes.
    SlotChecksum,
    /// The index's checksum is not that of its bytes.
    IndexChecksum,
    /// Bytes that must be zeros are not.
    Reserved,
    /// A commit slot names a place where no index can be.
    SlotPlace,
    /// The file ends before the index does.
    Outside {
        /// Where the index ends.
        end: u64,
        /// The length of the file.
        len: u64,
    },
    /// The index is not where it should be: it begins with something else.
    IndexMagic,
    /// The index is of another generation than its commit slot.
    Generation,
    /// Counts and lengths do not add up to the length of the index.
    Lengths,
    /// The footer contradicts the index or the file.
    Footer,
    /// Models are not in ascending order.
    Models,
    /// Buckets do not divide the slots.
    Buckets,
    /// Slots are not in ascending order.
    Order,
    /// An entry runs over the end of its index, or its index over it.
    EntryLength(u32),
    /// An entry has a flag that means nothing, or a field that its flags say is absent.
    Flags(u32),
    /// An entry's offset is not a multiple of the alignment.
    Misaligned(u32),
    /// An entry's payload is not between the header and the index.
    OutOfBounds(u32),
    /// An entry's payload begins before the payload before it ends.
    Overlap(u32),
    /// A name is not UTF-8.
    NotUtf8(u32),
    /// An entry is of a model that the index does not list.
    UnknownModel(u32),
    /// An entry is not where its slot says.
    Unlinked(u32),
    /// An entry is in a slot where nobody looks for it.
    Misfiled(u32),
    /// Two entries answer to the same look-up. In version 2 that is so of two whose joined names are the same.
    Duplicate(u32),
    /// More entries, or longer names, than the format has room for.
    TooLong,
}

impl Refusal {
    /// The reason that statistics count it by.
    #[must_use]
    pub const fn reason(self) -> Reason {
        match self {
            Self::Short { .. } | Self::Outside { .. } => Reason::Truncated,
            Self::Foreign | Self::BigEndian => Reason::Foreign,
            Self::Version1 => Reason::OldVersion,
            Self::UnknownVersion(version) if version > super::VERSION => Reason::NewerVersion,
            Self::HeaderChecksum | Self::SlotChecksum | Self::IndexChecksum => Reason::ChecksumMismatch,
            Self::TooLong => Reason::TooLong,
            _ => Reason::Malformed,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { len, needed } => write!(f, "{len} bytes are too few: at least {needed} are needed"),
            Self::Foreign => f.write_str("this is no file of packed weights"),
            Self::BigEndian => {
                f.write_str("the file was written in big-endian order; packs are little-endian on every host")
            }
            Self::Version1 => {
                f.write_str("version 1 has no seeds, so that it does not tell how its weights were packed")
            }
            Self::UnknownVersion(version) => {
                write!(f, "version {version} is not known; versions 2 and 3 are read")
            }
            Self::Headless => f.write_str("the file ends like version 3, but does not begin with its header"),
            Self::HeaderChecksum => f.write_str("the header was damaged"),
            Self::SlotChecksum => f.write_str("a commit slot was damaged, or not written to its end"),
            Self::IndexChecksum => f.write_str("the index was damaged"),
            Self::Reserved => f.write_str("reserved bytes are not zeros"),
            Self::SlotPlace => f.write_str("a commit slot names a place where no index can be"),
            Self::Outside { end, len } => {
                write!(f, "the index ends at byte {end}, but the file at byte {len}")
            }
            Self::IndexMagic => f.write_str("no index is where the commit slot says"),
            Self::Generation => f.write_str("the index is of another generation than its commit slot"),
            Self::Lengths => f.write_str("counts and lengths do not add up to the length of the index"),
            Self::Footer => f.write_str("the footer contradicts the index or the file"),
            Self::Models => f.write_str("the models are not in ascending order"),
            Self::Buckets => f.write_str("the buckets do not divide the slots"),
            Self::Order => f.write_str("the slots are not in ascending order"),
            Self::EntryLength(entry) => {
                write!(f, "entry {entry} does not end where its index does, or before it")
            }
            Self::Flags(entry) => write!(f, "entry {entry} has flags that contradict its fields"),
            Self::Misaligned(entry) => {
                let (version3, version2) = (super::ALIGNMENT, super::PAGE);
                write!(
                    f,
                    "entry {entry} is not aligned: payloads begin at multiples of {version3} bytes in version 3, and of \
                     {version2} in version 2"
                )
            }
            Self::OutOfBounds(entry) => write!(f, "entry {entry} is not between the header and the index"),
            Self::Overlap(entry) => write!(f, "entry {entry} begins before the one before it ends"),
            Self::NotUtf8(entry) => write!(f, "the name of entry {entry} is not UTF-8"),
            Self::UnknownModel(entry) => write!(f, "entry {entry} is of a model that is not listed"),
            Self::Unlinked(entry) => write!(f, "entry {entry} is not where its slot says"),
            Self::Misfiled(entry) => write!(f, "entry {entry} is in a slot where nobody looks for it"),
            Self::Duplicate(entry) => write!(f, "entry {entry} answers to the same look-up as another"),
            Self::TooLong => f.write_str("more entries or longer names than the format has room for"),
        }
    }
}

impl core::error::Error for Refusal {}

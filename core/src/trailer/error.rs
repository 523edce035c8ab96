//! The reasons why the bytes of a pack are refused: one variant for each kind of damage.

use thiserror::Error;

use crate::reason::MissReason;

/// The reason why a file of packed weights, or a part of one, is refused. No refused bytes are used.
///
/// Variants about an entry carry its index among the records, or in the order in which it was given, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The input is shorter than this part of a file.
    #[error("{len} bytes are too few: at least {needed} are needed")]
    Short {
        /// The length of the input in bytes.
        len: u64,
        /// The least length in bytes.
        needed: u64,
    },
    /// The bytes are neither a header nor a footer of a pack.
    #[error("this is not a file of packed weights")]
    Foreign,
    /// The file was written in big-endian order.
    #[error("the file was written in big-endian order; packs are little-endian on every host")]
    BigEndian,
    /// The file is of version 1, which has no seeds.
    #[error("version 1 has no seeds, so that it does not tell how its weights were packed")]
    Version1,
    /// The version does not exist, or is newer.
    #[error("version {0} is not known; versions 2 and 3 are read")]
    UnknownVersion(u32),
    /// The footer is of version 3, but the file does not begin with the header of version 3.
    #[error("the file ends like version 3, but does not begin with its header")]
    Headless,
    /// The header's checksum does not match its bytes.
    #[error("the header was damaged")]
    HeaderChecksum,
    /// A commit slot was written, but its checksum does not match its bytes.
    #[error("a commit slot was damaged, or not written to its end")]
    SlotChecksum,
    /// The index's checksum does not match its bytes.
    #[error("the index was damaged")]
    IndexChecksum,
    /// Bytes that must be zero are not.
    #[error("reserved bytes are not zeros")]
    Reserved,
    /// A commit slot refers to a position where no index can be.
    #[error("a commit slot names a location where no index can be")]
    SlotPlace,
    /// The file ends before the index does.
    #[error("the index ends at byte {end}, but the file at byte {len}")]
    Outside {
        /// The end of the index, in bytes from the start of the file.
        end: u64,
        /// The length of the file in bytes.
        len: u64,
    },
    /// The bytes at the position of the index do not begin with its magic.
    #[error("there is no index where the commit slot says")]
    IndexMagic,
    /// The index has another generation than its commit slot.
    #[error("the index is of another generation than its commit slot")]
    Generation,
    /// Counts and lengths do not add up to the length of the index.
    #[error("counts and lengths do not add up to the length of the index")]
    Lengths,
    /// The footer contradicts the index or the file.
    #[error("the footer contradicts the index or the file")]
    Footer,
    /// Models are not in ascending order.
    #[error("the models are not in ascending order")]
    Models,
    /// Buckets do not divide the slots.
    #[error("the buckets do not divide the slots")]
    Buckets,
    /// Slots are not in ascending order.
    #[error("the slots are not in ascending order")]
    Order,
    /// An entry extends beyond the end of its index; or, in version 2, the index beyond the last entry that the footer counts.
    #[error("entry {0} extends beyond the end of the index, or is one more than the footer counts")]
    EntryLength(u32),
    /// An entry has an unknown flag, or a field that its flags mark as absent.
    #[error("entry {0} has flags that contradict its fields")]
    Flags(u32),
    /// An entry's offset is not a multiple of the alignment.
    #[error(
        "entry {0} is not aligned: payloads begin at multiples of 128 bytes in version 3, and of 4096 in version 2"
    )]
    Misaligned(u32),
    /// An entry's payload is not between the header and the index.
    #[error("entry {0} is not between the header and the index")]
    OutOfBounds(u32),
    /// An entry's payload overlaps the payload before it.
    #[error("entry {0} overlaps the entry before it")]
    Overlap(u32),
    /// A name is not UTF-8.
    #[error("the name of entry {0} is not UTF-8")]
    NotUtf8(u32),
    /// An entry refers to a model that the index does not list.
    #[error("entry {0} is of a model that is not listed")]
    UnknownModel(u32),
    /// An entry is not where its slot points.
    #[error("entry {0} is not where its slot says")]
    Unlinked(u32),
    /// An entry is in a slot where look-ups do not find it.
    #[error("entry {0} is in a slot where no look-up finds it")]
    Misfiled(u32),
    /// Two entries match the same look-up. In version 2, these are two entries with the same joined name.
    #[error("entry {0} has the key of another entry")]
    Duplicate(u32),
    /// There are more entries, or longer names, than the format can hold.
    #[error("there are more entries, or longer names, than the format can hold")]
    TooLong,
}

impl FormatError {
    /// Returns the miss reason under which statistics count this error.
    #[must_use]
    pub const fn reason(self) -> MissReason {
        match self {
            Self::Short { .. } | Self::Outside { .. } => MissReason::Truncated,
            Self::Foreign | Self::BigEndian => MissReason::Foreign,
            Self::Version1 => MissReason::OldVersion,
            Self::UnknownVersion(version) if version > super::VERSION => MissReason::NewerVersion,
            Self::HeaderChecksum | Self::SlotChecksum | Self::IndexChecksum => MissReason::ChecksumMismatch,
            Self::TooLong => MissReason::TooLong,
            _ => MissReason::Malformed,
        }
    }
}

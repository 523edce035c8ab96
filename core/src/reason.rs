//! Why a look-up missed, or why a store refused: one list that statistics count by.

use core::fmt;

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $explanation:literal;)*) => {
        /// Why a look-up missed, or why a store refused to keep an artifact.
        ///
        /// The same reason can be either: a closed store misses and refuses. More reasons may be added; a stored
        /// name ([`as_str`](Self::as_str)) never changes its meaning.
        ///
        /// ```
        /// use warmstart_core::reason::Reason;
        ///
        /// assert_eq!(Reason::ChecksumMismatch.as_str(), "checksum_mismatch");
        /// assert!(Reason::ChecksumMismatch.is_damage());
        /// assert!(!Reason::Absent.is_damage());
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Reason { $($(#[$doc])* $variant),* }

        impl Reason {
            /// Every reason, in the order of [`index`](Self::index).
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The stable name used in statistics and JSON, in snake case.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// One sentence for people.
            #[must_use]
            pub const fn explanation(self) -> &'static str {
                match self { $(Self::$variant => $explanation),* }
            }
        }
    };
}

// New ones are added at the end. Names are written to disk: none is changed, or given to another reason.
reasons! {
    /// Nothing is stored under this key.
    Absent = "absent", "nothing is stored under this key";
    /// The entry is shorter than its own header says.
    Truncated = "truncated", "the entry is shorter than its header says";
    /// The bytes do not begin like an entry of ours.
    Foreign = "foreign", "the entry was not written by warmstart";
    /// A field of the header or of the metadata contradicts another.
    Malformed = "malformed", "the entry contradicts itself";
    /// The stored checksum is not that of the bytes.
    ChecksumMismatch = "checksum_mismatch", "the entry's bytes changed after they were stored";
    /// The entry is whole, but it is another key's.
    KeyMismatch = "key_mismatch", "the entry belongs to another key";
    /// Written by a newer version of warmstart; left alone.
    NewerVersion = "newer_version", "written by a newer version of warmstart";
    /// Owned by a stranger, writable by others, a link, or not a regular file: never read.
    Untrusted = "untrusted", "the entry could have been written by somebody else";
    /// Something the artifact was made from is no longer what it was.
    InputChanged = "input_changed", "an input of the artifact has changed";
    /// An input changed while the artifact was being built, so that it is not known which one it was made from.
    InputUnstable = "input_unstable", "an input changed while the artifact was being built";
    /// The artifact depends on something that no key can hold, such as a file that only its text names.
    Uncacheable = "uncacheable", "the artifact depends on something that no key can hold";
    /// The store was busy or locked by somebody else for longer than one look-up may wait.
    Busy = "busy", "the store was locked for too long";
    /// The store was closed.
    Closed = "closed", "the store is closed";
    /// The medium failed, or there is no store.
    Unavailable = "unavailable", "the store could not be read or written";
    /// The entry is larger than the cap of the whole store.
    Oversize = "oversize", "the entry is larger than the cap";
    /// The store is on a read-only medium.
    ReadOnly = "read_only", "the store is read-only";
    /// The disk, or the quota, is full.
    NoSpace = "no_space", "no space is left for the store";
    /// The key, the metadata or the entry is longer than the format or the store allows.
    TooLong = "too_long", "the key, the metadata or the entry is longer than the format or the store allows";
    /// The entry has a seal, but it is not that of this store's secret: forged, altered, or another secret's.
    Forged = "forged", "the entry's seal is not that of this store's secret";
    /// The entry has no seal, and the store takes none without.
    Unsealed = "unsealed", "the entry has no seal";
    /// The entry has a seal, and the store has no secret to check it with.
    Sealed = "sealed", "the entry has a seal, and this store has no secret";
    /// The same weight of another model is stored.
    OtherModel = "other_model", "the weight is stored, but as another model's";
    /// The weight was packed for another micro-kernel.
    OtherSeed = "other_seed", "the weight is stored, but packed for another micro-kernel";
    /// The weight was packed by another version of the packing algorithm.
    OtherFingerprint = "other_fingerprint", "the weight is stored, but packed by another algorithm";
    /// Nobody said which weight this is, so that it could never be found again.
    Unnamed = "unnamed", "the weight has no name";
    /// Written in a version that lacks what a look-up must check.
    OldVersion = "old_version", "written in an older version, which lacks what must be checked";
    /// The weight was imported from a file that does not say of which model it is.
    UnverifiedModel = "unverified_model", "the weight is stored, but nothing says of which model it is";
}

impl Reason {
    /// How many reasons there are: the length of an array indexed by [`index`](Self::index).
    pub const COUNT: usize = Self::ALL.len();

    /// The place of this reason in [`ALL`](Self::ALL).
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The reason with this stable name, if there is one.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| reason.as_str() == name)
    }

    /// Whether the entry itself is bad, so that removing it is the cure.
    #[must_use]
    pub const fn is_damage(self) -> bool {
        matches!(
            self,
            Self::Truncated | Self::Foreign | Self::Malformed | Self::ChecksumMismatch | Self::KeyMismatch
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.explanation())
    }
}

impl core::error::Error for Reason {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_stands_at_its_index_under_a_name_of_its_own() {
        for (index, reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(reason.index(), index);
            assert_eq!(Reason::from_name(reason.as_str()), Some(*reason));
        }
        assert_eq!(Reason::from_name("no such reason"), None);
    }
}

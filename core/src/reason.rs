//! Miss reasons: why look-ups miss and stores refuse. Statistics count by this list.

use thiserror::Error;

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $explanation:literal;)*) => {
        /// The reason why a look-up missed, or why a store refused to keep an artifact.
        ///
        /// A reason can apply to both: a closed store misses and refuses. More reasons may be added; a stored name
        /// ([`as_str`](Self::as_str)) never changes its meaning.
        ///
        /// ```
        /// use warmstart_core::reason::MissReason;
        ///
        /// assert_eq!(MissReason::ChecksumMismatch.as_str(), "checksum_mismatch");
        /// assert!(MissReason::ChecksumMismatch.is_damage());
        /// assert!(!MissReason::Absent.is_damage());
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Error)]
        #[error("{}", self.explanation())]
        #[non_exhaustive]
        pub enum MissReason { $($(#[$doc])* $variant),* }

        impl MissReason {
            /// Every reason, in the order of [`index`](Self::index).
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Returns the stable name used in statistics and JSON, in snake case.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// Returns an explanation of the reason in plain English.
            #[must_use]
            pub const fn explanation(self) -> &'static str {
                match self { $(Self::$variant => $explanation),* }
            }
        }
    };
}

// Add new reasons at the end. Names are written to disk: never change one, or reuse it for another reason.
reasons! {
    /// Nothing is stored under this key.
    Absent = "absent", "nothing is stored under this key";
    /// The entry is shorter than its own header says.
    Truncated = "truncated", "the entry is shorter than its header says";
    /// The bytes do not begin like an entry of warmstart.
    Foreign = "foreign", "the entry was not written by warmstart";
    /// A field of the header or of the metadata contradicts another.
    Malformed = "malformed", "the entry contradicts itself";
    /// The stored checksum does not match the bytes.
    ChecksumMismatch = "checksum_mismatch", "the entry's bytes changed after they were stored";
    /// The entry is intact, but belongs to another key.
    KeyMismatch = "key_mismatch", "the entry belongs to another key";
    /// A newer version of warmstart wrote the entry, which is left alone.
    NewerVersion = "newer_version", "written by a newer version of warmstart";
    /// Another user owns the file or may write to it, or it is a link or not a regular file. It is never read.
    Untrusted = "untrusted", "the entry could have been written by another user";
    /// An input of the artifact has changed.
    InputChanged = "input_changed", "an input of the artifact has changed";
    /// An input changed while the artifact was being built, so it is unknown which version was used.
    InputUnstable = "input_unstable", "an input changed while the artifact was being built";
    /// The artifact depends on something that no key can hold, such as a file that only its source text names.
    Uncacheable = "uncacheable", "the artifact depends on something that no key can hold";
    /// The store was busy, or locked by another thread or process, for longer than a look-up may wait.
    Busy = "busy", "the store was locked for too long";
    /// The store was closed.
    Closed = "closed", "the store is closed";
    /// The storage medium failed, or there is no store.
    Unavailable = "unavailable", "the store could not be read or written";
    /// The entry is larger than the cap of the whole store.
    Oversize = "oversize", "the entry is larger than the cap";
    /// The store is on a read-only medium.
    ReadOnly = "read_only", "the store is read-only";
    /// The disk, or the quota, is full.
    NoSpace = "no_space", "no space is left for the store";
    /// The key, the metadata or the entry is longer than the format or the store allows.
    TooLong = "too_long", "the key, the metadata or the entry is longer than the format or the store allows";
    /// The entry's seal does not match the store's secret: the entry was forged or altered, or sealed with another secret.
    Forged = "forged", "the entry's seal is not that of this store's secret";
    /// The entry has no seal, and the store requires one.
    Unsealed = "unsealed", "the entry has no seal";
    /// The entry has a seal, and the store has no secret to check it with.
    Sealed = "sealed", "the entry has a seal, and this store has no secret";
    /// The weight is stored, but only for another model.
    OtherModel = "other_model", "the weight is stored, but as another model's";
    /// The weight was packed for another micro-kernel.
    OtherSeed = "other_seed", "the weight is stored, but packed for another micro-kernel";
    /// The weight was packed by another version of the packing algorithm.
    OtherFingerprint = "other_fingerprint", "the weight is stored, but packed by another algorithm";
    /// The weight has no name, so that it could never be found again.
    Unnamed = "unnamed", "the weight has no name";
    /// An older version wrote the entry, without data that a look-up must check.
    OldVersion = "old_version", "written in an older version, which lacks what must be checked";
    /// The weight was imported from a file that does not identify its model.
    UnverifiedModel = "unverified_model", "the weight is stored, but nothing says of which model it is";
    /// A remote refused the credentials, or they do not permit this operation.
    Forbidden = "forbidden", "the credentials of the remote are missing, wrong or too weak";
}

impl MissReason {
    /// The number of reasons, and the length of an array indexed by [`index`](Self::index).
    pub const COUNT: usize = Self::ALL.len();

    /// Returns the position of this reason in [`ALL`](Self::ALL).
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Looks up the reason with this stable name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| reason.as_str() == name)
    }

    /// Returns whether the entry itself is damaged and should be removed.
    #[must_use]
    pub const fn is_damage(self) -> bool {
        matches!(
            self,
            Self::Truncated | Self::Foreign | Self::Malformed | Self::ChecksumMismatch | Self::KeyMismatch
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_stands_at_its_index_under_a_name_of_its_own() {
        for (index, reason) in MissReason::ALL.iter().enumerate() {
            assert_eq!(reason.index(), index);
            assert_eq!(MissReason::from_name(reason.as_str()), Some(*reason));
        }
        assert_eq!(MissReason::from_name("no such reason"), None);
    }
}

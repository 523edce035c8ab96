//! The decoded head of an envelope: key, metadata and lengths, read without the payload and therefore unverified.

use alloc::vec::Vec;

use crate::{
    artifact::{Artifact, Metadata, Provenance},
    envelope::Layout,
    reason::MissReason,
};

pub use crate::envelope::MAX_HEAD_LEN;

/// The key, metadata, payload length and provenance of an entry, read from its head. The checksum is not checked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Head {
    /// The full key.
    pub key: Vec<u8>,
    /// The recipe of the key and the attributes of the artifact.
    pub metadata: Metadata,
    /// The length of the payload in bytes.
    pub payload_len: u64,
    /// The time at which the artifact was built, and the duration of the build.
    pub provenance: Provenance,
    /// Whether the entry is sealed.
    pub is_sealed: bool,
}

impl Head {
    /// Decodes the head of an envelope with this layout from at least its first [`Layout::head_len`] bytes.
    ///
    /// ```
    /// use warmstart_core::{artifact::Artifact, envelope::{self, Layout}, head::Head};
    ///
    /// let artifact = Artifact::new(vec![7; 1000]);
    /// let stored = envelope::encode(b"key", &artifact, None)?.to_vec();
    /// let layout = Layout::parse(&stored[..64], stored.len() as u64)?;
    /// let head = Head::parse(&stored[..layout.head_len()], &layout)?;
    /// assert_eq!((&*head.key, head.payload_len), (&b"key"[..], 1000));
    /// # Ok::<(), warmstart_core::reason::MissReason>(())
    /// ```
    ///
    /// # Errors
    /// [`MissReason::TooLong`] if the head is longer than [`MAX_HEAD_LEN`], [`MissReason::Truncated`] if bytes are missing, or
    /// [`MissReason::Malformed`] if the metadata was not written by this crate.
    pub fn parse(bytes: &[u8], layout: &Layout) -> Result<Self, MissReason> {
        if layout.head_len() > MAX_HEAD_LEN {
            return Err(MissReason::TooLong);
        }
        Ok(Self {
            key: bytes.get(layout.key()).ok_or(MissReason::Truncated)?.to_vec(),
            metadata: Metadata::decode(bytes.get(layout.metadata()).ok_or(MissReason::Truncated)?)?,
            payload_len: layout.payload().len() as u64,
            provenance: layout.provenance(),
            is_sealed: layout.is_sealed(),
        })
    }

    /// Returns the head that `artifact` would have if it were stored under `key` without a seal.
    ///
    /// # Errors
    /// [`MissReason::Malformed`] if the metadata was not written by this crate.
    pub fn of(key: &[u8], artifact: &Artifact) -> Result<Self, MissReason> {
        Ok(Self {
            key: key.to_vec(),
            metadata: artifact.metadata()?,
            payload_len: artifact.payload().len() as u64,
            provenance: artifact.provenance(),
            is_sealed: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::envelope::{HEADER_LEN, PAYLOAD_ALIGN, encode};

    /// An entry whose key alone makes the head this long. No entry is written with one that is too long.
    fn parsed(head_len: usize) -> Result<Head, MissReason> {
        let written = encode(b"", &Artifact::new(Vec::new()), None)?.to_vec();
        let key_len = u32::try_from(head_len - HEADER_LEN).unwrap();
        // Zeros, because Miri takes minutes to write another byte so often.
        let mut stored = vec![0; head_len.next_multiple_of(PAYLOAD_ALIGN)];
        stored[..written.len()].copy_from_slice(&written);
        stored[20..24].copy_from_slice(&key_len.to_le_bytes());
        let layout = Layout::parse(&stored, stored.len() as u64)?;
        assert_eq!(layout.head_len(), head_len);
        Head::parse(&stored, &layout)
    }

    #[test]
    fn head_longer_than_the_longest_is_too_long() {
        assert_eq!(parsed(MAX_HEAD_LEN).map(|head| head.key.len()), Ok(MAX_HEAD_LEN - HEADER_LEN));
        assert_eq!(parsed(MAX_HEAD_LEN + 1), Err(MissReason::TooLong));
    }

    #[test]
    fn head_whose_bytes_are_missing_is_truncated() {
        let artifact =
            Artifact::new(Vec::new()).with_metadata(&Metadata::new().with_attribute("name", "value"));
        let stored = encode(b"key", &artifact, None).unwrap().to_vec();
        let layout = Layout::parse(&stored, stored.len() as u64).unwrap();
        assert!(Head::parse(&stored[..layout.metadata().end], &layout).is_ok());
        for len in [0, layout.key().end - 1, layout.key().end, layout.metadata().end - 1] {
            assert_eq!(Head::parse(&stored[..len], &layout), Err(MissReason::Truncated), "{len}");
        }
    }
}

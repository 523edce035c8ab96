//! The head of an envelope: what it says of itself, readable without the payload, and not proved.

use alloc::vec::Vec;

use crate::{
    artifact::{Artifact, Provenance},
    envelope::Layout,
    metadata::Metadata,
    reason::Reason,
};

pub use crate::envelope::MAX_HEAD_LEN;

/// What the head of an entry says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Head {
    /// The full key.
    pub key: Vec<u8>,
    /// What is known about the artifact.
    pub metadata: Metadata,
    /// The length of the payload in bytes.
    pub payload_len: u64,
    /// When the artifact was made and what that cost.
    pub provenance: Provenance,
    /// Whether the entry bears a seal.
    pub is_sealed: bool,
}

impl Head {
    /// The head of an envelope with this layout, of which at least the first [`Layout::head_len`] bytes are given.
    ///
    /// ```
    /// use warmstart_core::{artifact::Artifact, envelope::{self, Layout}, head::Head};
    ///
    /// let artifact = Artifact::new(vec![7; 1000]);
    /// let stored = envelope::encode(b"key", &artifact)?.to_vec();
    /// let layout = Layout::parse(&stored[..64], stored.len() as u64)?;
    /// let head = Head::parse(&stored[..layout.head_len()], &layout)?;
    /// assert_eq!((&*head.key, head.payload_len), (&b"key"[..], 1000));
    /// # Ok::<(), warmstart_core::reason::Reason>(())
    /// ```
    ///
    /// # Errors
    /// [`Reason::TooLong`] if the head is longer than [`MAX_HEAD_LEN`], [`Reason::Truncated`] if bytes are missing, or
    /// [`Reason::Malformed`] if the metadata was not written by this crate.
    pub fn parse(bytes: &[u8], layout: &Layout) -> Result<Self, Reason> {
        if layout.head_len() > MAX_HEAD_LEN {
            return Err(Reason::TooLong);
        }
        Ok(Self {
            key: bytes.get(layout.key()).ok_or(Reason::Truncated)?.to_vec(),
            metadata: Metadata::decode(bytes.get(layout.metadata()).ok_or(Reason::Truncated)?)?,
            payload_len: layout.payload().len() as u64,
            provenance: layout.provenance(),
            is_sealed: layout.is_sealed(),
        })
    }

    /// The head that an artifact would have under this key, without a seal.
    ///
    /// # Errors
    /// [`Reason::Malformed`] if the metadata was not written by this crate.
    pub fn of(key: &[u8], artifact: &Artifact) -> Result<Self, Reason> {
        Ok(Self {
            key: key.to_vec(),
            metadata: artifact.metadata()?,
            payload_len: artifact.payload().len() as u64,
            provenance: artifact.provenance(),
            is_sealed: false,
        })
    }
}

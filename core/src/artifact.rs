//! An artifact: the payload that is cached, and what is known about it.

use alloc::{sync::Arc, vec::Vec};
use core::{fmt, ops::Range};

use crate::{metadata::Metadata, reason::Reason};

/// A cached payload with its metadata, shared by reference: a clone copies no bytes.
///
/// ```
/// use warmstart_core::{artifact::Artifact, metadata::Metadata};
///
/// let artifact = Artifact::new(vec![1, 2, 3]).with_metadata(&Metadata::new().with_attribute("name", b"f"));
/// assert_eq!(artifact.payload(), [1, 2, 3]);
/// assert_eq!(artifact.metadata()?.attribute("name"), Some(&b"f"[..]));
/// # Ok::<(), warmstart_core::reason::Reason>(())
/// ```
#[derive(Clone)]
pub struct Artifact(Arc<Shared>);

#[derive(Clone)]
struct Shared {
    /// A whole envelope as it was read, or the payload alone: a hit is not copied out of the buffer it was read into.
    buffer: Buffer,
    payload: Range<usize>,
    metadata: Source,
    provenance: Provenance,
}

#[derive(Clone)]
enum Buffer {
    Vec(Vec<u8>),
    Owner(Arc<dyn AsRef<[u8]> + Send + Sync>),
}

impl Buffer {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Vec(bytes) => bytes,
            Self::Owner(owner) => (**owner).as_ref(),
        }
    }
}

/// Where the encoded metadata is.
#[derive(Clone)]
enum Source {
    /// A range of the buffer.
    Inside(Range<usize>),
    Beside(Vec<u8>),
}

/// When an artifact was made and what that cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// When it was built, in milliseconds since 1970 UTC; 0 if unknown.
    pub created_unix_ms: u64,
    /// How long the build took, in nanoseconds; 0 if unknown.
    pub build_nanos: u64,
}

impl Artifact {
    /// An artifact of these bytes.
    #[must_use]
    pub fn new(payload: Vec<u8>) -> Self {
        let range = 0..payload.len();
        Self::of_buffer(Buffer::Vec(payload), range)
    }

    /// An artifact of the bytes that `owner` has, such as a mapping or the bytes object of another language. They are not
    /// copied; the owner is dropped with the last clone of the artifact.
    ///
    /// The owner must return the same bytes each time.
    ///
    /// ```
    /// use warmstart_core::artifact::Artifact;
    ///
    /// let boxed: Box<[u8]> = Box::new([1, 2, 3]);
    /// assert_eq!(Artifact::from_owner(boxed).payload(), [1, 2, 3]);
    /// assert_eq!(Artifact::from_owner("text").payload(), b"text");
    /// ```
    #[must_use]
    pub fn from_owner(owner: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        let range = 0..owner.as_ref().len();
        Self::of_buffer(Buffer::Owner(Arc::new(owner)), range)
    }

    fn of_buffer(buffer: Buffer, payload: Range<usize>) -> Self {
        let (metadata, provenance) = (Source::Beside(Vec::new()), Provenance::default());
        Self(Arc::new(Shared { buffer, payload, metadata, provenance }))
    }

    /// The artifact inside an envelope. The caller has checked that both ranges lie within `buffer`.
    pub(crate) fn inside(
        buffer: Vec<u8>,
        payload: Range<usize>,
        metadata: Range<usize>,
        provenance: Provenance,
    ) -> Self {
        debug_assert!(payload.end <= buffer.len() && metadata.end <= buffer.len());
        let buffer = Buffer::Vec(buffer);
        Self(Arc::new(Shared { buffer, payload, metadata: Source::Inside(metadata), provenance }))
    }

    /// The same payload with other metadata. Copies the payload only if the artifact is shared.
    #[must_use]
    pub fn with_metadata(mut self, metadata: &Metadata) -> Self {
        Arc::make_mut(&mut self.0).metadata = Source::Beside(metadata.encode());
        self
    }

    /// The same payload with another provenance. Copies the payload only if the artifact is shared.
    #[must_use]
    pub fn with_provenance(mut self, provenance: Provenance) -> Self {
        Arc::make_mut(&mut self.0).provenance = provenance;
        self
    }

    /// The cached bytes.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        self.0.buffer.bytes().get(self.0.payload.clone()).unwrap_or_default()
    }

    /// What is known about the payload, decoded anew at each call: a hit that does not ask does not pay.
    ///
    /// # Errors
    /// [`Reason::Malformed`] if the metadata, whose checksum held, was not written by this crate.
    pub fn metadata(&self) -> Result<Metadata, Reason> {
        Metadata::decode(self.encoded_metadata())
    }

    /// The metadata as it is stored.
    #[must_use]
    pub fn encoded_metadata(&self) -> &[u8] {
        match &self.0.metadata {
            Source::Inside(range) => self.0.buffer.bytes().get(range.clone()).unwrap_or_default(),
            Source::Beside(bytes) => bytes,
        }
    }

    /// When the artifact was made and what that cost.
    #[must_use]
    pub fn provenance(&self) -> Provenance {
        self.0.provenance
    }

    /// Whether two artifacts are one and the same in memory.
    ///
    /// ```
    /// # use warmstart_core::artifact::Artifact;
    /// let one = Artifact::new(vec![1]);
    /// assert!(one.ptr_eq(&one.clone()));
    /// assert!(!one.ptr_eq(&Artifact::new(vec![1])));
    /// ```
    #[must_use]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Artifact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Artifact")
            .field("payload_len", &self.payload().len())
            .field("metadata_len", &self.encoded_metadata().len())
            .field("provenance", &self.0.provenance)
            .finish()
    }
}

impl From<Vec<u8>> for Artifact {
    fn from(payload: Vec<u8>) -> Self {
        Self::new(payload)
    }
}

impl From<&[u8]> for Artifact {
    fn from(payload: &[u8]) -> Self {
        Self::new(payload.to_vec())
    }
}

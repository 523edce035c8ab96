//! Artifacts: a cached payload with its metadata and provenance, and the encoding of metadata.
//!
//! Metadata is encoded item by item, as postcard does. A decoder allocates only for items that are there, whatever a count
//! claims.

use alloc::{string::String, sync::Arc, vec::Vec};
use core::{fmt, ops::Range};

use serde::{Deserialize, Serialize};

use crate::{
    reason::MissReason,
    recipe::{Recipe, RecipeField},
};

/// The most items of a stored list: of a recipe's fields, an artifact's attributes, a record's rows. A decoder refuses longer
/// lists, so that forged bytes cannot make it allocate much more than their own length.
pub const MAX_ITEMS: u64 = 1 << 16;

/// A cached payload with its metadata, shared by reference: a clone copies no bytes.
///
/// ```
/// use warmstart_core::artifact::{Artifact, Metadata};
///
/// let artifact = Artifact::new(vec![1, 2, 3]).with_metadata(&Metadata::new().with_attribute("name", b"f"));
/// assert_eq!(artifact.payload(), [1, 2, 3]);
/// assert_eq!(artifact.attribute("name"), Some(&b"f"[..]));
/// ```
#[derive(Clone)]
pub struct Artifact(Arc<Shared>);

#[derive(Clone)]
struct Shared {
    /// A whole envelope as it was read, or the payload alone. A hit is not copied out of the buffer it was read into.
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

/// The encoded metadata: a range of the buffer, or bytes of its own.
#[derive(Clone)]
enum Source {
    /// A range of the buffer.
    Inside(Range<usize>),
    Beside(Vec<u8>),
}

/// When an artifact was built and how long the build took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// When it was built, in milliseconds since 1970 UTC; 0 if unknown.
    pub created_unix_ms: u64,
    /// How long the build took, in nanoseconds; 0 if unknown.
    pub build_nanos: u64,
}

impl Artifact {
    /// Creates an artifact of these bytes, without metadata.
    #[must_use]
    pub fn new(payload: Vec<u8>) -> Self {
        let range = 0..payload.len();
        Self::of_buffer(Buffer::Vec(payload), range)
    }

    /// Creates an artifact of the bytes that `owner` has, such as a mapping or the bytes object of another language.
    /// Nothing is copied; the owner is dropped with the last clone of the artifact.
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

    /// Creates an artifact that keeps a whole envelope. The caller has checked that both ranges lie within `buffer`.
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

    /// Replaces the metadata. Copies the payload only if the artifact is shared.
    #[must_use]
    pub fn with_metadata(mut self, metadata: &Metadata) -> Self {
        Arc::make_mut(&mut self.0).metadata = Source::Beside(metadata.encode());
        self
    }

    /// Replaces the provenance. Copies the payload only if the artifact is shared.
    #[must_use]
    pub fn with_provenance(mut self, provenance: Provenance) -> Self {
        Arc::make_mut(&mut self.0).provenance = provenance;
        self
    }

    /// Returns the cached bytes.
    #[must_use]
    #[inline]
    pub fn payload(&self) -> &[u8] {
        self.0.buffer.bytes().get(self.0.payload.clone()).unwrap_or_default()
    }

    /// Decodes the metadata. Each call decodes it again, so a hit that does not need it costs nothing.
    ///
    /// # Errors
    /// [`MissReason::Malformed`] if the metadata was not encoded by this crate.
    pub fn metadata(&self) -> Result<Metadata, MissReason> {
        Metadata::decode(self.encoded_metadata())
    }

    /// Returns the value of the attribute `name` without decoding the rest of the metadata. `None` if there is no such
    /// attribute, or the metadata was not encoded by this crate.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<&[u8]> {
        Metadata::find(self.encoded_metadata(), name)
    }

    /// Returns the encoded metadata, as it is stored.
    #[must_use]
    pub fn encoded_metadata(&self) -> &[u8] {
        match &self.0.metadata {
            Source::Inside(range) => self.0.buffer.bytes().get(range.clone()).unwrap_or_default(),
            Source::Beside(bytes) => bytes,
        }
    }

    /// Returns when the artifact was built and how long the build took.
    #[must_use]
    pub fn provenance(&self) -> Provenance {
        self.0.provenance
    }

    /// Returns whether two artifacts share one allocation.
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

/// The recipe of an artifact's key and the attributes that a target keeps with it (lowered names, dependencies).
///
/// ```
/// use warmstart_core::{artifact::Metadata, key::KeyFields};
///
/// let metadata = Metadata::new()
///     .with_recipe(KeyFields::new("cpu", 1).text("source", "int f;").recipe())
///     .with_attribute("entry_point", b"f");
/// let decoded = Metadata::decode(&metadata.encode())?;
/// assert_eq!(decoded.attribute("entry_point"), Some(&b"f"[..]));
/// assert_eq!(decoded, metadata);
/// # Ok::<(), warmstart_core::reason::MissReason>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    recipe: Option<Recipe>,
    attributes: Vec<(String, Vec<u8>)>,
}

impl Metadata {
    /// The name of the attribute that describes an artifact without a recipe: a short text for people.
    pub const LABEL: &'static str = "label";

    /// Creates metadata without a recipe and without attributes.
    #[must_use]
    pub const fn new() -> Self {
        Self { recipe: None, attributes: Vec::new() }
    }

    /// Sets the recipe of the key.
    #[must_use]
    pub fn with_recipe(self, recipe: Recipe) -> Self {
        Self { recipe: Some(recipe), ..self }
    }

    /// Adds the attribute `name`, or replaces it.
    #[must_use]
    pub fn with_attribute(mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        let name = name.into();
        self.attributes.retain(|(other, _)| *other != name);
        self.attributes.push((name, value.into()));
        self
    }

    /// Returns the recipe of the key, if there is one.
    #[must_use]
    pub const fn recipe(&self) -> Option<&Recipe> {
        self.recipe.as_ref()
    }

    /// Returns the value of the attribute `name`.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<&[u8]> {
        self.attributes.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_slice())
    }

    /// Iterates over the attributes, in the order in which they were added.
    pub fn attributes(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.attributes.iter().map(|(name, value)| (name.as_str(), value.as_slice()))
    }

    /// Encodes the metadata as postcard does, in the layout that docs/format.md describes. Empty metadata is encoded as no
    /// bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if *self != Self::new() {
            put(&mut bytes, &(&self.recipe, &self.attributes));
        }
        bytes
    }

    /// Decodes the bytes that [`encode`](Self::encode) returns.
    ///
    /// # Errors
    /// [`MissReason::Malformed`] if the bytes are not exactly one encoded metadata.
    pub fn decode(bytes: &[u8]) -> Result<Self, MissReason> {
        let mut metadata = Self::new();
        let mut fields = Vec::new();
        let recipe = walk(
            bytes,
            |label, digest, text| {
                let field = RecipeField::stored(label, digest, text.map(String::from));
                field.map(|field| fields.push(field)).ok_or(Malformed)
            },
            |name, value| metadata.attributes.push((name.into(), value.into())),
        )?;
        metadata.recipe = recipe.map(|(domain, schema)| Recipe::new(domain, schema, fields));
        Ok(metadata)
    }

    /// Returns the value of an attribute from the bytes that [`encode`](Self::encode) returns, without a copy.
    pub(crate) fn find<'a>(bytes: &'a [u8], name: &str) -> Option<&'a [u8]> {
        let mut found = None;
        let walked = walk(
            bytes,
            |_, _, _| Ok(()),
            |other, value| {
                if found.is_none() && other == name {
                    found = Some(value);
                }
            },
        );
        walked.ok().and(found)
    }
}

/// An artifact and its origin: hit, coalesced or built.
#[derive(Clone, Debug)]
#[must_use]
pub struct Fetched {
    artifact: Artifact,
    origin: Origin,
}

/// How a caller got an artifact: from the store, from another caller's build, or from its own build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// The artifact was stored.
    Hit,
    /// The look-up missed, and another thread or process built the artifact meanwhile.
    Coalesced {
        /// Why the look-up missed.
        miss: MissReason,
    },
    /// The look-up missed, and this caller built the artifact.
    Built {
        /// Why the look-up missed.
        miss: MissReason,
        /// How many entries were evicted to store the artifact, or why it could not be stored.
        stored: Result<u64, MissReason>,
    },
}

impl Fetched {
    /// Pairs an artifact with its origin.
    pub const fn new(artifact: Artifact, origin: Origin) -> Self {
        Self { artifact, origin }
    }

    /// Returns the artifact.
    #[must_use]
    pub const fn artifact(&self) -> &Artifact {
        &self.artifact
    }

    /// Returns the artifact by value, and drops the origin.
    #[must_use]
    pub fn into_artifact(self) -> Artifact {
        self.artifact
    }

    /// Returns whether the artifact is a hit, coalesced or built.
    #[must_use]
    pub const fn origin(&self) -> Origin {
        self.origin
    }

    /// Returns whether the look-up was a hit.
    #[must_use]
    pub const fn is_hit(&self) -> bool {
        matches!(self.origin, Origin::Hit)
    }

    /// Returns why the look-up missed; `None` for a hit.
    #[must_use]
    pub const fn miss(&self) -> Option<MissReason> {
        match self.origin {
            Origin::Hit => None,
            Origin::Coalesced { miss } | Origin::Built { miss, .. } => Some(miss),
        }
    }

    /// Returns why the store refused the artifact that this caller built; `None` if it was stored or not built here.
    #[must_use]
    pub const fn refusal(&self) -> Option<MissReason> {
        match self.origin {
            Origin::Built { stored: Err(reason), .. } => Some(reason),
            _ => None,
        }
    }
}

/// Reads encoded metadata to its end. Passes each field of the recipe to `field` and each attribute to `attribute`, and returns
/// the domain and schema of the recipe, if there is one.
fn walk<'a>(
    mut rest: &'a [u8],
    mut field: impl FnMut(&'a str, [u8; 8], Option<&'a str>) -> Result<(), Malformed>,
    mut attribute: impl FnMut(&'a str, &'a [u8]),
) -> Result<Option<(&'a str, u32)>, Malformed> {
    if rest.is_empty() {
        return Ok(None);
    }
    let rest = &mut rest;
    let mut recipe = None;
    if take(rest)? {
        recipe = Some(take(rest)?);
        for _ in 0..take_count(rest)? {
            let (label, digest, text) = take(rest)?;
            field(label, digest, text)?;
        }
    }
    for _ in 0..take_count(rest)? {
        let (name, value) = take(rest)?;
        attribute(name, value);
    }
    if rest.is_empty() { Ok(recipe) } else { Err(Malformed) }
}

/// An error: the bytes are not encoded metadata or an encoded record.
#[derive(Debug)]
pub(crate) struct Malformed;

impl From<Malformed> for MissReason {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

/// Reads the next value.
pub(crate) fn take<'a, T: Deserialize<'a>>(rest: &mut &'a [u8]) -> Result<T, Malformed> {
    let (value, after) = postcard::take_from_bytes(rest).map_err(|_| Malformed)?;
    *rest = after;
    Ok(value)
}

/// Reads the number of items that follow, at most [`MAX_ITEMS`].
pub(crate) fn take_count(rest: &mut &[u8]) -> Result<u64, Malformed> {
    take(rest).ok().filter(|count| *count <= MAX_ITEMS).ok_or(Malformed)
}

/// Appends `value`. Postcard fails only for values of unknown length and full buffers; ours have a length, and the buffer grows.
pub(crate) fn put<T: Serialize + ?Sized>(bytes: &mut Vec<u8>, value: &T) {
    let encoded = postcard::to_allocvec(value);
    debug_assert!(encoded.is_ok(), "a value of known length always encodes into a growing buffer");
    bytes.extend_from_slice(&encoded.unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeyFields;

    fn full() -> Metadata {
        let recipe =
            KeyFields::new("cpu", 3).text("source", "s").bytes("b", &[1u8][..]).number("n", 5).recipe();
        Metadata::new().with_recipe(recipe).with_attribute("a", b"1").with_attribute("b", b"")
    }

    #[test]
    fn encoded_metadata_decodes() {
        for metadata in [Metadata::new(), Metadata::new().with_attribute("x", b"y"), full()] {
            let bytes = metadata.encode();
            for name in ["a", "b", "x", "recipe"] {
                assert_eq!(Metadata::find(&bytes, name), metadata.attribute(name), "{name}");
            }
            assert_eq!(Metadata::decode(&bytes), Ok(metadata));
        }
    }

    #[test]
    fn metadata_is_encoded_part_by_part() {
        let (metadata, mut bytes) = (full(), Vec::new());
        let recipe = metadata.recipe().unwrap();
        put(&mut bytes, &true);
        put(&mut bytes, recipe.domain());
        put(&mut bytes, &recipe.schema());
        put(&mut bytes, &3u64);
        for field in recipe.fields() {
            put(&mut bytes, field.label());
            bytes.extend_from_slice(&field.digest());
            put(&mut bytes, &field.value());
        }
        put(&mut bytes, &2u64);
        for (name, value) in metadata.attributes() {
            put(&mut bytes, name);
            put(&mut bytes, value);
        }
        assert_eq!(metadata.encode(), bytes);
        assert_eq!(Metadata::new().with_attribute("x", b"y").encode(), [0, 1, 1, b'x', 1, b'y']);
        assert_eq!(Metadata::new().encode(), []);
    }

    #[test]
    fn every_prefix_and_every_suffix_is_refused() {
        let bytes = full().encode();
        for end in 1..bytes.len() {
            assert_eq!(Metadata::decode(&bytes[..end]), Err(MissReason::Malformed), "prefix of {end}");
            assert_eq!(Metadata::find(&bytes[..end], "a"), None, "prefix of {end}");
        }
        let mut longer = bytes;
        longer.push(0);
        assert_eq!(Metadata::decode(&longer), Err(MissReason::Malformed));
        assert_eq!(Metadata::find(&longer, "a"), None);
    }

    #[test]
    fn a_count_that_lies_takes_no_memory() {
        // No recipe, then 2^63 attributes of which none follows.
        let mut bytes = alloc::vec![0];
        bytes.extend_from_slice(&postcard::to_allocvec(&(1u64 << 63)).unwrap());
        assert_eq!(Metadata::decode(&bytes), Err(MissReason::Malformed));
        // One attribute whose name claims 2^40 bytes.
        let mut bytes = alloc::vec![0, 1];
        bytes.extend_from_slice(&postcard::to_allocvec(&(1u64 << 40)).unwrap());
        assert_eq!(Metadata::decode(&bytes), Err(MissReason::Malformed));
    }

    #[test]
    fn a_text_that_no_recipe_has_is_refused() {
        let bytes = |len: usize| {
            let mut bytes = Vec::new();
            put(&mut bytes, &true);
            put(&mut bytes, "d");
            put(&mut bytes, &1u32);
            put(&mut bytes, &1u64);
            put(&mut bytes, &("label", [0u8; 8], Some("t".repeat(len))));
            put(&mut bytes, &0u64);
            bytes
        };
        assert!(Metadata::decode(&bytes(256)).is_ok());
        assert_eq!(Metadata::decode(&bytes(257)), Err(MissReason::Malformed));
    }

    #[test]
    fn an_attribute_of_the_same_name_is_replaced() {
        let metadata = Metadata::new().with_attribute("a", b"1").with_attribute("a", b"2");
        assert_eq!(metadata.attributes().count(), 1);
        assert_eq!(metadata.attribute("a"), Some(&b"2"[..]));
    }
}

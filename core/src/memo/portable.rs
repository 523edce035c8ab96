//! Results that outlive the process: they hold where the contents are the same.
//!
//! A generation counts writes in one process and says nothing in the next. So a portable result names what it was computed from by
//! digests of contents, and by extents, which mean the same everywhere.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};
use core::{error, fmt};

use serde::{Serialize, de::DeserializeOwned};

use super::{
    dependencies::{Dependencies, Observations, Observed, Seen, is_absent, is_worn, see},
    handle::{Handle, HandleError},
    launched::{Entry, Why},
    reduction::Reduction,
    specs::SpecTable,
    world::{ArgumentId, FieldId, World},
};
use crate::key::Key;

/// A [`Reduction`] whose results can be kept with an artifact.
///
/// Its specs, values and outputs need serde. Where there are no specs they are `()`: an `Infallible` cannot be read back.
///
/// ```
/// use std::convert::Infallible;
///
/// use warmstart_core::{
///     artifact::Artifact,
///     key::{Key, KeyFields},
///     launch_record::LaunchRecord,
///     memo::{Evaluate, FieldId, LaunchError, LaunchMemo, Portable, Recorder, Reduction, Tracked, World},
/// };
///
/// struct Kernel {
///     trip_count: FieldId,
/// }
///
/// impl Reduction for Kernel {
///     type Spec = ();
///     type Value = ();
///     type Output = u64;
///     type Error = Infallible;
/// }
///
/// impl<W: World<Field = u64>> Evaluate<W> for Kernel {
///     fn launch(&self, recorder: &mut Recorder<'_, Self, W>) -> Result<u64, LaunchError<Infallible>> {
///         Ok(recorder.field(self.trip_count).map_or(0, |count| count * 16))
///     }
///
///     fn spec(&self, (): &(), _: &mut Recorder<'_, Self, W>) -> Result<(), LaunchError<Infallible>> {
///         Ok(())
///     }
/// }
///
/// impl Portable for Kernel {
///     fn fingerprint(&self) -> Key {
///         KeyFields::new("stack of a loop", 1).number("trip count", self.trip_count.0.into()).key()
///     }
/// }
///
/// // One process launches, and keeps the result with the artifact.
/// let (mut world, memo) = (Tracked::<u64, ()>::new(), LaunchMemo::new());
/// let kernel = memo.register(Kernel { trip_count: world.add_field(9) });
/// assert_eq!(*memo.launch(kernel, &world.with_arguments(&[]))?, 144);
/// let result = memo.export(kernel, "solve", &world.with_arguments(&[]))?;
/// let artifact = LaunchRecord::new().with_result(result).attach(&Artifact::new(b"code".to_vec()))?;
///
/// // Another one loads the artifact, and finds the same contents: its first launch hits.
/// let (mut world, memo) = (Tracked::<u64, ()>::new(), LaunchMemo::new());
/// let kernel = memo.register(Kernel { trip_count: world.add_field(9) });
/// if let Some(result) = LaunchRecord::of(&artifact)?.as_ref().and_then(|record| record.result("solve")) {
///     assert!(memo.import(kernel, result, &world.with_arguments(&[]))?.output);
/// }
/// assert!(memo.launch(kernel, &world.with_arguments(&[]))?.is_hit());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Portable:
    Reduction<
        Spec: Serialize + DeserializeOwned,
        Value: Serialize + DeserializeOwned,
        Output: Serialize + DeserializeOwned,
    >
{
    /// What the results depend on beside the world: the evaluator's version, what the specs say, everything in `self`. Results of another
    /// fingerprint are refused. Derive it from [`KeyFields`](crate::key::KeyFields).
    ///
    /// The ids of fields and arguments in `self` belong to it: contents are found by their ids, so these have to be the same in every
    /// process. What is left out here is a wrong answer, and not a miss.
    fn fingerprint(&self) -> Key;
}

/// A [`World`] that can tell what is in a field and in an array, not only how often it was written.
///
/// A digest covers everything that an evaluation can read: elements, type and shape. [`Key::digest`] makes one. A runtime that knows it
/// beforehand, as of weights that it mapped from a file, need not compute it.
///
/// A result is exported under the digests of what it was computed from, and a generation tells whether these are still the same contents. So
/// if something may be written, or arguments may be bound, while another thread exports: what is being written has **no digest**, from
/// before its first byte changes until the write is counted, and arguments stay bound as they are. Else an old result would be
/// stored under the digest of new contents.
pub trait Contents: World {
    /// The digest of a field, or nothing if it has none: then what depends on it is not portable.
    fn field_digest(&self, field: FieldId) -> Option<Key>;

    /// The digest of the array that is bound to an argument, or nothing if it has none.
    fn array_digest(&self, argument: ArgumentId) -> Option<Key>;
}

/// Something that a portable result was computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Nothing if there was no such field.
    Field(FieldId, Option<Key>),
    /// Nothing if no array was bound.
    Array(ArgumentId, Option<Key>),
    /// Nothing if there was no such axis.
    Extent(ArgumentId, u32, Option<u64>),
}

/// An output, or the value of a spec, as postcard writes it, and what it was computed from: places in the list of contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) from: Vec<u32>,
    pub(super) bytes: Vec<u8>,
}

/// The result of a launch, and its specs, in a form that another process can take over if it finds the same contents.
///
/// A [`LaunchRecord`](crate::launch_record::LaunchRecord) carries it beside the artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortableResult {
    pub(super) kernel: String,
    pub(super) fingerprint: Key,
    pub(super) contents: Vec<Content>,
    pub(super) output: Option<Part>,
    /// Each spec as postcard writes it, and its value.
    pub(super) specs: Vec<(Vec<u8>, Part)>,
}

/// What became of a portable result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Whether the result of the launch was taken over.
    pub output: bool,
    /// How many specs were taken over.
    pub specs: usize,
    /// How many parts, specs and the result of the launch, were not, because the contents are other ones here.
    pub moved: usize,
}

/// Why a result is not made portable, or not taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PortableError {
    /// The handle leads to nothing.
    Handle(HandleError),
    /// No result is kept that holds in this world.
    NotKept,
    /// Nothing of it is portable: the world has no digests of what it was computed from.
    NoDigest,
    /// It was computed by another version of the reduction, or by another one.
    OtherFingerprint,
    /// It contradicts itself, or its values are not of these types.
    Malformed,
}

impl fmt::Display for PortableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handle(error) => error.fmt(f),
            Self::NotKept => f.write_str("no result is kept that holds in this world: launch first"),
            Self::NoDigest => {
                f.write_str("the world has no digest of what the result was computed from: give it one")
            }
            Self::OtherFingerprint => {
                f.write_str("the result is of another version of the reduction: evaluate again")
            }
            Self::Malformed => f.write_str("the stored result contradicts itself: evaluate again"),
        }
    }
}

impl error::Error for PortableError {}

impl PortableResult {
    /// The name under which the process that loads it finds it.
    #[must_use]
    pub fn kernel(&self) -> &str {
        &self.kernel
    }

    /// The [fingerprint](Portable::fingerprint) of the reduction that it is a result of.
    #[must_use]
    pub const fn fingerprint(&self) -> Key {
        self.fingerprint
    }

    /// How many specs it has.
    #[must_use]
    pub const fn specs(&self) -> usize {
        self.specs.len()
    }

    /// Whether it has the result of the launch, and not only specs.
    #[must_use]
    pub const fn has_output(&self) -> bool {
        self.output.is_some()
    }

    /// From how many distinct things it was computed.
    #[must_use]
    pub const fn dependencies(&self) -> usize {
        self.contents.len()
    }

    /// What is kept of a launch, as far as it holds in `world` and is made of what has digests.
    ///
    /// For those who write a memo: nothing may be locked or borrowed, because the world is code of others.
    ///
    /// # Errors
    /// [`PortableError::NotKept`] and [`PortableError::NoDigest`].
    pub fn export<K, W>(
        kernel_name: &str,
        kernel: &K,
        entry: Option<&Entry<K>>,
        specs: &SpecTable<K>,
        world: &W,
    ) -> Result<Self, PortableError>
    where
        K: Portable,
        W: Contents + ?Sized,
    {
        let entry = entry.filter(|entry| entry.dependencies().hold(world));
        let mut drafts: Vec<Draft> = Vec::new();
        drafts.extend(entry.and_then(|entry| {
            Draft::new(None, entry.output(), entry.dependencies().observations().collect())
        }));
        for (spec, value, from) in specs.current(world) {
            let bytes = postcard::to_allocvec(spec).ok();
            // One that loses something on the way would be taken for another one where it arrives.
            let bytes = bytes.filter(|bytes| exactly::<K::Spec>(bytes).is_some_and(|read| read == *spec));
            drafts.extend(bytes.and_then(|bytes| Draft::new(Some(bytes), value, from)));
        }
        if drafts.is_empty() {
            return Err(PortableError::NotKept);
        }
        let mut digests = BTreeMap::new();
        for &(observed, seen) in drafts.iter().flat_map(|draft| &draft.from) {
            digests.entry(observed).or_insert_with(|| (seen, content(world, observed, seen)));
        }
        // What was bound meanwhile was seen otherwise by another draft: the digest is not of what that was computed from.
        drafts.retain(|draft| {
            draft
                .from
                .iter()
                .all(|(observed, seen)| digests[observed].0 == *seen && digests[observed].1.is_some())
        });
        if drafts.is_empty() {
            return Err(PortableError::NoDigest);
        }
        let used: BTreeSet<_> =
            drafts.iter().flat_map(|draft| &draft.from).map(|&(observed, _)| observed).collect();
        let places: BTreeMap<_, _> = used.iter().copied().zip(0..).collect();
        let contents = used.iter().filter_map(|observed| digests[observed].1).collect();
        let mut result = Self {
            kernel: kernel_name.into(),
            fingerprint: kernel.fingerprint(),
            contents,
            output: None,
            specs: Vec::new(),
        };
        for draft in drafts {
            let from = draft.from.iter().map(|(observed, _)| places[observed]).collect();
            let part = Part { from, bytes: draft.bytes };
            match draft.spec {
                None => result.output = Some(part),
                Some(spec) => result.specs.push((spec, part)),
            }
        }
        // The table's order is that of its hasher.
        result.specs.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        // Specs that postcard writes alike are unequal in what it leaves out: it could not be told which one is meant.
        result.specs = result
            .specs
            .chunk_by(|one, other| one.0 == other.0)
            .filter(|same| same.len() == 1)
            .flatten()
            .cloned()
            .collect();
        Ok(result)
    }

    /// Takes over what holds in `world`: the result for `handle`, and specs that `table` does not have.
    ///
    /// For those who write a memo: nothing may be locked or borrowed, because the world is code of others.
    ///
    /// # Errors
    /// [`PortableError::OtherFingerprint`] and [`PortableError::Malformed`]; then nothing was taken over.
    pub fn import<K, W>(
        &self,
        handle: Handle,
        kernel: &K,
        table: &mut SpecTable<K>,
        world: &W,
    ) -> Result<(Option<Entry<K>>, Imported), PortableError>
    where
        K: Portable,
        W: Contents + ?Sized,
    {
        if kernel.fingerprint() != self.fingerprint {
            return Err(PortableError::OtherFingerprint);
        }
        let now: Vec<_> = self
            .contents
            .iter()
            .map(|stored| {
                let observed = stored.observed();
                // Before the digest: what is written meanwhile is then of an older generation than it will be.
                let seen = see(world, observed);
                (observed, (content(world, observed, seen).as_ref() == Some(stored)).then_some(seen))
            })
            .collect();
        let mut imported = Imported::default();
        let output = self.output.as_ref().map(|part| part.read(&now)).transpose()?;
        let mut specs = Vec::new();
        for (spec, part) in &self.specs {
            let spec = exactly(spec).ok_or(PortableError::Malformed)?;
            specs.push((spec, part.read(&now)?));
        }
        table.begin(world);
        for (spec, read) in specs {
            let Some((value, from)) = read else {
                imported.moved += 1;
                continue;
            };
            if table.keep_if_new(spec, value, from) {
                imported.specs += 1;
            }
        }
        table.end();
        let entry = match output {
            Some(Some((output, from))) => {
                let dependencies = Dependencies::new(world.identity(), from);
                Some(Entry::new(handle, dependencies, Why::Imported, output))
            }
            Some(None) => {
                imported.moved += 1;
                None
            }
            None => None,
        };
        imported.output = entry.is_some();
        Ok((entry, imported))
    }
}

impl Part {
    /// The value and what it depends on here, or nothing if that is not the same here.
    fn read<T: DeserializeOwned>(
        &self,
        now: &[(Observed, Option<Seen>)],
    ) -> Result<Option<(T, Observations)>, PortableError> {
        let value = exactly(&self.bytes).ok_or(PortableError::Malformed)?;
        let mut list = Vec::with_capacity(self.from.len());
        let mut holds = true;
        for &place in &self.from {
            let &(observed, seen) = now.get(place as usize).ok_or(PortableError::Malformed)?;
            match seen {
                Some(seen) => list.push((observed, seen)),
                None => holds = false,
            }
        }
        Ok(holds.then_some((value, list)))
    }
}

/// A part whose dependencies have no places yet.
struct Draft {
    spec: Option<Vec<u8>>,
    from: Observations,
    bytes: Vec<u8>,
}

impl Draft {
    fn new<T: Serialize>(spec: Option<Vec<u8>>, value: &T, from: Observations) -> Option<Self> {
        let bytes = postcard::to_allocvec(value).ok()?;
        Some(Self { spec, from, bytes })
    }
}

/// The value that is written in these bytes, if they are no longer than it: else they are of another type.
fn exactly<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    postcard::take_from_bytes(bytes).ok().and_then(|(value, rest)| rest.is_empty().then_some(value))
}

/// What is in what was `seen` so, or nothing if it has no digest or is being written.
fn content<W: Contents + ?Sized>(world: &W, observed: Observed, seen: Seen) -> Option<Content> {
    if is_worn(observed, seen) {
        return None;
    }
    let there = !is_absent(observed, seen);
    let content = match observed {
        Observed::Field(field) if there => Content::Field(field, Some(world.field_digest(field)?)),
        Observed::Field(field) => Content::Field(field, None),
        Observed::Argument(argument) if there => {
            Content::Array(argument, Some(world.array_digest(argument)?))
        }
        Observed::Argument(argument) => Content::Array(argument, None),
        Observed::Extent(argument, axis) => Content::Extent(argument, axis, there.then_some(seen.0)),
    };
    (see(world, observed) == seen).then_some(content)
}

impl Content {
    pub(super) const fn observed(&self) -> Observed {
        match *self {
            Self::Field(field, _) => Observed::Field(field),
            Self::Array(argument, _) => Observed::Argument(argument),
            Self::Extent(argument, axis, _) => Observed::Extent(argument, axis),
        }
    }
}

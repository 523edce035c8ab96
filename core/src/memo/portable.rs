//! Portable results: results of launches that another process can use if it finds the same contents.
//!
//! A generation counts writes within one process, and means nothing in the next one. A portable result therefore identifies its
//! dependencies by digests of contents and by extents, which mean the same everywhere.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use thiserror::Error;

use super::{
    dependencies::{Dependencies, Observation, Observed, Seen, is_absent, is_exhausted, see},
    handle::{Handle, HandleError},
    launched::{Entry, MissCause},
    reduction::Reduction,
    specs::SpecTable,
    world::{ArgumentId, FieldId, World},
};
use crate::key::Key;

/// A [`Reduction`] whose results can be stored with an artifact.
///
/// Its specs, values and outputs need serde. If there are no specs, use `()`, because an `Infallible` cannot be deserialized.
pub trait Portable:
    Reduction<
        Spec: Serialize + DeserializeOwned,
        Value: Serialize + DeserializeOwned,
        Output: Serialize + DeserializeOwned,
    >
{
    /// Returns a fingerprint of everything that the results depend on besides the world: the evaluator's version, the meaning
    /// of the specs, everything in `self`. Results with another fingerprint are refused. Derive it from
    /// [`KeyFields`](crate::key::KeyFields).
    ///
    /// This includes the ids of fields and arguments in `self`: contents are found by their ids, so the ids must be the same in
    /// every process. Anything left out leads to a wrong answer, not to a miss.
    fn fingerprint(&self) -> Key;
}

/// A [`World`] that can identify the contents of fields and arrays, not only count their writes.
///
/// A digest covers everything that an evaluation can read: elements, type and shape. [`Key::digest`] computes one. A runtime
/// that already knows the digest, such as that of weights mapped from a file, need not compute it.
///
/// A result is exported under the digests of its dependencies, and generations show whether their contents are still the same.
/// If another thread may write, or bind arguments, during an export: a field or array that is being written must have **no
/// digest**, from before its first byte changes until the write is counted, and arguments must stay bound as they are.
/// Otherwise an old result would be stored under the digest of new contents.
pub trait Contents: World {
    /// Returns the digest of a field, or `None` if it has none; results that depend on it are then not portable.
    fn field_digest(&self, field: FieldId) -> Option<Key>;

    /// Returns the digest of the array bound to an argument, or `None` if it has none.
    fn array_digest(&self, argument: ArgumentId) -> Option<Key>;
}

/// The result of a launch and its specs, in a form that another process can import if it finds the same contents.
///
/// A [`LaunchRecord`](crate::launch_record::LaunchRecord) stores it with the artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PortableResult {
    pub(crate) kernel: String,
    pub(crate) fingerprint: [u8; Key::LEN],
    /// In ascending order of dependency.
    pub(crate) contents: Vec<Content>,
    pub(crate) output: Option<Part>,
    /// Each spec as postcard encodes it, and its value. Ascending.
    pub(crate) specs: Vec<(Vec<u8>, Part)>,
}

/// A dependency of a portable result: a field or the array of an argument with its digest, or an axis of an argument with its
/// length. `None` if it did not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Content {
    Field(u32, Option<[u8; Key::LEN]>),
    Array(u32, Option<[u8; Key::LEN]>),
    Extent(u32, u32, Option<u64>),
}

/// An output or the value of a spec, as postcard encodes it, and its dependencies: ascending positions in the list of contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Part {
    pub(crate) from: Vec<u32>,
    pub(crate) bytes: Vec<u8>,
}

/// The outcome of importing a portable result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Whether the result of the launch was imported.
    pub output: bool,
    /// The number of specs imported.
    pub specs: usize,
    /// The number of parts (specs and the result of the launch) that were not imported because the contents differ here.
    pub moved: usize,
}

/// The reason why a result cannot be exported or imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PortableError {
    /// The handle is unknown or stale.
    #[error("{0}")]
    Handle(HandleError),
    /// No result that is valid in this world is cached.
    #[error("the memo has no result that is valid in this world: launch first")]
    NotCached,
    /// No part of the result is portable, because the world has no digests of its dependencies.
    #[error("the world gives no digest of a dependency of the result: return one from `Contents`")]
    NoDigest,
    /// The result was computed by another reduction, or by another version of it.
    #[error("the result is of another version of the reduction: evaluate again")]
    OtherFingerprint,
    /// The result contradicts itself, or its values have other types.
    #[error("the stored result contradicts itself: evaluate again")]
    Malformed,
}

impl PortableResult {
    /// Returns the name of the kernel, under which the process that loads the result finds it.
    #[must_use]
    pub fn kernel(&self) -> &str {
        &self.kernel
    }

    /// Returns the [fingerprint](Portable::fingerprint) of the reduction that computed the result.
    #[must_use]
    pub const fn fingerprint(&self) -> Key {
        Key::from_bytes(self.fingerprint)
    }

    /// Returns the number of specs.
    #[must_use]
    pub const fn specs(&self) -> usize {
        self.specs.len()
    }

    /// Returns whether the result of the launch is included, and not only specs.
    #[must_use]
    pub const fn has_output(&self) -> bool {
        self.output.is_some()
    }

    /// Returns the number of distinct dependencies.
    #[must_use]
    pub const fn dependencies(&self) -> usize {
        self.contents.len()
    }

    /// Exports the cached results of a launch that are valid in `world` and whose dependencies all have digests.
    ///
    /// For authors of memos: hold no lock and no borrow during the call, because `world` is the caller's code.
    ///
    /// # Errors
    /// [`PortableError::NotCached`] and [`PortableError::NoDigest`].
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
        // The key is the encoded spec, or `None` for the launch; the value is the encoded value with its dependencies.
        let mut parts = BTreeMap::new();
        if let Some(entry) = entry.filter(|entry| entry.dependencies().hold(world))
            && let Ok(bytes) = postcard::to_allocvec(entry.output())
        {
            parts.insert(None, (bytes, entry.dependencies().observations().collect()));
        }
        for (spec, value, from) in specs.current(world) {
            // A spec that encoding changes would be taken for another spec by the process that imports it.
            if let (Ok(bytes), Ok(value)) = (postcard::to_allocvec(spec), postcard::to_allocvec(value))
                && exactly::<K::Spec>(&bytes).is_some_and(|read| read == *spec)
            {
                parts.insert(Some(bytes), (value, from.to_vec()));
            }
        }
        if parts.is_empty() {
            return Err(PortableError::NotCached);
        }
        let mut contents: BTreeMap<Observed, (Seen, Option<Content>)> = BTreeMap::new();
        parts.retain(|_, (_, from)| {
            from.iter().all(|&(observed, seen)| {
                let digest = || (seen, Content::of(world, observed, seen));
                let (first, content) = *contents.entry(observed).or_insert_with(digest);
                // Another part saw this dependency in another state, so that the digest is not of the contents it was computed
                // from.
                first == seen && content.is_some()
            })
        });
        if parts.is_empty() {
            return Err(PortableError::NoDigest);
        }
        let used: BTreeSet<Observed> =
            parts.values().flat_map(|(_, from)| from).map(|(observed, _)| *observed).collect();
        let places: BTreeMap<Observed, u32> = used.iter().copied().zip(0..).collect();
        let mut result = Self {
            kernel: kernel_name.into(),
            fingerprint: *kernel.fingerprint().as_bytes(),
            contents: used.iter().filter_map(|observed| contents[observed].1).collect(),
            output: None,
            specs: Vec::new(),
        };
        for (spec, (bytes, from)) in parts {
            let mut from: Vec<u32> = from.iter().map(|(observed, _)| places[observed]).collect();
            from.sort_unstable();
            match spec {
                None => result.output = Some(Part { from, bytes }),
                Some(spec) => result.specs.push((spec, Part { from, bytes })),
            }
        }
        Ok(result)
    }

    /// Imports the results that are valid in `world`: the result of `handle`, and specs that `table` lacks.
    ///
    /// For authors of memos: hold no lock and no borrow during the call, because `world` is the caller's code.
    ///
    /// # Errors
    /// [`PortableError::OtherFingerprint`] and [`PortableError::Malformed`]; nothing is imported then.
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
        if kernel.fingerprint() != self.fingerprint() {
            return Err(PortableError::OtherFingerprint);
        }
        let now = self.contents.iter().map(|stored| {
            let observed = stored.observed();
            // Read the state before the digest, so that a write in between makes this state outdated.
            let seen = see(world, observed);
            (Content::of(world, observed, seen).as_ref() == Some(stored)).then_some((observed, seen))
        });
        let now: Vec<_> = now.collect();
        let output = self.output.as_ref().map(|part| part.read(&now)).transpose()?;
        let mut specs = Vec::new();
        for (spec, part) in &self.specs {
            specs.push((exactly(spec).ok_or(PortableError::Malformed)?, part.read(&now)?));
        }
        let mut imported = Imported::default();
        table.begin(world);
        for (spec, read) in specs {
            match read {
                Some((value, from)) => {
                    imported.specs += usize::from(table.keep_if_new(spec, value, from.into()));
                }
                None => imported.moved += 1,
            }
        }
        table.end();
        let entry = output.flatten().map(|(output, from)| {
            Entry::new(handle, Dependencies::new(world.identity(), from), MissCause::Imported, output)
        });
        imported.output = entry.is_some();
        imported.moved += usize::from(self.has_output() && !imported.output);
        Ok((entry, imported))
    }
}

impl Part {
    /// Decodes the value with its dependencies in this world; `None` if the contents differ here.
    fn read<T: DeserializeOwned>(
        &self,
        now: &[Option<Observation>],
    ) -> Result<Option<(T, Vec<Observation>)>, PortableError> {
        let value = exactly(&self.bytes).ok_or(PortableError::Malformed)?;
        let from = self.from.iter().map(|place| now.get(*place as usize).copied());
        let from: Vec<_> = from.collect::<Option<_>>().ok_or(PortableError::Malformed)?;
        Ok(from.into_iter().collect::<Option<_>>().map(|from| (value, from)))
    }
}

impl Content {
    /// Returns the digest or extent of a dependency in the state `seen`, or `None` if it has no digest or is being written.
    fn of<W: Contents + ?Sized>(world: &W, observed: Observed, seen: Seen) -> Option<Self> {
        if is_exhausted(observed, seen) {
            return None;
        }
        let is_there = !is_absent(observed, seen);
        let digest = match observed {
            Observed::Field(field) if is_there => Some(*world.field_digest(field)?.as_bytes()),
            Observed::Argument(argument) if is_there => Some(*world.array_digest(argument)?.as_bytes()),
            _ => None,
        };
        let content = match observed {
            Observed::Field(field) => Self::Field(field.0, digest),
            Observed::Argument(argument) => Self::Array(argument.0, digest),
            Observed::Extent(argument, axis) => Self::Extent(argument.0, axis, is_there.then_some(seen.0)),
        };
        (see(world, observed) == seen).then_some(content)
    }

    /// Returns whether this content sorts before `other`.
    pub(crate) fn is_before(&self, other: &Self) -> bool {
        self.observed() < other.observed()
    }

    const fn observed(&self) -> Observed {
        match *self {
            Self::Field(field, _) => Observed::Field(FieldId(field)),
            Self::Array(argument, _) => Observed::Argument(ArgumentId(argument)),
            Self::Extent(argument, axis, _) => Observed::Extent(ArgumentId(argument), axis),
        }
    }
}

/// Decodes a value that takes all of these bytes. If bytes are left over, they are of another type.
fn exactly<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    postcard::take_from_bytes(bytes).ok().and_then(|(value, rest)| rest.is_empty().then_some(value))
}

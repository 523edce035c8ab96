//! The result of a launch, the cause of its evaluation, and the counters of a memo.

use alloc::sync::Arc;
use core::{
    fmt,
    ops::{AddAssign, Deref},
};

use thiserror::Error;

use super::{
    dependencies::{Dependencies, Dependency, NotCached},
    handle::Handle,
    recorder::{Evaluate, LaunchError, Recorder},
    reduction::Reduction,
    specs::SpecTable,
    world::World,
};

/// Why a launch was evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MissCause {
    /// No result was computed for the handle before.
    #[error("no result was computed for it before")]
    First,
    /// The last result was not kept.
    #[error("the last result was not kept: {0}")]
    NotCached(NotCached),
    /// The last result was invalidated.
    #[error("the last result was invalidated")]
    Invalidated,
    /// The result was imported: another process computed it from the same contents.
    #[error("it was computed by another process, from the same contents")]
    Imported,
    /// The last result was computed in another world.
    #[error("the last result was computed in another world")]
    OtherWorld,
    /// A dependency of the last result has changed.
    #[error("{was} is now {now}")]
    Moved {
        /// The dependency as it was observed.
        was: Dependency,
        /// The dependency as it is now.
        now: Dependency,
    },
}

/// The result computed for a handle. Memos keep it and share it with their callers.
///
/// Aligned to a cache line, so that the reference count, which every hit changes, has a line of its own.
#[repr(align(64))]
pub struct Entry<K: Reduction> {
    handle: Handle,
    dependencies: Dependencies,
    cause: MissCause,
    output: K::Output,
}

impl<K: Reduction> Entry<K> {
    pub(super) const fn new(
        handle: Handle,
        dependencies: Dependencies,
        cause: MissCause,
        output: K::Output,
    ) -> Self {
        Self { handle, dependencies, cause, output }
    }

    /// Evaluates `kernel`, whose handle is `handle`, in `world`, because of `cause`. Returns the entry, the
    /// reason why it must not be kept, if there is one, and the counters of the evaluation.
    ///
    /// For authors of memos: hold no lock and no borrow of the memo during the call, because an evaluation may launch.
    ///
    /// # Errors
    /// [`LaunchError::Circle`] and [`LaunchError::Reduction`].
    pub fn evaluate<W>(
        handle: Handle,
        kernel: &K,
        world: &W,
        cause: MissCause,
        specs: &mut SpecTable<K>,
    ) -> Result<(Self, Option<NotCached>, MemoStatistics), LaunchError<K::Error>>
    where
        K: Evaluate<W>,
        W: World + ?Sized,
    {
        specs.begin(world);
        let mut recorder = Recorder::new(kernel, world, specs);
        let launched = kernel.launch(&mut recorder);
        let (dependencies, not_cached) = recorder.finish();
        // After a failure too: the specs that succeeded are kept, and each attempt may add some.
        specs.end();
        let entry = Self { handle, dependencies, cause, output: launched? };
        let [spec_hits, spec_evaluations] = specs.counted;
        Ok((
            entry,
            not_cached,
            MemoStatistics { evaluations: 1, spec_hits, spec_evaluations, ..MemoStatistics::default() },
        ))
    }

    /// Returns whether this is the result of `handle` and all its dependencies are unchanged in `world`.
    #[inline]
    pub fn holds<W: World + ?Sized>(&self, handle: Handle, world: &W) -> bool {
        self.handle == handle && self.dependencies.hold(world)
    }

    /// Returns the cause why the entry does not [hold](Self::holds), or nothing if it does.
    pub fn moved<W: World + ?Sized>(&self, world: &W) -> Option<MissCause> {
        if self.dependencies.world() != world.identity() {
            return Some(MissCause::OtherWorld);
        }
        self.dependencies.moved(world).map(|(was, now)| MissCause::Moved { was, now })
    }

    /// Returns the handle that the result was computed for.
    #[must_use]
    pub const fn handle(&self) -> Handle {
        self.handle
    }

    /// Returns the output of the launch.
    #[must_use]
    pub const fn output(&self) -> &K::Output {
        &self.output
    }

    /// Returns the dependencies of the result.
    #[must_use]
    pub const fn dependencies(&self) -> &Dependencies {
        &self.dependencies
    }
}

impl<K: Reduction> fmt::Debug for Entry<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("handle", &self.handle)
            .field("cause", &self.cause)
            .finish_non_exhaustive()
    }
}

/// A shared reference to the result of a launch, and the origin of the result.
///
/// Stays valid and unchanged while other launches, invalidations and removals happen. A clone copies no output.
pub struct Launched<K: Reduction> {
    entry: Arc<Entry<K>>,
    origin: Origin,
}

/// One byte, so that a hit writes it and its caller reads it in one access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Hit,
    Cached,
    NotCached(NotCached),
}

impl<K: Reduction> Launched<K> {
    /// Creates the launch of a hit: `entry` was kept and still holds.
    #[inline]
    #[must_use]
    pub const fn hit(entry: Arc<Entry<K>>) -> Self {
        Self { entry, origin: Origin::Hit }
    }

    /// Creates the launch of an evaluation, which was kept unless `not_cached` is given.
    #[must_use]
    pub fn evaluated(entry: Arc<Entry<K>>, not_cached: Option<NotCached>) -> Self {
        Self { entry, origin: not_cached.map_or(Origin::Cached, Origin::NotCached) }
    }

    /// Returns whether the result was in the memo.
    #[must_use]
    pub fn is_hit(&self) -> bool {
        self.origin == Origin::Hit
    }

    /// Returns the cause of the evaluation that computed the result: this one, or, for a [hit](Self::is_hit), an earlier one.
    #[must_use]
    pub fn miss_cause(&self) -> MissCause {
        self.entry.cause
    }

    /// Returns the reason why the result was not kept, or nothing if it was.
    #[must_use]
    pub const fn not_cached(&self) -> Option<NotCached> {
        match self.origin {
            Origin::Hit | Origin::Cached => None,
            Origin::NotCached(not_cached) => Some(not_cached),
        }
    }

    /// Returns the dependencies of the result.
    #[must_use]
    pub fn dependencies(&self) -> &Dependencies {
        self.entry.dependencies()
    }
}

impl<K: Reduction> Deref for Launched<K> {
    type Target = K::Output;

    fn deref(&self) -> &K::Output {
        self.entry.output()
    }
}

impl<K: Reduction> Clone for Launched<K> {
    fn clone(&self) -> Self {
        Self { entry: Arc::clone(&self.entry), origin: self.origin }
    }
}

impl<K: Reduction> fmt::Debug for Launched<K>
where
    K::Output: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launched")
            .field("output", self.entry.output())
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

/// The counters of a memo since its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoStatistics {
    /// Launches whose result was in the memo.
    pub hits: u64,
    /// Launches that were evaluated without an error.
    pub evaluations: u64,
    /// Evaluations whose result was not kept.
    pub not_cached: u64,
    /// Specs that evaluations found in the memo.
    pub spec_hits: u64,
    /// Specs that evaluations had to evaluate.
    pub spec_evaluations: u64,
}

impl AddAssign for MemoStatistics {
    fn add_assign(&mut self, other: Self) {
        self.hits += other.hits;
        self.evaluations += other.evaluations;
        self.not_cached += other.not_cached;
        self.spec_hits += other.spec_hits;
        self.spec_evaluations += other.spec_evaluations;
    }
}

//! The result of a launch, shared by reference.

use alloc::sync::Arc;
use core::{fmt, ops::Deref};

use super::{
    dependencies::{Dependencies, Dependency},
    handle::Handle,
    recorder::{Evaluate, LaunchError, Recorder},
    reduction::{Reduction, Unkept},
    specs::SpecTable,
    world::World,
};

/// Why a launch was evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// Nothing was computed for it before.
    First,
    /// What was computed was not kept.
    NotKept(Unkept),
    /// Somebody invalidated what was kept.
    Invalidated,
    /// It was not: it was computed by another process, from the same.
    Imported,
    /// What was kept was computed in another world.
    OtherWorld,
    /// Something that the kept result was computed from has moved.
    Moved {
        /// How it was.
        was: Dependency,
        /// How it is now.
        now: Dependency,
    },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::First => f.write_str("nothing was computed for it before"),
            Self::NotKept(unkept) => write!(f, "the last result was not kept: {unkept}"),
            Self::Invalidated => f.write_str("the last result was invalidated"),
            Self::Imported => f.write_str("it was computed by another process, from the same contents"),
            Self::OtherWorld => f.write_str("the last result was computed in another world"),
            Self::Moved { was, now } => write!(f, "{was} is now {now}"),
        }
    }
}

/// What was computed for a handle. Memos keep it, and share it with those who launched.
///
/// Aligned to a cache line, so that the count of those who share it, which every hit changes, lies on a line with nothing else.
#[repr(align(64))]
pub struct Entry<K: Reduction> {
    handle: Handle,
    dependencies: Dependencies,
    why: Why,
    output: K::Output,
}

impl<K: Reduction> Entry<K> {
    pub(super) const fn new(handle: Handle, dependencies: Dependencies, why: Why, output: K::Output) -> Self {
        Self { handle, dependencies, why, output }
    }

    /// Evaluates `kernel`, whose handle is `handle`, in `world`, because of `why`. Also says why the entry must not be kept, if it must not.
    ///
    /// For those who write a memo: nothing of a memo may be locked or borrowed meanwhile, because an evaluation may launch.
    ///
    /// # Errors
    /// [`LaunchError::Circle`] and [`LaunchError::Reduction`].
    pub fn evaluate<W>(
        handle: Handle,
        kernel: &K,
        world: &W,
        why: Why,
        specs: &mut SpecTable<K>,
    ) -> Result<Evaluated<K>, LaunchError<K::Error>>
    where
        K: Evaluate<W>,
        W: World + ?Sized,
    {
        specs.begin(world);
        let mut recorder = Recorder::new(kernel, world, specs);
        let launched = kernel.launch(&mut recorder);
        let (dependencies, unkept) = recorder.finish();
        // Also if it failed: the specs that did not fail are kept, and may be more each time.
        let (specs_asked, specs_found) = specs.end();
        let output = launched?;
        Ok(Evaluated { entry: Self { handle, dependencies, why, output }, unkept, specs_asked, specs_found })
    }

    /// Whether this is what `handle` names, and nothing that it was computed from has moved in `world`.
    #[inline]
    pub fn holds<W: World + ?Sized>(&self, handle: Handle, world: &W) -> bool {
        self.handle == handle && self.dependencies.hold(world)
    }

    /// Why it does not [hold](Self::holds), if it does not.
    pub fn moved<W: World + ?Sized>(&self, world: &W) -> Option<Why> {
        if self.dependencies.world() != world.identity() {
            return Some(Why::OtherWorld);
        }
        self.dependencies.moved(world).map(|(was, now)| Why::Moved { was, now })
    }

    /// The handle that it was computed for.
    #[must_use]
    pub const fn handle(&self) -> Handle {
        self.handle
    }

    /// What was computed.
    #[must_use]
    pub const fn output(&self) -> &K::Output {
        &self.output
    }

    /// What it was computed from.
    #[must_use]
    pub const fn dependencies(&self) -> &Dependencies {
        &self.dependencies
    }
}

impl<K: Reduction> fmt::Debug for Entry<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("handle", &self.handle).field("why", &self.why).finish_non_exhaustive()
    }
}

/// What an evaluation gave.
#[derive(Debug)]
pub struct Evaluated<K: Reduction> {
    /// The result.
    pub entry: Entry<K>,
    /// Why it must not be kept.
    pub unkept: Option<Unkept>,
    /// How many specs it asked for.
    pub specs_asked: usize,
    /// How many of these were kept and did not move.
    pub specs_found: usize,
}

/// The result of a launch: a reference to it, and where it comes from.
///
/// Whoever holds it keeps it, unchanged, whatever is launched, invalidated or removed meanwhile. To clone it copies
/// nothing.
pub struct Launched<K: Reduction> {
    entry: Arc<Entry<K>>,
    how: How,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Hit,
    Kept,
    Unkept(Unkept),
}

impl<K: Reduction> Launched<K> {
    /// It was kept, and still holds.
    #[inline]
    #[must_use]
    pub const fn hit(entry: Arc<Entry<K>>) -> Self {
        Self { entry, how: How::Hit }
    }

    /// It was evaluated, and kept unless there is a reason against it.
    #[must_use]
    pub fn evaluated(entry: Arc<Entry<K>>, unkept: Option<Unkept>) -> Self {
        Self { entry, how: unkept.map_or(How::Kept, How::Unkept) }
    }

    /// Whether it was there already.
    #[must_use]
    pub fn is_hit(&self) -> bool {
        self.how == How::Hit
    }

    /// Why it was evaluated: now, or, if it [is a hit](Self::is_hit), when it was.
    #[must_use]
    pub fn why(&self) -> Why {
        self.entry.why
    }

    /// Why it was not kept, if it was not.
    #[must_use]
    pub const fn unkept(&self) -> Option<Unkept> {
        match self.how {
            How::Hit | How::Kept => None,
            How::Unkept(unkept) => Some(unkept),
        }
    }

    /// What it was computed from.
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
        Self { entry: Arc::clone(&self.entry), how: self.how }
    }
}

impl<K: Reduction> fmt::Debug for Launched<K>
where
    K::Output: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launched")
            .field("output", self.entry.output())
            .field("how", &self.how)
            .finish_non_exhaustive()
    }
}

//! The launch memo: a result that is computed at each launch, and nearly always from the same things.
//!
//! A runtime sizes stacks, bounds loops and picks tiles just before it launches a kernel, from fields and arrays that
//! hardly ever change. A memo keeps such a result under the [`Handle`] of what is launched, together with everything that was observed
//! while it was computed. At the next launch it asks whether all of that is as it was: a look at each distinct dependency, one reference
//! counted, nothing copied, nothing allocated.
//!
//! | type | is |
//! |---|---|
//! | [`World`], [`Tracked`] | what a launch can observe, and one that counts by itself what is written |
//! | [`Reduction`], [`Evaluate`] | what is computed, and how |
//! | [`Recorder`] | the only door to the world, so that every dependency is known |
//! | [`Launched`] | a result |
//! | [`Entry`], [`SpecTable`], [`Dependencies`] | what a memo is made of |
//!
//! The memo itself, with its handles and its locks, is `warmstart::memo::SharedMemo`.

mod dependencies;
mod handle;
mod launched;
pub(crate) mod portable;
mod recorder;
mod reduction;
mod specs;
mod tracked;
mod world;

pub use dependencies::{Dependencies, Dependency, NotCached};
pub use handle::{Handle, HandleError, MemoId};
pub use launched::{Entry, Launched, MemoStatistics, MissCause};
pub use portable::{Contents, Imported, Portable, PortableError, PortableResult};
pub use recorder::{Evaluate, LaunchError, Recorder};
pub use reduction::Reduction;
pub use specs::SpecTable;
pub use tracked::{Arguments, Tracked};
pub use world::{AllocationId, ArgumentId, Binding, FieldId, Generation, World, WorldId};

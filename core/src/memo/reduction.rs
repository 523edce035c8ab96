//! What a memo keeps results of, and why it may not keep one.

use core::{fmt, hash::Hash};

/// Something whose result is computed at a launch and kept: what the result is made of.
///
/// A launch computes one [`Output`](Self::Output). Parts of it, the *specs*, are kept one by one: when something has
/// moved, only the specs that depend on it are evaluated again. See [`Evaluate`](super::Evaluate) for an example.
pub trait Reduction {
    /// Names one part among all parts of this reduction, completely: two specs that are equal have the same value. Where
    /// there are no parts, [`Infallible`](core::convert::Infallible), as its value; or `()`, if it is to be
    /// [`Portable`](super::Portable).
    type Spec: Clone + Eq + Hash;
    /// What a part evaluates to.
    type Value: Clone;
    /// What a launch gets. It is shared by reference and never changed.
    type Output;
    /// Why an evaluation fails.
    type Error;
}

/// Why a result was not kept. It was right when it was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unkept {
    /// Nothing was observed, and it was not declared [constant](super::Recorder::constant): it would match for ever.
    NoDependency,
    /// Something was observed twice and had moved meanwhile.
    Torn,
    /// Something was observed whose [generations](super::Generation::WORN) have run out.
    Worn,
    /// A part of it observed nothing, was not declared constant, or was not evaluated to its end.
    Within,
    /// It was invalidated, or removed, while it was computed.
    Invalidated,
}

impl fmt::Display for Unkept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoDependency => {
                "its evaluation observed nothing: read through the recorder, or declare the result constant"
            }
            Self::Torn => "what it observed changed while it was evaluated",
            Self::Worn => "something that it observed was written so often that the next write could not be told",
            Self::Within => {
                "a spec of it observed nothing, or was given up: let it read through the recorder, or declare it constant"
            }
            Self::Invalidated => "it was invalidated while it was evaluated",
        })
    }
}

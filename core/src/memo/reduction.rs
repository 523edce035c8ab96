//! Reductions: the computations whose results a memo keeps.

use core::hash::Hash;

/// Something whose result is computed at a launch and kept: what the result is made of.
///
/// A launch computes one [`Output`](Self::Output). Parts of it, the *specs*, are kept one by one: when something has
/// moved, only the specs that depend on it are evaluated again.
pub trait Reduction {
    /// Names one part among all parts of this reduction, completely: two specs that are equal have the same value. Where
    /// there are no parts, [`Infallible`](core::convert::Infallible), as its value; or `()`, if it is to be
    /// [`Portable`](super::Portable).
    type Spec: Clone + Eq + Hash;
    /// The value of a spec.
    type Value: Clone;
    /// The output of a launch, shared by reference and never changed.
    type Output;
    /// The error of an evaluation.
    type Error;
}

//! Why a program has no key.

use alloc::{borrow::Cow, format, string::String};
use core::fmt;

/// Why a program is not compiled through a cache: what was found, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    kind: Kind,
    option: Cow<'static, str>,
    message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    SideEffect,
    OutsideContent,
    Unsupported,
    Malformed,
}

impl Refusal {
    /// What is refused, as cuda.core calls it, such as `include_path`; else the spelling that is no option.
    #[must_use]
    pub fn option(&self) -> Option<&str> {
        Some(&self.option)
    }

    /// Whether compiling would do more than give a binary, which a hit would not do.
    #[must_use]
    pub const fn is_side_effect(&self) -> bool {
        matches!(self.kind, Kind::SideEffect)
    }

    /// Whether the compiler would read what the key does not know.
    #[must_use]
    pub const fn is_outside_content(&self) -> bool {
        matches!(self.kind, Kind::OutsideContent)
    }

    /// Whether there is no such thing, or not with this code type, target type or compiler.
    #[must_use]
    pub const fn is_unsupported(&self) -> bool {
        matches!(self.kind, Kind::Unsupported)
    }

    /// Whether a value is missing, or is of another kind or outside the range.
    #[must_use]
    pub const fn is_malformed(&self) -> bool {
        matches!(self.kind, Kind::Malformed)
    }

    pub(crate) fn side_effect(option: &'static str, message: impl Into<String>) -> Self {
        Self::new(Kind::SideEffect, option, message.into())
    }

    pub(crate) fn outside(option: &'static str, message: impl Into<String>) -> Self {
        Self::new(Kind::OutsideContent, option, message.into())
    }

    pub(crate) fn unsupported(option: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::new(Kind::Unsupported, option, message.into())
    }

    pub(crate) fn malformed(option: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::new(Kind::Malformed, option, message.into())
    }

    fn new(kind: Kind, option: impl Into<Cow<'static, str>>, message: String) -> Self {
        Self { kind, option: option.into(), message }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.option, self.message)
    }
}

impl core::error::Error for Refusal {}

/// An argument in an error: short, whatever it was.
pub(super) fn shown(argument: &str) -> String {
    match argument.char_indices().nth(64) {
        Some((end, _)) => format!("{}...", &argument[..end]),
        None if argument.is_empty() => "\"\"".into(),
        None => argument.into(),
    }
}

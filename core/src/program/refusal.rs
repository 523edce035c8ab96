//! The error for a program that cannot have a key.

use alloc::string::String;

use thiserror::Error;

/// Why a program cannot be compiled through a cache, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{option}: {message}")]
pub struct Refusal {
    kind: Kind,
    option: &'static str,
    message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    OutsideContent,
    Unsupported,
    Malformed,
}

impl Refusal {
    /// Returns the name of the refused option or parameter, as in cuda.core, such as `max_register_count`.
    #[must_use]
    pub fn option(&self) -> Option<&str> {
        Some(self.option)
    }

    /// Returns whether the compiler would read a file that is not in the key.
    #[must_use]
    pub const fn is_outside_content(&self) -> bool {
        matches!(self.kind, Kind::OutsideContent)
    }

    /// Returns whether the code type, target type or compiler does not support the option.
    #[must_use]
    pub const fn is_unsupported(&self) -> bool {
        matches!(self.kind, Kind::Unsupported)
    }

    /// Returns whether a value is missing, has the wrong type or is out of range.
    #[must_use]
    pub const fn is_malformed(&self) -> bool {
        matches!(self.kind, Kind::Malformed)
    }

    pub(crate) fn outside(option: &'static str, message: impl Into<String>) -> Self {
        Self { kind: Kind::OutsideContent, option, message: message.into() }
    }

    pub(crate) fn unsupported(option: &'static str, message: impl Into<String>) -> Self {
        Self { kind: Kind::Unsupported, option, message: message.into() }
    }

    pub(crate) fn malformed(option: &'static str, message: impl Into<String>) -> Self {
        Self { kind: Kind::Malformed, option, message: message.into() }
    }
}

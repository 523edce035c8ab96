//! Errors of files of packed weights.

use std::io;

use thiserror::Error;
use warmstart_core::trailer::{FormatError, ModelId};

use crate::{MissReason, os::reason_of};

/// An error of opening, inspecting or rewriting a file of packed weights. Nothing was changed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PackError {
    /// An I/O error of the system.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The path is not a regular file, but this.
    #[error("it is {0}; name a file of packed weights")]
    WrongKind(&'static str),
    /// Another user owns the file or may write to it, so it is not rewritten.
    #[error("another user owns the file or may write to it; make it yours with chown and chmod go-w")]
    Untrusted,
    /// The file is not a usable file of packed weights.
    #[error("{0}; {way}", way = way(*.0))]
    Refused(#[from] FormatError),
    /// Another process is writing to the file, and did not finish within the timeout.
    #[error("another process writes to the file; retry when it has finished")]
    Busy,
    /// A file already exists at the path of the new one.
    #[error("a file already exists at the new path; remove it, or name another path")]
    Exists,
    /// Two entries would have the same name in version 2, which joins the names of weight and bias without a separator.
    #[error(
        "{0:?} and {1:?} would have the same name in version 2; give one of them another name in the host"
    )]
    Clash(String, String),
    /// A weight of this name has several models or packings, and version 2 holds one.
    #[error("{0:?} has several models or packings, of which version 2 holds one; choose a model")]
    Several(String),
    /// The file has no entry of this model.
    #[error("the file has no entry of the model {0}; inspect it for the models that it has")]
    NoSuchModel(ModelId),
    /// The operation does not support files of this version.
    #[error("the file is of version {0}, which this operation does not change; use or copy it as it is")]
    WrongVersion(u32),
}

impl PackError {
    /// Returns the reason under which statistics count it.
    pub(super) fn reason(&self) -> MissReason {
        match self {
            Self::Io(error) => reason_of(error),
            Self::WrongKind(_) | Self::Untrusted => MissReason::Untrusted,
            Self::Refused(refusal) => refusal.reason(),
            Self::WrongVersion(_) => MissReason::OldVersion,
            _ => MissReason::Busy,
        }
    }
}

/// Returns what to do about a refused file.
fn way(refusal: FormatError) -> &'static str {
    match refusal.reason() {
        MissReason::Foreign => "name a file of packed weights",
        MissReason::NewerVersion => "a newer version of warmstart may read it",
        _ => "remove the file; its weights are then packed again",
    }
}

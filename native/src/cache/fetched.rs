//! What the one call returns.

use warmstart_core::{artifact::Artifact, reason::Reason};

use crate::store::Stored;

/// An artifact, and how it was come by.
#[derive(Clone, Debug)]
#[must_use]
pub struct Fetched {
    artifact: Artifact,
    how: How,
}

/// How an artifact was come by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum How {
    /// It was stored.
    Hit,
    /// It was not, and somebody else built it meanwhile, another thread or another process.
    Shared {
        /// Why it was not found at first.
        miss: Reason,
    },
    /// It was not, and this caller built it.
    Built {
        /// Why it was not found.
        miss: Reason,
        /// Whether it is stored now.
        stored: Result<Stored, Reason>,
    },
}

impl Fetched {
    pub(crate) const fn new(artifact: Artifact, how: How) -> Self {
        Self { artifact, how }
    }

    /// The artifact.
    #[must_use]
    pub const fn artifact(&self) -> &Artifact {
        &self.artifact
    }

    /// The artifact, without the rest.
    #[must_use]
    pub fn into_artifact(self) -> Artifact {
        self.artifact
    }

    /// How it was come by.
    #[must_use]
    pub const fn how(&self) -> How {
        self.how
    }

    /// Whether it was stored.
    #[must_use]
    pub const fn is_hit(&self) -> bool {
        matches!(self.how, How::Hit)
    }

    /// Why it was not found, unless it was.
    #[must_use]
    pub const fn miss(&self) -> Option<Reason> {
        match self.how {
            How::Hit => None,
            How::Shared { miss } | How::Built { miss, .. } => Some(miss),
        }
    }

    /// Why it is not stored now, although this caller built it.
    #[must_use]
    pub const fn refusal(&self) -> Option<Reason> {
        match self.how {
            How::Built { stored: Err(reason), .. } => Some(reason),
            _ => None,
        }
    }
}

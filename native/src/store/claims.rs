//! Claims of builds: at most one process that shares a store builds an artifact.

use std::{fmt::Debug, path::PathBuf, time::Instant};

use warmstart_core::{batch::Surveyed, key::Key, reason::MissReason};

use crate::os::process_lock::ProcessLock;

/// Claims of builds, shared by all processes that use a store. At most one of them holds the claim of a build.
pub trait Claims: Debug + Send + Sync {
    /// Returns bytes that identify this set of claims. All handles of one store return the same bytes.
    fn scope(&self) -> Vec<u8>;

    /// Waits for the claim of the build `digest` until `deadline`, or without limit if that is `None`. A deadline in the past does not
    /// wait. The claim is held until the returned value is dropped or the process dies. Returns `None` if another process holds it.
    ///
    /// # Errors
    /// The reason why claims are unavailable. The caller then builds without one.
    fn claim(&self, digest: &Key, deadline: Option<Instant>) -> Result<Option<Box<dyn Send>>, MissReason>;

    /// Returns what is known of each of these builds, asked for at once, if a claim costs a request to another machine. Else returns
    /// nothing, as by default: trying each claim is as cheap.
    fn survey(&self, digests: &[Key]) -> Option<Vec<Surveyed>> {
        let _ = digests;
        None
    }
}

/// Claims as OS locks on files in a directory.
#[derive(Debug)]
pub(super) struct LockDirectory(pub(super) PathBuf);

impl Claims for LockDirectory {
    /// Returns one path for a directory, whichever way its parents are spelled. A link in its own place is not followed.
    fn scope(&self) -> Vec<u8> {
        let parent = self.0.parent().and_then(|parent| parent.canonicalize().ok());
        let resolved = parent.zip(self.0.file_name()).map(|(parent, name)| parent.join(name));
        resolved.as_ref().unwrap_or(&self.0).as_os_str().as_encoded_bytes().to_vec()
    }

    fn claim(&self, digest: &Key, deadline: Option<Instant>) -> Result<Option<Box<dyn Send>>, MissReason> {
        let lock = ProcessLock::acquire(&self.0, digest, deadline)?;
        Ok(lock.map(|lock| Box::new(lock) as Box<dyn Send>))
    }
}

//! Directories that several users may write to, which are unsupported here.

use std::{path::Path, sync::Arc};

use crate::os::StorageBackend;

/// Returns `None`: without owners and modes, a directory is taken to be private.
pub(crate) fn shared_backend(_: &Path) -> Option<Arc<dyn StorageBackend>> {
    None
}

//! Patience with whoever has a file open just now.

use std::{io, thread, time::Duration};

use super::Disk;

/// The pauses between attempts at a file that somebody else has open, 185 ms in all: longer than a virus scanner or an indexer holds a small file.
pub const RETRY_PAUSES: [Duration; 5] = [
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(20),
    Duration::from_millis(50),
    Duration::from_millis(100),
];

/// Does `action`, and again after each of [`RETRY_PAUSES`] for as long as it fails with a sharing violation.
///
/// # Errors
/// Those of the last attempt.
pub(crate) fn retry_sharing<T>(disk: &dyn Disk, mut action: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for pause in RETRY_PAUSES {
        match action() {
            Err(error) if disk.is_sharing_violation(&error) => thread::sleep(pause),
            result => return result,
        }
    }
    action()
}

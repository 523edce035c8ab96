//! Structures that begin with their size, so that a program with an older or a newer header works.

use std::ptr;

use crate::status::{Failure, place};

/// Longer than any version of these structures will be, in bytes.
const LARGEST: usize = 4096;

/// Fills a structure that begins with its size, as far as the caller knows it.
///
/// # Safety
/// The pointer is null, or to so many bytes as the first field says, which may be written to.
pub(crate) unsafe fn fill<T: Copy>(into: *mut T, counts: T) -> Result<(), Failure> {
    let into = place(into, "counts")?;
    // SAFETY: as the caller promises: the size is the first field.
    let size = unsafe { into.cast::<usize>().read_unaligned() };
    // A size that was never set must not be believed.
    if !(size_of::<usize>()..=LARGEST).contains(&size) {
        return Err(Failure::invalid(format!(
            "the counts say that their size is {size}: set it to sizeof of the structure"
        )));
    }
    // Of a longer one, what is not known here is zero.
    // SAFETY: so much may be written, and the size stays what the caller said.
    unsafe {
        let rest = into.as_ptr().cast::<u8>();
        rest.add(size_of::<usize>()).write_bytes(0, size - size_of::<usize>());
        let known = size.min(size_of::<T>()) - size_of::<usize>();
        let from = (&raw const counts).cast::<u8>().add(size_of::<usize>());
        ptr::copy_nonoverlapping(from, rest.add(size_of::<usize>()), known);
    }
    Ok(())
}

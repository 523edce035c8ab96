//! Bytes that packed weights are in: pages of a file, or of the heap where there are none.

use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    fmt, io,
    ops::Range,
    ptr::NonNull,
};

use memmap2::MmapRaw;

use super::platform::map as platform;

/// Every payload begins at a multiple of this many bytes, in a file and in memory.
pub const ALIGNMENT: usize = warmstart_core::trailer::ALIGNMENT as usize;

/// Bytes of a file in memory, or bytes of the heap in their place. They do not move.
pub struct Mapping {
    kind: Kind,
}

enum Kind {
    Mapped(MmapRaw),
    Heap { start: NonNull<u8>, layout: Layout, len: usize },
}

// SAFETY: a mapping owns its bytes as a boxed slice does; whoever writes to them through `start` says why that is sound.
unsafe impl Send for Mapping {}
// SAFETY: as above; `Mapping` itself only hands out addresses.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Pages of a file. Shared, so that what is written to them is the file's.
    pub(super) const fn of_file(map: MmapRaw) -> Self {
        Self { kind: Kind::Mapped(map) }
    }

    /// Zeroed bytes of the heap, aligned as payloads are.
    ///
    /// # Errors
    /// [`io::ErrorKind::OutOfMemory`].
    pub fn heap(len: usize) -> io::Result<Self> {
        let out_of_memory = || io::Error::from(io::ErrorKind::OutOfMemory);
        let layout = Layout::from_size_align(len.max(1), ALIGNMENT).map_err(|_| out_of_memory())?;
        // SAFETY: the layout's size is not zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(out_of_memory)?;
        Ok(Self { kind: Kind::Heap { start, layout, len } })
    }

    /// The first byte.
    #[must_use]
    pub fn start(&self) -> NonNull<u8> {
        match &self.kind {
            Kind::Mapped(map) => NonNull::new(map.as_mut_ptr()).unwrap_or(NonNull::dangling()),
            Kind::Heap { start, .. } => *start,
        }
    }

    /// The length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.kind {
            Kind::Mapped(map) => map.len(),
            Kind::Heap { len, .. } => *len,
        }
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether these are pages of a file, rather than of the heap.
    #[must_use]
    pub const fn is_mapped(&self) -> bool {
        matches!(self.kind, Kind::Mapped(_))
    }

    /// The bytes of a range, or nothing if they are not all there.
    ///
    /// # Safety
    /// Nobody writes to the range while what is returned lives.
    #[must_use]
    pub unsafe fn bytes(&self, range: Range<usize>) -> Option<&[u8]> {
        if range.start > range.end || range.end > self.len() {
            return None;
        }
        // SAFETY: the range is within the bytes, which live as long as `self`; the caller says that nobody writes to them.
        Some(unsafe { std::slice::from_raw_parts(self.start().as_ptr().add(range.start), range.len()) })
    }

    /// Asks for the pages to be read from the medium ahead of their use, and does not wait.
    pub fn prefetch(&self) {
        if let Kind::Mapped(map) = &self.kind {
            platform::prefetch(map);
        }
    }

    /// Gives the pages back to the system, which still has the file's. They come again when they are touched.
    pub fn release(&self) {
        if let Kind::Mapped(map) = &self.kind {
            platform::release(map);
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if let Kind::Heap { start, layout, .. } = self.kind {
            // SAFETY: `start` was allocated with this layout, and is not freed elsewhere.
            unsafe { dealloc(start.as_ptr(), layout) };
        }
    }
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapping").field("len", &self.len()).field("is_mapped", &self.is_mapped()).finish()
    }
}

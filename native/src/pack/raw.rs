//! A pack as the provider of a runtime asks it: by addresses and handles, without borrows.

use std::{io, ptr::NonNull};

use warmstart_core::{reason::Reason, trailer::Wanted};

use super::{instance::Instance, segments::Handle};

/// What the providers in [`target`](crate::target) ask of a pack, and all that they know of its inside.
///
/// What is handed out stays where it is until the pack is closed, but for what is given back or forgotten. No lifetime says so:
/// it is for the provider to keep the pack open as long as the runtime has an address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawPack<'p> {
    instance: &'p Instance,
}

impl<'p> RawPack<'p> {
    pub(super) const fn of(instance: &'p Instance) -> Self {
        Self { instance }
    }

    /// As [`Pack::look_up`](super::Pack::look_up).
    pub(crate) fn look_up(self, wanted: &Wanted<'_>) -> Result<Handle, Reason> {
        self.instance.find(wanted, |hit| hit.handle)
    }

    /// Reserves zeroed bytes to pack into, in the file if `in_file`, else or if the file takes none, in the heap.
    ///
    /// # Errors
    /// [`io::ErrorKind::OutOfMemory`].
    pub(crate) fn reserve(self, len: usize, in_file: bool) -> io::Result<NonNull<u8>> {
        self.instance.reserve(len, in_file).map(|space| space.address())
    }

    /// Takes the first `len` bytes of what was reserved at this address as the weight that was wanted. Nothing if so much was
    /// not reserved there.
    pub(crate) fn insert(self, wanted: &Wanted<'_>, address: NonNull<u8>, len: usize) -> Option<Handle> {
        self.instance.insert(wanted, address, len).map(|hit| hit.handle)
    }

    /// Takes them under no name, in the heap. Nothing if so much was not reserved there, or the heap has no room.
    pub(crate) fn keep_unnamed(self, address: NonNull<u8>, len: usize) -> Option<Handle> {
        self.instance.keep_unnamed(address, len)
    }

    /// Frees what was kept under no name. Nobody may use it any more.
    pub(crate) fn forget_unnamed(self, handle: Handle) {
        self.instance.forget_unnamed(handle);
    }

    /// Gives back what was reserved at this address and nothing was packed into. The address is not followed.
    pub(crate) fn give_back(self, address: NonNull<u8>) {
        self.instance.give_back(address);
    }

    /// Where a handle leads.
    pub(crate) fn address(self, handle: Handle) -> Option<NonNull<u8>> {
        self.instance.address(handle)
    }
}

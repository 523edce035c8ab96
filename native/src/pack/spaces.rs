//! Reserving bytes to pack into, and taking them as weights, or back.

use std::{io, ptr::NonNull, sync::Arc};

use warmstart_core::{reason::Reason, trailer::Wanted};

use super::{
    instance::{Hit, Instance},
    segments::Handle,
    state::{Fresh, Key, Reservation},
    statistics::add,
};
use crate::os::Mapping;

impl Instance {
    /// Reserves zeroed bytes to pack into, in the file if `in_file`, else or if the file takes none, in the heap.
    pub(super) fn reserve(&self, len: usize, in_file: bool) -> io::Result<Reservation> {
        add(&self.counters.reservations, 1);
        add(&self.counters.reserved_bytes, len as u64);
        if in_file && self.path.is_some() {
            match self.reserve_in_file(len) {
                Ok(space) => {
                    self.write().keep_space(space.clone());
                    return Ok(space);
                }
                Err(reason) => self.counters.refuse(reason),
            }
        }
        let mapping = Arc::new(Mapping::heap(len)?);
        add(&self.counters.heap_entries, 1);
        add(&self.counters.heap_bytes, len as u64);
        let mut state = self.write();
        let handle = state.segments.add(Arc::clone(&mapping), None).ok_or(io::ErrorKind::OutOfMemory)?;
        let space = Reservation { handle, len, mapping, at: 0, place: None };
        state.keep_space(space.clone());
        Ok(space)
    }

    /// Takes the first `len` bytes of a space as the weight that was wanted. If that is there already, with the same bytes,
    /// the one that is there is it, and the space is given back: some operators of XNNPACK pack before they look. Nothing if
    /// there is no such space.
    pub(super) fn insert(&self, wanted: &Wanted<'_>, address: NonNull<u8>, len: usize) -> Option<Hit> {
        let mut state = self.write();
        let space = state.take_space(address.as_ptr())?;
        if len > space.len {
            state.keep_space(space);
            return None;
        }
        let key = Key::from(wanted);
        let fresh = Fresh {
            handle: space.handle,
            len,
            mapping: Arc::clone(&space.mapping),
            at: space.at,
            place: space.place,
        };
        let there = state
            .fresh
            .get(&key)
            .map(Fresh::hit)
            .or_else(|| self.saved(&state, wanted).ok().map(|(hit, _)| hit));
        // SAFETY: what was inserted or committed is not written to again, and `self` lives.
        let is_same = |there: &Hit| there.is_verified && unsafe { there.bytes() } == fresh.bytes();
        if let Some(there) = there.filter(is_same) {
            drop(state);
            self.put_back(&space);
            return Some(there);
        }
        add(&self.counters.packed, 1);
        let hit = fresh.hit();
        state.fresh.insert(key, fresh);
        self.published.clear();
        Some(hit)
    }

    /// Leaves a space to whoever packed into it, under no name. What is in the file is moved to the heap.
    pub(super) fn keep_unnamed(&self, address: NonNull<u8>, len: usize) -> Option<Handle> {
        let mut state = self.write();
        let space = state.take_space(address.as_ptr())?;
        if len > space.len {
            state.keep_space(space);
            return None;
        }
        if space.place.is_none() {
            self.counters.refuse(Reason::Unnamed);
            return Some(space.handle);
        }
        let moved = Mapping::heap(len).ok().map(Arc::new);
        let handle = moved.as_ref().and_then(|moved| state.segments.add(Arc::clone(moved), None));
        let (Some(moved), Some(handle)) = (moved, handle) else {
            state.keep_space(space);
            return None;
        };
        drop(state);
        // SAFETY: the space is as long at least, and was packed into before; nobody else has the new bytes yet.
        unsafe { moved.start().as_ptr().copy_from_nonoverlapping(address.as_ptr(), len) };
        add(&self.counters.heap_entries, 1);
        add(&self.counters.heap_bytes, len as u64);
        self.counters.refuse(Reason::Unnamed);
        self.put_back(&space);
        Some(handle)
    }

    /// Frees what was kept without a name. Nobody may use it any more.
    pub(super) fn forget_unnamed(&self, handle: Handle) {
        self.write().segments.forget(handle);
    }

    /// Gives a space back that nothing was packed into.
    pub(super) fn give_back(&self, address: NonNull<u8>) {
        let space = self.write().take_space(address.as_ptr());
        if let Some(space) = space {
            self.put_back(&space);
        }
    }

    fn put_back(&self, space: &Reservation) {
        match space.range() {
            Some((file, range)) => {
                if let Some(writer) = &mut *self.lock_writer() {
                    writer.give_back(file, &range);
                }
            }
            None => self.write().segments.forget(space.handle),
        }
    }
}

//! Proving payloads by their checksums.

use warmstart_core::{
    reason::Reason,
    trailer::{self, Entry},
};

use super::{
    instance::{Hit, Instance, lock},
    segments::PayloadPlace,
    statistics::add,
};

impl Instance {
    /// Proves a payload. One that is damaged is a miss from now on.
    pub(super) fn prove(&self, hit: &Hit, place: PayloadPlace, checksum: u64) -> Result<(), Reason> {
        // SAFETY: what was committed is not written to again, and `self` lives.
        if trailer::checksum(unsafe { hit.bytes() }) != checksum {
            let mut state = self.write();
            state.damaged.insert(place);
            self.publish(&state);
            return Err(Reason::ChecksumMismatch);
        }
        add(&self.counters.proved, 1);
        // What has no bytes may be where another begins, and says nothing about that.
        if hit.len > 0 {
            lock(&self.proved).insert(place);
        }
        Ok(())
    }

    /// Proves all that is saved.
    pub(super) fn prove_all(&self) {
        let hits: Vec<_> = {
            let state = self.read();
            let Some(committed) = state.base.committed() else { return };
            let hit_of = |entry: Entry<'_>| {
                let range = entry.offset..entry.offset.saturating_add(entry.size);
                let handle = state.segments.handle(committed.file, &range)?;
                let address = state.segments.address(handle)?;
                let len = usize::try_from(entry.size).ok()?;
                let hit = Hit { handle, address, len, is_verified: true };
                Some((hit, (committed.file, entry.offset), entry.checksum?))
            };
            committed.index().entries().filter_map(hit_of).collect()
        };
        for (hit, place, checksum) in hits {
            if !lock(&self.proved).contains(&place) {
                // Damage is noted, and a miss when it is looked up.
                let _ = self.prove(&hit, place, checksum);
            }
        }
    }
}

//! Changes the files of a store, open or closed, without the store.

use warmstart::Limits;

use super::{Beside, Damage, Run, key_of};
use crate::model::{kept::Reported, place::Place};

impl Run {
    /// Closes the store, calls `meanwhile`, and reopens the store. `meanwhile` returns whether the order of use is lost.
    pub(super) fn reopen(&mut self, limits: Limits, meanwhile: impl FnOnce(&Place) -> bool) {
        self.reopen_as(limits, false, meanwhile);
    }

    pub(super) fn reopen_as(
        &mut self,
        limits: Limits,
        read_only: bool,
        meanwhile: impl FnOnce(&Place) -> bool,
    ) {
        let before = self.place.disk.failures();
        self.opened = None;
        let is_lost = meanwhile(&self.place);
        self.opened = Some(self.place.open_as(limits, read_only));
        match &mut self.exact {
            Some(exact) if !is_lost && before == self.place.disk.failures() => exact.reopen(limits),
            _ => self.exact = None,
        }
        if !self.kind.is_persistent() {
            self.known.cleared();
            self.reported = Reported::default();
        }
        self.is_capped &= limits == self.limits;
        self.limits = limits;
    }

    pub(super) fn damage(&mut self, key: usize, damage: Damage) {
        let Some(state) = self.place.damage(&key_of(key), damage) else { return };
        self.is_tampered = true;
        let known = self.known.of(key);
        (known.is_damaged, known.must_be_found) = (true, false);
        if let Some(exact) = &mut self.exact {
            exact.damage(key, state);
        }
    }

    pub(super) fn vandalise(&mut self, what: Beside, at: usize, mask: u8) {
        let (mut is_done, mut is_lost) = (false, false);
        let is_of_entries = what == Beside::Accounts || self.kind.has_database();
        self.reopen(self.limits, |place| {
            is_done = place.vandalise(what, at, mask);
            is_lost = is_done && is_of_entries;
            is_lost
        });
        if is_done && (self.kind.has_database() || what == Beside::Statistics) {
            self.reported.stats_damaged();
        }
        if is_done && (self.kind.has_database() || what == Beside::LastMiss) {
            self.reported.last_miss_damaged();
        }
        if is_lost && self.kind.has_database() {
            self.is_vandalised = true;
            self.known.damaged();
        }
    }
}

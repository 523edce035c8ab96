//! Checks the listing of a store, its persisted reports, and inspection.

use std::ops::ControlFlow;

use warmstart::{Artifact, Key, Limits, MissReason, Recipe, Statistics, store::Entry};
use warmstart_core::miss::Miss;

use super::{Run, key_of, recipe_of};
use crate::model::{
    lru::{self, Head, State},
    place::Opened,
    program::KEYS,
};

impl Run {
    pub(super) fn prune(&mut self, limits: Limits) {
        let expected = self.exact.as_mut().map(|exact| Ok(exact.prune(limits)));
        let (pruned, failed) = self.call(|opened| opened.inspect().prune(limits));
        if self.exact.is_some() {
            assert_eq!(Some(pruned), expected);
        }
        match pruned {
            Ok(pruned) if pruned.entries == 0 && !failed && !self.is_vandalised => {}
            Ok(_) => self.known.evicted_except(None),
            Err(reason) => {
                self.check_excuse(reason, failed);
                self.known.evicted_except(None);
            }
        }
        let is_bound = pruned.is_ok() && self.kind.has_files() && !self.is_tampered;
        if let (true, Some(max), Some((bytes, _))) = (is_bound, limits.max_bytes, self.place.on_disk()) {
            assert!(bytes <= max, "{bytes} bytes are left of at most {max}");
        }
    }

    pub(super) fn entries(&mut self) {
        let puts = &self.puts;
        let is_sealed = self.kind.seal().is_some();
        let expected: Option<Vec<_>> = self.exact.as_mut().map(|exact| {
            let describe = |entry: &lru::Entry| {
                let (size, told) = match &entry.state {
                    State::Bad(bad) => (bad.size, bad.told.clone()),
                    _ => (None, Ok(head(entry, &puts[place_of(entry.version)], is_sealed))),
                };
                (Key::digest(&key_of(entry.key)), size.unwrap_or(entry.size), told)
            };
            exact.entries().map(describe).collect()
        });
        let (told, failed) = self.call(|opened| {
            let mut told = Vec::new();
            let collect = &mut |entry| {
                told.push(entry);
                ControlFlow::Continue(())
            };
            opened.inspect().entries(collect).map(|()| told)
        });
        let told = match told {
            Ok(told) => told,
            Err(reason) => return self.check_unknown(reason, failed),
        };
        if self.exact.is_some() {
            let found = told.iter().map(|entry| (entry.digest, entry.size, told_of(entry))).collect();
            assert_eq!(Some(found), expected);
        }
        told.iter().for_each(|entry| self.check_told(entry));
        for key in 0..KEYS {
            let is_told = told.iter().any(|entry| entry.digest == Key::digest(&key_of(key)));
            assert!(failed || is_told || !self.known.of(key).must_be_found, "key {key} was put");
        }
    }

    pub(super) fn nearest(&mut self, number: u16) {
        let wanted = recipe_of(number);
        let (found, failed) = self.call(|opened| opened.inspect().nearest(&wanted));
        let found = match found {
            Ok(found) => found,
            Err(reason) => return self.check_unknown(reason, failed),
        };
        let recipe = found.as_ref().map(|entry| {
            self.check_told(entry);
            let content = entry.head.as_ref().expect("its recipe was read");
            content.metadata.recipe().cloned().expect("it was chosen by its recipe")
        });
        let distance = recipe.as_ref().map(|recipe| {
            assert_eq!(recipe.domain(), wanted.domain());
            recipe.distance_to(&wanted)
        });
        assert_ne!(distance, Some(0), "nothing explains itself");
        let puts = &self.puts;
        let Some(exact) = &mut self.exact else { return };
        let recipe_of_whole = |entry: &lru::Entry| -> Option<Recipe> {
            let metadata = puts[place_of(entry.version)].metadata().ok()?;
            (entry.state == State::Whole).then(|| metadata.recipe().cloned())?
        };
        let least = exact
            .entries()
            .filter_map(recipe_of_whole)
            .filter(|other| other.domain() == wanted.domain())
            .map(|other| other.distance_to(&wanted))
            .filter(|distance| *distance > 0)
            .min();
        // A damaged entry may still be found by its head.
        let is_damaged = found.is_some_and(|entry| {
            exact
                .entries()
                .any(|other| Key::digest(&key_of(other.key)) == entry.digest && other.state != State::Whole)
        });
        let is_right = distance == least || (is_damaged && least.is_none_or(|least| distance < Some(least)));
        assert!(is_right, "{recipe:?} is at {distance:?} from {wanted:?}, and the nearest at {least:?}");
    }

    /// Checks that a listed entry may exist, and has the metadata that were put.
    fn check_told(&mut self, entry: &Entry) {
        let key = (0..KEYS).find(|key| Key::digest(&key_of(*key)) == entry.digest);
        let (Some(key), false) = (key, self.is_vandalised) else {
            return assert!(self.is_vandalised, "{entry:?} was never put");
        };
        let known = self.known.of(key);
        assert!(known.may_be_there(), "nothing is under key {key}");
        let Ok(content) = &entry.head else { return };
        assert_eq!(content.key, key_of(key));
        let puts = &self.puts;
        let is_put = |version: &u64| {
            let put = &puts[place_of(*version)];
            put.encoded_metadata() == content.metadata.encode()
                && put.payload().len() as u64 == content.payload_len
        };
        assert!(known.is_damaged || known.versions.iter().any(is_put), "{entry:?} was never put");
    }

    pub(super) fn report(&mut self, hits: u8, busy: u8, miss: u8) {
        let mut counted = Statistics::default();
        counted.hits = hits.into();
        counted.misses.add(MissReason::Busy, busy.into());
        let last_miss = (miss > 0).then(|| Miss {
            key: key_of(usize::from(miss) % KEYS),
            reason: MissReason::Busy,
            refusal: miss.is_multiple_of(2).then_some(MissReason::NoSpace),
            recipe: miss.is_multiple_of(3).then(|| recipe_of(miss.into())),
            unix_ms: miss.into(),
        });
        let (kept, failed) = self.call(|opened| opened.inspect().report(&counted, last_miss.as_ref()));
        self.reported.add(&counted, last_miss.as_ref(), kept.is_ok(), failed);
        if self.kind.has_database() && !self.is_capped {
            // Whatever is written to the database brings it down to a smaller cap.
            self.known.evicted_except(None);
            self.exact = None;
        }
        if let Err(reason) = kept {
            self.check_excuse(reason, failed);
        }
    }

    pub(super) fn stats(&mut self) {
        let (kept, failed) = self.call(|opened| opened.inspect().stats());
        if self.is_vandalised {
            // It may have been set aside by now, with all that was kept in it.
            self.reported.lost();
        }
        match kept {
            // The last miss is told of as far as it can be read.
            Ok(kept) if !failed => self.reported.check(&kept),
            Ok(_) => {}
            Err(reason) => self.check_unknown(reason, failed),
        }
    }

    pub(super) fn flush(&mut self) {
        if let Some(exact) = &mut self.exact {
            exact.flush();
        }
        let (flushed, failed) = self.call(|opened| opened.store().flush());
        if let Err(reason) = flushed {
            self.check_excuse(reason, failed);
        }
    }

    /// Checks that nothing changes while the store is open for reading only.
    pub(super) fn read_only(&mut self) {
        if !self.kind.is_persistent() {
            return;
        }
        let mut before = None;
        self.reopen_as(self.limits, true, |place| {
            before = Some(place.contents());
            false
        });
        for key in 0..KEYS {
            self.aside(|run| run.get(key));
            self.aside(|run| run.contains(key));
        }
        self.aside(Self::len);
        self.aside(Self::verify);
        self.aside(Self::entries);
        self.aside(|run| run.nearest(0));
        self.aside(Self::stats);
        let store = self.opened.as_ref().map(Opened::store).expect("it was opened");
        let artifact = Artifact::new(vec![1]);
        let refused = Err(MissReason::ReadOnly);
        assert_eq!(store.put(b"key", &artifact).map(drop), refused);
        assert_eq!(store.remove(b"key").map(drop), refused);
        let inspect = store.inspect().expect("every store here can be looked into");
        assert_eq!(inspect.prune(Limits::bytes(0)).map(drop), refused);
        assert_eq!(inspect.report(&Statistics::default(), None), refused);
        assert_eq!(store.clear(), refused);
        let mut after = None;
        self.reopen(self.limits, |place| {
            after = Some(place.contents());
            false
        });
        assert_eq!(after, before);
    }

    /// Makes a call on a read-only store, which changes no expectation.
    fn aside(&mut self, call: impl FnOnce(&mut Self)) {
        let exact = self.exact.clone();
        call(self);
        if self.exact.is_some() {
            self.exact = exact;
        }
    }
}

/// Returns the index of the put with this number.
fn place_of(version: u64) -> usize {
    usize::try_from(version).expect("puts are few") - 1
}

fn head(entry: &lru::Entry, artifact: &Artifact, is_sealed: bool) -> Head {
    Head {
        key: key_of(entry.key),
        metadata: artifact.metadata().expect("what is put is metadata"),
        payload_len: artifact.payload().len() as u64,
        is_sealed,
    }
}

fn told_of(entry: &Entry) -> Result<Head, MissReason> {
    entry.head.as_ref().map_err(|reason| *reason).map(|content| Head {
        key: content.key.clone(),
        metadata: content.metadata.clone(),
        payload_len: content.payload_len,
        is_sealed: content.is_sealed,
    })
}

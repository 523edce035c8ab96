//! Runs programs: makes the calls, and compares the answers with the models.

mod change;
mod tell;

use warmstart::{Artifact, Limits, Metadata, MissReason};

use super::{
    exact::{Answer, Exact, Put},
    kept::Reported,
    known::Known,
    place::{Kind, Opened, Place, memory_size},
    program::{Beside, Damage, KEYS, Operation, Program, key_of, recipe_of},
};
use crate::{proof::payload, whole::Whole};
use xxhash_rust::xxh3::xxh3_64;

/// Runs a program on a store of this kind.
///
/// # Panics
/// If an answer of the store contradicts the models.
pub fn run(kind: Kind, program: &Program) {
    let mut run = Run::new(kind, program);
    for operation in &program.operations {
        run.step(operation);
    }
    run.finish();
}

#[derive(Debug)]
struct Run {
    kind: Kind,
    place: Place,
    /// The open store; `None` only while it is reopened.
    opened: Option<Opened>,
    limits: Limits,
    /// The artifacts of all puts, in order; the first is number 1.
    puts: Vec<Artifact>,
    known: Known,
    reported: Reported,
    /// The exact model, until a call of the disk fails or the order of use is lost.
    exact: Option<Exact>,
    /// Whether the cap holds. After reopening with a smaller cap, it holds from the next put on.
    is_capped: bool,
    /// Whether entries were changed without the store, so that their sizes differ from the accounts.
    is_tampered: bool,
    /// Whether entries may have been removed without the accounts, which are then too high and never too low.
    is_overcounted: bool,
    /// Whether bits of the database were flipped, which it may detect at any time.
    is_vandalised: bool,
}

impl Run {
    fn new(kind: Kind, program: &Program) -> Self {
        let place = Place::new(kind, program);
        Self {
            kind,
            opened: Some(place.open(program.limits)),
            place,
            limits: program.limits,
            puts: Vec::new(),
            known: Known::default(),
            reported: Reported::default(),
            exact: Some(Exact::new(kind, program.limits)),
            is_capped: true,
            is_tampered: false,
            is_overcounted: false,
            is_vandalised: false,
        }
    }

    fn step(&mut self, operation: &Operation) {
        match *operation {
            Operation::Put { key, len } => _ = self.put(key, len),
            Operation::Get(key) => self.get(key),
            Operation::Contains(key) => self.contains(key),
            Operation::Remove(key) => self.remove(key),
            Operation::RecordAccess(keys) => self.record_access(keys),
            Operation::Len => self.len(),
            Operation::Verify => self.verify(),
            Operation::Clear => self.clear(),
            Operation::Total => self.total(),
            Operation::Reopen => self.reopen(self.limits, |_| false),
            Operation::Resize(limits) => self.reopen(limits, |_| false),
            Operation::Damage { key, damage } => self.damage(key, damage),
            Operation::Prune(limits) => self.prune(limits),
            Operation::Entries => self.entries(),
            Operation::Nearest(number) => self.nearest(number),
            Operation::Report { hits, busy, miss } => self.report(hits, busy, miss),
            Operation::Stats => self.stats(),
            Operation::Flush => self.flush(),
            Operation::ReadOnly => self.read_only(),
            Operation::Vandalise { what, at, mask } => self.vandalise(what, at, mask),
            Operation::Fail { skip, count, code } => self.place.disk.fail(skip, count, code),
            Operation::Repair => self.repair(),
        }
        self.check_cap();
    }

    /// Checks that the store works again once the disk does.
    fn finish(&mut self) {
        self.repair();
        (0..KEYS).for_each(|key| self.get(key));
        let is_kept = (0..4).any(|_| self.put(0, 0));
        let admits = self.limits.admit(self.kind.size(&key_of(0), self.newest())).is_ok();
        assert_eq!(is_kept, admits, "the store works again");
        self.get(0);
        self.len();
        self.entries();
        self.stats();
        self.total();
        self.reopen(self.limits, |_| false);
        (0..KEYS).for_each(|key| self.get(key));
        self.verify();
        self.nearest(0);
        self.stats();
        self.check_cap();
    }

    /// Makes the call, and returns whether the disk failed during it.
    fn call<T>(&mut self, call: impl FnOnce(&Opened) -> T) -> (T, bool) {
        let before = self.place.disk.failures();
        let answer = call(self.opened.as_ref().expect("the store is open between the steps"));
        let failed = self.place.disk.failures() != before;
        if failed {
            self.exact = None;
            // An entry may have gone, and neither could that be noted nor the journal be removed.
            self.is_overcounted = true;
        }
        (answer, failed)
    }

    /// Checks that the reason for an unknown answer is plausible.
    fn check_excuse(&self, reason: MissReason, failed: bool) {
        assert!(failed || self.is_vandalised, "without a fault: {reason:?}");
    }

    /// Puts an artifact, and returns whether it was accepted.
    fn put(&mut self, key: usize, len: usize) -> bool {
        let version = self.puts.len() as u64 + 1;
        let name = key_of(key);
        let mut artifact = Artifact::new(payload(&name, version, len));
        let number = version.to_le_bytes();
        artifact = match version % 4 {
            0 => artifact.with_metadata(&Metadata::new().with_attribute("version", number)),
            1 => artifact,
            _ => {
                let recipe = recipe_of((xxh3_64(&number) & 0xffff) as u16);
                artifact.with_metadata(&Metadata::new().with_recipe(recipe))
            }
        };
        self.puts.push(artifact.clone());
        let size = self.kind.size(&name, &artifact);
        let expected = self
            .exact
            .as_mut()
            .map(|exact| exact.put(Put { key, version, size, memory_size: memory_size(&name, &artifact) }));
        let (stored, failed) = self.call(|opened| opened.store().put(&name, &artifact));

        if self.exact.is_some() {
            assert_eq!(Some(stored), expected, "put {version} under key {key}");
        }
        match stored {
            Ok(evicted) => {
                assert_eq!(self.limits.admit(size), Ok(()));
                self.known.stored(key, version);
                if evicted > 0 || (failed && self.limits != Limits::NONE) {
                    self.known.evicted_except(Some(key));
                }
                if self.is_vandalised {
                    self.known.evicted_except(None);
                }
                self.is_capped = true;
            }
            Err(MissReason::Oversize) => assert_eq!(self.limits.admit(size), Err(MissReason::Oversize)),
            Err(reason) => {
                self.check_excuse(reason, failed);
                if self.limits != Limits::NONE {
                    self.known.evicted_except(None);
                }
                self.known.refused(key, version);
            }
        }
        stored.is_ok()
    }

    fn get(&mut self, key: usize) {
        let (found, failed) = self.call(|opened| opened.store().get(&key_of(key)));
        let puts = &self.puts;
        let put = |version: u64| &puts[usize::try_from(version).expect("puts are few") - 1];
        let expected = self
            .exact
            .as_mut()
            .map(|exact| exact.get(key, |version| memory_size(&key_of(key), put(version))));
        let answer = match found {
            Ok(artifact) => {
                let known = self.known.of(key);
                let is_put = |version: &&u64| {
                    put(**version).payload() == artifact.payload()
                        && put(**version).encoded_metadata() == artifact.encoded_metadata()
                };
                let version = known.versions.iter().find(is_put);
                let version = *version.expect("what was found is what was last put under the key");
                if self.kind != Kind::Tiered {
                    // Memory may serve for a while what the store behind refused.
                    known.versions = [version].into();
                }
                Answer::Hit(version)
            }
            Err(reason) => {
                let known = self.known.of(key);
                assert!(failed || !known.must_be_found, "key {key} was put, and is not found: {reason:?}");
                match reason {
                    MissReason::Absent if failed => {}
                    MissReason::Absent => self.known.absent(key),
                    MissReason::Forged | MissReason::Unsealed | MissReason::Sealed => {
                        assert!(known.is_damaged, "nothing was planted under key {key}: {reason:?}");
                    }
                    reason if reason.is_damage() => {
                        let is_damaged = known.is_damaged || self.is_vandalised;
                        assert!(is_damaged, "key {key} was not damaged: {reason:?}");
                    }
                    // The directory could not be made yet, and so nothing is in it.
                    MissReason::Unavailable => {}
                    reason => self.check_excuse(reason, failed),
                }
                Answer::Miss(reason)
            }
        };
        if self.exact.is_some() {
            assert_eq!(Some(answer), expected, "key {key}");
        }
    }

    fn contains(&mut self, key: usize) {
        let (contains, failed) = self.call(|opened| opened.store().contains(&key_of(key)));
        if let Some(exact) = &self.exact {
            assert_eq!(contains, Ok(exact.contains(key)), "key {key}");
        }
        let known = self.known.of(key);
        match contains {
            Ok(true) => assert!(known.may_be_there(), "nothing is under key {key}"),
            Ok(false) => assert!(!known.must_be_found, "key {key} was put"),
            Err(MissReason::Unavailable) if !known.must_be_found => {}
            Err(reason) => self.check_excuse(reason, failed),
        }
    }

    fn remove(&mut self, key: usize) {
        let expected = self.exact.as_mut().map(|exact| Ok(exact.remove(key)));
        let (removed, failed) = self.call(|opened| opened.store().remove(&key_of(key)));
        if self.exact.is_some() {
            assert_eq!(Some(removed), expected, "key {key}");
        }
        let known = self.known.of(key);
        match removed {
            Ok(true) => assert!(known.may_be_there(), "nothing is under key {key}"),
            Ok(false) => assert!(!known.must_be_found, "key {key} was put"),
            Err(reason) => return self.check_excuse(reason, failed),
        }
        self.known.absent(key);
    }

    fn record_access(&mut self, keys: [usize; 2]) {
        if let Some(exact) = &mut self.exact {
            exact.record_access(&keys);
        }
        let names = keys.map(key_of);
        self.call(|opened| opened.store().record_access(&[&names[0], &names[1]]));
    }

    fn len(&mut self) {
        let expected = self.exact.as_ref().map(|exact| Ok(exact.count()));
        let (totals, failed) = self.call(|opened| opened.inspect().totals());
        let len = totals.map(|totals| totals.entries);
        if self.exact.is_some() {
            assert_eq!(Some(len), expected);
        }
        match len {
            Ok(len) => self.check_count(len, failed),
            Err(reason) => self.check_unknown(reason, failed),
        }
    }

    fn verify(&mut self) {
        let expected = self.exact.as_mut().map(|exact| Ok(exact.verify()));
        let (found, failed) = self.call(|opened| opened.store().whole_and_damaged());
        if self.exact.is_some() {
            assert_eq!(Some(found), expected);
        }
        match found {
            Ok((whole, _)) => self.check_count(whole, failed),
            Err(reason) => self.check_unknown(reason, failed),
        }
    }

    fn check_count(&self, count: u64, failed: bool) {
        let (least, most) = self.known.bounds();
        assert!(self.is_vandalised || count <= most, "{count} entries, and at most {most} are known");
        // An unreadable entry is not counted.
        assert!(failed || count >= least, "{count} entries, and at least {least} were put");
    }

    fn check_unknown(&self, reason: MissReason, failed: bool) {
        let is_nowhere = reason == MissReason::Unavailable && self.known.bounds().0 == 0;
        if !is_nowhere {
            self.check_excuse(reason, failed);
        }
    }

    fn clear(&mut self) {
        let (cleared, failed) = self.call(|opened| opened.store().clear());
        match cleared {
            Ok(()) => {
                if let Some(exact) = &mut self.exact {
                    exact.clear();
                }
                self.known.cleared();
                (self.is_tampered, self.is_overcounted) = (false, false);
                self.is_capped = true;
            }
            Err(reason) => {
                self.check_excuse(reason, failed);
                self.known.evicted_except(None);
                self.is_overcounted = true;
            }
        }
    }

    fn total(&mut self) {
        let (total, failed) = self.call(Opened::total_bytes);
        if let Some(exact) = &self.exact {
            assert_eq!(total, Ok(exact.total()));
        }
        match total {
            Ok(total) => {
                let on_disk = self.place.on_disk().map_or(0, |(bytes, _)| bytes);
                let is_right = total == on_disk || (self.is_overcounted && total > on_disk);
                let is_comparable = self.kind.has_files() && !self.is_tampered && !failed;
                assert!(!is_comparable || is_right, "{total} bytes are counted, and {on_disk} are there");
            }
            Err(reason) => self.check_excuse(reason, failed),
        }
    }

    fn repair(&self) {
        self.place.disk.fail(u64::MAX, 0, 0);
    }

    fn check_cap(&self) {
        let (Some(max), Some((bytes, overhead))) = (self.limits.max_bytes, self.place.on_disk()) else {
            return;
        };
        let is_bound = self.is_capped && !self.is_vandalised;
        assert!(!is_bound || bytes <= max + overhead, "{bytes} bytes on disk, and the cap is {max}");
    }

    fn newest(&self) -> &Artifact {
        self.puts.last().expect("there was a put")
    }
}

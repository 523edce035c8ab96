//! The calls, and the comparison.

use warmstart::{Artifact, Limits, Lookup, Metadata, Reason};

use super::{
    exact::{Answer, Exact, Put},
    known::Known,
    place::{Kind, Opened, Place, memory_size},
    program::{Damage, KEYS, Operation, Program},
};
use crate::proof::payload;

/// Runs a program on a store of this kind.
///
/// # Panics
/// If the store does what the model says it must not.
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
    /// Nothing only while it is opened again.
    opened: Option<Opened>,
    limits: Limits,
    /// What every put was to store, in order; the first is number 1.
    puts: Vec<Artifact>,
    known: Known,
    /// Until a call of the disk fails or the order of use is lost.
    exact: Option<Exact>,
    /// Whether the cap holds: a store that is opened with a smaller one is brought down by the next put.
    is_capped: bool,
    /// Whether entries were changed behind the store's back, so that they are not as they were accounted for.
    is_tampered: bool,
    /// Whether entries were removed and the accounts may not have heard: they say too much then, and never too little.
    is_overcounted: bool,
    /// Whether bits of the database were flipped, which it may find out at any time.
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
            Operation::Touch(keys) => self.touch(keys),
            Operation::Len => self.len(),
            Operation::Verify => self.verify(),
            Operation::Clear => self.clear(),
            Operation::Total => self.total(),
            Operation::Reopen => self.reopen(self.limits, |_| false),
            Operation::Resize(limits) => self.reopen(limits, |_| false),
            Operation::Damage { key, damage } => self.damage(key, damage),
            Operation::Vandalise { at, mask } => self.vandalise(at, mask),
            Operation::Fail { skip, count, code } => self.place.disk.fail(skip, count, code),
            Operation::Heal => self.heal(),
        }
        self.check_cap();
    }

    /// When the faults are over, all is well again.
    fn finish(&mut self) {
        self.heal();
        (0..KEYS).for_each(|key| self.get(key));
        let is_kept = (0..4).any(|_| self.put(0, 0));
        let admits = self.limits.admit(self.kind.size(&key_of(0), self.newest())).is_ok();
        assert_eq!(is_kept, admits, "the store works again");
        self.get(0);
        self.len();
        self.total();
        self.reopen(self.limits, |_| false);
        (0..KEYS).for_each(|key| self.get(key));
        self.verify();
        self.check_cap();
    }

    /// Makes the call, and says whether the disk failed in it.
    fn call<T>(&mut self, call: impl FnOnce(&Opened) -> T) -> (T, bool) {
        let before = self.place.disk.failures();
        let answer = call(self.opened.as_ref().expect("the store is open between the steps"));
        let failed = self.place.disk.failures() != before;
        if failed {
            self.exact = None;
        }
        (answer, failed)
    }

    /// Whether this reason for an answer that is not known is a good one.
    fn check_excuse(&self, reason: Reason, failed: bool) {
        assert!(failed || self.is_vandalised, "without a fault: {reason:?}");
    }

    /// Says whether it was accepted.
    fn put(&mut self, key: usize, len: usize) -> bool {
        let version = self.puts.len() as u64 + 1;
        let name = key_of(key);
        let mut artifact = Artifact::new(payload(&name, version, len));
        if version.is_multiple_of(4) {
            artifact =
                artifact.with_metadata(&Metadata::new().with_attribute("version", version.to_le_bytes()));
        }
        self.puts.push(artifact.clone());
        let size = self.kind.size(&name, &artifact);
        let expected = self
            .exact
            .as_mut()
            .map(|exact| exact.put(Put { key, version, size, memory_size: memory_size(&name, &artifact) }));
        let (stored, failed) = self.call(|opened| opened.store().put(&name, &artifact));
        let stored = stored.map(|stored| stored.evicted);

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
            Err(Reason::Oversize) => assert_eq!(self.limits.admit(size), Err(Reason::Oversize)),
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
            Lookup::Hit(artifact) => {
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
            Lookup::Miss(reason) => {
                let known = self.known.of(key);
                assert!(failed || !known.must_be_found, "key {key} was put, and is not found: {reason:?}");
                match reason {
                    Reason::Absent if failed => Answer::Absent,
                    Reason::Absent => {
                        self.known.absent(key);
                        Answer::Absent
                    }
                    reason if reason.is_damage() => {
                        assert!(
                            known.is_damaged || self.is_vandalised,
                            "nobody damaged key {key}: {reason:?}"
                        );
                        Answer::Damaged
                    }
                    // The directory could not be made yet, and so nothing is in it.
                    Reason::Unavailable => Answer::Absent,
                    reason => {
                        self.check_excuse(reason, failed);
                        Answer::Absent
                    }
                }
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
            Err(Reason::Unavailable) if !known.must_be_found => {}
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

    fn touch(&mut self, keys: [usize; 2]) {
        if let Some(exact) = &mut self.exact {
            exact.touch(&keys);
        }
        let names = keys.map(key_of);
        self.call(|opened| opened.store().touch(&[&names[0], &names[1]]));
    }

    fn len(&mut self) {
        let expected = self.exact.as_mut().map(|exact| Ok(exact.count()));
        let (len, failed) = self.call(|opened| opened.store().len());
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
        let (found, failed) = self.call(|opened| opened.store().verify());
        if self.exact.is_some() {
            assert_eq!(Some(found), expected);
        }
        match found {
            Ok(found) => self.check_count(found.whole, failed),
            Err(reason) => self.check_unknown(reason, failed),
        }
    }

    fn check_count(&self, count: u64, failed: bool) {
        let (least, most) = self.known.bounds();
        assert!(self.is_vandalised || count <= most, "{count} entries, and at most {most} are known");
        // What cannot be read is not counted.
        assert!(failed || count >= least, "{count} entries, and at least {least} were put");
    }

    fn check_unknown(&self, reason: Reason, failed: bool) {
        let is_nowhere = reason == Reason::Unavailable && self.known.bounds().0 == 0;
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

    /// Closes the store, does something to it, and opens it again. If `meanwhile` says
    /// that the order of use is lost, it is.
    fn reopen(&mut self, limits: Limits, meanwhile: impl FnOnce(&Place) -> bool) {
        let before = self.place.disk.failures();
        self.opened = None;
        let is_lost = meanwhile(&self.place);
        self.opened = Some(self.place.open(limits));
        match &mut self.exact {
            Some(exact) if !is_lost && before == self.place.disk.failures() => exact.reopen(limits),
            _ => self.exact = None,
        }
        if !self.kind.is_persistent() {
            self.known.cleared();
        }
        self.is_capped &= limits == self.limits;
        self.limits = limits;
    }

    fn damage(&mut self, key: usize, damage: Damage) {
        let Some(state) = self.place.damage(&key_of(key), damage) else { return };
        self.is_tampered = true;
        let known = self.known.of(key);
        (known.is_damaged, known.must_be_found) = (true, false);
        if let Some(exact) = &mut self.exact {
            exact.damage(key, state);
        }
    }

    fn vandalise(&mut self, at: usize, mask: u8) {
        let mut is_done = false;
        self.reopen(self.limits, |place| {
            is_done = place.vandalise(at, mask);
            is_done
        });
        if is_done && self.kind == Kind::Sqlite {
            self.is_vandalised = true;
            self.known.damaged();
        }
    }

    fn heal(&self) {
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

/// Keys that are empty, that begin alike, and that are longer than some payloads.
fn key_of(key: usize) -> Vec<u8> {
    match key {
        0 => b"key".to_vec(),
        1 => Vec::new(),
        2 => b"key\0".to_vec(),
        3 => b"kez".to_vec(),
        4 => vec![0; 300],
        5 => vec![0; 301],
        6 => vec![0xff; 32],
        _ => b"key".repeat(500),
    }
}

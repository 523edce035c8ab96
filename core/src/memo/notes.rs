//! What the evaluations of one launch have observed, each thing once.

use alloc::vec::Vec;
use core::mem;

use foldhash::fast::FixedState;
use hashbrown::{HashMap, hash_map::Entry};

use super::{
    dependencies::{Observed, Seen, see},
    world::{World, WorldId},
};

/// How things were when they were last looked at, and since which evaluation they have been so.
///
/// Hundreds of specs of a launch are computed from the same few things. So an evaluation looks at each of these once, and a spec
/// holds if none of its things has changed since it was made: a comparison of two numbers for each, without a question to the world.
#[derive(Clone, Debug)]
pub(super) struct Notes {
    notes: Vec<Note>,
    places: HashMap<Observed, u32, FixedState>,
    world: Option<WorldId>,
    /// Counts evaluations. Numbers of evaluations tell what was before what.
    round: u64,
    /// Counts evaluations of specs.
    specs: u64,
}

#[derive(Clone, Debug)]
struct Note {
    observed: Observed,
    seen: Seen,
    /// The evaluation that looked last.
    looked: u64,
    /// The evaluation that saw it so first.
    since: u64,
    /// The evaluation whose launch listed it last, and the spec that did so last.
    launch: u64,
    spec: u64,
}

impl Notes {
    pub(super) const fn new() -> Self {
        let places = HashMap::with_hasher(FixedState::with_seed(0));
        Self { notes: Vec::new(), places, world: None, round: 0, specs: 0 }
    }

    /// The number of the evaluation that is under way, or was last.
    pub(super) const fn round(&self) -> u64 {
        self.round
    }

    pub(super) const fn len(&self) -> usize {
        self.notes.len()
    }

    /// An evaluation begins in `world`. Whether what is noted is of another one, and was forgotten.
    pub(super) fn begin(&mut self, world: WorldId) -> bool {
        self.round += 1;
        let is_other = self.world.replace(world).is_some_and(|before| before != world);
        if is_other {
            self.notes.clear();
            self.places.clear();
        }
        is_other
    }

    /// Since which evaluation the thing at `place` is as it is. Asks the world if this evaluation did not do so yet.
    #[inline]
    pub(super) fn look<W: World + ?Sized>(&mut self, place: u32, world: &W) -> u64 {
        let note = &mut self.notes[place as usize];
        if note.looked != self.round {
            let now = see(world, note.observed);
            note.look(now, self.round);
        }
        note.since
    }

    /// Something was seen. Its place, and whether this evaluation has always seen it so.
    pub(super) fn observe(&mut self, observed: Observed, now: Seen) -> (u32, bool) {
        match self.places.entry(observed) {
            Entry::Occupied(occupied) => {
                let place = *occupied.get();
                let note = &mut self.notes[place as usize];
                if note.looked == self.round {
                    return (place, note.seen == now);
                }
                note.look(now, self.round);
                (place, true)
            }
            Entry::Vacant(vacant) => {
                let place = u32::try_from(self.notes.len()).expect("there is no memory for 2^32 notes");
                vacant.insert(place);
                self.notes.push(Note {
                    observed,
                    seen: now,
                    looked: self.round,
                    since: self.round,
                    launch: 0,
                    spec: 0,
                });
                (place, true)
            }
        }
    }

    /// The number of a spec whose evaluation begins.
    pub(super) const fn next_spec(&mut self) -> u64 {
        self.specs += 1;
        self.specs
    }

    /// The launch, or the spec of this number, lists the thing at `place`. False if it has done so already; of a spec it may be true again if
    /// another one listed it meanwhile.
    #[inline]
    pub(super) fn list(&mut self, place: u32, spec: Option<u64>) -> bool {
        let note = &mut self.notes[place as usize];
        match spec {
            Some(spec) => mem::replace(&mut note.spec, spec) != spec,
            None => mem::replace(&mut note.launch, self.round) != self.round,
        }
    }

    /// What is at `place`, how it was seen last, and since when.
    pub(super) fn note(&self, place: u32) -> (Observed, Seen, u64) {
        let note = &self.notes[place as usize];
        (note.observed, note.seen, note.since)
    }

    /// Whether the notes are of this world.
    pub(super) fn are_of(&self, world: WorldId) -> bool {
        self.world == Some(world)
    }

    /// Forgets what the last evaluation did not look at and nobody `uses`. Where what stays has gone, by its old place.
    pub(super) fn sweep(&mut self, uses: &[bool]) -> Vec<u32> {
        let mut moved = Vec::with_capacity(self.notes.len());
        let mut kept = 0;
        let round = self.round;
        let mut used = uses.iter();
        self.notes.retain(|note| {
            let stays = used.next().is_some_and(|used| *used) || note.looked == round;
            moved.push(kept);
            kept += u32::from(stays);
            stays
        });
        self.places.clear();
        self.places.extend(self.notes.iter().zip(0..).map(|(note, place)| (note.observed, place)));
        moved
    }
}

impl Note {
    #[inline]
    fn look(&mut self, now: Seen, round: u64) {
        if self.seen != now {
            self.seen = now;
            self.since = round;
        }
        self.looked = round;
    }
}

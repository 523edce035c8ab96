//! Sketches: recipes in 56 bytes, so that the nearest of many thousands is found without reading their entries.
//!
//! A sketch has a slot for each of the first fields of a recipe, a few that the other fields share, and one for the domain.
//! A field's slot holds half a digest of what the fields' values are, and half a digest of what they look like. Two recipes that differ in few
//! fields differ in few slots. A sketch only proposes: whether a recipe is near, and how it differs, the recipe itself
//! says.

use alloc::vec::Vec;

use xxhash_rust::xxh3::Xxh3Default;

use crate::{
    metadata::Metadata,
    recipe::{Recipe, RecipeField},
    sum::xxh3_64,
};

const SLOTS: usize = 14;

/// The fields after these share the slots that are left, by their labels: one that is added or gone in the middle, such
/// as a header of many, then moves none of the others.
const OWN: usize = 10;

/// The slot of the domain.
const DOMAIN: usize = SLOTS - 1;

/// What is left of a recipe when only its likeness to others matters.
///
/// ```
/// use warmstart_core::{key::KeyFields, sketch::Sketch};
///
/// let recipe = |flags: &'static str| KeyFields::new("cpu", 1).text("source", "int f;").text("flags", flags).recipe();
/// let sketch = Sketch::of(&recipe("-O2"));
/// assert_eq!(sketch.distance_to(&Sketch::of(&recipe("-O2"))), Some(0));
/// assert_eq!(sketch.distance_to(&Sketch::of(&recipe("-O3"))), Some(2));
/// assert_eq!(sketch.distance_to(&Sketch::of(&KeyFields::new("cuda", 1).recipe())), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sketch([u32; SLOTS]);

impl Sketch {
    /// The length of an encoded sketch in bytes.
    pub const LEN: usize = 4 * SLOTS;

    /// The sketch of a recipe.
    #[must_use]
    pub fn of(recipe: &Recipe) -> Self {
        let mut slots = [0; SLOTS];
        slots[DOMAIN] = (xxh3_64(recipe.domain().as_bytes()) & 0xffff_ffff) as u32;
        for (at, field) in recipe.fields().iter().enumerate() {
            let (value, look) = digest(recipe, field);
            let slot = if at < OWN { at } else { OWN + usize::from(value.1) % (DOMAIN - OWN) };
            // Added up, so that the order does not matter where fields share a slot, and equal ones do not cancel out.
            slots[slot] = add(slots[slot], u32::from(value.0) << 16 | u32::from(look));
        }
        Self(slots)
    }

    /// The sketch of the recipe in encoded metadata, if there is one.
    #[must_use]
    pub fn of_metadata(encoded: &[u8]) -> Option<Self> {
        // Nothing known is no bytes at all, and the first byte says whether there is a recipe.
        if encoded.first() != Some(&1) {
            return None;
        }
        Metadata::decode(encoded).ok()?.recipe().map(Self::of)
    }

    /// How far apart two recipes seem: 2 for each slot that looks different, 1 for each whose value differs all the same.
    /// Nothing if they are of different domains.
    #[must_use]
    pub fn distance_to(&self, other: &Self) -> Option<u32> {
        if self.0[DOMAIN] != other.0[DOMAIN] {
            return None;
        }
        Some(self.0.iter().zip(other.0).fold(0, |sum, (one, other)| {
            let differing = one ^ other;
            sum + u32::from(differing != 0) + u32::from(differing & 0xffff != 0)
        }))
    }

    /// Whether the field `at` seems to look the same. Of fields that share a slot that is not known.
    fn looks_alike_at(&self, other: &Self, at: usize) -> bool {
        at < OWN && (self.0[at] ^ other.0[at]) & 0xffff == 0
    }

    /// The sketch as it is stored: its slots, little-endian.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        for (bytes, slot) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(self.0) {
            *bytes = slot.to_le_bytes();
        }
        bytes
    }

    /// The sketch that [`to_bytes`](Self::to_bytes) wrote.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Self::LEN]) -> Self {
        let mut slots = [0; SLOTS];
        for (slot, bytes) in slots.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *slot = u32::from_le_bytes(*bytes);
        }
        Self(slots)
    }
}

/// Half a digest of a field's value, half of one of its label, and half of one of what a person sees of it.
fn digest(recipe: &Recipe, field: &RecipeField) -> ((u16, u16), u16) {
    let mut hasher = Xxh3Default::new();
    hasher.update(&recipe.schema().to_le_bytes());
    hasher.update(field.label().as_bytes());
    let label = hasher.digest();
    let mut shown = hasher.clone();
    shown.update(field.value().unwrap_or_default().as_bytes());
    hasher.update(&field.digest());
    ((low(hasher.digest()), low(label)), low(shown.digest()))
}

fn low(digest: u64) -> u16 {
    (digest & 0xffff) as u16
}

/// Adds both halves, each by itself.
const fn add(one: u32, other: u32) -> u32 {
    let low = (one & 0xffff).wrapping_add(other & 0xffff) & 0xffff;
    let high = (one >> 16).wrapping_add(other >> 16) & 0xffff;
    high << 16 | low
}

/// The few of many that seem nearest to one recipe.
///
/// ```
/// use warmstart_core::{key::KeyFields, sketch::{Nearest, Sketch}};
///
/// let recipe = |n| KeyFields::new("example", 1).number("n", n).text("of", "example").recipe();
/// let mut nearest = Nearest::new(&recipe(7), 2);
/// for n in 0..100 {
///     nearest.offer(&Sketch::of(&recipe(n)), n);
/// }
/// assert_eq!(nearest.into_vec(), [7, 99]);
/// ```
#[derive(Clone, Debug)]
pub struct Nearest<T> {
    wanted: Sketch,
    /// Which field has the name of what is wanted.
    name_at: Option<usize>,
    most: usize,
    /// The nearest first, and of those that are equally far the one that was offered last.
    found: Vec<Proposal<T>>,
}

#[derive(Clone, Debug)]
struct Proposal<T> {
    /// As [`Recipe::remoteness_of`] has it.
    remoteness: (u32, bool),
    what: T,
}

impl<T> Nearest<T> {
    /// To be told of many, keeps at most so many.
    #[must_use]
    pub fn new(wanted: &Recipe, most: usize) -> Self {
        let name_at = wanted.name_at();
        Self { wanted: Sketch::of(wanted), name_at, most, found: Vec::new() }
    }

    /// One more; of another domain it is none. Of those that are equally far, the ones that seem to have the
    /// same name are kept, and then the ones that are offered later.
    pub fn offer(&mut self, sketch: &Sketch, what: T) {
        self.offer_with(sketch, || what);
    }

    /// As [`offer`](Self::offer); `what` is only asked for if it is kept for now.
    pub fn offer_with(&mut self, sketch: &Sketch, what: impl FnOnce() -> T) {
        let Some(distance) = self.wanted.distance_to(sketch) else { return };
        let is_other = self.name_at.is_some_and(|at| !self.wanted.looks_alike_at(sketch, at));
        let remoteness = (distance, is_other);
        if self.found.len() >= self.most {
            if self.found.last().is_none_or(|farthest| farthest.remoteness < remoteness) {
                return;
            }
            self.found.pop();
        }
        let at = self.found.partition_point(|nearer| nearer.remoteness < remoteness);
        self.found.insert(at, Proposal { remoteness, what: what() });
    }

    /// What was kept, the nearest first, and of those that are equally far and alike in name the last one offered.
    #[must_use]
    pub fn into_vec(self) -> Vec<T> {
        self.found.into_iter().map(|proposal| proposal.what).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeyFields;
    use alloc::format;

    /// A recipe of so many fields, one of which differs.
    fn recipe(fields: usize, changed: Option<usize>) -> Recipe {
        (0..fields)
            .fold(KeyFields::new("d", 1), |key, at| {
                key.number(format!("field {at}"), at as u64 + u64::from(changed == Some(at)) * 1000)
            })
            .recipe()
    }

    #[test]
    fn one_field_that_differs_is_one_slot_wherever_it_stands() {
        // Miri takes a tenth of a second for a field.
        let many = if cfg!(miri) { 13 } else { 40 };
        let old = Sketch::of(&recipe(many, None));
        for at in 0..many {
            assert_eq!(old.distance_to(&Sketch::of(&recipe(many, Some(at)))), Some(2), "field {at}");
        }
        assert_eq!(old.distance_to(&Sketch::of(&recipe(many, None))), Some(0));
    }

    #[test]
    fn the_same_look_is_nearer_than_another() {
        let of = |digest: u8, note: &'static str| {
            Sketch::of(&KeyFields::new("d", 1).digest("source", [digest; 32].to_vec(), note).recipe())
        };
        assert_eq!(of(1, "softmax").distance_to(&of(2, "softmax")), Some(1));
        assert_eq!(of(1, "softmax").distance_to(&of(2, "norm")), Some(2));
    }

    #[test]
    fn another_domain_is_no_neighbour_and_another_schema_is_far_in_every_field() {
        let of = |domain: &'static str, schema| {
            Sketch::of(&KeyFields::new(domain, schema).number("a", 1).number("b", 2).recipe())
        };
        assert_eq!(of("d", 1).distance_to(&of("e", 1)), None);
        assert_eq!(of("d", 1).distance_to(&of("d", 2)), Some(4));
    }

    #[test]
    fn a_field_in_the_middle_of_many_moves_none_of_the_others() {
        let with = |more: bool| {
            let fields = (0..20).fold(KeyFields::new("d", 1), |key, at| {
                let key = key.number(format!("field {at}"), at);
                if more && at == 12 { key.text("header x.h", "new") } else { key }
            });
            Sketch::of(&fields.recipe())
        };
        assert_eq!(with(false).distance_to(&with(true)), Some(2));
    }

    #[test]
    fn bytes_and_metadata_give_the_same_sketch() {
        let recipe = recipe(12, None);
        let sketch = Sketch::of(&recipe);
        assert_eq!(Sketch::from_bytes(&sketch.to_bytes()), sketch);
        let metadata = Metadata::new().with_recipe(recipe);
        assert_eq!(Sketch::of_metadata(&metadata.encode()), Some(sketch));
        assert_eq!(Sketch::of_metadata(&[]), None);
        assert_eq!(Sketch::of_metadata(&Metadata::new().with_attribute("a", b"b").encode()), None);
        assert_eq!(Sketch::of_metadata(&[1, 255, 255]), None);
    }

    #[test]
    fn the_bytes_are_those_of_the_documentation() {
        let bytes = Sketch::of(&recipe(1, None)).to_bytes();
        let mut hasher = Xxh3Default::new();
        for part in [&1u32.to_le_bytes()[..], b"field 0"] {
            hasher.update(part);
        }
        let mut shown = hasher.clone();
        shown.update(b"0");
        hasher.update(&recipe(1, None).fields()[0].digest());
        assert_eq!(bytes[..2], shown.digest().to_le_bytes()[..2]);
        assert_eq!(bytes[2..4], hasher.digest().to_le_bytes()[..2]);
        assert_eq!(bytes[4..52], [0; 48]);
        assert_eq!(bytes[52..], xxh3_64(b"d").to_le_bytes()[..4]);
    }

    #[test]
    fn of_many_the_nearest_are_kept_and_of_equals_the_last() {
        let wanted = recipe(3, None);
        let mut nearest = Nearest::new(&wanted, 3);
        let farther = Sketch::of(&recipe(3, Some(1)));
        for number in 0..100 {
            nearest.offer(&farther, number);
        }
        nearest.offer(&Sketch::of(&recipe(4, None)), 200);
        nearest.offer(&Sketch::of(&wanted), 100);
        nearest.offer(&Sketch::of(&recipe(2, Some(1))), 300);
        assert_eq!(nearest.into_vec(), [100, 200, 99]);
    }
    #[test]
    fn of_equally_far_recipes_one_of_the_same_name_is_kept() {
        let of = |name: u64, flags: u64| {
            KeyFields::new("d", 1).number("name", name).number("flags", flags).recipe()
        };
        let mut nearest = Nearest::new(&of(1, 0), 2);
        nearest.offer(&Sketch::of(&of(1, 7)), 1);
        (2..100).for_each(|name| nearest.offer(&Sketch::of(&of(name, 0)), name));
        assert_eq!(nearest.into_vec(), [1, 99]);
    }
}

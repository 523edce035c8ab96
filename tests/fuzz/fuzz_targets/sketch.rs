//! Sketches are what docs/format.md describes, and the nearest of many are those that a sort finds.
#![no_main]

use libfuzzer_sys::{arbitrary, arbitrary::Arbitrary, fuzz_target};
use warmstart_core::{
    metadata::Metadata,
    recipe::Recipe,
    sketch::{Nearest, Sketch},
};
use warmstart_fuzz::Fields;
use xxhash_rust::xxh3::xxh3_64;

#[derive(Arbitrary, Debug)]
enum Input<'a> {
    Metadata(&'a [u8]),
    Fields(Fields, Fields),
    Any([u8; 28], [u8; 28]),
    /// Sketches that differ from the one that is looked for in these bytes.
    Nearest {
        wanted: Fields,
        most: u8,
        offered: Vec<Vec<(u8, u8)>>,
    },
}

fuzz_target!(|input: Input<'_>| match input {
    Input::Metadata(bytes) => {
        let recipe = Metadata::decode(bytes).ok().and_then(|metadata| metadata.recipe().cloned());
        let sketch = Sketch::of_metadata(bytes);
        assert_eq!(sketch, recipe.as_ref().map(Sketch::of));
        assert_eq!(sketch.map(|sketch| sketch.to_bytes()), recipe.as_ref().map(plain_sketch));
    }
    Input::Fields(one, other) => {
        let [one, other] = [one, other].map(|fields| fields.recipe());
        let sketches = [&one, &other].map(Sketch::of);
        assert_eq!(sketches.map(|sketch| sketch.to_bytes()), [&one, &other].map(plain_sketch));
        assert!(one.distance_to(&other) > 0 || one.domain() != other.domain() || sketches[0] == sketches[1]);
        compare(sketches[0], sketches[1]);
    }
    Input::Any(one, other) => {
        let sketch = |half: [u8; 28]| Sketch::from_bytes(&std::array::from_fn(|at| half[at / 2]));
        compare(sketch(one), sketch(other));
    }
    Input::Nearest { wanted, most, offered } => {
        let recipe = wanted.recipe();
        let wanted = plain_sketch(&recipe);
        let offered: Vec<Sketch> = offered
            .into_iter()
            .map(|changes| {
                let mut bytes = wanted;
                changes.into_iter().for_each(|(at, mask)| bytes[usize::from(at) % Sketch::LEN] ^= mask);
                Sketch::from_bytes(&bytes)
            })
            .collect();
        nearest(&recipe, most.into(), &offered);
    }
});

fn compare(one: Sketch, other: Sketch) {
    assert_eq!(Sketch::from_bytes(&one.to_bytes()), one);
    assert_eq!(one.distance_to(&other), plain_distance(one, other));
    assert_eq!(one.distance_to(&other), other.distance_to(&one));
    assert_eq!(one.distance_to(&other) == Some(0), one == other);
}

/// Of those that are equally far any are right: what they seem to be called decides, and then which came last.
fn nearest(recipe: &Recipe, most: usize, offered: &[Sketch]) {
    let mut found = Nearest::new(recipe, most);
    offered.iter().zip(0usize..).for_each(|(sketch, number)| found.offer(sketch, number));
    let distance = |sketch: &Sketch| plain_distance(Sketch::of(recipe), *sketch);
    let mut sorted: Vec<u32> = offered.iter().filter_map(distance).collect();
    sorted.sort_unstable();
    sorted.truncate(most);
    let found = found.into_vec();
    assert!(found.iter().filter_map(|number| distance(&offered[*number])).eq(sorted));
}

/// Nothing if the last slot, the domain's, differs. Else 2 for each slot whose low half differs, and 1 for each of which
/// only the high half does.
fn plain_distance(one: Sketch, other: Sketch) -> Option<u32> {
    let (one, other) = (one.to_bytes(), other.to_bytes());
    let slots = one.as_chunks::<4>().0.iter().zip(other.as_chunks::<4>().0);
    let distance =
        slots.map(|(one, other)| if one[..2] != other[..2] { 2 } else { u32::from(one != other) }).sum();
    (one[52..] == other[52..]).then_some(distance)
}

fn plain_sketch(recipe: &Recipe) -> [u8; Sketch::LEN] {
    let mut halves = [0u16; 28];
    for (at, field) in recipe.fields().iter().enumerate() {
        let digest = |of: &[u8]| {
            let mut bytes = recipe.schema().to_le_bytes().to_vec();
            bytes.extend(field.label().as_bytes());
            bytes.extend(of);
            (xxh3_64(&bytes) % (1 << 16)) as u16
        };
        let slot = if at < 10 { at } else { 10 + usize::from(digest(b"")) % 3 };
        let text = field.value().unwrap_or("");
        for (half, digest) in [(0, digest(text.as_bytes())), (1, digest(&field.digest()))] {
            halves[2 * slot + half] = halves[2 * slot + half].wrapping_add(digest);
        }
    }
    let mut sketch: [u8; Sketch::LEN] = std::array::from_fn(|at| halves[at / 2].to_le_bytes()[at % 2]);
    sketch[52..].copy_from_slice(&xxh3_64(recipe.domain().as_bytes()).to_le_bytes()[..4]);
    sketch
}

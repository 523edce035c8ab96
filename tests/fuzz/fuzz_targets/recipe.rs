//! The difference of two recipes, against a plain comparison.
#![no_main]

use std::collections::BTreeSet;

use libfuzzer_sys::{arbitrary, arbitrary::Arbitrary, fuzz_target};
use warmstart_core::{
    artifact::Metadata,
    recipe::{MAX_TEXT, Recipe, RecipeField},
};
use warmstart_fuzz::Fields;

#[derive(Arbitrary, Debug)]
enum Input<'a> {
    Fields(Fields, Fields),
    /// Fields of another encoder: no text is cut, and no digest is one.
    Decoded(&'a [u8], &'a [u8]),
}

fuzz_target!(|input: Input<'_>| match input {
    Input::Fields(one, other) => {
        let (one, other) = (one.recipe(), other.recipe());
        for field in one.fields() {
            assert!(field.value().is_none_or(|text| text.len() <= MAX_TEXT));
        }
        compare(&one, &other);
    }
    Input::Decoded(one, other) => {
        let (one, other) = (Metadata::decode(one), Metadata::decode(other));
        if let (Ok(one), Ok(other)) = (one, other)
            && let (Some(one), Some(other)) = (one.recipe(), other.recipe())
        {
            compare(one, other);
        }
    }
});

fn compare(one: &Recipe, other: &Recipe) {
    assert_eq!(one.changes_to(one), []);
    let changes = one.changes_to(other);
    let back = other.changes_to(one);
    assert_eq!(changes.len(), back.len());
    for change in &changes {
        let is_same = |other: &&_| {
            let other: &warmstart_core::recipe::FieldChange = other;
            (&other.label, &other.old, &other.new) == (&change.label, &change.new, &change.old)
        };
        assert!(back.iter().any(|change| is_same(&change)), "{change:?} is not taken back in {back:?}");
        assert!(change.old.is_some() || change.new.is_some());
    }

    // For every label: how many of its fields, paired in order, differ.
    let label_of = |field: &RecipeField| field.label().to_owned();
    let labels: BTreeSet<String> = one.fields().iter().chain(other.fields()).map(label_of).collect();
    let mut differing = 0;
    let mut named_otherwise = 0;
    for label in &labels {
        let digests = |recipe: &Recipe| -> Vec<[u8; 8]> {
            recipe.fields().iter().filter(|field| field.label() == label).map(RecipeField::digest).collect()
        };
        let (ours, theirs) = (digests(one), digests(other));
        let pairs = 0..ours.len().max(theirs.len());
        let expected = pairs.filter(|at| ours.get(*at) != theirs.get(*at)).count();
        differing += expected;
        let named = changes.iter().filter(|change| change.label == *label).count();
        // A field may be called what is no field.
        if matches!(&**label, "schema" | "order of the fields") {
            named_otherwise += named.saturating_sub(expected);
            assert!(named <= expected + 1, "{label:?} in {changes:?}");
        } else {
            assert_eq!(named, expected, "{label:?} in {changes:?}");
        }
    }
    let order = |recipe: &Recipe| -> Vec<(String, [u8; 8])> {
        recipe.fields().iter().map(|field| (field.label().to_owned(), field.digest())).collect()
    };
    let is_reordered = differing == 0 && order(one) != order(other);
    let besides = usize::from(one.schema() != other.schema()) + usize::from(is_reordered);
    assert!(named_otherwise <= besides);
    assert_eq!(changes.len(), differing + besides);
}

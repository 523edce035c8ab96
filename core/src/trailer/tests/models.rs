//! The digests of models.

use alloc::string::ToString;

use super::super::*;

#[test]
fn any_change_of_a_name_or_a_byte_makes_another_model() {
    let weights = [("a", &b"one"[..]), ("b", b"two"), ("c", b"")];
    let model = model_of_weights(weights);
    let others: [&[(&str, &[u8])]; 7] = [
        &[("a", b"one"), ("b", b"two")],
        &[("a", b"one"), ("b", b"twO"), ("c", b"")],
        &[("a", b"one"), ("bt", b"wo"), ("c", b"")],
        &[("a", b"one"), ("b", b"tw"), ("c", b"o")],
        &[("a", b"two"), ("b", b"one"), ("c", b"")],
        &[("a", b"one"), ("b", b"two"), ("c", b""), ("c", b"")],
        &[],
    ];
    for other in others {
        assert_ne!(model_of_weights(other.iter().copied()), model, "{other:?}");
    }
    let [a, b, c] = weights;
    assert_eq!(model_of_weights([c, a, b]), model);
}

#[test]
fn the_digest_is_the_same_for_ever() {
    let model = model_of_weights([("weight", &[0, 1, 2, 3][..])]);
    assert_eq!(model.to_string(), "6103f0a0829d9784b066682cbe72857fda64f4ba1f49ec21448e63885584a2c7");
}

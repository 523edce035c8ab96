//! Deriving a key against hashing the same bytes.

use warmstart::{Key, KeyFields};

use crate::{Rows, measure::Plan, preimage::Preimage, row::Compared};

/// The rows of key derivation.
pub(super) fn rows(plan: &Plan) -> Rows {
    let source = "float f(float x) { return x * x; }\n".repeat(4096 / 35 + 1);
    let source = &source[..4096];
    let preimage = preimage(source);
    let preimage = preimage.as_bytes();
    if Key::digest(preimage) != fields(source).key() {
        return Err("key: the floor does not hash the bytes of the key".into());
    }
    let compared = plan.compare(|_| fields(source).key(), |_| Key::digest(preimage));
    Ok(compared.rows("key/4KiB", "blake2b", 1.2).to_vec())
}

/// A dozen fields, as a compiled kernel has them.
fn fields(source: &str) -> KeyFields<'_> {
    KeyFields::new("bench", 1)
        .text("source", source)
        .text("compiler", "cc (Debian 12.2.0-14) 12.2.0")
        .bytes("compiler digest", &[1; 32][..])
        .text("target", "x86_64-linux-gnu")
        .list("flags", ["-O3", "-DTILE=32"])
        .list("features", ["avx", "avx2", "fma", "sse4.2"])
        .number("tile", 32)
        .number("threads", 4)
        .text("name", "softmax")
        .text("type", "f32")
        .bytes("header", &[2; 32][..])
        .text("layout", "row-major")
}

/// The bytes that the key above is the digest of.
fn preimage(source: &str) -> Preimage {
    Preimage::new("bench", 1)
        .text("source", source)
        .text("compiler", "cc (Debian 12.2.0-14) 12.2.0")
        .raw("compiler digest", &[1; 32])
        .text("target", "x86_64-linux-gnu")
        .list("flags", &["-O3", "-DTILE=32"])
        .list("features", &["avx", "avx2", "fma", "sse4.2"])
        .number("tile", 32)
        .number("threads", 4)
        .text("name", "softmax")
        .text("type", "f32")
        .raw("header", &[2; 32])
        .text("layout", "row-major")
}

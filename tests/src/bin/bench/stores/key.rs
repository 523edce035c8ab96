//! Deriving a key against hashing the same bytes.

use warmstart::{Key, KeyFields};

use crate::{Rows, measure::Plan, row::Compared};

/// The rows of key derivation.
pub(super) fn rows(plan: &Plan) -> Rows {
    let source = "float f(float x) { return x * x; }\n".repeat(4096 / 35 + 1);
    let source = &source[..4096];
    let preimage = preimage(source);
    if Key::digest(&preimage) != fields(source).key() {
        return Err("key: the floor does not hash the bytes of the key".into());
    }
    let compared = plan.compare(|_| fields(source).key(), |_| Key::digest(&preimage));
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

/// The bytes that the key above is the digest of, as docs/format.md has them.
fn preimage(source: &str) -> Vec<u8> {
    fn put(bytes: &mut Vec<u8>, value: &[u8]) {
        bytes.extend_from_slice(&(value.len() as u64).to_le_bytes());
        bytes.extend_from_slice(value);
    }
    fn text(bytes: &mut Vec<u8>, label: &str, value: &str) {
        put(bytes, label.as_bytes());
        bytes.push(1);
        put(bytes, value.as_bytes());
    }
    fn raw(bytes: &mut Vec<u8>, label: &str, value: &[u8]) {
        put(bytes, label.as_bytes());
        bytes.push(2);
        put(bytes, value);
    }
    fn number(bytes: &mut Vec<u8>, label: &str, value: u64) {
        put(bytes, label.as_bytes());
        bytes.push(3);
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    fn list(bytes: &mut Vec<u8>, label: &str, values: &[&str]) {
        put(bytes, label.as_bytes());
        bytes.push(4);
        bytes.extend_from_slice(&(values.len() as u64).to_le_bytes());
        values.iter().for_each(|value| put(bytes, value.as_bytes()));
    }
    let mut bytes = b"warmstart key 1\0".to_vec();
    put(&mut bytes, b"bench");
    bytes.extend_from_slice(&1u32.to_le_bytes());
    bytes.extend_from_slice(&12u64.to_le_bytes());
    text(&mut bytes, "source", source);
    text(&mut bytes, "compiler", "cc (Debian 12.2.0-14) 12.2.0");
    raw(&mut bytes, "compiler digest", &[1; 32]);
    text(&mut bytes, "target", "x86_64-linux-gnu");
    list(&mut bytes, "flags", &["-O3", "-DTILE=32"]);
    list(&mut bytes, "features", &["avx", "avx2", "fma", "sse4.2"]);
    number(&mut bytes, "tile", 32);
    number(&mut bytes, "threads", 4);
    text(&mut bytes, "name", "softmax");
    text(&mut bytes, "type", "f32");
    raw(&mut bytes, "header", &[2; 32]);
    text(&mut bytes, "layout", "row-major");
    bytes
}

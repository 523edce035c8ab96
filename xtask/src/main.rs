//! What a contributor runs: `cargo xtask test`, `cargo xtask bench NAME`.
fn main() {}

//! Numbers that look random and are the same at each call.

/// Numbers from -1 to 1, without end.
pub fn noise(seed: u32) -> impl Iterator<Item = f32> {
    let mut state = seed;
    std::iter::from_fn(move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Some((state >> 8) as f32 / (1 << 23) as f32 - 1.0)
    })
}

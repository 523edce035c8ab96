//! Random numbers of a seed: SplitMix64 (Steele, Lea and Flood, 2014).

#[derive(Clone, Debug)]
pub(super) struct Numbers(pub(super) u64);

impl Numbers {
    pub(super) const fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number in `from..=to`.
    pub(super) const fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.number() % (to - from + 1)
    }

    /// Returns true in so many of a thousand cases.
    pub(super) const fn happens(&mut self, per_mille: u64) -> bool {
        self.number() % 1000 < per_mille
    }
}

//! Lengths of made-up documents: log-normal, as those of most text collections are.

/// `count` lengths of at least 1 with this mean; `sigma` is the deviation of their logarithm.
pub(crate) fn log_normal(count: usize, mean: f64, sigma: f64, seed: u64) -> Vec<u32> {
    let location = mean.ln() - sigma * sigma / 2.0;
    let mut numbers = Numbers(seed);
    (0..count).map(|_| (location + sigma * numbers.normal()).exp().round().max(1.0) as u32).collect()
}

/// SplitMix64: enough for test data.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    /// The next 64 bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// The next normal deviate (Box and Muller).
    fn normal(&mut self) -> f64 {
        let mut unit = || ((self.bits() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        let (a, b) = (unit(), unit());
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }
}

//! Randomness that is computed from what it is for, never carried along.
//!
//! ```text
//! (purpose "order.turn", seed 7, task "docs", epoch 0)  ->  blake3  ->  a 64-bit key  ->  child keys by one mix
//! (step "random_split_text", cache seed, source, 2nd of its name)  ->  example id  ->  draw 0, draw 1, …
//! ```

mod draws;
mod logarithm;
mod step;

pub use self::draws::Draws;
pub use self::step::StepRandom;
use crate::example::ExampleId;

/// 2^64 divided by the golden ratio: odd, and without a pattern in its bits.
pub(crate) const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The root of one random stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(u64);

impl Key {
    /// The key of (purpose, seed, name, number): the first eight bytes, little-endian, of blake3 over both strings
    /// (each after its length as a u64) and both numbers, little-endian.
    pub fn new(purpose: &str, seed: u64, name: &str, number: u64) -> Self {
        let mut hasher = blake3::Hasher::new();
        for text in [purpose, name] {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        }
        hasher.update(&seed.to_le_bytes());
        hasher.update(&number.to_le_bytes());
        let mut first = [0; 8];
        first.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
        Self(u64::from_le_bytes(first))
    }

    /// The key of the `index`-th part of what this key is for.
    pub fn child(self, index: u64) -> Self {
        Self(mix(self.0 ^ mix(index.wrapping_add(GOLDEN))))
    }

    /// The key of what this key is for in one example.
    pub(crate) fn of_example(self, id: &ExampleId) -> Self {
        let (low, high) = id.halves();
        self.child(low).child(high)
    }

    /// The draws of this key, one after the other.
    pub(crate) fn draws(self) -> Draws {
        Draws::new(self)
    }

    /// The key as a number.
    pub fn value(self) -> u64 {
        self.0
    }
}

/// A bijection of 64 bits in which every input bit reaches every output bit (the finaliser of SplitMix64).
pub(crate) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_key_counts() {
        let keys = [
            Key::new("a", 0, "b", 0),
            Key::new("ab", 0, "", 0),
            Key::new("a", 1, "b", 0),
            Key::new("a", 0, "b", 1),
            Key::new("a", 0, "b", 0).child(0),
            Key::new("a", 0, "b", 0).child(1),
        ];
        for (i, key) in keys.iter().enumerate() {
            assert!(!keys[..i].contains(key), "{i}");
        }
    }

    #[test]
    fn keys_never_change() {
        let keys = [Key::new("a", 1, "b", 2), Key(1).child(2)].map(|key| format!("{:016x}", key.value()));
        insta::assert_snapshot!(keys.join(" "), @"62ec4e5cdcf8a39b f2826f98653e9e57");
    }
}

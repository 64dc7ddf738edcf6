//! Distributions made of 32 random bits an element, by the formulas of `jax.random`.
//!
//! ```text
//! bits  ->  uniform in [-1, 1)  ->  √2 · erf⁻¹  ->  normal
//! ```
//!
//! Everything is sums, products and square roots, which every processor rounds the same way: machines that train
//! together draw the same parameters.

use crate::cpu::math::ln;

const SQRT_2: f32 = std::f32::consts::SQRT_2;

/// The largest float below 1, negated: where normals begin.
const ABOVE_MINUS_ONE: f32 = -1.0 + f32::EPSILON / 2.0;

/// erf(√2): what of a normal distribution lies within two deviations.
const WITHIN_TWO: f32 = 0.954_499_7;

/// Uniform in [`low`, `high`): `jax.random.uniform`.
#[inline(always)]
pub fn uniform(bits: u32, low: f32, high: f32) -> f32 {
    let unit = f32::from_bits(bits >> 9 | 1.0f32.to_bits()) - 1.0;
    (unit * (high - low) + low).max(low)
}

/// Normal with mean 0 and deviation 1: `jax.random.normal`.
#[inline(always)]
pub fn normal(bits: u32) -> f32 {
    SQRT_2 * inverse_erf(uniform(bits, ABOVE_MINUS_ONE, 1.0))
}

/// The same without what is two or more away from 0: `jax.random.truncated_normal(key, -2, 2)`. Its deviation is
/// 0.87962566.
#[inline(always)]
pub fn truncated_normal(bits: u32) -> f32 {
    let limit = 2.0f32.next_down();
    (SQRT_2 * inverse_erf(uniform(bits, -WITHIN_TWO, WITHIN_TWO))).clamp(-limit, limit)
}

/// The inverse of the error function within (-1, 1), to single precision (Giles, "Approximating the erfinv function").
#[inline(always)]
fn inverse_erf(x: f32) -> f32 {
    let w = -ln(1.0 - x * x);
    let (near, far) = (w - 2.5, w.sqrt() - 3.0);
    let near = polynomial(
        near,
        [
            2.810_226_4e-8,
            3.432_739_4e-7,
            -3.523_387_7e-6,
            -4.391_506_5e-6,
            2.185_808_7e-4,
            -1.253_725e-3,
            -4.177_681_6e-3,
            0.246_640_73,
            1.501_409_4,
        ],
    );
    let far = polynomial(
        far,
        [
            -2.002_142_6e-4,
            1.009_505_6e-4,
            1.349_343_2e-3,
            -3.673_428_4e-3,
            5.739_507_7e-3,
            -7.622_461_3e-3,
            9.438_870_5e-3,
            1.001_674,
            2.832_976_8,
        ],
    );
    x * if w < 5.0 { near } else { far }
}

#[inline(always)]
fn polynomial<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    coefficients.into_iter().fold(0.0, |sum, coefficient| sum * x + coefficient)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden;
    use crate::random::{Key, threefry2x32};

    fn floats(value: &serde_json::Value) -> Vec<f32> {
        value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect()
    }

    fn assert_near(expected: &serde_json::Value, found: impl Iterator<Item = f32>) {
        let (expected, found) = (floats(expected), found.collect::<Vec<_>>());
        assert_eq!(expected.len(), found.len());
        for (expected, found) in expected.into_iter().zip(found) {
            assert!((expected - found).abs() <= 1e-6, "{expected} against {found}");
        }
    }

    #[test]
    fn distributions_are_those_of_jax() {
        let jax = golden::json("unit/prng_threefry.json");
        let key = Key::new(42);
        // Five counters, padded to six, cut in two halves.
        let older = [[0, 3], [1, 4], [2, 0]].map(|counter| threefry2x32(key.0, counter));
        let older = [older[0][0], older[1][0], older[2][0], older[0][1], older[1][1]];
        for (layout, bits) in [("true", std::array::from_fn(|i| key.bits(i as u64))), ("false", older)] {
            let jax = &jax[&format!("threefry_partitionable={layout}")];
            assert_eq!(floats(&jax["uniform(key,(5,))"]), bits.map(|bits| uniform(bits, 0.0, 1.0)));
            assert_near(&jax["normal(key,(5,))"], bits.into_iter().map(normal));
            assert_near(&jax["truncated_normal(key,-2,2,(5,))"], bits.into_iter().map(truncated_normal));
        }
    }

    #[test]
    fn the_tails_are_finite_and_symmetric() {
        assert_eq!(uniform(0, -3.0, 4.0), -3.0);
        assert!(uniform(u32::MAX, -3.0, 4.0) < 4.0);
        assert!((normal(0) + 5.4).abs() < 0.1 && (normal(u32::MAX) - 5.2).abs() < 0.1);
        assert!(truncated_normal(0) > -2.0 && truncated_normal(u32::MAX) < 2.0);
    }
}

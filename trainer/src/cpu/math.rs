//! Functions that the standard library leaves to the C library of the machine: as sums and products they give the same
//! bits everywhere, and loops over them are vectorised.

/// eˣ within 2 units of the last place: 0 far below, infinite far above, not a number of what is none.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // Comparisons that are false for what is not a number leave it as it is.
    let x = if x < -104.0 { -104.0 } else { x };
    let x = if x > 89.0 { 89.0 } else { x };
    // Adding it rounds to the nearest whole number, which is then in the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let (power, whole) = (shifted.to_bits().wrapping_sub(ROUND.to_bits()) as i32, shifted - ROUND);
    // ln 2 in two parts, the first of few enough bits that the product is exact.
    let r = x - whole * 0.693_359_4 - whole * -2.121_944_4e-4;
    let series = 0.5 + r * (0.166_665_76 + r * (0.041_666_556 + r * (8.363_203e-3 + r * 1.392_621_3e-3)));
    let fraction = 1.0 + (r + r * r * series);
    // In two steps, so that results too small for a full exponent round once, and those too large become infinite.
    let half = power >> 1;
    fraction * power_of_two(half) * power_of_two(power.wrapping_sub(half))
}

/// 1 / (1 + e⁻ˣ).
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// The natural logarithm of a positive number that has a full exponent (at least 1.2e-38), within 2 units of the last
/// place; infinity of infinity, not a number of what is none.
#[inline(always)]
pub fn ln(x: f32) -> f32 {
    // x = 2ᵏ · m with m from √½ to √2.
    let bits = x.to_bits().wrapping_sub(std::f32::consts::FRAC_1_SQRT_2.to_bits());
    let power = (bits as i32 >> 23) as f32;
    let m = f32::from_bits((bits & 0x007f_ffff).wrapping_add(std::f32::consts::FRAC_1_SQRT_2.to_bits()));
    // ln m = 2 artanh f, with f = (m - 1) / (m + 1).
    let f = (m - 1.0) / (m + 1.0);
    let s = f * f;
    let rest = f * s * (0.666_666_7 + s * (0.4 + s * (0.285_714_3 + s * (0.222_222_22 + s * 0.181_818_18))));
    let found = power * 0.693_359_4 + (2.0 * f + (rest + power * -2.121_944_4e-4));
    if x < f32::INFINITY { found } else { x }
}

/// The sum of the products of what is at the same place, always in the same order.
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    // As many sums as vector registers like; the compiler may not change the order of a single one.
    const LANES: usize = 16;
    let mut sums = [0.0; LANES];
    let (whole, rest) = (a.chunks_exact(LANES).zip(b.chunks_exact(LANES)), a.len() / LANES * LANES);
    for (a, b) in whole {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    for ((a, b), sum) in a.iter().zip(b).skip(rest).zip(&mut sums) {
        *sum += a * b;
    }
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            sums[lane] += sums[lane + half];
        }
        half /= 2;
    }
    sums[0]
}

/// 2ᵏ for k from -126 to 127.
#[inline(always)]
fn power_of_two(k: i32) -> f32 {
    f32::from_bits((k.wrapping_add(127) as u32) << 23)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many floats are between the nearest float and what was found, at most, over a grid.
    fn worst(range: std::ops::Range<f32>, found: fn(f32) -> f32, exact: fn(f64) -> f64) -> f64 {
        let steps = 40_000;
        let points = (0..=steps).map(|i| range.start + (range.end - range.start) * (i as f32 / steps as f32));
        let errors = points.map(|x| {
            let exact = exact(f64::from(x));
            let nearest = exact as f32;
            let unit = f64::from(nearest.abs().next_up()) - f64::from(nearest.abs());
            (f64::from(found(x)) - exact).abs() / unit
        });
        errors.fold(0.0, f64::max)
    }

    #[test]
    fn exp_is_right_to_two_units_of_the_last_place() {
        for range in [-104.0..-87.0, -87.0..88.72, -1.0..1.0, -1e-3..1e-3] {
            let error = worst(range.clone(), exp, f64::exp);
            assert!(error <= 2.0, "{error} units in {range:?}");
        }
    }

    #[test]
    fn exp_of_everything_else_is_what_it_should_be() {
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-1e10), 0.0);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(88.73), f32::INFINITY);
        assert_eq!(exp(f32::INFINITY), f32::INFINITY);
        assert!(exp(f32::NAN).is_nan());
    }

    #[test]
    fn sigmoid_is_right_to_four_units_of_the_last_place() {
        let error = worst(-80.0..20.0, sigmoid, |x| 1.0 / (1.0 + (-x).exp()));
        assert!(error <= 4.0, "{error} units");
        assert_eq!((sigmoid(-200.0), sigmoid(200.0)), (0.0, 1.0));
        assert!(sigmoid(f32::NAN).is_nan());
    }

    #[test]
    fn dot_adds_every_product() {
        for n in [0usize, 1, 15, 16, 17, 50] {
            let (a, b): (Vec<f32>, Vec<f32>) = (0..n).map(|i| (i as f32, 2.0)).unzip();
            assert_eq!(dot(&a, &b), (n * n.saturating_sub(1)) as f32);
        }
    }

    #[test]
    fn ln_is_right_to_two_units_of_the_last_place() {
        for range in [1.2e-38..1e-30, 1e-8..0.1, 0.1..3.0, 3.0..1e4, 1e4..3.4e38] {
            let error = worst(range.clone(), ln, f64::ln);
            assert!(error <= 2.0, "{error} units in {range:?}");
        }
        assert_eq!(ln(1.0), 0.0);
        assert_eq!(ln(f32::INFINITY), f32::INFINITY);
        assert!(ln(f32::NAN).is_nan());
    }
}

//! Logarithms and powers with the same bits on every machine, which those of the standard library do not promise.

/// The natural logarithm of a number above 0, to about 15 digits. Unlike the standard library's, it has the same bits on
/// every machine: nothing but additions, products and quotients.
pub(super) fn ln(x: f64) -> f64 {
    let mut exponent = 0;
    let mut mantissa = x;
    while mantissa > std::f64::consts::SQRT_2 && exponent < 2048 {
        (mantissa, exponent) = (mantissa * 0.5, exponent + 1);
    }
    while mantissa < std::f64::consts::FRAC_1_SQRT_2 && exponent > -2048 {
        (mantissa, exponent) = (mantissa * 2.0, exponent - 1);
    }
    // ln m = 2 artanh z, and |z| is at most 0.172.
    let z = (mantissa - 1.0) / (mantissa + 1.0);
    let square = z * z;
    let series = (0..13).rev().fold(0.0, |sum, n| sum * square + 1.0 / f64::from(2 * n + 1));
    2.0 * z * series + f64::from(exponent) * std::f64::consts::LN_2
}

/// `e` to the power of `x`, as [`ln`].
pub(super) fn exp(x: f64) -> f64 {
    let halvings = (x / std::f64::consts::LN_2).round().clamp(-2048.0, 2048.0);
    let rest = x - halvings * std::f64::consts::LN_2;
    let mut power = (1..18).rev().fold(1.0, |sum, n| 1.0 + sum * rest / f64::from(n));
    for _ in 0..halvings.abs() as u32 {
        power *= if halvings > 0.0 { 2.0 } else { 0.5 };
    }
    power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_and_powers_are_those_of_the_standard_library_but_for_the_last_digits() {
        for x in [1e-9, 0.01, 0.5, 0.999, 1.0, 1.5, 2.0, 7.0, 512.0, 1e9] {
            assert!((ln(x) - f64::ln(x)).abs() <= 1e-14 * (1.0 + f64::ln(x).abs()), "{x}");
            assert!((exp(ln(x)) / x - 1.0).abs() < 1e-13, "{x}");
        }
    }
}

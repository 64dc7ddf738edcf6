//! Numbers as people read them.
//!
//! ```text
//! 12345678   -> 12,345,678      (count)
//! 1503238553 -> 1.4 GiB         (bytes)
//! 64100000.0 -> 64.1 M          (amount)
//! 4350 s     -> 1 h 12 min      (duration)
//! ```

use std::time::Duration;

/// All digits, in groups of three.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A number with its noun, which takes an `s` unless the number is 1.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", count(number))
}

/// What a step dropped.
pub(crate) fn dropped_in_words(step: usize, op: &str, examples: u64) -> String {
    format!("step {step} (`{op}`) dropped {}", counted(examples, "example"))
}

/// Bytes in binary units, three digits.
pub(crate) fn bytes(number: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut value = number as f64;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 if number == 1 => "1 byte".to_owned(),
        0 => format!("{number} bytes"),
        _ if value < 9.995 => format!("{value:.2} {}", UNITS[unit]),
        _ if value < 99.95 => format!("{value:.1} {}", UNITS[unit]),
        _ => format!("{value:.0} {}", UNITS[unit]),
    }
}

/// A large amount in thousands, millions or thousand millions, three digits.
pub(crate) fn amount(value: f64) -> String {
    let (scaled, unit) = match value {
        v if v >= 999.5e6 => (v / 1e9, " G"),
        v if v >= 999.5e3 => (v / 1e6, " M"),
        v if v >= 9_999.5 => (v / 1e3, " k"),
        v => (v, ""),
    };
    let decimals = match scaled {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        v if v == 0.0 || (v.fract() == 0.0 && unit.is_empty()) => 0,
        _ => 2,
    };
    format!("{scaled:.decimals$}{unit}")
}

/// A part of a whole in per cent; never `100 %` or `0 %` where something is missing or there.
pub(crate) fn percent(part: f64, whole: f64) -> String {
    if whole <= 0.0 {
        return "-".to_owned();
    }
    let ratio = 100.0 * part / whole;
    match ratio {
        r if r >= 100.0 => format!("{r:.0} %"),
        0.0 => "0 %".to_owned(),
        r if r > 99.9 => format!("{:.3} %", r.min(99.999)),
        r if r >= 0.1 => format!("{r:.1} %"),
        r => format!("{:.4} %", r.max(0.0001)),
    }
}

/// A time in its two largest units.
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{} ms", time.as_millis()),
        1..=9 => format!("{:.1} s", time.as_secs_f64()),
        10..=59 => format!("{seconds} s"),
        60..=3599 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..=86_399 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_by_three() {
        let all: Vec<String> = [0, 999, 1000, 12_345_678].map(count).into();
        assert_eq!(all, ["0", "999", "1,000", "12,345,678"]);
        assert_eq!(counted(1, "example"), "1 example");
        assert_eq!(counted(2000, "example"), "2,000 examples");
    }

    #[test]
    fn bytes_have_three_digits_and_a_unit() {
        let all: Vec<String> =
            [1, 1023, 1024, 1_503_238_553, 10_500_000, 1 << 20, (1 << 20) - 1].map(bytes).into();
        assert_eq!(all, ["1 byte", "1023 bytes", "1.00 KiB", "1.40 GiB", "10.0 MiB", "1.00 MiB", "1.00 MiB"]);
    }

    #[test]
    fn amounts_have_three_digits() {
        let all: Vec<String> = [0.0, 7.0, 7.25, 9_000.0, 12_345.0, 64_100_000.0, 1.1e9].map(amount).into();
        assert_eq!(all, ["0", "7", "7.25", "9000", "12.3 k", "64.1 M", "1.10 G"]);
    }

    #[test]
    fn per_cent_never_rounds_a_rest_away() {
        let all: Vec<String> = [(1.0, 1.0), (0.0, 1.0), (999_999.0, 1e6), (1.0, 1e9), (1.0, 3.0), (1.0, 0.0)]
            .map(|(a, b)| percent(a, b))
            .into();
        assert_eq!(all, ["100 %", "0 %", "99.999 %", "0.0001 %", "33.3 %", "-"]);
    }

    #[test]
    fn times_show_their_two_largest_units() {
        let all: Vec<String> = [0, 4, 59, 62, 4350, 90_000].map(|s| duration(Duration::from_secs(s))).into();
        assert_eq!(all, ["0 ms", "4.0 s", "59 s", "1 min 2 s", "1 h 12 min", "1 d 1 h"]);
    }
}

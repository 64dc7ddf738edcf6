//! Lengths as a small picture.
//!
//! ```text
//!      1..=1     3  ▏
//!      2..=3    40  ███
//!      4..=7   412  ██████████████████████████████
//! ```

use std::io::{self, Write};

use serde::Serialize;
use unicode_width::UnicodeWidthStr as _;

use crate::format::count;

/// How often each length occurs, in ascending order of length.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Histogram {
    /// (smallest length, largest length, how many), ascending and without overlap.
    pub(crate) buckets: Vec<(u64, u64, u64)>,
}

impl Histogram {
    /// The same counts in buckets 0, 1, 2..=3, 4..=7 …, from the first that is used to the last.
    fn by_powers_of_two(&self) -> Vec<(u64, u64, u64)> {
        let place = |length: u64| 64 - length.leading_zeros() as usize;
        let mut counts = [0u64; 65];
        for (smallest, largest, count) in &self.buckets {
            counts[place(smallest + (largest - smallest) / 2)] += count;
        }
        let used = |count: &u64| *count > 0;
        let (Some(first), Some(last)) = (counts.iter().position(used), counts.iter().rposition(used)) else {
            return Vec::new();
        };
        let bounds = |place: usize| match place {
            0 => (0, 0),
            place => (1u64 << (place - 1), (1u64 << (place - 1)) - 1 + (1u64 << (place - 1))),
        };
        (first..=last).map(|place| (bounds(place).0, bounds(place).1, counts[place])).collect()
    }

    /// Draws it, bars at most `width` wide.
    pub(crate) fn draw(&self, out: &mut dyn Write, indent: usize, width: usize) -> io::Result<()> {
        let buckets = self.by_powers_of_two();
        let largest = buckets.iter().map(|(_, _, count)| *count).max().unwrap_or(0).max(1);
        let label = |(from, to, _): &(u64, u64, u64)| match from == to {
            true => count(*from),
            false => format!("{} to {}", count(*from), count(*to)),
        };
        let widest = |texts: Vec<String>| texts.iter().map(|text| text.width()).max().unwrap_or(0);
        let label_width = widest(buckets.iter().map(label).collect());
        let count_width = widest(buckets.iter().map(|bucket| count(bucket.2)).collect());
        for bucket in &buckets {
            let bar = bar(bucket.2, largest, width);
            let line = format!(
                "{:indent$}{:>label_width$}  {:>count_width$}  {bar}",
                "",
                label(bucket),
                count(bucket.2)
            );
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// A bar in eighths of a character; what is there at all shows.
fn bar(count: u64, largest: u64, width: usize) -> String {
    const PARTS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
    let eighths = (count as f64 / largest as f64 * (width * 8) as f64).round() as usize;
    let eighths = if count > 0 { eighths.max(1) } else { 0 };
    let mut bar = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        bar.push(PARTS[eighths % 8 - 1]);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_drawn_by_powers_of_two() {
        let buckets = vec![(0, 0, 1), (1, 1, 1), (2, 3, 3), (5, 5, 3), (6, 7, 3), (17, 17, 1)];
        let mut text = Vec::new();
        Histogram { buckets }.draw(&mut text, 2, 10).unwrap();
        insta::assert_snapshot!(String::from_utf8(text).unwrap(), @r"
                 0  1  █▋
                 1  1  █▋
            2 to 3  3  █████
            4 to 7  6  ██████████
           8 to 15  0
          16 to 31  1  █▋
        ");
    }

    #[test]
    fn nothing_draws_nothing() {
        let mut text = Vec::new();
        Histogram::default().draw(&mut text, 0, 10).unwrap();
        assert!(text.is_empty());
        let huge = Histogram { buckets: vec![(u64::MAX, u64::MAX, 1)] };
        huge.draw(&mut text, 0, 10).unwrap();
    }
}

//! A split of a source, or a slice of one: `train`, `train[:1%]`, `train[100:200]`, `train[50%:]`.
//!
//! A slice counts the raw records of the split in order (files by name, then as they stand in each), before any step;
//! bad and blank records count too. It is a split name of its own, with a cache of its own.
//!
//! A percentage becomes a record by rounding down: in `n` records `p%` stands before record `floor(n * p / 100)`.
//! So `train[:10%]` and `train[10%:]` have no record in common and together are `train`, whatever `n` is. A bound with a
//! minus counts from the end, as in Python: `train[-10%:]` is `train[90%:]`.
//!
//! ```text
//! train[25%:75%] of 10 records -> records 2..7
//! train[8:20]    of 10 records -> records 8..10
//! train[-3:]     of 10 records -> records 7..10
//! ```

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::source::SourceRange;

/// What a percentage is counted in: 1 % is 10,000 of them.
const PERCENT: u64 = 10_000;

/// A split name with an optional slice, in one spelling: `train[0:]` and `train` are equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Split {
    name: String,
    from: Option<Bound>,
    to: Option<Bound>,
}

/// One end of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Bound {
    /// A record, counted from 0.
    Record(u64),
    /// A share of the records, in parts of a million.
    Share(u64),
    /// So many records before the end, at least one.
    FromEnd(u64),
}

/// Why a split cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "split `{text}`: {problem}; a split is a name, or a slice as `train[:1%]`, `train[100:200]` or `train[50%:]`"
)]
pub struct SplitError {
    /// What was to be parsed.
    pub text: String,
    /// What is wrong with it.
    pub problem: String,
}

impl Split {
    /// A whole split.
    pub fn whole(name: &str) -> Result<Self, SplitError> {
        let error = |problem| SplitError { text: name.to_owned(), problem };
        check_name(name).map_err(error)?;
        Ok(Self { name: name.to_owned(), from: None, to: None })
    }

    /// The name without the slice: the split of the source that is read.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is a slice.
    pub fn is_slice(&self) -> bool {
        self.from.is_some() || self.to.is_some()
    }

    /// Which of `num_records` raw records belong to it. Ends beyond the last record mean the last, as in Python.
    pub fn records(&self, num_records: u64) -> Range<u64> {
        let place = |bound: Bound| match bound {
            Bound::Record(record) => record.min(num_records),
            Bound::FromEnd(records) => num_records.saturating_sub(records),
            Bound::Share(share) => {
                let place = u128::from(num_records) * u128::from(share) / u128::from(100 * PERCENT);
                u64::try_from(place).expect("a share of the records is at most all of them")
            }
        };
        let from = self.from.map_or(0, place);
        let to = self.to.map_or(num_records, place);
        from..to.max(from)
    }
}

/// The ordinals that belong to `split` in each range, given how many records each range of the split holds, in the
/// order of the split (files, then ranges). Ranges none of whose records belong to it are left out.
///
/// ```text
/// train[3:5] of (a, 4 records), (b, 4 records) -> (a, 3..4), (b, 0..1)
/// ```
pub fn slice_windows(split: &Split, counts: &[(SourceRange, u64)]) -> Vec<(SourceRange, Range<u64>)> {
    let records = split.records(counts.iter().map(|(_, count)| count).sum());
    let mut first = 0;
    let mut windows = Vec::new();
    for &(range, count) in counts {
        let from = records.start.clamp(first, first + count) - first;
        let to = records.end.clamp(first, first + count) - first;
        if from < to {
            windows.push((range, from..to));
        }
        first += count;
    }
    windows
}

/// Split names enter the names of files and the spelling of slices.
fn check_name(name: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() {
        Err("the name is empty".to_owned())
    } else if let Some(found) = name.chars().find(|&c| !allowed(c)) {
        Err(format!("`{found}` cannot stand in the name, only letters, digits, `_`, `-` and `.`"))
    } else if name.starts_with(['.', '-']) {
        Err("the name begins with neither `.` nor `-`".to_owned())
    } else {
        Ok(())
    }
}

impl FromStr for Split {
    type Err = SplitError;

    fn from_str(text: &str) -> Result<Self, SplitError> {
        parse(text).map_err(|problem| SplitError { text: text.to_owned(), problem })
    }
}

fn parse(text: &str) -> Result<Split, String> {
    let Some((name, slice)) = text.split_once('[') else {
        check_name(text)?;
        return Ok(Split { name: text.to_owned(), from: None, to: None });
    };
    check_name(name)?;
    let slice = slice.strip_suffix(']').ok_or("the slice does not end in `]`")?;
    let (from, to) = slice.split_once(':').ok_or("the slice has no `:`")?;
    let from = parse_bound(from)?.filter(|from| !matches!(from, Bound::Record(0) | Bound::Share(0)));
    let to = parse_bound(to)?.filter(|&to| to != Bound::Share(100 * PERCENT));
    let empty = match (from, to) {
        (Some(Bound::Record(from)), Some(Bound::Record(to))) => to <= from,
        (Some(Bound::Share(from)), Some(Bound::Share(to))) => to <= from,
        (Some(Bound::FromEnd(from)), Some(Bound::FromEnd(to))) => to >= from,
        (_, Some(Bound::Record(0) | Bound::Share(0))) => true,
        (Some(Bound::Share(from)), _) => from == 100 * PERCENT,
        _ => false,
    };
    if empty {
        Err("the slice holds no records".to_owned())
    } else {
        Ok(Split { name: name.to_owned(), from, to })
    }
}

fn parse_bound(text: &str) -> Result<Option<Bound>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    if let Some(from_end) = text.strip_prefix('-').filter(|rest| !rest.is_empty() && !rest.starts_with('-')) {
        return Ok(parse_bound(from_end)?.map(|bound| match bound {
            Bound::Record(0) | Bound::FromEnd(0) => Bound::Record(0),
            Bound::Record(records) | Bound::FromEnd(records) => Bound::FromEnd(records),
            // Nothing from the end is nothing, as in Python.
            Bound::Share(0) => Bound::Share(0),
            Bound::Share(share) => Bound::Share(100 * PERCENT - share),
        }));
    }
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty();
    let Some(percent) = text.strip_suffix('%') else {
        return match text.parse() {
            Ok(record) if digits(text) => Ok(Some(Bound::Record(record))),
            _ => Err(format!("`{text}` is neither the number of a record nor a percentage")),
        };
    };
    let (whole, fraction) = percent.split_once('.').unwrap_or((percent, "0"));
    if !digits(whole) || !digits(fraction) || fraction.len() > 4 {
        return Err(format!("`{text}` is not a percentage of at most four decimals"));
    }
    let fraction: u64 = format!("{fraction:0<4}").parse().expect("four digits are a number");
    let share = whole.parse::<u64>().ok().and_then(|whole| whole.checked_mul(PERCENT)?.checked_add(fraction));
    match share {
        Some(share) if share <= 100 * PERCENT => Ok(Some(Bound::Share(share))),
        _ => Err(format!("`{text}` is more than 100%")),
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if self.is_slice() {
            f.write_str("[")?;
            self.from.iter().try_for_each(|from| from.fmt(f))?;
            f.write_str(":")?;
            self.to.iter().try_for_each(|to| to.fmt(f))?;
            f.write_str("]")?;
        }
        Ok(())
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Record(record) => record.fmt(f),
            Self::FromEnd(records) => write!(f, "-{records}"),
            Self::Share(share) => {
                let fraction = format!("{:04}", share % PERCENT);
                let fraction = fraction.trim_end_matches('0');
                let point = if fraction.is_empty() { "" } else { "." };
                write!(f, "{}{point}{fraction}%", share / PERCENT)
            }
        }
    }
}

impl TryFrom<String> for Split {
    type Error = SplitError;

    fn try_from(text: String) -> Result<Self, SplitError> {
        text.parse()
    }
}

impl From<Split> for String {
    fn from(split: Split) -> Self {
        split.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(text: &str) -> Split {
        text.parse().unwrap()
    }

    fn range(start: u64) -> SourceRange {
        SourceRange { file: 0, start, end: start + 1 }
    }

    #[test]
    fn a_split_prints_as_it_was_written() {
        for text in [
            "train",
            "train[:1%]",
            "train[100:200]",
            "train[50%:]",
            "v-1.0_x[0.25%:7]",
            "t[:0.0001%]",
            "t[-20:-5]",
        ] {
            assert_eq!(split(text).to_string(), text);
        }
    }

    #[test]
    fn equal_slices_have_one_spelling() {
        for (text, printed) in [
            ("train[:]", "train"),
            ("train[0:]", "train"),
            ("train[0%:100%]", "train"),
            ("train[:007]", "train[:7]"),
            ("train[:1.50%]", "train[:1.5%]"),
            ("train[-10%:]", "train[90%:]"),
            ("train[-0:]", "train"),
            ("train[-100%:]", "train"),
        ] {
            assert_eq!(split(text).to_string(), printed);
        }
    }

    #[test]
    fn what_cannot_be_parsed_is_explained() {
        let explain = |text: &str| text.parse::<Split>().unwrap_err().problem;
        insta::assert_snapshot!(text_error("train[1%"), @"split `train[1%`: the slice does not end in `]`; a split is a name, or a slice as `train[:1%]`, `train[100:200]` or `train[50%:]`");
        assert_eq!(explain("train[5]"), "the slice has no `:`");
        assert_eq!(explain("train[--5:]"), "`--5` is neither the number of a record nor a percentage");
        assert_eq!(explain("train[-5:-5]"), "the slice holds no records");
        assert_eq!(explain("train[:-0]"), "the slice holds no records");
        assert_eq!(explain("train[:101%]"), "`101%` is more than 100%");
        assert_eq!(explain("train[:99999999999999999999%]"), "`99999999999999999999%` is more than 100%");
        assert_eq!(explain("train[:1.00001%]"), "`1.00001%` is not a percentage of at most four decimals");
        assert_eq!(explain("train[+1:]"), "`+1` is neither the number of a record nor a percentage");
        assert_eq!(explain("train[7:7]"), "the slice holds no records");
        assert_eq!(explain("train[:0]"), "the slice holds no records");
        assert_eq!(explain("train[100%:]"), "the slice holds no records");
        assert_eq!(explain(""), "the name is empty");
        assert_eq!(
            explain("train+test"),
            "`+` cannot stand in the name, only letters, digits, `_`, `-` and `.`"
        );
        assert_eq!(
            explain("../train"),
            "`/` cannot stand in the name, only letters, digits, `_`, `-` and `.`"
        );
        assert_eq!(explain(".."), "the name begins with neither `.` nor `-`");
    }

    fn text_error(text: &str) -> SplitError {
        text.parse::<Split>().unwrap_err()
    }

    #[test]
    fn a_percentage_rounds_down_and_a_record_beyond_the_end_is_the_end() {
        assert_eq!(split("t[25%:75%]").records(10), 2..7);
        assert_eq!(split("t[:1%]").records(99), 0..0);
        assert_eq!(split("t[:1%]").records(100), 0..1);
        assert_eq!(split("t[8:20]").records(10), 8..10);
        assert_eq!(split("t[80%:5]").records(10), 8..8);
        assert_eq!(split("t").records(u64::MAX), 0..u64::MAX);
        assert_eq!(split("t[-3:]").records(10), 7..10);
        assert_eq!(split("t[:-3]").records(10), 0..7);
        assert_eq!(split("t[-30:-8]").records(10), 0..2);
        assert_eq!(split("t[-3:5]").records(10), 7..7);
        assert_eq!(split("t[-1%:]").records(150), 148..150);
    }

    #[test]
    fn a_slice_takes_its_records_from_the_ranges_that_hold_them() {
        let counts = [(range(0), 4), (range(1), 0), (range(2), 4), (range(3), 4)];
        assert_eq!(slice_windows(&split("t[3:5]"), &counts), [(range(0), 3..4), (range(2), 0..1)]);
        assert_eq!(slice_windows(&split("t[4:8]"), &counts), [(range(2), 0..4)]);
        assert_eq!(slice_windows(&split("t[12:]"), &counts), []);
        assert_eq!(
            slice_windows(&split("t"), &counts),
            [(range(0), 0..4), (range(2), 0..4), (range(3), 0..4)]
        );
    }

    proptest! {
        #[test]
        fn slices_that_meet_partition_the_records(
            share in 1..1_000_000u64,
            counts in prop::collection::vec(0..50u64, 0..20),
        ) {
            let at = Bound::Share(share);
            let counts: Vec<_> = counts.into_iter().enumerate().map(|(i, n)| (range(i as u64), n)).collect();
            let before = split(&format!("t[:{at}]"));
            let after = split(&format!("t[{at}:]"));
            let mut seen = Vec::new();
            for (range, ordinals) in slice_windows(&before, &counts).into_iter().chain(slice_windows(&after, &counts)) {
                seen.extend(ordinals.map(|ordinal| (range, ordinal)));
            }
            let all: Vec<_> = counts.iter().flat_map(|&(range, n)| (0..n).map(move |i| (range, i))).collect();
            prop_assert_eq!(seen, all);
        }

        #[test]
        fn any_text_is_parsed_or_refused_and_what_is_parsed_prints_back(text in "\\PC*|t\\[[0-9.%:-]*\\]") {
            if let Ok(split) = text.parse::<Split>() {
                prop_assert_eq!(split.to_string().parse::<Split>().unwrap(), split);
            }
        }
    }
}

//! Values of options, parsed once into types that cannot be wrong.
//!
//! ```text
//! 2GiB                   -> ByteSize(2147483648)
//! targets=2048,inputs=512 -> Lengths { inputs: 512, targets: 2048 }
//! 1/4                    -> HostShare { host: 1, of: 4 }
//! docs/a.jsonl:17        -> FileLine { file: "docs/a.jsonl", line: 17 }
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use seqio::WrittenKey;

/// A number of bytes, as `2GiB` or `500MB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteSize(pub(crate) u64);

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let trimmed = text.trim();
        let digits = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(digits);
        let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "tb" => 1_000_000_000_000,
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            "t" | "tib" => 1 << 40,
            other => {
                return Err(format!(
                    "`{other}` is no unit of bytes; write it as `512MiB`, `2GiB` or `500MB`"
                ));
            }
        };
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(factor).map(Self).ok_or_else(|| format!("`{text}` is too large"));
        }
        match number.parse::<f64>() {
            Ok(part) if part.is_finite() && part * (factor as f64) < u64::MAX as f64 => {
                Ok(Self((part * factor as f64) as u64))
            }
            _ => Err("write a size as `512MiB`, `2GiB` or `500MB`".to_owned()),
        }
    }
}

/// Greatest lengths, as `targets=2048,inputs=512`; a bare number is for a task with a single feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LengthList {
    /// Feature to length; `None` where only a number was given.
    pub(crate) entries: Vec<(Option<String>, usize)>,
}

impl FromStr for LengthList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let entries = text.split(',').map(parse_length).collect::<Result<Vec<_>, String>>()?;
        Ok(Self { entries })
    }
}

fn parse_length(entry: &str) -> Result<(Option<String>, usize), String> {
    let (feature, number) = match entry.split_once('=') {
        Some((feature, number)) => (Some(feature.trim()), number),
        None => (None, entry),
    };
    if feature.is_some_and(str::is_empty) {
        return Err(format!("`{entry}` names no feature; write it as `targets=2048`"));
    }
    match number.trim().replace('_', "").parse::<usize>() {
        Ok(0) => Err(format!("the length in `{entry}` must be at least 1")),
        Ok(length) if length <= i32::MAX as usize => Ok((feature.map(str::to_owned), length)),
        Ok(_) => Err(format!("the length in `{entry}` is too large")),
        Err(_) => Err(format!("`{entry}` is no length; write it as `targets=2048`")),
    }
}

impl LengthList {
    /// Joins lists and gives bare numbers their feature. Only `features` may be named.
    pub(crate) fn resolve(lists: &[Self], features: &[String]) -> Result<BTreeMap<String, usize>, String> {
        let mut lengths = BTreeMap::new();
        for (feature, length) in lists.iter().flat_map(|list| &list.entries) {
            let feature = match (feature, features) {
                (Some(name), _) if features.contains(name) => name.clone(),
                (Some(name), _) => {
                    let near = seqio::nearest(name, features.iter().map(String::as_str));
                    let ending = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
                    return Err(format!(
                        "`--lengths` names `{name}`, but the features of the task are {}{ending}",
                        seqio::quoted(features)
                    ));
                }
                (None, [only]) => only.clone(),
                (None, _) => {
                    return Err(format!(
                        "`--lengths {length}` does not say which feature it is for; the task has {}: write \
                         `--lengths {}={length}`",
                        seqio::quoted(features),
                        features.last().map_or("targets", String::as_str)
                    ));
                }
            };
            if lengths.insert(feature.clone(), *length).is_some_and(|before| before != *length) {
                return Err(format!("`--lengths` gives two lengths for `{feature}`"));
            }
        }
        Ok(lengths)
    }
}

/// Which part of every batch is wanted, as `0/4`: host 0 of 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostShare {
    /// This host, from 0.
    pub(crate) host: u32,
    /// Number of hosts.
    pub(crate) of: u32,
}

impl FromStr for HostShare {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = || format!("`{text}` is no share; write host 0 of 4 as `0/4`");
        let (host, of) = text.split_once('/').ok_or_else(wanted)?;
        let share = Self { host: host.parse().map_err(|_| wanted())?, of: of.parse().map_err(|_| wanted())? };
        if share.host >= share.of {
            return Err(format!(
                "there is no host {} of {}: hosts are counted from 0, so the last is `{}/{}`",
                share.host,
                share.of,
                share.of.saturating_sub(1),
                share.of
            ));
        }
        Ok(share)
    }
}

impl fmt::Display for HostShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.host, self.of)
    }
}

/// How often the examples are gone through: a number, or without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epochs(pub(crate) Option<u64>);

impl FromStr for Epochs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse::<u64>() {
            Ok(0) => {
                Err("there must be at least 1 epoch; leave `--epochs` out for a stream without end"
                    .to_owned())
            }
            Ok(epochs) => Ok(Self(Some(epochs))),
            Err(_) if text == "endless" => Ok(Self(None)),
            Err(_) => Err("write a number of epochs, or `endless`".to_owned()),
        }
    }
}

/// A line of a file, as `docs/a.jsonl:17`; for Parquet and Arrow, a row counted from 1; of a CSV record its first line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileLine {
    /// The file.
    pub(crate) file: PathBuf,
    /// The line, from 1.
    pub(crate) line: u64,
}

impl FromStr for FileLine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted =
            || format!("`{text}` names no line; write it as `docs/a.jsonl:17`, lines counted from 1");
        let (file, line) = text.rsplit_once(':').ok_or_else(wanted)?;
        let line: u64 = line.parse().map_err(|_| wanted())?;
        if line == 0 || file.is_empty() {
            return Err(wanted());
        }
        Ok(Self { file: PathBuf::from(file), line })
    }
}

/// An example: a line of a file, or the key of a row of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ExamplePlace {
    /// As `docs/a.jsonl:17`.
    Line(FileLine),
    /// As `id=5`.
    Key(WrittenKey),
}

impl FromStr for ExamplePlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(line) if !text.contains('=') || std::path::Path::new(text).components().count() > 1 => {
                Ok(Self::Line(line))
            }
            Ok(_) => text.parse().map(Self::Key),
            Err(wanted) => match text.parse() {
                Ok(key) => Ok(Self::Key(key)),
                Err(_) => Err(format!("{wanted}; or a key as `id=5`")),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_told_from_a_line() {
        assert!(matches!("a.jsonl:17".parse(), Ok(ExamplePlace::Line(_))));
        assert!(matches!("data/lang=en/a.jsonl:17".parse(), Ok(ExamplePlace::Line(_))));
        assert!(matches!("id=5".parse(), Ok(ExamplePlace::Key(_))));
        assert!(matches!("url=\"http://a.b:80\", n=1".parse(), Ok(ExamplePlace::Key(_))));
        assert!("a.jsonl".parse::<ExamplePlace>().is_err());
    }

    fn features() -> Vec<String> {
        vec!["inputs".to_owned(), "targets".to_owned()]
    }

    #[test]
    fn sizes_are_read_with_binary_and_decimal_units() {
        for (text, bytes) in [
            ("0", 0),
            ("1024", 1024),
            ("2GiB", 2 << 30),
            ("2 gib", 2 << 30),
            ("2G", 2 << 30),
            ("500MB", 500_000_000),
            ("1.5KiB", 1536),
            ("256MiB", 256 << 20),
            ("3TB", 3_000_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        for text in ["", "GiB", "2 GiBs", "1.2.3M", "-1", "99999999999999999999", "99999999TiB"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }

    #[test]
    fn lengths_are_joined_and_a_bare_number_belongs_to_the_only_feature() {
        let lists: Vec<LengthList> = vec!["targets=2_048".parse().unwrap(), "inputs=512".parse().unwrap()];
        let both = LengthList::resolve(&lists, &features()).unwrap();
        assert_eq!(both, BTreeMap::from([("inputs".to_owned(), 512), ("targets".to_owned(), 2048)]));
        let joined: LengthList = "targets=2048,inputs=512".parse().unwrap();
        assert_eq!(LengthList::resolve(&[joined], &features()).unwrap(), both);
        let bare: LengthList = "7".parse().unwrap();
        let only = ["targets".to_owned()];
        assert_eq!(LengthList::resolve(&[bare], &only).unwrap(), BTreeMap::from([("targets".to_owned(), 7)]));
    }

    #[test]
    fn a_mistake_in_a_length_says_what_to_write() {
        let message = |text: &str| match text.parse::<LengthList>() {
            Err(message) => message,
            Ok(list) => LengthList::resolve(&[list], &features()).unwrap_err(),
        };
        insta::assert_snapshot!(message("target=9"), @"`--lengths` names `target`, but the features of the task are `inputs`, `targets`; did you mean `targets`?");
        insta::assert_snapshot!(message("2048"), @"`--lengths 2048` does not say which feature it is for; the task has `inputs`, `targets`: write `--lengths targets=2048`");
        insta::assert_snapshot!(message("targets=0"), @"the length in `targets=0` must be at least 1");
        insta::assert_snapshot!(message("targets=many"), @"`targets=many` is no length; write it as `targets=2048`");
        insta::assert_snapshot!(message("=5"), @"`=5` names no feature; write it as `targets=2048`");
        insta::assert_snapshot!(message("targets=5,targets=6"), @"`--lengths` gives two lengths for `targets`");
    }

    #[test]
    fn hosts_are_counted_from_nought() {
        assert_eq!("1/4".parse(), Ok(HostShare { host: 1, of: 4 }));
        insta::assert_snapshot!("4/4".parse::<HostShare>().unwrap_err(), @"there is no host 4 of 4: hosts are counted from 0, so the last is `3/4`");
        assert!("0/0".parse::<HostShare>().is_err());
        assert!("4".parse::<HostShare>().is_err());
    }

    #[test]
    fn a_line_is_what_follows_the_last_colon() {
        let line: FileLine = "C:/docs/a.jsonl:17".parse().unwrap();
        assert_eq!(line, FileLine { file: PathBuf::from("C:/docs/a.jsonl"), line: 17 });
        for text in ["a.jsonl", "a.jsonl:", "a.jsonl:0", ":3", "a.jsonl:x"] {
            assert!(text.parse::<FileLine>().is_err(), "{text}");
        }
    }

    #[test]
    fn epochs_are_a_number_or_endless() {
        assert_eq!("3".parse(), Ok(Epochs(Some(3))));
        assert_eq!("endless".parse(), Ok(Epochs(None)));
        assert!("0".parse::<Epochs>().is_err());
        assert!("all".parse::<Epochs>().is_err());
    }
}

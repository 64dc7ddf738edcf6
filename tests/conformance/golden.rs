//! Reading what SeqIO answered, and comparing it with what we answer.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Rows of each feature: what a case puts out.
pub(crate) type Output = BTreeMap<String, Vec<Vec<i64>>>;

/// Token sequences by feature.
pub(crate) type Example = BTreeMap<String, Vec<i32>>;

/// An output that is not SeqIO's, and why: a line of `tests/golden/differences.jsonl`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Difference {
    /// Golden file.
    pub(crate) file: String,
    /// Line in it, from 1.
    pub(crate) line: usize,
    /// What the line is about.
    pub(crate) case: String,
    /// Model feature.
    pub(crate) feature: String,
    /// SeqIO's rows.
    pub(crate) expected: Vec<Vec<i64>>,
    /// Our rows.
    pub(crate) ours: Vec<Vec<i64>>,
    /// Why ours are right.
    pub(crate) reason: String,
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// The lines of `tests/golden/seqio/<name>`, plain or compressed, numbered from 1.
pub(crate) fn lines<T: serde::de::DeserializeOwned>(name: &str) -> Vec<(usize, T)> {
    let file = path("seqio").join(name);
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(_) => {
            let compressed = std::fs::read(file.with_extension("jsonl.zst")).unwrap();
            String::from_utf8(zstd::decode_all(compressed.as_slice()).unwrap()).unwrap()
        }
    };
    let parse =
        |(line, text)| (line, serde_json::from_str(text).unwrap_or_else(|e| panic!("{name}:{line}: {e}")));
    (1..).zip(text.lines()).map(parse).collect()
}

/// The features of SeqIO's rows, each with all its rows.
pub(crate) fn by_feature(rows: &[BTreeMap<String, Vec<i64>>]) -> Output {
    let mut output = Output::new();
    for (feature, row) in rows.iter().flatten() {
        output.entry(feature.clone()).or_default().push(row.clone());
    }
    output
}

/// The features in which `ours` is not `expected`.
pub(crate) fn differences(
    file: &str,
    line: usize,
    case: &str,
    expected: &Output,
    ours: &Output,
) -> Vec<Difference> {
    let features: BTreeSet<&String> = expected.keys().chain(ours.keys()).collect();
    let rows = |output: &Output, feature: &String| output.get(feature).cloned().unwrap_or_default();
    let difference = |feature: &String| Difference {
        file: file.to_owned(),
        line,
        case: case.to_owned(),
        feature: feature.clone(),
        expected: rows(expected, feature),
        ours: rows(ours, feature),
        reason: String::new(),
    };
    features.into_iter().map(difference).filter(|difference| difference.expected != difference.ours).collect()
}

/// Asserts that the differences found in `file` are exactly the ones that are listed.
pub(crate) fn assert_listed(file: &str, found: Vec<Difference>) {
    let listed = std::fs::read_to_string(path("differences.jsonl")).unwrap();
    let listed: Vec<Difference> = listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(listed.len() < 60, "{} differences are listed", listed.len());
    assert!(listed.iter().all(|difference| !difference.reason.is_empty()), "every difference has a reason");
    let listed: BTreeSet<Difference> = listed
        .into_iter()
        .filter(|difference| difference.file == file)
        .map(|difference| Difference { reason: String::new(), ..difference })
        .collect();
    let found: BTreeSet<Difference> = found.into_iter().collect();
    let show = |difference: &Difference| serde_json::to_string(difference).unwrap() + "\n";
    let unlisted: String = found.difference(&listed).map(show).collect();
    let gone: String = listed.difference(&found).map(show).collect();
    assert!(unlisted.is_empty() && gone.is_empty(), "not listed:\n{unlisted}listed, but not found:\n{gone}");
}

/// The numbers of a JSON array.
pub(crate) fn ids(value: &Value) -> Vec<i32> {
    value.as_array().unwrap().iter().map(|id| i32::try_from(id.as_i64().unwrap()).unwrap()).collect()
}

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
    /// Why ours are right: a code of [`REASONS`].
    pub(crate) reason: String,
}

/// Why our rows are not SeqIO's. The first four are of packing, where SeqIO takes ids other than 0 for what there is.
pub(crate) const REASONS: [(&str, &str); 8] = [
    (
        "item_segments",
        "an item has one segment id in all features; SeqIO counts ids in each feature on its own, so that after an item \
         that is empty in one of them the same id means different items",
    ),
    (
        "zero_is_a_token_packed",
        "a sequence is as long as it has ids; SeqIO counts the ids other than 0, so that a 0 inside cuts off the end of the \
         sequence and belongs to no segment",
    ),
    ("zero_at_the_end", "a 0 at the end of a sequence is a token like any other; SeqIO takes it for padding"),
    (
        "shifted_streams",
        "weights and attention follow from where inputs and targets are; SeqIO packs them as sequences of their own, which \
         are longer than the tokens where targets are empty or hold a 0, so that those of all later items are shifted",
    ),
    ("zero_is_a_token", "an id 0 inside a sequence is a token; SeqIO gives it no weight, and in inputs one"),
    (
        "cut_at_the_segment",
        "no place of the padding is prefix, suffix or has a weight; SeqIO's reach one place beyond the tokens where targets \
         are empty",
    ),
    ("fixed_width", "rows of a batch are as wide as the lengths say; SeqIO's are as long as their examples"),
    ("only_with_a_length", "only what has a length can stand in a batch; SeqIO passes it on as it is"),
];

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
    for difference in &listed {
        assert!(
            REASONS.iter().any(|(code, _)| *code == difference.reason),
            "{}: no reason",
            difference.reason
        );
    }
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

/// Asserts how many lines of a file there are, and of how many all rows are SeqIO's.
pub(crate) fn assert_counts(file: &str, lines: usize, listed: usize) {
    let text = std::fs::read_to_string(path("differences.jsonl")).unwrap();
    let all = text.lines().map(|line| serde_json::from_str::<Difference>(line).unwrap());
    let differing: BTreeSet<usize> = all.filter(|one| one.file == file).map(|one| one.line).collect();
    assert_eq!(differing.len(), listed, "lines of {file} that differ");
    assert_eq!(self::lines::<Value>(file).len(), lines, "lines of {file}");
}

/// The numbers of a JSON array.
pub(crate) fn ids(value: &Value) -> Vec<i32> {
    value.as_array().unwrap().iter().map(|id| i32::try_from(id.as_i64().unwrap()).unwrap()).collect()
}

//! What is known of a split without reading it: counts, lengths, unknown tokens, and SeqIO's names for them.
//!
//! ```text
//! lengths 3 0 9   ->   tokens 12, min 0, max 9, mean 4.0, p50 3, histogram 0:1, 2..4:1, 8..16:1
//! ```

use std::collections::BTreeMap;

use seqio::EncodeCounts;
use serde::{Deserialize, Serialize};

/// How often each length occurs: exact, and small even for a billion examples.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct LengthCounts(BTreeMap<u32, u64>);

impl LengthCounts {
    pub(crate) fn of(lengths: &[u32]) -> Self {
        let mut sorted = lengths.to_vec();
        sorted.sort_unstable();
        Self(sorted.chunk_by(|a, b| a == b).map(|run| (run[0], run.len() as u64)).collect())
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (&length, &count) in &other.0 {
            *self.0.entry(length).or_default() += count;
        }
    }

    fn examples(&self) -> u64 {
        self.0.values().sum()
    }

    /// The smallest length that at least `share` of the examples do not exceed.
    fn percentile(&self, per_mille: u64) -> u32 {
        let wanted = (u128::from(self.examples()) * u128::from(per_mille)).div_ceil(1000).max(1);
        let mut seen = 0u128;
        for (&length, &count) in &self.0 {
            seen += u128::from(count);
            if seen >= wanted {
                return length;
            }
        }
        0
    }
}

/// Statistics of a split.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitStatistics {
    /// Number of examples.
    pub examples: u64,
    /// Raw records read, those that gave no example included.
    pub records: u64,
    /// Bytes of all columns, identities and origins included, without the file format's own.
    pub bytes: u64,
    /// Bytes of the shards' files.
    pub file_bytes: u64,
    /// Of each token feature.
    pub features: BTreeMap<String, FeatureStatistics>,
    /// Records that gave no example, and why.
    pub bad_rows: BadRowStatistics,
    /// Examples that steps dropped, in the order of the steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<DroppedExamples>,
    /// What each step did that compares all examples of the split.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub duplicates: Vec<DuplicateStatistics>,
    /// The same under the names that SeqIO's `stats.<split>.json` uses.
    pub seqio: BTreeMap<String, u64>,
}

/// Statistics of a token feature of a split.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeatureStatistics {
    /// Number of token ids.
    pub tokens: u64,
    /// Shortest sequence.
    pub min_tokens: u32,
    /// Longest sequence.
    pub max_tokens: u32,
    /// Mean length.
    pub mean_tokens: f64,
    /// Empty sequences.
    pub empty: u64,
    /// Exact percentiles of the length: `p50`, `p90`, `p95`, `p99`, `p99.9`.
    pub percentiles: BTreeMap<String, u32>,
    /// Sequences by length: 0, 1, 2 to 3, 4 to 7, 8 to 15, ...
    pub length_histogram: Vec<LengthBucket>,
    /// Ids equal to the vocabulary's unknown id.
    pub unknown_tokens: u64,
    /// Spellings of special tokens met in texts.
    pub special_spellings: u64,
    /// Bytes of the ids on the disk.
    pub bytes: u64,
}

/// Sequences whose length lies in `from..below`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LengthBucket {
    /// Shortest length of the bucket.
    pub from: u32,
    /// One more than the longest.
    pub below: u64,
    /// How many sequences.
    pub examples: u64,
}

/// How many examples a step dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DroppedExamples {
    /// The step's number in the task, from 1.
    pub step: usize,
    /// The step's name.
    pub op: String,
    /// How many examples.
    pub examples: u64,
}

/// Records that gave no example.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BadRowStatistics {
    /// How many.
    pub count: u64,
    /// The first of them.
    pub first: Vec<BadRowExample>,
    /// Files that could not be read to their end.
    pub damaged_files: Vec<DamagedFile>,
}

/// One record that gave no example.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BadRowExample {
    /// The source file's name.
    pub file: String,
    /// The record's ordinal in it, from 0.
    pub row: u64,
    /// What is wrong.
    pub reason: String,
}

/// A file that could not be read to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DamagedFile {
    /// The source file's name.
    pub file: String,
    /// What is wrong.
    pub damage: String,
}

/// What a step did that keeps the first of equal examples.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DuplicateStatistics {
    /// Its place among the task's steps, from 1.
    pub step: usize,
    /// Its name.
    pub op: String,
    /// The columns that it compares.
    pub by: Vec<String>,
    /// Examples that came to it.
    pub examples: u64,
    /// Of these, kept because a column that is compared was null.
    pub without_key: u64,
    /// Examples that it dropped.
    pub dropped: u64,
    /// How many different ones there are of which it dropped copies.
    pub repeated: u64,
    /// Those with the most copies, at most ten, the most frequent first.
    pub most_repeated: Vec<RepeatedExample>,
    /// Source file to the number of its examples that were dropped; not of files without any.
    pub dropped_by_file: BTreeMap<String, u64>,
}

/// An example that was kept, and how often it was there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RepeatedExample {
    /// The source file's name.
    pub file: String,
    /// The record's ordinal in it, from 0.
    pub row: u64,
    /// How many examples equal it, itself included.
    pub copies: u64,
}

/// How many bad records are kept as examples.
pub(crate) const BAD_ROWS_KEPT: usize = 10;

impl FeatureStatistics {
    pub(crate) fn new(lengths: &LengthCounts, counts: EncodeCounts, id_bytes: u64) -> Self {
        let examples = lengths.examples();
        let tokens = lengths.0.iter().map(|(&length, &count)| u64::from(length) * count).sum();
        let mut buckets: BTreeMap<u32, u64> = BTreeMap::new();
        for (&length, &count) in &lengths.0 {
            *buckets.entry(u32::BITS - length.leading_zeros()).or_default() += count;
        }
        let bucket = |(&bits, &examples): (&u32, &u64)| {
            let from = if bits == 0 { 0 } else { 1 << (bits - 1) };
            LengthBucket { from, below: 1 << bits, examples }
        };
        let percentiles = [("p50", 500), ("p90", 900), ("p95", 950), ("p99", 990), ("p99.9", 999)];
        Self {
            tokens,
            min_tokens: lengths.0.keys().next().copied().unwrap_or(0),
            max_tokens: lengths.0.keys().next_back().copied().unwrap_or(0),
            mean_tokens: if examples == 0 { 0.0 } else { tokens as f64 / examples as f64 },
            empty: lengths.0.get(&0).copied().unwrap_or(0),
            percentiles: percentiles
                .into_iter()
                .map(|(name, per_mille)| (name.to_owned(), lengths.percentile(per_mille)))
                .collect(),
            length_histogram: buckets.iter().map(bucket).collect(),
            unknown_tokens: counts.unknown,
            special_spellings: counts.special_spellings,
            bytes: tokens * id_bytes,
        }
    }
}

impl SplitStatistics {
    /// Adds SeqIO's names for what is known; `characters` are those of the texts that features were encoded from.
    pub(crate) fn with_seqio_names(mut self, characters: &BTreeMap<String, u64>) -> Self {
        self.seqio.insert("examples".to_owned(), self.examples);
        for (name, feature) in &self.features {
            self.seqio.insert(format!("{name}_tokens"), feature.tokens);
            self.seqio.insert(format!("{name}_max_tokens"), feature.max_tokens.into());
            if let Some(&characters) = characters.get(name) {
                self.seqio.insert(format!("{name}_chars"), characters);
            }
        }
        self
    }
}

impl SplitStatistics {
    /// Characters of the texts that a feature was encoded from; `None` where that is not known: the source has ids, or a
    /// step after `tokenize` makes examples of its own.
    pub fn characters(&self, feature: &str) -> Option<u64> {
        self.seqio.get(&format!("{feature}_chars")).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_give_exact_percentiles_and_doubling_buckets() {
        let lengths = LengthCounts::of(&[3, 0, 9, 3, 1, 4]);
        let statistics = FeatureStatistics::new(&lengths, EncodeCounts::default(), 2);
        assert_eq!((statistics.tokens, statistics.min_tokens, statistics.max_tokens), (20, 0, 9));
        assert_eq!((statistics.empty, statistics.bytes), (1, 40));
        assert_eq!(statistics.percentiles["p50"], 3);
        assert_eq!(statistics.percentiles["p99"], 9);
        let buckets: Vec<_> =
            statistics.length_histogram.iter().map(|b| (b.from, b.below, b.examples)).collect();
        assert_eq!(buckets, [(0, 1, 1), (1, 2, 1), (2, 4, 2), (4, 8, 1), (8, 16, 1)]);
    }

    #[test]
    fn merged_counts_are_the_counts_of_all() {
        let mut left = LengthCounts::of(&[1, 2, 2]);
        left.merge(&LengthCounts::of(&[2, 5]));
        assert_eq!(left, LengthCounts::of(&[1, 2, 2, 2, 5]));
    }

    #[test]
    fn nothing_at_all_has_statistics_too() {
        let statistics = FeatureStatistics::new(&LengthCounts::default(), EncodeCounts::default(), 2);
        assert_eq!(statistics.mean_tokens, 0.0);
        assert_eq!(statistics.percentiles["p50"], 0);
    }
}

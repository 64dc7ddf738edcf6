//! Examples on their way through the steps: columns, and for each row its identity and where it came from.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::error::ArrowError;
use serde::{Deserialize, Serialize};

/// The identity of an example: a 128-bit hash of (source name, file name below the pattern's fixed prefix, start
/// of the range, ordinal of the raw record in it).
///
/// It depends on the data alone: never on threads, on other files or on whether neighbouring rows are well formed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExampleId(pub [u8; 16]);

impl ExampleId {
    /// Hashes the parts of an id. Lengths are hashed with the strings, so that no two tuples collide by joining.
    pub fn new(source: &str, file: &str, range_start: u64, ordinal: u64) -> Self {
        let mut hasher = blake3::Hasher::new();
        for text in [source, file] {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        }
        hasher.update(&range_start.to_le_bytes());
        hasher.update(&ordinal.to_le_bytes());
        Self::truncate(&hasher.finalize())
    }

    /// The identity of a row that is known by its key: a hash of the source's name and the key's values, so that other
    /// rows move no id. `values` are the values' canonical bytes.
    pub fn of_key<'a>(source: &str, values: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&(source.len() as u64).to_le_bytes());
        hasher.update(source.as_bytes());
        // No file name is as long: these ids are apart from those of files.
        hasher.update(&u64::MAX.to_le_bytes());
        for value in values {
            hasher.update(&(value.len() as u64).to_le_bytes());
            hasher.update(value);
        }
        Self::truncate(&hasher.finalize())
    }

    /// The identity of one of several examples that a step makes from this one, by its number among them, from 0. It is
    /// apart from this one's, also where there is but one part.
    pub fn part(&self, index: u64) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"part");
        hasher.update(&self.0);
        hasher.update(&index.to_le_bytes());
        Self::truncate(&hasher.finalize())
    }

    /// Its bytes as two numbers, little-endian.
    pub(crate) fn halves(&self) -> (u64, u64) {
        let number = u128::from_le_bytes(self.0);
        (number as u64, (number >> 64) as u64)
    }

    /// The place of this example in a shuffled cache: examples are stored sorted by (this, id).
    pub fn shuffle_key(&self, cache_seed: u64) -> [u8; 16] {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&cache_seed.to_le_bytes());
        hasher.update(&self.0);
        Self::truncate(&hasher.finalize()).0
    }

    fn truncate(hash: &blake3::Hash) -> Self {
        let mut id = [0; 16];
        id.copy_from_slice(&hash.as_bytes()[..16]);
        Self(id)
    }
}

impl fmt::Debug for ExampleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A stretch of a source file that an example was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Origin {
    /// Index into the split's list of files (`DataSource::files`).
    pub file: u32,
    /// Ordinal of the raw record: within its range while a range is read, within its file once cached.
    pub row: u64,
    /// First byte of the record in the decompressed file; for Parquet the row within its row group.
    pub offset: u64,
    /// Bytes of the record; 0 for Parquet.
    pub length: u64,
}

/// What is known of a row besides its columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExampleRow {
    /// The example's identity.
    pub id: ExampleId,
    /// Where it came from: one entry for each raw record that it was made from.
    pub origins: Vec<Origin>,
    /// Of a source that has keys: the columns that name the row, as `id=5, part="a"`.
    pub key: Option<Arc<str>>,
}

impl ExampleRow {
    /// A row without a key.
    pub fn new(id: ExampleId, origins: Vec<Origin>) -> Self {
        Self { id, origins, key: None }
    }
}

/// What encoding met that a reader of the statistics wants to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EncodeCounts {
    /// Ids equal to the vocabulary's unknown id.
    pub unknown: u64,
    /// Spellings of special tokens (`<s>`, `<|endoftext|>`, `<extra_id_0>` …) met in the text, matched or not.
    pub special_spellings: u64,
}

impl std::ops::AddAssign for EncodeCounts {
    fn add_assign(&mut self, other: Self) {
        self.unknown += other.unknown;
        self.special_spellings += other.special_spellings;
    }
}

/// A chunk of examples: `columns` and `rows` have the same length and order.
#[derive(Clone, Debug)]
pub struct Examples {
    /// The data.
    pub columns: RecordBatch,
    /// Identity and origin of each row.
    pub rows: Vec<ExampleRow>,
    /// Sums over the steps run so far, by feature.
    pub counts: BTreeMap<String, EncodeCounts>,
    /// Of features that were encoded from text: the characters of each row's. A step that makes rows of its own loses
    /// them.
    pub characters: BTreeMap<String, Vec<u32>>,
    /// Examples that steps have dropped so far, by the step's number in the task, from 1. While a step runs, what it drops
    /// itself, where that cannot be told from the numbers of rows, is at [`Examples::THIS_STEP`].
    pub dropped: BTreeMap<usize, u64>,
}

impl Examples {
    /// In `dropped`, the step that is running.
    pub const THIS_STEP: usize = 0;

    /// Pairs columns with their rows.
    ///
    /// # Panics
    /// If the numbers of rows differ.
    pub fn new(columns: RecordBatch, rows: Vec<ExampleRow>) -> Self {
        assert_eq!(columns.num_rows(), rows.len(), "every row has an id");
        Self { columns, rows, counts: BTreeMap::new(), characters: BTreeMap::new(), dropped: BTreeMap::new() }
    }

    /// The same rows with other columns: what a one-to-one step returns.
    ///
    /// # Panics
    /// If the numbers of rows differ.
    pub fn with_columns(mut self, columns: RecordBatch) -> Self {
        assert_eq!(columns.num_rows(), self.rows.len(), "a one-to-one step keeps every row");
        self.columns = columns;
        self
    }

    /// The rows for which `keep` is true. The counts stay: they are of what was met.
    ///
    /// # Panics
    /// If the numbers of rows differ.
    pub fn keep(mut self, keep: &[bool]) -> Result<Self, ArrowError> {
        assert_eq!(keep.len(), self.rows.len(), "there is a choice for every row");
        if keep.contains(&false) {
            self.columns = filter_record_batch(&self.columns, &BooleanArray::from(keep.to_vec()))?;
            let mut kept = keep.iter().copied();
            self.rows.retain(|_| kept.next().unwrap_or(false));
            for characters in self.characters.values_mut() {
                let mut kept = keep.iter().copied();
                characters.retain(|_| kept.next().unwrap_or(false));
            }
        }
        Ok(self)
    }

    /// What a step returns that makes any number of examples from each: row `i` of `columns` was made from row `parents[i]`,
    /// and those of one parent stand together. Each gets its parent's id extended by its number among them
    /// ([`ExampleId::part`]), origins and key; examples of which nothing was made count as dropped by this step.
    ///
    /// # Panics
    /// If there is no parent for every row.
    pub fn parts(mut self, columns: RecordBatch, parents: &[usize]) -> Self {
        assert_eq!(columns.num_rows(), parents.len(), "every part is made from an example");
        let mut rows = Vec::with_capacity(parents.len());
        let (mut last, mut number, mut with_parts) = (None, 0, 0);
        for &parent in parents {
            if last == Some(parent) {
                number += 1;
            } else {
                (last, number) = (Some(parent), 0);
                with_parts += 1;
            }
            let row = &self.rows[parent];
            rows.push(ExampleRow { id: row.id.part(number), ..row.clone() });
        }
        let barren = self.rows.len().saturating_sub(with_parts) as u64;
        if barren > 0 {
            *self.dropped.entry(Self::THIS_STEP).or_default() += barren;
        }
        (self.columns, self.rows) = (columns, rows);
        self
    }

    /// Number of examples.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no examples.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{rows, text_examples};

    #[test]
    fn parts_have_ids_of_their_own_and_the_origins_of_their_example() {
        let examples = text_examples(&[("t", &[Some("a b"), Some(""), Some("c")])]);
        let columns = text_examples(&[("t", &[Some("a"), Some("b"), Some("c")])]).columns;
        let parts = examples.parts(columns, &[0, 0, 2]);
        let rows = rows(3);
        let ids: Vec<ExampleId> = parts.rows.iter().map(|row| row.id).collect();
        assert_eq!(ids, [rows[0].id.part(0), rows[0].id.part(1), rows[2].id.part(0)]);
        let origins: Vec<_> = parts.rows.iter().map(|row| row.origins.clone()).collect();
        assert_eq!(origins, [0, 0, 2].map(|row: usize| rows[row].origins.clone()));
        assert_eq!(parts.dropped, [(Examples::THIS_STEP, 1)].into());
    }

    #[test]
    fn ids_of_parts_never_change() {
        let id = ExampleId([7; 16]);
        insta::assert_snapshot!(format!("{:?} {:?}", id.part(0), id.part(1).part(0)), @"cf7bcb91171cc52495f460593d48f724 86d684eccf5b84b34dd9055f6627831c");
    }
}

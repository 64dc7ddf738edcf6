//! Random access to the examples that stand above the order: what a cache offers, and what packing is planned from.

use std::fmt::Debug;
use std::sync::Arc;

use crate::example::{ExampleId, ExampleRow, Origin};

/// Why a stored example cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{problem}")]
pub struct StoreError {
    /// What is wrong, with shard and batch, and what to do.
    pub problem: String,
    /// Whether the stored data are not as they were written.
    pub is_damage: bool,
}

impl StoreError {
    /// An error that says nothing about the state of the stored data.
    pub fn new(problem: impl Into<String>) -> Self {
        Self { problem: problem.into(), is_damage: false }
    }
}

/// Examples 0..n of one split, numbered in storage order, with the token features they have.
///
/// Laws: reads are pure; any number of threads may read; `lengths` touches no tokens.
pub trait ExampleStore: Debug + Send + Sync {
    /// Number of examples.
    fn num_examples(&self) -> u64;

    /// Names of the token features, sorted. Features are numbered by their place here.
    fn features(&self) -> &[String];

    /// Writes the length of `feature` in each of `examples` to `out`, which has the same length.
    fn lengths(&self, feature: usize, examples: &[u64], out: &mut [u32]);

    /// Writes the ids `from..from + out.len()` of a sequence to `out`. The range lies inside the sequence.
    fn read_tokens(
        &self,
        feature: usize,
        example: u64,
        from: usize,
        out: &mut [i32],
    ) -> Result<(), StoreError>;

    /// Identity of an example.
    fn id(&self, example: u64) -> Result<ExampleId, StoreError>;

    /// Where an example came from; `Origin::row` counts records of the file from 0.
    fn origins(&self, example: u64) -> Result<Vec<Origin>, StoreError>;

    /// The key of an example, if its source has keys.
    fn key(&self, _example: u64) -> Result<Option<Arc<str>>, StoreError> {
        Ok(None)
    }

    /// Where an example came from, in words: its records, and its id.
    fn place(&self, example: u64) -> Result<String, StoreError> {
        let record = |origin: &Origin| format!("record {} of file {}", origin.row + 1, origin.file + 1);
        let mut places: Vec<String> = self.origins(example)?.iter().map(record).collect();
        places.push(format!("id {:?}", self.id(example)?));
        Ok(places.join(", "))
    }

    /// Identity, origins and key of an example.
    fn example_row(&self, example: u64) -> Result<ExampleRow, StoreError> {
        Ok(ExampleRow { id: self.id(example)?, origins: self.origins(example)?, key: self.key(example)? })
    }
}

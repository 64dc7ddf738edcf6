//! What is made of the examples of a split while it is read: rows of a cache, or keys to compare them by.
//!
//! ```text
//! reading, bad records, parts, commits, going on after a crash      encode.rs, the same for every pass
//! a chunk's examples -> a batch; some batches -> a sorted run       the pass
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use seqio::{EncodeCounts, Examples, PreprocessError, RawChunk};

use crate::error::CacheError;
use crate::input::SplitPlan;
use crate::progress::BuildPhase;
use crate::spill::RunEntry;

/// One way through a split.
pub(crate) trait Pass: Sync {
    /// What a chunk gives.
    type Batch: PassBatch;

    /// What a job that does it is doing.
    const PHASE: BuildPhase;

    /// Whether bad records are set aside on this way, if the task wants them kept.
    const KEEPS_REJECTS: bool;

    /// Makes a batch of a chunk's examples as the source has them.
    fn make(
        &self,
        plan: &SplitPlan,
        chunk: &RawChunk,
        examples: Examples,
    ) -> Result<Made<Self::Batch>, MakeError>;

    /// Writes some batches of a range, in any order, as the run `stem`.
    fn write_run(&self, work: &Path, stem: &str, batches: Vec<Self::Batch>) -> Result<RunEntry, CacheError>;
}

/// What waits in memory to be written.
pub(crate) trait PassBatch: Send {
    /// Its rows.
    fn len(&self) -> usize;
    /// Its bytes.
    fn memory(&self) -> u64;
}

/// A batch with what is counted of it.
pub(crate) struct Made<B> {
    pub(crate) batch: B,
    pub(crate) examples: u64,
    /// Bytes of the rows in a shard.
    pub(crate) row_bytes: u64,
    pub(crate) tokens: u64,
    pub(crate) counts: BTreeMap<String, EncodeCounts>,
    /// Characters of the texts that features were encoded from.
    pub(crate) characters: BTreeMap<String, u64>,
    /// By the step that dropped them.
    pub(crate) dropped: BTreeMap<usize, u64>,
}

/// Why a chunk gives no batch.
pub(crate) enum MakeError {
    /// A step failed.
    Step(PreprocessError),
    /// Anything else.
    Cache(CacheError),
}

impl From<PreprocessError> for MakeError {
    fn from(error: PreprocessError) -> Self {
        Self::Step(error)
    }
}

impl From<CacheError> for MakeError {
    fn from(error: CacheError) -> Self {
        Self::Cache(error)
    }
}

//! The offline cache of seqio: reproducible, verified, memory-mapped.
//!
//! The life of a cache:
//!
//! 1. A job locks the task's definition and works in `.building-<fingerprint>/`: steps that compare all examples of a
//!    split get a reading of it for themselves; then every range of the source is encoded and spilled, the spills are
//!    merged into shards, and the folder gets its name when all is there. A job that is killed leaves its work to the
//!    next one. Several workers, on any machines that share the folder, can encode a [`Share`] of the ranges each; then
//!    [`CacheDir::finish`] merges them.
//! 2. [`CacheDir::find`] gives a split of a task if definition and sources are as they were, and says what changed if
//!    not; [`CacheDir::explain`] says it of every cache. A stale cache is never read silently.
//! 3. [`CachedSplit`] reads it in place, by any number of threads, as an [`ExampleStore`](seqio::ExampleStore).
//! 4. [`verify`] checks every byte; [`CacheDir::convert`] puts the same examples, compressed or not, in its place;
//!    [`CacheDir::remove`] deletes it. Nothing else ever deletes a finished cache, and nothing changes one.
//!
//! The format is specified in `FORMAT.md`, so that a stranger can read a cache with pyarrow alone.

mod build;
mod changes;
mod choose;
mod columns;
mod commit;
mod compression;
mod convert;
mod decoded;
mod difference;
mod digest;
mod duplicates;
mod encode;
mod error;
mod estimate;
mod explain;
mod finish;
mod hashed;
mod input;
mod lanes;
mod layout;
mod lock;
mod log;
mod manifest;
mod mapped;
mod merge;
mod old_run;
mod parts;
mod pass;
mod pieces;
mod progress;
mod reader;
mod rejects;
mod reuse;
mod roster;
mod rows;
mod share;
mod sources;
mod spill;
mod stats;
mod store;
mod table;
mod task;
#[cfg(test)]
mod tests;
mod verify;
mod worker;
mod writer;

pub use crate::build::{BuildConfig, BuildReport, SplitReport};
pub use crate::changes::{FileChange, SourceChange};
pub use crate::compression::Compression;
pub use crate::convert::Converted;
pub use crate::difference::{Difference, differences};
pub use crate::duplicates::Duplicate;
pub use crate::error::{CacheError, MissingPieces};
pub use crate::estimate::Estimate;
pub use crate::explain::{CacheExplanation, ExplainedCache, SplitCaches, UnfinishedBuild, UnreadableCache};
pub use crate::layout::rejects_file;
pub use crate::log::{BuildLog, RangesDone, SourceStamp};
pub use crate::manifest::{
    CacheManifest, DuplicatesFile, FORMAT_VERSION, NEWEST_FORMAT_VERSION, RejectsEntry, ShardEntry,
    SourceFileEntry, SplitManifest, StorageOrder, StoredFeature, VocabularyFile,
};
pub use crate::progress::{BuildPhase, BuildProgress, BuildStatus, Commit, NoProgress};
pub use crate::reader::CachedSplit;
pub use crate::reuse::{Reuse, Reused};
pub use crate::roster::{WorkerInfo, WorkerState};
pub use crate::share::{Share, ShareError};
pub use crate::sources::SourcesNow;
pub use crate::stats::{
    BadRowExample, BadRowStatistics, DamagedFile, DroppedExamples, DuplicateStatistics, FeatureStatistics,
    LengthBucket, RepeatedExample, SplitStatistics,
};
pub use crate::store::{Cache, CacheDir, CacheInfo, CacheState, Found};
pub use crate::verify::{Problem, VerifyReport, verify};
pub use crate::worker::{ShareReport, SplitShareReport};

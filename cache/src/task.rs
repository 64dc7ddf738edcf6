//! A task as what a build is made from, and back from a cache.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use seqio::{
    DataSource, Definition, Examples, Fingerprint, OnBadRow, PreprocessError, SourceRange, Split,
    SplitChoices, SplitKeys, Task, WholeSplitStep,
};

use crate::build::{BuildConfig, BuildReport, Missing, build_splits};
use crate::error::CacheError;
use crate::estimate::{Estimate, estimate_split};
use crate::input::BuildInput;
use crate::manifest::FORMAT_VERSION;
use crate::progress::BuildProgress;
use crate::share::Share;
use crate::store::{Cache, CacheDir, Found};
use crate::worker::{ShareReport, build_share};

impl BuildInput for Task {
    fn task(&self) -> &str {
        self.name()
    }

    fn source(&self) -> Option<&Arc<dyn DataSource>> {
        Some(self.source()).filter(|_| self.has_source())
    }

    fn cached_schema(&self) -> SchemaRef {
        Arc::clone(self.cached_schema())
    }

    fn vocab_sizes(&self) -> BTreeMap<String, usize> {
        let size =
            |(name, feature): (&String, &seqio::Feature)| (name.clone(), feature.vocabulary.vocab_size());
        self.stored_features().iter().map(size).collect()
    }

    fn whole_split_steps(&self) -> Vec<WholeSplitStep> {
        self.whole_split_steps()
    }

    fn split_keys(
        &self,
        number: usize,
        range: SourceRange,
        examples: Examples,
        choices: &SplitChoices,
    ) -> Result<SplitKeys, PreprocessError> {
        self.split_keys(number, range, examples, choices)
    }

    fn preprocess(
        &self,
        range: SourceRange,
        examples: Examples,
        choices: &SplitChoices,
    ) -> Result<Examples, PreprocessError> {
        self.preprocess_chosen(range, examples, choices)
    }

    fn fingerprint(&self) -> Fingerprint {
        self.cache_fingerprint(FORMAT_VERSION)
    }

    fn cache_seed(&self) -> u64 {
        self.cache_seed()
    }

    fn is_shuffled(&self, split: &str) -> bool {
        self.is_shuffled(split)
    }

    fn on_bad_row(&self) -> OnBadRow {
        self.on_bad_row()
    }

    fn definition(&self) -> serde_json::Value {
        serde_json::to_value(self.definition()).expect("a definition is plain data")
    }

    fn cache_definition(&self) -> serde_json::Value {
        self.cache_definition(FORMAT_VERSION)
    }

    fn vocabulary_files(&self) -> BTreeMap<String, &[u8]> {
        self.vocabulary_files()
    }
}

impl CacheDir {
    /// Looks for a split of a task. A cache of another definition, or of sources that have changed since, is not given
    /// out but named with what changed.
    pub fn find(&self, task: &Task, split: &Split) -> Result<Found, CacheError> {
        self.find_split(task, split)
    }

    /// Builds the splits of a task that are not cached yet. They go into one cache, with one manifest.
    pub fn build(
        &self,
        task: &Task,
        splits: &[Split],
        config: &BuildConfig,
        progress: &dyn BuildProgress,
    ) -> Result<BuildReport, CacheError> {
        build_splits(self, task, splits, Missing::Encode, config, progress)
    }

    /// Encodes one worker's share of the splits that are not cached yet. Workers run at any time, on any machines that
    /// share this folder and see the same sources; when all are done, [`CacheDir::finish`] makes the cache.
    pub fn build_share(
        &self,
        task: &Task,
        splits: &[Split],
        share: Share,
        config: &BuildConfig,
        progress: &dyn BuildProgress,
    ) -> Result<ShareReport, CacheError> {
        build_share(self, task, splits, share, config, progress)
    }

    /// Makes the cache of what workers have encoded: the same as [`CacheDir::build`] makes alone. If something is
    /// missing it says what, and which worker owes it.
    pub fn finish(
        &self,
        task: &Task,
        splits: &[Split],
        config: &BuildConfig,
        progress: &dyn BuildProgress,
    ) -> Result<BuildReport, CacheError> {
        build_splits(self, task, splits, Missing::Refuse, config, progress)
    }

    /// What building a split would take, from encoding a hundredth of it.
    pub fn estimate(&self, task: &Task, split: &Split, config: &BuildConfig) -> Result<Estimate, CacheError> {
        estimate_split(self.root(), task, split, config)
    }
}

impl Cache {
    /// The task as it was when the cache was built, without its source.
    pub fn task(&self) -> Result<Task, CacheError> {
        let broken = |problem: String| CacheError::Definition { path: self.folder().to_owned(), problem };
        let definition: Definition = serde_json::from_value(self.manifest().definition.clone())
            .map_err(|error| broken(error.to_string()))?;
        Task::from_definition(definition, self.vocabulary_files()?).map_err(|error| broken(error.to_string()))
    }
}

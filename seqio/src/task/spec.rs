//! Tasks and vocabularies as plain data: what a task file holds, and what the builder makes.
//!
//! ```toml
//! [task.docs]
//! source   = { jsonl = { train = "data/*.jsonl" } }
//! features = { targets = { vocabulary = "t5" } }
//! steps    = [{ op = "rekey", to_from = { targets = "text" } }, { op = "tokenize" }]
//! ```

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::feature::FeatureLengths;
use crate::preprocess::{Rekey, Step, Tokenize};
use crate::source::SourceSpec;
use crate::vocabulary::VocabularySpec;

/// Everything one task file defines.
///
/// ```
/// use seqio::{FeatureSpec, Rekey, SourceSpec, TaskFile, TaskSpec, Tokenize, VocabularySpec};
///
/// let docs = TaskSpec::new(SourceSpec::jsonl([("train", "data/*.jsonl")]))
///     .feature("targets", FeatureSpec::tokens("bytes"))
///     .step(Rekey::new([("targets", "text")]))
///     .step(Tokenize::default());
/// let file = TaskFile::new().vocabulary("bytes", VocabularySpec::byte()).task("docs", docs);
/// assert_eq!(file.task.len(), 1);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(description = "A task file: vocabularies and tasks by name.")]
pub struct TaskFile {
    /// Vocabularies by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-default" = "none"))]
    pub vocabulary: BTreeMap<String, VocabularySpec>,
    /// Tasks by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-default" = "none"))]
    pub task: BTreeMap<String, TaskSpec>,
}

impl TaskFile {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Defines a vocabulary; one of the same name is replaced.
    pub fn vocabulary(mut self, name: impl Into<String>, spec: VocabularySpec) -> Self {
        self.vocabulary.insert(name.into(), spec);
        self
    }

    /// Defines a task; one of the same name is replaced.
    pub fn task(mut self, name: impl Into<String>, spec: TaskSpec) -> Self {
        self.task.insert(name.into(), spec);
        self
    }
}

/// A task as plain data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(description = "From files to examples of token ids.")]
pub struct TaskSpec {
    /// Where its raw examples come from.
    #[schemars(example = SourceSpec::jsonl(vec![("train", "data/train-*.jsonl")]), extend("x-type" = "table"))]
    pub source: SourceSpec,
    /// What it puts out: columns of token ids by name.
    #[schemars(
        example = BTreeMap::from_iter(vec![("targets", FeatureSpec::tokens("bytes"))]),
        extend("x-type" = "table of name = feature")
    )]
    pub features: BTreeMap<String, FeatureSpec>,
    /// Lengths that hold whatever a run asks for; they let length-dependent steps stand above the cache boundary.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(
        example = FeatureLengths::from_iter(vec![("inputs".to_owned(), 512)]),
        extend("x-default" = "none", "x-type" = "table of feature = tokens")
    )]
    pub lengths: FeatureLengths,
    /// Decides the order of a shuffled cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(example = 7, extend("default" = 0))]
    pub cache_seed: u64,
    /// The splits whose cache is stored shuffled; the others keep the order of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = vec!["train", "validation"], extend("default" = vec!["train"]))]
    pub shuffle: Option<Vec<String>>,
    /// From raw examples to features, in order.
    #[serde(default)]
    #[schemars(
        example = vec![Step::from(Rekey::new([("targets", "text")])), Step::from(Tokenize::default())],
        extend("x-type" = "list of steps")
    )]
    pub steps: Vec<Step>,
}

impl TaskSpec {
    /// A task without features and steps yet.
    pub fn new(source: SourceSpec) -> Self {
        Self {
            source,
            features: BTreeMap::new(),
            lengths: FeatureLengths::new(),
            cache_seed: 0,
            shuffle: None,
            steps: Vec::new(),
        }
    }

    /// Adds an output feature.
    pub fn feature(mut self, name: impl Into<String>, feature: FeatureSpec) -> Self {
        self.features.insert(name.into(), feature);
        self
    }

    /// Adds a step behind the others.
    pub fn step(mut self, step: impl Into<Step>) -> Self {
        self.steps.push(step.into());
        self
    }

    /// Puts the cache boundary here.
    pub fn cache(self) -> Self {
        self.step(Step::Cache)
    }

    /// Fixes the length of a feature.
    pub fn length(mut self, feature: impl Into<String>, length: usize) -> Self {
        self.lengths.insert(feature.into(), length);
        self
    }

    /// Decides the order of a shuffled cache.
    pub fn cache_seed(mut self, seed: u64) -> Self {
        self.cache_seed = seed;
        self
    }

    /// Names the splits whose cache is shuffled, in place of `train`.
    pub fn shuffle<S: Into<String>>(mut self, splits: impl IntoIterator<Item = S>) -> Self {
        self.shuffle = Some(splits.into_iter().map(Into::into).collect());
        self
    }

    /// The splits whose cache is shuffled, sorted.
    pub(crate) fn shuffled_splits(&self) -> Vec<&str> {
        let mut splits: Vec<&str> = match &self.shuffle {
            Some(splits) => splits.iter().map(String::as_str).collect(),
            None => vec!["train"],
        };
        splits.sort_unstable();
        splits.dedup();
        splits
    }
}

/// An output feature as plain data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(description = "A column of token ids that comes out, by its name.")]
pub struct FeatureSpec {
    /// The name of its vocabulary.
    #[schemars(example = &"bytes")]
    pub vocabulary: String,
    /// Whether `append_eos` and `append_eos_after_trim` end it with EOS.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    #[schemars(example = false, extend("default" = true))]
    pub add_eos: bool,
    /// Whether the examples must have it; with `false` a task whose examples lack the column puts the feature out for none.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    #[schemars(example = false, extend("default" = true))]
    pub required: bool,
}

impl FeatureSpec {
    /// Ids of a vocabulary, required, ended with EOS by the steps that do so.
    pub fn tokens(vocabulary: impl Into<String>) -> Self {
        Self { vocabulary: vocabulary.into(), add_eos: true, required: true }
    }

    /// Keeps `append_eos` and `append_eos_after_trim` away from it.
    pub fn without_eos(mut self) -> Self {
        self.add_eos = false;
        self
    }

    /// Lets examples lack it.
    pub fn optional(mut self) -> Self {
        self.required = false;
        self
    }
}

fn yes() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_yes(value: &bool) -> bool {
    *value
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(seed: &u64) -> bool {
    *seed == 0
}

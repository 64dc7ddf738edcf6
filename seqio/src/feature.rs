//! What a task promises to put out: named token sequences.

use std::collections::BTreeMap;

use crate::vocabulary::SharedVocabulary;

/// What the name of a feature's loss mask ends in: `targets_loss` says which tokens of `targets` count.
pub const LOSS_SUFFIX: &str = "_loss";

/// One output feature: a sequence of int32 token ids in a vocabulary.
#[derive(Clone, Debug)]
pub struct Feature {
    /// What its ids mean.
    pub vocabulary: SharedVocabulary,
    /// The vocabulary's name in the task file.
    pub vocabulary_name: String,
    /// Whether `append_eos` ends its sequences with EOS.
    pub add_eos: bool,
    /// Whether an example may lack it (a null is an empty sequence).
    pub required: bool,
}

/// Feature name to feature, sorted by name as SeqIO keeps them.
pub type Features = BTreeMap<String, Feature>;

/// Feature name to its greatest length in tokens (SeqIO's `task_feature_lengths`).
pub type FeatureLengths = BTreeMap<String, usize>;

//! Sequences whose middle is put last, so that a model that reads forwards learns to fill it in.
//!
//! ```text
//! targets: [1, 2, 3, 4, 5, 6]   ->   targets: [P, 1, 2, 3, S, 6, M, 4, 5]
//! ```

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::dataset::StoreError;
use crate::item::{Draws, Item, ItemStep, Rope};
use crate::objective::{MiddleCut, MiddleRule};
use crate::preprocess::tokens::settings::{accepted, default, feature, percent, refused};
use crate::preprocess::tokens::{Outcome, TokenStep};
use crate::preprocess::{PreprocessError, StepContext};

/// Cuts some of the sequences in three at random places, others every epoch, and puts the middle last (Bavarian et al. 2022,
/// arXiv 2207.14255): `prefix_id` prefix `suffix_id` suffix `middle_id` middle, or with the suffix in front:
/// `prefix_id` `suffix_id` suffix `middle_id` prefix middle.
///
/// Cut sequences are three ids longer, or four with `end_id`. Behind `split_tokens` the step cuts what will be one row,
/// before it whole documents. Places are between tokens, not between characters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::new(32_099, 32_098, 32_097))]
pub struct FillInTheMiddle {
    /// The id in front of the prefix.
    pub prefix_id: i32,
    /// The id in front of the suffix.
    pub suffix_id: i32,
    /// The id in front of the middle.
    pub middle_id: i32,
    /// The id behind the middle.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "none"))]
    pub end_id: Option<i32>,
    /// Probability that a sequence is cut.
    #[serde(default = "half")]
    pub fim_rate: f64,
    /// Probability that a sequence which is cut has its suffix first.
    #[serde(default = "half")]
    pub spm_rate: f64,
    /// The feature whose sequences are cut.
    #[serde(default = "default::targets")]
    pub feature_key: String,
}

fn half() -> f64 {
    0.5
}

impl FillInTheMiddle {
    /// Half of the sequences cut, half of these with the suffix first.
    pub fn new(prefix_id: i32, suffix_id: i32, middle_id: i32) -> Self {
        Self {
            prefix_id,
            suffix_id,
            middle_id,
            end_id: None,
            fim_rate: half(),
            spm_rate: half(),
            feature_key: default::targets(),
        }
    }

    fn rule(&self) -> MiddleRule {
        let Self { fim_rate, spm_rate, prefix_id, suffix_id, middle_id, end_id, .. } = *self;
        MiddleRule { fim_rate, spm_rate, prefix_id, suffix_id, middle_id, end_id }
    }
}

/// The step with its sentinels as ropes. Nothing is made: parts only change places.
#[derive(Debug)]
struct MiddleLast {
    feature: Arc<str>,
    rule: MiddleRule,
    prefix: Rope,
    suffix: Rope,
    middle: Rope,
    end: Rope,
    words: String,
}

impl MiddleLast {
    fn rearranged(&self, tokens: &Rope, cut: &MiddleCut) -> Rope {
        let part = |from: u32, to: u32| tokens.slice(from, to - from);
        let parts = match cut {
            MiddleCut::Whole => return tokens.clone(),
            MiddleCut::PrefixFirst(middle) => [
                self.prefix.clone(),
                part(0, middle.start),
                self.suffix.clone(),
                part(middle.end, tokens.len()),
                self.middle.clone(),
                part(middle.start, middle.end),
                self.end.clone(),
            ],
            MiddleCut::SuffixFirst(middle) => [
                self.prefix.clone(),
                self.suffix.clone(),
                part(middle.end, tokens.len()),
                self.middle.clone(),
                part(0, middle.start),
                part(middle.start, middle.end),
                self.end.clone(),
            ],
        };
        let mut joined = Rope::default();
        parts.into_iter().for_each(|part| joined.append(part));
        joined
    }
}

impl ItemStep for MiddleLast {
    fn plan(&self, mut items: Vec<Item>, draws: &Draws<'_>) -> Result<Vec<Item>, StoreError> {
        for item in &mut items {
            let Some(tokens) = item.take(&self.feature) else { continue };
            let cut = self.rule.cut(tokens.len(), draws.key(item)?);
            item.set(&self.feature, self.rearranged(&tokens, &cut));
        }
        Ok(items)
    }

    fn in_words(&self) -> String {
        self.words.clone()
    }
}

impl TokenStep for FillInTheMiddle {
    const NAME: &'static str = "fill_in_the_middle";

    fn needs_lengths_of(&self, _ctx: &StepContext) -> Vec<String> {
        Vec::new()
    }

    fn outcome(&self) -> Outcome {
        Outcome::default()
    }

    fn check(&self, ctx: &StepContext) -> Result<(), PreprocessError> {
        let vocabulary = &feature(Self::NAME, ctx, &self.feature_key)?.vocabulary;
        accepted(Self::NAME, self.rule().check())?;
        let ids = [
            ("prefix_id", Some(self.prefix_id)),
            ("suffix_id", Some(self.suffix_id)),
            ("middle_id", Some(self.middle_id)),
            ("end_id", self.end_id),
        ];
        for (name, id) in ids {
            let Some(id) = id else { continue };
            if !usize::try_from(id).is_ok_and(|id| id < vocabulary.vocab_size()) {
                let problem = format!(
                    "`{name}` is {id}, but ids of the vocabulary are 0 to {}",
                    vocabulary.vocab_size() - 1
                );
                return Err(refused(Self::NAME, problem));
            }
        }
        Ok(())
    }

    fn item_step(&self, _ctx: &StepContext) -> Result<Arc<dyn ItemStep>, PreprocessError> {
        let words = format!("{}: the middle last in {}", self.feature_key, percent(self.fim_rate));
        Ok(Arc::new(MiddleLast {
            feature: self.feature_key.as_str().into(),
            rule: self.rule(),
            prefix: Rope::ids([self.prefix_id]),
            suffix: Rope::ids([self.suffix_id]),
            middle: Rope::ids([self.middle_id]),
            end: Rope::ids(self.end_id.into_iter().collect::<Vec<i32>>()),
            words,
        }))
    }
}

//! Sequences cut in front.
//!
//! ```text
//! trim_tokens_at_front, length 5    targets: [3, 9, 4, 5, 6, 7]   ->   targets: [4, 5, 6, 7]     (room for an EOS)
//! truncate_inputs_left, length 2    inputs: [5, 6, 7]             ->   inputs: [6, 7]
//! ```

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::dataset::StoreError;
use crate::item::{Draws, Item, ItemStep};
use crate::preprocess::columns::check_features;
use crate::preprocess::tokens::settings::{INPUTS, feature, length};
use crate::preprocess::tokens::{Outcome, TokenStep};
use crate::preprocess::{PreprocessError, StepContext};

/// Keeps the last ids of sequences, one fewer than their length, so that an EOS fits behind them. A feature without a length
/// is left alone unless it is named.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self { keys_to_trim: vec!["inputs".to_owned()] })]
pub struct TrimTokensAtFront {
    /// Limits the step to these features.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-default" = "all"))]
    pub keys_to_trim: Vec<String>,
}

/// Keeps the last ids of `inputs`, as many as their length.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self {})]
pub struct TruncateInputsLeft {}

/// How many of the last ids of features stay.
#[derive(Debug)]
struct KeepLast {
    kept: Vec<(Arc<str>, u32)>,
}

impl ItemStep for KeepLast {
    fn plan(&self, mut items: Vec<Item>, _draws: &Draws<'_>) -> Result<Vec<Item>, StoreError> {
        for item in &mut items {
            for (name, kept) in &self.kept {
                let Some(rope) = item.take(name) else { continue };
                let cut = rope.len().saturating_sub(*kept);
                let rope = if cut == 0 { rope } else { rope.slice(cut, *kept) };
                item.set(name, rope);
            }
        }
        Ok(items)
    }

    fn in_words(&self) -> String {
        let kept = self.kept.iter().map(|(name, kept)| format!("{name}: the last {kept}"));
        kept.collect::<Vec<_>>().join(", ")
    }
}

impl TokenStep for TrimTokensAtFront {
    const NAME: &'static str = "trim_tokens_at_front";

    fn needs_lengths_of(&self, ctx: &StepContext) -> Vec<String> {
        let all = || ctx.output_features.keys().cloned().collect();
        if self.keys_to_trim.is_empty() { all() } else { self.keys_to_trim.clone() }
    }

    fn outcome(&self) -> Outcome {
        Outcome::default()
    }

    fn check(&self, ctx: &StepContext) -> Result<(), PreprocessError> {
        check_features(Self::NAME, &self.keys_to_trim, ctx)
    }

    fn item_step(&self, ctx: &StepContext) -> Result<Arc<dyn ItemStep>, PreprocessError> {
        let named = self.keys_to_trim.iter();
        let all = ctx.output_features.keys().filter(|name| ctx.lengths.contains_key(*name));
        let names: Vec<&String> = if self.keys_to_trim.is_empty() { all.collect() } else { named.collect() };
        let kept = |name: &&String| -> Result<(Arc<str>, u32), PreprocessError> {
            Ok((name.as_str().into(), length(Self::NAME, ctx, name)?.saturating_sub(1)))
        };
        let kept = names.iter().map(kept).collect::<Result<_, _>>()?;
        Ok(Arc::new(KeepLast { kept }))
    }
}

impl TokenStep for TruncateInputsLeft {
    const NAME: &'static str = "truncate_inputs_left";

    fn needs_lengths_of(&self, _ctx: &StepContext) -> Vec<String> {
        vec![INPUTS.to_owned()]
    }

    fn outcome(&self) -> Outcome {
        Outcome::default()
    }

    fn check(&self, ctx: &StepContext) -> Result<(), PreprocessError> {
        feature(Self::NAME, ctx, INPUTS).map(|_| ())
    }

    fn item_step(&self, ctx: &StepContext) -> Result<Arc<dyn ItemStep>, PreprocessError> {
        Ok(Arc::new(KeepLast { kept: vec![(INPUTS.into(), length(Self::NAME, ctx, INPUTS)?)] }))
    }
}

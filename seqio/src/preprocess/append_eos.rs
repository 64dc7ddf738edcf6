//! Ends every token sequence with its vocabulary's EOS id.
//!
//! ```text
//! targets   [3, 9] -> [3, 9, 1]
//! targets   []     -> [1]
//! ```

use arrow::datatypes::SchemaRef;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::example::Examples;
use crate::preprocess::columns::{
    apply_edits, check_features, edited_schema, mask_edits, masked_feature, selects,
};
use crate::preprocess::{PreprocessError, Preprocessor, StepContext, TokenEdit};

/// Appends the EOS id to each output feature that asks for one (`add_eos`).
///
/// Trimming comes later and may cut the id off again; use `append_eos_after_trim` where every sequence has to end in
/// EOS. In a loss mask (`targets_loss`) the EOS counts if the token before it does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::default())]
pub struct AppendEos {
    /// Limits the step to these features; none mean all that ask for an EOS.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-default" = "all with `add_eos`"))]
    pub features: Vec<String>,
}

impl AppendEos {
    /// Limits the step to these features.
    pub fn only(features: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { features: features.into_iter().map(Into::into).collect() }
    }
}

impl Preprocessor for AppendEos {
    fn name(&self) -> &'static str {
        "append_eos"
    }

    fn output_schema(&self, input: &SchemaRef, ctx: &StepContext) -> Result<SchemaRef, PreprocessError> {
        check_eos_features(self.name(), &self.features, ctx)?;
        edited_schema(self, input, ctx, |name| eos_id(name, &self.features, ctx).is_some())
    }

    fn apply(&self, examples: Examples, ctx: &StepContext) -> Result<Examples, PreprocessError> {
        apply_edits(self, examples, ctx)
    }

    fn token_edits(&self, feature: &str, ctx: &StepContext) -> Option<Vec<TokenEdit>> {
        if let Some(masked) = masked_feature(feature, ctx) {
            return self.token_edits(masked, ctx).map(mask_edits);
        }
        Some(eos_id(feature, &self.features, ctx).map(|id| TokenEdit::Append { id }).into_iter().collect())
    }
}

/// The id that a step limited to `features` ends `name` with, if it ends it at all.
pub(super) fn eos_id(name: &str, features: &[String], ctx: &StepContext) -> Option<i32> {
    let feature = ctx.output_features.get(name).filter(|feature| feature.add_eos)?;
    feature.vocabulary.special_ids().eos.filter(|_| selects(features, name))
}

/// Refuses features that cannot be ended, and names that would have no effect.
pub(super) fn check_eos_features(
    step: &'static str,
    features: &[String],
    ctx: &StepContext,
) -> Result<(), PreprocessError> {
    check_features(step, features, ctx)?;
    for (name, feature) in ctx.output_features.iter().filter(|(name, _)| masked_feature(name, ctx).is_none())
    {
        let named = features.contains(name);
        if named && !feature.add_eos {
            let problem =
                format!("feature `{name}` has `add_eos = false`; drop it from `features` or set it to true");
            return Err(PreprocessError::Setting { step, problem });
        }
        let asks = feature.add_eos && selects(features, name);
        if asks && feature.vocabulary.special_ids().eos.is_none() {
            let problem = format!(
                "feature `{name}` asks for an EOS, but vocabulary `{vocabulary}` has none; set `eos` in \
                 `[vocabulary.{vocabulary}]`, or `add_eos = false` for the feature",
                vocabulary = feature.vocabulary_name
            );
            return Err(PreprocessError::Setting { step, problem });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use arrow::array::RecordBatch;

    use super::*;
    use crate::feature::Feature;
    use crate::testing::{assert_step_laws, context, show, token_examples};

    #[test]
    fn every_sequence_ends_with_eos() {
        let input = token_examples("targets", vec![vec![3, 9], vec![]]);
        let output = AppendEos::default().apply(input, &context("targets", Some(1))).unwrap();
        insta::assert_snapshot!(show(&output), @r"
        targets: [3, 9, 1]
        targets: [1]
        ");
    }

    #[test]
    fn a_missing_feature_is_named_with_what_was_there_instead() {
        let input = token_examples("target", vec![vec![3]]);
        let ctx = context("targets", Some(1));
        let error = AppendEos::default().output_schema(&input.columns.schema(), &ctx).unwrap_err();
        insta::assert_snapshot!(error, @"step `append_eos` needs feature `targets`, but the examples have only `target`");
    }

    #[test]
    fn a_vocabulary_without_eos_is_refused_before_data() {
        let input = token_examples("targets", vec![vec![3]]);
        let error = AppendEos::default()
            .output_schema(&input.columns.schema(), &context("targets", None))
            .unwrap_err();
        insta::assert_snapshot!(error, @"step `append_eos`: feature `targets` asks for an EOS, but vocabulary `test` has none; set `eos` in `[vocabulary.test]`, or `add_eos = false` for the feature");
    }

    #[test]
    fn features_without_add_eos_are_left_alone() {
        let mut ctx = context("targets", Some(1));
        ctx.output_features.get_mut("targets").unwrap().add_eos = false;
        let input = token_examples("targets", vec![vec![3]]);
        let output = AppendEos::default().apply(input, &ctx).unwrap();
        insta::assert_snapshot!(show(&output), @"targets: [3]");
        let named = AppendEos::only(["targets"]);
        let error = named.output_schema(&output.columns.schema(), &ctx).unwrap_err();
        insta::assert_snapshot!(error, @"step `append_eos`: feature `targets` has `add_eos = false`; drop it from `features` or set it to true");
    }

    #[test]
    fn a_loss_mask_follows_its_feature() {
        let mut ctx = context("targets", Some(1));
        let mask = Feature { add_eos: true, ..context("targets", None).output_features["targets"].clone() };
        ctx.output_features.insert("targets_loss".to_owned(), mask);
        let targets = token_examples("targets", vec![vec![3, 9], vec![4, 5], vec![]]);
        let masks = token_examples("targets_loss", vec![vec![0, 1], vec![1, 0], vec![]]);
        let columns = RecordBatch::try_from_iter([
            ("targets", targets.columns.column(0).clone()),
            ("targets_loss", masks.columns.column(0).clone()),
        ]);
        let input = targets.with_columns(columns.unwrap());
        let output = AppendEos::default().apply(input.clone(), &ctx).unwrap();
        insta::assert_snapshot!(show(&output), @r"
        targets: [3, 9, 1]  targets_loss: [0, 1, 1]
        targets: [4, 5, 1]  targets_loss: [1, 0, 0]
        targets: [1]  targets_loss: [0]
        ");
        assert_step_laws(&AppendEos::default(), &ctx, &input);
    }

    #[test]
    fn obeys_the_step_laws() {
        let input = token_examples("targets", vec![vec![3], vec![], vec![7, 8]]);
        assert_step_laws(&AppendEos::default(), &context("targets", Some(1)), &input);
    }
}

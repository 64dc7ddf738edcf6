//! Keeps the first ids of sequences that are longer than their length.
//!
//! ```text
//! length 2   targets   [3, 9, 4] -> [3, 9]
//! no length  targets   [3, 9, 4] -> [3, 9, 4]
//! ```

use arrow::datatypes::SchemaRef;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::example::Examples;
use crate::preprocess::columns::{
    apply_edits, check_features, edited_schema, mask_edits, masked_feature, selects,
};
use crate::preprocess::{PreprocessError, Preprocessor, StepContext, TokenEdit};

/// Trims each output feature to its length; a feature without a length is left alone.
///
/// An EOS at the end is cut off like any other id: see `append_eos_after_trim`. A loss mask (`targets_loss`) is trimmed as
/// its feature is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::only(vec!["inputs"]))]
pub struct Trim {
    /// Limits the step to these features; none mean all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-default" = "all"))]
    pub features: Vec<String>,
}

impl Trim {
    /// Limits the step to these features.
    pub fn only(features: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { features: features.into_iter().map(Into::into).collect() }
    }
}

impl Preprocessor for Trim {
    fn name(&self) -> &'static str {
        "trim"
    }

    fn length_dependent(&self, ctx: &StepContext) -> Vec<String> {
        let names = ctx.output_features.keys().filter(|name| masked_feature(name, ctx).is_none());
        names.filter(|name| selects(&self.features, name)).cloned().collect()
    }

    fn output_schema(&self, input: &SchemaRef, ctx: &StepContext) -> Result<SchemaRef, PreprocessError> {
        check_features(self.name(), &self.features, ctx)?;
        edited_schema(self, input, ctx, |name| selects(&self.features, name))
    }

    fn apply(&self, examples: Examples, ctx: &StepContext) -> Result<Examples, PreprocessError> {
        apply_edits(self, examples, ctx)
    }

    fn token_edits(&self, feature: &str, ctx: &StepContext) -> Option<Vec<TokenEdit>> {
        if let Some(masked) = masked_feature(feature, ctx) {
            return self.token_edits(masked, ctx).map(mask_edits);
        }
        let length = ctx.lengths.get(feature).filter(|_| selects(&self.features, feature));
        Some(length.map(|&max_length| TokenEdit::Trim { max_length }).into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_step_laws, context, show, token_examples};

    #[test]
    fn the_head_is_kept() {
        let mut ctx = context("targets", Some(1));
        ctx.lengths.insert("targets".to_owned(), 2);
        let input = token_examples("targets", vec![vec![3, 9, 4], vec![5], vec![]]);
        let output = Trim::default().apply(input.clone(), &ctx).unwrap();
        insta::assert_snapshot!(show(&output), @r"
        targets: [3, 9]
        targets: [5]
        targets: []
        ");
        assert_step_laws(&Trim::default(), &ctx, &input);
    }

    #[test]
    fn a_feature_that_the_task_does_not_have_is_refused_with_the_nearest_name() {
        let input = token_examples("targets", vec![vec![3]]);
        let step = Trim::only(["target"]);
        let error = step.output_schema(&input.columns.schema(), &context("targets", None)).unwrap_err();
        insta::assert_snapshot!(error, @"step `trim`: there is no feature `target`; did you mean `targets`?");
    }
}

//! Cuts every token sequence so that EOS fits behind it, and ends it with EOS.
//!
//! ```text
//! length 3   targets   [3, 9, 4, 5] -> [3, 9, 1]
//! length 1   targets   [3, 9]       -> [1]
//! no length  targets   [3, 9]       -> [3, 9, 1]
//! ```

use arrow::datatypes::SchemaRef;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::example::Examples;
use crate::preprocess::append_eos::{check_eos_features, eos_id};
use crate::preprocess::columns::{apply_edits, edited_schema, mask_edits, masked_feature};
use crate::preprocess::{PreprocessError, Preprocessor, StepContext, TokenEdit};

/// Trims each output feature that asks for an EOS (`add_eos`) to one id less than its length, then appends the EOS.
///
/// A loss mask (`targets_loss`) is trimmed as its feature is, and the EOS counts if the token before it does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::default())]
pub struct AppendEosAfterTrim {
    /// Limits the step to these features; none mean all that ask for an EOS.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-default" = "all with `add_eos`"))]
    pub features: Vec<String>,
}

impl AppendEosAfterTrim {
    /// Limits the step to these features.
    pub fn only(features: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { features: features.into_iter().map(Into::into).collect() }
    }
}

impl Preprocessor for AppendEosAfterTrim {
    fn name(&self) -> &'static str {
        "append_eos_after_trim"
    }

    fn length_dependent(&self, ctx: &StepContext) -> Vec<String> {
        let names = ctx.output_features.keys().filter(|name| masked_feature(name, ctx).is_none());
        names.filter(|name| eos_id(name, &self.features, ctx).is_some()).cloned().collect()
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
        let Some(id) = eos_id(feature, &self.features, ctx) else {
            return Some(Vec::new());
        };
        let trim =
            ctx.lengths.get(feature).map(|length| TokenEdit::Trim { max_length: length.saturating_sub(1) });
        Some(trim.into_iter().chain([TokenEdit::Append { id }]).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_step_laws, context, show, token_examples};

    fn with_length(length: usize) -> StepContext {
        let mut ctx = context("targets", Some(1));
        ctx.lengths.insert("targets".to_owned(), length);
        ctx
    }

    fn sequences() -> Examples {
        token_examples("targets", vec![vec![3, 9, 4, 5], vec![3, 9], vec![]])
    }

    #[test]
    fn the_eos_is_never_cut_off() {
        let output = AppendEosAfterTrim::default().apply(sequences(), &with_length(3)).unwrap();
        insta::assert_snapshot!(show(&output), @r"
        targets: [3, 9, 1]
        targets: [3, 9, 1]
        targets: [1]
        ");
        let output = AppendEosAfterTrim::default().apply(sequences(), &with_length(1)).unwrap();
        insta::assert_snapshot!(show(&output), @r"
        targets: [1]
        targets: [1]
        targets: [1]
        ");
    }

    #[test]
    fn without_a_length_nothing_is_cut() {
        let output = AppendEosAfterTrim::default().apply(sequences(), &context("targets", Some(1))).unwrap();
        insta::assert_snapshot!(show(&output), @r"
        targets: [3, 9, 4, 5, 1]
        targets: [3, 9, 1]
        targets: [1]
        ");
    }

    #[test]
    fn obeys_the_step_laws() {
        for ctx in [context("targets", Some(1)), with_length(1), with_length(3), with_length(100)] {
            assert_step_laws(&AppendEosAfterTrim::default(), &ctx, &sequences());
        }
    }
}

//! Steps on token sequences below the cache boundary: T5's token preprocessors and objectives.
//!
//! ```text
//! targets: documents   span_corruption   ->   inputs: 10 11 99 14 15 98      targets: 99 12 13 98 16
//! ```
//!
//! A step of this folder is settings ([`TokenStep`]) that give a [`Course`] or another [`ItemStep`]: a plan from lengths,
//! with ropes of tokens that are made when a row is written.

mod bert_masking;
mod concatenate_and_split;
mod course;
mod denoise;
mod denoising;
mod fill_in_the_middle;
mod full_lm;
#[cfg(test)]
mod golden;
mod iid_denoising;
mod noise_mask_fn;
mod pack_prefix_lm;
mod prefix_lm;
mod reduce_concat;
mod select_chunk;
mod settings;
mod span_corruption;
mod split;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod trim_front;
mod trivia_qa_truncate_inputs;
mod ul2;

use std::sync::Arc;

use arrow::datatypes::{FieldRef, Schema, SchemaRef};

pub use self::bert_masking::BertMasking;
pub use self::concatenate_and_split::ConcatenateAndSplitToFixedLength;
pub use self::denoise::Denoise;
pub use self::fill_in_the_middle::FillInTheMiddle;
pub use self::full_lm::{FullLm, TargetsForPrefixLmObjective};
pub use self::iid_denoising::IidDenoising;
pub use self::noise_mask_fn::NoiseMaskFn;
pub use self::pack_prefix_lm::{PackPrefixLmDecoderOnly, PackPrefixLmEncoderDecoder};
pub use self::prefix_lm::PrefixLm;
pub use self::reduce_concat::ReduceConcatTokens;
pub use self::select_chunk::SelectRandomChunk;
pub use self::span_corruption::SpanCorruption;
pub use self::split::{
    SplitTokens, SplitTokensToInputsLength, SplitTokensToRandomLength, SplitTokensToTargetsLength,
};
pub use self::trim_front::{TrimTokensAtFront, TruncateInputsLeft};
pub use self::trivia_qa_truncate_inputs::TriviaQaTruncateInputs;
pub use self::ul2::{Ul2, Ul2Denoiser};
use crate::example::Examples;
use crate::item::ItemStep;
use crate::preprocess::columns::{check_features, token_field, token_index};
use crate::preprocess::{PreprocessError, Preprocessor, StepContext};

/// What comes out of a step.
#[derive(Debug, Default)]
struct Outcome {
    /// The features that it works on or passes on, each once; all others are gone. `None`: all stay.
    keeps: Option<Vec<String>>,
    /// The features that it makes.
    makes: Vec<String>,
}

impl Outcome {
    /// These features alone.
    fn keeping<'a>(features: impl IntoIterator<Item = &'a str>) -> Self {
        Self { keeps: Some(features.into_iter().map(str::to_owned).collect()), makes: Vec::new() }
    }

    /// Also these features.
    fn and(mut self, features: &[String]) -> Self {
        self.keeps.get_or_insert_default().extend_from_slice(features);
        self
    }

    /// And what is made.
    fn making(mut self, features: &[&str]) -> Self {
        self.makes.extend(features.iter().map(|name| (*name).to_owned()));
        self
    }
}

/// Settings of a step on token sequences.
trait TokenStep {
    /// The step's name in task files.
    const NAME: &'static str;

    /// The features whose lengths it needs.
    fn needs_lengths_of(&self, ctx: &StepContext) -> Vec<String>;

    /// What comes out.
    fn outcome(&self) -> Outcome;

    /// The step with the lengths of a run. What is wrong whatever the lengths has been refused by `check`.
    fn item_step(&self, ctx: &StepContext) -> Result<Arc<dyn ItemStep>, PreprocessError>;

    /// Refuses settings that are wrong whatever the lengths.
    fn check(&self, ctx: &StepContext) -> Result<(), PreprocessError>;
}

/// The columns after a step: what it keeps, then what it makes.
fn schema_after<S: TokenStep>(
    step: &S,
    input: &SchemaRef,
    ctx: &StepContext,
) -> Result<SchemaRef, PreprocessError> {
    step.check(ctx)?;
    let Outcome { keeps, makes } = step.outcome();
    let mut fields: Vec<FieldRef> = match &keeps {
        None => input.fields().iter().map(Arc::clone).collect(),
        Some(names) => {
            check_features(S::NAME, names, ctx)?;
            for (place, name) in names.iter().enumerate() {
                if names[..place].contains(name) {
                    return Err(settings::refused(
                        S::NAME,
                        format!("feature `{name}` is named twice; name it once"),
                    ));
                }
            }
            let field = |name: &String| -> Result<FieldRef, PreprocessError> {
                Ok(Arc::clone(&input.fields()[token_index(S::NAME, input, name)?]))
            };
            names.iter().map(field).collect::<Result<_, _>>()?
        }
    };
    for name in &makes {
        fields.retain(|field| field.name() != name);
        fields.push(Arc::new(token_field(name)));
    }
    Ok(Arc::new(Schema::new(fields)))
}

/// Makes settings of token steps steps.
macro_rules! token_steps {
    ($($step:ty),* $(,)?) => {
        $(impl Preprocessor for $step {
            fn name(&self) -> &'static str {
                <Self as TokenStep>::NAME
            }

            fn length_dependent(&self, ctx: &StepContext) -> Vec<String> {
                self.needs_lengths_of(ctx)
            }

            fn output_schema(&self, input: &SchemaRef, ctx: &StepContext) -> Result<SchemaRef, PreprocessError> {
                schema_after(self, input, ctx)
            }

            fn apply(&self, _examples: Examples, _ctx: &StepContext) -> Result<Examples, PreprocessError> {
                let problem = "works on items of an epoch, and only below the cache boundary".to_owned();
                Err(settings::refused(<Self as TokenStep>::NAME, problem))
            }

            fn item_step(&self, ctx: &StepContext) -> Option<Result<Arc<dyn ItemStep>, PreprocessError>> {
                Some(TokenStep::item_step(self, ctx))
            }

            fn makes(&self, _ctx: &StepContext) -> Vec<String> {
                self.outcome().makes
            }
        })*
    };
}

token_steps! {
    BertMasking,
    ConcatenateAndSplitToFixedLength,
    Denoise,
    FillInTheMiddle,
    FullLm,
    IidDenoising,
    PackPrefixLmDecoderOnly,
    PackPrefixLmEncoderDecoder,
    PrefixLm,
    ReduceConcatTokens,
    SelectRandomChunk,
    SpanCorruption,
    SplitTokens,
    SplitTokensToInputsLength,
    SplitTokensToRandomLength,
    SplitTokensToTargetsLength,
    TargetsForPrefixLmObjective,
    TrimTokensAtFront,
    TruncateInputsLeft,
    Ul2,
}

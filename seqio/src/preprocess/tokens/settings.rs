//! What settings of token steps share: lengths, vocabularies and words for what is wrong.

use crate::feature::Feature;
use crate::preprocess::{PreprocessError, StepContext};

/// The feature that objectives begin with.
pub(super) const TARGETS: &str = "targets";
/// The feature that they make.
pub(super) const INPUTS: &str = "inputs";

/// T5 takes no more of a document.
pub(super) const LONGEST_CHUNK: u32 = 65_536;
/// T5 joins so many documents.
pub(super) const JOINED_DOCUMENTS: usize = 128;

/// Defaults of settings, as serde wants them.
pub(super) mod default {
    pub(in super::super) fn targets() -> String {
        super::TARGETS.to_owned()
    }

    pub(in super::super) fn inputs() -> String {
        super::INPUTS.to_owned()
    }

    pub(in super::super) fn yes() -> bool {
        true
    }
}

/// A mistake in settings, or a length that is missing.
pub(super) fn refused(step: &'static str, problem: String) -> PreprocessError {
    PreprocessError::Setting { step, problem }
}

/// Turns a problem in words into an error of the step.
pub(super) fn accepted(step: &'static str, checked: Result<(), String>) -> Result<(), PreprocessError> {
    checked.map_err(|problem| refused(step, problem))
}

/// The feature of this name.
pub(super) fn feature<'a>(
    step: &'static str,
    ctx: &'a StepContext,
    name: &str,
) -> Result<&'a Feature, PreprocessError> {
    ctx.output_features.get(name).ok_or_else(|| {
        refused(step, format!("the task has no feature `{name}`; add `{name}` to its `features`"))
    })
}

/// The length of a feature.
pub(super) fn length(step: &'static str, ctx: &StepContext, name: &str) -> Result<u32, PreprocessError> {
    let Some(length) = ctx.lengths.get(name) else {
        let problem = format!(
            "it needs the length of `{name}`: give it for a run with `--lengths {name}=512`, or for every run by \
             `lengths = {{ {name} = 512 }}` in the task"
        );
        return Err(refused(step, problem));
    };
    u32::try_from(*length)
        .map_err(|_| refused(step, format!("the length of `{name}` is {length}; that is too long")))
}

/// The length of a feature without the place of its EOS, if it ends with one.
pub(super) fn room(step: &'static str, ctx: &StepContext, name: &str) -> Result<u32, PreprocessError> {
    let length = length(step, ctx, name)?;
    let room = length.saturating_sub(u32::from(feature(step, ctx, name)?.add_eos));
    if room == 0 {
        return Err(refused(
            step,
            format!("the length of `{name}` is {length}: there is no room for a token"),
        ));
    }
    Ok(room)
}

/// Refuses two features with different vocabularies where one is made of the other.
pub(super) fn same_vocabulary(
    step: &'static str,
    ctx: &StepContext,
    made: &str,
    of: &str,
) -> Result<(), PreprocessError> {
    let (first, second) = (feature(step, ctx, made)?, feature(step, ctx, of)?);
    if first.vocabulary_name != second.vocabulary_name {
        let problem = format!(
            "`{made}` is made of `{of}`, but its vocabulary is `{}` and not `{}`; give both the same",
            first.vocabulary_name, second.vocabulary_name
        );
        return Err(refused(step, problem));
    }
    Ok(())
}

/// `15 %` of 0.15.
pub(super) fn percent(share: f64) -> String {
    format!("{} %", (share * 10_000.0).round() / 100.0)
}

//! Where a task's steps are cut: what stands above runs once, into the cache; what stands below runs every epoch.
//!
//! ```text
//! rekey, tokenize, cache, append_eos     -> above: rekey, tokenize    below: append_eos
//! rekey, tokenize, trim                  -> above: rekey, tokenize    below: trim   (implied)
//! rekey, tokenize, append_eos            -> above: all                below: none   (implied)
//! ```

use std::sync::Arc;

use serde::Serialize;

use crate::preprocess::{Exemplars, Preprocessor, Step, StepContext, TokenEdit};
use crate::rng::StepRandom;
use crate::text::quoted;

/// The boundary of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Boundary {
    /// How many entries of the definition's `steps` stand above it.
    pub above: usize,
    /// Whether the definition says so with a `cache` step.
    pub explicit: bool,
}

/// A step at its place in the definition.
#[derive(Clone, Debug)]
pub(crate) struct PlacedStep {
    /// Its place among `steps`, from 0.
    pub(crate) index: usize,
    pub(crate) step: Arc<dyn Preprocessor>,
    /// Where it takes random numbers from.
    pub(crate) random: StepRandom,
    /// The exemplars it asked for, once they are read.
    pub(crate) exemplars: Option<Arc<Exemplars>>,
}

impl PlacedStep {
    /// What the step may know, above the boundary.
    pub(crate) fn context(&self, ctx: &StepContext) -> StepContext {
        StepContext { random: self.random, exemplars: self.exemplars.clone(), ..ctx.clone() }
    }
}

/// A step that stands in the wrong place.
#[derive(Debug)]
pub(crate) struct Misplaced {
    /// Its place among `steps`, from 0.
    pub(crate) index: usize,
    pub(crate) problem: String,
    pub(crate) hint: String,
}

/// Finds the boundary and tells which steps cannot stand where they do. `ctx.lengths` are the task's own.
pub(crate) fn place(steps: &[Step], placed: &[PlacedStep], ctx: &StepContext) -> (Boundary, Vec<Misplaced>) {
    let mut misplaced = Vec::new();
    let mut caches = (0..steps.len()).filter(|&index| steps[index] == Step::Cache);
    let explicit = caches.next();
    for index in caches {
        misplaced.push(Misplaced {
            index,
            problem: format!("a second `cache`; the first is step {}", explicit.unwrap_or_default() + 1),
            hint: "keep one of the two: a task has one boundary".to_owned(),
        });
    }
    let first_dependent =
        placed.iter().find(|placed| plans_items(placed, ctx) || !free_lengths(placed, ctx).is_empty());
    let implied = first_dependent.map_or(steps.len(), |placed| placed.index);
    let boundary = Boundary { above: explicit.unwrap_or(implied), explicit: explicit.is_some() };

    for step in placed {
        if step.index < boundary.above {
            let free = free_lengths(step, ctx);
            if plans_items(step, ctx) {
                misplaced.push(Misplaced {
                    index: step.index,
                    problem: "works on items of an epoch, which a cache does not hold".to_owned(),
                    hint: "move the step below `cache`".to_owned(),
                });
            } else if !free.is_empty() {
                misplaced.push(Misplaced {
                    index: step.index,
                    problem: format!("depends on the length of {}, which a cache cannot know", quoted(&free)),
                    hint: format!(
                        "move the step below `cache`, or fix the length for every run: `lengths = {{ {} = 512 }}`",
                        free.join(" = 512, ")
                    ),
                });
            }
        } else if !plans_items(step, ctx) && !edits_only(step, ctx) {
            let border = match first_dependent {
                _ if boundary.explicit => "the `cache` boundary".to_owned(),
                Some(first) => format!("`{}`, where the cache boundary is implied", first.step.name()),
                None => "the cache boundary".to_owned(),
            };
            if step.step.whole_split().is_some() {
                misplaced.push(Misplaced {
                    index: step.index,
                    problem: format!("compares all examples of a split, and cannot stand below {border}"),
                    hint: "move the step above: below the boundary no step sees more than one example"
                        .to_owned(),
                });
                continue;
            }
            misplaced.push(Misplaced {
                index: step.index,
                problem: format!("cannot stand below {border}"),
                hint: "below it only steps may stand that need no look at columns: `append_eos`, \
                       `append_eos_after_trim`, `trim` and those that work on token sequences; move the step above"
                    .to_owned(),
            });
        }
    }
    misplaced.extend(repeated(placed, ctx));
    (boundary, misplaced)
}

/// The features whose length the step needs and the task does not fix.
fn free_lengths(placed: &PlacedStep, ctx: &StepContext) -> Vec<String> {
    let mut names = placed.step.length_dependent(ctx);
    names.retain(|name| !ctx.lengths.contains_key(name));
    names
}

fn plans_items(placed: &PlacedStep, ctx: &StepContext) -> bool {
    placed.step.item_step(ctx).is_some()
}

fn edits_only(placed: &PlacedStep, ctx: &StepContext) -> bool {
    ctx.output_features.keys().all(|feature| placed.step.token_edits(feature, ctx).is_some())
}

/// Steps that do again what is done already.
fn repeated(placed: &[PlacedStep], ctx: &StepContext) -> Vec<Misplaced> {
    let mut found = Vec::new();
    let mut tokenized: Option<usize> = None;
    for step in placed.iter().filter(|placed| placed.step.name() == "tokenize") {
        match tokenized {
            None => tokenized = Some(step.index),
            Some(first) => found.push(Misplaced {
                index: step.index,
                problem: format!("the examples are tokenized already, by step {}", first + 1),
                hint: "keep one of the two".to_owned(),
            }),
        }
    }
    for feature in ctx.output_features.keys() {
        let mut ended: Option<usize> = None;
        for step in placed {
            let edits = step.step.token_edits(feature, ctx).unwrap_or_default();
            if !edits.iter().any(|edit| matches!(edit, TokenEdit::Append { .. })) {
                continue;
            }
            match ended {
                None => ended = Some(step.index),
                Some(first) => found.push(Misplaced {
                    index: step.index,
                    problem: format!("feature `{feature}` has an EOS already, from step {}", first + 1),
                    hint: "keep one of the two, or limit one with `features = [...]`".to_owned(),
                }),
            }
        }
    }
    found
}

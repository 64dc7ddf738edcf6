//! A task's whole-split steps, and its steps above the boundary run with their choices.

use crate::example::Examples;
use crate::preprocess::{PreprocessError, SplitKey};
use crate::source::SourceRange;
use crate::task::Task;
use crate::whole_split::position::{KeyRecord, key_record, positions};
use crate::whole_split::{Seen, SplitChoices};

/// A step of a task that looks at a whole split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WholeSplitStep {
    /// Its place among the task's steps, from 1.
    pub number: usize,
    /// Its name.
    pub op: String,
    /// The columns that it compares.
    pub by: Vec<String>,
}

/// The keys of a chunk.
#[derive(Clone, Debug, Default)]
pub struct SplitKeys {
    /// The keys with their positions, in the order of the examples; not of examples that have none.
    pub records: Vec<KeyRecord>,
    /// How many examples came to the step.
    pub examples: u64,
}

impl SplitKeys {
    /// The keys of examples of one chunk of a range.
    pub fn new(range: SourceRange, examples: &Examples, keys: Vec<Option<SplitKey>>) -> Self {
        let records = keys.into_iter().zip(positions(range, examples));
        Self {
            examples: examples.len() as u64,
            records: records.filter_map(|(key, position)| Some(key_record(key?, position))).collect(),
        }
    }
}

impl Task {
    /// The steps above the boundary that look at a whole split, in order. The split is read once more for each.
    pub fn whole_split_steps(&self) -> Vec<WholeSplitStep> {
        self.whole_split_places()
            .map(|(number, step)| WholeSplitStep { number, op: step.name().to_owned(), by: step.columns() })
            .collect()
    }

    /// Runs the steps above the boundary on examples of one chunk of a range, with the choices of all whole-split steps.
    /// Any number of threads may call it.
    pub fn preprocess_chosen(
        &self,
        range: SourceRange,
        examples: Examples,
        choices: &SplitChoices,
    ) -> Result<Examples, PreprocessError> {
        self.run_above(examples, None, &mut |number, step, _, examples| {
            let keep = choices.keep(number, range, examples)?;
            keep.ok_or_else(|| PreprocessError::NotChosen { step: step.name() })
        })
    }

    /// The keys of examples of one chunk of a range at the whole-split step of this number, from 0, with the choices of
    /// those before it; none if there is no such step.
    pub fn split_keys(
        &self,
        number: usize,
        range: SourceRange,
        examples: Examples,
        choices: &SplitChoices,
    ) -> Result<SplitKeys, PreprocessError> {
        let examples = self.run_above(examples, Some(number), &mut |number, step, _, examples| {
            let keep = choices.keep(number, range, examples)?;
            keep.ok_or_else(|| PreprocessError::NotChosen { step: step.name() })
        })?;
        match self.keys_at(number, &examples) {
            Some(keys) => Ok(SplitKeys::new(range, &examples, keys?)),
            None => Ok(SplitKeys::default()),
        }
    }

    /// Runs the steps above the boundary on the next examples of a split that is read from its front; `seen` holds what
    /// each whole-split step has met.
    pub(crate) fn preprocess_seen(
        &self,
        examples: Examples,
        seen: &mut Vec<Seen>,
    ) -> Result<Examples, PreprocessError> {
        self.run_above(examples, None, &mut |number, step, ctx, examples| {
            if seen.len() <= number {
                seen.resize_with(number + 1, Seen::default);
            }
            Ok(seen[number].keep(step.keys(examples, ctx)?))
        })
    }
}

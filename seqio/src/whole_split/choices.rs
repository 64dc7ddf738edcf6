//! What the whole-split steps of a task keep of a split.

use std::io::BufWriter;
use std::sync::Arc;

use crate::example::Examples;
use crate::read::{ReadSplitError, SplitReader};
use crate::source::SourceRange;
use crate::split::Split;
use crate::task::Task;
use crate::whole_split::duplicates::drops_of;
use crate::whole_split::position::KEY_RECORD_BYTES;
use crate::whole_split::sorter::Sorter;
use crate::whole_split::{Drops, DuplicateCounts, Scratch, WholeSplitError, WholeSplitStep};

/// What the whole-split steps of a task, in order, keep of a split. The choices of a step can be made when those of
/// the steps before it are there.
#[derive(Clone, Debug, Default)]
pub struct SplitChoices {
    made: Vec<Arc<Drops>>,
    keep_rest: bool,
}

/// What a whole-split step did to a split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChoiceReport {
    /// The step.
    pub step: WholeSplitStep,
    /// Examples that came to it.
    pub examples: u64,
    /// What it found.
    pub counts: DuplicateCounts,
}

impl SplitChoices {
    /// No step's choices are known yet: all that a task without whole-split steps needs.
    pub fn none() -> Self {
        Self::default()
    }

    /// Every step keeps everything: for estimates.
    pub fn keep_all() -> Self {
        Self { made: Vec::new(), keep_rest: true }
    }

    /// Adds the choices of the next step.
    pub fn push(&mut self, drops: Drops) {
        self.made.push(Arc::new(drops));
    }

    /// How many steps' choices are known.
    pub fn len(&self) -> usize {
        self.made.len()
    }

    /// Whether no step's choices are known.
    pub fn is_empty(&self) -> bool {
        self.made.is_empty()
    }

    /// Reads a split once for each whole-split step of a task, and makes the step's choices.
    pub fn find(
        task: &Arc<Task>,
        split: &Split,
        scratch: &Scratch,
    ) -> Result<(Self, Vec<ChoiceReport>), ReadSplitError> {
        let mut choices = Self::none();
        let mut reports = Vec::new();
        for step in task.whole_split_steps() {
            let mut keys: Sorter<KEY_RECORD_BYTES> =
                Sorter::new(&scratch.with_memory(scratch.memory_bytes / 2));
            let mut examples = 0;
            let mut reader = SplitReader::new(Arc::clone(task), split)?.raw();
            while let Some(chunk) = reader.next() {
                scratch.check_stop()?;
                let chunk = chunk?;
                let first = chunk.examples.rows.first().and_then(|row| row.origins.first());
                let first = first.map_or(0, |origin| origin.row);
                let found = task.split_keys(choices.len(), chunk.range, chunk.examples, &choices);
                let found = found.map_err(|error| reader.step_failed(chunk.range, first, error))?;
                examples += found.examples;
                found.records.into_iter().try_for_each(|record| keys.push(record))?;
            }
            let (file, path) = scratch.file()?;
            let again = file.try_clone().map_err(WholeSplitError::io("write a file in", path))?;
            let counts = drops_of(keys.finish()?, scratch, &mut BufWriter::with_capacity(1 << 16, file))?;
            choices.push(Drops::of(again, path)?);
            reports.push(ChoiceReport { step, examples, counts });
        }
        Ok((choices, reports))
    }

    /// Which of some examples of one chunk of a range the whole-split step of this number, from 0, keeps; `None` if that
    /// is not known yet.
    pub fn keep(
        &self,
        number: usize,
        range: SourceRange,
        examples: &Examples,
    ) -> Result<Option<Vec<bool>>, WholeSplitError> {
        match self.made.get(number) {
            Some(drops) => drops.keep(range, examples).map(Some),
            None => Ok(self.keep_rest.then(|| vec![true; examples.len()])),
        }
    }
}

//! Reading an example's sequences as a row takes them: edited, and with what a loss mask says of them.

use crate::convert::Span;
use crate::dataset::{ExampleStore, SequenceEdits, StoreError};

/// Where a task feature comes from.
#[derive(Clone, Debug)]
pub(super) struct Sequences {
    /// Its name.
    pub(super) name: String,
    /// Its number in the store.
    pub(super) feature: usize,
    pub(super) edits: SequenceEdits,
    pub(super) limit: u32,
}

/// An example that a row takes tokens from.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExampleTokens<'a> {
    pub(super) store: &'a dyn ExampleStore,
    pub(super) example: u64,
}

impl ExampleTokens<'_> {
    /// Length of an edited sequence.
    pub(super) fn length(self, sequences: &Sequences) -> u32 {
        let mut length = [0];
        self.store.lengths(sequences.feature, &[self.example], &mut length);
        sequences.edits.edited_length(length[0])
    }

    /// Writes the ids of an edited sequence from `from` on.
    pub(super) fn read(self, sequences: &Sequences, from: u32, out: &mut [i32]) -> Result<(), StoreError> {
        sequences.edits.read(self.store, sequences.feature, self.example, from as usize, out)
    }

    /// An error about what the example holds, with its identity and origin.
    pub(super) fn refused(self, problem: impl AsRef<str>) -> StoreError {
        let place = self.store.place(self.example).unwrap_or_else(|error| error.problem);
        StoreError::new(format!("example {} ({place}): {}", self.example, problem.as_ref()))
    }

    /// Refuses an example in which `beside` is not as long as what it stands beside.
    pub(super) fn check_aligned(self, tokens: &Sequences, beside: &Sequences) -> Result<(), StoreError> {
        let (length, found) = (self.length(tokens), self.length(beside));
        if length == found {
            return Ok(());
        }
        Err(self.refused(format!(
            "`{}` has {length} tokens, but `{}` beside them has {found}; the two must be as long, also after the steps \
             below the cache boundary",
            tokens.name, beside.name
        )))
    }
}

/// Which tokens of a feature count in the loss: 1 for those that do, else 0.
#[derive(Clone, Debug)]
pub(super) struct LossMask(pub(super) Sequences);

impl LossMask {
    /// Multiplies the mask of a span into its weights. `scratch` is as long as they are.
    pub(super) fn apply(
        &self,
        example: ExampleTokens<'_>,
        tokens: &Sequences,
        span: Span,
        scratch: &mut [i32],
        weights: &mut [f32],
    ) -> Result<(), StoreError> {
        example.check_aligned(tokens, &self.0)?;
        example.read(&self.0, span.from, scratch)?;
        for ((place, weight), mask) in (span.from..).zip(weights).zip(scratch.iter()) {
            match mask {
                0 => *weight = 0.0,
                1 => {}
                other => {
                    return Err(example.refused(format!(
                        "`{}` has {other} at place {place}; it must be 1 for tokens with a loss, else 0",
                        self.0.name
                    )));
                }
            }
        }
        Ok(())
    }
}

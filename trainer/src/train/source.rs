//! Where batches come from, as far as the trainer knows.

use std::error::Error;
use std::sync::Arc;

use seqio::{Batch, Dataset, DatasetIterator, DatasetState};

/// Anything that went wrong with the data.
pub type SourceError = Box<dyn Error + Send + Sync>;

/// Batches by step. The trainer sees data through this alone.
///
/// Law: after `go_to(step)`, and after `restore` of a state saved before that step, the same batches come.
pub trait BatchSource {
    /// The next batch; `None` when the data has ended.
    fn next(&mut self) -> Result<Option<Batch>, SourceError>;

    /// Takes a batch back, so that its memory may be used again.
    fn recycle(&mut self, _: Batch) {}

    /// Begins again at `step`, which may also be an earlier one.
    fn go_to(&mut self, step: u64) -> Result<(), SourceError>;

    /// Where the stream stands: what a checkpoint keeps.
    fn state(&self) -> serde_json::Value;

    /// Goes on from a saved state; refuses that of another stream, in words.
    fn restore(&mut self, state: &serde_json::Value) -> Result<(), SourceError>;

    /// A few letters that are the same for the same batch, whoever computes them.
    fn digest(&self, batch: &Batch) -> String;

    /// Which examples the batch of `step` was made of, for people.
    fn provenance(&self, step: u64) -> Result<String, SourceError>;

    /// How long the trainer has waited for batches in all, in milliseconds.
    fn infeed_wait_ms(&self) -> f64;
}

/// Batches of a dataset, read ahead as it is configured.
#[derive(Debug)]
pub struct DatasetSource {
    dataset: Arc<Dataset>,
    batches: DatasetIterator,
    /// Waited in iterators that were replaced.
    waited_ms: f64,
}

impl DatasetSource {
    /// From the first step on.
    pub fn new(dataset: Arc<Dataset>) -> Result<Self, SourceError> {
        let batches = dataset.iter()?;
        Ok(Self { dataset, batches, waited_ms: 0.0 })
    }

    fn replace(&mut self, batches: DatasetIterator) {
        self.waited_ms += self.batches.infeed_wait_ms();
        self.batches = batches;
    }
}

impl BatchSource for DatasetSource {
    fn next(&mut self) -> Result<Option<Batch>, SourceError> {
        Ok(self.batches.next().transpose()?)
    }

    fn recycle(&mut self, batch: Batch) {
        self.batches.recycle(batch);
    }

    fn go_to(&mut self, step: u64) -> Result<(), SourceError> {
        let batches = self.dataset.iter_from(step)?;
        self.replace(batches);
        Ok(())
    }

    fn state(&self) -> serde_json::Value {
        serde_json::to_value(self.batches.state()).unwrap_or(serde_json::Value::Null)
    }

    fn restore(&mut self, state: &serde_json::Value) -> Result<(), SourceError> {
        let state = DatasetState::from_json(&state.to_string())?;
        let batches = self.dataset.resume(&state)?;
        self.replace(batches);
        Ok(())
    }

    fn digest(&self, batch: &Batch) -> String {
        batch.digest().to_string()
    }

    fn provenance(&self, step: u64) -> Result<String, SourceError> {
        Ok(serde_json::to_string(&self.dataset.trace(step)?)?)
    }

    fn infeed_wait_ms(&self) -> f64 {
        self.waited_ms + self.batches.infeed_wait_ms()
    }
}

//! What a trainer begins with: what its run has kept, what another one has, or chance.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::checkpoint::{self, Assignment, Checkpoint, CheckpointError, T5xCheckpoint, TensorSource};
use crate::train::{BatchSource, TrainError, Trainer};

/// What of another run's checkpoint is taken over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// Parameters, the optimizer's state, the step, and the place in the data if it is the same stream.
    #[default]
    All,
    /// Parameters alone: the run begins at step 0.
    Parameters,
}

/// Another run's checkpoint to begin with.
#[derive(Clone, Debug)]
pub struct RestoreFrom {
    /// A checkpoint of ours or of T5X, or the folder of a run, whose newest is taken.
    pub path: PathBuf,
    /// What of it.
    pub what: What,
    /// Where parameters come from that have another name there.
    pub rules: Assignment,
}

/// What a trainer began with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// Chance.
    Initialized,
    /// The newest checkpoint of the run.
    Resumed {
        /// The checkpoint.
        path: PathBuf,
        /// Updates done.
        step: u64,
    },
    /// A checkpoint of another run.
    Restored {
        /// The checkpoint.
        path: PathBuf,
        /// Updates that count as done.
        step: u64,
        /// Parameters that begin with chance.
        initialized: Vec<String>,
        /// Tensors there that nothing was taken from.
        unused: Vec<String>,
    },
}

impl Trainer {
    /// Begins where the run in `folder` stands; a run without a checkpoint begins with `from`, or else with chance.
    pub fn begin(
        &mut self,
        folder: &Path,
        from: Option<&RestoreFrom>,
        source: &mut dyn BatchSource,
    ) -> Result<Beginning, TrainError> {
        if let Some(checkpoint) = checkpoint::latest(folder)? {
            return self.resume(&checkpoint, source);
        }
        self.initialize()?;
        match from {
            Some(from) => self.restore(from, source),
            None => Ok(Beginning::Initialized),
        }
    }

    /// Goes on from a checkpoint of this very run.
    pub fn resume(
        &mut self,
        checkpoint: &Checkpoint,
        source: &mut dyn BatchSource,
    ) -> Result<Beginning, TrainError> {
        let state = checkpoint.state();
        self.load_parameters(&checkpoint.parameters()?, &Assignment::default())?;
        self.load_optimizer(&checkpoint.optimizer()?)?;
        source.restore(&state.dataset).map_err(TrainError::Data)?;
        self.set_step(state.step);
        Ok(Beginning::Resumed { path: checkpoint.path().to_owned(), step: state.step })
    }

    /// Takes over what another run has kept.
    fn restore(
        &mut self,
        RestoreFrom { path, what, rules }: &RestoreFrom,
        source: &mut dyn BatchSource,
    ) -> Result<Beginning, TrainError> {
        let (path, step, plan) = if let Some(checkpoint) = open_ours(path)? {
            let plan = self.load_parameters(&checkpoint.parameters()?, rules)?;
            let mut step = 0;
            if *what == What::All {
                self.load_optimizer(&checkpoint.optimizer()?)?;
                step = checkpoint.state().step;
                // The data of another run may be another stream: then it begins at its first batch.
                if source.restore(&checkpoint.state().dataset).is_err() {
                    source.go_to(0).map_err(TrainError::Data)?;
                }
            }
            (checkpoint.path().to_owned(), step, plan)
        } else {
            let checkpoint = T5xCheckpoint::open(path)?;
            let plan = self.load_parameters(&checkpoint.parameters(), rules)?;
            let mut step = 0;
            if *what == What::All {
                self.load_optimizer(&checkpoint.optimizer())?;
                step = checkpoint.step()?;
            }
            (path.clone(), step, plan)
        };
        self.set_step(step);
        let initialized = plan.takes.into_iter().filter(|take| take.from.is_none()).map(|take| take.name);
        Ok(Beginning::Restored { path, step, initialized: initialized.collect(), unused: plan.unused })
    }

    fn load_parameters(
        &mut self,
        source: &dyn TensorSource,
        rules: &Assignment,
    ) -> Result<checkpoint::Plan, TrainError> {
        let plan = checkpoint::plan(source, &self.parameters(), rules)?;
        checkpoint::restore(source, &plan, |name, values| Ok(self.write(name, values)?))?;
        Ok(plan)
    }

    fn load_optimizer(&mut self, source: &dyn TensorSource) -> Result<(), TrainError> {
        let plan = checkpoint::plan(source, &self.optimizer_state(), &Assignment::default())?;
        checkpoint::restore(source, &plan, |name, values| Ok(self.write(name, values)?))?;
        Ok(())
    }
}

/// A checkpoint of ours: the folder itself, or the newest of a run.
fn open_ours(path: &Path) -> Result<Option<Checkpoint>, CheckpointError> {
    if path.join("state.json").exists() {
        return Checkpoint::open(path).map(Some);
    }
    if path.join("checkpoints").is_dir() { checkpoint::latest(path) } else { Ok(None) }
}

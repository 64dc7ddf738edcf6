//! Why training ended before its time.

use crate::checkpoint::CheckpointError;
use crate::engine::EngineError;
use crate::log::LogError;
use crate::mesh::Stopped;
use crate::model::{InputError, ModelError};
use crate::optimizer::OptimizerError;
use crate::partition::{any_of, fitting};
use crate::program::PlanError;
use crate::tape::TapeError;
use crate::train::{LossError, SourceError};

/// Why training ended before its time.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// The network cannot be.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Operations that do not go together.
    #[error(transparent)]
    Tape(#[from] TapeError),
    /// A computation that cannot be planned.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// What it runs on failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// An optimizer that cannot be.
    #[error(transparent)]
    Optimizer(#[from] OptimizerError),
    /// A batch that does not fit the network.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A batch whose loss cannot be normalized.
    #[error(transparent)]
    Loss(#[from] LossError),
    /// The data.
    #[error("the data failed: {0}")]
    Data(#[source] SourceError),
    /// A checkpoint that cannot be written or read.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A log that cannot be written.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Rows that cannot be cut into equal parts.
    #[error("batches of {rows} rows cannot be cut into {parts} equal microbatches")]
    Microbatches {
        /// Rows of a batch.
        rows: usize,
        /// How many parts were asked for.
        parts: usize,
    },
    /// Rows that the ranks along the data axis cannot share.
    #[error(
        "{ranks} ranks of the data axis cannot share {rows} rows of a microbatch evenly; the axis could have {}",
        any_of(&fitting(*.ranks, [*.rows]))
    )]
    DataRanks {
        /// Rows of a microbatch.
        rows: usize,
        /// Ranks that share them.
        ranks: usize,
    },
    /// A rank failed, and all others ended with it.
    #[error(transparent)]
    Rank(#[from] Stopped),
    /// Threads could not be started.
    #[error("a rank's thread could not be started: {0}")]
    Thread(std::io::Error),
    /// A loss or a gradient that is not a number.
    #[error(
        "step {step}: the loss is {loss} and the gradient's norm {gradient_norm}; batch {digest} was made of {provenance}"
    )]
    NonFinite {
        /// The step, counted from 0.
        step: u64,
        /// The loss.
        loss: f64,
        /// The norm of all gradients.
        gradient_norm: f64,
        /// The batch's digest.
        digest: String,
        /// Which examples were in it.
        provenance: String,
    },
    /// More memory than there is.
    #[error("the run needs {needed} of memory ({what}), but {place} has {available}")]
    Memory {
        /// Bytes it needs, in words.
        needed: String,
        /// For what.
        what: String,
        /// On what.
        place: String,
        /// Bytes there are, in words.
        available: String,
    },
}

//! Training: steps over batches, with what they log, evaluate and keep.

mod error;
mod fit;
#[cfg(test)]
mod laws;
mod loss;
mod memory;
#[cfg(test)]
mod mesh_tests;
mod metrics;
mod network;
mod objective;
mod plan;
mod report;
mod restore;
mod schedule;
mod source;
mod team;
#[cfg(test)]
mod tests;
mod trainer;
mod window;

pub use error::TrainError;
pub use fit::{Ended, Evaluation, Fit, NonFinite, Observer, Progress, Reason, Schedules, Unobserved};
pub use loss::{LossError, LossNormalizing, Targets};
pub use metrics::{BaseMetrics, FeatureCounts, Losses, count_packed_examples};
pub(crate) use network::targets_of;
pub use network::{LossVars, Network};
pub use objective::Objective;
pub use plan::{Phase, RankPlan, TrainerPlan};
pub use report::StepReport;
pub use restore::{Beginning, RestoreFrom, What};
pub use schedule::{Schedule, ScheduleConfig, ScheduleError};
pub use source::{BatchSource, DatasetSource, SourceError};
pub use trainer::{Trainer, TrainerConfig};

//! Training: steps over batches, with what they log, evaluate and keep.

mod loss;
mod metrics;
mod schedule;

pub use loss::{LossError, LossNormalizing, Targets};
pub use metrics::{BaseMetrics, FeatureCounts, Losses, count_packed_examples};
pub use schedule::{Schedule, ScheduleConfig, ScheduleError};

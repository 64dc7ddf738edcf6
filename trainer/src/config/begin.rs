//! From a configuration to what the trainer takes.

use std::num::NonZeroUsize;

use crate::config::{DeviceConfig, RankTarget, RunConfig};
use crate::gpu::AdapterError;
use crate::mesh::Mesh;
use crate::model::InputShape;
use crate::partition::Partitioning;
use crate::train::{Schedule, ScheduleError, Schedules, TrainerConfig};

impl RunConfig {
    /// What decides all numbers, but for the data.
    pub fn trainer(&self) -> Result<TrainerConfig, ScheduleError> {
        Ok(TrainerConfig {
            model: self.model.clone(),
            objective: self.objective(),
            optimizer: self.optimizer.clone(),
            schedule: Schedule::new(self.schedule.clone())?,
            seed: self.train.seed,
            microbatches: usize::try_from(self.train.microbatches).unwrap_or(usize::MAX),
        })
    }

    /// When things happen.
    pub fn schedules(&self) -> Schedules {
        Schedules {
            steps: self.train.steps,
            log_every: self.train.log_every,
            checkpoint_every: self.checkpoint.every,
            evaluate_every: self.eval.as_ref().map_or(0, |eval| eval.every),
            evaluate_batches: self.eval.as_ref().map_or(0, |eval| eval.batches),
            on_non_finite: self.train.on_non_finite,
        }
    }

    /// The shape of a batch.
    pub fn input_shape(&self) -> Result<InputShape, seqio::ConvertError> {
        let converter = self.data.converter(self.model.architecture);
        let features = converter.model_features(&self.data.lengths, self.data.is_packed())?;
        let length =
            |name: &str| features.iter().find(|feature| feature.name == name).map(|feature| feature.length);
        Ok(InputShape {
            rows: usize::try_from(self.data.batch_size).unwrap_or(usize::MAX),
            encoder_length: length("encoder_input_tokens").unwrap_or(0),
            decoder_length: length("decoder_target_tokens").unwrap_or(0),
        })
    }
}

impl RunConfig {
    /// Ranks and how tensors are spread over them, or what is wrong with `[mesh]`.
    pub fn ranks(&self) -> Result<(Mesh, Partitioning), String> {
        match &self.mesh {
            Some(mesh) => Ok((mesh.mesh()?, mesh.partitioning())),
            None => Ok((Mesh::default(), Partitioning::default())),
        }
    }

    /// Opens what each of so many ranks runs on.
    pub fn open_ranks(&self, ranks: usize) -> Result<Vec<RankTarget>, AdapterError> {
        self.mesh.clone().unwrap_or_default().open(&self.device, ranks)
    }
}

impl DeviceConfig {
    /// Threads of the host.
    pub fn threads(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        self.threads.unwrap_or_else(cores)
    }
}

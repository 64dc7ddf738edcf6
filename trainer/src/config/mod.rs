//! The run file: everything that decides what a run is, and how it goes.
//!
//! ```text
//! [model]
//! preset = "t5_1_1/small"          ->  RunConfig { model: ModelConfig { emb_dim: 512, … },
//! [data]                                           data: DataConfig { task: "pairs", … }, … }
//! task = "pairs"
//! …                                or  run.toml:5:1: `[data]`: unknown key `tsk` … did you mean `task`?
//! ```
//!
//! [`example`] is a whole run file, with a word about each key.

mod begin;
mod check;
mod compare;
mod data;
mod device;
mod example;
mod folder;
mod mesh;
mod optimizer;
mod read;
mod run;
mod train;

use seqio::Fingerprint;
use serde::Serialize;

pub use self::compare::Difference;
pub use self::data::{DataConfig, Epochs, OrderName};
pub use self::device::{AdapterName, DeviceConfig};
pub use self::example::example;
pub use self::folder::{EnteredFolder, FolderError};
pub use self::mesh::{MeshConfig, RankTarget};
pub use self::read::RunFile;
pub use self::run::{
    CheckpointConfig, EvalConfig, EvalTask, KeepNewest, RestoreConfig, RestoreRule, RunFolder,
};
pub use self::train::TrainConfig;
use crate::model::ModelConfig;
use crate::optimizer::OptimizerConfig;
use crate::train::{Objective, ScheduleConfig};

/// A run, with everything that the run file leaves out filled in. Paths start where the program does.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunConfig {
    /// The network.
    pub model: ModelConfig,
    /// What it learns from.
    pub data: DataConfig,
    /// How long, and from which loss.
    pub train: TrainConfig,
    /// How gradients change parameters.
    pub optimizer: OptimizerConfig,
    /// The learning rate of each step.
    pub schedule: ScheduleConfig,
    /// When checkpoints are written, and which stay.
    pub checkpoint: CheckpointConfig,
    /// What parameters begin with, if not with chance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restore: Option<RestoreConfig>,
    /// What is evaluated on the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eval: Option<EvalConfig>,
    /// What it computes on.
    pub device: DeviceConfig,
    /// Over which ranks it is spread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mesh: Option<MeshConfig>,
    /// Where it goes.
    pub run: RunFolder,
}

impl RunConfig {
    /// A run file that says the same whatever presets and defaults are then, and from whatever folder it is read.
    pub fn to_toml(&self) -> String {
        let mut config = self.clone();
        config.each_path(|path| {
            // Without a current folder a path can only stay as it is.
            if let Ok(absolute) = std::path::absolute(&*path) {
                *path = absolute;
            }
        });
        toml::to_string(&config)
            .expect("a run file holds tables with text keys, and no null outside of options")
    }

    /// The hash of all that forbids to go on with a run when it changes.
    pub fn fingerprint(&self) -> Fingerprint {
        let definition = self.settings().into_iter().filter(|(key, _)| compare::forbids(key));
        Fingerprint::of_json("run", &serde_json::Value::from_iter(definition))
    }

    /// What is minimised.
    pub fn objective(&self) -> Objective {
        let TrainConfig { z_loss, label_smoothing, loss_normalizing_factor: normalizing, .. } = self.train;
        Objective { z_loss, label_smoothing, normalizing }
    }

    fn each_path(&mut self, change: impl FnMut(&mut std::path::PathBuf)) {
        let Self { data, restore, run, .. } = self;
        let restored = restore.as_mut().map(|restore| &mut restore.from);
        let paths = data.files.iter_mut().chain(&mut data.cache_dir).chain(&mut data.cache);
        paths.chain(restored).chain([&mut run.dir]).for_each(change);
    }
}

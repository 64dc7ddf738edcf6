//! What cannot be meant in a run file, before anything is opened: all of it at once.

use std::collections::BTreeSet;

use seqio::{
    Conversion, ConvertError, Converter, Dataset, DatasetError, DefinitionError, Split, Task, nearest, quoted,
};

use crate::config::data::converters;
use crate::config::{OrderName, RunFile};
use crate::mesh::{Mesh, MeshAxis};
use crate::model::{Architecture, ModelError};
use crate::optimizer::OptimizerError;
use crate::partition::Placement;
use crate::train::{BaseMetrics, Schedule, ScheduleError, TrainError, What};

/// Mistakes as they are found, each at its key.
struct Mistakes<'a> {
    file: &'a RunFile,
    found: Vec<DefinitionError>,
}

impl Mistakes<'_> {
    fn add(&mut self, path: &[&str], problem: impl Into<String>) {
        self.push(path, DefinitionError::new(problem));
    }

    fn hinted(&mut self, path: &[&str], problem: impl Into<String>, hint: impl Into<String>) {
        self.push(path, DefinitionError::new(problem).hint(hint));
    }

    fn push(&mut self, path: &[&str], error: DefinitionError) {
        let table = path.first().map_or(String::new(), |table| format!("`[{table}]`"));
        self.found.push(error.at(self.file.place(path)).within(table));
    }

    /// For what counts steps, rows, batches.
    fn at_least_one(&mut self, path: &[&str], number: u64) {
        if number == 0 {
            let key = path.last().copied().unwrap_or_default();
            self.add(path, format!("`{key}` is 0; it must be at least 1"));
        }
    }

    fn share(&mut self, path: &[&str], number: f32) {
        if !(0.0..1.0).contains(&number) {
            let key = path.last().copied().unwrap_or_default();
            self.add(path, format!("`{key}` is {number}; it is a share, from 0 up to but without 1"));
        }
    }

    fn split(&mut self, path: &[&str], split: &str) {
        if let Err(error) = split.parse::<Split>() {
            self.add(path, error.to_string());
        }
    }
}

fn network_in_words(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::EncoderDecoder => "an encoder-decoder",
        Architecture::DecoderOnly => "a decoder-only network",
    }
}

impl RunFile {
    /// Everything that cannot be meant, whatever the data are.
    pub(super) fn check(&self) -> Vec<DefinitionError> {
        let mut mistakes = Mistakes { file: self, found: Vec::new() };
        self.check_model(&mut mistakes);
        self.check_data(&mut mistakes);
        self.check_train(&mut mistakes);
        self.check_mesh(&mut mistakes);
        self.check_rest(&mut mistakes);
        mistakes.found
    }

    fn check_model(&self, mistakes: &mut Mistakes<'_>) {
        let model = &self.config.model;
        let converter = self.config.data.converter(model.architecture);
        let known = converters(model.architecture);
        if !known.contains(&converter.kind.name()) {
            let (network, kind) = (network_in_words(model.architecture), converter.kind);
            let why = match kind {
                Converter::Encoder { .. } => "makes batches for an encoder alone, which no network here is",
                Converter::PassThrough => "makes no batches of a model",
                _ => "makes batches for another kind of network",
            };
            mistakes.hinted(
                &["data", "converter"],
                format!("`{}` {why}", kind.name()),
                format!("{network} takes {}", quoted(known)),
            );
        } else if model.inputs_bidirectional_attention
            && model.architecture == Architecture::DecoderOnly
            && !self.tells_inputs_from_targets(&converter)
        {
            mistakes.hinted(
                &["model", "inputs_bidirectional_attention"],
                format!(
                    "rows of `{}` do not tell inputs from targets, so that inputs cannot see each other",
                    converter.kind.name()
                ),
                "write `converter = \"prefix_lm\"` in `[data]`, with a length for `inputs`",
            );
        }
        let Err(error) = self.config.model.check() else { return };
        let key = match &error {
            ModelError::Zero { field } => field,
            ModelError::EncoderLayers { .. } => "num_encoder_layers",
            ModelError::Activations { .. } => "mlp_activations",
            ModelError::DropoutRate { .. } => "dropout_rate",
            ModelError::Buckets { .. } => "relpos_num_buckets",
            ModelError::Bidirectional => "inputs_bidirectional_attention",
            _ => "",
        };
        mistakes.add(&["model", key], error.to_string());
    }

    /// Whether rows have `decoder_causal_attention`.
    fn tells_inputs_from_targets(&self, converter: &Conversion) -> bool {
        let data = &self.config.data;
        match converter.model_features(&data.lengths, data.is_packed()) {
            Ok(features) => features.iter().any(|feature| feature.name == "decoder_causal_attention"),
            // Told elsewhere.
            Err(_) => true,
        }
    }

    fn check_data(&self, mistakes: &mut Mistakes<'_>) {
        let data = &self.config.data;
        mistakes.split(&["data", "split"], &data.split);
        if data.block.is_some() && data.order != OrderName::Blocks {
            mistakes.add(&["data", "block"], "`block` is for `order = \"blocks\"`");
        }
        if data.cache.is_some() && !data.files.is_empty() {
            mistakes.hinted(
                &["data", "files"],
                "`files` and `cache` are both given",
                "a cache holds its task's definition: leave `files` out",
            );
        }
        match data.dataset(self.config.model.architecture, None).validate() {
            Ok(()) => {}
            Err(DatasetError::Setting { setting, problem }) => {
                mistakes.add(&["data", setting], format!("`{setting}`: {problem}"));
            }
            Err(error @ DatasetError::Convert(ConvertError::Setting { .. })) => {
                mistakes.add(&["data", "converter"], error.to_string());
            }
            Err(error) => mistakes.add(&["data", "lengths"], error.to_string()),
        }
    }

    fn check_train(&self, mistakes: &mut Mistakes<'_>) {
        let train = &self.config.train;
        mistakes.at_least_one(&["train", "steps"], train.steps);
        mistakes.at_least_one(&["train", "log_every"], train.log_every);
        mistakes.at_least_one(&["train", "microbatches"], train.microbatches);
        let rows = self.config.data.batch_size;
        if train.microbatches > 0 && !rows.is_multiple_of(train.microbatches) {
            let parts = train.microbatches;
            mistakes.add(
                &["train", "microbatches"],
                format!("a batch of {rows} rows cannot be cut into {parts} equal parts"),
            );
        }
        mistakes.share(&["train", "label_smoothing"], train.label_smoothing);
        if !(train.z_loss >= 0.0 && train.z_loss.is_finite()) {
            mistakes.add(&["train", "z_loss"], format!("`z_loss` is {}; it must be 0 or more", train.z_loss));
        }
    }

    fn check_mesh(&self, mistakes: &mut Mistakes<'_>) {
        let Some(config) = &self.config.mesh else { return };
        if config.adapters.as_ref().is_some_and(Vec::is_empty) {
            let problem = "`adapters` names none; leave it out for those of `[device]`";
            return mistakes.add(&["mesh", "adapters"], problem);
        }
        // Otherwise the machine decides, when the run begins.
        let Some((data, model)) = config.sizes() else { return };
        let mesh = match Mesh::new(data, model) {
            Ok(mesh) => mesh,
            Err(error) => return mistakes.add(&["mesh", if data == 0 { "data" } else { "model" }], error),
        };
        let named = config.adapters.as_ref().map_or(0, Vec::len);
        if named > mesh.ranks() {
            let (ranks, ending) = (mesh.ranks(), if mesh.ranks() == 1 { "" } else { "s" });
            mistakes.hinted(
                &["mesh", "adapters"],
                format!("`adapters` names {named}, but a mesh of {mesh} has {ranks} rank{ending}"),
                "name one for each rank, or fewer, which ranks take in turn",
            );
        }
        let placement = Placement { mesh, rank: 0, partitioning: config.partitioning() };
        if let Err(error) = placement.check(&self.config.model) {
            let key = if error.axis == MeshAxis::Data { "data" } else { "model" };
            match error.lengths[..] {
                // Rows that no id needs can be there.
                [("vocab_size", rows)] => mistakes.hinted(
                    &["mesh", key],
                    error.to_string(),
                    format!("`vocab_size = {}` in `[model]` would fit", rows.next_multiple_of(error.ranks)),
                ),
                _ => mistakes.add(&["mesh", key], error.to_string()),
            }
        }
        let (rows, parts) = (self.config.data.batch_size, self.config.train.microbatches.max(1));
        let of_part = rows / parts;
        if rows.is_multiple_of(parts) && !of_part.is_multiple_of(data as u64) {
            let error = TrainError::DataRanks { rows: of_part as usize, ranks: data };
            let fits = of_part.next_multiple_of(data as u64) * parts;
            mistakes.hinted(
                &["mesh", "data"],
                error.to_string(),
                format!("`batch_size = {fits}` in `[data]` would fit"),
            );
        }
    }

    fn check_rest(&self, mistakes: &mut Mistakes<'_>) {
        let config = &self.config;
        mistakes.at_least_one(&["checkpoint", "every"], config.checkpoint.every);
        if let Some(best) = &config.checkpoint.best {
            let names = config.eval.iter().flat_map(|eval| eval.tasks.iter().map(|task| task.name()));
            let names: Vec<&str> = names.collect();
            let of = best.metric.split_once('/').map(|(name, _)| name);
            let path = ["checkpoint", "best", "metric"];
            match of {
                Some(name) if names.contains(&name) => self.check_metric(&best.metric, mistakes),
                _ if names.is_empty() => mistakes.hinted(
                    &path,
                    "the best checkpoint is chosen by an evaluation, and there is none",
                    "add `[eval]` with its `tasks`",
                ),
                _ => mistakes.hinted(
                    &path,
                    format!("`{}` is no metric of an evaluation", best.metric),
                    format!("write one as `{}/loss`; the evaluations are {}", names[0], quoted(&names)),
                ),
            }
        }
        if let Some(restore) = &config.restore
            && restore.what == What::All
            && !restore.rules.is_empty()
        {
            mistakes.hinted(
                &["restore", "rules"],
                "with other names a run cannot go on where another stopped",
                "write `what = \"parameters\"` for a new run that begins with them",
            );
        }
        if let Some(Err(error)) = config.restore.as_ref().map(|restore| restore.assignment()) {
            mistakes.add(&["restore", "rules"], error.to_string());
        }
        if let Err(error) = config.optimizer.check() {
            let key = if let OptimizerError::Setting { field, .. } = &error { field } else { "name" };
            mistakes.add(&["optimizer", key], error.to_string());
        }
        if let Err(error) = Schedule::new(config.schedule.clone()) {
            let key = match &error {
                ScheduleError::UnknownFactor { .. } => "factors",
                ScheduleError::Number { field, .. } => field,
            };
            mistakes.add(&["schedule", key], error.to_string());
        }
        if let Some(eval) = &config.eval {
            mistakes.at_least_one(&["eval", "every"], eval.every);
            mistakes.at_least_one(&["eval", "batches"], eval.batches);
            if eval.tasks.is_empty() {
                mistakes.add(&["eval", "tasks"], "there is nothing in `tasks` to evaluate on");
            }
            let mut names = BTreeSet::new();
            for task in &eval.tasks {
                mistakes.split(&["eval", "tasks"], &task.split);
                if !names.insert(task.name()) {
                    mistakes.hinted(
                        &["eval", "tasks"],
                        format!("two evaluations are called `{}`", task.name()),
                        "give one of them another `name`",
                    );
                }
            }
        }
        if config.device.threads == Some(0) {
            mistakes.at_least_one(&["device", "threads"], 0);
        }
    }

    /// Whether an evaluation that there is has a metric of this name.
    fn check_metric(&self, metric: &str, mistakes: &mut Mistakes<'_>) {
        let of_features = ["effective_batch_size/", "non_padding_fraction/"];
        let known = BaseMetrics::default().values(1);
        let name = metric.split_once('/').map_or(metric, |(_, name)| name);
        if known.contains_key(name) || of_features.iter().any(|prefix| name.starts_with(prefix)) {
            return;
        }
        let hint = match nearest(name, known.keys().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are {}", quoted(known.keys())),
        };
        mistakes.hinted(&["checkpoint", "best", "metric"], format!("there is no metric `{name}`"), hint);
    }

    /// What of this run does not fit a task that it reads; `key` is where the run file names it.
    pub fn check_task(&self, task: &Task, key: &[&str]) -> Vec<DefinitionError> {
        let mut mistakes = Mistakes { file: self, found: Vec::new() };
        let model = &self.config.model;
        let converter = self.config.data.converter(model.architecture);
        let features = converter.task_features(&self.config.data.lengths);
        let copied = &converter.passthrough;
        for name in &features {
            let Some(feature) = task.features().get(name) else {
                let reader = match self.config.data.converter {
                    Some(_) => format!("converter `{}`", converter.kind.name()),
                    None => network_in_words(model.architecture).to_owned(),
                };
                let found = quoted(task.features().keys());
                mistakes.add(
                    key,
                    format!("{reader} reads the feature `{name}`, but task `{}` has {found}", task.name()),
                );
                continue;
            };
            let beside = ["_positions", "_segment_ids", "_prefix"].iter().any(|end| name.ends_with(end));
            if copied.contains(name) || converter.kind.is_prepacked() && beside {
                continue;
            }
            let ids = feature.vocabulary.vocab_size();
            if ids > model.vocab_size {
                let path = ["model", "vocab_size"];
                let problem = format!(
                    "the embedding has {} rows, but the vocabulary of `{name}` of task `{}` has {ids} ids",
                    model.vocab_size,
                    task.name()
                );
                mistakes.hinted(&path, problem, format!("set `vocab_size = {}`", ids.next_multiple_of(128)));
            }
        }
        mistakes.found
    }

    /// Whether the data end before the run does.
    pub fn check_steps(&self, dataset: &Dataset) -> Result<Vec<DefinitionError>, DatasetError> {
        let mut mistakes = Mistakes { file: self, found: Vec::new() };
        let wanted = self.config.train.steps;
        if let (Some(steps), Some(epochs)) = (dataset.num_steps()?, dataset.config().epochs)
            && steps < wanted
        {
            let task = &self.config.data.task;
            let ending = if epochs == 1 { "" } else { "s" };
            mistakes.hinted(
                &["train", "steps"],
                format!("`steps` is {wanted}, but {epochs} epoch{ending} of `{task}` give {steps} batches"),
                "lower it, or raise `epochs` in `[data]`, or leave `epochs` out to go on without end",
            );
        }
        Ok(mistakes.found)
    }
}

//! The data of a run: what it learns from and what it is evaluated on, opened as `seqio stream` opens them.
//!
//! ```text
//! [data] task = "pairs", split = "train"        ->  cached split, Dataset, batches with where they came from
//! [eval] tasks = [{ task = "pairs", … }]        ->  the same, each with its first batches
//! ```

use std::fmt::Write as _;
use std::sync::Arc;

use seqio::{Batch, Dataset, DatasetConfig, DefinitionError, DefinitionErrors, ExampleStore as _, Split};
use seqio_cache::Found;
use seqio_trainer::config::{EvalTask, RunFile};
use seqio_trainer::train::{BatchSource, DatasetSource, SourceError};

use crate::args::BuildSettings;
use crate::command::inspect::cached_place;
use crate::interrupt::Interrupt;
use crate::output::Notes;
use crate::session::{Opened, Session, Wanted, check_split, find};
use crate::shape;

/// Pieces of a batch that are told of; more would hide the message that they belong to.
const MOST_PIECES: usize = 200;

/// A split and its batches.
#[derive(Clone, Debug)]
pub(crate) struct RunSplit {
    /// The task and its cached split.
    pub(crate) opened: Opened,
    /// The batches.
    pub(crate) dataset: Arc<Dataset>,
}

/// Everything that a run reads.
#[derive(Debug)]
pub(crate) struct RunData {
    /// What it learns from.
    pub(crate) train: RunSplit,
    /// What it is evaluated on, each under its name.
    pub(crate) evaluations: Vec<(String, RunSplit)>,
}

/// How data are opened for a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunOpener<'a> {
    /// The run.
    pub(crate) file: &'a RunFile,
    /// Task files and caches.
    pub(crate) session: &'a Session,
    /// Threads and memory, and how caches are built.
    pub(crate) build: &'a BuildSettings,
    /// Whether to stop.
    pub(crate) interrupt: &'a Interrupt,
    /// Where to tell what happens.
    pub(crate) notes: Notes,
}

impl RunOpener<'_> {
    /// Opens everything, building the caches that are not there yet; first of all the tasks are checked against the
    /// network.
    pub(crate) fn open(self) -> anyhow::Result<RunData> {
        self.check_tasks()?;
        let (config, data) = (&self.file.config, &self.file.config.data);
        let threads = self.threads();
        let wanted = data.dataset(config.model.architecture, threads);
        let train = self.split(Some(&data.task), &data.split, wanted)?;
        DefinitionErrors::none_or(self.file.check_steps(&train.dataset)?)?;
        let mut evaluations = Vec::new();
        for task in self.evaluated() {
            let wanted = data.evaluation(&task.split, config.model.architecture, threads);
            evaluations.push((task.name().to_owned(), self.split(Some(&task.task), &task.split, wanted)?));
        }
        Ok(RunData { train, evaluations })
    }

    /// Checks the tasks against the network, without building anything. Says which caches are still to be built.
    pub(crate) fn check(self) -> anyhow::Result<Option<RunData>> {
        let missing = self.check_tasks()?;
        missing.iter().for_each(|words| self.notes.note(words));
        if missing.is_empty() { self.open().map(Some) } else { Ok(None) }
    }

    fn threads(&self) -> Option<usize> {
        self.build.threads.map(|threads| threads as usize).or(self.file.config.device.threads)
    }

    fn evaluated(&self) -> impl Iterator<Item = &EvalTask> {
        self.file.config.eval.iter().flat_map(|eval| &eval.tasks)
    }

    /// Every mistake of every task at once; and in words which splits have no cache.
    fn check_tasks(&self) -> anyhow::Result<Vec<String>> {
        let data = &self.file.config.data;
        let mut mistakes: Vec<DefinitionError> = Vec::new();
        let mut missing = Vec::new();
        let evaluated = self.evaluated().map(|task| (&["eval", "tasks"][..], &task.task, &task.split));
        let mut wanted = vec![(&["data", "task"][..], &data.task, &data.split)];
        if data.cache.is_some() {
            // That task is in the cache, and nowhere else.
            let opened = self.session.open(
                self.wanted(Some(&data.task), &data.split),
                self.build,
                self.interrupt,
                self.notes,
            )?;
            mistakes.extend(self.file.check_task(&opened.task, &["data", "task"]));
            wanted.clear();
        }
        wanted.extend(evaluated.filter(|(_, task, _)| data.cache.is_none() || **task != data.task));
        if !wanted.is_empty() {
            let registry = self.session.registry()?;
            for (key, name, split) in wanted {
                let split: Split = split.parse()?;
                let task = match registry.task(name) {
                    Ok(task) => task,
                    // A cache can do without its sources.
                    Err(errors) if errors.only_sources() => {
                        match self.session.open_without_source(&registry, name, &split, self.notes)? {
                            Some(opened) => opened.task,
                            None => return Err(errors.into()),
                        }
                    }
                    Err(errors) => {
                        mistakes.extend(errors.into_vec());
                        continue;
                    }
                };
                mistakes.extend(self.file.check_task(&task, key));
                if task.has_source() {
                    check_split(&task, &split)?;
                    if !matches!(find(&self.session.cache_dir(), &task, &split)?, Found::Fresh { .. }) {
                        missing.push(format!(
                            "`{name}`, split `{split}`, has no up-to-date cache; `seqio train` builds it"
                        ));
                    }
                }
            }
        }
        DefinitionErrors::none_or(mistakes)?;
        missing.dedup();
        Ok(missing)
    }

    /// Of the task of a run with a cache of its own that cache.
    fn wanted<'a>(&'a self, task: Option<&'a str>, split: &'a str) -> Wanted<'a> {
        let data = &self.file.config.data;
        let cache = data.cache.as_deref().filter(|_| task == Some(&data.task));
        Wanted { task, cache, split }
    }

    fn split(&self, task: Option<&str>, split: &str, config: DatasetConfig) -> anyhow::Result<RunSplit> {
        let opened = self.session.open(self.wanted(task, split), self.build, self.interrupt, self.notes)?;
        let config = DatasetConfig { split: opened.split.name().to_owned(), ..config };
        let dataset = Arc::new(shape::dataset(&opened, config)?);
        Ok(RunSplit { opened, dataset })
    }
}

impl RunSplit {
    /// The batches, as a trainer takes them.
    pub(crate) fn source(&self) -> Result<TracedSource, SourceError> {
        Ok(TracedSource { batches: DatasetSource::new(Arc::clone(&self.dataset))?, split: self.clone() })
    }

    /// The files and lines that the batch of a step was made of, a line a piece.
    pub(crate) fn provenance(&self, step: u64) -> anyhow::Result<String> {
        let trace = self.dataset.trace(step)?;
        let mut words = String::new();
        let mut pieces = 0;
        let all: usize = trace.rows.iter().map(|row| row.pieces.len()).sum();
        for (index, row) in trace.rows.iter().enumerate() {
            for piece in row.pieces.iter().take(MOST_PIECES.saturating_sub(pieces)) {
                pieces += 1;
                let example = self.opened.split.example_row(piece.example)?;
                let place = cached_place(&self.opened.split, &example);
                let parts = piece.parts.iter().map(|part| {
                    format!("{} {}..{}", part.feature, part.from, u64::from(part.from) + u64::from(part.len))
                });
                let parts = parts.collect::<Vec<_>>().join(", ");
                let segment = piece.segment;
                let _ = writeln!(
                    words,
                    "row {index}, segment {segment}: {place}, epoch {}: {parts}",
                    piece.epoch
                );
            }
        }
        if pieces < all {
            let _ = writeln!(words, "and {} more", crate::format::counted((all - pieces) as u64, "piece"));
        }
        Ok(words)
    }
}

/// Batches that can be traced to files and lines.
#[derive(Debug)]
pub(crate) struct TracedSource {
    batches: DatasetSource,
    split: RunSplit,
}

impl BatchSource for TracedSource {
    fn next(&mut self) -> Result<Option<Batch>, SourceError> {
        self.batches.next()
    }

    fn recycle(&mut self, batch: Batch) {
        self.batches.recycle(batch);
    }

    fn go_to(&mut self, step: u64) -> Result<(), SourceError> {
        self.batches.go_to(step)
    }

    fn state(&self) -> serde_json::Value {
        self.batches.state()
    }

    fn restore(&mut self, state: &serde_json::Value) -> Result<(), SourceError> {
        self.batches.restore(state)
    }

    fn digest(&self, batch: &Batch) -> String {
        self.batches.digest(batch)
    }

    fn provenance(&self, step: u64) -> Result<String, SourceError> {
        Ok(self.split.provenance(step)?)
    }

    fn infeed_wait_ms(&self) -> f64 {
        self.batches.infeed_wait_ms()
    }
}

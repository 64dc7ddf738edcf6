//! `seqio train`: a run file becomes a run, or goes on with one.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use seqio_trainer::checkpoint;
use seqio_trainer::config::{FolderError, RestoreConfig, RunConfig, RunFile, example};
use seqio_trainer::engine::Target;
use seqio_trainer::log::MetricsWriter;
use seqio_trainer::mesh::Span;
use seqio_trainer::model::ModelError;
use seqio_trainer::train::{
    Beginning, Ended, Evaluation, Fit, Observer, Progress, Reason, TrainError, Trainer, TrainerPlan,
};

use crate::args::TrainArgs;
use crate::format::{count, counted, percent};
use crate::interrupt::Interrupt;
use crate::mesh_report;
use crate::output::{Align, Notes, Out, Table};
use crate::report::{Interrupted, WithHint as _, hinted};
use crate::run_data::{RunData, RunOpener};
use crate::session::Session;
use crate::timeline::{self, Timeline};
use crate::train_progress::{StepDone, TrainProgress};

/// Names of parameters that are told of; more would hide the message that they belong to.
const MOST_NAMES: usize = 5;

/// Runs the command.
pub(crate) fn run(session: &Session, args: &TrainArgs, out: &mut Out) -> anyhow::Result<()> {
    let Some(path) = args.run_file.as_deref().filter(|_| !args.example) else {
        return Ok(out.write_all(example().as_bytes())?);
    };
    let mut file = RunFile::read(path, &args.settings)?;
    if let Some(threads) = args.build.threads {
        file.config.device.threads = Some(threads as usize);
    }
    let config = &file.config;
    let (interrupt, notes) = (Interrupt::listen()?, out.notes());
    let session = session.of_run(&config.data.files, config.data.cache_dir.as_deref());
    let opener =
        RunOpener { file: &file, session: &session, build: &args.build, interrupt: &interrupt, notes };

    // What can be refused without the data is refused before caches are built.
    let (mesh, partitioning) = config.ranks().map_err(anyhow::Error::msg)?;
    let plan =
        TrainerPlan::on_mesh(config.trainer()?, config.input_shape()?, mesh, partitioning).map_err(told)?;
    let ranks = config.open_ranks(mesh.ranks()).map_err(|error| {
        let hint = error.hint();
        hinted(error, Some(hint))
    })?;
    let (targets, places): (Vec<Target>, Vec<String>) =
        ranks.into_iter().map(|rank| (rank.target, rank.place)).unzip();
    let fits = plan.check_memory(&targets).map_err(told);
    let timeline = args.timeline.as_deref().map(|path| Timeline::new(path, mesh, &places)).transpose()?;
    config.differences_in_folder().map_err(not_its_folder)?;
    if args.dry_run {
        interrupt.release();
        let data = opener.check()?;
        describe(config, &plan, &places, data.as_ref(), out)?;
        // What it would hold is seen first.
        return fits;
    }
    fits?;
    let data = opener.open()?;
    let (_entered, differences) = config.enter_folder().map_err(not_its_folder)?;
    for difference in differences {
        notes.note(format!("changed since the run began: {difference}"));
    }
    notes.note(format!(
        "training on {}, in `{}`",
        mesh_report::places(mesh, &places),
        config.run.dir.display()
    ));
    let ended = train(config, args, plan, Ranks { targets, timeline }, &data, &interrupt, out)?;
    finish(config, &ended, path, out)
}

/// What ranks run on, and where it goes what they do when.
struct Ranks {
    targets: Vec<Target>,
    timeline: Option<Timeline>,
}

/// Trains until the last step, or until asked to stop.
fn train(
    config: &RunConfig,
    args: &TrainArgs,
    plan: TrainerPlan,
    ranks: Ranks,
    data: &RunData,
    interrupt: &Interrupt,
    out: &mut Out,
) -> anyhow::Result<Ended> {
    let (notes, folder) = (out.notes(), config.run.dir.as_path());
    let Ranks { targets, timeline } = ranks;
    let mut trainer = Trainer::on(plan, targets).map_err(told)?;
    let mut source = data.train.source().map_err(TrainError::Data)?;
    let from = config.restore.as_ref().map(RestoreConfig::restore_from).transpose()?;
    let beginning = trainer.begin(folder, from.as_ref(), &mut source).map_err(told)?;
    tell_beginning(&beginning, config, notes);
    let restored = match &beginning {
        Beginning::Resumed { step, .. } => Some(*step),
        Beginning::Initialized | Beginning::Restored { .. } => None,
    };
    let mut log = MetricsWriter::open(folder, restored).map_err(|error| told(error.into()))?;
    let mut evaluations = Vec::new();
    for (name, split) in &data.evaluations {
        let source = Box::new(split.source().map_err(TrainError::Data)?);
        evaluations.push(Evaluation { name: name.clone(), source });
    }
    let progress = TrainProgress::new(args.build.progress, &config.data.task, config.train.steps, notes);
    let record = timeline.is_some().then_some(timeline::STEP);
    let mut console = Console { progress, out, interrupt, notes, timeline, failed: None };
    let ended = Fit {
        trainer: &mut trainer,
        source: &mut source,
        evaluations: &mut evaluations,
        schedules: config.schedules(),
        folder,
        keep: config.checkpoint.rules(),
        configuration: config.to_toml(),
        log: &mut log,
        observer: &mut console,
        record,
    }
    .run();
    console.progress.end();
    if let Some(error) = console.failed {
        return Err(error);
    }
    if let (Ok(_), Some(timeline)) = (&ended, &console.timeline) {
        notes.note(timeline.told());
    }
    ended.map_err(told)
}

/// Shows how a run goes.
struct Console<'a> {
    progress: TrainProgress,
    out: &'a mut Out,
    interrupt: &'a Interrupt,
    notes: Notes,
    timeline: Option<Timeline>,
    /// Why nothing more can be shown.
    failed: Option<anyhow::Error>,
}

impl Observer for Console<'_> {
    fn step(&mut self, progress: &Progress<'_>) {
        let report = progress.report;
        self.progress.update(StepDone {
            step: progress.step,
            loss: report.loss_per_token(),
            tokens: report.base.weighted_tokens as u64,
        });
    }

    fn evaluated(&mut self, step: u64, name: &str, metrics: &BTreeMap<String, f64>) {
        let number = |name: &str| metrics.get(name).copied().unwrap_or(f64::NAN);
        let (loss, accuracy) = (number("loss_per_token"), number("accuracy"));
        let right = percent(accuracy, 1.0);
        let Self { progress, out, .. } = self;
        let mut written = Ok(());
        progress.beside(|| {
            written = writeln!(out, "step {}  {name}  loss {loss:.4}  right {right}", count(step))
                .and_then(|()| out.flush());
        });
        if let Err(error) = written {
            self.failed.get_or_insert(error.into());
        }
    }

    fn recorded(&mut self, step: u64, spans: &[Span]) {
        if let Some(Err(error)) = self.timeline.as_mut().map(|timeline| timeline.write(step, spans)) {
            self.failed.get_or_insert(error);
        }
    }

    fn note(&mut self, words: &str) {
        self.progress.beside(|| self.notes.note(words));
    }

    fn asked_to_stop(&self) -> bool {
        self.interrupt.asked() || self.failed.is_some()
    }
}

fn tell_beginning(beginning: &Beginning, config: &RunConfig, notes: Notes) {
    match beginning {
        Beginning::Initialized => {}
        Beginning::Resumed { path, step } => {
            notes.note(format!("goes on at step {}, from `{}`", count(*step), path.display()));
            if *step >= config.train.steps {
                notes.note("that is its last step; a larger `steps` lets it go on");
            }
        }
        Beginning::Restored { path, step, initialized, unused } => {
            notes.note(format!("begins at step {} with what `{}` holds", count(*step), path.display()));
            if !initialized.is_empty() {
                notes.note(format!("these parameters begin with chance: {}", some_of(initialized)));
            }
            if !unused.is_empty() {
                notes.note(format!("these tensors there were not taken: {}", some_of(unused)));
            }
        }
    }
}

fn some_of(names: &[String]) -> String {
    let shown = seqio::quoted(names.iter().take(MOST_NAMES));
    match names.len().saturating_sub(MOST_NAMES) {
        0 => shown,
        more => format!("{shown} and {} more", count(more as u64)),
    }
}

/// Says how the run ended, or how to go on with it.
fn finish(config: &RunConfig, ended: &Ended, file: &Path, out: &mut Out) -> anyhow::Result<()> {
    let step = count(ended.step);
    match ended.reason {
        Reason::Finished => {
            let kept =
                ended.checkpoint.as_ref().map_or(String::new(), |path| format!(", in `{}`", path.display()));
            Ok(writeln!(out, "step {step} of {}{kept}", count(config.train.steps))?)
        }
        Reason::Stopped => {
            let file = file.display();
            Err(Interrupted {
                go_on: format!(
                    "`seqio train {file}` goes on at step {step}; give it the same `--set`, if any"
                ),
            }
            .into())
        }
        Reason::DataEnded => {
            let task = &config.data.task;
            let problem = anyhow::anyhow!("the data of `{task}` ended at step {step}, before `steps`");
            Err(problem).hint(|| "leave `epochs` out of `[data]` to go on without end".to_owned())
        }
    }
}

/// What would be done.
fn describe(
    config: &RunConfig,
    plan: &TrainerPlan,
    places: &[String],
    data: Option<&RunData>,
    out: &mut Out,
) -> anyhow::Result<()> {
    let folder = &config.run.dir;
    let newest = checkpoint::list(folder)?.pop().map(|newest| newest.step);
    let state = match newest {
        Some(step) => format!("goes on at step {} of {}", count(step), count(config.train.steps)),
        None => format!("a new run of {}", counted(config.train.steps, "step")),
    };
    let first = &plan.ranks()[0];
    let tensors = first.network().parameters.len() as u64;
    let parameters = count(config.model.parameter_count()?);
    let lengths =
        config.data.lengths.iter().map(|(feature, length)| format!("{feature} {}", count(*length as u64)));
    let lengths = lengths.collect::<Vec<_>>().join(", ");
    let examples = data
        .map_or(String::new(), |data| format!(", {}", counted(data.train.dataset.num_examples(), "example")));
    let rows = counted(config.data.batch_size, "row");
    let [step, update] = first.operations().map(|operations| count(operations as u64));

    let mut table = Table::new([("", Align::Left), ("", Align::Left)]);
    let mut line = |name: &str, words: String| table.row([name.to_owned(), words]);
    line("run", format!("`{}`: {state}", folder.display()));
    line("model", format!("{parameters} parameters in {}", counted(tensors, "tensor")));
    line("data", format!("task `{}`, split `{}`{examples}", config.data.task, config.data.split));
    line("batches", format!("{rows}, tokens of a row: {lengths}"));
    if let [place] = places {
        line("device", place.clone());
        line("memory", mesh_report::memory(first));
    } else {
        line("mesh", mesh_report::mesh(plan));
    }
    line("operations", format!("{step} a microbatch, {update} an update"));
    let paint = out.paint;
    table.write(out, paint, 0)?;
    if places.len() > 1 {
        mesh_report::write(plan, places, out)?;
    }
    Ok(write!(out, "\n{}", config.to_toml())?)
}

fn not_its_folder(error: FolderError) -> anyhow::Error {
    let hint = error.hint();
    hinted(error, hint)
}

/// With what to do about it.
fn told(error: TrainError) -> anyhow::Error {
    let hint = match &error {
        TrainError::Checkpoint(error) => error.hint(),
        TrainError::Log(error) => error.hint().map(str::to_owned),
        TrainError::NonFinite { .. } => Some(
            "`on_non_finite = \"skip\"` in `[train]` goes on without such batches; a lower learning rate or \
             `global_norm_clip_threshold` may keep them away"
                .to_owned(),
        ),
        TrainError::Memory { .. } => Some(
            "set more `microbatches` in `[train]`, a smaller `batch_size` or shorter `lengths` in `[data]`, or \
             `recompute = true` in `[model]`"
                .to_owned(),
        ),
        TrainError::DataRanks { .. } | TrainError::Model(ModelError::Placement(_)) => {
            Some("set `data` and `model` in `[mesh]`; without them every graphics card is a rank".to_owned())
        }
        _ => None,
    };
    hinted(error, hint)
}

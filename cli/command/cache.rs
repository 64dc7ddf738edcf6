//! `seqio cache build | finish | list | explain | verify | convert | remove`.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use seqio::{Split, Task};
use seqio_cache::{
    BuildReport, Cache, CacheDir, CacheError, CacheInfo, CacheState, DroppedExamples, DuplicateStatistics,
    Found, Share, ShareReport, SplitReport, StorageOrder, VerifyReport, WorkerInfo, WorkerState, verify,
};
use serde::Serialize;

use crate::args::{
    CacheBuildArgs, CacheCommand, CacheConvertArgs, CacheFinishArgs, CacheListArgs, CacheRemoveArgs,
    CacheVerifyArgs, JsonLines,
};
use crate::build::Builder;
use crate::command::cache_explain;
use crate::duplicates::print_dropped;
use crate::format::{amount, bytes, count, counted, duration};
use crate::interrupt::Interrupt;
use crate::output::{Align, Notes, Out, Table};
use crate::report::{DamageFound, Interrupted, WithHint as _};
use crate::session::{INDEX_FOLDER, Session, build_config, check_split, task_within};

/// Runs the command.
pub(crate) fn run(session: &Session, command: &CacheCommand, out: &mut Out) -> anyhow::Result<()> {
    match command {
        CacheCommand::Build(args) if args.dry_run => estimate(session, args, out),
        CacheCommand::Build(args) => build_caches(session, args, out),
        CacheCommand::Finish(args) => finish(session, args, out),
        CacheCommand::List(args) => list(session, args, out),
        CacheCommand::Explain(args) => cache_explain::run(session, args, out),
        CacheCommand::Verify(args) => verify_caches(session, args, out),
        CacheCommand::Convert(args) => convert(session, args, out),
        CacheCommand::Remove(args) => remove(session, args, out),
    }
}

/// What was built of a split.
#[derive(Serialize)]
struct Built<'a> {
    task: &'a str,
    split: &'a str,
    folder: &'a Path,
    was_fresh: bool,
    pieces: u64,
    pieces_reused: u64,
    pieces_from_cache: u64,
    examples_from_cache: u64,
    spill_bytes: u64,
    examples: u64,
    tokens: u64,
    file_bytes: u64,
    bad_rows: u64,
    dropped: &'a [DroppedExamples],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    duplicates: &'a [DuplicateStatistics],
    #[serde(skip_serializing_if = "Option::is_none")]
    duplicates_file: Option<&'a Path>,
    /// The file of the bad records, where they are set aside.
    rejects: Option<&'a Path>,
}

impl<'a> Built<'a> {
    fn new(task: &'a str, report: &'a SplitReport) -> Self {
        Self {
            task,
            split: &report.split,
            folder: &report.folder,
            was_fresh: report.was_fresh,
            pieces: report.ranges.total,
            pieces_reused: report.ranges.reused,
            pieces_from_cache: report.ranges.from_cache,
            examples_from_cache: report.ranges.examples_from_cache,
            spill_bytes: report.ranges.spill_bytes,
            examples: report.statistics.examples,
            tokens: report.statistics.features.values().map(|feature| feature.tokens).sum(),
            file_bytes: report.statistics.file_bytes,
            bad_rows: report.statistics.bad_rows.count,
            dropped: &report.statistics.dropped,
            duplicates: &report.statistics.duplicates,
            duplicates_file: report.duplicates.as_deref(),
            rejects: report.rejects.as_deref(),
        }
    }
}

fn build_caches(session: &Session, args: &CacheBuildArgs, out: &mut Out) -> anyhow::Result<()> {
    let interrupt = Interrupt::listen()?;
    let tasks = tasks_of(session, &args.tasks, &args.splits)?;
    let cache_dir = session.cache_dir();
    let notes = out.notes();
    let builder = Builder {
        cache_dir: &cache_dir,
        settings: &args.build,
        compression: args.compress.map(Into::into),
        reuse: args.reuse.as_ref(),
        interrupt: &interrupt,
        notes,
    };
    for (task, splits) in &tasks {
        let began = Instant::now();
        match args.worker {
            Some(share) => {
                let report = builder.build_share(task, splits, share)?;
                print_share(task.name(), &report, began.elapsed(), args.json, out)?;
                tell_rest(task.name(), &report, &args.splits, notes);
            }
            None => {
                let report = builder.build(task, splits, &[])?;
                print_report(task.name(), &report, "built", began.elapsed(), args.json, out)?;
            }
        }
    }
    Ok(())
}

/// Says how many workers are done, and what comes after them.
fn tell_rest(task: &str, report: &ShareReport, splits: &[String], notes: Notes) {
    let awaits: BTreeSet<Share> = report.splits.iter().flat_map(|split| split.awaits.clone()).collect();
    if !awaits.is_empty() {
        let workers: Vec<String> = awaits.iter().map(|share| format!("`--worker {share}`")).collect();
        let (others, own) = (workers.join(", "), report.share);
        notes.note(format!(
            "a step of `{task}` compares all examples of a split: run {others}, then `--worker {own}` again (run all at \
             the same time, each waits for the others)"
        ));
        return;
    }
    let Some(done) = report.workers_done() else { return };
    let options: String = splits.iter().map(|split| format!(" --split '{split}'")).collect();
    let finish = format!("`seqio cache finish {task}{options}` makes the cache");
    let all = report.share.count();
    notes.note(match done == all {
        true => format!("all workers of `{task}` are done: {finish}"),
        false => format!("{done} of {all} workers of `{task}` done; when all are, {finish}"),
    });
}

fn finish(session: &Session, args: &CacheFinishArgs, out: &mut Out) -> anyhow::Result<()> {
    let interrupt = Interrupt::listen()?;
    let tasks = tasks_of(session, &args.tasks, &args.splits)?;
    let cache_dir = session.cache_dir();
    let notes = out.notes();
    let builder = Builder {
        cache_dir: &cache_dir,
        settings: &args.build,
        compression: args.compress.map(Into::into),
        reuse: None,
        interrupt: &interrupt,
        notes,
    };
    for (task, splits) in &tasks {
        let began = Instant::now();
        let report = builder.finish(task, splits)?;
        print_report(task.name(), &report, "finished", began.elapsed(), args.json, out)?;
    }
    Ok(())
}

/// Tasks with the splits meant of each. All are looked at before the first is built: no mistake shows only after an
/// hour.
fn tasks_of(
    session: &Session,
    names: &[String],
    splits: &[String],
) -> anyhow::Result<Vec<(Arc<Task>, Vec<Split>)>> {
    let registry = session.registry()?;
    let mut tasks = Vec::new();
    for name in names {
        let task = registry.task(name)?;
        let splits = splits_of(&task, splits)?;
        tasks.push((task, splits));
    }
    Ok(tasks)
}

fn splits_of(task: &Task, wanted: &[String]) -> anyhow::Result<Vec<Split>> {
    if wanted.is_empty() {
        return task.source().splits().iter().map(|name| Ok(name.parse()?)).collect();
    }
    let splits: Vec<Split> = wanted.iter().map(|text| Ok(text.parse()?)).collect::<anyhow::Result<_>>()?;
    splits.iter().try_for_each(|split| check_split(task, split))?;
    Ok(splits)
}

fn print_report(
    task: &str,
    report: &BuildReport,
    done: &str,
    took: Duration,
    json: JsonLines,
    out: &mut Out,
) -> anyhow::Result<()> {
    for split in &report.splits {
        let built = Built::new(task, split);
        if json.wanted {
            out.json(&built)?;
            continue;
        }
        let done = match built.was_fresh {
            true => "is up to date".to_owned(),
            false => format!("{done} in {}", duration(took)),
        };
        writeln!(
            out,
            "{} {}: {done}: {}, {} tokens, {} in {}",
            built.task,
            built.split,
            counted(built.examples, "example"),
            count(built.tokens),
            bytes(built.file_bytes),
            built.folder.display()
        )?;
        print_dropped(built.dropped, built.duplicates, built.duplicates_file, out)?;
        if let Some(rejects) = built.rejects.filter(|_| built.bad_rows > 0) {
            writeln!(out, "  {} set aside in {}", counted(built.bad_rows, "bad record"), rejects.display())?;
        }
    }
    Ok(out.flush()?)
}

/// What a worker did for a split.
#[derive(Serialize)]
struct BuiltShare<'a> {
    task: &'a str,
    split: &'a str,
    worker: String,
    /// The cache that holds the split already.
    cached_in: Option<&'a Path>,
    /// The workers without whose keys nobody knows which examples stay.
    awaits: Vec<String>,
    pieces: u64,
    pieces_of_split: u64,
    pieces_reused: u64,
    source_bytes: u64,
    source_bytes_of_split: u64,
    spill_bytes: u64,
    examples: u64,
    tokens: u64,
    bad_rows: u64,
    workers_done: u32,
}

fn print_share(
    task: &str,
    report: &ShareReport,
    took: Duration,
    json: JsonLines,
    out: &mut Out,
) -> anyhow::Result<()> {
    let share = report.share;
    for split in &report.splits {
        let built = BuiltShare {
            task,
            split: &split.split,
            worker: share.to_string(),
            cached_in: split.cached_in.as_deref(),
            awaits: split.awaits.iter().map(|share| share.to_string()).collect(),
            pieces: split.pieces,
            pieces_of_split: split.pieces_of_split,
            pieces_reused: split.ranges.reused,
            source_bytes: split.source_bytes,
            source_bytes_of_split: split.source_bytes_of_split,
            spill_bytes: split.ranges.spill_bytes,
            examples: split.examples,
            tokens: split.tokens,
            bad_rows: split.bad_rows,
            workers_done: split.workers_done,
        };
        if json.wanted {
            out.json(&built)?;
        } else if let Some(folder) = built.cached_in {
            writeln!(out, "{task} {}: is up to date: in {}", built.split, folder.display())?;
        } else {
            let (own, all) = (bytes(built.source_bytes), bytes(built.source_bytes_of_split));
            let (pieces, of) = (count(built.pieces), counted(built.pieces_of_split, "piece"));
            let done = if built.awaits.is_empty() { "encoded" } else { "compared" };
            let took = duration(took);
            write!(
                out,
                "{task} {}, worker {share}: {done} in {took}: {pieces} of {of}, {own} of {all}",
                built.split
            )?;
            match built.awaits.is_empty() {
                true => {
                    let (examples, tokens) = (counted(built.examples, "example"), count(built.tokens));
                    writeln!(out, "; {examples}, {tokens} tokens")?;
                }
                false => writeln!(out)?,
            }
        }
    }
    Ok(out.flush()?)
}

fn estimate(session: &Session, args: &CacheBuildArgs, out: &mut Out) -> anyhow::Result<()> {
    let interrupt = Interrupt::listen()?;
    let registry = session.registry()?;
    let budget = interrupt.budget(args.build.memory);
    let cache_dir = session.cache_dir();
    for name in &args.tasks {
        let task = task_within(&registry, name, &budget)?;
        for split in splits_of(&task, &args.splits)? {
            let estimate = cache_dir.estimate(&task, &split, &build_config(&args.build, &interrupt));
            let estimate = interrupt.told(estimate.map_err(Into::into), "run the same command again")?;
            if args.json.wanted {
                out.json(&estimate)?;
                estimate.check_space(cache_dir.root())?;
                continue;
            }
            let sampled =
                format!("{} of {} records", count(estimate.sampled_records), count(estimate.records));
            writeln!(out, "{name} {split}, from {sampled}:")?;
            let tokens: u64 = estimate.tokens.values().sum();
            let mut table = Table::new([("", Align::Left), ("", Align::Left)]);
            let (times, before) = match estimate.reads {
                1 => (String::new(), ""),
                reads => (format!(", read {reads} times"), ", before duplicates are dropped"),
            };
            let files = counted(estimate.files, "file");
            table.row(["source".into(), format!("{} in {files}{times}", bytes(estimate.source_bytes))]);
            let examples = amount(estimate.examples as f64);
            table.row(["examples".into(), format!("about {examples}{before}")]);
            table.row(["tokens".into(), format!("about {}", amount(tokens as f64))]);
            table.row(["cache".into(), format!("about {}", bytes(estimate.cache_bytes))]);
            table.row([
                "disk while it is built".into(),
                format!("about {}, {} free", bytes(estimate.peak_bytes), bytes(estimate.free_bytes)),
            ]);
            let seconds = |seconds: f64| duration(Duration::try_from_secs_f64(seconds).unwrap_or_default());
            table.row([
                "time".into(),
                format!("about {}, {} of CPU", seconds(estimate.wall_seconds), seconds(estimate.cpu_seconds)),
            ]);
            let paint = out.paint;
            table.write(out, paint, 2)?;
            estimate.check_space(cache_dir.root())?;
        }
    }
    Ok(())
}

/// A cache as `seqio cache list` shows it.
#[derive(Serialize)]
struct Listed {
    task: String,
    state: &'static str,
    /// The splits whose definition and sources are still those; `None` where that cannot be told.
    up_to_date: Option<Vec<String>>,
    splits: Vec<String>,
    compression: Option<&'static str>,
    examples: Option<u64>,
    tokens: Option<u64>,
    bytes: u64,
    folder: PathBuf,
    problem: Option<String>,
    /// Of a cache that several workers build, how far each is.
    workers: Vec<ListedWorker>,
}

/// A worker's share of a split.
#[derive(Serialize)]
struct ListedWorker {
    worker: String,
    split: String,
    state: &'static str,
    host: String,
    process: u32,
    bytes_done: u64,
    bytes: u64,
    examples: u64,
}

impl ListedWorker {
    fn new(info: &WorkerInfo) -> Self {
        Self {
            worker: info.share.to_string(),
            split: info.split.clone(),
            state: match info.state {
                WorkerState::Done => "done",
                WorkerState::Waiting => "waiting",
                WorkerState::AtWork => "at work",
                WorkerState::Stopped => "stopped",
            },
            host: info.host.clone(),
            process: info.pid,
            bytes_done: info.bytes_done,
            bytes: info.bytes_total,
            examples: info.examples,
        }
    }
}

impl Listed {
    fn state_in_words(&self) -> &'static str {
        match self.up_to_date.as_ref().map(Vec::len) {
            None => self.state,
            Some(0) => "out of date",
            Some(fresh) if fresh == self.splits.len() => "up to date",
            Some(_) => "partly out of date",
        }
    }
}

fn list(session: &Session, args: &CacheListArgs, out: &mut Out) -> anyhow::Result<()> {
    let cache_dir = session.cache_dir();
    let caches = caches_of(&cache_dir, &args.tasks)?;
    let mut listed: Vec<Listed> = caches.iter().map(|info| listed(&cache_dir, info)).collect();
    // Without a task file the caches are listed all the same.
    if let Ok(registry) = session.registry() {
        for line in listed.iter_mut().filter(|line| line.state == "complete") {
            line.up_to_date =
                registry.task(&line.task).ok().map(|task| fresh_splits(&cache_dir, &task, &line.folder));
        }
    }
    if args.json.wanted {
        return out.json(&listed);
    }
    if listed.is_empty() {
        return Ok(writeln!(out, "no caches in `{}`", cache_dir.root().display())?);
    }
    let mut table = Table::new([
        ("task", Align::Left),
        ("state", Align::Left),
        ("splits", Align::Left),
        ("examples", Align::Right),
        ("tokens", Align::Right),
        ("size", Align::Right),
        ("folder", Align::Left),
    ]);
    let number = |number: Option<u64>| number.map_or(String::new(), count);
    for line in &listed {
        table.row([
            line.task.clone(),
            line.state_in_words().to_owned(),
            line.splits.join(", "),
            number(line.examples),
            number(line.tokens),
            match line.compression {
                Some("zstd") => format!("{} zstd", bytes(line.bytes)),
                _ => bytes(line.bytes),
            },
            line.folder.display().to_string(),
        ]);
    }
    let paint = out.paint;
    table.write(out, paint, 0)?;
    for line in listed.iter().filter(|line| !line.workers.is_empty()) {
        list_workers(line, out)?;
    }
    for line in listed.iter().filter_map(|line| Some((line, line.problem.as_ref()?))) {
        writeln!(out, "\n{}: {}", line.0.folder.display(), line.1)?;
    }
    Ok(())
}

/// How far the workers of an unfinished cache are.
fn list_workers(line: &Listed, out: &mut Out) -> anyhow::Result<()> {
    writeln!(out, "\nworkers of {}:", line.folder.display())?;
    let mut table = Table::new([
        ("worker", Align::Left),
        ("split", Align::Left),
        ("state", Align::Left),
        ("host", Align::Left),
        ("process", Align::Right),
        ("read", Align::Right),
        ("of", Align::Right),
        ("examples", Align::Right),
    ]);
    for worker in &line.workers {
        table.row([
            worker.worker.clone(),
            worker.split.clone(),
            worker.state.to_owned(),
            worker.host.clone(),
            worker.process.to_string(),
            bytes(worker.bytes_done),
            bytes(worker.bytes),
            count(worker.examples),
        ]);
    }
    let paint = out.paint;
    Ok(table.write(out, paint, 2)?)
}

fn listed(cache_dir: &CacheDir, info: &CacheInfo) -> Listed {
    let line = |state, splits, problem| Listed {
        task: task_of(cache_dir, info),
        state,
        up_to_date: None,
        splits,
        compression: None,
        examples: None,
        tokens: None,
        bytes: info.bytes,
        folder: info.folder.clone(),
        problem,
        workers: Vec::new(),
    };
    match &info.state {
        CacheState::Complete(manifest) => {
            let splits = manifest.splits.values();
            let shuffled = |order| if order == StorageOrder::Shuffled { " (shuffled)" } else { "" };
            let names =
                manifest.splits.iter().map(|(name, split)| format!("{name}{}", shuffled(split.order)));
            Listed {
                compression: Some(manifest.compression.name()),
                examples: Some(splits.clone().map(|split| split.examples()).sum()),
                tokens: Some(
                    splits
                        .flat_map(|split| split.statistics.features.values())
                        .map(|feature| feature.tokens)
                        .sum(),
                ),
                ..line("complete", names.collect(), None)
            }
        }
        CacheState::Unfinished { splits, running, workers } => Listed {
            workers: workers.iter().map(ListedWorker::new).collect(),
            ..line(if *running { "building" } else { "unfinished" }, splits.clone(), None)
        },
        CacheState::Unreadable(problem) => line("unreadable", Vec::new(), Some(problem.clone())),
    }
}

/// The task whose folder a cache is in.
fn task_of(cache_dir: &CacheDir, info: &CacheInfo) -> String {
    if let CacheState::Complete(manifest) = &info.state {
        return manifest.task.clone();
    }
    let parent = info.folder.parent().unwrap_or(Path::new(""));
    let below = parent.strip_prefix(cache_dir.root()).unwrap_or(parent);
    below.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join(":")
}

/// The caches of these tasks, or all; a task without any is an error.
fn caches_of(cache_dir: &CacheDir, tasks: &[String]) -> anyhow::Result<Vec<CacheInfo>> {
    let all = cache_dir.list()?;
    if tasks.is_empty() {
        return Ok(all);
    }
    let names: Vec<String> = all.iter().map(|info| task_of(cache_dir, info)).collect();
    for task in tasks {
        if !names.contains(task) {
            let problem = anyhow::anyhow!("task `{task}` has no cache in `{}`", cache_dir.root().display());
            return match seqio::nearest(task, names.iter().map(String::as_str)) {
                Some(near) => Err(problem).hint(|| format!("did you mean `{near}`?")),
                None => Err(problem).hint(|| format!("`seqio cache build {task}` makes one")),
            };
        }
    }
    Ok(all.into_iter().zip(names).filter(|(_, name)| tasks.contains(name)).map(|(info, _)| info).collect())
}

/// What was checked of a cache.
#[derive(Serialize)]
struct Verified {
    folder: PathBuf,
    shards: u64,
    batches: u64,
    bytes: u64,
    problems: Vec<String>,
}

impl Verified {
    fn new(folder: &Path, report: &VerifyReport) -> Self {
        Self {
            folder: folder.to_owned(),
            shards: report.shards,
            batches: report.batches,
            bytes: report.bytes,
            problems: report.problems.iter().map(ToString::to_string).collect(),
        }
    }
}

fn verify_caches(session: &Session, args: &CacheVerifyArgs, out: &mut Out) -> anyhow::Result<()> {
    let folders: Vec<PathBuf> = match &args.cache {
        Some(folder) => vec![folder.clone()],
        None => caches_of(&session.cache_dir(), &args.tasks)?
            .into_iter()
            .filter(|info| !matches!(info.state, CacheState::Unfinished { .. }))
            .map(|info| info.folder)
            .collect(),
    };
    if folders.is_empty() && !args.json.wanted {
        writeln!(out, "no caches in `{}`", session.cache_dir().root().display())?;
    }
    let mut verified = Vec::new();
    for folder in &folders {
        let report = verify(folder, &|_| {});
        let report = Verified::new(folder, &report);
        if !args.json.wanted {
            let what = format!(
                "{}, {} in {}",
                counted(report.shards, "shard"),
                bytes(report.bytes),
                folder.display()
            );
            match report.problems.len() as u64 {
                0 => writeln!(out, "whole: {what}")?,
                problems => writeln!(out, "DAMAGED ({}): {what}", counted(problems, "problem"))?,
            }
            report.problems.iter().try_for_each(|problem| writeln!(out, "  {problem}"))?;
        }
        verified.push(report);
    }
    if args.json.wanted {
        out.json(&verified)?;
    }
    let damaged = verified.iter().filter(|report| !report.problems.is_empty()).count() as u64;
    if damaged > 0 {
        out.flush()?;
        let problem = DamageFound(format!("{damaged} of {} damaged", counted(folders.len() as u64, "cache")));
        return Err(problem).hint(|| {
            "remove a damaged cache with `seqio cache remove --cache FOLDER`, then build it again".to_owned()
        });
    }
    Ok(())
}

/// A cache in its other form.
#[derive(Serialize)]
struct ConvertedCache<'a> {
    folder: &'a Path,
    compression_before: &'static str,
    compression: &'static str,
    bytes_before: u64,
    bytes: u64,
}

fn convert(session: &Session, args: &CacheConvertArgs, out: &mut Out) -> anyhow::Result<()> {
    let interrupt = Interrupt::listen()?;
    let cache_dir = session.cache_dir();
    let folders: Vec<PathBuf> = match &args.cache {
        Some(folder) => vec![folder.clone()],
        None => caches_of(&cache_dir, &args.tasks)?
            .into_iter()
            .filter(|info| matches!(info.state, CacheState::Complete(_)))
            .map(|info| info.folder)
            .collect(),
    };
    let config = build_config(&args.build, &interrupt);
    for folder in &folders {
        let began = Instant::now();
        let converted = cache_dir.convert(folder, args.compress.into(), &config, &|_, _| {});
        let converted = converted.map_err(|error| match error {
            CacheError::Interrupted { .. } => {
                let go_on = "run the same command again; the cache is as it was".to_owned();
                anyhow::Error::from(Interrupted { go_on }).context(error.to_string())
            }
            error => error.into(),
        })?;
        let shown = ConvertedCache {
            folder,
            compression_before: converted.before.name(),
            compression: converted.now.name(),
            bytes_before: converted.bytes_before,
            bytes: converted.bytes_now,
        };
        if args.json.wanted {
            out.json(&shown)?;
        } else if converted.before == converted.now {
            writeln!(out, "{}: is {} already", folder.display(), converted.now.words())?;
        } else {
            writeln!(
                out,
                "{}: {} now, in {}: {} became {}",
                folder.display(),
                converted.now.words(),
                duration(began.elapsed()),
                bytes(converted.bytes_before),
                bytes(converted.bytes_now)
            )?;
        }
        out.flush()?;
    }
    Ok(())
}

/// What became of a cache that was to be removed.
#[derive(Serialize)]
struct Removed {
    folder: PathBuf,
    removed: bool,
    /// `None` if it was not removed.
    bytes: Option<u64>,
}

fn remove(session: &Session, args: &CacheRemoveArgs, out: &mut Out) -> anyhow::Result<()> {
    let cache_dir = session.cache_dir();
    let folders: Vec<PathBuf> = match &args.cache {
        Some(folder) => vec![folder.clone()],
        None => {
            let fresh =
                if args.stale { fresh_folders(session, &cache_dir, &args.tasks)? } else { Vec::new() };
            let caches = caches_of(&cache_dir, &args.tasks)?;
            caches.into_iter().map(|info| info.folder).filter(|folder| !fresh.contains(folder)).collect()
        }
    };
    if folders.is_empty() && !args.json.wanted {
        writeln!(out, "nothing to remove")?;
    }
    let mut all = Vec::new();
    for folder in &folders {
        if args.dry_run {
            all.push(Removed { folder: folder.clone(), removed: false, bytes: None });
            if !args.json.wanted {
                writeln!(out, "would remove {}", folder.display())?;
            }
            continue;
        }
        let removed = match args.take_over {
            true => cache_dir.remove_taking_over(folder),
            false => cache_dir.remove(folder),
        };
        let freed = removed.with_context(|| format!("cannot remove `{}`", folder.display()))?;
        all.push(Removed { folder: folder.clone(), removed: true, bytes: Some(freed) });
        if !args.json.wanted {
            writeln!(out, "removed {} ({})", folder.display(), bytes(freed))?;
        }
        remove_indexes(folder);
    }
    if args.json.wanted { out.json(&all) } else { Ok(()) }
}

/// With the last cache of a task its indexes go too. What cannot be removed is found empty or stale next time.
fn remove_indexes(folder: &Path) {
    let Some(task_folder) = folder.parent() else { return };
    let others = std::fs::read_dir(task_folder).into_iter().flatten().flatten();
    let only_indexes = others
        .map(|entry| entry.file_name())
        .all(|name| name == INDEX_FOLDER || name.to_string_lossy().starts_with(".lock-"));
    if only_indexes {
        let _ = std::fs::remove_dir_all(task_folder.join(INDEX_FOLDER));
        let _ = std::fs::remove_dir(task_folder);
    }
}

/// The folders of the caches that are up to date, if only in part.
fn fresh_folders(session: &Session, cache_dir: &CacheDir, tasks: &[String]) -> anyhow::Result<Vec<PathBuf>> {
    let registry = session.registry()?;
    let mut fresh = Vec::new();
    for name in tasks {
        let task = registry.task(name)?;
        let caches = caches_of(cache_dir, std::slice::from_ref(name))?;
        fresh.extend(
            caches
                .into_iter()
                .map(|info| info.folder)
                .filter(|folder| !fresh_splits(cache_dir, &task, folder).is_empty()),
        );
    }
    Ok(fresh)
}

/// The splits of a cache that are what the task would read now.
fn fresh_splits(cache_dir: &CacheDir, task: &Task, folder: &Path) -> Vec<String> {
    let Ok(cache) = Cache::open(folder) else { return Vec::new() };
    let found = |split: &String| crate::session::find(cache_dir, task, &split.parse()?);
    let is_fresh = |split: &&String| match found(split) {
        Ok(Found::Fresh { split, .. }) => split.folder() == folder,
        _ => false,
    };
    cache.manifest().splits.keys().filter(is_fresh).cloned().collect()
}

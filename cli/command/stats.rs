//! `seqio stats`: what is in a cache, and how full packed rows will be.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::PathBuf;

use seqio::{Dataset, DatasetConfig, FeatureLengths, Horizon, OrderKind};
use seqio_cache::{FeatureStatistics, SplitStatistics};
use serde::Serialize;

use crate::args::StatsArgs;
use crate::duplicates::print_dropped;
use crate::format::{amount, bytes, count, counted, percent};
use crate::histogram::Histogram;
use crate::interrupt::Interrupt;
use crate::loss::{LossStats, loss_stats, print_loss};
use crate::output::{Align, Out, Style, Table};
use crate::session::{Opened, Session, Wanted, task_of_cache};
use crate::shape;

/// Lengths that packing is forecast at unless some are asked for.
const LENGTHS: [usize; 4] = [512, 1024, 2048, 4096];

#[derive(Serialize)]
struct SplitStats {
    task: String,
    split: String,
    #[serde(flatten)]
    statistics: SplitStatistics,
    /// The file of the bad records, where they are set aside.
    #[serde(skip_serializing_if = "Option::is_none")]
    rejects: Option<PathBuf>,
    forecasts: Vec<Forecast>,
    /// Of features whose tokens count or not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    loss: Vec<LossStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duplicates_file: Option<PathBuf>,
}

/// How packing will go at some lengths.
#[derive(Serialize)]
struct Forecast {
    lengths: FeatureLengths,
    window: u64,
    rows: u64,
    fill: BTreeMap<String, f64>,
    split_examples: u64,
    trimmed_examples: u64,
    dropped_tokens: u64,
    proposed_window: Option<u64>,
}

/// Runs the command.
pub(crate) fn run(session: &Session, args: &StatsArgs, out: &mut Out) -> anyhow::Result<()> {
    let interrupt = Interrupt::listen()?;
    let mut all = Vec::new();
    let splits = splits(session, args)?;
    if let (Some(name), None) = (&args.task, &args.cache)
        && let Ok(task) = session.task(name, &interrupt.budget(args.build.memory))
    {
        // Together, so that they go into one cache.
        let splits = splits.iter().map(|split| Ok(split.parse()?)).collect::<anyhow::Result<Vec<_>>>()?;
        session.ensure(&task, &splits, &args.build, &interrupt, out.notes())?;
    }
    interrupt.release();
    for split in splits {
        let wanted = Wanted { task: args.task.as_deref(), cache: args.cache.as_deref(), split: &split };
        let opened = session.open(wanted, &args.build, &interrupt, out.notes())?;
        let forecasts = forecasts(&opened, args)?;
        let mut lengths: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
        for (feature, length) in forecasts.iter().flat_map(|forecast| &forecast.lengths) {
            lengths.entry(feature.clone()).or_default().insert(*length);
        }
        let stats = SplitStats {
            task: opened.task.name().to_owned(),
            split: opened.split.name().to_owned(),
            statistics: opened.split.split_manifest().statistics.clone(),
            rejects: opened.split.split_manifest().rejects_path(opened.split.folder()),
            forecasts,
            loss: loss_stats(&opened.task, &opened.split, &lengths)?,
            duplicates_file: opened.split.duplicates_file(),
        };
        if args.json.wanted {
            all.push(stats);
        } else {
            print(&stats, out)?;
        }
    }
    if args.json.wanted { out.json(&all) } else { Ok(()) }
}

/// The split asked for, or all that there are.
fn splits(session: &Session, args: &StatsArgs) -> anyhow::Result<Vec<String>> {
    match (&args.split, &args.cache, &args.task) {
        (Some(split), _, _) => Ok(vec![split.clone()]),
        (None, Some(folder), task) => {
            let (_, cache) = task_of_cache(folder, task.as_deref())?;
            Ok(cache.manifest().splits.keys().cloned().collect())
        }
        (None, None, task) => {
            let registry = session.registry()?;
            let name = task.as_deref().unwrap_or_default();
            let spec = registry.specs().find(|(known, _)| *known == name);
            match spec {
                Some((_, spec)) => Ok(spec.source.splits.keys().cloned().collect()),
                // Says which tasks there are.
                None => Ok(registry.task(name)?.source().splits()),
            }
        }
    }
}

fn forecasts(opened: &Opened, args: &StatsArgs) -> anyhow::Result<Vec<Forecast>> {
    let wanted: Vec<FeatureLengths> = if args.lengths.is_empty() {
        let Ok(converter) = shape::converter(None, &opened.task) else { return Ok(Vec::new()) };
        let features = converter.features_of(opened.task.features().keys());
        let same = |length| features.iter().map(|feature| (feature.clone(), length)).collect();
        LENGTHS.into_iter().map(same).collect()
    } else {
        let converter = shape::converter(None, &opened.task)?;
        let lists = args.lengths.iter();
        lists
            .map(|list| shape::lengths(std::slice::from_ref(list), &converter, &opened.task))
            .collect::<anyhow::Result<_>>()?
    };
    let split = opened.split.split_manifest();
    if split.examples() == 0 {
        return Ok(Vec::new());
    }
    // Of lengths that nobody asked for, those are left out for which steps cannot be carried out.
    let can_be =
        |lengths: &FeatureLengths| !args.lengths.is_empty() || opened.task.item_steps(lengths).is_ok();
    let wanted = wanted.into_iter().filter(can_be);
    wanted.filter_map(|lengths| forecast(opened, lengths, args).transpose()).collect()
}

/// `None` if there is nothing to pack.
fn forecast(opened: &Opened, lengths: FeatureLengths, args: &StatsArgs) -> anyhow::Result<Option<Forecast>> {
    let converter = shape::converter(None, &opened.task)?;
    let mut config = DatasetConfig::new(opened.split.name(), converter, []);
    config.lengths = lengths.clone();
    config.window = args.window;
    config.order = OrderKind::default();
    config.epochs = Some(1);
    config.threads = args.build.threads.map(|threads| threads as usize);
    let task = shape::stream_task(&opened.task, opened.data(), &lengths)?;
    let plan = match Dataset::new(task, opened.store(), config)
        .and_then(|dataset| dataset.plan(Horizon::Epochs(1)))
    {
        Ok(plan) => plan,
        Err(seqio::DatasetError::Empty { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    Ok(Some(Forecast {
        lengths,
        window: plan.window,
        rows: plan.rows,
        fill: plan.fill,
        split_examples: plan.counts.split_items,
        trimmed_examples: plan.counts.trimmed_items,
        dropped_tokens: plan.counts.dropped_tokens,
        proposed_window: plan.proposed_window,
    }))
}

fn print(stats: &SplitStats, out: &mut Out) -> anyhow::Result<()> {
    let paint = out.paint;
    let statistics = &stats.statistics;
    let title = paint.text(Style::Strong, format!("{} {}", stats.task, stats.split));
    writeln!(out, "{title}: {}, {}", counted(statistics.examples, "example"), bytes(statistics.file_bytes))?;
    let bad = &statistics.bad_rows;
    if bad.count > 0 {
        let what = match &stats.rejects {
            Some(rejects) => format!("set aside in {}", rejects.display()),
            None => "skipped".to_owned(),
        };
        writeln!(out, "  {} of {} {what}", counted(bad.count, "bad record"), count(statistics.records))?;
        for row in bad.first.iter().take(3) {
            writeln!(out, "    {}:{}: {}", row.file, row.row + 1, row.reason)?;
        }
    }
    for damaged in &bad.damaged_files {
        writeln!(out, "  {} could not be read to its end: {}", damaged.file, damaged.damage)?;
    }
    let listing = stats.duplicates_file.as_deref();
    print_dropped(&statistics.dropped, &statistics.duplicates, listing, out)?;
    for (name, feature) in &statistics.features {
        print_feature(name, feature, statistics.characters(name), out)?;
    }
    print_forecasts(&stats.forecasts, out)?;
    print_loss(&stats.loss, out)?;
    writeln!(out)?;
    Ok(())
}

fn print_feature(
    name: &str,
    feature: &FeatureStatistics,
    characters: Option<u64>,
    out: &mut Out,
) -> anyhow::Result<()> {
    let paint = out.paint;
    writeln!(out, "\n  {}: {}", paint.text(Style::Strong, name), counted(feature.tokens, "token"))?;
    let share = |part: u64| format!("{} ({})", count(part), percent(part as f64, feature.tokens as f64));
    let mut table = Table::new([("", Align::Left), ("", Align::Left)]);
    let percentiles = |names: &[&str]| {
        let known = names.iter().filter_map(|name| Some((name, feature.percentiles.get(*name)?)));
        known
            .map(|(name, length)| format!("{name} {}", count(u64::from(*length))))
            .collect::<Vec<_>>()
            .join(", ")
    };
    table.row([
        "length".into(),
        format!(
            "min {}, mean {:.1}, max {}; {}",
            count(feature.min_tokens.into()),
            feature.mean_tokens,
            count(feature.max_tokens.into()),
            percentiles(&["p50", "p90", "p95", "p99", "p99.9"])
        ),
    ]);
    if let Some(characters) = characters {
        let each = if feature.tokens == 0 { 0.0 } else { characters as f64 / feature.tokens as f64 };
        table.row(["characters".into(), format!("{} ({each:.2} a token)", count(characters))]);
    }
    table.row(["empty".into(), counted(feature.empty, "example")]);
    table.row(["unknown".into(), share(feature.unknown_tokens)]);
    table.row(["special spellings".into(), count(feature.special_spellings)]);
    table.row(["on disk".into(), bytes(feature.bytes)]);
    table.write(out, paint, 4)?;
    let buckets = feature.length_histogram.iter();
    let buckets = buckets.map(|bucket| (bucket.from.into(), bucket.below.saturating_sub(1), bucket.examples));
    Ok(Histogram { buckets: buckets.collect() }.draw(out, 4, 40)?)
}

fn print_forecasts(forecasts: &[Forecast], out: &mut Out) -> anyhow::Result<()> {
    if forecasts.is_empty() {
        return Ok(());
    }
    let paint = out.paint;
    let first = &forecasts[0];
    writeln!(out, "\n  packed (best fit, windows of {} examples):", count(first.window))?;
    let mut table = Table::new([
        ("lengths", Align::Left),
        ("rows an epoch", Align::Right),
        ("fill", Align::Right),
        ("cut in pieces", Align::Right),
        ("trimmed", Align::Right),
        ("tokens dropped", Align::Right),
        ("", Align::Left),
    ]);
    for forecast in forecasts {
        let lengths: Vec<String> =
            forecast.lengths.iter().map(|(name, length)| format!("{name}={length}")).collect();
        let fill: Vec<String> = forecast.fill.values().map(|fill| percent(*fill, 1.0)).collect();
        table.row([
            lengths.join(","),
            count(forecast.rows),
            fill.join(", "),
            count(forecast.split_examples),
            count(forecast.trimmed_examples),
            amount(forecast.dropped_tokens as f64),
            forecast.proposed_window.map_or(String::new(), |window| format!("fuller with --window {window}")),
        ]);
    }
    Ok(table.write(out, paint, 4)?)
}

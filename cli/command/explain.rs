//! `seqio explain`: the path of a task from source to features, before any data is read.

use std::io::Write as _;

use seqio::{Conversion, Dtype, Explanation, FeatureLengths, Step, Task};
use seqio_cache::{DroppedExamples, Found};
use serde::Serialize;

use crate::args::ExplainArgs;
use crate::format::{count, dropped_in_words};
use crate::output::{Align, Out, Table};
use crate::report::usage;
use crate::session::Session;
use crate::value::LengthList;

/// The path, and what is known of it from caches.
#[derive(Serialize)]
struct Explained {
    #[serde(flatten)]
    explanation: Explanation,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cached: Vec<CachedSplit>,
    /// Of a converter that was named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    model_features: Vec<ModelFeature>,
}

/// A model feature of a converter.
#[derive(Serialize)]
struct ModelFeature {
    name: String,
    dtype: &'static str,
    /// Width of a row; 0 for one number a row.
    length: usize,
}

/// A split that is cached, for a task with steps that drop examples.
#[derive(Serialize)]
struct CachedSplit {
    split: String,
    examples: u64,
    dropped: Vec<DroppedExamples>,
}

/// Runs the command.
pub(crate) fn run(session: &Session, args: &ExplainArgs, out: &mut Out) -> anyhow::Result<()> {
    let task = session.registry()?.task(&args.task)?;
    let features: Vec<String> = task.features().keys().cloned().collect();
    let lengths = LengthList::resolve(&args.lengths, &features).map_err(usage)?;
    let explanation = seqio::explain(&task, &lengths);
    let model_features = match &args.converter {
        Some(converter) => model_features(converter, &lengths)?,
        None => Vec::new(),
    };
    let explained = Explained { explanation, cached: cached(session, &task), model_features };
    if args.json.wanted {
        return out.json(&explained);
    }
    write!(out, "{}", explained.explanation)?;
    for cached in &explained.cached {
        let dropped = cached.dropped.iter();
        let dropped = dropped.map(|step| dropped_in_words(step.step, &step.op, step.examples));
        let dropped: Vec<String> = dropped.collect();
        let words = if dropped.is_empty() { "no example was dropped".to_owned() } else { dropped.join(", ") };
        writeln!(out, "\ncached {}: {words}; {} are left", cached.split, count(cached.examples))?;
    }
    if let Some(converter) = &args.converter {
        writeln!(out, "\nmodel features of `{converter}`, B rows a batch")?;
        let mut table = Table::new([("", Align::Left), ("", Align::Left), ("", Align::Left)]);
        for feature in &explained.model_features {
            let shape = match feature.length {
                0 => "[B]".to_owned(),
                length => format!("[B, {length}]"),
            };
            table.row([feature.name.clone(), feature.dtype.to_owned(), shape]);
        }
        let paint = out.paint;
        table.write(out, paint, 2)?;
    }
    Ok(())
}

/// What a batch holds, packed if the converter can be.
fn model_features(converter: &Conversion, lengths: &FeatureLengths) -> anyhow::Result<Vec<ModelFeature>> {
    let packed = converter.check_packing(true).is_ok();
    let features = converter.model_features(lengths, packed).map_err(|error| usage(error.to_string()))?;
    let shown = |feature: seqio::ModelFeature| ModelFeature {
        name: feature.name,
        dtype: match feature.dtype {
            Dtype::I32 => "int32",
            Dtype::F32 => "float32",
        },
        length: feature.length,
    };
    Ok(features.into_iter().map(shown).collect())
}

/// What steps dropped of the splits that are cached, for a task with steps that do.
fn cached(session: &Session, task: &Task) -> Vec<CachedSplit> {
    if !task.spec().steps.iter().any(|step| matches!(step, Step::Filter(_) | Step::Deduplicate(_))) {
        return Vec::new();
    }
    let cache_dir = session.cache_dir();
    let of_split = |name: String| {
        // What cannot be looked for is not shown: the path of the task is what was asked for.
        let Ok(Found::Fresh { split, .. }) = cache_dir.find(task, &name.parse().ok()?) else { return None };
        let statistics = &split.split_manifest().statistics;
        Some(CachedSplit { split: name, examples: statistics.examples, dropped: statistics.dropped.clone() })
    };
    task.source().splits().into_iter().filter_map(of_split).collect()
}

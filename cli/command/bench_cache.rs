//! `seqio bench cache`: how fast a cache is built, beside the bare encoder on the same text and threads.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use arrow::array::{Array, AsArray as _};
use arrow::datatypes::DataType;
use rayon::prelude::*;
use seqio::{SharedVocabulary, Split, SplitReader, Task};
use seqio_cache::CacheDir;
use serde::Serialize;

use crate::args::BenchCacheArgs;
use crate::build::Builder;
use crate::format::{amount, bytes, count};
use crate::interrupt::Interrupt;
use crate::measure::{Cost, Measurement};
use crate::output::{Align, Out, Table};
use crate::session::{Session, build_config, check_split};

/// What was measured.
#[derive(Debug, Serialize)]
struct Report {
    threads: usize,
    memory_budget_bytes: u64,
    examples: u64,
    source_bytes: u64,
    cache_bytes: u64,
    spill_bytes: u64,
    cache: Side,
    bare_encoder: Side,
    /// Tokens a second of the cache over those of the bare encoder.
    ratio: f64,
}

/// One of the two that are compared.
#[derive(Debug, Serialize)]
struct Side {
    tokens: u64,
    /// Bytes of the text that was encoded.
    text_bytes: u64,
    tokens_per_second: f64,
    tokens_per_cpu_second: f64,
    text_bytes_per_second: f64,
    #[serde(flatten)]
    cost: Cost,
}

impl Side {
    fn new(tokens: u64, text_bytes: u64, cost: Cost) -> Self {
        Self {
            tokens,
            text_bytes,
            tokens_per_second: tokens as f64 / cost.wall_seconds.max(1e-9),
            tokens_per_cpu_second: tokens as f64 / cost.cpu_seconds.max(1e-9),
            text_bytes_per_second: text_bytes as f64 / cost.wall_seconds.max(1e-9),
            cost,
        }
    }
}

/// Runs the command.
pub(crate) fn run(session: &Session, args: &BenchCacheArgs, out: &mut Out) -> anyhow::Result<()> {
    let interrupt = Interrupt::listen()?;
    let task = session.task(&args.task, &interrupt.budget(args.build.memory))?;
    let split: Split = args.split.parse()?;
    check_split(&task, &split)?;
    let scratch = Scratch::make(args.scratch.as_deref().unwrap_or(session.cache_dir().root()))?;
    let cache_dir = CacheDir::new(&scratch.folder);
    let threads = build_config(&args.build, &interrupt).threads;

    let measurement = Measurement::start();
    let builder = Builder {
        cache_dir: &cache_dir,
        settings: &args.build,
        compression: None,
        reuse: None,
        interrupt: &interrupt,
        notes: out.notes(),
    };
    let report = builder.build(&task, std::slice::from_ref(&split), &[])?;
    let cost = measurement.stop();
    let Some(built) = report.splits.first() else { anyhow::bail!("nothing was built") };
    let statistics = &built.statistics;
    let tokens: u64 = statistics.features.values().map(|feature| feature.tokens).sum();

    let bare = bare_encoder(&task, &split, args.limit.0, threads);
    let (bare, all_text) = interrupt.told(bare, "run the same command again")?;
    let files = task.source().files(split.name())?;
    // The text of the whole split: measured, or as much as its tokens have it.
    let text_bytes = match all_text {
        true => bare.text_bytes,
        false => (bare.text_bytes as f64 * tokens as f64 / bare.tokens.max(1) as f64) as u64,
    };
    let cache = Side::new(tokens, text_bytes, cost);
    let report = Report {
        threads,
        memory_budget_bytes: args.build.memory.0,
        examples: statistics.examples,
        source_bytes: files.iter().map(|file| file.bytes).sum(),
        cache_bytes: statistics.file_bytes,
        spill_bytes: built.ranges.spill_bytes,
        ratio: cache.tokens_per_second / bare.tokens_per_second.max(1e-9),
        cache,
        bare_encoder: bare,
    };
    if args.json.wanted { out.json(&report) } else { print(&report, out) }
}

/// A text with the vocabulary that encodes it.
type Text = (SharedVocabulary, String);

/// Encodes the split's text, held in memory, and nothing else; also tells whether it was all of it.
fn bare_encoder(task: &Arc<Task>, split: &Split, limit: u64, threads: usize) -> anyhow::Result<(Side, bool)> {
    let (texts, all) = texts(task, split, limit)?;
    let pool =
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().context("cannot start threads")?;
    let measurement = Measurement::start();
    let encode = || {
        texts
            .par_chunks(64)
            .map_init(Vec::new, |ids, texts| {
                texts.iter().try_fold(0u64, |tokens, (vocabulary, text)| {
                    ids.clear();
                    vocabulary.encode_into(text, ids)?;
                    Ok::<u64, seqio::VocabularyError>(tokens + ids.len() as u64)
                })
            })
            .try_reduce(|| 0, |a, b| Ok(a + b))
    };
    let tokens = pool.install(encode)?;
    let cost = measurement.stop();
    let text_bytes = texts.iter().map(|(_, text)| text.len() as u64).sum();
    Ok((Side::new(tokens, text_bytes, cost), all))
}

/// The texts that `tokenize` gets, up to `limit` bytes, and whether these are all.
fn texts(task: &Arc<Task>, split: &Split, limit: u64) -> anyhow::Result<(Vec<Text>, bool)> {
    let mut texts = Vec::new();
    let mut size = 0u64;
    for chunk in SplitReader::new(Arc::clone(task), split)?.raw() {
        if size >= limit {
            return Ok((texts, false));
        }
        let examples = task.before_tokenize(chunk?.examples)?;
        for (name, feature) in task.features() {
            let Some(column) = examples.columns.column_by_name(name) else { continue };
            if *column.data_type() != DataType::Utf8 {
                continue;
            }
            for text in column.as_string::<i32>().iter().flatten() {
                size += text.len() as u64;
                texts.push((Arc::clone(&feature.vocabulary), text.to_owned()));
            }
        }
    }
    Ok((texts, true))
}

/// A folder that goes away with the bench.
#[derive(Debug)]
struct Scratch {
    folder: std::path::PathBuf,
}

impl Scratch {
    fn make(below: &Path) -> anyhow::Result<Self> {
        let folder = below.join(format!(".bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make the folder `{}`", folder.display()))?;
        Ok(Self { folder })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn print(report: &Report, out: &mut Out) -> anyhow::Result<()> {
    let mut table = Table::new([
        ("", Align::Left),
        ("cache", Align::Right),
        ("bare encoder", Align::Right),
        ("", Align::Left),
    ]);
    let (cache, bare) = (&report.cache, &report.bare_encoder);
    let mut line = |name: &str, cache: String, bare: String, unit: &str| {
        table.row([name.to_owned(), cache, bare, unit.to_owned()]);
    };
    let rate = |rate: f64| amount(rate);
    line("text", bytes(cache.text_bytes), bytes(bare.text_bytes), "");
    line("tokens", count(cache.tokens), count(bare.tokens), "");
    line("speed", rate(cache.tokens_per_second), rate(bare.tokens_per_second), "tokens/s");
    line("", rate(cache.tokens_per_cpu_second), rate(bare.tokens_per_cpu_second), "tokens a CPU second");
    let megabytes = |side: &Side| format!("{:.1}", side.text_bytes_per_second / 1e6);
    line("", megabytes(cache), megabytes(bare), "MB/s of text");
    let seconds = |seconds: f64| format!("{seconds:.2}");
    line("wall clock", seconds(cache.cost.wall_seconds), seconds(bare.cost.wall_seconds), "s");
    line("CPU", seconds(cache.cost.cpu_seconds), seconds(bare.cost.cpu_seconds), "s");
    line(
        "peak anonymous memory",
        bytes(cache.cost.peak_anonymous_bytes),
        bytes(bare.cost.peak_anonymous_bytes),
        "",
    );
    let paint = out.paint;
    table.write(out, paint, 0)?;
    writeln!(
        out,
        "\ncache / bare encoder: {:.2} on {}; {} examples, {} of source, {} of cache, {} of spills",
        report.ratio,
        crate::format::counted(report.threads as u64, "thread"),
        count(report.examples),
        bytes(report.source_bytes),
        bytes(report.cache_bytes),
        bytes(report.spill_bytes)
    )?;
    Ok(())
}

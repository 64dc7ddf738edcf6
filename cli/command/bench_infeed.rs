//! `seqio bench infeed`: how fast batches come, all their numbers read, beside the machine's memcpy.

use std::io::Write as _;
use std::time::Instant;

use seqio::{Batch, Values};
use serde::Serialize;

use crate::args::BenchInfeedArgs;
use crate::format::{amount, bytes, count, percent};
use crate::interrupt::Interrupt;
use crate::measure::{Cost, Measurement, memcpy_bytes_per_second};
use crate::output::{Align, Out, Table};
use crate::session::{Session, Wanted};
use crate::shape;

/// Batches measured unless `--steps` says otherwise.
const STEPS: u64 = 1000;

/// What was measured.
#[derive(Debug, Serialize)]
struct Report {
    steps: u64,
    rows: u64,
    examples: u64,
    /// Tokens with a loss weight.
    tokens: u64,
    /// Places for such tokens.
    places: u64,
    fill: f64,
    /// Bytes of all model features.
    bytes: u64,
    first_batch_ms: f64,
    infeed_wait_ms: f64,
    tokens_per_second: f64,
    tokens_per_cpu_second: f64,
    examples_per_second: f64,
    bytes_per_second: f64,
    memcpy_bytes_per_second: f64,
    token_bytes_read: u64,
    /// Of a compressed cache: its batches, and how often one was decompressed.
    batches: u64,
    batches_decompressed: u64,
    threads: Option<usize>,
    read_ahead: usize,
    #[serde(flatten)]
    cost: Cost,
}

/// Runs the command.
pub(crate) fn run(session: &Session, args: &BenchInfeedArgs, out: &mut Out) -> anyhow::Result<()> {
    let interrupt = Interrupt::listen()?;
    let data = &args.data;
    let wanted = Wanted { task: data.task.as_deref(), cache: data.cache.as_deref(), split: &data.split };
    let opened = session.open(wanted, &args.build, &interrupt, out.notes())?;
    let config = shape::config(&opened.task, opened.split.name(), &args.shape, args.batch_size)?;
    let config = shape::for_run(config, &args.run, args.build.threads);
    let (threads, read_ahead) = (config.threads, config.read_ahead);
    let dataset = shape::dataset(&opened, config)?;
    let steps = args.run.steps.unwrap_or(STEPS);

    let mut read = Read::default();
    let measurement = Measurement::start();
    let began = Instant::now();
    let mut batches = dataset.iter_from(args.run.start)?;
    let mut first_batch_ms = 0.0;
    while read.steps < steps && !interrupt.asked() {
        let Some(batch) = batches.next() else { break };
        let batch = batch?;
        if read.steps == 0 {
            first_batch_ms = began.elapsed().as_secs_f64() * 1e3;
        }
        read.add(&batch);
        batches.recycle(batch);
    }
    let infeed_wait_ms = batches.infeed_wait_ms();
    drop(batches);
    let cost = measurement.stop();
    std::hint::black_box(read.sum);

    let wall = cost.wall_seconds.max(1e-9);
    let report = Report {
        steps: read.steps,
        rows: read.rows,
        examples: read.segments,
        tokens: read.tokens,
        places: read.places,
        fill: read.tokens as f64 / read.places.max(1) as f64,
        bytes: read.bytes,
        first_batch_ms,
        infeed_wait_ms,
        tokens_per_second: read.tokens as f64 / wall,
        tokens_per_cpu_second: read.tokens as f64 / cost.cpu_seconds.max(1e-9),
        examples_per_second: read.segments as f64 / wall,
        bytes_per_second: read.bytes as f64 / wall,
        memcpy_bytes_per_second: memcpy_bytes_per_second(),
        token_bytes_read: opened.split.tokens_read_bytes(),
        batches: opened.split.split_manifest().shards.iter().map(|shard| shard.batches).sum(),
        batches_decompressed: opened.split.batches_decompressed(),
        threads,
        read_ahead,
        cost,
    };
    if args.json.wanted { out.json(&report) } else { print(&report, out) }
}

/// What has been read so far. Every number is looked at, as a trainer would.
#[derive(Debug, Default)]
struct Read {
    steps: u64,
    rows: u64,
    segments: u64,
    tokens: u64,
    places: u64,
    bytes: u64,
    sum: i32,
}

impl Read {
    fn add(&mut self, batch: &Batch) {
        self.steps += 1;
        self.rows += batch.num_rows as u64;
        for array in &batch.arrays {
            match &array.values {
                Values::I32(values) => {
                    self.bytes += 4 * values.len() as u64;
                    self.sum = values.iter().fold(self.sum, |sum, value| sum.wrapping_add(*value));
                    if array.name == "decoder_segment_ids" {
                        self.segments += segments(values, array.length.max(1));
                    }
                }
                Values::F32(values) => {
                    self.bytes += 4 * values.len() as u64;
                    self.places += values.len() as u64;
                    self.tokens += weighted(values);
                }
            }
        }
        if !batch.arrays.iter().any(|array| array.name == "decoder_segment_ids") {
            self.segments += batch.num_rows as u64;
        }
    }
}

/// Segments of packed rows: the largest id of each. Ids rise and padding is 0.
fn segments(ids: &[i32], length: usize) -> u64 {
    ids.chunks(length)
        .map(|row| row.iter().fold(0, |most, id| most.max(*id)).unsigned_abs())
        .map(u64::from)
        .sum()
}

/// How many weights are not 0, in a form that compilers make fast.
fn weighted(weights: &[f32]) -> u64 {
    weights
        .chunks(1 << 16)
        .map(|chunk| u64::from(chunk.iter().map(|weight| u32::from(*weight > 0.0)).sum::<u32>()))
        .sum()
}

fn print(report: &Report, out: &mut Out) -> anyhow::Result<()> {
    let mut table = Table::new([("", Align::Left), ("", Align::Right), ("", Align::Left)]);
    let mut line =
        |name: &str, number: String, unit: &str| table.row([name.to_owned(), number, unit.to_owned()]);
    line("batches", count(report.steps), "");
    line("tokens with a loss", count(report.tokens), "");
    line("fill", percent(report.fill, 1.0), "of the places for them");
    line("speed", amount(report.tokens_per_second), "tokens/s");
    line("", amount(report.tokens_per_cpu_second), "tokens a CPU second");
    line("", amount(report.examples_per_second), "examples/s");
    line("", format!("{}/s", bytes(report.bytes_per_second as u64)), "of model features");
    line(
        "memcpy",
        format!("{}/s", bytes(report.memcpy_bytes_per_second as u64)),
        "on one thread of this machine",
    );
    line("first batch", format!("{:.1}", report.first_batch_ms), "ms");
    line("wait for batches", format!("{:.1}", report.infeed_wait_ms), "ms in all");
    line("wall clock", format!("{:.3}", report.cost.wall_seconds), "s");
    line("CPU", format!("{:.3}", report.cost.cpu_seconds), "s, all threads");
    line("peak anonymous memory", bytes(report.cost.peak_anonymous_bytes), "");
    line("token bytes read", bytes(report.token_bytes_read), "from the cache");
    if report.batches_decompressed > 0 {
        let of = format!("of its {} batches", count(report.batches));
        line("decompressed", count(report.batches_decompressed), &of);
    }
    let paint = out.paint;
    table.write(out, paint, 0)?;
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_and_weighted_tokens_are_counted() {
        assert_eq!(segments(&[1, 1, 2, 0, 0, 0, 1, 2, 3], 3), 5);
        assert_eq!(weighted(&[1.0, 0.0, 0.5, 0.0]), 2);
        let mut read = Read::default();
        read.add(&crate::write::tests::tiny_batch(0));
        assert_eq!((read.steps, read.rows, read.tokens, read.places), (1, 2, 2, 6));
    }
}

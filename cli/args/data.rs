//! What several commands take: which data, how they become batches, how a cache is built.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use seqio::Conversion;

use crate::value::{ByteSize, Epochs, HostShare, LengthList};

/// Which data: a task of the task files, or a cache folder.
#[derive(Clone, Debug, Args)]
pub(crate) struct Data {
    /// Name of a task; may be left out with --cache
    #[arg(required_unless_present = "cache")]
    pub(crate) task: Option<String>,
    /// Use this cache folder: needs neither the task file nor the sources
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
    /// Split, perhaps with a slice, as `train` or `train[:1%]`
    #[arg(long, value_name = "SPLIT", default_value = "train")]
    pub(crate) split: String,
}

/// How examples become batches: with the data, what the stream is.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "What a batch is")]
pub(crate) struct Shape {
    /// Greatest length of each feature, as `targets=2048,inputs=512`; a bare number for a task with one feature
    #[arg(long, value_name = "LENGTHS", required = true)]
    pub(crate) lengths: Vec<LengthList>,
    /// What the model is: `lm`, a decoder alone, reads `targets`; `enc_dec`, encoder and decoder, reads `inputs` and
    /// `targets`; more in `seqio list converters`; settings follow, as `prefix_lm:bos_id=2` [default: what fits the
    /// task's features]
    #[arg(long, value_name = "KIND")]
    pub(crate) converter: Option<Conversion>,
    /// How examples share rows: `best_fit` fills them best, `greedy` equals SeqIO's trim-and-pack, `none` gives each
    /// its own
    #[arg(long, value_name = "HOW", default_value = "best_fit", hide_possible_values = true)]
    pub(crate) pack: PackName,
    /// Examples planned together: more fills rows better, fewer mixes lengths more [default: 16384]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) window: Option<u64>,
    /// Order of the examples in an epoch: blocks of 4096 shuffled and inside each (`blocks`), all of them (`full`), or
    /// as stored (`storage`)
    #[arg(long, value_name = "ORDER", default_value = "blocks", hide_possible_values = true)]
    pub(crate) order: OrderName,
    /// Examples a block of `--order blocks` [default: 4096]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) block: Option<u64>,
    /// Seed of the order; never invalidates a cache
    #[arg(long, value_name = "K", default_value_t = 0)]
    pub(crate) seed: u64,
    /// How often to go through the examples: a number, or `endless` [default: endless]
    #[arg(long, value_name = "E")]
    pub(crate) epochs: Option<Epochs>,
    /// Leave out the last batch of the last epoch if it is not full, instead of filling it up with empty rows
    #[arg(long)]
    pub(crate) drop_remainder: bool,
}

/// The rows of a batch.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "What a batch is")]
pub(crate) struct BatchSize {
    /// Rows a batch, over all hosts
    #[arg(long, value_name = "B", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch_size: u32,
}

/// Ways of packing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum PackName {
    /// Best fit, decreasing.
    BestFit,
    /// SeqIO's trim-and-pack.
    Greedy,
    /// A row an example.
    None,
}

/// Orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OrderName {
    /// Shuffled blocks, shuffled inside.
    Blocks,
    /// Shuffled throughout.
    Full,
    /// As stored.
    Storage,
}

/// Which steps of a stream, for whom, and how far ahead.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Which batches")]
pub(crate) struct RunRange {
    /// Stop after N batches [default: at the end of the last epoch, if there is one]
    #[arg(long, value_name = "N")]
    pub(crate) steps: Option<u64>,
    /// First step
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(crate) start: u64,
    /// The rows of host h of H, hosts counted from 0
    #[arg(long, value_name = "h/H", default_value = "0/1")]
    pub(crate) host: HostShare,
    /// Batches prepared ahead by the other threads; 0 prepares each when it is asked for [default: 8]
    #[arg(long, value_name = "N")]
    pub(crate) read_ahead: Option<usize>,
}

/// What a build takes.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Threads, and building a cache")]
pub(crate) struct BuildSettings {
    /// Threads [default: as many as there are cores]; changes no result
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) threads: Option<u32>,
    /// Memory for sorting, as `256MiB`; changes no result
    #[arg(long, value_name = "SIZE", default_value = "2GiB")]
    pub(crate) memory: ByteSize,
    /// Progress on standard error: `auto` draws a bar on a terminal, and only there; `plain` writes a line every few
    /// seconds, `json` one a second; `none` nothing
    #[arg(long, value_name = "HOW", default_value = "auto", hide_possible_values = true)]
    pub(crate) progress: ProgressName,
    /// Take over a build that another host began and no longer works on
    #[arg(long)]
    pub(crate) take_over: bool,
}

/// Kinds of progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressName {
    /// Bars on a terminal, else nothing
    Auto,
    /// A line of text every few seconds
    Plain,
    /// A line of JSON a second
    Json,
    /// Nothing
    None,
}

//! `seqio stream | plan | batch | find`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::args::{BatchSize, BuildSettings, Data, Json, RunRange, Shape};
use crate::value::ExamplePlace;

/// `seqio stream`.
#[derive(Debug, Args)]
#[command(after_help = "\
A task that has no cache gets one first. Host h of H writes rows hB/H .. (h+1)B/H of each batch and reads no tokens of \
the others.

Formats:
  jsonl   a line a row: {\"step\":0,\"row\":0,\"decoder_target_tokens\":[…],…}
  arrow   an Arrow IPC stream: a record batch a step, fixed-size lists of int32 and float32
  npy     a folder with a file for each step and feature, step-00000000.decoder_target_tokens.npy
  none    nothing: for --digest, and to see how fast it is

Examples:
  seqio stream docs --batch-size 8 --lengths 2048 --steps 2
  seqio stream docs --batch-size 8 --lengths 2048 --format arrow --state run.json | python train.py
  seqio stream pairs --batch-size 32 --lengths inputs=256,targets=256 --epochs 1 --out rows.jsonl
  seqio stream docs --batch-size 8 --lengths 2048 --steps 100 --digest
                                               a line a step: compare two machines
  seqio stream docs --batch-size 8 --lengths 2048 --host 1/4 --digest=rows
                                               a line a row: compare the parts of hosts")]
pub(crate) struct StreamArgs {
    #[command(flatten)]
    pub(crate) data: Data,
    #[command(flatten)]
    pub(crate) batch_size: BatchSize,
    #[command(flatten)]
    pub(crate) shape: Shape,
    #[command(flatten)]
    pub(crate) run: RunRange,
    /// Compute from the source in its order, in bounded memory, without a cache (needs `--order storage`)
    #[arg(long, conflicts_with = "cache", help_heading = "Which batches")]
    pub(crate) no_cache: bool,
    /// Form of the batches: `jsonl`, `arrow`, `npy` or `none` [default: jsonl, with --digest none]
    #[arg(long, value_name = "FORMAT", help_heading = "Output", hide_possible_values = true)]
    pub(crate) format: Option<FormatName>,
    /// Write to this file (for npy: folder) instead of standard output
    #[arg(long, value_name = "PATH", help_heading = "Output")]
    pub(crate) out: Option<PathBuf>,
    /// Print a digest a step, or with `=rows` a row: on standard output with --format none, else on standard error
    #[arg(
        long,
        value_name = "OF",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "steps",
        hide_possible_values = true,
        help_heading = "Output"
    )]
    pub(crate) digest: Option<DigestName>,
    /// Keep the place in the stream in FILE: go on from there if it exists, and write it after every batch that is out
    #[arg(long, value_name = "FILE", conflicts_with = "start", help_heading = "Output")]
    pub(crate) state: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) build: BuildSettings,
}

/// Forms of batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatName {
    /// JSON lines
    Jsonl,
    /// NumPy files
    Npy,
    /// Arrow IPC stream
    Arrow,
    /// Nothing
    None,
}

/// What is digested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DigestName {
    /// A line a step
    Steps,
    /// A line a row
    Rows,
}

/// `seqio plan`.
#[derive(Debug, Args)]
#[command(after_help = "\
Planning reads lengths only, no tokens.

Examples:
  seqio plan docs --batch-size 8 --lengths 2048 --epochs 3
  seqio plan docs --batch-size 8 --lengths 2048 --steps 100000")]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) data: Data,
    #[command(flatten)]
    pub(crate) batch_size: BatchSize,
    #[command(flatten)]
    pub(crate) shape: Shape,
    /// Plan this many steps [default: the epochs asked for, else one epoch]
    #[arg(long, value_name = "N")]
    pub(crate) steps: Option<u64>,
    #[command(flatten)]
    pub(crate) build: BuildSettings,
    #[command(flatten)]
    pub(crate) json: Json,
}

/// `seqio batch`.
#[derive(Debug, Args)]
#[command(after_help = "\
Give it the options that `stream` was given: they decide what a batch is.

Examples:
  seqio batch docs --batch-size 8 --lengths 2048 --step 0
  seqio batch docs --batch-size 8 --lengths 2048 --step 81234 --row 3 --tokens 400")]
pub(crate) struct BatchArgs {
    #[command(flatten)]
    pub(crate) data: Data,
    #[command(flatten)]
    pub(crate) batch_size: BatchSize,
    #[command(flatten)]
    pub(crate) shape: Shape,
    /// The step, from 0
    #[arg(long, value_name = "S")]
    pub(crate) step: u64,
    /// Only this row of the batch, from 0
    #[arg(long, value_name = "R")]
    pub(crate) row: Option<usize>,
    /// Also show up to N tokens of each row, with segments, positions and loss weights
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) tokens: usize,
    #[command(flatten)]
    pub(crate) build: BuildSettings,
    #[command(flatten)]
    pub(crate) json: Json,
}

/// `seqio find`.
#[derive(Debug, Args)]
#[command(after_help = "\
Give it the options that `stream` was given: they decide what a batch is. In an endless stream the first 3 epochs are \
looked at.

Examples:
  seqio find data/train-00.jsonl:17 --batch-size 8 --lengths 2048
  seqio find data/train-00.jsonl:17 docs --batch-size 8 --lengths 2048 --epochs 3
  seqio find 'id=5, lang=\"en\"' joined --batch-size 8 --lengths 2048")]
pub(crate) struct FindArgs {
    /// A line of a source file (for Parquet and Arrow: a row; of a CSV record: its first), counted from 1; or of a query
    /// the key of a row, as `id=5`
    #[arg(value_name = "FILE:LINE")]
    pub(crate) place: ExamplePlace,
    /// Name of a task [default: the tasks that read the file]
    pub(crate) task: Option<String>,
    /// Use this cache folder: needs neither the task file nor the sources
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
    /// Split, perhaps with a slice
    #[arg(long, value_name = "SPLIT", default_value = "train")]
    pub(crate) split: String,
    #[command(flatten)]
    pub(crate) batch_size: BatchSize,
    #[command(flatten)]
    pub(crate) shape: Shape,
    #[command(flatten)]
    pub(crate) build: BuildSettings,
    #[command(flatten)]
    pub(crate) json: Json,
}

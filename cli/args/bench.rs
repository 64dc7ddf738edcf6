//! `seqio bench cache | infeed`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::args::{BatchSize, BuildSettings, Data, Json, RunRange, Shape};
use crate::value::ByteSize;

/// `seqio bench …`.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Build a cache in a temporary folder, beside the bare encoder on the same text and threads
    Cache(BenchCacheArgs),
    /// Stream batches without writing them, beside the machine's memcpy
    Infeed(BenchInfeedArgs),
}

/// `seqio bench cache`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seqio bench cache docs
  seqio bench cache docs --threads 1 --memory 256MiB --limit 100MB")]
pub(crate) struct BenchCacheArgs {
    /// Name of a task
    pub(crate) task: String,
    /// Split
    #[arg(long, value_name = "SPLIT", default_value = "train")]
    pub(crate) split: String,
    /// Text for the bare encoder, at most
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    pub(crate) limit: ByteSize,
    /// Where the temporary cache is built [default: beside the other caches]
    #[arg(long, value_name = "DIR")]
    pub(crate) scratch: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) build: BuildSettings,
    #[command(flatten)]
    pub(crate) json: Json,
}

/// `seqio bench infeed`.
#[derive(Debug, Args)]
#[command(after_help = "\
Without --steps 1,000 batches are measured, or as many as there are.

Examples:
  seqio bench infeed docs --batch-size 8 --lengths 2048 --steps 20000")]
pub(crate) struct BenchInfeedArgs {
    #[command(flatten)]
    pub(crate) data: Data,
    #[command(flatten)]
    pub(crate) batch_size: BatchSize,
    #[command(flatten)]
    pub(crate) shape: Shape,
    #[command(flatten)]
    pub(crate) run: RunRange,
    #[command(flatten)]
    pub(crate) build: BuildSettings,
    #[command(flatten)]
    pub(crate) json: Json,
}

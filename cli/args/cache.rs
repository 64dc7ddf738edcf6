//! `seqio cache build | finish | list | explain | verify | convert | remove`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use seqio_cache::{Compression, Reuse, Share};

use crate::args::{BuildSettings, Json, JsonLines};

/// `seqio cache …`.
#[derive(Debug, Subcommand)]
pub(crate) enum CacheCommand {
    /// Run the steps above the `cache` boundary once, and keep the tokens, verified and shuffled
    Build(CacheBuildArgs),
    /// Make the cache of what workers (`cache build --worker i/n`) have encoded
    Finish(CacheFinishArgs),
    /// List the caches, what they are of, and whether they are up to date
    List(CacheListArgs),
    /// Say why the caches of a task match it or not: what changed in definition and sources, in words
    Explain(CacheExplainArgs),
    /// Read every byte of caches and check it against its checksum
    Verify(CacheVerifyArgs),
    /// Compress or decompress finished caches, without task file, sources or encoding
    Convert(CacheConvertArgs),
    /// Remove caches
    Remove(CacheRemoveArgs),
}

/// `seqio cache build`.
#[derive(Debug, Args)]
#[command(after_help = "\
Threads, memory and crashes change no byte of the result. A build that was stopped, by Ctrl-C or kill -9, goes on \
where it was when the same command is run again.

On several machines that share the cache folder, n workers encode a share each, at any time and in any order; then \
`seqio cache finish` makes the cache, with the same bytes for any n. A worker that died is run again, or the rest under \
another n, or all of it without `--worker`.

Where data have been added, `--reuse` takes the examples of files that are as they were from an older cache, and of \
those that only grew the pieces (of 64 MiB of text) that are as they were. What changed or is new is encoded, and every \
byte is as if all had been.

A cache compressed by zstd gives the same batches. Whoever reads it keeps decompressed batches in half of --memory: \
enough for an epoch in blocks; `--order full` would decompress one for each example.

Examples:
  seqio cache build docs
  seqio cache build docs pairs --threads 8 --memory 8GiB
  seqio cache build docs --dry-run             tokens, disk and time, from a sample
  seqio cache build docs --worker 0/4          on the first of four machines
  seqio cache build docs --reuse auto          encode only what is new since the newest cache
  seqio cache build docs --compress zstd       for cold storage: the same batches, slower to read
  seqio cache build docs --progress json 2> progress.jsonl")]
pub(crate) struct CacheBuildArgs {
    /// Names of tasks
    #[arg(required = true, value_name = "TASK")]
    pub(crate) tasks: Vec<String>,
    /// Only these splits [default: all that the source lists]
    #[arg(long = "split", value_name = "SPLIT")]
    pub(crate) splits: Vec<String>,
    /// How new caches are kept: `none`, read in place, or `zstd`, for cold storage; changes no batch [default: none]
    #[arg(long, value_name = "HOW", hide_possible_values = true, conflicts_with = "worker")]
    pub(crate) compress: Option<CompressName>,
    /// Take over from this finished cache what has not changed since, or with `auto` from the newest one of the same
    /// definition; the result is that of encoding everything
    #[arg(long, value_name = "DIR", value_parser = reuse, conflicts_with = "worker")]
    pub(crate) reuse: Option<Reuse>,
    /// Estimate documents, tokens, disk and time from a 1 % sample; write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Encode only the share of worker i of n, counted from 0
    #[arg(long, value_name = "i/n", conflicts_with = "dry_run")]
    pub(crate) worker: Option<Share>,
    #[command(flatten)]
    pub(crate) build: BuildSettings,
    #[command(flatten)]
    pub(crate) json: JsonLines,
}

/// `seqio cache finish`.
#[derive(Debug, Args)]
#[command(after_help = "\
What is missing is named, with the workers that owe it; nothing is encoded here. `seqio cache list` shows how far the \
workers are.

Examples:
  seqio cache finish docs
  seqio cache finish docs --split train        what the workers were asked for, no more")]
pub(crate) struct CacheFinishArgs {
    /// Names of tasks
    #[arg(required = true, value_name = "TASK")]
    pub(crate) tasks: Vec<String>,
    /// Only these splits [default: all that the source lists]
    #[arg(long = "split", value_name = "SPLIT")]
    pub(crate) splits: Vec<String>,
    /// How the cache is kept: `none`, read in place, or `zstd`, for cold storage; changes no batch [default: none]
    #[arg(long, value_name = "HOW", hide_possible_values = true)]
    pub(crate) compress: Option<CompressName>,
    #[command(flatten)]
    pub(crate) build: BuildSettings,
    #[command(flatten)]
    pub(crate) json: JsonLines,
}

/// A folder, or `auto`.
fn reuse(text: &str) -> Result<Reuse, std::convert::Infallible> {
    Ok(match text {
        "auto" => Reuse::Latest,
        folder => Reuse::Folder(PathBuf::from(folder)),
    })
}

/// Forms of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompressName {
    /// Read in place.
    None,
    /// Zstandard.
    Zstd,
}

impl From<CompressName> for Compression {
    fn from(name: CompressName) -> Self {
        match name {
            CompressName::None => Self::None,
            CompressName::Zstd => Self::Zstd,
        }
    }
}

/// `seqio cache convert`.
#[derive(Debug, Args)]
#[command(after_help = "\
The examples, their order and every batch stay the same, and so do states and indexes of streams. A cache is replaced \
when its other form is whole; a job that is stopped leaves it as it was.

Examples:
  seqio cache convert docs --compress zstd     all caches of the task, for cold storage
  seqio cache convert docs --compress none     back again, for training
  seqio cache convert --cache DIR --compress zstd")]
pub(crate) struct CacheConvertArgs {
    /// Caches of these tasks
    #[arg(value_name = "TASK", required_unless_present = "cache")]
    pub(crate) tasks: Vec<String>,
    /// Only this cache folder
    #[arg(long, value_name = "DIR", conflicts_with = "tasks")]
    pub(crate) cache: Option<PathBuf>,
    /// The form to bring them into: `none`, read in place, or `zstd`
    #[arg(long, value_name = "HOW", hide_possible_values = true)]
    pub(crate) compress: CompressName,
    #[command(flatten)]
    pub(crate) build: BuildSettings,
    #[command(flatten)]
    pub(crate) json: JsonLines,
}

/// `seqio cache list`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seqio cache list
  seqio cache list --json | jq '.[].bytes'")]
pub(crate) struct CacheListArgs {
    /// Only caches of these tasks
    #[arg(value_name = "TASK")]
    pub(crate) tasks: Vec<String>,
    #[command(flatten)]
    pub(crate) json: Json,
}

/// `seqio cache explain`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seqio cache explain docs
  seqio cache explain docs --split train --json | jq '.splits[].caches[].definition[].words'")]
pub(crate) struct CacheExplainArgs {
    /// Name of a task
    #[arg(value_name = "TASK")]
    pub(crate) task: String,
    /// Only these splits [default: all that the source lists or a cache holds]
    #[arg(long = "split", value_name = "SPLIT")]
    pub(crate) splits: Vec<String>,
    #[command(flatten)]
    pub(crate) json: Json,
}

/// `seqio cache verify`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit code 4 says that one is damaged.

Examples:
  seqio cache verify                           every cache here
  seqio cache verify docs
  seqio cache verify --cache seqio-cache/docs/0123456789abcdef-0123456789abcdef")]
pub(crate) struct CacheVerifyArgs {
    /// Only caches of these tasks
    #[arg(value_name = "TASK")]
    pub(crate) tasks: Vec<String>,
    /// Only this cache folder
    #[arg(long, value_name = "DIR", conflicts_with = "tasks")]
    pub(crate) cache: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) json: Json,
}

/// `seqio cache remove`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seqio cache remove docs                      all caches of the task, and unfinished builds
  seqio cache remove docs --stale              only those whose definition or source has changed
  seqio cache remove docs --dry-run            say what would go")]
pub(crate) struct CacheRemoveArgs {
    /// Caches of these tasks
    #[arg(value_name = "TASK", required_unless_present = "cache")]
    pub(crate) tasks: Vec<String>,
    /// Only this cache folder
    #[arg(long, value_name = "DIR", conflicts_with = "tasks")]
    pub(crate) cache: Option<PathBuf>,
    /// Also an unfinished build of another host that no longer works on it
    #[arg(long)]
    pub(crate) take_over: bool,
    /// Only caches of which no split is that of the current definition and sources
    #[arg(long, conflicts_with = "cache")]
    pub(crate) stale: bool,
    /// Say what would be removed; remove nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) json: Json,
}

//! `seqio train | adapters`.

use std::path::PathBuf;

use clap::Args;

use crate::args::{BuildSettings, Json};

/// `seqio train`.
#[derive(Debug, Args)]
#[command(after_help = "\
Everything that decides what a run is stands in the run file. The folder of the run keeps it, with checkpoints and logs \
(metrics.jsonl, and events for TensorBoard). If the folder holds the same run already, it goes on \
where that stopped, with the same numbers as if it had never stopped; the run of another configuration is refused. Ctrl-C \
saves and says how to go on. Task files and caches of the command line go before those of the run file.

Examples:
  seqio train --example > run.toml             a run file with a word about each key
  seqio train run.toml --dry-run               check it, open the data, show sizes; begin nothing
  seqio train run.toml
  seqio train run.toml --set train.steps=20000 --set device.adapter=cpu
  seqio train run.toml --set optimizer.name=adamw --set run.dir=runs/adamw
  seqio train run.toml --set mesh.model=2 --timeline trace.json")]
pub(crate) struct TrainArgs {
    /// The run file
    #[arg(value_name = "RUN.toml", required_unless_present = "example")]
    pub(crate) run_file: Option<PathBuf>,
    /// Set a key of the run file, as `train.steps=1000`; may be given several times
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE")]
    pub(crate) settings: Vec<String>,
    /// Check everything and say what would be done, but build no cache and begin nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Write what each rank does when, in the third step of this start, as a Chrome trace
    ///
    /// By the third step everything is compiled and warm. The file is for ui.perfetto.dev or chrome://tracing: a row for
    /// each rank of a run over several, with what it computes, waits for, copies and adds up. It is replaced if it is there.
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    pub(crate) timeline: Option<PathBuf>,
    /// Print a run file with a word about each key
    #[arg(long, conflicts_with_all = ["run_file", "dry_run", "settings", "timeline"])]
    pub(crate) example: bool,
    #[command(flatten)]
    pub(crate) build: BuildSettings,
}

/// `seqio adapters`.
#[derive(Debug, Args)]
#[command(after_help = "\
Needs no task file. In a run file an adapter is chosen by its index, by a part of its name, or by its back end; `cpu` is \
always there and needs no driver. Without any adapter the exit code is 1, and the message names the package to install.

Examples:
  seqio adapters
  seqio adapters --json                        every limit, for programs")]
pub(crate) struct AdaptersArgs {
    #[command(flatten)]
    pub(crate) json: Json,
}

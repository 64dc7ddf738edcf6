//! `seqio adapters`.

use clap::Args;

use crate::args::Json;

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

//! `seqio list | explain | inspect | stats`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use seqio::Conversion;

use crate::args::{BuildSettings, Data, Json, PackName};
use crate::value::{ByteSize, LengthList};

/// `seqio list`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seqio list
  seqio -f more.toml list tasks --json
  seqio list --names                one a line, for scripts
  seqio list steps                  what can stand in `steps`
  seqio list kinds                  what can stand in `source`, `columns` and `[vocabulary.NAME]`
  seqio list converters             what `--converter` can be, and what each reads")]
pub(crate) struct ListArgs {
    /// What to list: `tasks`, `steps`, `kinds` (of sources, columns and vocabularies), `vocabularies` or `converters`
    #[arg(value_enum, default_value = "tasks", hide_possible_values = true)]
    pub(crate) what: Listed,
    /// Print the names alone, one a line
    #[arg(long, conflicts_with = "wanted")]
    pub(crate) names: bool,
    #[command(flatten)]
    pub(crate) json: Json,
}

/// What `seqio list` lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Listed {
    /// The tasks of the task files
    Tasks,
    /// The steps that a task can be made of
    Steps,
    /// The kinds of sources, columns and vocabularies that there are
    Kinds,
    /// The vocabularies of the task files
    Vocabularies,
    /// The converters that there are
    Converters,
}

/// `seqio explain`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seqio explain docs
  seqio explain docs --lengths 2048 --json
  seqio explain pairs --lengths inputs=512,targets=128 --converter prefix_lm
                                                what a batch will hold")]
pub(crate) struct ExplainArgs {
    /// Name of a task
    pub(crate) task: String,
    /// Greatest length of each feature: shows what the steps below the boundary do with it
    #[arg(long, value_name = "LENGTHS")]
    pub(crate) lengths: Vec<LengthList>,
    /// Also list the model features of this converter: one of `seqio list converters`, perhaps with settings (needs
    /// --lengths)
    #[arg(long, value_name = "KIND")]
    pub(crate) converter: Option<Conversion>,
    #[command(flatten)]
    pub(crate) json: Json,
}

/// `seqio inspect`.
#[derive(Debug, Args)]
#[command(after_help = "\
Stages:
  raw     the columns of the source
  task    after all steps: token ids beside their text
  model   rows as a model sees them: segments, positions, loss weights (needs --lengths)

Examples:
  seqio inspect docs
  seqio inspect docs --split validation -n 10 --stage raw --json
  seqio inspect docs --stage model --lengths 256 -n 2")]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    pub(crate) data: Data,
    /// How many examples (at stage `model`: rows)
    #[arg(short = 'n', long, value_name = "N", default_value_t = 3)]
    pub(crate) num: usize,
    /// Where to look: `raw`, `task` or `model`
    #[arg(long, value_name = "STAGE", default_value = "task", hide_possible_values = true)]
    pub(crate) stage: StageName,
    /// Greatest length of each feature, as `targets=2048,inputs=512` (stage `model` needs it)
    #[arg(long, value_name = "LENGTHS")]
    pub(crate) lengths: Vec<LengthList>,
    /// What the model is, for stage `model`: one of `seqio list converters`, perhaps with settings, as
    /// `prefix_lm:bos_id=2` [default: what fits the task's features]
    #[arg(long, value_name = "KIND")]
    pub(crate) converter: Option<Conversion>,
    /// How examples share rows, for stage `model`: `best_fit`, `greedy` or `none`
    #[arg(long, value_name = "HOW", default_value = "best_fit", hide_possible_values = true)]
    pub(crate) pack: PackName,
    /// Show at most N tokens of a sequence
    #[arg(long, value_name = "N", default_value_t = 120)]
    pub(crate) tokens: usize,
    /// Memory for the query of a source, as `256MiB`; what does not fit goes to temporary files
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    pub(crate) memory: ByteSize,
    #[command(flatten)]
    pub(crate) json: Json,
}

/// Stages of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StageName {
    /// Of the source.
    Raw,
    /// After all steps.
    Task,
    /// After conversion.
    Model,
}

/// `seqio stats`.
#[derive(Debug, Args)]
#[command(after_help = "\
The figures are those of the cache; a task that has none gets one first.

Examples:
  seqio stats docs
  seqio stats docs --lengths 1024 --lengths 2048      how full packed rows get at each length
  seqio stats pairs --lengths inputs=256,targets=256 --json")]
pub(crate) struct StatsArgs {
    /// Name of a task; may be left out with --cache
    #[arg(required_unless_present = "cache")]
    pub(crate) task: Option<String>,
    /// Use this cache folder: needs neither the task file nor the sources
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
    /// Only this split [default: all]
    #[arg(long, value_name = "SPLIT")]
    pub(crate) split: Option<String>,
    /// Forecast packing at these lengths; each use is a forecast of its own
    #[arg(long, value_name = "LENGTHS")]
    pub(crate) lengths: Vec<LengthList>,
    /// Examples planned together, for the forecast [default: 16384]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) window: Option<u64>,
    #[command(flatten)]
    pub(crate) build: BuildSettings,
    #[command(flatten)]
    pub(crate) json: Json,
}

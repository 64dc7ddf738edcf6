//! The command line: nothing but its types and the words of `--help`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::value::{ByteSize, Epochs, FileLine, HostShare, LengthList};

const ABOUT: &str = "\
Define, cache, inspect and stream data sets for language models.

Batch s is a pure function of (definition, data, seed, batch size, s): the same on 1 thread or 64, on 1 host or 16, \
before or after a crash, from the cache or computed on the fly.";

const EXAMPLES: &str = "\
Examples:
  seqio list                                   the tasks of ./seqio.toml
  seqio explain docs                           the path from source to batch
  seqio inspect docs -n 3                      tokens beside their text; needs no cache
  seqio cache build docs                       tokenize once, verified and shuffled
  seqio stats docs --lengths 2048              lengths, unknown tokens, how full packed rows get
  seqio batch docs --batch-size 8 --lengths 2048 --step 1000
                                               what a model sees then, and where it came from
  seqio stream docs --batch-size 8 --lengths 2048 --format arrow | python train.py

A task file is TOML:
  [vocabulary.t5]
  sentencepiece = \"t5.model\"

  [task.docs]
  source   = { jsonl = { train = \"data/*.jsonl.gz\" }, columns = { text = \"string\" } }
  features = { targets = { vocabulary = \"t5\" } }
  steps    = [
    { op = \"rekey\", to_from = { targets = \"text\" } },
    { op = \"tokenize\" },
    { op = \"append_eos\" },
  ]

Exit codes: 0 done, 1 an error, 2 a command line that makes no sense, 130 stopped by Ctrl-C.";

/// The program's arguments.
#[derive(Debug, Parser)]
#[command(name = "seqio", version, about = ABOUT, after_help = EXAMPLES, max_term_width = 110)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Global {
    /// Task file; may be given several times [default: seqio.toml]
    #[arg(short = 'f', long = "file", value_name = "FILE", global = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Where caches are kept [default: $SEQIO_CACHE_DIR, else `seqio-cache` beside the first task file]
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) cache_dir: Option<PathBuf>,
    /// When to colour: by itself on a terminal, unless NO_COLOR is set
    #[arg(long, value_name = "WHEN", default_value = "auto", global = true, hide_possible_values = true)]
    pub(crate) color: Colour,
    /// No notes and no progress on standard error, only errors
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
}

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colour {
    /// On a terminal.
    Auto,
    /// Also in a pipe.
    Always,
    /// Not at all.
    Never,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List tasks, steps or vocabularies
    List(ListArgs),
    /// Print the path of a task from source to batch, with the columns after each step, before any data is read
    Explain(ExplainArgs),
    /// Show examples: tokens beside their text, at any stage of the path; needs no cache
    Inspect(InspectArgs),
    /// Examples, tokens, lengths, unknown tokens, and how full packed rows will be
    Stats(StatsArgs),
    /// Build, list, verify or remove caches
    #[command(subcommand)]
    Cache(CacheCommand),
    /// Write packed, ready-to-train batches
    Stream(StreamArgs),
    /// Exact steps and rows of a run, how full they are, what is cut
    Plan(PlanArgs),
    /// Show the batch of one step, decoded, each piece traced to its file and row
    Batch(BatchArgs),
    /// Say at which steps a line of a file is seen
    Find(FindArgs),
    /// Measure caching or streaming on this machine
    #[command(subcommand)]
    Bench(BenchCommand),
}

/// `seqio list`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seqio list
  seqio -f more.toml list tasks --json
  seqio list steps                  what can stand in `steps`")]
pub(crate) struct ListArgs {
    /// What to list: tasks, steps or vocabularies
    #[arg(value_enum, default_value = "tasks", hide_possible_values = true)]
    pub(crate) what: Listed,
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
    /// The vocabularies of the task files
    Vocabularies,
}

/// JSON instead of text.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Json {
    /// Print JSON
    #[arg(long = "json")]
    pub(crate) wanted: bool,
}

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
    /// `targets` [default: what fits the task's features]
    #[arg(long, value_name = "KIND", hide_possible_values = true)]
    pub(crate) converter: Option<ConverterName>,
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

/// Converters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum ConverterName {
    /// Decoder only
    Lm,
    /// Encoder and decoder
    EncDec,
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

/// `seqio list | verify | remove` of caches.
#[derive(Debug, Subcommand)]
pub(crate) enum CacheCommand {
    /// Run the steps above the `cache` boundary once, and keep the tokens, verified and shuffled
    Build(CacheBuildArgs),
    /// List the caches, what they are of, and whether they are up to date
    List(CacheListArgs),
    /// Read every byte of caches and check it against its checksum
    Verify(CacheVerifyArgs),
    /// Remove caches
    Remove(CacheRemoveArgs),
}

/// `seqio cache build`.
#[derive(Debug, Args)]
#[command(after_help = "\
Threads, memory and crashes change no byte of the result. A build that was stopped, by Ctrl-C or kill -9, goes on \
where it was when the same command is run again.

Examples:
  seqio cache build docs
  seqio cache build docs pairs --threads 8 --memory 8GiB
  seqio cache build docs --dry-run             tokens, disk and time, from a sample
  seqio cache build docs --progress json 2> progress.jsonl")]
pub(crate) struct CacheBuildArgs {
    /// Names of tasks
    #[arg(required = true, value_name = "TASK")]
    pub(crate) tasks: Vec<String>,
    /// Only these splits [default: all that the source lists]
    #[arg(long = "split", value_name = "SPLIT")]
    pub(crate) splits: Vec<String>,
    /// Estimate documents, tokens, disk and time from a 1 % sample; write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) build: BuildSettings,
    #[command(flatten)]
    pub(crate) json: Json,
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

/// `seqio cache verify`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seqio cache verify                           every cache here
  seqio cache verify docs
  seqio cache verify --cache seqio-cache/docs/0123456789abcdef-0123456789abcdef")]
pub(crate) struct CacheVerifyArgs {
    /// Only caches of these tasks
    #[arg(value_name = "TASK")]
    pub(crate) tasks: Vec<String>,
    /// This cache folder
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
    /// This cache folder
    #[arg(long, value_name = "DIR", conflicts_with = "tasks")]
    pub(crate) cache: Option<PathBuf>,
    /// Only caches that are not those of the current definition and sources
    #[arg(long, conflicts_with = "cache")]
    pub(crate) stale: bool,
    /// Say what would be removed; remove nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

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

/// Which steps of a stream, for whom, and how far ahead.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Which batches")]
pub(crate) struct RunRange {
    /// Stop after N batches [default: at the end of the last epoch]
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
    /// Compute from the source in its order, in bounded memory, without a cache (needs `--order storage`)
    #[arg(long, conflicts_with = "cache")]
    pub(crate) no_cache: bool,
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
    /// The step
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
Examples:
  seqio find data/train-00.jsonl:17 --batch-size 8 --lengths 2048
  seqio find data/train-00.jsonl:17 docs --batch-size 8 --lengths 2048 --epochs 3")]
pub(crate) struct FindArgs {
    /// A line of a source file (for Parquet: a row), counted from 1
    #[arg(value_name = "FILE:LINE")]
    pub(crate) place: FileLine,
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

/// `seqio explain`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seqio explain docs
  seqio explain docs --lengths 2048 --json")]
pub(crate) struct ExplainArgs {
    /// Name of a task
    pub(crate) task: String,
    /// Greatest length of each feature: shows what the steps below the boundary do with it
    #[arg(long, value_name = "LENGTHS")]
    pub(crate) lengths: Vec<LengthList>,
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
    /// Greatest length of each feature, as `targets=2048,inputs=512`
    #[arg(long, value_name = "LENGTHS")]
    pub(crate) lengths: Vec<LengthList>,
    /// What the model is, for stage `model`: `lm` or `enc_dec` [default: what fits the task's features]
    #[arg(long, value_name = "KIND", hide_possible_values = true)]
    pub(crate) converter: Option<ConverterName>,
    /// How examples share rows, for stage `model`: `best_fit`, `greedy` or `none`
    #[arg(long, value_name = "HOW", default_value = "best_fit", hide_possible_values = true)]
    pub(crate) pack: PackName,
    /// Show at most N tokens of a sequence
    #[arg(long, value_name = "N", default_value_t = 120)]
    pub(crate) tokens: usize,
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
  seqio stats docs --lengths 1024 --lengths 2048 --lengths 4096    how full packed rows get at each length
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_command_lines_of_the_examples_parse() {
        for text in help_texts() {
            for line in text.lines().filter_map(|line| line.trim().strip_prefix("seqio ")) {
                let command = line.split("  ").next().unwrap_or_default();
                let command =
                    command.split(" | ").next().unwrap_or_default().split(" 2> ").next().unwrap_or_default();
                let words: Vec<&str> = command.split_whitespace().collect();
                let parsed = Arguments::try_parse_from(["seqio"].into_iter().chain(words.iter().copied()));
                assert!(parsed.is_ok(), "`seqio {line}`: {}", parsed.unwrap_err());
            }
        }
    }

    fn help_texts() -> Vec<String> {
        fn walk(command: &clap::Command, texts: &mut Vec<String>) {
            texts.extend(command.get_after_help().map(ToString::to_string));
            command.get_subcommands().for_each(|child| walk(child, texts));
        }
        let mut texts = Vec::new();
        walk(&Arguments::command(), &mut texts);
        texts
    }

    #[test]
    fn the_command_lines_of_the_issue_parse() {
        for line in [
            "cache build docs pairs --cache-dir d --threads 2 --memory 2GiB --progress json --dry-run --split train --split validation --take-over",
            "stream docs --batch-size 8 --lengths targets=2048 --converter lm --pack best_fit --steps 3 --start 4 --seed 5 --epochs 6 --order blocks --host 0/2 --format arrow --out p --digest=rows --cache d",
            "stream docs --batch-size 8 --lengths targets=2048 --state s.json --digest",
            "stream --cache d --batch-size 8 --lengths targets=2048",
            "plan docs --batch-size 8 --lengths targets=2048",
            "batch docs --batch-size 8 --lengths targets=2048 --step 5",
            "find a.jsonl:3 --batch-size 8 --lengths targets=2048",
            "inspect docs --split validation -n 2 --stage model --lengths targets=8 --converter enc_dec --json",
            "bench cache docs",
            "bench infeed docs --batch-size 8 --lengths 8",
        ] {
            let parsed = Arguments::try_parse_from(["seqio"].into_iter().chain(line.split_whitespace()));
            assert!(parsed.is_ok(), "`{line}`: {}", parsed.unwrap_err());
        }
    }
}

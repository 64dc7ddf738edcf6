//! The command line: nothing but its types and the words of `--help`.

mod bench;
mod cache;
mod data;
mod learn;
mod query;
mod see;
mod stream;
mod train;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use self::bench::{BenchCacheArgs, BenchCommand, BenchInfeedArgs};
pub(crate) use self::cache::{
    CacheBuildArgs, CacheCommand, CacheConvertArgs, CacheExplainArgs, CacheFinishArgs, CacheListArgs,
    CacheRemoveArgs, CacheVerifyArgs,
};
pub(crate) use self::data::{
    BatchSize, BuildSettings, Data, OrderName, PackName, ProgressName, RunRange, Shape,
};
pub(crate) use self::learn::{CompletionsArgs, InitArgs, ManArgs, ReferenceArgs, SchemaArgs};
pub(crate) use self::query::QueryArgs;
pub(crate) use self::see::{ExplainArgs, InspectArgs, ListArgs, Listed, StageName, StatsArgs};
pub(crate) use self::stream::{BatchArgs, DigestName, FindArgs, FormatName, PlanArgs, StreamArgs};
pub(crate) use self::train::{AdaptersArgs, TrainArgs};

const ABOUT: &str = "\
Define, cache, inspect and stream data sets for language models.

Batch s is a pure function of (definition, data, seed, batch size, s): the same on 1 thread or 64, on 1 host or 16, \
before or after a crash, from the cache or computed on the fly.";

const EXAMPLES: &str = "\
Examples:
  seqio init first-steps                       a small project that runs as it stands
  seqio list                                   the tasks of ./seqio.toml
  seqio explain docs                           the path from source to batch
  seqio inspect docs -n 3                      tokens beside their text; needs no cache
  seqio cache build docs                       tokenize once, verified and shuffled
  seqio stats docs --lengths 2048              lengths, unknown tokens, how full packed rows get
  seqio query 'SELECT file, max(tokens) FROM documents GROUP BY file'
  seqio batch docs --batch-size 8 --lengths 2048 --step 1000
                                               what a model sees then, and where it came from
  seqio stream docs --batch-size 8 --lengths 2048 --format arrow | python train.py
  seqio train run.toml                         or train here; `train --example` prints a run file

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

`seqio reference` prints everything that can stand in one.

Exit codes:
  0    done; also if whoever read the output went away
  1    it could not be done: data or files are missing, unreadable or not as expected
  2    a command line that makes no sense
  3    mistakes in a task file or run file, or no such file
  4    a cache or a checkpoint is damaged
  130  stopped by Ctrl-C or SIGTERM; what was done is kept

Environment:
  SEQIO_CACHE_DIR  where caches are kept, unless --cache-dir says otherwise
  NO_COLOR         if it is set, nothing is coloured, unless --color says otherwise
  CLICOLOR_FORCE   if it is 1, also what goes into a pipe is coloured";

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
    /// When to colour: `always`, `never`, or `auto`: on a terminal, unless NO_COLOR is set
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
    /// Write a small project that runs as it stands, or a task file for your own files
    Init(InitArgs),
    /// List tasks and vocabularies, or the steps and kinds of sources that there are
    List(ListArgs),
    /// Print the path of a task from source to batch, with the columns after each step, before any data is read
    Explain(ExplainArgs),
    /// Show examples: tokens beside their text, at any stage of the path; needs no cache
    Inspect(InspectArgs),
    /// Examples, tokens, lengths, unknown tokens, and how full packed rows will be
    Stats(StatsArgs),
    /// Build, finish, list, explain, verify, convert or remove caches
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
    /// Ask a SQL query: of raw rows, examples, documents, tokens, statistics
    Query(QueryArgs),
    /// Measure caching or streaming on this machine
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Train a network on a task, as a run file says, or go on with that
    Train(TrainArgs),
    /// List what this machine has to train on: adapters, and the processor
    Adapters(AdaptersArgs),
    /// Print what a task file can say: every key, kind, type and step
    Reference(ReferenceArgs),
    /// Print the JSON Schema of task files, with which editors complete and check them
    Schema(SchemaArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Print a manual page, or write them all
    Man(ManArgs),
}

/// JSON instead of text.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Json {
    /// Print one JSON document instead of text; its keys stay as they are (docs/output.md)
    #[arg(long = "json", help_heading = "Output")]
    pub(crate) wanted: bool,
}

/// JSON instead of text, for commands that have something to say more than once.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct JsonLines {
    /// Print JSON instead of text, a line as each split or cache is done; its keys stay (docs/output.md)
    #[arg(long = "json", help_heading = "Output")]
    pub(crate) wanted: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    /// Commands that list or report have `--json`, and their keys are written down.
    #[test]
    fn every_listing_has_json_and_its_keys_are_documented() {
        const WITHOUT: [&str; 6] = ["init", "stream", "train", "schema", "completions", "man"];
        fn walk(command: &clap::Command, path: &str, document: &str) {
            for child in command.get_subcommands() {
                let path = format!("{path} {}", child.get_name()).trim().to_owned();
                if child.has_subcommands() {
                    walk(child, &path, document);
                } else if !WITHOUT.contains(&path.as_str()) {
                    let has_json = child.get_arguments().any(|argument| argument.get_long() == Some("json"));
                    assert!(has_json, "`seqio {path}` has no `--json`");
                    let row = format!("| `{path}`");
                    assert!(document.contains(&row), "docs/output.md has no row for `seqio {path} --json`");
                }
            }
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/output.md");
        walk(&Arguments::command(), "", &std::fs::read_to_string(path).unwrap());
    }

    #[test]
    fn the_command_lines_of_the_examples_parse() {
        for text in help_texts() {
            for line in text.lines().filter_map(|line| line.trim().strip_prefix("seqio ")) {
                let command = line.split("  ").next().unwrap_or_default();
                let words = words(command).into_iter().take_while(|word| !["|", ">", "2>"].contains(word));
                let parsed = Arguments::try_parse_from(std::iter::once("seqio").chain(words));
                assert!(parsed.is_ok(), "`seqio {line}`: {}", parsed.unwrap_err());
            }
        }
    }

    /// Words as a shell sees them.
    fn words(command: &str) -> Vec<&str> {
        let parts = command.split('\'').enumerate();
        parts
            .flat_map(|(place, part)| match place % 2 {
                0 => part.split_whitespace().collect::<Vec<_>>(),
                _ => vec![part],
            })
            .collect()
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
    fn documented_command_lines_parse() {
        for line in [
            "cache build docs pairs --cache-dir d --threads 2 --memory 2GiB --progress json --dry-run --split train --split validation --take-over",
            "cache build docs --worker 1/4 --split train --take-over",
            "cache finish docs pairs --split train --threads 2 --json",
            "stream docs --batch-size 8 --lengths targets=2048 --converter lm --pack best_fit --steps 3 --start 4 --seed 5 --epochs 6 --order blocks --host 0/2 --format arrow --out p --digest=rows --cache d",
            "stream docs --batch-size 8 --lengths targets=2048 --state s.json --digest",
            "stream --cache d --batch-size 8 --lengths targets=2048",
            "plan docs --batch-size 8 --lengths targets=2048",
            "batch docs --batch-size 8 --lengths targets=2048 --step 5",
            "find a.jsonl:3 --batch-size 8 --lengths targets=2048",
            "inspect docs --split validation -n 2 --stage model --lengths targets=8 --converter enc_dec --json",
            "bench cache docs",
            "bench infeed docs --batch-size 8 --lengths 8",
            "train run.toml --set train.steps=10 --set run.dir=a/b --dry-run --threads 2 --progress plain",
            "train --example",
        ] {
            let parsed = Arguments::try_parse_from(["seqio"].into_iter().chain(line.split_whitespace()));
            assert!(parsed.is_ok(), "`{line}`: {}", parsed.unwrap_err());
        }
    }
}

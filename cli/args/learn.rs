//! `seqio init | reference | schema | completions | man`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

use crate::args::Json;

/// `seqio init`.
#[derive(Debug, Args)]
#[command(after_help = "\
Without --from the project has a few documents of its own and runs at once. With --from nothing is copied: the task \
file names your files where they are. The columns are those of their first records; the one with the text is guessed, \
and said. A file that is there already is never written over.

Examples:
  seqio init first-steps
  seqio init . --from data/*.jsonl
  seqio init books --from shelf-0.parquet shelf-1.parquet --text body --task books")]
pub(crate) struct InitArgs {
    /// Folder of the project, `.` for this one; made if it is not there
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Write a task file for these files of yours
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) from: Vec<PathBuf>,
    /// The column with the text [default: guessed]
    #[arg(long, value_name = "COLUMN", requires = "from")]
    pub(crate) text: Option<String>,
    /// Name of the task
    #[arg(long, value_name = "NAME", default_value = "docs")]
    pub(crate) task: String,
}

/// `seqio reference`.
#[derive(Debug, Args)]
#[command(after_help = "\
The whole reference is Markdown, the file docs/reference.md.

Examples:
  seqio reference
  seqio reference tokenize                     one step
  seqio reference jsonl                        one key, wherever it stands
  seqio reference --json                       for programs")]
pub(crate) struct ReferenceArgs {
    /// A step, a kind or a key [default: everything]
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) json: Json,
}

/// `seqio schema`.
#[derive(Debug, Args)]
#[command(after_help = "\
An editor with TOML support (Even Better TOML for VS Code, taplo for others) completes keys, shows what they mean and \
marks mistakes, if the first line of the task file names the schema:
  #:schema seqio.schema.json

Examples:
  seqio schema > seqio.schema.json")]
pub(crate) struct SchemaArgs {}

/// `seqio completions`.
#[derive(Debug, Args)]
#[command(after_help = "\
Options and their values are completed, and for bash, fish and zsh also the names of tasks in the task file.

To install:
  bash        seqio completions bash > ~/.local/share/bash-completion/completions/seqio
  zsh         seqio completions zsh > ~/.zfunc/_seqio
              and in ~/.zshrc, before `compinit`: fpath+=~/.zfunc
  fish        seqio completions fish > ~/.config/fish/completions/seqio.fish
  powershell  seqio completions powershell >> $PROFILE
  elvish      seqio completions elvish >> ~/.config/elvish/rc.elv

To try, in bash alone:
  source <(seqio completions bash)")]
pub(crate) struct CompletionsArgs {
    /// The shell: `bash`, `elvish`, `fish`, `powershell` or `zsh`
    #[arg(value_enum, hide_possible_values = true)]
    pub(crate) shell: Shell,
}

/// `seqio man`.
#[derive(Debug, Args)]
#[command(after_help = "\
To install, for `man seqio` and `man seqio-cache-build`:
  seqio man --dir ~/.local/share/man/man1

Examples:
  seqio man stream | man -l -                  one page, without installing it
  seqio man --dir pages                        one page a command")]
pub(crate) struct ManArgs {
    /// The command, as `stream` or `cache build` [default: seqio itself]
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
    /// Write all pages into this folder; made if it is not there
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub(crate) dir: Option<PathBuf>,
}

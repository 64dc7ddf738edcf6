//! `seqio query`.

use std::path::PathBuf;

use clap::Args;

use crate::value::ByteSize;

/// `seqio query`.
#[derive(Debug, Args)]
#[command(after_help = "\
Tables (`seqio query --tables` lists them with their columns):
  raw         the rows of the source, with _file and _row
  examples    what the steps above the cache boundary make of them: features as lists of ids
  documents   a row an example: id, file, row, tokens
  tokens      a row a token: example, feature, position, id, piece
  statistics  what `seqio stats` knows of the cache

Only the tables that the query names are read, and of them only the columns. `examples`, `documents` and `tokens` are read \
from the cache if there is one, else computed from the source. Names of columns are as in the data, upper and lower case \
counting; \"quoted\" if they are no words.

Examples:
  seqio query --task docs 'SELECT file, count(*) FROM documents WHERE tokens > 8192 GROUP BY file'
  seqio query --task docs 'SELECT lang, count(*) AS n FROM raw GROUP BY lang' --csv > languages.csv
  seqio query --cache DIR 'SELECT id, piece, count(*) AS n FROM tokens GROUP BY 1, 2 ORDER BY n DESC'
                                               needs neither task file nor sources")]
pub(crate) struct QueryArgs {
    /// One SELECT; `-` reads it from standard input
    #[arg(value_name = "SQL", required_unless_present = "tables")]
    pub(crate) sql: Option<String>,
    /// Name of a task [default: the only one that there is]
    #[arg(long, value_name = "TASK")]
    pub(crate) task: Option<String>,
    /// Use this cache folder: needs neither the task file nor the sources
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
    /// Split, perhaps with a slice, as `train` or `train[:1%]`
    #[arg(long, value_name = "SPLIT", default_value = "train")]
    pub(crate) split: String,
    /// List the tables and their columns
    #[arg(long, conflicts_with = "sql")]
    pub(crate) tables: bool,
    /// At most N rows [default: 100 on a terminal, else all]
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// Print CSV
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
    /// Memory for sorting and joining, as `256MiB`; what does not fit goes to temporary files
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    pub(crate) memory: ByteSize,
    /// Print a JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

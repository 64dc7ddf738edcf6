//! Where raw examples come from: files, cut into ranges that depend on the data alone.

mod arrow_file;
mod arrow_layout;
mod arrow_source;
mod budget;
mod column;
mod columnar;
mod columns;
mod compression;
mod count;
mod crc32c;
mod csv;
mod csv_head;
mod csv_infer;
mod csv_records;
mod csv_source;
mod dialect;
mod infer;
mod interleave;
mod json_columns;
mod json_text;
mod jsonl;
mod line_source;
mod lines;
mod listing;
mod location;
mod members;
pub(crate) mod numbered;
mod parquet;
mod patterns;
mod program;
mod record;
mod reject;
mod saved_dataset;
mod seqio_cache;
mod spec;
mod table_spec;
#[cfg(test)]
mod testing;
mod text;
mod tfrecord;

use std::fmt::Debug;
use std::ops::Range;
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use serde::{Deserialize, Serialize};

use crate::example::{ExampleRow, Examples};
use crate::split::{Split, slice_windows};

use self::compression::Compression;

pub use self::budget::ReadBudget;
pub use self::column::{ColumnSpec, ColumnType, ScalarType};
#[cfg(feature = "sql")]
pub(crate) use self::columns::{column_type, convert};
pub use self::dialect::{Dialect, Header};
pub use self::interleave::Interleave;
pub(crate) use self::json_text::{is_json, json_texts};
#[cfg(feature = "sql")]
pub(crate) use self::jsonl::declared_schema;
pub use self::program::{ProgramError, ProgramSource, ProgramSources};
pub use self::reject::{Reject, RejectedContent};
pub use self::spec::{OnBadRow, SourceFormat, SourceSpec};
#[cfg(feature = "sql")]
pub(crate) use self::table_spec::TABLE;
pub use self::table_spec::TableSpec;

/// Text files are cut into ranges of this many decompressed bytes; a range owns the records that begin in it.
pub const RANGE_BYTES: u64 = 64 << 20;

/// One file of a split, as it was when the split was listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its name below the fixed prefix of the split's patterns, with `/` between folders: part of example ids.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Modification time, nanoseconds since 1970: with path and size the short cut for "unchanged".
    pub modified_ns: i128,
}

impl SourceFile {
    /// Whether its name says that it is compressed.
    pub fn is_compressed(&self) -> bool {
        Compression::of(&self.path) != Compression::Plain
    }
}

/// A stretch of one file that is read, encoded and committed by itself.
///
/// Text: `start..end` in decompressed bytes, multiples of [`RANGE_BYTES`]; the last range may end beyond its file.
/// Parquet: `start` is the index of a row group and `end` the next. Arrow: bytes of the file, as of text; a range owns
/// the record batches that begin in it, and only ranges that own one are there; TFRecord the same of decompressed bytes
/// and records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SourceRange {
    /// Index into the split's files.
    pub file: u32,
    /// First byte, or row group.
    pub start: u64,
    /// One past the last byte or row group.
    pub end: u64,
}

/// The part of a split that a slice is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SliceWindows {
    /// The ordinals that belong to it, by range; ranges outside it are left out.
    pub windows: Vec<(SourceRange, Range<u64>)>,
    /// How many ordinals each range of the split has, as [`DataSource::count_records`] counts them.
    pub counts: Vec<(SourceRange, u64)>,
}

/// How a file can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileRanges {
    /// Ranges that can be read on their own, in any order.
    Known(Vec<SourceRange>),
    /// One reader has to run through the whole file (compressed text, quoted CSV, TFRecord); it cuts ranges as it goes.
    Streamed,
}

/// What a chunk holds before it is parsed.
#[derive(Clone, Debug)]
pub enum RawRecords {
    /// Whole lines, of CSV whole records, with their line ends but perhaps for the last of the file; of TFRecord files
    /// whole frames.
    Lines(Vec<u8>),
    /// Rows of a columnar file.
    Columns(RecordBatch),
}

impl RawRecords {
    /// The bytes of its lines; none of a columnar file.
    pub(crate) fn text(&self) -> &[u8] {
        match self {
            Self::Lines(bytes) => bytes,
            Self::Columns(_) => &[],
        }
    }
}

/// A run of whole raw records (about 1 MiB) of one range: cheap to read, still to be parsed.
#[derive(Clone, Debug)]
pub struct RawChunk {
    /// The range it belongs to.
    pub range: SourceRange,
    /// Ordinal within the range of its first record.
    pub first_ordinal: u64,
    /// Number of raw records in it, bad and blank ones included; of CSV, whose records may span several, of lines.
    pub num_records: u64,
    /// Offset of its first record: bytes in the decompressed file, or rows in the row group.
    pub first_offset: u64,
    /// Its records.
    pub records: RawRecords,
    /// Whether the range ends with it. Every range read has such a chunk, an empty one if need be.
    pub last_of_range: bool,
    /// The file could not be read on after these records (truncated or corrupt compression); says how.
    pub damage: Option<String>,
}

impl RawChunk {
    /// The bytes of a bad record of this chunk as they stand in the file; `None` if the file is columnar.
    pub fn bytes_of(&self, bad: &BadRow) -> Option<&[u8]> {
        let RawRecords::Lines(bytes) = &self.records else { return None };
        let start = usize::try_from(bad.offset.checked_sub(self.first_offset)?).ok()?;
        bytes.get(start..start.checked_add(usize::try_from(bad.length).ok()?)?)
    }
}

/// A raw record that gives no example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRow {
    /// Ordinal within the range.
    pub ordinal: u64,
    /// Offset as in [`RawChunk::first_offset`].
    pub offset: u64,
    /// Bytes of the record without its line end, of a TFRecord file with its frame; 0 of a columnar file, and where a
    /// stream breaks off.
    pub length: u64,
    /// What is wrong with it.
    pub reason: String,
}

/// The examples of a chunk, and the records that gave none.
#[derive(Clone, Debug)]
pub struct ParsedChunk {
    /// Examples in the order of the records; `Origin::row` is the ordinal within the range.
    pub examples: Examples,
    /// Bad records in order; blank lines of JSONL are neither examples nor bad.
    pub bad_rows: Vec<BadRow>,
}

impl ParsedChunk {
    /// What of it belongs to a slice: the examples and bad records with these ordinals of the range.
    pub fn within(mut self, ordinals: &Range<u64>) -> Self {
        self.bad_rows.retain(|bad| ordinals.contains(&bad.ordinal));
        // Records of a chunk come in order.
        let ordinal = |row: &ExampleRow| row.origins.first().map_or(0, |origin| origin.row);
        let examples = &mut self.examples;
        let from = examples.rows.partition_point(|row| ordinal(row) < ordinals.start);
        let to = examples.rows.partition_point(|row| ordinal(row) < ordinals.end);
        if from > 0 || to < examples.len() {
            examples.columns = examples.columns.slice(from, to - from);
            examples.rows = examples.rows[from..to].to_vec();
        }
        self
    }
}

/// Chunks of a file in order.
pub type RawChunks = Box<dyn Iterator<Item = Result<RawChunk, SourceError>> + Send>;

/// A set of splits of raw examples.
///
/// Laws: ranges depend on the files alone; the chunks of a range are the same whichever way they were reached; and
/// `parse` depends on nothing but its chunk.
pub trait DataSource: Debug + Send + Sync {
    /// The name that enters example ids: the task's name unless the definition gives one.
    fn name(&self) -> &str;

    /// The columns of its examples.
    fn schema(&self) -> SchemaRef;

    /// Its splits, sorted by name.
    fn splits(&self) -> Vec<String>;

    /// Lists the files of a split (a plain name, without a slice), sorted by name.
    fn files(&self, split: &str) -> Result<Vec<SourceFile>, SourceError>;

    /// How `file`, number `index` of its split, can be read.
    fn ranges(&self, file: &SourceFile, index: u32) -> Result<FileRanges, SourceError>;

    /// Reads one range, or with `None` a streamed file from front to back. Chunks of ranges for which `skip` answers
    /// true may be left out whole.
    fn read(
        &self,
        file: &SourceFile,
        index: u32,
        range: Option<SourceRange>,
        skip: Box<dyn Fn(u64) -> bool + Send>,
    ) -> Result<RawChunks, SourceError>;

    /// Turns the raw records of a chunk into examples.
    fn parse(&self, file: &SourceFile, chunk: &RawChunk) -> Result<ParsedChunk, SourceError>;

    /// Number of raw records (of CSV: lines) of each range of `file`, in order.
    fn count_records(&self, file: &SourceFile, index: u32) -> Result<Vec<(SourceRange, u64)>, SourceError>;

    /// Says what reading may take from now on; it never changes what is read.
    fn set_budget(&self, _budget: &ReadBudget) {}

    /// Whether `file` is no file but what a query, files that take turns, or a function of a program's own gives: what it
    /// holds follows from the definition, its name and the other files of its split.
    fn is_result(&self, _file: &SourceFile) -> bool {
        false
    }

    /// The columns, or other parts, whose values name its examples ([`ExampleRow::key`]); none if these are known by
    /// their origins alone.
    fn key(&self) -> &[String] {
        &[]
    }

    /// What of each range belongs to a slice of a split that has these files.
    fn slice(&self, split: &Split, files: &[SourceFile]) -> Result<SliceWindows, SourceError> {
        let mut counts = Vec::new();
        for (index, file) in (0u32..).zip(files) {
            counts.extend(self.count_records(file, index)?);
        }
        Ok(SliceWindows { windows: slice_windows(split, &counts), counts })
    }

    /// The 1-based line (or row) of a file at which the record of a range with this ordinal stands, for messages.
    fn line_of(&self, file: &SourceFile, range: SourceRange, ordinal: u64) -> Result<u64, SourceError>;
}

/// Why a source cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// A pattern matches nothing.
    #[error("no file matches `{pattern}`")]
    NoFiles {
        /// The pattern as resolved.
        pattern: String,
    },
    /// There is no such split.
    #[error("there is no split `{split}`; there are {}", crate::text::quoted(found))]
    NoSplit {
        /// The name asked for.
        split: String,
        /// The names there are.
        found: Vec<String>,
    },
    /// A program has no such source of its own.
    #[error("{problem}")]
    Program {
        /// The name asked for.
        name: String,
        /// What there is and what to do.
        problem: String,
    },
    /// A pattern names a place that cannot be read from.
    #[error("`{pattern}`: {problem}")]
    Location {
        /// The pattern.
        pattern: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// The system could not read a file.
    #[error("cannot read {}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        error: std::io::Error,
    },
    /// A file is not of the kind that the definition says.
    #[error("{}: {problem}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The definition of the source does not fit its files.
    #[error("{problem}")]
    Definition {
        /// What is wrong and what to do.
        problem: String,
    },
    /// A part of the definition of the source does not fit its files.
    #[error("{problem}")]
    Part {
        /// The keys that lead to it, below `source`.
        keys: Vec<String>,
        /// What is wrong and what to do.
        problem: String,
    },
}

impl SourceError {
    /// An error of the system at `path`.
    pub fn io(path: &Path, error: std::io::Error) -> Self {
        Self::Io { path: path.to_owned(), error }
    }
    /// The same error once more.
    #[cfg(feature = "sql")]
    pub(crate) fn again(&self) -> Self {
        match self {
            Self::NoFiles { pattern } => Self::NoFiles { pattern: pattern.clone() },
            Self::Program { name, problem } => Self::Program { name: name.clone(), problem: problem.clone() },
            Self::NoSplit { split, found } => Self::NoSplit { split: split.clone(), found: found.clone() },
            Self::Io { path, error } => {
                Self::Io { path: path.clone(), error: std::io::Error::new(error.kind(), error.to_string()) }
            }
            Self::Malformed { path, problem } => {
                Self::Malformed { path: path.clone(), problem: problem.clone() }
            }
            Self::Definition { problem } => Self::Definition { problem: problem.clone() },
            Self::Location { pattern, problem } => {
                Self::Location { pattern: pattern.clone(), problem: problem.clone() }
            }
            Self::Part { keys, problem } => Self::Part { keys: keys.clone(), problem: problem.clone() },
        }
    }

    /// A file that is not of the kind that the definition says.
    pub(crate) fn malformed(path: &Path, problem: impl ToString) -> Self {
        Self::Malformed { path: path.to_owned(), problem: problem.to_string() }
    }
}

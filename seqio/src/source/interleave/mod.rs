//! Files that are read in turns, in the order in which SeqIO reads them without shuffling.
//!
//! ```text
//! files of `train`   a.txt, b.txt, …, train.interleaved
//! rows               of train.interleaved: the records of all files, sixteen from each in turn
//! ```
//!
//! The files are listed so that a change of one is seen, and have no ranges; the last file of a split is what they make
//! together, like the result of a query. It is read by one reader; parsing is parallel. An example has the id that it has
//! when its file is read by itself, so that the order of reading moves no id, and is known by the key (file, line).

mod rows;
#[cfg(test)]
mod tests;
mod turns;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::example::{ExampleRow, Examples, Origin};
use crate::key::{KeyValue, key_text};
use crate::source::numbered::{NumberedChunks, ranges_of};
use crate::source::{
    BadRow, DataSource, FileRanges, ParsedChunk, RawChunk, RawChunks, RawRecords, SourceError, SourceFile,
    SourceRange,
};

use self::rows::{ReadRows, Records};

#[cfg(test)]
pub(super) use self::turns::tests::shard;

/// What the files of a split together are called: `train.interleaved`.
const ENDING: &str = ".interleaved";

/// How many files take turns, and how long a turn is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(description = "Files take turns, in the order in which SeqIO reads them without shuffling.")]
pub struct Interleave {
    /// Files that are open at a time, at most 1,024; a file that ends makes room for the next.
    #[serde(default = "sixteen")]
    #[schemars(example = 4, extend("default" = 16))]
    pub cycle_length: u32,
    /// Records that a file gives before it is the next one's turn.
    #[serde(default = "sixteen")]
    #[schemars(example = 1, extend("default" = 16))]
    pub block_length: u32,
}

fn sixteen() -> u32 {
    16
}

impl Interleave {
    /// Why it makes no sense, if it makes none.
    pub(super) fn problem(self) -> Option<String> {
        match (self.cycle_length, self.block_length) {
            (0, _) => Some(
                "`cycle_length` is the number of files that are open at a time, and must be 1 or more"
                    .to_owned(),
            ),
            (_, 0) => {
                Some("`block_length` is the number of records of a turn, and must be 1 or more".to_owned())
            }
            (1025.., _) => Some(format!(
                "`cycle_length` is {}; at most 1,024 files are open at a time",
                self.cycle_length
            )),
            _ => None,
        }
    }
}

impl Default for Interleave {
    fn default() -> Self {
        Self { cycle_length: sixteen(), block_length: sixteen() }
    }
}

/// A record in a chunk of bytes: one that gives an example, or is bad.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecordAt {
    /// Its ordinal in the range.
    pub(super) ordinal: u64,
    /// Its bytes, with line end or frame.
    pub(super) bytes: Range<usize>,
}

/// A source whose chunks are bytes that can be cut between records.
///
/// Law: a chunk made of some consecutive records of another, with their place, parses to what they parse to there.
pub(super) trait CutRecords: DataSource {
    /// What a record's number in its file is called in keys.
    fn unit(&self) -> &'static str {
        "line"
    }

    /// The records of a chunk in order; not that at which a damaged file breaks off.
    fn records(&self, file: &SourceFile, chunk: &RawChunk) -> Result<Vec<RecordAt>, SourceError>;

    /// Sees that a split, all of which could be read, has as many records as it should have.
    fn check_count(&self, _split: &str, _records: u64) -> Result<(), SourceError> {
        Ok(())
    }
}

type Listed = BTreeMap<(String, i128), Arc<[SourceFile]>>;

/// A source whose files take turns.
#[derive(Debug)]
pub(super) struct InterleavedSource {
    files: Arc<dyn CutRecords>,
    order: Interleave,
    key: Vec<String>,
    /// The files behind each result that was listed, by its name and state: every chunk needs them.
    listed: Mutex<Listed>,
}

impl InterleavedSource {
    pub(super) fn new(files: Arc<dyn CutRecords>, order: Interleave) -> Self {
        let key = vec!["file".to_owned(), files.unit().to_owned()];
        Self { files, order, key, listed: Mutex::default() }
    }

    /// The split that `file` holds together.
    fn split_of<'a>(&self, file: &'a SourceFile) -> Option<&'a str> {
        let split = file.name.strip_suffix(ENDING).filter(|_| file.path.as_os_str() == file.name.as_str())?;
        self.files.splits().iter().any(|name| name == split).then_some(split)
    }

    /// The files that `result`, of `split`, is made of.
    fn files_of(&self, split: &str, result: &SourceFile) -> Result<Arc<[SourceFile]>, SourceError> {
        let key = (result.name.clone(), result.modified_ns);
        if let Some(files) = self.listed.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(Arc::clone(files));
        }
        let files: Arc<[SourceFile]> = self.files.files(split)?.into();
        self.listed.lock().unwrap_or_else(PoisonError::into_inner).insert(key, Arc::clone(&files));
        Ok(files)
    }

    fn records(&self, split: &str, result: &SourceFile) -> Result<Records, SourceError> {
        let files = self.files_of(split, result)?;
        Ok(Records::new(Arc::clone(&self.files), split.to_owned(), &files, self.order))
    }

    /// The records of a run of rows that follow each other in one file, parsed as those of a chunk of it.
    fn parse_run(
        &self,
        rows: &ReadRows<'_>,
        run: Range<usize>,
        files: &[SourceFile],
        chunk: &RawChunk,
        out: &mut Parsed,
    ) -> Result<(), SourceError> {
        let first = run.start;
        let Some(file) = files.get(rows.file(first)) else { return Ok(()) };
        let ordinals: Vec<u64> = run.clone().map(|row| rows.ordinal(row)).collect();
        let start = rows.range(first);
        let index = u32::try_from(rows.file(first)).unwrap_or(u32::MAX);
        let damage = rows.problem(first).map(str::to_owned);
        let part = RawChunk {
            range: SourceRange { file: index, start, end: start.saturating_add(1) },
            first_ordinal: rows.ordinal(first),
            num_records: run.len() as u64,
            first_offset: rows.offset(first),
            records: RawRecords::Lines(rows.bytes(run)),
            last_of_range: false,
            damage,
        };
        let ParsedChunk { examples, bad_rows } = self.files.parse(file, &part)?;
        let place = |ordinal: u64| first + ordinals.partition_point(|known| *known < ordinal);
        let at = |row: usize| chunk.first_ordinal + row as u64;
        for row in examples.rows {
            let row_at = place(row.origins.first().map_or(0, |origin| origin.row));
            let ordinal = at(row_at);
            let line = i64::try_from(rows.line(row_at)).unwrap_or(i64::MAX);
            let values = [KeyValue::Text(file.name.clone()), KeyValue::Number(line)];
            let offset = chunk.range.start + ordinal;
            let origin = Origin { file: chunk.range.file, row: ordinal, offset, length: 0 };
            let key = Some(key_text(&self.key, &values).into());
            out.rows.push(ExampleRow { id: row.id, origins: vec![origin], key });
        }
        if examples.columns.num_rows() > 0 {
            out.columns.push(examples.columns);
        }
        for bad in bad_rows {
            let row = place(bad.ordinal);
            let ordinal = at(row);
            let (name, unit, line) = (&file.name, self.files.unit(), rows.line(row));
            out.bad_rows.push(BadRow {
                ordinal,
                offset: chunk.range.start + ordinal,
                length: bad.length,
                reason: format!("`{name}`, {unit} {line}: {}", bad.reason),
            });
        }
        Ok(())
    }
}

/// The bytes of a row of a chunk; `None` if it is a chunk of columns.
pub(super) fn record_of(batch: &RecordBatch, row: usize) -> Option<&[u8]> {
    Some(ReadRows::new(batch)?.record(row))
}

/// What a chunk came to so far.
#[derive(Default)]
struct Parsed {
    columns: Vec<RecordBatch>,
    rows: Vec<ExampleRow>,
    bad_rows: Vec<BadRow>,
}

impl DataSource for InterleavedSource {
    fn name(&self) -> &str {
        self.files.name()
    }

    fn schema(&self) -> SchemaRef {
        self.files.schema()
    }

    fn splits(&self) -> Vec<String> {
        self.files.splits()
    }

    fn files(&self, split: &str) -> Result<Vec<SourceFile>, SourceError> {
        let mut files = self.files.files(split)?;
        let name = format!("{split}{ENDING}");
        if let Some(file) = files.iter().find(|file| file.name == name) {
            let problem = "has the name of what the files of the split make together; rename it, or leave out `interleave`";
            return Err(SourceError::malformed(&file.path, problem));
        }
        let mut hasher = blake3::Hasher::new();
        for file in &files {
            hasher.update(file.name.as_bytes());
            hasher.update(&[0]);
            hasher.update(&file.bytes.to_le_bytes());
            hasher.update(&file.modified_ns.to_le_bytes());
        }
        let mut state = [0; 8];
        state.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
        // It is another file when one of the others is.
        let modified_ns = i128::from(u64::from_le_bytes(state) >> 1);
        files.push(SourceFile { path: PathBuf::from(&name), name, bytes: 0, modified_ns });
        Ok(files)
    }

    fn ranges(&self, file: &SourceFile, index: u32) -> Result<FileRanges, SourceError> {
        if self.is_result(file) {
            return Ok(FileRanges::Streamed);
        }
        // Whether it can be read is better known now.
        self.files.ranges(file, index)?;
        Ok(FileRanges::Known(Vec::new()))
    }

    fn read(
        &self,
        file: &SourceFile,
        index: u32,
        range: Option<SourceRange>,
        skip: Box<dyn Fn(u64) -> bool + Send>,
    ) -> Result<RawChunks, SourceError> {
        let Some(split) = self.split_of(file) else { return Ok(Box::new(std::iter::empty())) };
        let only = range.map(|range| range.start);
        Ok(Box::new(NumberedChunks::new(self.records(split, file)?, index, only, skip)))
    }

    fn parse(&self, file: &SourceFile, chunk: &RawChunk) -> Result<ParsedChunk, SourceError> {
        let Some(split) = self.split_of(file) else {
            return Err(SourceError::malformed(&file.path, "has no records of its own"));
        };
        let files = self.files_of(split, file)?;
        let RawRecords::Columns(batch) = &chunk.records else {
            return Err(SourceError::malformed(&file.path, "a chunk of it has no rows"));
        };
        let rows = ReadRows::new(batch)
            .ok_or_else(|| SourceError::malformed(&file.path, "a chunk of it has other columns"))?;
        let mut parsed = Parsed::default();
        let mut start = 0;
        while start < batch.num_rows() {
            let end =
                (start + 1..batch.num_rows()).find(|&row| !rows.follows(row)).unwrap_or(batch.num_rows());
            self.parse_run(&rows, start..end, &files, chunk, &mut parsed)?;
            start = end;
        }
        let columns = concat_batches(&self.schema(), &parsed.columns)
            .map_err(|error| SourceError::malformed(&file.path, error))?;
        Ok(ParsedChunk { examples: Examples::new(columns, parsed.rows), bad_rows: parsed.bad_rows })
    }

    fn count_records(&self, file: &SourceFile, index: u32) -> Result<Vec<(SourceRange, u64)>, SourceError> {
        let Some(split) = self.split_of(file) else { return Ok(Vec::new()) };
        Ok(ranges_of(index, self.records(split, file)?.count()?))
    }

    fn line_of(&self, _file: &SourceFile, range: SourceRange, ordinal: u64) -> Result<u64, SourceError> {
        Ok(range.start + ordinal + 1)
    }

    fn is_result(&self, file: &SourceFile) -> bool {
        self.split_of(file).is_some()
    }

    fn key(&self) -> &[String] {
        &self.key
    }
}

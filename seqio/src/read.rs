//! A split read from front to back without a cache: raw, or through the steps above the cache boundary.
//!
//! ```text
//! train[2:5] of a.jsonl (3 records), b.jsonl (9)   ->   a.jsonl:3, b.jsonl:1, b.jsonl:2
//! ```
//!
//! The examples are those of a cache kept in the order of the source. Memory is that of a chunk.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::dataset::OpenExamples;
use crate::example::Examples;
use crate::preprocess::PreprocessError;
use crate::source::{
    FileRanges, OnBadRow, RawChunk, RawChunks, SliceWindows, SourceError, SourceFile, SourceRange,
};
use crate::split::Split;
use crate::task::Task;
use crate::text::lines_in_words;
use crate::whole_split::{Seen, SplitChoices, WholeSplitError};

/// Why a split cannot be read on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadSplitError {
    /// The source cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A record gives no example, and the task says to stop there.
    #[error("{}, line {line}: {reason}", path.display())]
    BadRow {
        /// The file.
        path: PathBuf,
        /// The line, or row, counted from 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// A file ends before it should.
    #[error("{}: {damage}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        damage: String,
    },
    /// What steps that look at the whole split keep cannot be found out.
    #[error(transparent)]
    WholeSplit(#[from] WholeSplitError),
    /// A step failed on examples of a file.
    #[error("{}, {}: {error}", path.display(), lines_in_words(*line, *exact))]
    Step {
        /// The file.
        path: PathBuf,
        /// The line of the record at fault, or else of the first record of the chunk, counted from 1.
        line: u64,
        /// Whether it is the line of the record at fault.
        exact: bool,
        /// What the step said.
        #[source]
        error: Box<PreprocessError>,
    },
}

/// Some consecutive examples of a split.
#[derive(Clone, Debug)]
pub struct ReadChunk {
    /// The range that they are from; `Origin::row` counts in it.
    pub range: SourceRange,
    /// Records of the file before the range.
    pub first_row: u64,
    /// The examples.
    pub examples: Examples,
}

/// The chunks of a split, in the order of the source.
pub struct SplitReader {
    task: Arc<Task>,
    files: Vec<SourceFile>,
    work: VecDeque<Work>,
    /// What belongs to a slice, by file and start of the range; ranges outside it are not there.
    slice: Option<Arc<BTreeMap<(u32, u64), SliceRange>>>,
    place: ReadPlace,
    chunks: Option<(u32, RawChunks)>,
    stage: ReadStage,
    bad_rows: u64,
    examples_read: u64,
    dropped: BTreeMap<usize, u64>,
}

/// What of a range belongs to a slice.
#[derive(Debug)]
struct SliceRange {
    /// Records of the file before the range.
    first_row: u64,
    ordinals: Range<u64>,
}

/// What is made of the examples.
#[derive(Debug)]
enum ReadStage {
    /// Nothing.
    Raw,
    /// The steps above the boundary are run, with these choices.
    Chosen(SplitChoices),
    /// They are run, and the choices are made on the way.
    Seen(Vec<Seen>),
}

/// What is still to be read.
#[derive(Debug)]
struct Work {
    file: u32,
    /// `None` for a file that only one reader can run through.
    range: Option<SourceRange>,
}

/// How far a file has been read.
#[derive(Debug, Default)]
struct ReadPlace {
    file: u32,
    start: u64,
    /// Records of the file before the range.
    first_row: u64,
    /// Records of the range so far.
    records: u64,
}

impl ReadPlace {
    /// Goes on by a chunk.
    fn enter(&mut self, chunk: &RawChunk) {
        let range = chunk.range;
        if range.file != self.file {
            *self = Self { file: range.file, start: range.start, ..Self::default() };
        } else if range.start != self.start {
            self.first_row += self.records;
            (self.start, self.records) = (range.start, 0);
        }
        self.records += chunk.num_records;
    }
}

impl fmt::Debug for SplitReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SplitReader({}, {} files)", self.task.name(), self.files.len())
    }
}

/// The ranges of a slice, by file and start.
fn slice_ranges(slice: SliceWindows) -> BTreeMap<(u32, u64), SliceRange> {
    let mut first_rows = BTreeMap::new();
    let mut counts = slice.counts;
    counts.sort_by_key(|(range, _)| (range.file, range.start));
    let mut before = (0, 0);
    for (range, count) in counts {
        if range.file != before.0 {
            before = (range.file, 0);
        }
        first_rows.insert((range.file, range.start), before.1);
        before.1 += count;
    }
    let of_slice = |(range, ordinals): (SourceRange, Range<u64>)| {
        let key = (range.file, range.start);
        (key, SliceRange { first_row: first_rows.get(&key).copied().unwrap_or(0), ordinals })
    };
    slice.windows.into_iter().map(of_slice).collect()
}

impl SplitReader {
    /// Lists the files of a split. A slice counts the records of all of them.
    pub fn new(task: Arc<Task>, split: &Split) -> Result<Self, ReadSplitError> {
        let source = Arc::clone(task.source());
        let files = source.files(split.name())?;
        let mut work = VecDeque::new();
        for (index, file) in (0u32..).zip(&files) {
            match source.ranges(file, index)? {
                FileRanges::Known(ranges) => {
                    work.extend(ranges.into_iter().map(|range| Work { file: index, range: Some(range) }));
                }
                FileRanges::Streamed => work.push_back(Work { file: index, range: None }),
            }
        }
        let slice = match split.is_slice() {
            false => None,
            true => Some(Arc::new(slice_ranges(source.slice(split, &files)?))),
        };
        if let Some(slice) = &slice {
            work.retain(|work| match work.range {
                Some(range) => slice.contains_key(&(range.file, range.start)),
                None => slice.range((work.file, 0)..=(work.file, u64::MAX)).next().is_some(),
            });
        }
        let stage = ReadStage::Chosen(SplitChoices::none());
        Ok(Self {
            task,
            files,
            work,
            slice,
            place: ReadPlace::default(),
            chunks: None,
            stage,
            bad_rows: 0,
            examples_read: 0,
            dropped: BTreeMap::new(),
        })
    }

    /// Gives the examples as the source has them, before any step.
    pub fn raw(mut self) -> Self {
        self.stage = ReadStage::Raw;
        self
    }

    /// Runs steps that look at the whole split with these choices. A task that has such steps needs this or
    /// [`SplitReader::choosing`].
    pub fn chosen(mut self, choices: SplitChoices) -> Self {
        self.stage = ReadStage::Chosen(choices);
        self
    }

    /// Makes the choices of steps that look at the whole split while it is read: quick to begin, and exact for as long
    /// as [`SplitReader::is_exact`].
    pub fn choosing(mut self) -> Self {
        self.stage = ReadStage::Seen(Vec::new());
        self
    }

    /// Whether no example was given out that a step would have dropped. Not so if there were too many different ones
    /// to remember: over a million for a step.
    pub fn is_exact(&self) -> bool {
        match &self.stage {
            ReadStage::Seen(seen) => !seen.iter().any(Seen::forgot),
            ReadStage::Raw | ReadStage::Chosen(_) => true,
        }
    }

    /// The files of the split, which origins count.
    pub fn files(&self) -> &[SourceFile] {
        &self.files
    }

    /// Bad records passed over so far.
    pub fn bad_rows(&self) -> u64 {
        self.bad_rows
    }

    /// Examples of the source that the steps have been given so far.
    pub fn examples_read(&self) -> u64 {
        self.examples_read
    }

    /// Examples that steps have dropped so far, by the step's number, from 1.
    pub fn dropped(&self) -> &BTreeMap<usize, u64> {
        &self.dropped
    }

    /// The 1-based line, or row, of a file at which the record with this ordinal of a range stands.
    pub fn line_of(&self, range: SourceRange, ordinal: u64) -> Result<u64, ReadSplitError> {
        Ok(self.task.source().line_of(self.file(range.file), range, ordinal)?)
    }

    fn file(&self, index: u32) -> &SourceFile {
        &self.files[index as usize]
    }

    fn next_chunk(&mut self) -> Result<Option<ReadChunk>, ReadSplitError> {
        loop {
            let Some((file, chunks)) = &mut self.chunks else {
                let Some(work) = self.work.pop_front() else {
                    return Ok(None);
                };
                self.chunks = Some((work.file, self.open(&work)?));
                continue;
            };
            let file = *file;
            match chunks.next() {
                None => self.chunks = None,
                Some(chunk) => {
                    let chunk = chunk?;
                    self.place.enter(&chunk);
                    if let Some(read) = self.read(file, &chunk)? {
                        return Ok(Some(read));
                    }
                }
            }
        }
    }

    fn open(&self, work: &Work) -> Result<RawChunks, ReadSplitError> {
        let slice = self.slice.clone();
        let file = work.file;
        let skip = move |start: u64| slice.as_ref().is_some_and(|slice| !slice.contains_key(&(file, start)));
        let source = self.task.source();
        Ok(source.read(self.file(file), file, work.range, Box::new(skip))?)
    }

    /// The examples of a chunk; `None` if it has none that are wanted.
    fn read(&mut self, file: u32, chunk: &RawChunk) -> Result<Option<ReadChunk>, ReadSplitError> {
        let range = chunk.range;
        let wanted = match &self.slice {
            None => 0..u64::MAX,
            Some(slice) => match slice.get(&(range.file, range.start)) {
                Some(of_slice) => of_slice.ordinals.clone(),
                None => return Ok(None),
            },
        };
        let fails = self.task.on_bad_row() == OnBadRow::Fail;
        let parsed = self.task.source().parse(self.file(file), chunk)?.within(&wanted);
        self.bad_rows += parsed.bad_rows.len() as u64;
        if let Some(bad) = parsed.bad_rows.first().filter(|_| fails) {
            let line = self.line_of(range, bad.ordinal)?;
            return Err(ReadSplitError::BadRow { path: self.path(file), line, reason: bad.reason.clone() });
        }
        if let Some(damage) = chunk.damage.as_ref().filter(|_| fails) {
            return Err(ReadSplitError::Damaged { path: self.path(file), damage: damage.clone() });
        }
        let examples = parsed.examples;
        if examples.is_empty() {
            return Ok(None);
        }
        self.examples_read += examples.len() as u64;
        let examples = match &mut self.stage {
            ReadStage::Raw => Ok(examples),
            ReadStage::Chosen(choices) => self.task.preprocess_chosen(range, examples, choices),
            ReadStage::Seen(seen) => self.task.preprocess_seen(examples, seen),
        };
        let examples = examples.map_err(|error| self.step_failed(range, chunk.first_ordinal, error))?;
        for (&step, &count) in &examples.dropped {
            *self.dropped.entry(step).or_default() += count;
        }
        Ok((!examples.is_empty()).then_some(ReadChunk { range, first_row: self.first_row(range), examples }))
    }

    /// Records of the file before a range. Ranges of a slice do not follow each other.
    fn first_row(&self, range: SourceRange) -> u64 {
        match &self.slice {
            None => self.place.first_row,
            Some(slice) => slice.get(&(range.file, range.start)).map_or(0, |of_slice| of_slice.first_row),
        }
    }

    /// The error of a step on examples of a range, the first of which has this ordinal.
    pub(crate) fn step_failed(
        &self,
        range: SourceRange,
        ordinal: u64,
        error: PreprocessError,
    ) -> ReadSplitError {
        // The step's own words matter more than a line that cannot be told.
        let exact = error.origins().first().map(|origin| origin.row);
        let line = self.line_of(range, exact.unwrap_or(ordinal)).unwrap_or(0);
        let (path, exact) = (self.path(range.file), exact.is_some());
        ReadSplitError::Step { path, line, exact, error: Box::new(error) }
    }

    fn path(&self, file: u32) -> PathBuf {
        self.file(file).path.clone()
    }
}

impl Iterator for SplitReader {
    type Item = Result<ReadChunk, ReadSplitError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_chunk().transpose()
    }
}

impl Task {
    /// Opens a split of the task's source for reading without a cache, as an
    /// [`UncachedDataset`](crate::UncachedDataset) asks for it: every call begins an epoch. `choices` are those of the
    /// steps that look at the whole split, if there are any ([`SplitChoices::find`]).
    ///
    /// `bad_rows` becomes the number of bad records that an epoch has passed over so far, at the most of all epochs.
    pub fn open_examples(
        self: &Arc<Self>,
        split: &Split,
        choices: SplitChoices,
        bad_rows: Arc<AtomicU64>,
    ) -> OpenExamples {
        let (task, split) = (Arc::clone(self), split.clone());
        Arc::new(move || {
            let mut reader = SplitReader::new(Arc::clone(&task), &split)?.chosen(choices.clone());
            let bad_rows = Arc::clone(&bad_rows);
            Ok(Box::new(std::iter::from_fn(move || {
                let chunk = reader.next();
                bad_rows.fetch_max(reader.bad_rows(), Ordering::Relaxed);
                chunk.map(|chunk| Ok(chunk?.examples))
            })))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;

    /// Two files of 3 and 2 lines, one of them bad.
    fn task(on_bad_row: &str) -> (tempfile::TempDir, Arc<Task>) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.jsonl"), "{\"text\":\"a\"}\n\n{\"text\":\"c\"}\n").unwrap();
        std::fs::write(folder.path().join("b.jsonl"), "{\"text\":1}\n{\"text\":\"e\"}\n").unwrap();
        let text = format!(
            "[vocabulary.bytes]\nbyte = true\n[task.docs]\nsource = {{ jsonl = {{ train = [\"a.jsonl\", \
             \"b.jsonl\"] }}, columns = {{ text = \"string\" }}, on_bad_row = \"{on_bad_row}\" }}\n\
             features = {{ targets = {{ vocabulary = \"bytes\" }} }}\n\
             steps = [{{ op = \"rekey\", to_from = {{ targets = \"text\" }} }}, {{ op = \"tokenize\" }}]\n"
        );
        let registry = Registry::from_text(folder.path().join("seqio.toml"), text).unwrap();
        let task = registry.task("docs").unwrap();
        (folder, task)
    }

    #[test]
    fn records_before_a_range_are_counted_in_slices_too() {
        use arrow::array::{ArrayRef, RecordBatch, StringArray};
        use parquet::arrow::ArrowWriter;

        let folder = tempfile::tempdir().unwrap();
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c"]));
        let rows = RecordBatch::try_from_iter([("text", texts)]).unwrap();
        for name in ["a.parquet", "b.parquet"] {
            let file = std::fs::File::create(folder.path().join(name)).unwrap();
            let mut writer = ArrowWriter::try_new(file, rows.schema(), None).unwrap();
            for _ in 0..3 {
                writer.write(&rows).unwrap();
                writer.flush().unwrap();
            }
            writer.close().unwrap();
        }
        let text = "[vocabulary.bytes]\nbyte = true\n[task.docs]\nsource = { parquet = { train = \"*.parquet\" } }\n\
                    features = { text = { vocabulary = \"bytes\" } }\nsteps = [{ op = \"tokenize\" }]\n";
        let registry = Registry::from_text(folder.path().join("seqio.toml"), text).unwrap();
        let task = registry.task("docs").unwrap();
        let firsts = |split: &str| {
            let reader = SplitReader::new(Arc::clone(&task), &split.parse().unwrap()).unwrap();
            reader
                .map(|chunk| chunk.unwrap())
                .map(|chunk| (chunk.range.file, chunk.first_row))
                .collect::<Vec<_>>()
        };
        assert_eq!(firsts("train"), [(0, 0), (0, 3), (0, 6), (1, 0), (1, 3), (1, 6)]);
        assert_eq!(firsts("train[7:13]"), [(0, 6), (1, 0), (1, 3)]);
    }

    fn ordinals(task: &Arc<Task>, split: &str) -> Vec<(u32, u64)> {
        let reader = SplitReader::new(Arc::clone(task), &split.parse().unwrap()).unwrap();
        reader
            .flat_map(|chunk| {
                let chunk = chunk.unwrap();
                let file = chunk.range.file;
                chunk.examples.rows.into_iter().map(move |row| (file, row.origins[0].row))
            })
            .collect()
    }

    #[test]
    fn a_split_is_read_in_the_order_of_its_files_without_bad_and_blank_records() {
        let (_folder, task) = task("skip");
        assert_eq!(ordinals(&task, "train"), [(0, 0), (0, 2), (1, 1)]);
    }

    #[test]
    fn a_slice_counts_bad_and_blank_records() {
        let (_folder, task) = task("skip");
        assert_eq!(ordinals(&task, "train[1:4]"), [(0, 2)]);
        assert_eq!(ordinals(&task, "train[4:]"), [(1, 1)]);
        assert_eq!(ordinals(&task, "train[:1]"), [(0, 0)]);
    }

    #[test]
    fn a_bad_record_stops_with_its_file_and_line() {
        let (_folder, task) = task("fail");
        let mut reader = SplitReader::new(Arc::clone(&task), &"train".parse().unwrap()).unwrap();
        assert!(reader.next().unwrap().is_ok());
        let error = reader.next().unwrap().unwrap_err().to_string();
        assert!(error.contains("b.jsonl, line 1: "), "{error}");
    }

    #[test]
    fn raw_examples_have_the_columns_of_the_source() {
        let (_folder, task) = task("skip");
        let mut reader = SplitReader::new(task, &"train".parse().unwrap()).unwrap().raw();
        let chunk = reader.next().unwrap().unwrap();
        assert_eq!(chunk.examples.columns.schema().field(0).name(), "text");
    }
}

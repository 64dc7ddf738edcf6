//! A source and a task small enough that every path of a build is taken by a few lines of text.
//!
//! ```text
//! range_bytes 40, chunk_lines 2:  `ab\n` -> targets [97, 98], inputs [70097, 70098], text `ab`, half null, words [`ab`]
//! a line that begins with `!` is bad; files named `*.stream` are read by one reader only
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{
    ArrayRef, AsArray, Int32Builder, Int64Array, ListBuilder, RecordBatch, StringArray, StringBuilder,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use seqio::{
    BadRow, DataSource, EncodeCounts, ExampleId, ExampleRow, Examples, FileRanges, Fingerprint, OnBadRow,
    Origin, ParsedChunk, PreprocessError, RawChunk, RawChunks, RawRecords, SourceError, SourceFile,
    SourceRange, Split, SplitChoices, SplitKeys, WholeSplitStep,
};
use tempfile::TempDir;

use crate::build::{BuildConfig, BuildReport, Missing, build_splits};
use crate::error::CacheError;
use crate::input::BuildInput;
use crate::progress::{BuildProgress, NoProgress};
use crate::reader::CachedSplit;
use crate::rows::Geometry;
use crate::store::{CacheDir, Found};

/// Text files in a folder, cut into very small ranges.
#[derive(Debug)]
pub(crate) struct LineSource {
    folder: PathBuf,
    range_bytes: u64,
    chunk_lines: usize,
    chunks_read: Arc<AtomicU64>,
    chunks_parsed: Arc<AtomicU64>,
}

impl LineSource {
    fn chunks(&self, file: &SourceFile, index: u32) -> Result<Vec<RawChunk>, SourceError> {
        let text = std::fs::read(&file.path).map_err(|error| SourceError::io(&file.path, error))?;
        let streamed = file.name.ends_with(".stream");
        let mut chunks: Vec<RawChunk> = Vec::new();
        let mut offset = 0u64;
        let mut range = 0;
        let num_ranges = (text.len() as u64).div_ceil(self.range_bytes);
        let mut lines: Vec<(u64, &[u8])> = Vec::new();
        for line in text.split_inclusive(|&byte| byte == b'\n') {
            lines.push((offset, line));
            offset += line.len() as u64;
        }
        while range < num_ranges {
            let start = range * self.range_bytes;
            let end = start + self.range_bytes;
            let owned: Vec<_> = lines.iter().filter(|(offset, _)| (start..end).contains(offset)).collect();
            let range_of = SourceRange { file: index, start, end: if streamed { u64::MAX } else { end } };
            let mut ordinal = 0;
            let mut parts: Vec<&[&(u64, &[u8])]> = owned.chunks(self.chunk_lines).collect();
            if parts.is_empty() {
                parts.push(&[]);
            }
            for part in &parts {
                chunks.push(RawChunk {
                    range: range_of,
                    first_ordinal: ordinal,
                    num_records: part.len() as u64,
                    first_offset: part.first().map_or(start, |(offset, _)| *offset),
                    records: RawRecords::Lines(
                        part.iter().flat_map(|(_, line)| line.iter().copied()).collect(),
                    ),
                    last_of_range: false,
                    damage: None,
                });
                ordinal += part.len() as u64;
            }
            chunks.last_mut().unwrap().last_of_range = true;
            range += 1;
        }
        Ok(chunks)
    }
}

impl DataSource for LineSource {
    fn name(&self) -> &str {
        "tiny"
    }

    fn schema(&self) -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("text", DataType::Utf8, false)]))
    }

    fn splits(&self) -> Vec<String> {
        vec!["train".to_owned(), "validation".to_owned()]
    }

    fn files(&self, split: &str) -> Result<Vec<SourceFile>, SourceError> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&self.folder).map_err(|error| SourceError::io(&self.folder, error))? {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if name.starts_with(split) {
                let metadata = std::fs::metadata(&path).unwrap();
                let modified = metadata.modified().unwrap().duration_since(std::time::UNIX_EPOCH).unwrap();
                let modified_ns = modified.as_nanos() as i128;
                files.push(SourceFile { path, name, bytes: metadata.len(), modified_ns });
            }
        }
        files.sort_by(|a, b| a.name.cmp(&b.name));
        if files.is_empty() {
            return Err(SourceError::NoFiles { pattern: split.to_owned() });
        }
        Ok(files)
    }

    fn ranges(&self, file: &SourceFile, index: u32) -> Result<FileRanges, SourceError> {
        if file.name.ends_with(".stream") {
            return Ok(FileRanges::Streamed);
        }
        let count = file.bytes.div_ceil(self.range_bytes);
        let range = |range| SourceRange {
            file: index,
            start: range * self.range_bytes,
            end: (range + 1) * self.range_bytes,
        };
        Ok(FileRanges::Known((0..count).map(range).collect()))
    }

    fn read(
        &self,
        file: &SourceFile,
        index: u32,
        range: Option<SourceRange>,
        skip: Box<dyn Fn(u64) -> bool + Send>,
    ) -> Result<RawChunks, SourceError> {
        let count = Arc::clone(&self.chunks_read);
        let chunks = self.chunks(file, index)?.into_iter();
        let chunks = chunks.filter(move |chunk| range.is_none_or(|range| range == chunk.range));
        Ok(Box::new(chunks.filter(move |chunk| !skip(chunk.range.start)).map(move |chunk| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(chunk)
        })))
    }

    fn parse(&self, file: &SourceFile, chunk: &RawChunk) -> Result<ParsedChunk, SourceError> {
        self.chunks_parsed.fetch_add(1, Ordering::Relaxed);
        let RawRecords::Lines(text) = &chunk.records else { panic!("lines only") };
        let mut texts = Vec::new();
        let mut rows = Vec::new();
        let mut bad_rows = Vec::new();
        let mut offset = chunk.first_offset;
        for (place, line) in text.split_inclusive(|&byte| byte == b'\n').enumerate() {
            let ordinal = chunk.first_ordinal + place as u64;
            if line.starts_with(b"!") {
                bad_rows.push(BadRow {
                    ordinal,
                    offset,
                    length: line.trim_ascii_end().len() as u64,
                    reason: "it begins with `!`".to_owned(),
                });
            } else {
                texts.push(std::str::from_utf8(line).unwrap().trim_end().to_owned());
                let name = &file.name;
                rows.push(ExampleRow::new(
                    ExampleId::new("tiny", name, chunk.range.start, ordinal),
                    vec![Origin { file: chunk.range.file, row: ordinal, offset, length: line.len() as u64 }],
                ));
            }
            offset += line.len() as u64;
        }
        let columns = RecordBatch::try_new(self.schema(), vec![Arc::new(StringArray::from(texts))]).unwrap();
        Ok(ParsedChunk { examples: Examples::new(columns, rows), bad_rows })
    }

    fn count_records(&self, file: &SourceFile, index: u32) -> Result<Vec<(SourceRange, u64)>, SourceError> {
        let mut counts: BTreeMap<SourceRange, u64> = BTreeMap::new();
        for chunk in self.chunks(file, index)? {
            *counts.entry(chunk.range).or_default() += chunk.num_records;
        }
        Ok(counts.into_iter().collect())
    }

    fn line_of(&self, file: &SourceFile, range: SourceRange, ordinal: u64) -> Result<u64, SourceError> {
        let before = self.count_records(file, range.file)?;
        let before: u64 = before.iter().filter(|(other, _)| other.start < range.start).map(|(_, n)| n).sum();
        Ok(before + ordinal + 1)
    }
}

/// A task over [`LineSource`].
pub(crate) struct TinyTask {
    pub(crate) source: Arc<dyn DataSource>,
    /// Chunks read and chunks encoded so far.
    pub(crate) chunks_read: Arc<AtomicU64>,
    pub(crate) chunks_parsed: Arc<AtomicU64>,
    pub(crate) version: u32,
    pub(crate) on_bad_row: OnBadRow,
    /// Steps that keep the first of equal examples, in order: by what, and after which the tokens are made.
    pub(crate) deduplicate: Vec<By>,
}

/// What the examples of a [`TinyTask`] are compared by; `Key::None` of texts that begin with `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The text.
    Text,
    /// The first letter.
    Letter,
}

impl By {
    fn keys(self, examples: &Examples) -> Vec<Option<[u8; 32]>> {
        let texts = examples.columns.column(0).as_string::<i32>();
        let key = |text: &str| match self {
            _ if text.starts_with('n') => None,
            Self::Text => Some(*blake3::hash(text.as_bytes()).as_bytes()),
            Self::Letter => Some([text.bytes().next().unwrap_or(0); 32]),
        };
        texts.iter().flatten().map(key).collect()
    }
}

impl TinyTask {
    /// The examples that the first `steps` of the steps keep.
    fn kept(
        &self,
        steps: usize,
        range: SourceRange,
        mut examples: Examples,
        choices: &SplitChoices,
    ) -> Result<Examples, PreprocessError> {
        for number in 0..steps {
            let keep =
                choices.keep(number, range, &examples)?.expect("the choices of earlier steps are made");
            examples = examples.keep(&keep)?;
        }
        Ok(examples)
    }

    pub(crate) fn new(folder: &Path, range_bytes: u64) -> Self {
        let (chunks_read, chunks_parsed): (Arc<AtomicU64>, Arc<AtomicU64>) = Default::default();
        let source = LineSource {
            folder: folder.to_owned(),
            range_bytes,
            chunk_lines: 2,
            chunks_read: Arc::clone(&chunks_read),
            chunks_parsed: Arc::clone(&chunks_parsed),
        };
        Self {
            source: Arc::new(source),
            chunks_read,
            chunks_parsed,
            version: 1,
            on_bad_row: OnBadRow::Fail,
            deduplicate: Vec::new(),
        }
    }
}

impl BuildInput for TinyTask {
    fn task(&self) -> &str {
        "team:tiny"
    }

    fn source(&self) -> Option<&Arc<dyn DataSource>> {
        Some(&self.source)
    }

    fn cached_schema(&self) -> SchemaRef {
        let ids = DataType::new_list(DataType::Int32, true);
        Arc::new(Schema::new(vec![
            Field::new("targets", ids.clone(), true),
            Field::new("text", DataType::Utf8, false),
            Field::new("half", DataType::Int64, true),
            Field::new("words", DataType::new_list(DataType::Utf8, true), true),
            Field::new("inputs", ids, true),
        ]))
    }

    fn vocab_sizes(&self) -> BTreeMap<String, usize> {
        BTreeMap::from([("targets".to_owned(), 256), ("inputs".to_owned(), 100_000)])
    }

    fn whole_split_steps(&self) -> Vec<WholeSplitStep> {
        let step = |(number, by): (usize, &By)| WholeSplitStep {
            number: number + 1,
            op: "deduplicate".to_owned(),
            by: vec![format!("{by:?}")],
        };
        self.deduplicate.iter().enumerate().map(step).collect()
    }

    fn split_keys(
        &self,
        number: usize,
        range: SourceRange,
        examples: Examples,
        choices: &SplitChoices,
    ) -> Result<SplitKeys, PreprocessError> {
        let examples = self.kept(number, range, examples, choices)?;
        Ok(SplitKeys::new(range, &examples, self.deduplicate[number].keys(&examples)))
    }

    fn preprocess(
        &self,
        range: SourceRange,
        examples: Examples,
        choices: &SplitChoices,
    ) -> Result<Examples, PreprocessError> {
        let examples = self.kept(self.deduplicate.len(), range, examples, choices)?;
        let texts = examples.columns.column(0).as_string::<i32>().clone();
        let mut targets = ListBuilder::new(Int32Builder::new());
        let mut inputs = ListBuilder::new(Int32Builder::new());
        let mut words = ListBuilder::new(StringBuilder::new());
        for text in texts.iter().flatten() {
            for byte in text.bytes() {
                targets.values().append_value(byte.into());
                inputs.values().append_value(70_000 + i32::from(byte));
            }
            text.split(' ').for_each(|word| words.values().append_value(word));
            targets.append(true);
            inputs.append(true);
            words.append(!text.is_empty());
        }
        let half = texts.iter().flatten().map(|text| (text.len() % 2 == 0).then_some(text.len() as i64 / 2));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(targets.finish()),
            Arc::new(texts.clone()),
            Arc::new(Int64Array::from_iter(half)),
            Arc::new(words.finish()),
            Arc::new(inputs.finish()),
        ];
        let mut examples = examples.with_columns(RecordBatch::try_new(self.cached_schema(), columns)?);
        let unknown = texts.iter().flatten().map(|text| text.matches('?').count() as u64).sum();
        examples.counts.insert("targets".to_owned(), EncodeCounts { unknown, special_spellings: 0 });
        Ok(examples)
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of_json("tiny", &self.definition())
    }

    fn cache_seed(&self) -> u64 {
        0
    }

    fn is_shuffled(&self, split: &str) -> bool {
        split == "train"
    }

    fn on_bad_row(&self) -> OnBadRow {
        self.on_bad_row
    }

    fn cache_definition(&self) -> serde_json::Value {
        self.definition()
    }

    fn definition(&self) -> serde_json::Value {
        let deduplicate = format!("{:?}", self.deduplicate);
        serde_json::json!({ "steps": [{ "op": "bytes", "version": self.version, "deduplicate": deduplicate }] })
    }

    fn vocabulary_files(&self) -> BTreeMap<String, &[u8]> {
        BTreeMap::from([("bytes".to_owned(), &b"{\"model\": \"bytes\"}"[..])])
    }
}

/// Two folders: sources and caches.
pub(crate) struct World {
    folder: TempDir,
    pub(crate) range_bytes: u64,
    pub(crate) on_bad_row: OnBadRow,
}

impl World {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let world =
            Self { folder: tempfile::tempdir().unwrap(), range_bytes: 40, on_bad_row: OnBadRow::Fail };
        std::fs::create_dir(world.sources()).unwrap();
        files.iter().for_each(|(name, text)| world.write(name, text));
        world
    }

    pub(crate) fn sources(&self) -> PathBuf {
        self.folder.path().join("sources")
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.sources().join(name), text).unwrap();
    }

    pub(crate) fn task(&self) -> TinyTask {
        TinyTask { on_bad_row: self.on_bad_row, ..TinyTask::new(&self.sources(), self.range_bytes) }
    }

    pub(crate) fn caches(&self, name: &str) -> CacheDir {
        CacheDir::new(self.folder.path().join(name))
    }

    /// Builds `splits` into the folder `name`.
    pub(crate) fn build(&self, name: &str, splits: &[&str], config: &BuildConfig) -> BuildReport {
        self.try_build(name, splits, config, &NoProgress).unwrap()
    }

    pub(crate) fn try_build(
        &self,
        name: &str,
        splits: &[&str],
        config: &BuildConfig,
        progress: &dyn BuildProgress,
    ) -> Result<BuildReport, CacheError> {
        build(&self.task(), &self.caches(name), splits, config, progress)
    }

    pub(crate) fn open(&self, name: &str, split: &str) -> CachedSplit {
        match self.caches(name).find_split(&self.task(), &split.parse::<Split>().unwrap()).unwrap() {
            Found::Fresh { split, .. } => *split,
            other => panic!("no fresh cache: {other:?}"),
        }
    }
}

pub(crate) fn build(
    task: &TinyTask,
    caches: &CacheDir,
    splits: &[&str],
    config: &BuildConfig,
    progress: &dyn BuildProgress,
) -> Result<BuildReport, CacheError> {
    let splits: Vec<Split> = splits.iter().map(|split| split.parse().unwrap()).collect();
    build_splits(caches, task, &splits, Missing::Encode, config, progress)
}

/// A job whose batches and shards are small.
pub(crate) fn small(threads: usize) -> BuildConfig {
    let geometry = Geometry { batch_rows: 3, batch_bytes: 600, shard_bytes: 1500, ..Geometry::default() };
    BuildConfig { threads, geometry, ..BuildConfig::default() }
}

/// `count` lines of varying lengths.
pub(crate) fn lines(prefix: &str, count: usize) -> String {
    (0..count).map(|line| format!("{prefix}{line} {}\n", "x?y ".repeat(line * 7 % 5))).collect()
}

/// Every file below a folder, but for the build log.
pub(crate) fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().unwrap() != "build.log.json" {
                let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                found.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

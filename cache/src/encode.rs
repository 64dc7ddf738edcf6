//! First half of a build: every range of a split read, encoded, sorted, spilled.
//!
//! ```text
//! lanes:    files and ranges, read in order, a chunk of about 1 MiB at a time
//! threads:  take a chunk from a lane, hash it, parse it, run the steps, store the ids in few bits
//! ranges:   collect what their chunks gave; a few MiB of text at a time are sorted, spilled and committed as a part
//! ```
//!
//! There are no threads for reading alone and no queues: a thread that wants work reads a chunk itself. So `threads`
//! is all the CPU that a build takes, no more than `threads` chunks are in flight, and one range of one file is enough
//! to keep all threads busy. Nothing of this shows in the results: rows are sorted, digests ordered, counts summed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use arrow::array::{Array as _, RecordBatch};
use rayon::prelude::*;
use seqio::{
    BadRow, DataSource, Examples, FileRanges, OnBadRow, ParsedChunk, RawChunk, RawRecords, SourceRange,
    SplitChoices,
};

use crate::columns::StoredColumns;
use crate::compression::Compression;
use crate::digest::{RESULT, chunk_digest, text_file_digest, whole_file_digest};
use crate::error::CacheError;
use crate::input::{BuildInput, RangeKey, ReadJob, SplitPlan};
use crate::lanes::{Lanes, NumberedChunk, Place};
use crate::manifest::SourceFileEntry;
use crate::old_run::OldRun;
use crate::parts::{
    Check, FileState, PartContent, PartRecord, RangeParts, StreamRecord, committed_parts, part_stem,
    unfinished_jobs,
};
use crate::pass::{Made, MakeError, Pass, PassBatch};
use crate::progress::{BuildPhase, Commit, Counters, add};
use crate::rejects::{RejectsSpill, reject_lines};
use crate::reuse::OldSplit;
use crate::rows::{Geometry, SpillBatch};
use crate::share::OwnShare;
use crate::spill::{RunEntry, write_run};

/// A split has about this many parts at most: merging keeps a file of each open.
const MOST_PARTS: u64 = 1024;

/// What is the same for all of a build.
#[derive(Clone, Copy)]
pub(crate) struct BuildContext<'a> {
    pub(crate) input: &'a dyn BuildInput,
    pub(crate) columns: &'a StoredColumns,
    pub(crate) geometry: Geometry,
    pub(crate) pool: &'a rayon::ThreadPool,
    pub(crate) memory: u64,
    /// Of shards; spills are not compressed.
    pub(crate) compression: Compression,
    pub(crate) cancel: &'a Arc<AtomicBool>,
}

impl BuildContext<'_> {
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }
}

/// A split whose ranges are all spilled.
#[derive(Debug)]
pub(crate) struct Encoded {
    /// The ranges in the source's order.
    pub(crate) ranges: Vec<EncodedRange>,
    /// The source's files.
    pub(crate) files: Vec<SourceFileEntry>,
    /// The old cache that some of the ranges are taken from.
    pub(crate) old: Option<Arc<OldRun>>,
    /// The bad records that the old cache set aside.
    pub(crate) old_rejects: Option<PathBuf>,
}

/// A spilled range, and where it stands among the others.
#[derive(Debug)]
pub(crate) struct EncodedRange {
    pub(crate) parts: RangeParts,
    /// Index of its file.
    pub(crate) file: u32,
    /// Its first byte or row group.
    pub(crate) start: u64,
    /// Records of the file before it.
    pub(crate) first_row: u64,
    /// Its rows in the old cache that it is taken from.
    pub(crate) old: Option<std::ops::Range<u64>>,
    /// Its lines among the bad records that the old cache set aside.
    pub(crate) old_rejects: std::ops::Range<u64>,
}

/// Encodes all of a split that an earlier job has not.
pub(crate) fn encode_split(
    context: BuildContext<'_>,
    plan: &SplitPlan,
    work: &Path,
    old: Option<&OldSplit>,
    counters: &Counters<'_>,
    choices: &SplitChoices,
) -> Result<Encoded, CacheError> {
    let pass = RowsPass { context, choices };
    let done = read_split(context, plan, work, counters, Extent { own: None, old }, &pass)?;
    in_order(context, plan, done, old)
}

/// Encodes all of a worker's share that an earlier job has not.
pub(crate) fn encode_share(
    context: BuildContext<'_>,
    plan: &SplitPlan,
    work: &Path,
    counters: &Counters<'_>,
    own: &OwnShare,
    choices: &SplitChoices,
) -> Result<(), CacheError> {
    let pass = RowsPass { context, choices };
    let extent = Extent { own: Some(own), old: None };
    read_split(context, plan, work, counters, extent, &pass).map(drop)
}

/// A split that workers have encoded; if anything of it is not there any more, that is given back.
pub(crate) fn encoded_split(
    context: BuildContext<'_>,
    plan: &SplitPlan,
    work: &Path,
    counters: &Counters<'_>,
) -> Result<Result<Encoded, Vec<ReadJob>>, CacheError> {
    counters.enter(BuildPhase::Checking);
    let done = committed_parts(context.pool, plan, work, None, Check::Bytes)?;
    count_reused(&done, None, counters);
    let missing = unfinished_jobs(plan, work, &done, None);
    if !missing.is_empty() {
        return Ok(Err(missing));
    }
    add(&counters.files_done, counters.files_total);
    // Streamed files count when they are read to their end.
    counters.bytes_done.store(plan.source_bytes(), Ordering::Relaxed);
    counters.tell();
    plan.check_unchanged(context.input.needed_source()?)?;
    in_order(context, plan, done, None).map(Ok)
}

/// What of a split a job reads: all of it by default.
#[derive(Clone, Copy, Default)]
pub(crate) struct Extent<'a> {
    /// Of several workers, this one's share.
    pub(crate) own: Option<&'a OwnShare>,
    /// What need not be read, as an old cache has it.
    pub(crate) old: Option<&'a OldSplit>,
}

/// Takes what no earlier job has of a split, or of a share of it, through a pass; gives what is committed then.
pub(crate) fn read_split<P: Pass>(
    context: BuildContext<'_>,
    plan: &SplitPlan,
    work: &Path,
    counters: &Counters<'_>,
    Extent { own, old }: Extent<'_>,
    pass: &P,
) -> Result<BTreeMap<RangeKey, RangeParts>, CacheError> {
    let source = context.input.needed_source()?;
    counters.enter(BuildPhase::Checking);
    let mut open = committed_parts(context.pool, plan, work, own, Check::Bytes)?;
    if let Some(old) = old {
        take_over(old, plan, work, &mut open, counters)?;
    }
    count_reused(&open, old, counters);
    counters.enter(P::PHASE);
    let jobs = unfinished_jobs(plan, work, &open, own);
    let lanes = Lanes::new(source, plan, work, counters, jobs, &open, context.pool.current_num_threads());
    let done = open.extract_if(.., |_, range| range.is_complete()).collect();
    let encoder = Encoder {
        context,
        pass,
        source,
        plan,
        work,
        counters,
        part_bytes: context.geometry.part_bytes.max(plan.source_bytes() / MOST_PARTS),
        part_memory: (context.memory / 2 / (lanes.count() as u64 + 1)).max(context.geometry.batch_bytes / 8),
        lanes,
        open: Mutex::new(open.into_iter().map(|(key, parts)| (key, OpenRange::new(parts))).collect()),
        done: Mutex::new(done),
        failure: Mutex::default(),
        failed: AtomicBool::new(false),
    };
    context.pool.broadcast(|thread| encoder.work(thread.index()));
    // A query that is interrupted fails.
    if context.is_cancelled() {
        let status = counters.status();
        let what = if P::PHASE == BuildPhase::Encoding { "encoded" } else { "compared" };
        return Err(CacheError::Interrupted { done: format!("{} {what} examples", status.examples) });
    }
    if let Some((_, error)) = encoder.failure.into_inner().expect("no thread panicked") {
        return Err(error);
    }
    plan.check_unchanged(source)?;
    Ok(encoder.done.into_inner().expect("no thread panicked"))
}

/// Puts the ranges of an old cache in the place of what earlier jobs committed of them.
fn take_over(
    old: &OldSplit,
    plan: &SplitPlan,
    work: &Path,
    open: &mut BTreeMap<RangeKey, RangeParts>,
    counters: &Counters<'_>,
) -> Result<(), CacheError> {
    for (&key, range) in &old.ranges {
        open.insert(key, range.parts(plan, key));
    }
    for (&file, starts) in &old.streamed {
        StreamRecord { file: FileState::of(plan.file(file)), starts: starts.clone() }.write(work)?;
    }
    for &file in old.digests.keys() {
        add(&counters.bytes_done, plan.file(file).bytes);
    }
    Ok(())
}

fn count_reused(ranges: &BTreeMap<RangeKey, RangeParts>, old: Option<&OldSplit>, counters: &Counters<'_>) {
    for (key, range) in ranges {
        if old.is_some_and(|old| old.ranges.contains_key(key)) {
            add(&counters.ranges_done, 1);
            add(&counters.ranges_from_cache, 1);
            add(&counters.examples_from_cache, range.sum(|part| part.rows));
        } else if range.is_complete() {
            add(&counters.ranges_done, 1);
            add(&counters.ranges_reused, 1);
        } else {
            add(&counters.ranges_partly_reused, 1);
        }
        add(&counters.examples, range.sum(|part| part.rows));
        add(&counters.tokens, range.sum(|part| part.tokens));
        add(&counters.bad_rows, range.sum(|part| part.bad_rows));
        add(&counters.bytes_done, range.sum(|part| part.source_bytes));
        add(&counters.spill_bytes, range.spill_bytes());
    }
}

/// A range whose chunks are coming in.
struct OpenRange<B> {
    /// What is committed.
    parts: RangeParts,
    /// What will be the next part.
    content: PartContent,
    batches: Vec<B>,
    /// What is set aside, by the number of the chunk.
    rejects: BTreeMap<u64, Vec<u8>>,
    read_bytes: u64,
    memory: u64,
    /// Parts being written at this moment.
    writing: u64,
    /// Chunks that have come, committed ones included.
    chunks: u64,
    chunks_expected: Option<u64>,
}

impl<B> OpenRange<B> {
    fn new(parts: RangeParts) -> Self {
        let (chunks, chunks_expected) = (parts.num_chunks(), parts.chunks_expected());
        Self {
            parts,
            content: PartContent::default(),
            batches: Vec::new(),
            rejects: BTreeMap::new(),
            read_bytes: 0,
            memory: 0,
            writing: 0,
            chunks,
            chunks_expected,
        }
    }

    fn has_all_chunks(&self) -> bool {
        self.chunks_expected == Some(self.chunks)
    }

    fn is_done(&self) -> bool {
        self.has_all_chunks() && self.writing == 0 && self.content.chunks.is_empty()
    }
}

struct Encoder<'a, P: Pass> {
    context: BuildContext<'a>,
    pass: &'a P,
    source: &'a dyn DataSource,
    plan: &'a SplitPlan,
    work: &'a Path,
    counters: &'a Counters<'a>,
    /// A part is closed when it holds this much of the source, so that a killed job loses little work,
    part_bytes: u64,
    /// or when it takes this much memory.
    part_memory: u64,
    lanes: Lanes<'a>,
    open: Mutex<BTreeMap<RangeKey, OpenRange<P::Batch>>>,
    done: Mutex<BTreeMap<RangeKey, RangeParts>>,
    failure: Mutex<Option<(Place, CacheError)>>,
    failed: AtomicBool,
}

/// What a chunk gave.
struct EncodedChunk<B> {
    number: u64,
    batch: B,
    /// Bad records that are set aside.
    rejects: Vec<u8>,
    content: PartContent,
    /// Bytes of text, or of columns.
    read_bytes: u64,
}

impl<P: Pass> Encoder<'_, P> {
    /// What each thread does until nothing is left.
    fn work(&self, thread: usize) {
        let stop = || self.context.is_cancelled() || self.failed.load(Ordering::Relaxed);
        while let Some(numbered) = self.lanes.next_chunk(thread, stop, |place, error| self.fail(place, error))
        {
            let range = numbered.chunk.range;
            let place = (range.file, range.start, numbered.chunk.first_ordinal);
            let encoded = self.encode(numbered).and_then(|chunk| Ok(self.collect(range, chunk)?));
            if let Err(Failure { place: exact, error }) = encoded {
                self.fail(exact.unwrap_or(place), error);
            }
        }
    }

    /// Keeps the failure that comes first in the source.
    fn fail(&self, place: Place, error: CacheError) {
        self.failed.store(true, Ordering::Relaxed);
        let mut failure = self.failure.lock().expect("no thread panicked");
        if failure.as_ref().is_none_or(|(first, _)| place < *first) {
            *failure = Some((place, error));
        }
    }

    fn encode(&self, numbered: NumberedChunk) -> Result<EncodedChunk<P::Batch>, Failure> {
        let NumberedChunk { chunk, number } = numbered;
        let file = self.plan.file(chunk.range.file);
        let digest = chunk_digest(&chunk.records);
        let window = self.plan.window((chunk.range.file, chunk.range.start)).unwrap_or(0..0);
        let ParsedChunk { examples, bad_rows } = self.source.parse(file, &chunk)?.within(&window);
        self.check_bad_rows(&chunk, &bad_rows)?;
        let rejects = match self.context.input.on_bad_row() {
            OnBadRow::SetAside if P::KEEPS_REJECTS => reject_lines(&chunk, &bad_rows),
            OnBadRow::SetAside | OnBadRow::Fail | OnBadRow::Skip => Vec::new(),
        };
        let made = match self.pass.make(self.plan, &chunk, examples) {
            Ok(made) => made,
            Err(MakeError::Cache(error)) => return Err(error.into()),
            Err(MakeError::Step(error)) => {
                let exact = error.origins().first().map(|origin| origin.row);
                let line = self.line(chunk.range, exact.unwrap_or(chunk.first_ordinal));
                let (path, exact) = (file.path.clone(), exact.is_some());
                return Err(CacheError::Step { path, line, exact, error: Box::new(error) }.into());
            }
        };
        let read_bytes = match &chunk.records {
            RawRecords::Lines(text) => text.len() as u64,
            RawRecords::Columns(columns) => columns_bytes(columns),
        };
        let mut content = PartContent {
            chunks: BTreeMap::from([(number, digest)]),
            last_chunk: chunk.last_of_range.then_some(number),
            records: chunk.num_records,
            source_bytes: self.source_bytes(&chunk),
            rows: made.examples,
            row_bytes: made.row_bytes,
            tokens: made.tokens,
            damage: chunk.damage,
            counts: made.counts,
            characters: made.characters,
            dropped: made.dropped,
            ..PartContent::default()
        };
        content.add_bad_rows(bad_rows);
        add(&self.counters.examples, content.rows);
        add(&self.counters.tokens, content.tokens);
        add(&self.counters.bad_rows, content.bad_rows);
        add(&self.counters.bytes_done, content.source_bytes);
        self.counters.tell();
        Ok(EncodedChunk { number, batch: made.batch, rejects, content, read_bytes })
    }

    /// Adds a chunk to its range, and commits a part of the range if it is time to.
    fn collect(&self, range: SourceRange, chunk: EncodedChunk<P::Batch>) -> Result<(), CacheError> {
        let key = (range.file, range.start);
        let mut all = self.open.lock().expect("no thread panicked");
        let open = all.entry(key).or_insert_with(|| OpenRange::new(RangeParts::default()));
        open.chunks += 1;
        open.chunks_expected = open.chunks_expected.or(chunk.content.last_chunk.map(|last| last + 1));
        open.content.merge(chunk.content);
        open.read_bytes += chunk.read_bytes;
        if chunk.batch.len() > 0 {
            open.memory += chunk.batch.memory();
            open.batches.push(chunk.batch);
        }
        if !chunk.rejects.is_empty() {
            open.memory += chunk.rejects.len() as u64;
            open.rejects.insert(chunk.number, chunk.rejects);
        }
        let is_full = open.read_bytes >= self.part_bytes || open.memory >= self.part_memory;
        if !is_full && !open.has_all_chunks() {
            return Ok(());
        }
        let content = std::mem::take(&mut open.content);
        let batches = std::mem::take(&mut open.batches);
        let rejects = std::mem::take(&mut open.rejects);
        (open.read_bytes, open.memory) = (0, 0);
        open.writing += 1;
        drop(all);

        let part = self.commit(range, content, batches, &rejects)?;

        let mut all = self.open.lock().expect("no thread panicked");
        let open = all.get_mut(&key).expect("a range stays open while parts of it are written");
        open.writing -= 1;
        open.parts.parts.push(part);
        if open.is_done() {
            let open = all.remove(&key).expect("just looked at");
            drop(all);
            self.done.lock().expect("no thread panicked").insert(key, open.parts);
            add(&self.counters.ranges_done, 1);
        }
        self.counters.committed(Commit::Spill);
        Ok(())
    }

    fn commit(
        &self,
        range: SourceRange,
        content: PartContent,
        batches: Vec<P::Batch>,
        rejects: &BTreeMap<u64, Vec<u8>>,
    ) -> Result<PartRecord, CacheError> {
        let file = self.plan.file(range.file);
        let first = content.chunks.keys().next().copied().unwrap_or(0);
        let stem = part_stem(&file.name, range.start, first);
        let run =
            if batches.is_empty() { None } else { Some(self.pass.write_run(self.work, &stem, batches)?) };
        let rejects = RejectsSpill::write(self.work, &stem, rejects)?;
        add(&self.counters.spill_bytes, run.as_ref().map_or(0, |run| run.bytes));
        let part = PartRecord {
            file: FileState::of(file),
            file_index: range.file,
            start: range.start,
            end: range.end,
            window: self.plan.slice_window((range.file, range.start)),
            content,
            run,
            rejects,
        };
        part.write(self.work)?;
        Ok(part)
    }

    /// Stops at bad records and damaged files where the task says so.
    fn check_bad_rows(&self, chunk: &RawChunk, bad_rows: &[BadRow]) -> Result<(), Failure> {
        if self.context.input.on_bad_row() != OnBadRow::Fail {
            return Ok(());
        }
        let path = || self.plan.file(chunk.range.file).path.clone();
        if let Some(first) = bad_rows.first() {
            let line = self.line(chunk.range, first.ordinal);
            let error = CacheError::BadRow { path: path(), line, reason: first.reason.clone() };
            return Err(Failure { place: Some((chunk.range.file, chunk.range.start, first.ordinal)), error });
        }
        match &chunk.damage {
            Some(damage) => Err(CacheError::DamagedSource { path: path(), damage: damage.clone() }.into()),
            None => Ok(()),
        }
    }

    /// The line of a record, or its ordinal if the file cannot be read any more.
    fn line(&self, range: SourceRange, ordinal: u64) -> u64 {
        self.source.line_of(self.plan.file(range.file), range, ordinal).unwrap_or(ordinal + 1)
    }

    /// The chunk's share of the source file's bytes, where it is known.
    fn source_bytes(&self, chunk: &RawChunk) -> u64 {
        match (&self.plan.ranges[chunk.range.file as usize], &chunk.records) {
            (FileRanges::Known(_), RawRecords::Lines(text)) => text.len() as u64,
            (FileRanges::Streamed, RawRecords::Lines(text))
                if !self.plan.file(chunk.range.file).is_compressed() =>
            {
                text.len() as u64
            }
            (FileRanges::Known(ranges), RawRecords::Columns(_)) if chunk.last_of_range => {
                self.plan.file(chunk.range.file).bytes / ranges.len().max(1) as u64
            }
            _ => 0,
        }
    }
}

/// Encodes examples into rows of spills.
struct RowsPass<'a> {
    context: BuildContext<'a>,
    choices: &'a SplitChoices,
}

impl Pass for RowsPass<'_> {
    type Batch = SpillBatch;

    const PHASE: BuildPhase = BuildPhase::Encoding;
    const KEEPS_REJECTS: bool = true;

    fn make(
        &self,
        plan: &SplitPlan,
        chunk: &RawChunk,
        examples: Examples,
    ) -> Result<Made<SpillBatch>, MakeError> {
        let input = self.context.input;
        let examples = input.preprocess(chunk.range, examples, self.choices)?;
        let keys: Vec<[u8; 16]> = if input.is_shuffled(plan.split.name()) {
            examples.rows.iter().map(|row| row.id.shuffle_key(input.cache_seed())).collect()
        } else {
            let first = u128::from(chunk.first_ordinal) << 64;
            (0..examples.len() as u128).map(|place| (first | place).to_be_bytes()).collect()
        };
        let sum = |characters: &Vec<u32>| characters.iter().copied().map(u64::from).sum::<u64>();
        let characters = examples.characters.iter().map(|(name, rows)| (name.clone(), sum(rows))).collect();
        let columns = self.context.columns;
        let batch = columns.store(&examples.columns, &examples.rows, &keys)?;
        let batch = SpillBatch::new(columns, batch).expect("it was made with the spill's columns");
        Ok(Made {
            examples: batch.len() as u64,
            row_bytes: batch.total_bytes(),
            tokens: batch.num_tokens(),
            counts: examples.counts,
            characters,
            dropped: examples.dropped,
            batch,
        })
    }

    fn write_run(&self, work: &Path, stem: &str, batches: Vec<SpillBatch>) -> Result<RunEntry, CacheError> {
        write_run(work, self.context.columns, &self.context.geometry, stem, batches)
    }
}

impl PassBatch for SpillBatch {
    fn len(&self) -> usize {
        self.len()
    }

    fn memory(&self) -> u64 {
        self.memory()
    }
}

/// Bytes of columns, of which a chunk may be a slice.
fn columns_bytes(columns: &RecordBatch) -> u64 {
    let bytes =
        columns.columns().iter().map(|column| column.to_data().get_slice_memory_size().unwrap_or(0) as u64);
    bytes.sum()
}

/// An error, and where in the source it is if that is known more exactly than by the chunk.
struct Failure {
    place: Option<Place>,
    error: CacheError,
}

impl<E: Into<CacheError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { place: None, error: error.into() }
    }
}

/// Puts ranges in the source's order and counts records through the files; gives those of each file too.
pub(crate) fn ranges_in_order(
    plan: &SplitPlan,
    done: BTreeMap<RangeKey, RangeParts>,
    old: Option<&OldSplit>,
) -> (Vec<EncodedRange>, Vec<u64>) {
    let mut ranges: Vec<EncodedRange> = Vec::with_capacity(done.len());
    let mut records_of: Vec<u64> = vec![0; plan.files.len()];
    for ((file, start), parts) in done {
        let first_row = match &plan.slice {
            None => records_of[file as usize],
            Some(slice) => slice.counts.range((file, 0)..(file, start)).map(|(_, count)| count).sum(),
        };
        records_of[file as usize] += parts.sum(|part| part.records);
        let old = old.and_then(|old| old.ranges.get(&(file, start)));
        let old_rejects = old.map_or(0..0, |range| range.rejects.clone());
        let old = old.map(|range| range.rows.clone());
        ranges.push(EncodedRange { parts, file, start, first_row, old, old_rejects });
    }
    (ranges, records_of)
}

/// Puts ranges in the source's order and sums up digests.
fn in_order(
    context: BuildContext<'_>,
    plan: &SplitPlan,
    done: BTreeMap<RangeKey, RangeParts>,
    old: Option<&OldSplit>,
) -> Result<Encoded, CacheError> {
    let (ranges, records_of) = ranges_in_order(plan, done, old);
    let digest = |index: usize| -> Result<String, CacheError> {
        if context.input.needed_source()?.is_result(&plan.files[index]) {
            return Ok(RESULT.to_owned());
        }
        if plan.ranges[index] == FileRanges::Known(Vec::new()) {
            return whole_file_digest(&plan.files[index].path);
        }
        let file = u32::try_from(index).unwrap_or(u32::MAX);
        if let Some(known) = old.and_then(|old| old.digests.get(&file)) {
            return Ok(known.clone());
        }
        let first = ranges.partition_point(|range| (range.file as usize) < index);
        let of_file = ranges[first..].iter().take_while(|range| range.file as usize == index);
        let digests = of_file.map(|range| {
            Some((range.start, range.parts.sum(|part| part.records), range.parts.text_digest()?))
        });
        match digests.collect::<Option<Vec<_>>>() {
            Some(digests) if plan.slice.is_none() => Ok(text_file_digest(
                digests.iter().map(|(start, records, digest)| (*start, *records, digest.as_str())),
            )),
            _ => whole_file_digest(&plan.files[index].path),
        }
    };
    let digests: Vec<String> = context
        .pool
        .install(|| (0..plan.files.len()).into_par_iter().map(digest).collect::<Result<_, _>>())?;
    let files = plan.files.iter().zip(records_of).zip(digests).map(|((file, records), digest)| {
        SourceFileEntry { name: file.name.clone(), bytes: file.bytes, records, digest }
    });
    let files = files.collect();
    let old_rejects = old.and_then(|old| old.rejects.clone());
    Ok(Encoded { ranges, files, old: old.map(|old| Arc::clone(&old.run)), old_rejects })
}

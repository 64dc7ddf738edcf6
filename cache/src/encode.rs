//! First half of a build: every range of a split read, encoded, sorted, spilled.
//!
//! ```text
//! lanes:    files and ranges, read in order, a chunk of about 1 MiB at a time
//! threads:  take a chunk from a lane, hash it, parse it, run the steps, store the ids in few bits
//! ranges:   collect what their chunks gave; the thread that brings the last one sorts and spills the range
//! ```
//!
//! There are no threads for reading alone and no queues: a thread that wants work reads a chunk itself. So `threads`
//! is all the CPU that a build takes, no more than `threads` chunks are in flight, and one range of one file is enough
//! to keep all threads busy. Nothing of this shows in the results: rows are sorted, digests ordered, counts summed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;
use seqio::{
    BadRow, DataSource, EncodeCounts, Examples, FileRanges, ParsedChunk, RawChunk, RawChunks, RawRecords,
    SourceRange,
};

use crate::columns::StoredColumns;
use crate::digest::{chunk_digest, range_digest, text_file_digest, whole_file_digest};
use crate::error::CacheError;
use crate::input::{BuildInput, RangeKey, SplitPlan};
use crate::manifest::SourceFileEntry;
use crate::progress::{BuildPhase, Commit, Counters, add};
use crate::rows::{Geometry, SpillBatch};
use crate::spill::{FileState, RangeRecord, RunEntry, StreamRecord, first_bad_rows, write_run};

/// What is the same for all of a build.
#[derive(Clone, Copy)]
pub(crate) struct BuildContext<'a> {
    pub(crate) input: &'a dyn BuildInput,
    pub(crate) columns: &'a StoredColumns,
    pub(crate) geometry: Geometry,
    pub(crate) pool: &'a rayon::ThreadPool,
    pub(crate) memory: u64,
    pub(crate) cancel: &'a AtomicBool,
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
}

/// A spilled range, and where it stands among the others.
#[derive(Debug)]
pub(crate) struct EncodedRange {
    pub(crate) record: RangeRecord,
    /// Index of its file.
    pub(crate) file: u32,
    /// Records of the file before it.
    pub(crate) first_row: u64,
}

/// Encodes all of a split that an earlier job has not.
pub(crate) fn encode_split(
    context: BuildContext<'_>,
    plan: &SplitPlan,
    work: &Path,
    counters: &Counters<'_>,
) -> Result<Encoded, CacheError> {
    let source = context.input.needed_source()?;
    counters.enter(BuildPhase::Checking);
    let done = committed_ranges(context, plan, work, counters)?;
    counters.enter(BuildPhase::Encoding);
    let jobs = read_jobs(plan, work, &done, counters);
    let lanes = context.pool.current_num_threads().div_ceil(4).min(jobs.len()).max(1);
    let encoder = Encoder {
        context,
        source,
        plan,
        work,
        counters,
        run_bytes: (context.memory / 2 / (lanes as u64 + 1)).max(context.geometry.batch_bytes / 8),
        queue: Mutex::new(jobs),
        lanes: (0..lanes).map(|_| Mutex::default()).collect(),
        pending: Mutex::default(),
        done: Mutex::new(done),
        failure: Mutex::default(),
        failed: AtomicBool::new(false),
    };
    context.pool.broadcast(|thread| encoder.work(thread.index()));
    if let Some((_, error)) = encoder.failure.into_inner().expect("no thread panicked") {
        return Err(error);
    }
    let done = encoder.done.into_inner().expect("no thread panicked");
    if context.is_cancelled() {
        return Err(CacheError::Interrupted { done: format!("{} encoded ranges", done.len()) });
    }
    plan.check_unchanged(source)?;
    in_order(context, plan, done)
}

/// The ranges that an earlier job committed and that are still good.
fn committed_ranges(
    context: BuildContext<'_>,
    plan: &SplitPlan,
    work: &Path,
    counters: &Counters<'_>,
) -> Result<BTreeMap<RangeKey, RangeRecord>, CacheError> {
    let entries = std::fs::read_dir(work).map_err(CacheError::io("read", work))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(CacheError::io("read", work))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
        if name.ends_with(".json") && !name.ends_with(".file.json") && !name.starts_with("shard-") {
            paths.push(path);
        }
    }
    let records: Vec<RangeRecord> = context.pool.install(|| {
        paths.par_iter().filter_map(|path| RangeRecord::reuse(path, work, &plan.files)).collect()
    });
    let mut done = BTreeMap::new();
    for record in records {
        let file = plan.files.iter().position(|file| file.name == record.file.name);
        let file = file.expect("only records of the split's files are reused") as u32;
        let known = match &plan.ranges[file as usize] {
            FileRanges::Known(ranges) => ranges.contains(&record.range(file)),
            FileRanges::Streamed => true,
        };
        if known && plan.window((file, record.start)).is_some() {
            add(&counters.ranges_done, 1);
            add(&counters.ranges_reused, 1);
            add(&counters.examples, record.rows);
            add(&counters.tokens, record.tokens);
            add(&counters.bad_rows, record.bad_rows);
            add(&counters.bytes_done, record.source_bytes);
            add(&counters.spill_bytes, record.runs.iter().map(|run| run.bytes).sum());
            done.insert((file, record.start), record);
        }
    }
    Ok(done)
}

/// Something that is read from front to back by one lane.
#[derive(Clone, Copy, Debug)]
struct ReadJob {
    file: u32,
    /// `None`: the whole file, which cuts its own ranges.
    range: Option<SourceRange>,
}

/// What is still to be read, in order.
fn read_jobs(
    plan: &SplitPlan,
    work: &Path,
    done: &BTreeMap<RangeKey, RangeRecord>,
    counters: &Counters<'_>,
) -> VecDeque<ReadJob> {
    let mut jobs = VecDeque::new();
    for (file, ranges) in (0u32..).zip(&plan.ranges) {
        let before = jobs.len();
        match ranges {
            FileRanges::Known(ranges) => jobs.extend(
                ranges
                    .iter()
                    .map(|&range| (range, (file, range.start)))
                    .filter(|(_, key)| plan.window(*key).is_some() && !done.contains_key(key))
                    .map(|(range, _)| ReadJob { file, range: Some(range) }),
            ),
            FileRanges::Streamed => {
                let is_done = StreamRecord::reuse(work, plan.file(file)).is_some_and(|record| {
                    let wanted = |start: &u64| plan.window((file, *start)).is_some();
                    record
                        .starts
                        .iter()
                        .filter(|start| wanted(start))
                        .all(|&start| done.contains_key(&(file, start)))
                });
                if plan.touches(file) && !is_done {
                    jobs.push_back(ReadJob { file, range: None });
                }
            }
        }
        if jobs.len() == before {
            add(&counters.files_done, 1);
        }
    }
    jobs
}

/// A file or range being read.
#[derive(Default)]
struct Lane {
    reading: Option<Reading>,
}

struct Reading {
    job: ReadJob,
    chunks: RawChunks,
    /// The range of the chunk before, and how many of its chunks have come.
    range: Option<(u64, u64)>,
    /// Where ranges began, for files that cut their own.
    starts: BTreeSet<u64>,
}

/// A range whose chunks are coming in.
#[derive(Default)]
struct Pending {
    batches: Vec<SpillBatch>,
    memory: u64,
    runs: Vec<RunEntry>,
    runs_begun: usize,
    digests: BTreeMap<u64, [u8; 32]>,
    chunks: u64,
    chunks_expected: Option<u64>,
    records: u64,
    source_bytes: u64,
    rows: u64,
    row_bytes: u64,
    tokens: u64,
    bad_rows: u64,
    first_bad_rows: Vec<BadRow>,
    damage: Option<String>,
    counts: BTreeMap<String, EncodeCounts>,
}

impl Pending {
    /// Whether all of the range is here or in runs.
    fn is_complete(&self) -> bool {
        self.chunks_expected == Some(self.chunks) && self.runs.len() == self.runs_begun
    }
}

/// A place in the source, for telling which of several failures comes first.
type Place = (u32, u64, u64);

struct Encoder<'a> {
    context: BuildContext<'a>,
    source: &'a dyn DataSource,
    plan: &'a SplitPlan,
    work: &'a Path,
    counters: &'a Counters<'a>,
    /// A range that holds more than this is spilled in several runs.
    run_bytes: u64,
    queue: Mutex<VecDeque<ReadJob>>,
    lanes: Vec<Mutex<Lane>>,
    pending: Mutex<BTreeMap<RangeKey, Pending>>,
    done: Mutex<BTreeMap<RangeKey, RangeRecord>>,
    failure: Mutex<Option<(Place, CacheError)>>,
    failed: AtomicBool,
}

/// A chunk, and which one of its range it is.
struct NumberedChunk {
    chunk: RawChunk,
    number: u64,
}

impl Encoder<'_> {
    /// What each thread does until nothing is left.
    fn work(&self, thread: usize) {
        while let Some(numbered) = self.next_chunk(thread) {
            let chunk = &numbered.chunk;
            let place = (chunk.range.file, chunk.range.start, chunk.first_ordinal);
            if let Err(error) = self.encode(numbered) {
                self.fail(error.place.unwrap_or(place), error.error);
            }
        }
    }

    fn fail(&self, place: Place, error: CacheError) {
        self.failed.store(true, Ordering::Relaxed);
        let mut failure = self.failure.lock().expect("no thread panicked");
        if failure.as_ref().is_none_or(|(first, _)| place < *first) {
            *failure = Some((place, error));
        }
    }

    fn next_chunk(&self, thread: usize) -> Option<NumberedChunk> {
        for lane in 0..self.lanes.len() {
            let lane = &self.lanes[(thread + lane) % self.lanes.len()];
            let mut lane = lane.lock().expect("no thread panicked");
            while !self.context.is_cancelled() && !self.failed.load(Ordering::Relaxed) {
                let Some(reading) = &mut lane.reading else {
                    let job = self.queue.lock().expect("no thread panicked").pop_front();
                    let Some(job) = job else { break };
                    match self.open(job) {
                        Ok(reading) => lane.reading = Some(reading),
                        Err(error) => {
                            self.fail((job.file, job.range.map_or(0, |range| range.start), 0), error)
                        }
                    }
                    continue;
                };
                match reading.chunks.next() {
                    Some(Ok(chunk)) => {
                        if self.plan.window((chunk.range.file, chunk.range.start)).is_some() {
                            return Some(reading.number(chunk));
                        }
                    }
                    Some(Err(error)) => {
                        let (start, chunks) = reading.range.unwrap_or((0, 0));
                        self.fail((reading.job.file, start, chunks), error.into());
                    }
                    None => {
                        if let Some(reading) = lane.reading.take()
                            && let Err(error) = self.close(&reading)
                        {
                            self.fail((reading.job.file, u64::MAX, 0), error);
                        }
                    }
                }
            }
        }
        None
    }

    fn open(&self, job: ReadJob) -> Result<Reading, CacheError> {
        let file = job.file;
        let done = self.done.lock().expect("no thread panicked");
        let starts: BTreeSet<u64> =
            done.range((file, 0)..=(file, u64::MAX)).map(|((_, start), _)| *start).collect();
        drop(done);
        let slice = self.plan.slice.as_ref().map(|slice| {
            slice
                .windows
                .range((file, 0)..=(file, u64::MAX))
                .map(|((_, start), _)| *start)
                .collect::<BTreeSet<_>>()
        });
        let committed = starts.clone();
        let skip = move |start: u64| {
            committed.contains(&start) || slice.as_ref().is_some_and(|slice| !slice.contains(&start))
        };
        let chunks = self.source.read(self.plan.file(file), file, job.range, Box::new(skip))?;
        Ok(Reading { job, chunks, range: None, starts })
    }

    fn close(&self, reading: &Reading) -> Result<(), CacheError> {
        let file = self.plan.file(reading.job.file);
        if reading.job.range.is_none() {
            add(&self.counters.bytes_done, file.bytes);
            add(&self.counters.files_done, 1);
            let starts = reading.starts.iter().copied().collect();
            return StreamRecord { file: FileState::of(file), starts }.write(self.work);
        }
        let queue = self.queue.lock().expect("no thread panicked");
        if queue.front().is_none_or(|next| next.file != reading.job.file) {
            add(&self.counters.files_done, 1);
        }
        Ok(())
    }

    fn encode(&self, numbered: NumberedChunk) -> Result<(), Failure> {
        let NumberedChunk { chunk, number } = numbered;
        let key = (chunk.range.file, chunk.range.start);
        if self.done.lock().expect("no thread panicked").contains_key(&key) {
            return Ok(());
        }
        let digest = chunk_digest(&chunk.records);
        let parsed = self.source.parse(self.plan.file(key.0), &chunk)?;
        let (examples, bad_rows) = self.window(key, parsed);
        self.check_bad_rows(&chunk, &bad_rows)?;
        let examples = match self.context.input.preprocess(examples) {
            Ok(examples) => examples,
            Err(error) => {
                let path = self.plan.file(key.0).path.clone();
                let line = self.line(chunk.range, chunk.first_ordinal);
                return Err(CacheError::Step { path, line, error: Box::new(error) }.into());
            }
        };
        let batch = self.store(&chunk, &examples)?;
        let source_bytes = self.source_bytes(&chunk);
        add(&self.counters.examples, batch.len() as u64);
        add(&self.counters.tokens, batch.num_tokens());
        add(&self.counters.bad_rows, bad_rows.len() as u64);
        add(&self.counters.bytes_done, source_bytes);
        self.counters.tell();

        let mut pending = self.pending.lock().expect("no thread panicked");
        let range = pending.entry(key).or_default();
        range.chunks += 1;
        if chunk.last_of_range {
            range.chunks_expected = Some(number + 1);
        }
        range.digests.extend(digest.map(|digest| (number, digest)));
        range.records += chunk.num_records;
        range.source_bytes += source_bytes;
        range.rows += batch.len() as u64;
        range.row_bytes += batch.total_bytes();
        range.tokens += batch.num_tokens();
        range.bad_rows += bad_rows.len() as u64;
        range.first_bad_rows.extend(bad_rows);
        range.first_bad_rows.sort_by_key(|row| row.ordinal);
        range.first_bad_rows.truncate(crate::stats::BAD_ROWS_KEPT);
        range.damage = range.damage.take().or(chunk.damage);
        for (feature, counts) in examples.counts {
            *range.counts.entry(feature).or_default() += counts;
        }
        if batch.len() > 0 {
            range.memory += batch.memory();
            range.batches.push(batch);
        }
        if range.is_complete() {
            let range = pending.remove(&key).expect("just looked at");
            drop(pending);
            return Ok(self.finish(chunk.range, range)?);
        }
        if range.memory > self.run_bytes {
            let batches = std::mem::take(&mut range.batches);
            range.memory = 0;
            let run = range.runs_begun;
            range.runs_begun += 1;
            drop(pending);
            let run = self.write_run(chunk.range, run, batches)?;
            let mut pending = self.pending.lock().expect("no thread panicked");
            let range = pending.get_mut(&key).expect("a range with a run being written is not complete");
            range.runs.push(run);
            if range.is_complete() {
                let range = pending.remove(&key).expect("just looked at");
                drop(pending);
                self.finish(chunk.range, range)?;
            }
        }
        Ok(())
    }

    /// Drops what does not belong to the slice.
    fn window(&self, key: RangeKey, parsed: ParsedChunk) -> (Examples, Vec<BadRow>) {
        let ParsedChunk { mut examples, mut bad_rows } = parsed;
        if self.plan.slice.is_some() {
            let window = self.plan.window(key).unwrap_or(0..0);
            let ordinal = |row: &seqio::ExampleRow| row.origins.first().map_or(0, |origin| origin.row);
            let from = examples.rows.partition_point(|row| ordinal(row) < window.start);
            let to = examples.rows.partition_point(|row| ordinal(row) < window.end);
            examples.rows = examples.rows[from..to].to_vec();
            examples.columns = examples.columns.slice(from, to - from);
            bad_rows.retain(|row| window.contains(&row.ordinal));
        }
        (examples, bad_rows)
    }

    /// Stops at bad records and damaged files where the task says so.
    fn check_bad_rows(&self, chunk: &RawChunk, bad_rows: &[BadRow]) -> Result<(), Failure> {
        if self.context.input.skips_bad_rows() {
            return Ok(());
        }
        let file = self.plan.file(chunk.range.file);
        if let Some(first) = bad_rows.first() {
            let line = self.line(chunk.range, first.ordinal);
            let error = CacheError::BadRow { path: file.path.clone(), line, reason: first.reason.clone() };
            return Err(Failure { place: Some((chunk.range.file, chunk.range.start, first.ordinal)), error });
        }
        match &chunk.damage {
            Some(damage) => {
                Err(CacheError::DamagedSource { path: file.path.clone(), damage: damage.clone() }.into())
            }
            None => Ok(()),
        }
    }

    /// The line of a record, or its ordinal if the file cannot be read any more.
    fn line(&self, range: SourceRange, ordinal: u64) -> u64 {
        let file = self.plan.file(range.file);
        self.source.line_of(file, range, ordinal).unwrap_or(ordinal + 1)
    }

    /// Examples as rows of a spill.
    fn store(&self, chunk: &RawChunk, examples: &Examples) -> Result<SpillBatch, CacheError> {
        let seed = self.context.input.cache_seed();
        let keys: Vec<[u8; 16]> = if self.context.input.is_shuffled(self.plan.split.name()) {
            examples.rows.iter().map(|row| row.id.shuffle_key(seed)).collect()
        } else {
            let first = u128::from(chunk.first_ordinal) << 64;
            (0..examples.len() as u128).map(|place| (first | place).to_be_bytes()).collect()
        };
        let columns = self.context.columns;
        let batch = columns.store(&examples.columns, &examples.rows, &keys)?;
        Ok(SpillBatch::new(columns, batch).expect("it was made with the spill's columns"))
    }

    /// The chunk's share of the source file's bytes, where it is known.
    fn source_bytes(&self, chunk: &RawChunk) -> u64 {
        match (&self.plan.ranges[chunk.range.file as usize], &chunk.records) {
            (FileRanges::Known(_), RawRecords::Lines(text)) => text.len() as u64,
            (FileRanges::Known(ranges), RawRecords::Columns(_)) if chunk.last_of_range => {
                self.plan.file(chunk.range.file).bytes / ranges.len().max(1) as u64
            }
            _ => 0,
        }
    }

    fn write_run(
        &self,
        range: SourceRange,
        number: usize,
        batches: Vec<SpillBatch>,
    ) -> Result<RunEntry, CacheError> {
        let name = &self.plan.file(range.file).name;
        let BuildContext { columns, geometry, .. } = &self.context;
        let run = write_run(self.work, columns, geometry, name, range.start, number, batches)?;
        add(&self.counters.spill_bytes, run.bytes);
        Ok(run)
    }

    /// Spills what is left of a complete range and commits it.
    fn finish(&self, range: SourceRange, mut pending: Pending) -> Result<(), CacheError> {
        if !pending.batches.is_empty() {
            let batches = std::mem::take(&mut pending.batches);
            pending.runs.push(self.write_run(range, pending.runs_begun, batches)?);
        }
        pending.runs.sort_by(|a, b| a.file.cmp(&b.file));
        let text_digest =
            if pending.digests.is_empty() { String::new() } else { range_digest(pending.digests.values()) };
        let record = RangeRecord {
            file: FileState::of(self.plan.file(range.file)),
            file_index: range.file,
            start: range.start,
            end: range.end,
            records: pending.records,
            source_bytes: pending.source_bytes,
            text_digest,
            runs: pending.runs,
            rows: pending.rows,
            row_bytes: pending.row_bytes,
            tokens: pending.tokens,
            bad_rows: pending.bad_rows,
            first_bad_rows: first_bad_rows(pending.first_bad_rows),
            damage: pending.damage,
            counts: pending.counts,
        };
        record.write(self.work)?;
        self.done.lock().expect("no thread panicked").insert((range.file, range.start), record);
        add(&self.counters.ranges_done, 1);
        self.counters.committed(Commit::Spill);
        Ok(())
    }
}

impl Reading {
    fn number(&mut self, chunk: RawChunk) -> NumberedChunk {
        let number = match self.range {
            Some((start, chunks)) if start == chunk.range.start => chunks,
            _ => 0,
        };
        self.range = Some((chunk.range.start, number + 1));
        self.starts.insert(chunk.range.start);
        NumberedChunk { chunk, number }
    }
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

/// Puts ranges in the source's order, counts records through the files and sums up digests.
fn in_order(
    context: BuildContext<'_>,
    plan: &SplitPlan,
    done: BTreeMap<RangeKey, RangeRecord>,
) -> Result<Encoded, CacheError> {
    let mut ranges: Vec<EncodedRange> = Vec::with_capacity(done.len());
    let mut records_of: Vec<u64> = vec![0; plan.files.len()];
    for ((file, start), record) in done {
        let first_row = match &plan.slice {
            None => records_of[file as usize],
            Some(slice) => slice.counts.range((file, 0)..(file, start)).map(|(_, count)| count).sum(),
        };
        records_of[file as usize] += record.records;
        ranges.push(EncodedRange { record, file, first_row });
    }
    let digest = |index: usize| -> Result<String, CacheError> {
        let of_file =
            || ranges.iter().filter(|range| range.file as usize == index).map(|range| &range.record);
        if plan.slice.is_some() || of_file().any(|record| record.text_digest.is_empty()) {
            return whole_file_digest(&plan.files[index].path);
        }
        Ok(text_file_digest(
            of_file().map(|record| (record.start, record.records, record.text_digest.as_str())),
        ))
    };
    let digests: Vec<String> = context
        .pool
        .install(|| (0..plan.files.len()).into_par_iter().map(digest).collect::<Result<_, _>>())?;
    let files = plan.files.iter().zip(records_of).zip(digests).map(|((file, records), digest)| {
        SourceFileEntry { name: file.name.clone(), bytes: file.bytes, records, digest }
    });
    let files = files.collect();
    Ok(Encoded { ranges, files })
}

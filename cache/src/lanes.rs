//! Source files read in order, a chunk at a time, by whichever thread wants work.
//!
//! ```text
//! lane 0:  a.jsonl 0..64 MiB   | chunk 0 | chunk 1 | ...      a thread takes the next one, then works on it
//! lane 1:  b.jsonl.gz, whole   | chunk 0 | chunk 1 | ...      ranges that are committed are left out
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Mutex;

use seqio::{DataSource, RawChunk, RawChunks, RawRecords};

use crate::error::CacheError;
use crate::input::{RangeKey, ReadJob, SplitPlan};
use crate::parts::{FileState, RangeParts, StreamRecord};
use crate::progress::{Counters, add};

/// A place in the source, for telling which of several failures comes first: file, range, record.
pub(crate) type Place = (u32, u64, u64);

/// A chunk, and which one of its range it is.
pub(crate) struct NumberedChunk {
    pub(crate) chunk: RawChunk,
    pub(crate) number: u64,
}

/// A file or range being read.
struct Reading {
    job: ReadJob,
    chunks: RawChunks,
    /// The range of the chunk before, and how many of its chunks have come.
    range: Option<(u64, u64)>,
    /// Where ranges began, for files that cut their own.
    starts: BTreeSet<u64>,
    /// Whether its chunks are text.
    is_text: bool,
}

/// All that is still to be read of a split.
pub(crate) struct Lanes<'a> {
    source: &'a dyn DataSource,
    plan: &'a SplitPlan,
    work: &'a Path,
    counters: &'a Counters<'a>,
    /// The chunks that are committed, by range.
    committed: BTreeMap<RangeKey, BTreeSet<u64>>,
    /// The ranges that are committed whole.
    complete: BTreeSet<RangeKey>,
    queue: Mutex<VecDeque<ReadJob>>,
    lanes: Vec<Mutex<Option<Reading>>>,
}

impl<'a> Lanes<'a> {
    /// Lines up `jobs`, of which the chunks in `done` are committed.
    pub(crate) fn new(
        source: &'a dyn DataSource,
        plan: &'a SplitPlan,
        work: &'a Path,
        counters: &'a Counters<'a>,
        jobs: Vec<ReadJob>,
        done: &BTreeMap<RangeKey, RangeParts>,
        threads: usize,
    ) -> Self {
        let complete = done.iter().filter(|(_, range)| range.is_complete()).map(|(&key, _)| key).collect();
        let chunks = |range: &RangeParts| {
            range.parts.iter().flat_map(|part| part.content.chunks.keys().copied()).collect()
        };
        let committed = done.iter().map(|(&key, range)| (key, chunks(range))).collect();
        let files: BTreeSet<u32> = jobs.iter().map(|job| job.file).collect();
        add(&counters.files_done, counters.files_total.saturating_sub(files.len() as u64));
        let lanes = (0..threads.div_ceil(4).min(jobs.len()).max(1)).map(|_| Mutex::default()).collect();
        let queue = Mutex::new(VecDeque::from(jobs));
        Self { source, plan, work, counters, committed, complete, queue, lanes }
    }

    /// How many files and ranges are read at a time.
    pub(crate) fn count(&self) -> usize {
        self.lanes.len()
    }

    /// The next chunk that is not committed, from the thread's own lane if that has one. `stop` is asked before each
    /// chunk; `fail` is told of what cannot be read.
    pub(crate) fn next_chunk(
        &self,
        thread: usize,
        stop: impl Fn() -> bool,
        fail: impl Fn(Place, CacheError),
    ) -> Option<NumberedChunk> {
        for lane in 0..self.lanes.len() {
            let lane = &self.lanes[(thread + lane) % self.lanes.len()];
            let mut lane = lane.lock().expect("no thread panicked");
            while !stop() {
                let Some(reading) = lane.as_mut() else {
                    let Some(job) = self.queue.lock().expect("no thread panicked").pop_front() else { break };
                    match self.open(job) {
                        Ok(reading) => *lane = Some(reading),
                        Err(error) => fail((job.file, job.start(), 0), error),
                    }
                    continue;
                };
                match reading.chunks.next() {
                    Some(Ok(chunk)) => {
                        let numbered = reading.number(chunk);
                        if self.is_wanted(&numbered) {
                            return Some(numbered);
                        }
                    }
                    Some(Err(error)) => {
                        // After the records before it.
                        let start = reading.range.map_or(0, |(start, _)| start);
                        fail((reading.job.file, start, u64::MAX), error.into());
                    }
                    None => {
                        let file = reading.job.file;
                        if let Err(error) = self.close(lane.take().expect("it was just read from")) {
                            fail((file, u64::MAX, 0), error);
                        }
                    }
                }
            }
        }
        None
    }

    fn is_wanted(&self, numbered: &NumberedChunk) -> bool {
        let range = numbered.chunk.range;
        let key = (range.file, range.start);
        self.plan.window(key).is_some()
            && self.committed.get(&key).is_none_or(|chunks| !chunks.contains(&numbered.number))
    }

    fn open(&self, job: ReadJob) -> Result<Reading, CacheError> {
        let file = job.file;
        let of_file = (file, 0)..=(file, u64::MAX);
        let starts: BTreeSet<u64> = self.complete.range(of_file.clone()).map(|(_, start)| *start).collect();
        let slice: Option<BTreeSet<u64>> = self
            .plan
            .slice
            .as_ref()
            .map(|slice| slice.windows.range(of_file).map(|((_, start), _)| *start).collect());
        let complete = starts.clone();
        let skip = move |start: u64| {
            complete.contains(&start) || slice.as_ref().is_some_and(|slice| !slice.contains(&start))
        };
        let chunks = self.source.read(self.plan.file(file), file, job.range, Box::new(skip))?;
        Ok(Reading { job, chunks, range: None, is_text: false, starts })
    }

    fn close(&self, reading: Reading) -> Result<(), CacheError> {
        let file = self.plan.file(reading.job.file);
        if reading.job.range.is_none() {
            // Those of a plain file of text are counted chunk by chunk.
            if self.source.is_result(file) {
                add(&self.counters.bytes_done, self.plan.source_bytes());
            } else if file.is_compressed() || !reading.is_text {
                add(&self.counters.bytes_done, file.bytes);
            }
            add(&self.counters.files_done, 1);
            return StreamRecord { file: FileState::of(file), starts: reading.starts }.write(self.work);
        }
        let queue = self.queue.lock().expect("no thread panicked");
        if queue.front().is_none_or(|next| next.file != reading.job.file) {
            add(&self.counters.files_done, 1);
        }
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
        self.is_text |= matches!(chunk.records, RawRecords::Lines(_));
        self.starts.insert(chunk.range.start);
        NumberedChunk { chunk, number }
    }
}

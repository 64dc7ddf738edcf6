//! Sorting more records than fit in memory: sorted runs on the disk, merged.
//!
//! ```text
//! push 9 3 7 | 1 8 | 2    memory for three    ->   runs 3 7 9, 1 8 2 -> 1 2 8    ->   1 2 3 7 8 9
//! ```
//!
//! Records are bytes of one length, and sorted as bytes. Memory is that of the settings for any number of records and
//! any number of equal ones; how much it is does not show in the order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::whole_split::{Scratch, WholeSplitError};

/// Runs that are merged at a time.
const FAN_IN: usize = 64;
/// Records that are sorted at a time, at least.
const LEAST_RECORDS: u64 = 64;
/// Records between two looks at whether to stop.
const STOP_EVERY: u64 = 1 << 16;

/// Takes records in any order.
pub(super) struct Sorter<const N: usize> {
    scratch: Scratch,
    capacity: usize,
    buffer: Vec<[u8; N]>,
    runs: Vec<Run>,
    /// Where runs are written now.
    file: Option<RunFile>,
}

/// A file of sorted runs.
#[derive(Clone)]
struct RunFile {
    file: Arc<File>,
    path: Arc<PathBuf>,
    end: u64,
}

/// A sorted run.
enum Run {
    /// A part of a file: from, to.
    Part(RunFile, u64, u64),
    /// A whole file, opened when it is its turn.
    Whole(PathBuf),
}

impl<const N: usize> Sorter<N> {
    pub(super) fn new(scratch: &Scratch) -> Self {
        let records = (scratch.memory_bytes / N as u64).max(LEAST_RECORDS);
        let capacity = usize::try_from(records).unwrap_or(usize::MAX);
        Self { scratch: scratch.clone(), capacity, buffer: Vec::new(), runs: Vec::new(), file: None }
    }

    pub(super) fn push(&mut self, record: [u8; N]) -> Result<(), WholeSplitError> {
        if self.buffer.len() == self.capacity {
            self.spill()?;
        }
        if self.buffer.len() == self.buffer.capacity() {
            // Doubled, but never beyond what is allowed.
            let more = self.buffer.len().max(LEAST_RECORDS as usize);
            self.buffer.reserve_exact(more.min(self.capacity - self.buffer.len()));
        }
        self.buffer.push(record);
        Ok(())
    }

    /// Adds a file of records that are sorted already.
    pub(super) fn add_run(&mut self, path: PathBuf) {
        self.runs.push(Run::Whole(path));
    }

    /// The records in order.
    pub(super) fn finish(mut self) -> Result<Sorted<N>, WholeSplitError> {
        if self.runs.is_empty() {
            self.buffer.sort_unstable();
            return Ok(Sorted::Memory(self.buffer.into_iter()));
        }
        if !self.buffer.is_empty() {
            self.spill()?;
        }
        self.buffer = Vec::new();
        while self.runs.len() > FAN_IN {
            // Files of the last round go as soon as their runs are merged.
            self.file = None;
            let runs = std::mem::take(&mut self.runs);
            let mut rest = runs.into_iter().peekable();
            while rest.peek().is_some() {
                let group: Vec<Run> = rest.by_ref().take(FAN_IN).collect();
                let mut merge: Merge<N> = Merge::new(group, &self.scratch)?;
                let mut writer = self.begin_run()?;
                while let Some(record) = merge.next()? {
                    writer.write(&record)?;
                }
                self.end_run(writer)?;
            }
        }
        Ok(Sorted::Merge(Merge::new(self.runs, &self.scratch)?))
    }

    fn spill(&mut self) -> Result<(), WholeSplitError> {
        self.scratch.check_stop()?;
        self.buffer.sort_unstable();
        let mut writer = self.begin_run()?;
        for record in &self.buffer {
            writer.write(record)?;
        }
        self.buffer.clear();
        self.end_run(writer)
    }

    fn begin_run(&mut self) -> Result<RunWriter, WholeSplitError> {
        let file = match self.file.take() {
            Some(file) => file,
            None => {
                let (file, path) = self.scratch.file()?;
                RunFile { file: Arc::new(file), path: Arc::new(path.to_owned()), end: 0 }
            }
        };
        let handle = file.file.try_clone().map_err(WholeSplitError::io("write a file in", &file.path))?;
        Ok(RunWriter { to: BufWriter::with_capacity(1 << 16, handle), first: file.end, file })
    }

    fn end_run(&mut self, mut writer: RunWriter) -> Result<(), WholeSplitError> {
        writer.to.flush().map_err(WholeSplitError::io("write a file in", &writer.file.path))?;
        self.runs.push(Run::Part(writer.file.clone(), writer.first, writer.file.end));
        self.file = Some(writer.file);
        Ok(())
    }
}

/// A run being written at the end of its file.
struct RunWriter {
    to: BufWriter<File>,
    first: u64,
    file: RunFile,
}

impl RunWriter {
    fn write(&mut self, record: &[u8]) -> Result<(), WholeSplitError> {
        self.file.end += record.len() as u64;
        self.to.write_all(record).map_err(WholeSplitError::io("write a file in", &self.file.path))
    }
}

/// Records in order.
pub(super) enum Sorted<const N: usize> {
    Memory(std::vec::IntoIter<[u8; N]>),
    Merge(Merge<N>),
}

impl<const N: usize> Sorted<N> {
    pub(super) fn next(&mut self) -> Result<Option<[u8; N]>, WholeSplitError> {
        match self {
            Self::Memory(records) => Ok(records.next()),
            Self::Merge(merge) => merge.next(),
        }
    }
}

/// Sorted runs merged into one.
pub(super) struct Merge<const N: usize> {
    cursors: Vec<Cursor<N>>,
    heap: BinaryHeap<Reverse<([u8; N], usize)>>,
    scratch: Scratch,
    given: u64,
}

impl<const N: usize> Merge<N> {
    fn new(runs: Vec<Run>, scratch: &Scratch) -> Result<Self, WholeSplitError> {
        let room = scratch.memory_bytes / runs.len().max(1) as u64;
        let records = (room.clamp(4 << 10, 256 << 10) as usize / N).max(1);
        let mut cursors = Vec::with_capacity(runs.len());
        let mut heap = BinaryHeap::with_capacity(runs.len());
        for run in runs {
            let mut cursor: Cursor<N> = Cursor::open(run, records * N)?;
            if let Some(record) = cursor.next()? {
                heap.push(Reverse((record, cursors.len())));
                cursors.push(cursor);
            }
        }
        Ok(Self { cursors, heap, scratch: scratch.clone(), given: 0 })
    }

    fn next(&mut self) -> Result<Option<[u8; N]>, WholeSplitError> {
        self.given += 1;
        if self.given.is_multiple_of(STOP_EVERY) {
            self.scratch.check_stop()?;
        }
        let Some(mut top) = self.heap.peek_mut() else { return Ok(None) };
        let Reverse((record, cursor)) = *top;
        match self.cursors[cursor].next()? {
            Some(next) => *top = Reverse((next, cursor)),
            None => drop(PeekMut::pop(top)),
        }
        Ok(Some(record))
    }
}

/// A run being read.
struct Cursor<const N: usize> {
    file: Arc<File>,
    path: Arc<PathBuf>,
    /// What is still on the disk: from, to.
    at: u64,
    end: u64,
    buffer: Vec<u8>,
    place: usize,
    buffer_bytes: usize,
}

impl<const N: usize> Cursor<N> {
    fn open(run: Run, buffer_bytes: usize) -> Result<Self, WholeSplitError> {
        let (file, path, at, end) = match run {
            Run::Part(part, from, to) => (part.file, part.path, from, to),
            Run::Whole(path) => {
                let file = File::open(&path).map_err(WholeSplitError::io("read", &path))?;
                let end = file.metadata().map_err(WholeSplitError::io("read", &path))?.len();
                (Arc::new(file), Arc::new(path), 0, end)
            }
        };
        Ok(Self { file, path, at, end, buffer: Vec::new(), place: 0, buffer_bytes })
    }

    fn next(&mut self) -> Result<Option<[u8; N]>, WholeSplitError> {
        if self.place == self.buffer.len() {
            let bytes = (self.end - self.at).min(self.buffer_bytes as u64);
            if bytes == 0 {
                self.buffer = Vec::new();
                self.place = 0;
                return Ok(None);
            }
            self.buffer.resize(bytes as usize, 0);
            let read = self.file.read_exact_at(&mut self.buffer, self.at);
            read.map_err(WholeSplitError::io("read", &self.path))?;
            self.at += bytes;
            self.place = 0;
        }
        let Some(record) = self.buffer[self.place..].first_chunk::<N>() else {
            let error = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
            return Err(WholeSplitError::io("read", &self.path)(error));
        };
        self.place += N;
        Ok(Some(*record))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sorted(records: &[[u8; 3]], memory_bytes: u64) -> Vec<[u8; 3]> {
        let mut sorter = Sorter::new(&Scratch::temporary(memory_bytes));
        records.iter().for_each(|record| sorter.push(*record).unwrap());
        let mut sorted = sorter.finish().unwrap();
        std::iter::from_fn(|| sorted.next().unwrap()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn any_records_come_out_in_order_with_any_memory(
            records in prop::collection::vec(any::<[u8; 3]>(), 0..2000),
            memory in prop_oneof![Just(0), 0..2000u64, Just(1 << 20)],
        ) {
            let mut expected = records.clone();
            expected.sort_unstable();
            prop_assert_eq!(sorted(&records, memory), expected);
        }
    }

    #[test]
    fn more_runs_than_are_merged_at_a_time_are_merged_in_rounds() {
        let records: Vec<[u8; 3]> =
            (0..300_000u32).map(|n| [n as u8, (n >> 8) as u8, (n % 7) as u8]).collect();
        let mut expected = records.clone();
        expected.sort_unstable();
        assert!(records.len() as u64 > LEAST_RECORDS * (FAN_IN * FAN_IN) as u64);
        assert_eq!(sorted(&records, 0), expected);
    }

    #[test]
    fn sorted_files_are_merged_with_the_rest_and_a_torn_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        std::fs::write(&path, b"aaacccddd").unwrap();
        let mut sorter: Sorter<3> = Sorter::new(&Scratch::temporary(0));
        sorter.add_run(path.clone());
        sorter.push(*b"bbb").unwrap();
        let mut merged = sorter.finish().unwrap();
        let all: Vec<[u8; 3]> = std::iter::from_fn(|| merged.next().unwrap()).collect();
        assert_eq!(all.concat(), b"aaabbbcccddd");

        std::fs::write(&path, b"aaacc").unwrap();
        let mut sorter: Sorter<3> = Sorter::new(&Scratch::temporary(0));
        sorter.add_run(path);
        let mut merged = sorter.finish().unwrap();
        let error = std::iter::from_fn(|| merged.next().transpose()).find_map(Result::err).unwrap();
        assert!(error.to_string().starts_with("cannot read "), "{error}");
    }

    #[test]
    fn it_stops_when_it_is_asked_to_and_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Scratch { folder: folder.path().to_owned(), ..Scratch::temporary(0) };
        let mut sorter: Sorter<3> = Sorter::new(&scratch);
        (0..200).for_each(|n| sorter.push([n, 0, 0]).unwrap());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        scratch.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let stopped = (0..200).try_for_each(|n| sorter.push([n, 0, 0]));
        assert!(matches!(stopped, Err(WholeSplitError::Stopped)));
    }
}

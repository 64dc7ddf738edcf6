//! The examples of a split that a step drops, in a file sorted by their positions: looked up, never held in memory.

use std::fs::File;
use std::io::{BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::example::Examples;
use crate::source::SourceRange;
use crate::whole_split::WholeSplitError;
use crate::whole_split::duplicates::DROP_BYTES;
use crate::whole_split::position::{POSITION_BYTES, Position, positions};

/// The examples of a split that a step drops.
#[derive(Debug)]
pub struct Drops {
    file: File,
    path: PathBuf,
    count: u64,
}

/// An example that is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Where it stands.
    pub dropped: Position,
    /// Where the one stands that is kept in its place.
    pub kept: Position,
}

impl Drops {
    /// Opens a file that [`find_duplicates`](crate::find_duplicates) wrote.
    pub fn open(path: &Path) -> Result<Self, WholeSplitError> {
        Self::of(File::open(path).map_err(WholeSplitError::io("read", path))?, path)
    }

    pub(super) fn of(file: File, path: &Path) -> Result<Self, WholeSplitError> {
        let bytes = file.metadata().map_err(WholeSplitError::io("read", path))?.len();
        Ok(Self { file, path: path.to_owned(), count: bytes / DROP_BYTES as u64 })
    }

    /// How many examples go.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// All of them, in the order of the source.
    pub fn iter(&self) -> Result<impl Iterator<Item = Result<Dropped, WholeSplitError>>, WholeSplitError> {
        let again = self.file.try_clone().map_err(WholeSplitError::io("read", &self.path))?;
        let mut reader = BufReader::with_capacity(1 << 16, FromStart { file: again, at: 0 });
        Ok((0..self.count).map(move |_| {
            let mut bytes = [0; DROP_BYTES];
            reader.read_exact(&mut bytes).map_err(WholeSplitError::io("read", &self.path))?;
            Ok(drop_of(&bytes))
        }))
    }

    /// Which of some examples of one chunk of a range stay.
    pub(super) fn keep(&self, range: SourceRange, examples: &Examples) -> Result<Vec<bool>, WholeSplitError> {
        if self.count == 0 || examples.is_empty() {
            return Ok(vec![true; examples.len()]);
        }
        let positions = positions(range, examples);
        let (first, last) = positions.iter().fold((positions[0], positions[0]), |(first, last), position| {
            (first.min(*position), last.max(*position))
        });
        let from = self.lower_bound(first)?;
        let to = self.lower_bound(Position { occurrence: u32::MAX, ..last })?;
        let mut bytes = vec![0; (to - from) as usize * DROP_BYTES];
        self.read(&mut bytes, from)?;
        let dropped: Vec<Position> =
            bytes.as_chunks::<DROP_BYTES>().0.iter().map(|bytes| drop_of(bytes).dropped).collect();
        Ok(positions.iter().map(|position| dropped.binary_search(position).is_err()).collect())
    }

    /// How many drops stand before a position.
    fn lower_bound(&self, position: Position) -> Result<u64, WholeSplitError> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low.midpoint(high);
            let mut bytes = [0; DROP_BYTES];
            self.read(&mut bytes, middle)?;
            if drop_of(&bytes).dropped < position { low = middle + 1 } else { high = middle }
        }
        Ok(low)
    }

    fn read(&self, bytes: &mut [u8], index: u64) -> Result<(), WholeSplitError> {
        let read = self.file.read_exact_at(bytes, index * DROP_BYTES as u64);
        read.map_err(WholeSplitError::io("read", &self.path))
    }
}

fn drop_of(bytes: &[u8; DROP_BYTES]) -> Dropped {
    let (mut dropped, mut kept) = ([0; POSITION_BYTES], [0; POSITION_BYTES]);
    dropped.copy_from_slice(&bytes[..POSITION_BYTES]);
    kept.copy_from_slice(&bytes[POSITION_BYTES..]);
    Dropped { dropped: Position::from_bytes(dropped), kept: Position::from_bytes(kept) }
}

/// Reads a file that others read too, from its start.
struct FromStart {
    file: File,
    at: u64,
}

impl Read for FromStart {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

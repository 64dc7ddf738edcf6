//! From the keys of a split to the examples that go: all but the first of each key.
//!
//! ```text
//! (k1, a:0) (k2, a:1) (k1, a:2) (k1, b:0)    ->    a:2 for a:0, b:0 for a:0;    k1 has 3 copies
//! ```

use std::cmp::Reverse;
use std::io::Write;
use std::path::PathBuf;

use crate::preprocess::SplitKey;
use crate::whole_split::position::{KEY_RECORD_BYTES, POSITION_BYTES, Position, key_and_position};
use crate::whole_split::sorter::{Sorted, Sorter};
use crate::whole_split::{Scratch, WholeSplitError};

/// Bytes of what is known of a dropped example: its position, and that of the one that is kept in its place.
pub(super) const DROP_BYTES: usize = 2 * POSITION_BYTES;
/// How many of the most repeated keys are told.
const MOST_TOLD: usize = 10;

/// What was found among the keys of a split.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DuplicateCounts {
    /// Examples with a key.
    pub compared: u64,
    /// Examples that go.
    pub dropped: u64,
    /// Keys that more than one example has.
    pub repeated_keys: u64,
    /// The keys that most examples have, the most frequent first.
    pub most_repeated: Vec<Repeated>,
}

/// A key that several examples have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeated {
    /// Where the example stands that is kept.
    pub kept: Position,
    /// How many examples have the key, the one that is kept among them.
    pub copies: u64,
}

/// Finds the duplicates among the keys of `runs`, files of sorted [`KeyRecord`](crate::KeyRecord)s, and writes who goes
/// to `out`, as [`Drops`](crate::Drops) reads it.
pub fn find_duplicates(
    runs: Vec<PathBuf>,
    scratch: &Scratch,
    out: &mut dyn Write,
) -> Result<DuplicateCounts, WholeSplitError> {
    let mut keys = Sorter::new(&scratch.with_memory(scratch.memory_bytes / 2));
    runs.into_iter().for_each(|run| keys.add_run(run));
    drops_of(keys.finish()?, scratch, out)
}

/// [`find_duplicates`] of keys in order.
pub(super) fn drops_of(
    mut keys: Sorted<KEY_RECORD_BYTES>,
    scratch: &Scratch,
    out: &mut dyn Write,
) -> Result<DuplicateCounts, WholeSplitError> {
    let mut counts = DuplicateCounts::default();
    let mut drops: Sorter<DROP_BYTES> = Sorter::new(&scratch.with_memory(scratch.memory_bytes / 2));
    let mut current: Option<(SplitKey, Repeated)> = None;
    while let Some(record) = keys.next()? {
        counts.compared += 1;
        let (key, position) = key_and_position(&record);
        match &mut current {
            Some((same, repeated)) if *same == key => {
                repeated.copies += 1;
                counts.dropped += 1;
                let mut bytes = [0; DROP_BYTES];
                bytes[..POSITION_BYTES].copy_from_slice(&position.to_bytes());
                bytes[POSITION_BYTES..].copy_from_slice(&repeated.kept.to_bytes());
                drops.push(bytes)?;
            }
            current => {
                let before = current.replace((key, Repeated { kept: position, copies: 1 }));
                counts.add(before.map(|(_, repeated)| repeated));
            }
        }
    }
    counts.add(current.map(|(_, repeated)| repeated));
    drop(keys);
    let mut drops = drops.finish()?;
    while let Some(bytes) = drops.next()? {
        out.write_all(&bytes).map_err(WholeSplitError::io("write what is dropped in", &scratch.folder))?;
    }
    out.flush().map_err(WholeSplitError::io("write what is dropped in", &scratch.folder))?;
    Ok(counts)
}

impl DuplicateCounts {
    fn add(&mut self, key: Option<Repeated>) {
        let Some(key) = key.filter(|key| key.copies > 1) else { return };
        self.repeated_keys += 1;
        let rank = |key: &Repeated| (Reverse(key.copies), key.kept);
        let place = self.most_repeated.partition_point(|other| rank(other) < rank(&key));
        if place < MOST_TOLD {
            self.most_repeated.insert(place, key);
            self.most_repeated.truncate(MOST_TOLD);
        }
    }
}

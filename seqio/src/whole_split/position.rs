//! Where an example stands in a split, and its key beside it: plain bytes whose order is the order of the source.
//!
//! ```text
//! position   file 4 | start of the range 8 | ordinal of the record in it 8 | which of its examples 4     big-endian
//! record     key 32 | position 24
//! ```

use crate::example::Examples;
use crate::preprocess::SplitKey;
use crate::source::SourceRange;

/// Bytes of a position.
pub(super) const POSITION_BYTES: usize = 24;
/// Bytes of a key with a position.
pub(super) const KEY_RECORD_BYTES: usize = 32 + POSITION_BYTES;

/// A key and the position of the example that has it: sorted by these bytes, equal keys stand together, the first in
/// the order of the source in front.
pub type KeyRecord = [u8; KEY_RECORD_BYTES];

/// Where an example stands in the order of its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Index of the file among those of the split.
    pub file: u32,
    /// Where its range starts.
    pub start: u64,
    /// Ordinal within the range of the raw record that it was made from.
    pub ordinal: u64,
    /// Which one it is of the examples that were made from this record.
    pub occurrence: u32,
}

impl Position {
    pub(super) fn to_bytes(self) -> [u8; POSITION_BYTES] {
        let mut bytes = [0; POSITION_BYTES];
        bytes[..4].copy_from_slice(&self.file.to_be_bytes());
        bytes[4..12].copy_from_slice(&self.start.to_be_bytes());
        bytes[12..20].copy_from_slice(&self.ordinal.to_be_bytes());
        bytes[20..].copy_from_slice(&self.occurrence.to_be_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: [u8; POSITION_BYTES]) -> Self {
        let [f0, f1, f2, f3, s0, s1, s2, s3, s4, s5, s6, s7, rest @ ..] = bytes;
        let [o0, o1, o2, o3, o4, o5, o6, o7, c0, c1, c2, c3] = rest;
        Self {
            file: u32::from_be_bytes([f0, f1, f2, f3]),
            start: u64::from_be_bytes([s0, s1, s2, s3, s4, s5, s6, s7]),
            ordinal: u64::from_be_bytes([o0, o1, o2, o3, o4, o5, o6, o7]),
            occurrence: u32::from_be_bytes([c0, c1, c2, c3]),
        }
    }
}

/// The positions of examples of one chunk of a range, in their order.
pub(super) fn positions(range: SourceRange, examples: &Examples) -> Vec<Position> {
    let ordinal = |row: usize| examples.rows[row].origins.first().map_or(0, |origin| origin.row);
    let at = |row: usize, occurrence: u32| Position {
        file: range.file,
        start: range.start,
        ordinal: ordinal(row),
        occurrence,
    };
    if (1..examples.len()).all(|row| ordinal(row - 1) < ordinal(row)) {
        return (0..examples.len()).map(|row| at(row, 0)).collect();
    }
    let mut met: std::collections::BTreeMap<u64, u32> = std::collections::BTreeMap::new();
    let mut count = |row| {
        let met = met.entry(ordinal(row)).or_default();
        *met += 1;
        *met - 1
    };
    (0..examples.len()).map(|row| at(row, count(row))).collect()
}

/// A key with its position.
pub(super) fn key_record(key: SplitKey, position: Position) -> KeyRecord {
    let mut record = [0; KEY_RECORD_BYTES];
    record[..32].copy_from_slice(&key);
    record[32..].copy_from_slice(&position.to_bytes());
    record
}

/// The two parts of a record.
pub(super) fn key_and_position(record: &KeyRecord) -> (SplitKey, Position) {
    let (mut key, mut position) = ([0; 32], [0; POSITION_BYTES]);
    key.copy_from_slice(&record[..32]);
    position.copy_from_slice(&record[32..]);
    (key, Position::from_bytes(position))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{rows, text_examples};

    fn position() -> impl Strategy<Value = Position> {
        let number = || prop_oneof![0..3u64, any::<u64>()];
        (0..3u32, number(), number(), 0..3u32).prop_map(|(file, start, ordinal, occurrence)| Position {
            file,
            start,
            ordinal,
            occurrence,
        })
    }

    proptest! {
        #[test]
        fn the_order_of_the_bytes_is_that_of_the_source(a in position(), b in position()) {
            prop_assert_eq!(a.to_bytes().cmp(&b.to_bytes()), a.cmp(&b));
            prop_assert_eq!(Position::from_bytes(a.to_bytes()), a);
        }
    }

    #[test]
    fn examples_made_from_one_record_are_told_apart() {
        let mut examples = text_examples(&[("t", &[Some("a"), Some("b"), Some("c"), Some("d")])]);
        let range = SourceRange { file: 3, start: 64, end: 128 };
        let found = |examples: &Examples| -> Vec<(u64, u32)> {
            positions(range, examples)
                .iter()
                .map(|position| (position.ordinal, position.occurrence))
                .collect()
        };
        assert_eq!(found(&examples), [(0, 0), (1, 0), (2, 0), (3, 0)]);
        let made_from = [0, 2, 0, 2].map(|row| rows(3)[row].clone());
        examples.rows = made_from.to_vec();
        assert_eq!(found(&examples), [(0, 0), (2, 0), (0, 1), (2, 1)]);
    }
}

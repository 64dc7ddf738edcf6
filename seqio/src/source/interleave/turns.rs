//! Whose turn it is: sixteen slots one after the other, up to sixteen records a visit.
//!
//! An empty slot takes the next file when its turn comes. Where a file ends within a visit its slot becomes empty, and the
//! turn passes on: the slot takes another file at its next turn.
//!
//! ```text
//! a (20 records), b (3), c (17)   ->   a 0–15, b 0–2, c 0–15, a 16–19, c 16
//! ```

use crate::source::interleave::Interleave;

/// Hands out turns.
#[derive(Debug)]
pub(super) struct Turns {
    /// The files in the slots.
    slots: Vec<Option<usize>>,
    /// Records of a visit.
    block: usize,
    /// The slot whose turn it is, and the records that it has given in this visit.
    slot: usize,
    given: usize,
    /// The next file that has had no slot yet, of how many.
    next: usize,
    files: usize,
}

impl Turns {
    pub(super) fn new(files: usize, order: Interleave) -> Self {
        // A slot more than there are files is never filled.
        let slots = usize::try_from(order.cycle_length).unwrap_or(usize::MAX).min(files).max(1);
        let block = usize::try_from(order.block_length).unwrap_or(usize::MAX).max(1);
        Self { slots: vec![None; slots], block, slot: 0, given: 0, next: 0, files }
    }

    /// The file whose record is next; `has_more` says whether a file has one.
    pub(super) fn next<E>(
        &mut self,
        mut has_more: impl FnMut(usize) -> Result<bool, E>,
    ) -> Result<Option<usize>, E> {
        while self.next < self.files || self.slots.iter().any(Option::is_some) {
            if self.given == self.block {
                self.turn();
            }
            let slot = &mut self.slots[self.slot];
            if slot.is_none() && self.next < self.files {
                *slot = Some(self.next);
                self.next += 1;
            }
            match *slot {
                Some(file) if has_more(file)? => {
                    self.given += 1;
                    return Ok(Some(file));
                }
                _ => {
                    *slot = None;
                    self.turn();
                }
            }
        }
        Ok(None)
    }

    fn turn(&mut self) {
        self.slot = (self.slot + 1) % self.slots.len();
        self.given = 0;
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::convert::Infallible;

    use serde_json::Value;

    use super::*;
    use crate::vocabulary::golden::rows;

    /// File and record of each turn, for files of so many records.
    fn turns(mut turns: Turns, lengths: &[usize]) -> Vec<(usize, usize)> {
        let mut given = vec![0; lengths.len()];
        let mut order = Vec::new();
        while let Ok(Some(file)) = turns.next(|file| Ok::<_, Infallible>(given[file] < lengths[file])) {
            order.push((file, given[file]));
            given[file] += 1;
        }
        order
    }

    /// What a host of SeqIO's reads: files if there are enough, else every so many records.
    pub(in crate::source) fn shard(lengths: &[usize], index: usize, shards: usize) -> Vec<(usize, usize)> {
        if lengths.len() < shards {
            let all = turns(Turns::new(lengths.len(), Interleave::default()), lengths);
            return all.into_iter().skip(index).step_by(shards).collect();
        }
        let files: Vec<usize> = (index..lengths.len()).step_by(shards).collect();
        let of_shard: Vec<usize> = files.iter().map(|&file| lengths[file]).collect();
        let turns = turns(Turns::new(files.len(), Interleave::default()), &of_shard);
        turns.into_iter().map(|(file, record)| (files[file], record)).collect()
    }

    #[test]
    fn files_of_any_length_come_whole_and_in_their_order() {
        for lengths in [vec![], vec![0], vec![16], vec![16, 16, 1], vec![40; 33], (0..50).collect()] {
            let order = turns(Turns::new(lengths.len(), Interleave::default()), &lengths);
            assert_eq!(order.len(), lengths.iter().sum::<usize>());
            for (file, &length) in lengths.iter().enumerate() {
                let records: Vec<usize> =
                    order.iter().filter(|(of, _)| *of == file).map(|(_, record)| *record).collect();
                assert_eq!(records, (0..length).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn turns_are_those_of_seqio() {
        let lengths = [40, 3, 20, 0, 17];
        let number = |value: &Value| value.as_u64().map(|number| usize::try_from(number).unwrap());
        let length = |value: &Value| value.as_u64().map(|number| u32::try_from(number).unwrap());
        let mut refused = Vec::new();
        for row in rows("seqio/sources.jsonl") {
            let (slots, block) = (length(&row["cycle_length"]), length(&row["block_length"]));
            let shard_of = (number(&row["shard_info"]["index"]), number(&row["shard_info"]["num_shards"]));
            let order = match (slots, block, shard_of) {
                (Some(cycle_length), Some(block_length), _) => {
                    turns(Turns::new(5, Interleave { cycle_length, block_length }), &lengths)
                }
                (_, _, (Some(index), Some(shards))) => shard(&lengths, index, shards),
                _ => shard(&lengths, 0, 1),
            };
            if row["error"].is_object() {
                // SeqIO refuses to shard five files for six hosts, and `Task.get_dataset` then shards examples.
                refused.push(row["case"].clone());
                continue;
            }
            if let Some(epochs) = number(&row["num_epochs"]) {
                assert_eq!(number(&row["count"]), Some(epochs * order.len()));
                continue;
            }
            let found: Vec<String> =
                order.iter().map(|(file, line)| format!("f{file} line {line}")).collect();
            assert_eq!(row["output"], Value::from(found), "{} {}", row["case"], row["shard_info"]);
        }
        assert_eq!(refused, ["too many shards"]);
    }
}

//! Counts the lines of a file without keeping them: for slices, and for line numbers in messages.

use crate::source::compression::Blocks;
use crate::source::lines::Cutting;
use crate::source::{SourceError, SourceFile, SourceRange};

/// How many lines begin in each range of a file, the damaged one of a broken stream included.
pub(super) fn count_lines_of_ranges(
    file: &SourceFile,
    index: u32,
    cutting: Cutting,
) -> Result<Vec<(SourceRange, u64)>, SourceError> {
    let mut blocks = Blocks::open(file)?;
    let mut counts: Vec<u64> = vec![0];
    let mut at = 0;
    // Whether a line begins at `at` if there is a byte (or a break) there.
    let mut line_begins = true;
    let mut last_begin = 0;
    let mut block = Vec::new();
    while blocks.read_block(&mut block)? {
        if line_begins {
            add(&mut counts, at / cutting.range_bytes, 1);
            last_begin = at;
        }
        // A line begins one byte after each line end, but after one that is the last byte of what has been read.
        let mut from = 0;
        while from + 1 < block.len() {
            let range = (at + from as u64 + 1) / cutting.range_bytes;
            let range_end = (range + 1).saturating_mul(cutting.range_bytes) - 1;
            let to = usize::try_from(range_end - at).map_or(block.len() - 1, |to| to.min(block.len() - 1));
            add(&mut counts, range, memchr::memchr_iter(b'\n', &block[from..to]).count() as u64);
            from = to;
        }
        let before_last = &block[..block.len() - 1];
        if let Some(end) = memchr::memrchr(b'\n', before_last) {
            last_begin = at + end as u64 + 1;
        }
        line_begins = block.last() == Some(&b'\n');
        at += block.len() as u64;
        // A range in which no line begins is counted too.
        add(&mut counts, (at - 1) / cutting.range_bytes, 0);
        block.clear();
    }
    if blocks.damage().is_some() {
        let broken = if line_begins { at } else { last_begin };
        add(&mut counts, broken / cutting.range_bytes, u64::from(line_begins));
        counts
            .truncate(usize::try_from(broken / cutting.range_bytes).unwrap_or(usize::MAX).saturating_add(1));
    }
    Ok(cutting.ranges_from(index).zip(counts).collect())
}

fn add(counts: &mut Vec<u64>, range: u64, lines: u64) {
    let range = usize::try_from(range).expect("a file has fewer ranges than memory has bytes");
    if range >= counts.len() {
        counts.resize(range + 1, 0);
    }
    counts[range] += lines;
}

/// Counts records of a range, which come after those of the ranges before.
pub(super) fn add_to_range(counts: &mut Vec<(SourceRange, u64)>, range: SourceRange, records: u64) {
    match counts.last_mut().filter(|(last, _)| *last == range) {
        Some((_, count)) => *count += records,
        None => counts.push((range, records)),
    }
}

/// The 1-based number of the line that has this ordinal in `range`.
pub(super) fn line_number(file: &SourceFile, range: SourceRange, ordinal: u64) -> Result<u64, SourceError> {
    // The first line of a range begins after the first line end at or after the byte before the range.
    let Some(mut left) = range.start.checked_sub(1) else { return Ok(ordinal + 1) };
    let mut blocks = Blocks::open(file)?;
    let mut line_ends = 0;
    let mut block = Vec::new();
    while left > 0 && blocks.read_block(&mut block)? {
        let read = usize::try_from(left).map_or(block.len(), |left| left.min(block.len()));
        line_ends += memchr::memchr_iter(b'\n', &block[..read]).count() as u64;
        left -= read as u64;
        block.clear();
    }
    Ok(line_ends + 1 + ordinal + 1)
}

//! Prints parsed chunks for tests, and holds sources to their laws.

use std::collections::BTreeMap;
use std::fmt::Write;

use arrow::util::display::array_value_to_string;

use crate::example::ExampleId;
use crate::source::{
    DataSource, FileRanges, ParsedChunk, RawChunk, RawRecords, SliceWindows, SourceFile, SourceRange,
};

/// A line for each record, in their order: `row ORDINAL @OFFSET+LENGTH: columns` or `bad ORDINAL @OFFSET: reason`.
pub(super) fn show(chunk: &ParsedChunk) -> String {
    let batch = &chunk.examples.columns;
    let mut lines: Vec<(u64, String)> = Vec::new();
    for (index, row) in chunk.examples.rows.iter().enumerate() {
        let origin = row.origins[0];
        let mut line = format!("row {} @{}+{}:", origin.row, origin.offset, origin.length);
        for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
            let null = column.is_null(index);
            let value = if null { "null".to_owned() } else { array_value_to_string(column, index).unwrap() };
            write!(line, " {}={}", field.name(), value.replace('\n', "\\n")).unwrap();
        }
        lines.push((origin.row, line));
    }
    for bad in &chunk.bad_rows {
        lines.push((bad.ordinal, format!("bad {} @{}: {}", bad.ordinal, bad.offset, bad.reason)));
    }
    lines.sort();
    lines.into_iter().map(|(_, line)| line + "\n").collect()
}

/// What tells chunks apart.
fn shape(chunk: &RawChunk) -> (SourceRange, u64, u64, u64, bool, Option<String>, RawRecords) {
    let RawChunk { range, first_ordinal, num_records, first_offset, last_of_range, .. } = chunk.clone();
    (
        range,
        first_ordinal,
        num_records,
        first_offset,
        last_of_range,
        chunk.damage.clone(),
        chunk.records.clone(),
    )
}

fn assert_same(found: &[RawChunk], expected: &[RawChunk], how: &str) {
    assert_eq!(found.len(), expected.len(), "{how}");
    for (found, expected) in found.iter().zip(expected) {
        let (found, expected) = (shape(found), shape(expected));
        assert_eq!(
            (found.0, found.1, found.2, found.3, found.4, &found.5),
            (expected.0, expected.1, expected.2, expected.3, expected.4, &expected.5),
            "{how}"
        );
        match (&found.6, &expected.6) {
            (RawRecords::Lines(found), RawRecords::Lines(expected)) => assert_eq!(found, expected, "{how}"),
            (RawRecords::Columns(found), RawRecords::Columns(expected)) => {
                assert_eq!(found, expected, "{how}");
            }
            _ => panic!("{how}: lines and columns"),
        }
    }
}

fn chunks(
    source: &dyn DataSource,
    file: &SourceFile,
    index: u32,
    range: Option<SourceRange>,
) -> Vec<RawChunk> {
    source.read(file, index, range, Box::new(|_| false)).unwrap().map(Result::unwrap).collect()
}

/// The laws of [`DataSource`] for every file of a split; gives all that the split holds, as [`show`] prints it.
pub(super) fn assert_source_laws(source: &dyn DataSource, split: &str) -> String {
    let files = source.files(split).unwrap();
    let mut shown = String::new();
    let mut counts = Vec::new();
    for (index, file) in (0u32..).zip(&files) {
        let whole = chunks(source, file, index, None);
        let mut records: BTreeMap<SourceRange, u64> = BTreeMap::new();
        for (place, chunk) in whole.iter().enumerate() {
            let count = records.entry(chunk.range).or_default();
            assert_eq!(chunk.first_ordinal, *count, "ordinals go on from chunk to chunk");
            *count += chunk.num_records;
            let next = whole.get(place + 1).map(|next| next.range);
            assert_eq!(chunk.last_of_range, next != Some(chunk.range), "each range has one last chunk");
            assert!(next.is_none_or(|next| next >= chunk.range), "ranges come in order");
            assert_eq!(chunk.range.file, index);
            let parsed = source.parse(file, chunk).unwrap();
            assert_eq!(parsed.examples.columns.schema(), source.schema());
            assert_eq!(parsed.examples.columns.num_rows(), parsed.examples.rows.len());
            let printed = show(&parsed);
            assert_eq!(
                printed,
                show(&source.parse(file, chunk).unwrap()),
                "parsing depends on the chunk alone"
            );
            shown += &printed;
            let ordinals = chunk.first_ordinal..chunk.first_ordinal + chunk.num_records;
            for row in &parsed.examples.rows {
                let origin = row.origins[0];
                assert!(ordinals.contains(&origin.row));
                let id = ExampleId::new(source.name(), &file.name, chunk.range.start, origin.row);
                assert_eq!(row.id, id);
            }
            for bad in &parsed.bad_rows {
                assert!(ordinals.contains(&bad.ordinal));
            }
        }
        let ranges: Vec<SourceRange> = records.keys().copied().collect();
        if let FileRanges::Known(known) = source.ranges(file, index).unwrap() {
            assert_eq!(known, ranges, "ranges are those that are read");
        }
        for &range in &ranges {
            let of_range: Vec<RawChunk> =
                whole.iter().filter(|chunk| chunk.range == range).cloned().collect();
            assert_same(&chunks(source, file, index, Some(range)), &of_range, "a range read by itself");
        }
        let skipped = ranges.iter().step_by(2).map(|range| range.start).collect::<Vec<_>>();
        let rest: Vec<RawChunk> =
            whole.iter().filter(|chunk| !skipped.contains(&chunk.range.start)).cloned().collect();
        let skip = move |start: u64| skipped.contains(&start);
        let read: Vec<RawChunk> =
            source.read(file, index, None, Box::new(skip)).unwrap().map(Result::unwrap).collect();
        assert_same(&read, &rest, "ranges that are skipped change nothing else");
        let records: Vec<(SourceRange, u64)> = records.into_iter().collect();
        assert_eq!(source.count_records(file, index).unwrap(), records, "what is counted is what is read");
        counts.extend(records);
    }
    assert_slices(source, split, &files, &counts);
    shown
}

/// A slice and the rest are all there is, and have nothing in common.
fn assert_slices(source: &dyn DataSource, split: &str, files: &[SourceFile], counts: &[(SourceRange, u64)]) {
    for cut in [1, 2, 5] {
        let slice = |text: String| -> SliceWindows { source.slice(&text.parse().unwrap(), files).unwrap() };
        let (before, after) =
            (slice(format!("{split}[0:{cut}]")), slice(format!("{split}[{cut}:{}]", u64::MAX)));
        assert_eq!((before.counts, after.counts), (counts.to_vec(), counts.to_vec()));
        let mut windows: BTreeMap<SourceRange, Vec<std::ops::Range<u64>>> = BTreeMap::new();
        for (range, window) in before.windows.into_iter().chain(after.windows) {
            assert!(window.start <= window.end);
            windows.entry(range).or_default().push(window);
        }
        for (range, windows) in windows {
            let count = counts.iter().find(|(other, _)| *other == range).unwrap().1;
            assert_eq!(windows.first().unwrap().start, 0);
            assert_eq!(windows.last().unwrap().end, count);
            assert!(windows.windows(2).all(|pair| pair[0].end == pair[1].start), "{windows:?}");
        }
    }
}

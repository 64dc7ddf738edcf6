//! Prints parsed chunks for tests.

use std::fmt::Write;

use arrow::util::display::array_value_to_string;

use crate::source::ParsedChunk;

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

//! A line a row, with its step, its place in the stream and its features.
//!
//! ```text
//! {"step":0,"row":0,"row_valid":1,"decoder_target_tokens":[7,1,0],"decoder_loss_weights":[1.0,1.0,0.0]}
//! ```

use std::fmt::{self, Write as _};
use std::io::Write;

use seqio::{Array, Batch, Values};

use super::BatchWriter;

/// Writes JSON lines.
#[derive(Debug)]
pub(crate) struct JsonLines<W> {
    writer: W,
    lines: String,
}

impl<W: Write> JsonLines<W> {
    /// Writes to `writer`.
    pub(crate) fn new(writer: W) -> Self {
        Self { writer, lines: String::new() }
    }
}

impl<W: Write> BatchWriter for JsonLines<W> {
    fn write(&mut self, batch: &Batch) -> anyhow::Result<()> {
        self.lines.clear();
        for row in 0..batch.num_rows {
            push_row(&mut self.lines, batch, row)?;
        }
        self.writer.write_all(self.lines.as_bytes())?;
        Ok(self.writer.flush()?)
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        Ok(self.writer.flush()?)
    }
}

fn push_row(lines: &mut String, batch: &Batch, row: usize) -> fmt::Result {
    write!(lines, "{{\"step\":{},\"row\":{}", batch.step, batch.first_row + row as u64)?;
    for array in &batch.arrays {
        // Feature names come from definitions and may hold anything.
        write!(lines, ",{}:", serde_json::Value::from(array.name.as_str()))?;
        push_values(lines, array, row)?;
    }
    lines.push_str("}\n");
    Ok(())
}

fn push_values(lines: &mut String, array: &Array, row: usize) -> fmt::Result {
    let width = array.length.max(1);
    let range = row * width..(row + 1) * width;
    if array.length > 0 {
        lines.push('[');
    }
    match &array.values {
        Values::I32(values) => push_joined(lines, &values[range], |lines, value| write!(lines, "{value}"))?,
        Values::F32(values) => push_joined(lines, &values[range], |lines, value| write!(lines, "{value:?}"))?,
    }
    if array.length > 0 {
        lines.push(']');
    }
    Ok(())
}

fn push_joined<T: Copy>(
    lines: &mut String,
    values: &[T],
    push: impl Fn(&mut String, T) -> fmt::Result,
) -> fmt::Result {
    values.iter().enumerate().try_for_each(|(place, value)| {
        if place > 0 {
            lines.push(',');
        }
        push(lines, *value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::tests::tiny_batch;

    #[test]
    fn each_row_is_a_line_of_json() {
        let mut bytes = Vec::new();
        let mut writer = JsonLines::new(&mut bytes);
        writer.write(&tiny_batch(4)).unwrap();
        writer.finish().unwrap();
        let text = String::from_utf8(bytes).unwrap();
        insta::assert_snapshot!(text, @r#"
        {"step":4,"row":8,"decoder_loss_weights":[1.0,1.0,0.0],"decoder_target_tokens":[7,1,0],"row_valid":1}
        {"step":4,"row":9,"decoder_loss_weights":[0.0,0.0,0.0],"decoder_target_tokens":[0,0,0],"row_valid":0}
        "#);
        for line in text.lines() {
            serde_json::from_str::<serde_json::Value>(line).unwrap();
        }
    }
}

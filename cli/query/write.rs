//! Rows of a query as text: aligned columns, CSV, or a JSON object a line.
//!
//! ```text
//! file     n        file,n        {"file":"a.jsonl","n":3}
//! a.jsonl  3        a.jsonl,3
//! ```

use std::io::{self, Write};
use std::sync::Arc;

use anyhow::Context as _;
use arrow::array::{Array, ArrayRef, AsArray as _, RecordBatch};
use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use serde_json::{Map, Number, Value};
use unicode_width::UnicodeWidthStr as _;

use crate::output::{Align, Paint, Style, aligned};
use crate::tokens::shown_text;

/// Rows that decide about the widths of columns.
const ROWS_FOR_WIDTHS: usize = 1000;
/// A value on a terminal is cut after so many characters.
const CELL_CHARACTERS: usize = 60;

/// What rows are written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowFormat {
    /// Columns that line up; on a terminal long values are cut.
    Table {
        /// Whether a person sees them.
        terminal: bool,
        /// How names of columns stand out.
        paint: Paint,
    },
    /// Comma-separated values with a header; null is nothing, empty text `""`.
    Csv,
    /// A JSON object a line.
    JsonLines,
}

/// Writes rows as they come.
#[derive(Debug)]
pub(crate) struct RowWriter {
    format: RowFormat,
    columns: SchemaRef,
    /// Rows of a table that wait for the widths of its columns.
    waiting: Vec<Vec<String>>,
    widths: Option<Vec<usize>>,
}

impl RowWriter {
    /// For rows with these columns.
    pub(crate) fn new(format: RowFormat, columns: &SchemaRef) -> Self {
        Self { format, columns: Arc::clone(columns), waiting: Vec::new(), widths: None }
    }

    /// Writes what stands above all rows.
    pub(crate) fn begin(&mut self, out: &mut dyn Write) -> anyhow::Result<()> {
        if self.format == RowFormat::Csv {
            let names = self.columns.fields().iter().map(|field| Some(field.name().clone()));
            write_csv(out, names)?;
        }
        Ok(())
    }

    /// Writes some rows.
    pub(crate) fn write(&mut self, rows: &RecordBatch, out: &mut dyn Write) -> anyhow::Result<()> {
        let cells: Vec<Cells> = rows.columns().iter().map(Cells::of).collect::<anyhow::Result<_>>()?;
        for row in 0..rows.num_rows() {
            match self.format {
                RowFormat::Csv => write_csv(out, cells.iter().map(|cells| cells.text(row)))?,
                RowFormat::JsonLines => self.write_json(&cells, row, out)?,
                RowFormat::Table { terminal, .. } => {
                    let limit = if terminal { CELL_CHARACTERS } else { usize::MAX };
                    let cell = |cells: &Cells| match cells.text(row) {
                        Some(text) => shown_text(&text, limit),
                        None => "null".to_owned(),
                    };
                    self.waiting.push(cells.iter().map(cell).collect());
                    if self.waiting.len() >= ROWS_FOR_WIDTHS {
                        self.write_waiting(out)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes what is left.
    pub(crate) fn end(&mut self, out: &mut dyn Write) -> anyhow::Result<()> {
        if matches!(self.format, RowFormat::Table { .. })
            && (self.widths.is_none() || !self.waiting.is_empty())
        {
            self.write_waiting(out)?;
        }
        Ok(())
    }

    fn write_json(&self, cells: &[Cells], row: usize, out: &mut dyn Write) -> anyhow::Result<()> {
        let mut line = Vec::new();
        for (place, (field, cells)) in self.columns.fields().iter().zip(cells).enumerate() {
            line.extend(if place == 0 { "{" } else { "," }.as_bytes());
            serde_json::to_writer(&mut line, field.name())?;
            line.push(b':');
            serde_json::to_writer(&mut line, &cells.json(row))?;
        }
        line.extend(if cells.is_empty() { &b"{}\n"[..] } else { &b"}\n"[..] });
        Ok(out.write_all(&line)?)
    }

    fn write_waiting(&mut self, out: &mut dyn Write) -> anyhow::Result<()> {
        let RowFormat::Table { paint, .. } = self.format else { return Ok(()) };
        let align =
            |field: &FieldRef| if field.data_type().is_numeric() { Align::Right } else { Align::Left };
        let aligns: Vec<Align> = self.columns.fields().iter().map(align).collect();
        let header: Vec<String> =
            self.columns.fields().iter().map(|field| shown_text(field.name(), usize::MAX)).collect();
        let is_first = self.widths.is_none();
        let widths = self.widths.get_or_insert_with(|| {
            let width = |column: usize| {
                let cells = self.waiting.iter().map(|row| row[column].width());
                cells.chain([header[column].width()]).max().unwrap_or(0)
            };
            (0..header.len()).map(width).collect()
        });
        let line = |row: &[String]| {
            let cells = row.iter().zip(&*widths).zip(&aligns);
            aligned(String::new(), cells.map(|((cell, &width), &align)| (cell.as_str(), width, align)))
        };
        if is_first {
            writeln!(out, "{}", paint.text(Style::Faint, line(&header)))?;
        }
        for row in self.waiting.drain(..) {
            writeln!(out, "{}", line(&row))?;
        }
        Ok(())
    }
}

fn write_csv(out: &mut dyn Write, cells: impl Iterator<Item = Option<String>>) -> io::Result<()> {
    let mut line = String::new();
    for (place, cell) in cells.enumerate() {
        if place > 0 {
            line.push(',');
        }
        match cell {
            None => {}
            Some(text) if text.is_empty() || text.contains([',', '"', '\n', '\r']) => {
                line.push('"');
                line.push_str(&text.replace('"', "\"\""));
                line.push('"');
            }
            Some(text) => line.push_str(&text),
        }
    }
    line.push('\n');
    out.write_all(line.as_bytes())
}

/// The values of a column.
struct Cells<'a> {
    column: &'a ArrayRef,
    formatter: ArrayFormatter<'a>,
}

impl<'a> Cells<'a> {
    fn of(column: &'a ArrayRef) -> anyhow::Result<Self> {
        let options = FormatOptions::new().with_display_error(true);
        // It borrows its options' texts, of which there are none.
        let formatter = ArrayFormatter::try_new(column, &options)
            .with_context(|| format!("a column of type `{}` cannot be shown", column.data_type()))?;
        Ok(Self { column, formatter })
    }

    /// The value as text; lists and structs as JSON.
    fn text(&self, row: usize) -> Option<String> {
        if self.column.is_null(row) {
            return None;
        }
        match json(self.column, row) {
            Value::String(text) => Some(text),
            value @ (Value::Array(_) | Value::Object(_)) => Some(value.to_string()),
            _ => Some(self.formatter.value(row).to_string()),
        }
    }

    fn json(&self, row: usize) -> Value {
        json(self.column, row)
    }
}

/// A value as JSON. What JSON has no form for becomes text: dates, decimals, binary; infinite numbers become null.
fn json(column: &ArrayRef, row: usize) -> Value {
    use arrow::datatypes::{
        Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
        UInt32Type, UInt64Type,
    };

    if column.is_null(row) {
        return Value::Null;
    }
    let list = |values: ArrayRef| Value::Array((0..values.len()).map(|item| json(&values, item)).collect());
    let float = |value: f64| Number::from_f64(value).map_or(Value::Null, Value::Number);
    match column.data_type() {
        DataType::Null => Value::Null,
        DataType::Boolean => column.as_boolean().value(row).into(),
        DataType::Int8 => column.as_primitive::<Int8Type>().value(row).into(),
        DataType::Int16 => column.as_primitive::<Int16Type>().value(row).into(),
        DataType::Int32 => column.as_primitive::<Int32Type>().value(row).into(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).into(),
        DataType::UInt8 => column.as_primitive::<UInt8Type>().value(row).into(),
        DataType::UInt16 => column.as_primitive::<UInt16Type>().value(row).into(),
        DataType::UInt32 => column.as_primitive::<UInt32Type>().value(row).into(),
        DataType::UInt64 => column.as_primitive::<UInt64Type>().value(row).into(),
        DataType::Float32 => {
            // The shortest decimal of the number itself, not of its nearest double.
            let text = column.as_primitive::<Float32Type>().value(row).to_string();
            text.parse().map_or(Value::Null, float)
        }
        DataType::Float64 => float(column.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 => column.as_string::<i32>().value(row).into(),
        DataType::LargeUtf8 => column.as_string::<i64>().value(row).into(),
        DataType::Utf8View => column.as_string_view().value(row).into(),
        DataType::List(_) => list(column.as_list::<i32>().value(row)),
        DataType::LargeList(_) => list(column.as_list::<i64>().value(row)),
        DataType::FixedSizeList(..) => list(column.as_fixed_size_list().value(row)),
        DataType::Struct(fields) => {
            let columns = fields.iter().zip(column.as_struct().columns());
            Value::Object(
                columns
                    .map(|(field, column)| (field.name().clone(), json(column, row)))
                    .collect::<Map<_, _>>(),
            )
        }
        _ => match ArrayFormatter::try_new(column, &FormatOptions::new()) {
            Ok(formatter) => formatter.value(row).to_string().into(),
            Err(_) => Value::Null,
        },
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Date32Array, Float64Array, Int64Array, ListArray, StringArray};
    use arrow::datatypes::Int32Type;

    use super::*;

    fn rows() -> RecordBatch {
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([
            Some(vec![Some(1), None]),
            None,
            Some(vec![]),
        ]);
        let columns: [(&str, ArrayRef); 5] = [
            ("text", Arc::new(StringArray::from(vec![Some("a, \"b\"\n日本"), Some(""), None]))),
            ("n", Arc::new(Int64Array::from(vec![Some(1), None, Some(i64::MAX)]))),
            ("x", Arc::new(Float64Array::from(vec![0.5, f64::NAN, 3.0]))),
            ("ids", Arc::new(lists)),
            ("day", Arc::new(Date32Array::from(vec![0, 1, 19_000]))),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    fn written(format: RowFormat, rows: &RecordBatch) -> String {
        let mut writer = RowWriter::new(format, &rows.schema());
        let mut out = Vec::new();
        writer.begin(&mut out).unwrap();
        for row in 0..rows.num_rows() {
            writer.write(&rows.slice(row, 1), &mut out).unwrap();
        }
        writer.end(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn columns_line_up_and_nothing_breaks_a_line() {
        let format = RowFormat::Table { terminal: false, paint: Paint::plain() };
        insta::assert_snapshot!(written(format, &rows()), @r#"
        text                           n    x  ids       day
        a, "b"⏎日本                    1  0.5  [1,null]  1970-01-01
                                    null  NaN  null      1970-01-02
        null         9223372036854775807  3.0  []        2022-01-08
        "#);
        insta::assert_snapshot!(written(format, &rows().slice(0, 0)), @"text  n  x  ids  day");
        let long: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(100)]));
        let long = RecordBatch::try_from_iter([("long", long)]).unwrap();
        let format = RowFormat::Table { terminal: true, paint: Paint::plain() };
        assert_eq!(written(format, &long).lines().last().unwrap().chars().count(), 61);
    }

    #[test]
    fn csv_tells_null_from_empty_text() {
        insta::assert_snapshot!(written(RowFormat::Csv, &rows()), @r#"
        text,n,x,ids,day
        "a, ""b""
        日本",1,0.5,"[1,null]",1970-01-01
        "",,NaN,,1970-01-02
        ,9223372036854775807,3.0,[],2022-01-08
        "#);
    }

    #[test]
    fn each_row_is_an_object_of_json() {
        insta::assert_snapshot!(written(RowFormat::JsonLines, &rows()), @r#"
        {"text":"a, \"b\"\n日本","n":1,"x":0.5,"ids":[1,null],"day":"1970-01-01"}
        {"text":"","n":null,"x":null,"ids":null,"day":"1970-01-02"}
        {"text":null,"n":9223372036854775807,"x":3.0,"ids":[],"day":"2022-01-08"}
        "#);
    }
}

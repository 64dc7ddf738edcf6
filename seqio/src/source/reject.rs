//! A bad record as it is set aside: why it gave no example, and all of it that can be given.
//!
//! ```text
//! {"reason":"there is no field `text`, only `body`","row":"{\"body\": 3}"}
//! {"reason":"is not valid UTF-8 at byte 3 of the line","row_base64":"YWL/Cg=="}
//! {"reason":"`text` should be a string, but is null","columns":{"n":"7","text":null}}        a columnar file
//! {"reason":"the gzip stream ends early"}                                                     nothing to be had
//! ```

use std::collections::BTreeMap;

use arrow::array::{Array, RecordBatch};
use arrow::util::display::array_value_to_string;
use serde::Serialize;

use crate::base64;
use crate::source::interleave::record_of;
use crate::source::{BadRow, RawChunk, RawRecords};

/// A bad record, to be written as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reject<'a> {
    /// What is wrong with it.
    pub reason: &'a str,
    /// The record.
    #[serde(flatten)]
    pub content: Option<RejectedContent<'a>>,
}

/// What a bad record holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RejectedContent<'a> {
    /// Its text, without the line end.
    Row(&'a str),
    /// Its bytes in base64, where they are no text.
    RowBase64(String),
    /// Its columns, each as Arrow shows its value.
    Columns(BTreeMap<String, Option<String>>),
}

impl RawChunk {
    /// A bad record of this chunk as it is set aside.
    pub fn reject<'a>(&'a self, bad: &'a BadRow) -> Reject<'a> {
        let content = match &self.records {
            RawRecords::Lines(_) => self.bytes_of(bad).and_then(|bytes| content(bytes, bad.length)),
            RawRecords::Columns(batch) => {
                let row =
                    bad.ordinal.checked_sub(self.first_ordinal).and_then(|row| usize::try_from(row).ok());
                row.filter(|row| *row < batch.num_rows()).and_then(|row| match record_of(batch, row) {
                    Some(record) => content(record, bad.length),
                    None => Some(RejectedContent::Columns(columns(batch, row))),
                })
            }
        };
        Reject { reason: &bad.reason, content }
    }
}

/// The first `length` bytes of a record; none where a stream breaks off.
fn content(record: &[u8], length: u64) -> Option<RejectedContent<'_>> {
    let bytes = record.get(..usize::try_from(length).ok()?).filter(|bytes| !bytes.is_empty())?;
    Some(match str::from_utf8(bytes) {
        Ok(text) => RejectedContent::Row(text),
        Err(_) => RejectedContent::RowBase64(base64::encode(bytes)),
    })
}

fn columns(batch: &RecordBatch, row: usize) -> BTreeMap<String, Option<String>> {
    let shown = |column: &dyn Array| {
        let is_null = column.is_null(row);
        (!is_null).then(|| array_value_to_string(column, row).unwrap_or_else(|error| error.to_string()))
    };
    let schema = batch.schema();
    let names = schema.fields().iter().map(|field| field.name().clone());
    names.zip(batch.columns().iter().map(|column| shown(column))).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};

    use super::*;
    use crate::source::SourceRange;

    fn chunk(records: RawRecords) -> RawChunk {
        RawChunk {
            range: SourceRange { file: 0, start: 0, end: 100 },
            first_ordinal: 10,
            num_records: 3,
            first_offset: 50,
            records,
            last_of_range: true,
            damage: None,
        }
    }

    fn bad(ordinal: u64, offset: u64, length: u64) -> BadRow {
        BadRow { ordinal, offset, length, reason: "it is `bad`".to_owned() }
    }

    fn json(chunk: &RawChunk, bad: &BadRow) -> String {
        serde_json::to_string(&chunk.reject(bad)).unwrap()
    }

    #[test]
    fn lines_are_given_as_text_or_as_bytes() {
        let chunk = chunk(RawRecords::Lines(b"{\"a\": 1}\nab\xff\r\n".to_vec()));
        insta::assert_snapshot!(json(&chunk, &bad(10, 50, 8)), @r#"{"reason":"it is `bad`","row":"{\"a\": 1}"}"#);
        insta::assert_snapshot!(json(&chunk, &bad(11, 59, 3)), @r#"{"reason":"it is `bad`","row_base64":"YWL/"}"#);
    }

    #[test]
    fn what_is_not_there_is_not_given() {
        let chunk = chunk(RawRecords::Lines(b"ab\n".to_vec()));
        for bad in [bad(12, 53, 0), bad(12, 53, 7), bad(0, 0, 3)] {
            insta::allow_duplicates! {
                insta::assert_snapshot!(json(&chunk, &bad), @"{\"reason\":\"it is `bad`\"}");
            }
        }
    }

    #[test]
    fn rows_of_columnar_files_are_given_column_by_column() {
        let columns: [(&str, ArrayRef); 2] = [
            ("text", Arc::new(StringArray::from(vec![Some("a"), None]))),
            ("n", Arc::new(Int64Array::from(vec![7, 8]))),
        ];
        let chunk = chunk(RawRecords::Columns(
            RecordBatch::try_from_iter_with_nullable(
                columns.into_iter().map(|(name, column)| (name, column, true)),
            )
            .unwrap(),
        ));
        insta::assert_snapshot!(json(&chunk, &bad(11, 0, 0)), @r#"{"reason":"it is `bad`","columns":{"n":"8","text":null}}"#);
        insta::assert_snapshot!(json(&chunk, &bad(12, 0, 0)), @"{\"reason\":\"it is `bad`\"}");
    }
}

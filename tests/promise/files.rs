//! The files of a case: the same records as text, JSON lines, CSV or a columnar file, compressed or not.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch, StringArray};
use arrow::ipc::writer::{FileWriter, StreamWriter};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use crate::case::Random;

/// A record of a source; of text only `a` is there.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) a: String,
    pub(crate) b: String,
    pub(crate) n: u64,
    /// No other record has it; no task but a query reads it.
    pub(crate) more: u64,
    /// Nobody can read it.
    pub(crate) is_bad: bool,
}

/// Writes records as a file of a kind of source.
pub(crate) fn write(path: &Path, source: &str, compression: &str, records: &[Record], random: &mut Random) {
    match source {
        "parquet" => write_parquet(path, records, random),
        "arrow" => write_arrow(path, records, random),
        _ => {
            let content = match source {
                "csv" | "tsv" => table(source, records, random),
                _ => lines(source, records, random),
            };
            std::fs::write(path, compressed(&content, compression)).unwrap();
        }
    }
}

/// CSV with quotes around every text, TSV with none; columns in any order.
fn table(source: &str, records: &[Record], random: &mut Random) -> Vec<u8> {
    let order = random.pick(&[["a", "b", "n", "more"], ["more", "n", "b", "a"], ["b", "more", "a", "n"]]);
    let delimiter = if source == "csv" { "," } else { "\t" };
    let mut content = order.join(delimiter) + "\n";
    for record in records {
        let text = |text: &str, random: &mut Random| match source {
            "csv" if random.below(4) == 0 => {
                format!("\"{}\"", text.replace('"', "\"\"").replacen(' ', "\n", 1))
            }
            "csv" => format!("\"{}\"", text.replace('"', "\"\"")),
            _ => text.to_owned(),
        };
        let (a, b) = (text(&record.a, random), text(&record.b, random));
        let fields = order.map(|column| match column {
            "a" => a.clone(),
            "b" => b.clone(),
            "n" => record.n.to_string(),
            _ => record.more.to_string(),
        });
        // A bad one has too few fields.
        content += &fields[..if record.is_bad { 3 } else { 4 }].join(delimiter);
        content += random.pick(&["\n", "\n", "\r\n"]);
    }
    content.into_bytes()
}

fn lines(source: &str, records: &[Record], random: &mut Random) -> Vec<u8> {
    let mut content = match source {
        "csv" => b"b,n,\"a\"\r\n".to_vec(),
        "tsv" => b"n\ta\tb\n".to_vec(),
        _ => Vec::new(),
    };
    for record in records {
        let end = random.pick(&["\n", "\n", "\r\n"]);
        match (source, record.is_bad) {
            ("text", true) => content.extend(b"\xff\xfe"),
            ("text", false) => content.extend(record.a.as_bytes()),
            ("csv" | "tsv", true) => content.extend(b"1,2\t,3\t,4\t,5"),
            ("csv", false) => {
                let (a, b) = (quoted(random, &record.a), quoted(random, &record.b));
                write!(content, "{b},{},{a}", record.n).unwrap();
            }
            ("tsv", false) => write!(content, "{}\t{}\t\"{}", record.n, record.a, record.b).unwrap(),
            (_, true) => content.extend(br#"{"a": "no end"#),
            (_, false) => {
                let row =
                    serde_json::json!({ "a": record.a, "b": record.b, "n": record.n, "more": record.more });
                write!(content, "{row}").unwrap();
            }
        }
        content.extend(end.as_bytes());
    }
    content
}

/// A field of CSV, quoted at times, and then with line ends, delimiters and quotes in it.
fn quoted(random: &mut Random, text: &str) -> String {
    if text.is_empty() || random.below(3) == 0 {
        return text.replace(',', ";");
    }
    let between = random.pick(&[" ", "\n", "\r\n", ", ", "\"\""]);
    format!("\"{}\"", text.replacen(' ', between, 3))
}

fn compressed(content: &[u8], compression: &str) -> Vec<u8> {
    match compression {
        ".gz" => {
            let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            writer.write_all(content).unwrap();
            writer.finish().unwrap()
        }
        ".bz2" => {
            let mut writer = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
            writer.write_all(content).unwrap();
            writer.finish().unwrap()
        }
        ".xz" => {
            let mut writer = liblzma::write::XzEncoder::new(Vec::new(), 0);
            writer.write_all(content).unwrap();
            writer.finish().unwrap()
        }
        ".zst" => zstd::encode_all(content, 1).unwrap(),
        _ => content.to_owned(),
    }
}

fn batch(records: &[Record]) -> RecordBatch {
    let text = |of: fn(&Record) -> &str| Arc::new(StringArray::from_iter_values(records.iter().map(of)));
    let numbers = |of: fn(&Record) -> u64| {
        Arc::new(Int64Array::from_iter_values(records.iter().map(|record| of(record) as i64)))
    };
    RecordBatch::try_from_iter([
        ("a", text(|record| &record.a) as _),
        ("b", text(|record| &record.b) as _),
        ("n", numbers(|record| record.n) as _),
        ("more", numbers(|record| record.more) as _),
    ])
    .unwrap()
}

fn write_parquet(path: &Path, records: &[Record], random: &mut Random) {
    let batch = batch(records);
    let group_rows = random.pick(&[1, 7, 50, 1000]);
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(group_rows)).build();
    let file = std::fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

/// An Arrow IPC file or stream, of batches of a few rows.
fn write_arrow(path: &Path, records: &[Record], random: &mut Random) {
    let batch = batch(records);
    let rows = random.pick(&[1, 7, 50, 1000]);
    let batches =
        (0..batch.num_rows()).step_by(rows).map(|from| batch.slice(from, rows.min(batch.num_rows() - from)));
    let file = std::fs::File::create(path).unwrap();
    if random.below(2) == 0 {
        let mut writer = FileWriter::try_new(file, &batch.schema()).unwrap();
        batches.for_each(|batch| writer.write(&batch).unwrap());
        writer.finish().unwrap();
    } else {
        let mut writer = StreamWriter::try_new(file, &batch.schema()).unwrap();
        batches.for_each(|batch| writer.write(&batch).unwrap());
        writer.finish().unwrap();
    }
}

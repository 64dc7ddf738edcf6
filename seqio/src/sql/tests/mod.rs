//! Queries over small files: what is refused, what comes out, and that nothing but the data decides it.

mod faults;
mod laws;
mod refused;
mod results;

use std::path::Path;
use std::sync::Arc;

use crate::source::{DataSource, ReadBudget, SourceSpec, TableSpec};

/// A folder with documents (`id`, `text`, `score`) and what is known of them (`id`, `lang`).
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let docs: String = (0..40)
        .map(|id| {
            format!("{{\"id\": {id}, \"text\": \"text {id}\", \"score\": {}}}\n", f64::from(id % 10) / 10.0)
        })
        .collect();
    std::fs::write(dir.path().join("docs.jsonl"), docs).unwrap();
    let lang = |id: i32| ["en", "de", "fr"][id as usize % 3];
    let meta: String = (0..40)
        .step_by(2)
        .map(|id| format!("{{\"id\": {id}, \"lang\": \"{}\", \"tags\": [\"a\", \"b\"]}}\n", lang(id)))
        .collect();
    std::fs::write(dir.path().join("meta.jsonl"), meta).unwrap();
    dir
}

/// A source of one query over them.
fn spec(query: &str) -> SourceSpec {
    SourceSpec::sql([("train", query)])
        .key(["id"])
        .table("docs", TableSpec::jsonl("docs.jsonl"))
        .table("meta", TableSpec::jsonl("meta.jsonl"))
}

fn open(dir: &Path, spec: &SourceSpec) -> Arc<dyn DataSource> {
    spec.open("docs", dir).unwrap_or_else(|error| panic!("{error}"))
}

/// The rows of a split, one a line: key and columns; an error as its words.
fn read(source: &dyn DataSource, split: &str) -> String {
    let mut shown = String::new();
    for (index, file) in (0u32..).zip(&source.files(split).unwrap()) {
        let chunks = match source.read(file, index, None, Box::new(|_| false)) {
            Ok(chunks) => chunks,
            Err(error) => return format!("{shown}{error}\n"),
        };
        for chunk in chunks {
            let chunk = match chunk {
                Ok(chunk) => chunk,
                Err(error) => return format!("{shown}{error}\n"),
            };
            let examples = source.parse(file, &chunk).unwrap().examples;
            for (at, row) in examples.rows.iter().enumerate() {
                let columns = examples
                    .columns
                    .columns()
                    .iter()
                    .map(|column| arrow::util::display::array_value_to_string(column, at).unwrap());
                let columns = columns.collect::<Vec<_>>().join(" | ");
                shown.push_str(&format!("{}: {columns}\n", row.key.as_deref().unwrap_or("-")));
            }
        }
    }
    shown
}

fn small_budget() -> ReadBudget {
    ReadBudget { memory_bytes: 1, ..ReadBudget::default() }
}

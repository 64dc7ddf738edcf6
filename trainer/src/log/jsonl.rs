//! `metrics.jsonl`: one JSON object a line.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, ErrorKind, Write};
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::log::LogError;
use crate::log::append::Append;
use crate::number;

/// Keys of lines that are no metrics.
const RESERVED: [&str; 3] = ["step", "unix_seconds", "text"];

/// The open file.
#[derive(Debug)]
pub(super) struct Jsonl {
    file: Append,
}

impl Jsonl {
    /// Opens the file and cuts off what is of later steps than the one restored, or all.
    pub(super) fn open(path: &Path, restored: Option<u64>) -> Result<Self, LogError> {
        cut(path, restored)?;
        Ok(Self { file: Append::open(path, OpenOptions::new().create(true))? })
    }

    pub(super) fn scalars(
        &mut self,
        step: u64,
        time: f64,
        scalars: &BTreeMap<String, f64>,
    ) -> Result<(), LogError> {
        if let Some(name) = scalars.keys().find(|name| RESERVED.contains(&name.as_str())) {
            return Err(LogError::Reserved { name: name.clone() });
        }
        let entries = scalars.iter().map(|(name, value)| (name.as_str(), number::to_json(*value)));
        self.file.piece(line(step, time, entries).as_bytes())
    }

    pub(super) fn text(&mut self, step: u64, time: f64, name: &str, text: &str) -> Result<(), LogError> {
        self.file.piece(line(step, time, [("text", json!({ name: text }))]).as_bytes())
    }
}

/// A line: where people look first comes first.
fn line<'a>(step: u64, time: f64, entries: impl IntoIterator<Item = (&'a str, Value)>) -> String {
    let mut line = format!("{{\"step\":{step},\"unix_seconds\":{}", number::to_json(time));
    for (name, value) in entries {
        line.push_str(&format!(",{}:{value}", Value::from(name)));
    }
    line.push_str("}\n");
    line
}

/// Rewrites the file without the lines of later steps, and without the half of a line that a killed process left.
fn cut(path: &Path, restored: Option<u64>) -> Result<(), LogError> {
    let read = |error| LogError::io("read", path)(error);
    let mut lines = match File::open(path) {
        Ok(file) => BufReader::new(file),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(read(error)),
    };
    let mut aside = path.as_os_str().to_owned();
    aside.push(".tmp");
    let aside = Path::new(&aside);
    let write = |error| LogError::io("write", aside)(error);
    let mut kept = BufWriter::new(File::create(aside).map_err(write)?);
    let mut line = Vec::new();
    let mut is_changed = false;
    while lines.read_until(b'\n', &mut line).map_err(read)? > 0 {
        if stays(&line, restored) {
            kept.write_all(&line).map_err(write)?;
        } else {
            is_changed = true;
        }
        line.clear();
    }
    kept.into_inner().map_err(|error| write(error.into_error()))?.sync_all().map_err(write)?;
    if is_changed {
        fs::rename(aside, path).map_err(LogError::io("rename", aside))
    } else {
        fs::remove_file(aside).map_err(LogError::io("remove", aside))
    }
}

/// Whether a line stays: whole ones up to the step, and those that somebody else wrote.
fn stays(line: &[u8], restored: Option<u64>) -> bool {
    #[derive(Deserialize)]
    struct Stepped {
        step: u64,
    }
    line.ends_with(b"\n")
        && match serde_json::from_slice::<Stepped>(line) {
            Ok(Stepped { step }) => restored.is_some_and(|restored| step <= restored),
            Err(_) => restored.is_some(),
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_json_whatever_is_in_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let mut jsonl = Jsonl::open(&path, None).unwrap();
        let scalars = [("train/loss", 0.1), ("train/\"x\"\n", f64::NAN), ("z", 1e300)];
        let scalars = scalars.map(|(name, value)| (name.to_owned(), value));
        jsonl.scalars(7, 1.5e9 + 0.25, &scalars.into()).unwrap();
        jsonl.text(7, 1.5e9, "samples", "a\nb").unwrap();
        insta::assert_snapshot!(fs::read_to_string(&path).unwrap(), @r#"
        {"step":7,"unix_seconds":1500000000.25,"train/\"x\"\n":"NaN","train/loss":0.1,"z":1e+300}
        {"step":7,"unix_seconds":1500000000.0,"text":{"samples":"a\nb"}}
        "#);
    }

    #[test]
    fn only_whole_lines_up_to_the_step_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let cut_to = |restored: Option<u64>| {
            let text =
                "{\"step\":1}\nnot ours\n{\"step\":5,\"loss\":1}\n{\"step\":6}\n{\"step\":5}\n{\"step\":2";
            fs::write(&path, text).unwrap();
            Jsonl::open(&path, restored).unwrap();
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
            fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(cut_to(Some(5)), ["{\"step\":1}", "not ours", "{\"step\":5,\"loss\":1}", "{\"step\":5}"]);
        assert_eq!(cut_to(Some(0)), ["not ours"]);
        assert!(cut_to(None).is_empty());
    }
}

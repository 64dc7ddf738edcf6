//! Data sets that Hugging Face's `datasets` saved to disk: which Arrow files hold a split.
//!
//! ```text
//! saved/dataset_dict.json                             several splits, each in a folder of its name
//! saved/train/state.json, dataset_info.json           its files in order, and its features
//! saved/train/data-00000-of-00002.arrow, …            Arrow streams
//! ```
//!
//! Rows are those of the files that the state names, in that order. Types are those of the files, so that the features in
//! `dataset_info.json` are not needed: a `ClassLabel` is its number.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::source::patterns::list_files;
use crate::source::{SourceError, SourceFile};
use crate::text::{nearest, quoted};

const STATE: &str = "state.json";
const DICT: &str = "dataset_dict.json";

/// What says which files there are may have this many bytes: a million files take less.
const MAX_BYTES: u64 = 1 << 28;

#[derive(Deserialize)]
struct State {
    #[serde(rename = "_data_files")]
    data_files: Vec<DataFile>,
    /// Where versions before 2.0 kept which rows belong to the data set.
    #[serde(rename = "_indices_data_files", default)]
    indices_data_files: Option<Vec<DataFile>>,
    #[serde(rename = "_indices_files", default)]
    indices_files: Option<Vec<DataFile>>,
}

#[derive(Deserialize)]
struct DataFile {
    filename: String,
}

#[derive(Deserialize)]
struct Dict {
    splits: Vec<String>,
}

fn read<T: DeserializeOwned>(file: &SourceFile) -> Result<T, SourceError> {
    let path = &file.path;
    if file.bytes > MAX_BYTES {
        let problem =
            format!("has {} bytes; what says which files there are has at most {MAX_BYTES}", file.bytes);
        return Err(SourceError::malformed(path, problem));
    }
    let bytes = std::fs::read(path).map_err(|error| SourceError::io(path, error))?;
    serde_json::from_slice(&bytes).map_err(|error| {
        SourceError::malformed(path, format!("is not what `datasets` saves beside a data set: {error}"))
    })
}

/// The file of this name in the folder that `pattern` names, if it is there.
fn file(base_dir: &Path, pattern: &str, name: &str) -> Result<Option<SourceFile>, SourceError> {
    match list_files(base_dir, &[format!("{pattern}/{name}")]) {
        Ok(files) if files.len() == 1 => Ok(files.into_iter().next()),
        Ok(_) => Err(SourceError::Definition {
            problem: format!("`{pattern}` matches several folders; a split is in one"),
        }),
        Err(SourceError::NoFiles { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The files of a split in order, in the folder that holds it or all splits.
pub(super) fn saved_files(
    base_dir: &Path,
    pattern: &str,
    split: &str,
) -> Result<Vec<SourceFile>, SourceError> {
    let pattern = match pattern.trim_end_matches('/') {
        "" => pattern,
        trimmed => trimmed,
    };
    let folder = match file(base_dir, pattern, DICT)? {
        None => pattern.to_owned(),
        Some(dict) => {
            let Dict { splits } = read(&dict)?;
            if !splits.iter().any(|known| known == split) {
                let hint = nearest(split, splits.iter().map(String::as_str));
                let hint = hint.map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"));
                let problem = format!("has no split `{split}`, only {}{hint}", quoted(splits));
                return Err(SourceError::malformed(&dict.path, problem));
            }
            format!("{pattern}/{split}")
        }
    };
    let Some(state) = file(base_dir, &folder, STATE)? else {
        let problem = format!(
            "has no `{STATE}` and no `{DICT}`: it is no data set that `save_to_disk` made; Arrow files as such are read by \
             `arrow`"
        );
        return Err(SourceError::malformed(&base_dir.join(folder), problem));
    };
    let names = file_names(&state)?;
    let patterns = names.iter().map(|name| format!("{folder}/{}", glob::Pattern::escape(name)));
    let files = list_files(base_dir, &patterns.collect::<Vec<_>>()).map_err(|error| match error {
        SourceError::NoFiles { pattern } => {
            SourceError::malformed(&state.path, format!("names `{pattern}`, which is not there"))
        }
        error => error,
    })?;
    let place: BTreeMap<&str, usize> = names.iter().map(String::as_str).zip(0..).collect();
    let place = |file: &SourceFile| {
        file.path.file_name().and_then(|name| place.get(name.to_str()?)).copied().unwrap_or(usize::MAX)
    };
    let mut files = files;
    files.sort_by_key(place);
    Ok(files)
}

/// The names of the files that a state names, all of which are in its folder.
fn file_names(state: &SourceFile) -> Result<Vec<String>, SourceError> {
    let path = &state.path;
    let State { data_files, indices_data_files, indices_files } = read(state)?;
    let has_indices = |files: &Option<Vec<DataFile>>| files.as_ref().is_some_and(|files| !files.is_empty());
    if has_indices(&indices_data_files) || has_indices(&indices_files) {
        let problem = "takes only some rows of its files, in an order of its own, as versions of `datasets` before 2.0 did \
                       after `select` or `shuffle`; save it again after `flatten_indices()`";
        return Err(SourceError::malformed(path, problem));
    }
    if data_files.is_empty() {
        return Err(SourceError::malformed(path, "names no files; an empty data set has one without rows"));
    }
    let checked = |DataFile { filename }: DataFile| {
        let is_name = !matches!(filename.as_str(), "" | "." | "..") && !filename.contains(['/', '\\', '\0']);
        let problem = || format!("names {filename:?}, which is no name of a file in its folder");
        if is_name { Ok(filename) } else { Err(SourceError::malformed(path, problem())) }
    };
    data_files.into_iter().map(checked).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::source::SourceSpec;
    use crate::source::testing::assert_source_laws;

    fn golden() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/hf_dataset")
    }

    fn read_all(base_dir: &Path, spec: &SourceSpec, split: &str) -> Result<Vec<String>, String> {
        let source = spec
            .open("docs", base_dir)
            .map_err(|error| error.to_string().replace(base_dir.to_str().unwrap(), "DIR"))?;
        Ok(assert_source_laws(&*source, split).lines().map(str::to_owned).collect())
    }

    fn number(row: &str) -> usize {
        let text = row.split_once("text=row ").unwrap().1;
        text.split_once(' ').unwrap().0.parse().unwrap()
    }

    #[test]
    fn saved_data_sets_are_read_with_their_rows_in_order() {
        let flat = SourceSpec::hf_dataset([("train", "flat")]);
        let rows = read_all(&golden(), &flat, "train").unwrap();
        assert_eq!(rows.len(), 20);
        let numbers: Vec<usize> = (0..40).rev().step_by(2).collect();
        for (row, number) in rows.iter().zip(numbers) {
            let ids: Vec<usize> = (0..number % 4).collect();
            let (label, ids) = (number % 2, format!("{ids:?}"));
            assert!(row.ends_with(&format!(": ids={ids} label={label} text=row {number} é")), "{row}");
        }
        let pinned = flat.pin("docs", &golden()).unwrap();
        let columns: Vec<_> =
            pinned.columns.iter().map(|(name, column)| format!("{name}: {column}")).collect();
        assert_eq!(columns, ["ids: list<int32>", "label: int64", "text: string"]);
        let two = SourceSpec::hf_dataset([("train", "two/"), ("test", "two")]);
        assert_eq!(read_all(&golden(), &two, "train").unwrap().len(), 12);
        assert_eq!(read_all(&golden(), &two, "test").unwrap().len(), 3);
        let one = SourceSpec::hf_dataset([("validation", "two/test")]);
        assert_eq!(read_all(&golden(), &one, "validation").unwrap().len(), 3);
    }

    #[test]
    fn files_come_in_the_order_of_the_state() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["data-00000-of-00002.arrow", "data-00001-of-00002.arrow"] {
            std::fs::copy(golden().join("flat").join(name), dir.path().join(name)).unwrap();
        }
        let turned = r#"{"_data_files": [{"filename": "data-00001-of-00002.arrow"}, {"filename": "data-00000-of-00002.arrow"}],
            "_indices_data_files": [], "_indices_files": null}"#;
        std::fs::write(dir.path().join(STATE), turned).unwrap();
        let rows = read_all(dir.path(), &SourceSpec::hf_dataset([("train", ".")]), "train").unwrap();
        let found: Vec<usize> = rows.iter().map(|row| number(row)).collect();
        let all: Vec<usize> = (0..40).rev().step_by(2).collect();
        assert_eq!(found, [&all[10..], &all[..10]].concat());
    }

    #[test]
    fn what_is_no_saved_data_set_is_refused_in_words() {
        let error = |split: &str, folder: &str| {
            read_all(&golden(), &SourceSpec::hf_dataset([(split, folder)]), split).unwrap_err()
        };
        insta::assert_snapshot!(error("validation", "two"), @"DIR/two/dataset_dict.json: has no split `validation`, only `train`, `test`");
        insta::assert_snapshot!(error("tests", "two"), @"DIR/two/dataset_dict.json: has no split `tests`, only `train`, `test` (did you mean `test`?)");
        insta::assert_snapshot!(error("train", "."), @"DIR/.: has no `state.json` and no `dataset_dict.json`: it is no data set that `save_to_disk` made; Arrow files as such are read by `arrow`");
        insta::assert_snapshot!(error("train", "nowhere"), @"no file matches `DIR/nowhere`");
        insta::assert_snapshot!(error("train", "two/t*"), @"`two/t*` matches several folders; a split is in one");
        let dir = tempfile::tempdir().unwrap();
        let with = |state: &str| {
            std::fs::write(dir.path().join(STATE), state).unwrap();
            read_all(dir.path(), &SourceSpec::hf_dataset([("train", ".")]), "train").unwrap_err()
        };
        insta::assert_snapshot!(with(r#"{"_data_files": [{"filename": "a.arrow"}]}"#), @"DIR/state.json: names `DIR/./a.arrow`, which is not there");
        insta::assert_snapshot!(with(r#"{"_data_files": [{"filename": "../a.arrow"}]}"#), @r#"DIR/state.json: names "../a.arrow", which is no name of a file in its folder"#);
        insta::assert_snapshot!(with(r#"{"_data_files": [{"filename": ""}]}"#), @r#"DIR/state.json: names "", which is no name of a file in its folder"#);
        insta::assert_snapshot!(with(r#"{"_data_files": [{"filename": "state.json"}]}"#), @"DIR/state.json: cannot be read as Arrow: it is neither a file nor a stream: the stream ends early");
        insta::assert_snapshot!(with(r#"{"_data_files": [{"filename": "state.json"}, {"filename": "state.json"}]}"#), @"`DIR/state.json` is matched by two patterns; leave one of them out");
        insta::assert_snapshot!(with(r#"{"_data_files": []}"#), @"DIR/state.json: names no files; an empty data set has one without rows");
        insta::assert_snapshot!(with(r#"{"_data_files": [{"filename": "a.arrow"}], "_indices_data_files": [{"filename": "i.arrow"}]}"#), @"DIR/state.json: takes only some rows of its files, in an order of its own, as versions of `datasets` before 2.0 did after `select` or `shuffle`; save it again after `flatten_indices()`");
        insta::assert_snapshot!(with("{}"), @"DIR/state.json: is not what `datasets` saves beside a data set: missing field `_data_files` at line 1 column 2");
        insta::assert_snapshot!(with("no JSON"), @"DIR/state.json: is not what `datasets` saves beside a data set: expected ident at line 1 column 2");
    }

    #[test]
    fn a_damaged_file_is_read_to_where_it_breaks_off() {
        let dir = tempfile::tempdir().unwrap();
        let name = "data-00000-of-00001.arrow";
        let bytes = std::fs::read(golden().join("two/train").join(name)).unwrap();
        let state = format!(r#"{{"_data_files": [{{"filename": "{name}"}}]}}"#);
        std::fs::write(dir.path().join(STATE), state).unwrap();
        let spec = SourceSpec::hf_dataset([("train", ".")]);
        for cut in 0..bytes.len() {
            std::fs::write(dir.path().join(name), &bytes[..cut]).unwrap();
            if let Ok(rows) = read_all(dir.path(), &spec, "train") {
                assert!(rows.len() <= 13, "{rows:?}");
            }
        }
    }
}

//! `state.json`: what a run needs besides its tensors, and the hashes of the files that hold those.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::checkpoint::disk::FileRecord;
use crate::checkpoint::error::CheckpointError;
use crate::number;

/// The name of the file.
pub(crate) const STATE: &str = "state.json";

/// Counts up when checkpoints change their meaning.
const FORMAT: u64 = 1;

/// What a run needs besides its tensors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunState {
    /// Updates done.
    pub step: u64,
    /// Where the data go on, as `seqio::DatasetState` writes it; null without data.
    pub dataset: Value,
    /// The configuration of the run, in full.
    pub configuration: String,
    /// What was measured last.
    pub metrics: BTreeMap<String, f64>,
}

impl RunState {
    /// The blake3 hash of the configuration, by which another one is told.
    pub fn configuration_hash(&self) -> String {
        blake3::hash(self.configuration.as_bytes()).to_hex().to_string()
    }
}

/// The state with the files beside it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Recorded {
    pub(crate) state: RunState,
    pub(crate) files: BTreeMap<String, FileRecord>,
}

/// The form on disk.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    format: u64,
    step: u64,
    dataset: Value,
    configuration: String,
    configuration_blake3: String,
    #[serde(with = "number::named")]
    metrics: BTreeMap<String, f64>,
    files: BTreeMap<String, FileRecord>,
}

/// The last line holds a checksum of all above it.
const CHECKSUM: &str = "  \"checksum\": \"";

impl Recorded {
    pub(crate) fn to_text(&self) -> String {
        let RunState { step, dataset, configuration, metrics } = self.state.clone();
        let form = Form {
            format: FORMAT,
            step,
            dataset,
            configuration_blake3: self.state.configuration_hash(),
            configuration,
            metrics,
            files: self.files.clone(),
        };
        let json = serde_json::to_string_pretty(&form).expect("maps with string keys and plain numbers");
        let lines = json.strip_suffix("\n}").expect("a struct with fields");
        let head = format!("{lines},\n");
        let checksum = blake3::hash(head.as_bytes()).to_hex();
        format!("{head}{CHECKSUM}{checksum}\"\n}}\n")
    }

    /// Reads the state in the folder of a checkpoint.
    pub(crate) fn read(folder: &Path) -> Result<Self, CheckpointError> {
        let path = folder.join(STATE);
        match fs::read(&path) {
            Ok(bytes) => Self::from_bytes(&path, &bytes),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(CheckpointError::damaged(folder, format!("`{STATE}` is missing")))
            }
            Err(error) => Err(CheckpointError::io("read", &path)(error)),
        }
    }

    fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Self, CheckpointError> {
        let damaged = |problem: &str| CheckpointError::damaged(path, problem);
        let text = std::str::from_utf8(bytes).map_err(|_| damaged("it is not UTF-8"))?;
        let at = text.rfind(CHECKSUM).ok_or_else(|| damaged("its last line, the checksum, is missing"))?;
        let (head, last) = text.split_at(at);
        let checksum = blake3::hash(head.as_bytes()).to_hex();
        if last != format!("{CHECKSUM}{checksum}\"\n}}\n") {
            return Err(damaged("its checksum, the last line, does not fit the lines above"));
        }
        let lines =
            head.strip_suffix(",\n").ok_or_else(|| damaged("it is not laid out as it was written"))?;
        let value: Value =
            serde_json::from_str(&format!("{lines}\n}}")).map_err(|error| damaged(&error.to_string()))?;
        if value["format"] != FORMAT {
            return Err(CheckpointError::Unsupported {
                path: path.to_owned(),
                problem: format!("it has format {}, and this program reads format {FORMAT}", value["format"]),
                hint: Some("use the program that wrote it"),
            });
        }
        let form: Form = serde_json::from_value(value).map_err(|error| damaged(&error.to_string()))?;
        let Form { step, dataset, configuration, metrics, files, .. } = form;
        Ok(Self { state: RunState { step, dataset, configuration, metrics }, files })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded() -> Recorded {
        let metrics = BTreeMap::from([("loss".to_owned(), 0.1), ("perplexity".to_owned(), f64::NAN)]);
        let state = RunState {
            step: 3,
            dataset: serde_json::json!({ "row": u64::MAX }),
            configuration: "[model]\n".to_owned(),
            metrics,
        };
        let file = FileRecord { bytes: 8, blake3: "00".repeat(32) };
        Recorded { state, files: BTreeMap::from([("parameters.safetensors".to_owned(), file)]) }
    }

    #[test]
    fn a_state_comes_back() {
        let recorded = recorded();
        let text = recorded.to_text();
        insta::assert_snapshot!(text, @r#"
        {
          "format": 1,
          "step": 3,
          "dataset": {
            "row": 18446744073709551615
          },
          "configuration": "[model]\n",
          "configuration_blake3": "27d3ac47e1fff7fc32753c0b73499e6e1d76de49789035afa2c7033019ac8a8d",
          "metrics": {
            "loss": 0.1,
            "perplexity": "NaN"
          },
          "files": {
            "parameters.safetensors": {
              "bytes": 8,
              "blake3": "0000000000000000000000000000000000000000000000000000000000000000"
            }
          },
          "checksum": "f81e8c18ee47172d45eaa4605d3982c9aedce8714ca2bce9a313089aa75ce1da"
        }
        "#);
        let back = Recorded::from_bytes(Path::new(STATE), text.as_bytes()).unwrap();
        assert_eq!(back.to_text(), text);
        assert_eq!(back.files, recorded.files);
    }

    #[test]
    fn any_flipped_byte_and_any_cut_is_found() {
        let text = recorded().to_text();
        for at in 0..text.len() {
            for bit in 0..8 {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                assert!(Recorded::from_bytes(Path::new(STATE), &bytes).is_err(), "byte {at}, bit {bit}");
            }
            assert!(Recorded::from_bytes(Path::new(STATE), &text.as_bytes()[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn another_format_is_told() {
        let head = "{\n  \"format\": 9,\n";
        let checksum = blake3::hash(head.as_bytes()).to_hex();
        let text = format!("{head}{CHECKSUM}{checksum}\"\n}}\n");
        let error = Recorded::from_bytes(Path::new("run/state.json"), text.as_bytes()).unwrap_err();
        insta::assert_snapshot!(error, @"run/state.json cannot be read: it has format 9, and this program reads format 1");
        assert_eq!(error.hint().as_deref(), Some("use the program that wrote it"));
    }
}

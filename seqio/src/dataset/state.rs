//! Where a stream stands: a few numbers, from which it goes on exactly, on any number of hosts.
//!
//! ```text
//! {"version":1,"step":12,"row":96,"window":3,"rows_before_window":80,"batch_sizes":{"sizes":[[0,8]]},
//!  "stream":"4be1…","definition":{"task":"docs","split":"train","lengths":"targets 2048", …}}
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::dataset::batch_sizes::BatchSizes;
use crate::dataset::error::DatasetError;
use crate::dataset::items::Anchor;
use crate::fingerprint::Fingerprint;

/// Counts up when saved states change their meaning.
const VERSION: u32 = 1;

/// The position of a stream after some step: what comes next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetState {
    /// Version of this form.
    version: u32,
    /// The next step.
    pub step: u64,
    /// Its first row.
    pub row: u64,
    /// The window that this row is in.
    pub window: u64,
    /// Rows of the windows before it.
    pub rows_before_window: u64,
    /// Batch sizes up to here.
    pub batch_sizes: BatchSizes,
    /// Of a task whose items are not its examples: where the item window begins in which that window does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<Anchor>,
    /// Fingerprint of the stream.
    pub stream: Fingerprint,
    /// The definition in words, to explain a difference.
    pub definition: BTreeMap<String, String>,
}

impl DatasetState {
    pub(crate) fn new(
        position: StreamPosition,
        batch_sizes: BatchSizes,
        stream: Fingerprint,
        definition: BTreeMap<String, String>,
    ) -> Self {
        let StreamPosition { step, row, window, rows_before_window } = position;
        Self {
            version: VERSION,
            step,
            row,
            window,
            rows_before_window,
            batch_sizes,
            items: None,
            stream,
            definition,
        }
    }

    /// Reads a state back, refusing what is none in words.
    pub fn from_json(text: &str) -> Result<Self, DatasetError> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let refused = |problem: String| DatasetError::State { problem };
        let found: Versioned = serde_json::from_str(text)
            .map_err(|error| refused(format!("this is not a saved state of a stream: {error}")))?;
        if found.version != VERSION {
            return Err(refused(format!(
                "the state has version {}, and this program reads version {VERSION}: use the program that wrote it",
                found.version
            )));
        }
        let state: Self =
            serde_json::from_str(text).map_err(|error| refused(format!("the state is damaged: {error}")))?;
        state.batch_sizes.check()?;
        if state.row < state.rows_before_window || state.batch_sizes.row_of(state.step) != Some(state.row) {
            return Err(refused(format!(
                "the state is damaged: step {} cannot begin at row {}, {} rows into window {}",
                state.step, state.row, state.rows_before_window, state.window
            )));
        }
        Ok(state)
    }

    /// The state as one line of JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a state holds only numbers and strings")
    }

    pub(crate) fn position(&self) -> StreamPosition {
        StreamPosition {
            step: self.step,
            row: self.row,
            window: self.window,
            rows_before_window: self.rows_before_window,
        }
    }

    /// Refuses a state of another stream, naming what differs.
    pub(crate) fn check_stream(
        &self,
        stream: Fingerprint,
        definition: &BTreeMap<String, String>,
    ) -> Result<(), DatasetError> {
        if self.stream == stream {
            return Ok(());
        }
        let names: std::collections::BTreeSet<_> = self.definition.keys().chain(definition.keys()).collect();
        let shown = |words: Option<&String>| words.map_or("nothing", |words| words.as_str()).to_owned();
        let mut differences: Vec<String> = names
            .into_iter()
            .filter(|name| self.definition.get(*name) != definition.get(*name))
            .map(|name| {
                format!("{name}: {} → {}", shown(self.definition.get(name)), shown(definition.get(name)))
            })
            .collect();
        if differences.is_empty() {
            differences.push(format!("fingerprint: {} → {stream}", self.stream));
        }
        Err(DatasetError::State {
            problem: format!(
                "the state was saved by another stream, and going on would repeat or skip examples; state → now: {}",
                differences.join("; ")
            ),
        })
    }
}

/// Where a stream stands, without what it is a stream of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamPosition {
    pub(crate) step: u64,
    pub(crate) row: u64,
    pub(crate) window: u64,
    pub(crate) rows_before_window: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(lengths: &str) -> BTreeMap<String, String> {
        [("task", "docs"), ("lengths", lengths)].map(|(name, text)| (name.to_owned(), text.to_owned())).into()
    }

    fn state() -> DatasetState {
        let position = StreamPosition { step: 12, row: 96, window: 3, rows_before_window: 80 };
        DatasetState::new(
            position,
            BatchSizes::constant(8),
            Fingerprint::of_bytes(b"ab"),
            words("targets 2048"),
        )
    }

    #[test]
    fn a_state_survives_json() {
        let json = state().to_json();
        insta::assert_snapshot!(json.replace(&state().stream.to_string(), "4be1…"), @r#"{"version":1,"step":12,"row":96,"window":3,"rows_before_window":80,"batch_sizes":{"sizes":[[0,8]]},"stream":"4be1…","definition":{"lengths":"targets 2048","task":"docs"}}"#);
        assert_eq!(DatasetState::from_json(&json).unwrap(), state());
    }

    #[test]
    fn another_definition_is_refused_in_words() {
        state().check_stream(Fingerprint::of_bytes(b"ab"), &words("targets 2048")).unwrap();
        let error = state()
            .check_stream(Fingerprint::of_bytes(b"cd"), &words("targets 1024"))
            .unwrap_err()
            .to_string();
        assert!(error.ends_with("state → now: lengths: targets 2048 → targets 1024"), "{error}");
    }

    #[test]
    fn what_is_no_state_is_refused() {
        let refused = |text: &str| DatasetState::from_json(text).unwrap_err().to_string();
        assert!(refused("{}").contains("not a saved state"));
        assert!(refused(&state().to_json().replace(":1,", ":9,")).contains("version 9"));
        assert!(refused(&state().to_json().replace("96", "97")).contains("damaged"));
        assert!(refused(&state().to_json().replace("window", "wyndow")).contains("damaged"));
    }
}

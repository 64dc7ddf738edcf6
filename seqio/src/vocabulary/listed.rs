//! What a small vocabulary consists of, listed in a file or in the definition itself.
//!
//! ```toml
//! unigram = "words.txt"              # a word a line
//! unigram = ["yes", "no"]
//! ```

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A list of entries: the lines of a file, or the entries themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected the path of a file with an entry on each line, or a list of entries")]
pub enum Listed<T> {
    /// A file with an entry on each line.
    File(PathBuf),
    /// The entries in their order.
    Here(Vec<T>),
}

impl<T> Listed<T> {
    /// The file, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Here(_) => None,
        }
    }
}

impl<T> From<&str> for Listed<T> {
    fn from(path: &str) -> Self {
        Self::File(path.into())
    }
}

impl<T> From<PathBuf> for Listed<T> {
    fn from(path: PathBuf) -> Self {
        Self::File(path)
    }
}

impl<T> From<Vec<T>> for Listed<T> {
    fn from(entries: Vec<T>) -> Self {
        Self::Here(entries)
    }
}

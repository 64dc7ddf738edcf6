//! The splits of a source and their patterns.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::source::patterns::list_files;
use crate::source::{SourceError, SourceFile};

/// Where the files of each split are.
#[derive(Clone, Debug)]
pub(crate) struct Listing {
    /// The name of the source, for example ids.
    pub(crate) name: String,
    /// What patterns are relative to.
    pub(crate) base_dir: PathBuf,
    /// Split to patterns.
    pub(crate) splits: BTreeMap<String, Vec<String>>,
}

impl Listing {
    pub(crate) fn split_names(&self) -> Vec<String> {
        self.splits.keys().cloned().collect()
    }

    pub(crate) fn files(&self, split: &str) -> Result<Vec<SourceFile>, SourceError> {
        match self.splits.get(split) {
            Some(patterns) => list_files(&self.base_dir, patterns),
            None => Err(SourceError::NoSplit { split: split.to_owned(), found: self.split_names() }),
        }
    }
}

//! The splits of a source and their patterns.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::source::patterns::list_files;
use crate::source::saved_dataset::saved_files;
use crate::source::seqio_cache::cached_split;
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
    /// What the patterns name.
    pub(crate) kind: ListingKind,
}

/// What patterns name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ListingKind {
    /// Files.
    #[default]
    Files,
    /// The folder of a data set that Hugging Face's `datasets` saved, which says which files it has.
    SavedDataset,
    /// The folder of a cache that SeqIO wrote.
    SeqioCache,
}

impl Listing {
    pub(crate) fn split_names(&self) -> Vec<String> {
        self.splits.keys().cloned().collect()
    }

    pub(crate) fn files(&self, split: &str) -> Result<Vec<SourceFile>, SourceError> {
        let Some(patterns) = self.splits.get(split) else {
            return Err(SourceError::NoSplit { split: split.to_owned(), found: self.split_names() });
        };
        let folder = patterns.first().map_or("", String::as_str);
        match self.kind {
            ListingKind::Files => list_files(&self.base_dir, patterns),
            ListingKind::SavedDataset => saved_files(&self.base_dir, folder, split),
            ListingKind::SeqioCache => Ok(cached_split(&self.base_dir, folder, split)?.shards),
        }
    }
}

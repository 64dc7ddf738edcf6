//! What a build is made from: a task, and a split of its source with the records that belong to it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use seqio::{
    DataSource, Examples, FileRanges, Fingerprint, OnBadRow, PreprocessError, SliceWindows, SourceError,
    SourceFile, SourceRange, Split, SplitChoices, SplitKeys, WholeSplitStep,
};

use crate::error::CacheError;

/// The part of a task that a build sees.
pub(crate) trait BuildInput: Sync {
    fn task(&self) -> &str;
    /// Where raw examples come from; a task that came from a cache has no source.
    fn source(&self) -> Option<&Arc<dyn DataSource>>;
    fn cached_schema(&self) -> SchemaRef;
    /// Vocabulary sizes of the output features.
    fn vocab_sizes(&self) -> BTreeMap<String, usize>;
    /// The steps above the boundary that look at a whole split.
    fn whole_split_steps(&self) -> Vec<WholeSplitStep>;
    /// The keys of a chunk's examples at one of them, with the choices of those before it.
    fn split_keys(
        &self,
        number: usize,
        range: SourceRange,
        examples: Examples,
        choices: &SplitChoices,
    ) -> Result<SplitKeys, PreprocessError>;
    /// What the steps above the boundary make of a chunk's examples.
    fn preprocess(
        &self,
        range: SourceRange,
        examples: Examples,
        choices: &SplitChoices,
    ) -> Result<Examples, PreprocessError>;
    fn fingerprint(&self) -> Fingerprint;
    fn cache_seed(&self) -> u64;
    fn is_shuffled(&self, split: &str) -> bool;
    fn on_bad_row(&self) -> OnBadRow;
    /// All that a cache has to hold.
    fn definition(&self) -> serde_json::Value;
    /// What the fingerprint is a hash of.
    fn cache_definition(&self) -> serde_json::Value;
    fn vocabulary_files(&self) -> BTreeMap<String, &[u8]>;

    /// The name of a step, counted from 1.
    fn step_name(&self, number: usize) -> String {
        let definition = self.definition();
        let name = &definition["spec"]["steps"][number - 1]["op"];
        name.as_str().unwrap_or("step").to_owned()
    }

    /// The source, or that there is none.
    fn needed_source(&self) -> Result<&dyn DataSource, CacheError> {
        self.source().map(Arc::as_ref).ok_or_else(|| CacheError::NoSource { task: self.task().to_owned() })
    }
}

/// A range of a split: file index and start.
pub(crate) type RangeKey = (u32, u64);

/// Something that is read from front to back by one reader, and encoded by one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReadJob {
    pub(crate) file: u32,
    /// `None`: the whole file, which cuts its own ranges.
    pub(crate) range: Option<SourceRange>,
}

impl ReadJob {
    /// Where it begins in its file.
    pub(crate) fn start(self) -> u64 {
        self.range.map_or(0, |range| range.start)
    }
}

/// A split of a source, listed and cut.
#[derive(Debug)]
pub(crate) struct SplitPlan {
    /// The split, with its slice.
    pub(crate) split: Split,
    /// Its files.
    pub(crate) files: Vec<SourceFile>,
    /// How each can be read.
    pub(crate) ranges: Vec<FileRanges>,
    /// Of a slice, what belongs to it.
    pub(crate) slice: Option<SlicePlan>,
}

/// The part of a split that a slice is.
#[derive(Debug)]
pub(crate) struct SlicePlan {
    /// Ordinals in the slice, by range; ranges outside it are not there.
    pub(crate) windows: BTreeMap<RangeKey, Range<u64>>,
    /// Raw records of every range of the split.
    pub(crate) counts: BTreeMap<RangeKey, u64>,
}

impl SplitPlan {
    /// Lists the files of a split and cuts them.
    pub(crate) fn new(source: &dyn DataSource, split: &Split) -> Result<Self, SourceError> {
        let files = source.files(split.name())?;
        let indexed = || (0u32..).zip(&files);
        let ranges = indexed().map(|(index, file)| source.ranges(file, index)).collect::<Result<_, _>>()?;
        let slice = if split.is_slice() {
            let key = |range: SourceRange| (range.file, range.start);
            let SliceWindows { windows, counts } = source.slice(split, &files)?;
            Some(SlicePlan {
                windows: windows.into_iter().map(|(range, window)| (key(range), window)).collect(),
                counts: counts.into_iter().map(|(range, count)| (key(range), count)).collect(),
            })
        } else {
            None
        };
        Ok(Self { split: split.clone(), files, ranges, slice })
    }

    /// The ordinals of a range that belong to the split; `None` if none do.
    pub(crate) fn window(&self, key: RangeKey) -> Option<Range<u64>> {
        match &self.slice {
            None => Some(0..u64::MAX),
            Some(slice) => slice.windows.get(&key).cloned(),
        }
    }

    /// The same of a slice, as it is kept with what was encoded: a window moves when files are added before it.
    pub(crate) fn slice_window(&self, key: RangeKey) -> Option<(u64, u64)> {
        let window = self.slice.as_ref()?.windows.get(&key)?;
        Some((window.start, window.end))
    }

    /// Whether anything of a file belongs to the split.
    pub(crate) fn touches(&self, file: u32) -> bool {
        self.slice
            .as_ref()
            .is_none_or(|slice| slice.windows.range((file, 0)..=(file, u64::MAX)).next().is_some())
    }

    /// All that is to be read, in the source's order.
    pub(crate) fn jobs(&self) -> Vec<ReadJob> {
        let mut jobs = Vec::new();
        for (file, ranges) in (0u32..).zip(&self.ranges) {
            match ranges {
                FileRanges::Known(ranges) => {
                    let wanted = ranges.iter().filter(|range| self.window((file, range.start)).is_some());
                    jobs.extend(wanted.map(|&range| ReadJob { file, range: Some(range) }));
                }
                FileRanges::Streamed if self.touches(file) => jobs.push(ReadJob { file, range: None }),
                FileRanges::Streamed => {}
            }
        }
        jobs
    }

    pub(crate) fn file(&self, index: u32) -> &SourceFile {
        &self.files[index as usize]
    }

    /// Bytes of all its files.
    pub(crate) fn source_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// An error if a file is not as it was when the split was listed.
    pub(crate) fn check_unchanged(&self, source: &dyn DataSource) -> Result<(), CacheError> {
        let now = source.files(self.split.name())?;
        for (index, file) in self.files.iter().enumerate() {
            if now.get(index) != Some(file) {
                return Err(CacheError::SourceChanged { path: file.path.clone() });
            }
        }
        match now.get(self.files.len()) {
            Some(added) => Err(CacheError::SourceChanged { path: added.path.clone() }),
            None => Ok(()),
        }
    }
}

//! What one of several workers encodes of a split.
//!
//! ```text
//! a.jsonl 0..64 MiB, 64..128 MiB, 128..130 MiB; b.jsonl.gz 30 MiB     2 workers
//! 0/2: a.jsonl 0..64 MiB, b.jsonl.gz        1/2: a.jsonl 64..128 MiB, a.jsonl 128..130 MiB
//! ```
//!
//! The largest piece goes first, each to the worker that has least so far. So names and sizes of the files decide alone
//! who does what: no worker has to ask another.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use seqio::FileRanges;

use crate::input::{ReadJob, SplitPlan};
use crate::parts::{PartStem, name_hash};

/// How much longer a compressed byte takes than one of text.
const COMPRESSED_WEIGHT: u64 = 4;

/// Worker `index` of `count`, counted from 0; written `1/4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share {
    index: u32,
    count: u32,
}

impl Share {
    /// Worker `index` of `count`; `None` if there is no such worker.
    pub fn new(index: u32, count: u32) -> Option<Self> {
        (index < count).then_some(Self { index, count })
    }

    /// Which worker it is, from 0.
    pub fn index(self) -> u32 {
        self.index
    }

    /// How many workers there are.
    pub fn count(self) -> u32 {
        self.count
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

/// A text that names no share.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShareError {
    /// It is not of the form `1/4`.
    #[error("`{text}` is no share; write worker 0 of 4 as `0/4`")]
    Form {
        /// The text.
        text: String,
    },
    /// There are not so many workers.
    #[error(
        "there is no worker {index} of {count}: workers are counted from 0, so the last is `{}/{count}`",
        count.saturating_sub(1)
    )]
    Index {
        /// The worker asked for.
        index: u32,
        /// How many there are.
        count: u32,
    },
}

impl FromStr for Share {
    type Err = ShareError;

    fn from_str(text: &str) -> Result<Self, ShareError> {
        let numbers = text.split_once('/').and_then(|(index, count)| {
            let count = count.parse().ok().filter(|count| *count > 0)?;
            Some((index.parse().ok()?, count))
        });
        let (index, count) = numbers.ok_or_else(|| ShareError::Form { text: text.to_owned() })?;
        Self::new(index, count).ok_or(ShareError::Index { index, count })
    }
}

/// Who encodes which piece of a split.
#[derive(Debug)]
pub(crate) struct Shares {
    /// By file and start; a streamed file is one piece and begins at 0.
    owners: BTreeMap<(u32, u64), u32>,
    /// The split's files by the hash of their names, and whether each is read whole.
    files: BTreeMap<String, (u32, bool)>,
}

impl Shares {
    /// Shares out a split among `count` workers.
    pub(crate) fn new(plan: &SplitPlan, count: u32) -> Self {
        let mut jobs: Vec<(Reverse<u64>, ReadJob)> =
            plan.jobs().into_iter().map(|job| (Reverse(weight(plan, job)), job)).collect();
        jobs.sort();
        // Splits begin with different workers, so that many small splits do not all fall to the first.
        let hash = blake3::hash(plan.split.to_string().as_bytes());
        let first = hash.as_bytes()[..8].iter().fold(0u64, |sum, &byte| sum << 8 | u64::from(byte));
        let worker = |turn: u32| ((u64::from(turn) + first % u64::from(count)) % u64::from(count)) as u32;
        let mut loads: BTreeSet<(u64, u32)> = (0..count).map(|turn| (0, turn)).collect();
        let mut owners = BTreeMap::new();
        for (Reverse(weight), job) in jobs {
            let (load, turn) = loads.pop_first().expect("there is at least one worker");
            owners.insert((job.file, job.start()), worker(turn));
            loads.insert((load.saturating_add(weight), turn));
        }
        let files = (0u32..).zip(plan.files.iter().zip(&plan.ranges));
        let files = files
            .map(|(index, (file, ranges))| (name_hash(&file.name), (index, *ranges == FileRanges::Streamed)));
        Self { owners, files: files.collect() }
    }

    /// The worker that encodes a piece.
    pub(crate) fn owner(&self, job: ReadJob) -> Option<u32> {
        self.owners.get(&(job.file, job.start())).copied()
    }

    /// The worker that wrote a part with this name, if the split still has that piece.
    pub(crate) fn owner_of_part(&self, part: &PartStem<'_>) -> Option<u32> {
        let &(file, is_streamed) = self.files.get(part.name_hash)?;
        self.owners.get(&(file, if is_streamed { 0 } else { part.start })).copied()
    }
}

/// The pieces of one worker.
#[derive(Debug)]
pub(crate) struct OwnShare {
    pub(crate) share: Share,
    shares: Shares,
}

impl OwnShare {
    pub(crate) fn new(plan: &SplitPlan, share: Share) -> Self {
        Self { share, shares: Shares::new(plan, share.count) }
    }

    /// The worker that has a piece.
    pub(crate) fn owner(&self, job: ReadJob) -> Option<Share> {
        Share::new(self.shares.owner(job)?, self.share.count)
    }

    pub(crate) fn has(&self, job: ReadJob) -> bool {
        self.shares.owner(job) == Some(self.share.index)
    }

    pub(crate) fn has_part(&self, part: &PartStem<'_>) -> bool {
        self.shares.owner_of_part(part) == Some(self.share.index)
    }
}

/// The bytes that a piece has on the disk, about.
pub(crate) fn piece_bytes(plan: &SplitPlan, job: ReadJob) -> u64 {
    let bytes = plan.file(job.file).bytes;
    match (&plan.ranges[job.file as usize], job.range) {
        // A row group: its number, not its bytes.
        (FileRanges::Known(ranges), Some(range)) if range.end - range.start == 1 => {
            bytes / ranges.len() as u64
        }
        (_, Some(range)) => range.end.min(bytes).saturating_sub(range.start),
        (_, None) => bytes,
    }
}

/// How much work a piece is.
fn weight(plan: &SplitPlan, job: ReadJob) -> u64 {
    let bytes = piece_bytes(plan, job).max(1);
    if plan.file(job.file).is_compressed() { bytes.saturating_mul(COMPRESSED_WEIGHT) } else { bytes }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use proptest::prelude::*;
    use seqio::{SourceFile, SourceRange};

    use super::*;

    #[test]
    fn a_share_is_written_and_read_as_a_fraction() {
        let share: Share = "1/4".parse().unwrap();
        assert_eq!((share.index(), share.count(), share.to_string().as_str()), (1, 4, "1/4"));
        let error = |text: &str| text.parse::<Share>().unwrap_err().to_string();
        insta::assert_snapshot!(error("4/4"), @"there is no worker 4 of 4: workers are counted from 0, so the last is `3/4`");
        for text in ["", "1", "1/", "/4", "0/0", "-1/4", "1/4/2", "a/b"] {
            assert!(error(text).contains("write worker 0 of 4 as `0/4`"), "{text}");
        }
    }

    /// Files with known ranges of 64 bytes, and with `None` streamed ones.
    fn plan(files: &[(u64, bool)]) -> SplitPlan {
        let source_files = files.iter().enumerate().map(|(index, &(bytes, is_streamed))| {
            let name = format!("{index}{}", if is_streamed { ".gz" } else { "" });
            SourceFile { path: PathBuf::from(&name), name, bytes, modified_ns: 0 }
        });
        let ranges = (0u32..).zip(files).map(|(file, &(bytes, is_streamed))| match is_streamed {
            true => FileRanges::Streamed,
            false => FileRanges::Known(
                (0..bytes.div_ceil(64))
                    .map(|range| SourceRange { file, start: range * 64, end: range * 64 + 64 })
                    .collect(),
            ),
        });
        let split = "train".parse().unwrap();
        SplitPlan { split, files: source_files.collect(), ranges: ranges.collect(), slice: None }
    }

    proptest! {
        #[test]
        fn every_piece_has_one_owner_and_no_worker_has_more_than_a_piece_too_much(
            files in prop::collection::vec((0u64..2000, any::<bool>()), 0..12),
            count in 1u32..9,
        ) {
            let plan = plan(&files);
            let mut loads = vec![0u64; count as usize];
            let own: Vec<OwnShare> =
                (0..count).map(|index| OwnShare::new(&plan, Share { index, count })).collect();
            for job in plan.jobs() {
                let owners: Vec<u32> =
                    own.iter().filter(|own| own.has(job)).map(|own| own.share.index).collect();
                prop_assert_eq!(owners.len(), 1);
                loads[owners[0] as usize] += weight(&plan, job);
                let hash = name_hash(&plan.file(job.file).name);
                let part = PartStem { name_hash: &hash, start: job.start() };
                prop_assert!(own[owners[0] as usize].has_part(&part));
            }
            let heaviest = plan.jobs().into_iter().map(|job| weight(&plan, job)).max().unwrap_or(0);
            let (most, least) = (loads.iter().max().unwrap(), loads.iter().min().unwrap());
            prop_assert!(most - least <= heaviest, "{loads:?}");
        }
    }
}

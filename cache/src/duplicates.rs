//! What was dropped as a duplicate, told in a cache: numbers in the statistics, every case in a file.
//!
//! ```text
//! train.duplicates.jsonl    {"step":1,"file":"b.jsonl","row":17,"kept_file":"a.jsonl","kept_row":3}
//! ```

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use seqio::Position;
use serde::{Deserialize, Serialize};

use crate::choose::{Chosen, ChosenStep};
use crate::commit::Durability;
use crate::error::CacheError;
use crate::hashed::HashedFile;
use crate::input::SplitPlan;
use crate::layout::duplicates_file;
use crate::manifest::DuplicatesFile;
use crate::reader::CachedSplit;
use crate::stats::{DuplicateStatistics, RepeatedExample};

/// A line of the file.
#[derive(Serialize)]
struct Line<'a> {
    step: usize,
    file: &'a str,
    row: u64,
    kept_file: &'a str,
    kept_row: u64,
}

/// An example that a step dropped as a duplicate: a line of the file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Duplicate {
    /// The step's place in the task, from 1.
    pub step: usize,
    /// The file of its record.
    pub file: String,
    /// The ordinal of its record in the file, from 0.
    pub row: u64,
    /// The file of the record that was kept in its place.
    pub kept_file: String,
    /// The ordinal of that record.
    pub kept_row: u64,
}

impl CachedSplit {
    /// What became of a record that was dropped as a duplicate; `None` if it was not. All the list is read.
    pub fn find_duplicate(&self, file: &str, row: u64) -> Result<Option<Duplicate>, CacheError> {
        let Some(path) = self.duplicates_file() else { return Ok(None) };
        let list = fs::File::open(&path).map_err(CacheError::io("read", &path))?;
        for line in BufReader::with_capacity(1 << 16, list).lines() {
            let line = line.map_err(CacheError::io("read", &path))?;
            let duplicate: Duplicate =
                serde_json::from_str(&line).map_err(|error| CacheError::damaged(&path, error.to_string()))?;
            if duplicate.row == row && duplicate.file == file {
                return Ok(Some(duplicate));
            }
        }
        Ok(None)
    }
}

/// Writes the file of duplicates of a split and sums them up; `None` if no step looks for any.
pub(crate) fn tell_duplicates(
    plan: &SplitPlan,
    chosen: &Chosen,
    staged: &Path,
) -> Result<(Option<DuplicatesFile>, Vec<DuplicateStatistics>), CacheError> {
    if chosen.steps.is_empty() {
        return Ok((None, Vec::new()));
    }
    let name = duplicates_file(&plan.split.to_string());
    let path = staged.join(&name);
    let mut out = HashedFile::create(&path)?;
    let mut lines = 0;
    let mut all = Vec::new();
    for step in &chosen.steps {
        let mut statistics = statistics(plan, chosen, step);
        for dropped in step.drops.iter().map_err(crate::choose::failed)? {
            let dropped = dropped.map_err(crate::choose::failed)?;
            let (file, row) = place(plan, chosen, dropped.dropped);
            let (kept_file, kept_row) = place(plan, chosen, dropped.kept);
            let line = Line { step: step.step.number, file, row, kept_file, kept_row };
            let line = serde_json::to_string(&line).expect("plain strings and numbers");
            writeln!(out, "{line}").map_err(CacheError::io("write", &path))?;
            lines += 1;
            match statistics.dropped_by_file.get_mut(file) {
                Some(count) => *count += 1,
                None => drop(statistics.dropped_by_file.insert(file.to_owned(), 1)),
            }
        }
        all.push(statistics);
    }
    let (bytes, blake3) = out.commit(Durability::Disk)?;
    Ok((Some(DuplicatesFile { path: name, lines, bytes, blake3 }), all))
}

fn statistics(plan: &SplitPlan, chosen: &Chosen, step: &ChosenStep) -> DuplicateStatistics {
    let most = step.counts.most_repeated.iter().map(|repeated| {
        let (file, row) = place(plan, chosen, repeated.kept);
        RepeatedExample { file: file.to_owned(), row, copies: repeated.copies }
    });
    DuplicateStatistics {
        step: step.step.number,
        op: step.step.op.clone(),
        by: step.step.by.clone(),
        examples: step.examples,
        without_key: step.examples - step.counts.compared,
        dropped: step.counts.dropped,
        repeated: step.counts.repeated_keys,
        most_repeated: most.collect(),
        dropped_by_file: Default::default(),
    }
}

/// The file of an example, and the ordinal in it of the record that it was made from.
fn place<'a>(plan: &'a SplitPlan, chosen: &Chosen, position: Position) -> (&'a str, u64) {
    let before = chosen.first_rows.get(&(position.file, position.start)).copied().unwrap_or(0);
    (&plan.file(position.file).name, before + position.ordinal)
}

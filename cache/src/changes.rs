//! How the sources of a split differ from those its cache was made from.
//!
//! ```text
//! same path, size and time                  -> unchanged, without reading the file
//! another size                              -> changed
//! touched or moved, but the same content    -> unchanged, and the log is brought up to date
//! ```

use std::sync::Arc;

use seqio::{SourceError, SourceFile, Split};
use serde::Serialize;

use crate::difference::first_few;
use crate::digest::digest_like;
use crate::error::CacheError;
use crate::input::BuildInput;
use crate::log::SourceStamp;
use crate::manifest::SplitManifest;
use crate::store::Cache;

/// What became of a source file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SourceChange {
    /// Its name, as in the manifest.
    pub file: String,
    /// What became of it.
    pub change: FileChange,
    /// Its size when the cache was built; null if it was not there.
    pub bytes_before: Option<u64>,
    /// Its size now; null if it is gone.
    pub bytes: Option<u64>,
}

/// What can become of a source file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileChange {
    /// It was not there.
    New,
    /// It is not there any more.
    Gone,
    /// It has another size.
    Size,
    /// It has the same size and another content.
    Content,
}

impl SourceChange {
    /// The change in words.
    pub fn words(&self) -> String {
        let file = &self.file;
        match self.change {
            FileChange::New => format!("`{file}` is new"),
            FileChange::Gone => format!("`{file}` is gone"),
            FileChange::Content => format!("the content of `{file}` is another"),
            FileChange::Size => {
                let (before, bytes) = (self.bytes_before.unwrap_or(0), self.bytes.unwrap_or(0));
                format!("`{file}` has {bytes} bytes instead of {before}")
            }
        }
    }
}

/// How the sources of a cache are now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SourceState {
    Same,
    Absent,
    Different(Vec<SourceChange>),
}

/// What a line begins with that tells of changes.
pub(crate) const SOURCE_CHANGED: &str = "the source changed: ";

/// All changes in one line.
pub(crate) fn words(changes: &[SourceChange]) -> String {
    format!("{SOURCE_CHANGED}{}", first_few(changes.iter().map(SourceChange::words)))
}

/// The files of a split as they are now; none if they are away.
pub(crate) fn files_now(input: &dyn BuildInput, split: &Split) -> Result<Vec<SourceFile>, CacheError> {
    let Some(source) = input.source() else { return Ok(Vec::new()) };
    match source.files(split.name()) {
        Ok(files) => Ok(files),
        Err(SourceError::NoFiles { .. } | SourceError::NoSplit { .. }) => Ok(Vec::new()),
        Err(SourceError::Io { error, .. }) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

/// How closely sources are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// At contents only where names and sizes do not tell already that something changed.
    Enough,
    /// At everything.
    All,
    /// Not at contents: the source is of another kind, which cuts files otherwise.
    Outside,
}

/// Compares a split's sources, whose files these are now, with those a cache was made from.
pub(crate) fn source_state(
    cache: &Cache,
    input: &dyn BuildInput,
    split: &Split,
    files: &[SourceFile],
    look: Look,
) -> Result<SourceState, CacheError> {
    let Some(source) = input.source().map(Arc::as_ref) else { return Ok(SourceState::Absent) };
    let name = split.to_string();
    let entry: &SplitManifest = &cache.manifest().splits[&name];
    if files.is_empty() && !entry.files.is_empty() {
        return Ok(SourceState::Absent);
    }
    let mut changes = Vec::new();
    let mut change = |file: &str, change, bytes_before, bytes| {
        changes.push(SourceChange { file: file.to_owned(), change, bytes_before, bytes });
    };
    let log = cache.log();
    let stamps = log.as_ref().and_then(|log| log.sources.get(&name));
    let mut unsure = Vec::new();
    for (index, file) in (0u32..).zip(files) {
        match entry.files.iter().find(|known| known.name == file.name) {
            None => change(&file.name, FileChange::New, None, Some(file.bytes)),
            Some(_) if stamps.is_some_and(|stamps| stamps.contains(&SourceStamp::of(file))) => {}
            Some(known) if known.bytes != file.bytes => {
                change(&file.name, FileChange::Size, Some(known.bytes), Some(file.bytes));
            }
            // It follows from the others.
            Some(_) if source.is_result(file) => {}
            Some(known) => unsure.push((index, file, known)),
        }
    }
    for gone in entry.files.iter().filter(|known| files.iter().all(|file| known.name != file.name)) {
        change(&gone.name, FileChange::Gone, Some(gone.bytes), None);
    }
    if look == Look::All || (look == Look::Enough && changes.is_empty()) {
        for (index, file, known) in &unsure {
            if digest_like(source, file, *index, &known.digest)? != known.digest {
                let bytes = Some(file.bytes);
                let file = file.name.clone();
                changes.push(SourceChange { file, change: FileChange::Content, bytes_before: bytes, bytes });
            }
        }
    }
    if !changes.is_empty() {
        return Ok(SourceState::Different(changes));
    }
    if !unsure.is_empty()
        && look != Look::Outside
        && let Some(mut log) = log
    {
        // So that the next look is short. A read-only cache is none the worse for it.
        let real = files.iter().filter(|file| !source.is_result(file));
        log.sources.insert(name, real.map(SourceStamp::of).collect());
        let _ = log.write(cache.folder());
    }
    Ok(SourceState::Same)
}

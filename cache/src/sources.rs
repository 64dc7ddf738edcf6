//! The sources of a cache that is opened by its folder alone, without the task file: looked for where they were.
//!
//! ```text
//! same path, size and time             -> Same          (or, touched, the same content)
//! none of them is there any more       -> Absent
//! another size, or another content     -> Different
//! ```

use std::path::Path;
use std::sync::Arc;

use seqio::{DataSource, Definition, SourceFile};

use crate::changes::SOURCE_CHANGED;
use crate::digest::{RESULT, digest_like, digest_without_reading};
use crate::error::CacheError;
use crate::log::SourceStamp;
use crate::store::Cache;

/// How the sources of a cache are now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourcesNow {
    /// As they were, as far as they can be found.
    Same,
    /// Not where they were.
    Absent,
    /// Not as they were.
    Different {
        /// What changed, in words.
        reason: String,
    },
}

impl Cache {
    /// Looks for the sources of a split where they were when the cache was built.
    pub fn sources_now(&self, split: &str) -> Result<SourcesNow, CacheError> {
        let entry = self.manifest().split(self.folder(), split)?;
        let log = self.log();
        let stamps = log.as_ref().and_then(|log| log.sources.get(split)).map_or(&[][..], Vec::as_slice);
        let found: Vec<Option<SourceFile>> = stamps.iter().map(file_at).collect();
        if found.iter().all(Option::is_none) {
            let needs_none = entry.files.iter().all(|file| file.digest == RESULT);
            return Ok(if needs_none { SourcesNow::Same } else { SourcesNow::Absent });
        }
        let different =
            |words: String| Ok(SourcesNow::Different { reason: format!("{SOURCE_CHANGED}{words}") });
        let mut source = None;
        for ((index, stamp), file) in (0u32..).zip(stamps).zip(&found) {
            let Some(file) = file else {
                return different(format!("`{}` is gone", stamp.path.display()));
            };
            let now = SourceStamp::of(file);
            if now == *stamp {
                continue;
            }
            if now.bytes != stamp.bytes {
                let (path, before) = (stamp.path.display(), stamp.bytes);
                return different(format!("`{path}` has {} bytes instead of {before}", now.bytes));
            }
            let known = entry.files.iter().find(|known| known.name == stamp.name);
            let known = known.map_or("", |known| known.digest.as_str());
            let digest = match digest_without_reading(&file.path, known) {
                Some(digest) => digest?,
                None => {
                    let source = match &source {
                        Some(source) => source,
                        None => source.insert(self.source()?),
                    };
                    digest_like(source.as_ref(), file, index, known)?
                }
            };
            if digest != known {
                return different(format!("the content of `{}` is another", stamp.path.display()));
            }
        }
        Ok(SourcesNow::Same)
    }

    /// The source as the definition in the cache describes it.
    fn source(&self) -> Result<Arc<dyn DataSource>, CacheError> {
        let manifest = self.manifest();
        let definition: Definition =
            serde_json::from_value(manifest.definition.clone()).map_err(|error| CacheError::Definition {
                path: self.folder().to_owned(),
                problem: error.to_string(),
            })?;
        Ok(definition.spec.source.open(&manifest.task, Path::new(""))?)
    }
}

/// A source file as it is now, if it is still there.
fn file_at(stamp: &SourceStamp) -> Option<SourceFile> {
    let metadata = std::fs::metadata(&stamp.path).ok()?;
    let modified = metadata.modified().ok()?;
    let modified_ns = match modified.duration_since(std::time::UNIX_EPOCH) {
        Ok(after) => i128::try_from(after.as_nanos()).ok()?,
        Err(before) => -i128::try_from(before.duration().as_nanos()).ok()?,
    };
    Some(SourceFile {
        path: stamp.path.clone(),
        name: stamp.name.clone(),
        bytes: metadata.len(),
        modified_ns,
    })
}

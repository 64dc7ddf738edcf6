//! Caches that SeqIO wrote: which files they have, and what is in them. They are TFRecord files that take turns, in the order
//! in which SeqIO reads them without shuffling.
//!
//! ```text
//! seqio_cache = { train = "cache/my/task" }
//!
//! columns            those that info.train.json names
//! files of `train`   train.tfrecord-00000-of-00064, …, and what they make together, sixteen records from each in turn
//! ```

mod folder;
mod info;

use std::collections::BTreeMap;
use std::path::Path;

use crate::source::SourceError;
use crate::source::column::{ColumnSpec, ColumnType, ScalarType};
use crate::source::listing::Listing;
use crate::text::{nearest, quoted};

use self::folder::CachedSplit;
use self::info::Info;

pub(super) use self::folder::cached_split;

/// The columns of the caches: the declared ones if they are there, else all of the first split, which the others must have.
pub(super) fn pin_seqio_cache_columns(
    listing: &Listing,
    declared: &BTreeMap<String, ColumnSpec>,
) -> Result<BTreeMap<String, ColumnSpec>, SourceError> {
    let mut columns = declared.clone();
    for split in listing.split_names() {
        let folder = folder_of(listing, &split)?;
        let found = cached_split(&listing.base_dir, folder, &split)?.info;
        if columns.is_empty() {
            columns = found.columns;
        } else {
            check_columns(&listing.base_dir.join(folder), &split, &columns, &found)?;
        }
    }
    Ok(columns)
}

/// Sees that a split has these columns, or that they may be absent.
fn check_columns(
    folder: &Path,
    split: &str,
    columns: &BTreeMap<String, ColumnSpec>,
    info: &Info,
) -> Result<(), SourceError> {
    for (name, column) in columns {
        let problem = match info.columns.get(name) {
            None if column.optional => continue,
            None => {
                let hint = nearest(name, info.columns.keys().map(String::as_str));
                let hint = hint.map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"));
                format!("split `{split}` has no feature `{name}`, only {}{hint}", quoted(info.columns.keys()))
            }
            Some(found) if is_readable_as(*found, *column) => continue,
            Some(found) => format!(
                "feature `{name}` of split `{split}` should be {}, but is {}",
                column.data.phrase(),
                found.data.phrase()
            ),
        };
        return Err(SourceError::malformed(folder, problem));
    }
    Ok(())
}

fn is_readable_as(found: ColumnSpec, wanted: ColumnSpec) -> bool {
    use ScalarType::{Bool, Float32, Float64, Int32, Int64, String};
    let scalars = (found.data.scalar(), wanted.data.scalar());
    let is_list = |column: ColumnSpec| matches!(column.data, ColumnType::List(_));
    is_list(found) == is_list(wanted)
        && matches!(
            scalars,
            (String, String)
                | (Bool | Int32 | Int64, Bool | Int32 | Int64)
                | (Int32 | Int64 | Float32 | Float64, Float32 | Float64)
        )
}

fn folder_of<'a>(listing: &'a Listing, split: &str) -> Result<&'a str, SourceError> {
    match listing.splits.get(split).and_then(|folders| folders.first()) {
        Some(folder) => Ok(folder),
        None => Err(SourceError::NoSplit { split: split.to_owned(), found: listing.split_names() }),
    }
}

/// Sees that a split has as many records as its statistics say.
pub(super) fn check_count(listing: &Listing, split: &str, records: u64) -> Result<(), SourceError> {
    let CachedSplit { examples, stats, .. } =
        cached_split(&listing.base_dir, folder_of(listing, split)?, split)?;
    match examples.filter(|&examples| examples != records) {
        None => Ok(()),
        Some(examples) => {
            let problem = format!(
                "says that there are {examples} examples, but the shards hold {records}; a shard was cut off or replaced"
            );
            Err(SourceError::malformed(&stats, problem))
        }
    }
}

#[cfg(test)]
mod tests;

//! Temporary files: where operators put what does not fit into memory. They go with whoever holds them.

use std::path::PathBuf;

use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};

/// Files below this folder, or in that of the system, as large as they get.
pub(crate) fn disk(temporary: Option<PathBuf>) -> DiskManagerBuilder {
    let mode = match temporary {
        Some(folder) => DiskManagerMode::Directories(vec![folder]),
        None => DiskManagerMode::OsTmpDirectory,
    };
    DiskManagerBuilder::default().with_mode(mode).with_max_temp_directory_size(u64::MAX)
}

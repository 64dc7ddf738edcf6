//! In which window a row is: looked up in the index, or counted as far as need be.
//!
//! ```text
//! place_of(700)   the index knows 600 rows in 2 windows: windows 2, 3, … are planned, on all threads, until it is there
//! ```

use std::sync::{MutexGuard, PoisonError};

use rayon::prelude::*;

use crate::dataset::dataset::Dataset;
use crate::dataset::error::DatasetError;
use crate::dataset::index::RowIndex;
use crate::dataset::items::AnchorFile;

/// Windows that are counted at a time: enough for all cores, and few enough not to overshoot by much.
const FIRST_COUNT: u64 = 64;
const LAST_COUNT: u64 = 4096;

/// The rows of the first windows, as far as they are known.
#[derive(Debug, Default)]
pub(super) struct KnownRows {
    rows: RowIndex,
    /// Whether the index file has been looked for.
    loaded: bool,
}

/// Where a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowPlace {
    Window {
        window: u64,
        rows_before: u64,
    },
    /// The stream has only so many windows and rows.
    After {
        windows: u64,
        rows: u64,
    },
}

impl Dataset {
    /// Finds the window of a row, counting the rows of windows as far as need be.
    pub(super) fn place_of(&self, row: u64) -> Result<RowPlace, DatasetError> {
        if row == 0 {
            return Ok(RowPlace::Window { window: 0, rows_before: 0 });
        }
        if !self.config().is_packed() {
            return self.place_of_unpacked(row);
        }
        self.with_index(
            |rows| rows.num_rows() > row,
            |rows| match rows.window_of(row) {
                Some((window, rows_before)) => RowPlace::Window { window, rows_before },
                None => RowPlace::After { windows: rows.num_windows(), rows: rows.num_rows() },
            },
        )
    }

    /// Rows in the windows before `window`.
    pub(super) fn rows_before(&self, window: u64) -> Result<u64, DatasetError> {
        if !self.config().is_packed() {
            self.windows.reach(window, true)?;
            return Ok(self.windows.positions(window).start);
        }
        self.with_index(
            |rows| rows.num_windows() >= window,
            |rows| rows.rows_before(window).unwrap_or_else(|| rows.num_rows()),
        )
    }

    /// Without packing a row is a position.
    fn place_of_unpacked(&self, row: u64) -> Result<RowPlace, DatasetError> {
        let window = row / self.stream.window;
        if row != u64::MAX {
            self.windows.reach(window.saturating_add(1), true)?;
            let positions = self.windows.positions(window);
            if positions.contains(&row) {
                return Ok(RowPlace::Window { window, rows_before: positions.start });
            }
        }
        let windows = self.windows.num_windows()?.unwrap_or(u64::MAX);
        Ok(RowPlace::After { windows, rows: self.windows.positions(windows).start })
    }

    /// Looks something up in the index, after counting windows until it is known or the stream ends.
    fn with_index<R>(
        &self,
        known: impl Fn(&RowIndex) -> bool,
        look: impl FnOnce(&RowIndex) -> R,
    ) -> Result<R, DatasetError> {
        let last = self.windows.num_windows()?.unwrap_or(u64::MAX);
        let (mut count, mut barren, mut grown) = (FIRST_COUNT, 0, false);
        loop {
            let index = self.known_rows();
            let from = index.rows.num_windows();
            if known(&index.rows) || from >= last {
                if grown {
                    // Wherever it cannot be written it is counted again next time.
                    let _ = self.index_file.save(&self.stream.fingerprint, &index.rows);
                    if let Some(grouped) = self.windows.grouped() {
                        AnchorFile(&self.index_file).save(&self.stream.fingerprint, &grouped.known());
                    }
                }
                return Ok(look(&index.rows));
            }
            if !index.loaded {
                self.load(index);
                continue;
            }
            // Not under the lock: a thread that waits for others may be given work that needs the index too.
            drop(index);
            let rows = self.count_rows(from..from.saturating_add(count).min(last))?;
            barren = if rows.iter().all(|rows| *rows == 0) { barren + rows.len() as u64 } else { 0 };
            if barren > self.windows.barren_windows() && !self.windows.is_finite() {
                return Err(self.stream.no_tokens());
            }
            let mut index = self.known_rows();
            // Another thread may have counted the same windows meanwhile.
            let done = (index.rows.num_windows() - from).min(rows.len() as u64);
            index.rows.extend(rows.into_iter().skip(done as usize));
            count = (count * 2).min(LAST_COUNT);
            grown = true;
        }
    }

    fn known_rows(&self) -> MutexGuard<'_, KnownRows> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn load(&self, mut index: MutexGuard<'_, KnownRows>) {
        index.loaded = true;
        if let Some(rows) = self.index_file.load(&self.stream.fingerprint) {
            index.rows = rows;
        }
    }

    fn count_rows(&self, windows: std::ops::Range<u64>) -> Result<Vec<u32>, DatasetError> {
        let rows = |window| self.windows.with_plan(window, |plan| plan.num_rows() as u32);
        self.in_parallel(|| {
            self.windows.reach(windows.end, true)?;
            windows.into_par_iter().map(rows).collect()
        })?
    }
}

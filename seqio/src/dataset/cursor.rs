//! From windows to batches: which rows of which windows make the next step.
//!
//! ```text
//! windows of 5 and 4 rows, B = 4    step 0: w0[0..4]   step 1: w0[4..5] w1[0..3]   step 2: w1[3..4] …
//! ```

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::dataset::batch_sizes::BatchSizes;
use crate::dataset::state::StreamPosition;

/// Something that holds a known number of rows: a planned window.
pub(crate) trait Rows {
    /// How many.
    fn num_rows(&self) -> u64;
}

/// Some rows of one window.
#[derive(Debug)]
pub(crate) struct Stretch<W> {
    pub(crate) window: Arc<W>,
    /// Counted within the window.
    pub(crate) rows: Range<u64>,
}

/// The rows of one step.
#[derive(Debug)]
pub(crate) struct StepRows<W> {
    pub(crate) step: u64,
    /// First row, counted in the stream.
    pub(crate) row: u64,
    /// Rows in the batch; those beyond the stretches only fill it up.
    pub(crate) size: u64,
    pub(crate) stretches: Vec<Stretch<W>>,
    /// Where the stream stands after this step.
    pub(crate) after: StreamPosition,
}

/// Walks over the steps, holding the windows that the next rows are in.
#[derive(Debug)]
pub(crate) struct Cursor<W> {
    sizes: BatchSizes,
    drop_remainder: bool,
    step: u64,
    row: u64,
    /// Windows with rows at or after `row`, each with the number of rows before it.
    held: VecDeque<(u64, Arc<W>)>,
    next_window: u64,
    /// Rows in all windows before `next_window`.
    rows_known: u64,
    /// This many windows in a row without any row mean that there will never be one.
    empty_limit: u64,
    empty_windows: u64,
    /// Whether there are no windows from `next_window` on.
    ended: bool,
    /// Rows left out at the end, once that is known.
    dropped: u64,
}

/// Why there is no next step.
#[derive(Debug)]
pub(crate) enum NoStep<E> {
    /// The stream ends here.
    End,
    /// Window after window has no rows.
    Barren,
    /// A window could not be had.
    Failed(E),
}

impl<W: Rows> Cursor<W> {
    pub(crate) fn new(
        position: StreamPosition,
        sizes: BatchSizes,
        drop_remainder: bool,
        empty_limit: u64,
    ) -> Self {
        Self {
            sizes,
            drop_remainder,
            step: position.step,
            row: position.row,
            held: VecDeque::new(),
            next_window: position.window,
            rows_known: position.rows_before_window,
            empty_limit,
            empty_windows: 0,
            ended: false,
            dropped: 0,
        }
    }

    /// The rows of the next step. `fetch` is asked for each window once, in order, and says `None` after the
    /// last.
    pub(crate) fn next<E>(
        &mut self,
        mut fetch: impl FnMut(u64) -> Result<Option<Arc<W>>, E>,
    ) -> Result<StepRows<W>, NoStep<E>> {
        let size = self.sizes.size_at(self.step);
        let end = self.row.checked_add(size).ok_or(NoStep::End)?;
        while self.rows_known < end && !self.ended {
            match fetch(self.next_window).map_err(NoStep::Failed)? {
                Some(window) => self.hold(window)?,
                None => self.ended = true,
            }
        }
        let valid = self.rows_known.min(end).saturating_sub(self.row);
        if valid == 0 {
            return Err(NoStep::End);
        }
        if valid < size && self.drop_remainder {
            self.dropped = valid;
            return Err(NoStep::End);
        }
        Ok(self.take(size, valid))
    }

    /// Rows left out because they do not fill a batch; 0 until the end is reached.
    pub(crate) fn dropped_rows(&self) -> u64 {
        self.dropped
    }

    fn hold<E>(&mut self, window: Arc<W>) -> Result<(), NoStep<E>> {
        let rows = window.num_rows();
        self.empty_windows = if rows == 0 { self.empty_windows + 1 } else { 0 };
        if self.empty_windows > self.empty_limit {
            return Err(NoStep::Barren);
        }
        self.next_window += 1;
        // Windows that end before the first row wanted are only counted.
        if self.rows_known + rows > self.row {
            self.held.push_back((self.rows_known, window));
        }
        self.rows_known += rows;
        Ok(())
    }

    fn take(&mut self, size: u64, valid: u64) -> StepRows<W> {
        let (step, row, end) = (self.step, self.row, self.row + valid);
        let mut stretches = Vec::new();
        while let Some((before, window)) = self.held.front() {
            let last = before + window.num_rows();
            if *before >= end {
                break;
            }
            let rows = row.max(*before) - before..end.min(last) - before;
            if !rows.is_empty() {
                stretches.push(Stretch { window: Arc::clone(window), rows });
            }
            if last > end {
                break;
            }
            self.held.pop_front();
        }
        self.step += 1;
        self.row += size;
        let (rows_before_window, window) = match self.held.front() {
            Some((before, _)) => (*before, self.next_window - self.held.len() as u64),
            None => (self.rows_known, self.next_window),
        };
        let after = StreamPosition { step: self.step, row: self.row, window, rows_before_window };
        StepRows { step, row, size, stretches, after }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(u64);

    impl Rows for Fixed {
        fn num_rows(&self) -> u64 {
            self.0
        }
    }

    const START: StreamPosition = StreamPosition { step: 0, row: 0, window: 0, rows_before_window: 0 };

    /// First row, (window's rows, rows taken) and the position after it.
    type Step = (u64, Vec<(u64, Range<u64>)>, StreamPosition);

    /// All steps from a position on.
    fn steps(windows: &[u64], position: StreamPosition, sizes: &BatchSizes) -> Vec<Step> {
        let mut cursor = Cursor::new(position, sizes.clone(), false, 3);
        let mut found = Vec::new();
        let fetch = |index: u64| Ok::<_, ()>(windows.get(index as usize).map(|rows| Arc::new(Fixed(*rows))));
        while let Ok(step) = cursor.next(fetch) {
            let stretches =
                step.stretches.iter().map(|stretch| (stretch.window.0, stretch.rows.clone())).collect();
            found.push((step.row, stretches, step.after));
        }
        found
    }

    #[test]
    fn batches_run_over_the_borders_of_windows() {
        let found = steps(&[5, 0, 4], START, &BatchSizes::constant(4));
        let stretches: Vec<_> = found.iter().map(|(row, stretches, _)| (*row, stretches.clone())).collect();
        assert_eq!(stretches, [(0, vec![(5, 0..4)]), (4, vec![(5, 4..5), (4, 0..3)]), (8, vec![(4, 3..4)])]);
    }

    #[test]
    fn every_position_goes_on_as_if_nothing_had_happened() {
        for batch_size in 1..12 {
            let sizes = BatchSizes::changing(vec![(0, batch_size), (2, 3)]);
            let windows = [5, 0, 4, 1, 0, 0, 7, 0];
            let whole = steps(&windows, START, &sizes);
            for (done, (_, _, after)) in whole.iter().enumerate() {
                assert_eq!(steps(&windows, *after, &sizes), whole[done + 1..]);
                let far = StreamPosition { window: 0, rows_before_window: 0, ..*after };
                assert_eq!(steps(&windows, far, &sizes), whole[done + 1..], "without an index");
            }
        }
    }

    #[test]
    fn a_stream_without_rows_is_noticed() {
        let mut cursor = Cursor::new(START, BatchSizes::constant(1), false, 3);
        let empty = |_| Ok::<_, ()>(Some(Arc::new(Fixed(0))));
        assert!(matches!(cursor.next(empty), Err(NoStep::Barren)));
    }

    #[test]
    fn a_remainder_is_dropped_and_counted() {
        let mut cursor = Cursor::new(START, BatchSizes::constant(4), true, 3);
        let fetch = |index| Ok::<_, ()>((index == 0).then(|| Arc::new(Fixed(6))));
        assert_eq!(cursor.next(fetch).unwrap().row, 0);
        assert!(matches!(cursor.next(fetch), Err(NoStep::End)));
        assert_eq!(cursor.dropped_rows(), 2);
    }
}

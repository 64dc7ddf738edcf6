//! How many rows each step takes: a batch size, and its changes at restarts.
//!
//! ```text
//! [(0, 4), (10, 8)]   steps 0..10 take 4 rows each, later ones 8: step 12 begins at row 10*4 + 2*8 = 56
//! ```

use serde::{Deserialize, Serialize};

use crate::dataset::error::DatasetError;

/// How many changes a saved state remembers; older steps are summed up in the base.
const REMEMBERED: usize = 8;

/// The batch size of every step, and so the first row of every step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchSizes {
    /// First step that this list knows, and the row it begins at; (0, 0) unless older changes were forgotten.
    #[serde(default, skip_serializing_if = "is_origin")]
    base: (u64, u64),
    /// (from step, rows a step), steps rising; the first is at or below the base.
    sizes: Vec<(u64, u64)>,
}

fn is_origin(base: &(u64, u64)) -> bool {
    *base == (0, 0)
}

impl BatchSizes {
    /// The same size at every step.
    pub fn constant(batch_size: u64) -> Self {
        Self { base: (0, 0), sizes: vec![(0, batch_size)] }
    }

    /// A list of (from step, batch size): the first from step 0, steps rising. Checked by [`BatchSizes::check`].
    pub fn changing(sizes: Vec<(u64, u64)>) -> Self {
        Self { base: (0, 0), sizes }
    }

    /// Says what is wrong with the list, if anything.
    pub fn check(&self) -> Result<(), DatasetError> {
        let problem = if self.sizes.is_empty() {
            "there is no batch size".to_owned()
        } else if self.sizes[0].0 > self.base.0 {
            format!(
                "the first batch size holds from step {}; it must hold from step {}",
                self.sizes[0].0, self.base.0
            )
        } else if let Some(pair) = self.sizes.windows(2).find(|pair| pair[1].0 <= pair[0].0) {
            format!("batch sizes must be listed by rising step, but {} follows {}", pair[1].0, pair[0].0)
        } else if let Some((from, _)) = self.sizes.iter().find(|(_, size)| *size == 0) {
            format!("the batch size from step {from} on is 0; it must be at least 1")
        } else if let Some((from, size)) = self.sizes.iter().find(|(_, size)| *size > u64::from(u32::MAX)) {
            format!("the batch size from step {from} on is {size}; at most {} fit", u32::MAX)
        } else {
            return Ok(());
        };
        Err(DatasetError::Setting { setting: "batch_size", problem })
    }

    /// (from step, batch size), steps rising.
    pub fn sizes(&self) -> &[(u64, u64)] {
        &self.sizes
    }

    /// Rows that `step` takes.
    pub fn size_at(&self, step: u64) -> u64 {
        let after = self.sizes.partition_point(|(from, _)| *from <= step);
        self.sizes[after.saturating_sub(1)].1
    }

    /// The first row of `step`; `None` if it lies before the base or beyond what a number can count.
    pub fn row_of(&self, step: u64) -> Option<u64> {
        let (mut at, mut row) = self.base;
        if step < at {
            return None;
        }
        for (place, (_, size)) in self.sizes.iter().enumerate() {
            let until = self.sizes.get(place + 1).map_or(step, |(next, _)| (*next).min(step));
            if until > at {
                row = (until - at).checked_mul(*size).and_then(|rows| row.checked_add(rows))?;
                at = until;
            }
        }
        Some(row)
    }

    /// The step in which `row` is seen; `None` if it lies before the base.
    pub fn step_of(&self, row: u64) -> Option<u64> {
        let (mut at, mut first) = self.base;
        if row < first {
            return None;
        }
        for (place, (_, size)) in self.sizes.iter().enumerate() {
            match self.sizes.get(place + 1) {
                Some((next, _)) if *next <= at => {}
                Some((next, _)) => match (*next - at).checked_mul(*size) {
                    Some(rows) if row - first >= rows => (at, first) = (*next, first + rows),
                    _ => return Some(at + (row - first) / size),
                },
                None => return Some(at + (row - first) / size),
            }
        }
        None
    }

    /// What holds after a restart at `step`: these sizes before it, `wanted` from it on.
    pub fn continued(&self, step: u64, wanted: &Self) -> Self {
        let mut sizes: Vec<_> = self.sizes.iter().copied().filter(|(from, _)| *from < step).collect();
        let size = wanted.size_at(step);
        if sizes.last().is_none_or(|(_, last)| *last != size) {
            sizes.push((step, size));
        }
        sizes.extend(wanted.sizes.iter().filter(|(from, _)| *from > step));
        Self { base: self.base, sizes }
    }

    /// The part that a state saved before `step` has to know: no later change, and few earlier ones.
    pub(crate) fn until(&self, step: u64) -> Self {
        let known = self.sizes.partition_point(|(from, _)| *from < step).max(1);
        let mut kept = Self { base: self.base, sizes: self.sizes[..known].to_vec() };
        if known > REMEMBERED {
            let from = kept.sizes[known - REMEMBERED].0;
            if let Some(row) = kept.row_of(from) {
                kept.base = (from, row);
                kept.sizes.drain(..known - REMEMBERED);
            }
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_of_a_step_is_the_sum_over_the_sizes_before_it() {
        let sizes = BatchSizes::changing(vec![(0, 4), (10, 8), (12, 1)]);
        sizes.check().unwrap();
        let mut row = 0;
        for step in 0..30 {
            assert_eq!(sizes.row_of(step), Some(row));
            for inside in 0..sizes.size_at(step) {
                assert_eq!(sizes.step_of(row + inside), Some(step));
            }
            row += sizes.size_at(step);
        }
        assert_eq!(sizes.row_of(12), Some(56));
        assert_eq!(BatchSizes::constant(2).row_of(u64::MAX), None);
    }

    #[test]
    fn a_restart_changes_no_step_before_it() {
        let before = BatchSizes::changing(vec![(0, 4), (10, 8)]);
        let after = before.continued(12, &BatchSizes::constant(3));
        assert_eq!(after.sizes(), [(0, 4), (10, 8), (12, 3)]);
        assert_eq!(before.continued(12, &before), before);
        assert_eq!(before.continued(0, &BatchSizes::constant(3)).sizes(), [(0, 3)]);
    }

    #[test]
    fn many_restarts_are_summed_up_without_moving_a_row() {
        let mut sizes = BatchSizes::constant(1);
        for step in 1..100 {
            sizes = sizes.until(step).continued(step, &BatchSizes::constant(1 + step % 3));
        }
        sizes.check().unwrap();
        assert!(sizes.sizes().len() <= REMEMBERED + 1);
        let expected: u64 = (0..100).map(|step| 1 + step % 3).sum();
        assert_eq!(sizes.row_of(100), Some(expected));
        assert_eq!(sizes.row_of(1), None);
        assert_eq!(sizes.step_of(expected - 1), Some(99));
        assert_eq!(sizes.step_of(0), None);
    }

    #[test]
    fn senseless_lists_are_refused_in_words() {
        let problem = |sizes| BatchSizes::changing(sizes).check().unwrap_err().to_string();
        assert_eq!(problem(vec![]), "`batch_size`: there is no batch size");
        assert_eq!(
            problem(vec![(0, 0)]),
            "`batch_size`: the batch size from step 0 on is 0; it must be at least 1"
        );
        assert!(problem(vec![(2, 1)]).contains("must hold from step 0"));
        assert!(problem(vec![(0, 1), (3, 1), (3, 2)]).contains("3 follows 3"));
    }
}

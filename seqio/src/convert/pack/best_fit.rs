//! Best fit, largest first: which row each piece goes to.
//!
//! ```text
//! capacity 8, sizes 5 2 3 6 1  ->  6 opens row 0, 5 opens row 1, 3 fits row 1, 2 fits row 0, 1 opens row 2
//! ```
//!
//! O(pieces + capacity): sizes are counted out, and open rows are kept by the room left in them. Pieces of one size
//! go into the same row as long as they fit, since no other row can have less room that is still enough.

use super::free_space::FreeSpace;

/// Memory that is used again for every window.
#[derive(Clone, Debug, Default)]
pub(super) struct BestFit {
    space: FreeSpace,
    /// Where the pieces of each size begin in `by_size`.
    starts: Vec<u32>,
    /// Pieces by falling size, those of a size by position.
    by_size: Vec<u32>,
}

impl BestFit {
    /// Writes the row of each piece to `rows` and returns the number of rows. Sizes are from 1 to `capacity`.
    pub(super) fn assign(&mut self, sizes: &[u32], capacity: u32, rows: &mut Vec<u32>) -> usize {
        self.sort(sizes, capacity);
        self.space.reset(capacity as usize);
        rows.clear();
        rows.resize(sizes.len(), 0);
        let mut from = 0;
        while let Some(first) = self.by_size.get(from) {
            let size = sizes[*first as usize];
            let to = self.starts[(capacity - size) as usize] as usize;
            let mut pieces = &self.by_size[from..to];
            while !pieces.is_empty() {
                let (room, row) = match self.space.take_at_least(size as usize) {
                    Some(open) => open,
                    None => (capacity as usize, self.space.open()),
                };
                let count = pieces.len().min(room / size as usize);
                let (here, rest) = pieces.split_at(count);
                here.iter().for_each(|piece| rows[*piece as usize] = row);
                let room = room - count * size as usize;
                if room > 0 {
                    self.space.put(room, row);
                }
                pieces = rest;
            }
            from = to;
        }
        self.space.num_rows()
    }

    /// Counting sort; afterwards `starts[capacity - size]` is where the pieces of that size end.
    fn sort(&mut self, sizes: &[u32], capacity: u32) {
        self.starts.clear();
        self.starts.resize(capacity as usize, 0);
        for size in sizes {
            self.starts[(capacity - size) as usize] += 1;
        }
        let mut end = 0;
        for start in &mut self.starts {
            end += std::mem::replace(start, end);
        }
        self.by_size.clear();
        self.by_size.resize(sizes.len(), 0);
        for (piece, size) in (0..).zip(sizes) {
            let start = &mut self.starts[(capacity - size) as usize];
            self.by_size[*start as usize] = piece;
            *start += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use proptest::prelude::*;

    use super::*;

    /// Best fit as one would write it down: O(pieces * rows).
    fn model(sizes: &[u32], capacity: u32) -> Vec<u32> {
        let mut order: Vec<usize> = (0..sizes.len()).collect();
        order.sort_by_key(|piece| Reverse(sizes[*piece]));
        let mut rows = vec![0; sizes.len()];
        // Room left, and when the row was last filled.
        let mut open: Vec<(u32, usize)> = Vec::new();
        for (step, piece) in order.into_iter().enumerate() {
            let fitting = open.iter().enumerate().filter(|(_, row)| row.0 >= sizes[piece]);
            let row = fitting.min_by_key(|(_, (room, filled))| (*room, Reverse(*filled))).map(|(row, _)| row);
            let row = row.unwrap_or_else(|| {
                open.push((capacity, 0));
                open.len() - 1
            });
            open[row] = (open[row].0 - sizes[piece], step);
            rows[piece] = row as u32;
        }
        rows
    }

    #[test]
    fn each_piece_goes_where_the_least_room_is_left_over() {
        let mut rows = Vec::new();
        assert_eq!(BestFit::default().assign(&[5, 2, 3, 6, 1], 8, &mut rows), 3);
        assert_eq!(rows, [1, 0, 1, 0, 2]);
    }

    #[test]
    fn nothing_needs_no_rows() {
        assert_eq!(BestFit::default().assign(&[], 8, &mut Vec::new()), 0);
    }

    proptest! {
        #[test]
        fn equals_the_quadratic_model(
            (capacity, sizes) in prop_oneof![1u32..20, 1u32..300, Just(4096)]
                .prop_flat_map(|capacity| (Just(capacity), proptest::collection::vec(1..=capacity, 0..200))),
        ) {
            let mut best_fit = BestFit::default();
            let mut rows = Vec::new();
            for _ in 0..2 {
                let num_rows = best_fit.assign(&sizes, capacity, &mut rows);
                prop_assert_eq!(&rows, &model(&sizes, capacity));
                prop_assert_eq!(num_rows as u32, rows.iter().max().map_or(0, |row| row + 1));
            }
        }

        #[test]
        fn equals_the_model_where_many_sizes_are_equal(
            sizes in proptest::collection::vec(prop_oneof![Just(3u32), Just(5), Just(7), Just(64)], 0..300),
        ) {
            let mut rows = Vec::new();
            BestFit::default().assign(&sizes, 64, &mut rows);
            prop_assert_eq!(rows, model(&sizes, 64));
        }
    }
}

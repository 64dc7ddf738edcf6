//! Open rows by the room left in them, with the least sufficient room found in a few instructions.
//!
//! ```text
//! rooms 3 3 7  ->  take_at_least(2): 3    take_at_least(4): 7    take_at_least(8): none
//! ```
//!
//! A bit a room says whether a row has it; above 64 bits stands one bit that says whether any of them is set, and so
//! on up to a single word. Rows of equal room are kept as a stack.

const NO_ROW: u32 = u32::MAX;

/// The open rows of one window.
#[derive(Clone, Debug, Default)]
pub(super) struct FreeSpace {
    /// `levels[0]` has a bit a room, each further level a bit a word of the one below.
    levels: Vec<Vec<u64>>,
    /// The row put last of those with each room.
    top: Vec<u32>,
    /// For each row the one below it in its stack.
    below: Vec<u32>,
}

impl FreeSpace {
    /// No open rows; rooms are below `capacity`.
    pub(super) fn reset(&mut self, capacity: usize) {
        if self.top.len() == capacity {
            // Whoever packed before may have left rows behind: only their bits need clearing, not all of `top`.
            self.levels.iter_mut().for_each(|level| level.fill(0));
        } else {
            self.levels.clear();
            let mut bits = capacity;
            loop {
                let words = bits.div_ceil(64).max(1);
                self.levels.push(vec![0; words]);
                if words == 1 {
                    break;
                }
                bits = words;
            }
            self.top = vec![NO_ROW; capacity];
        }
        self.below.clear();
    }

    /// Opens a row and returns its number; it has no room until it is put.
    pub(super) fn open(&mut self) -> u32 {
        self.below.push(NO_ROW);
        (self.below.len() - 1) as u32
    }

    /// Number of rows opened.
    pub(super) fn num_rows(&self) -> usize {
        self.below.len()
    }

    /// Puts `row`, which is not among the open ones, there with room `room`.
    pub(super) fn put(&mut self, room: usize, row: u32) {
        let known = self.levels[0][room / 64] >> (room % 64) & 1 == 1;
        self.below[row as usize] = if known { self.top[room] } else { NO_ROW };
        self.top[room] = row;
        if known {
            return;
        }
        let mut bit = room;
        for level in &mut self.levels {
            let word = &mut level[bit / 64];
            let was_empty = *word == 0;
            *word |= 1 << (bit % 64);
            if !was_empty {
                break;
            }
            bit /= 64;
        }
    }

    /// Takes the row put last of those with the least room that is at least `size`.
    pub(super) fn take_at_least(&mut self, size: usize) -> Option<(usize, u32)> {
        let room = self.first_at_least(size)?;
        let row = self.top[room];
        let below = self.below[row as usize];
        self.top[room] = below;
        if below == NO_ROW {
            let mut bit = room;
            for level in &mut self.levels {
                let word = &mut level[bit / 64];
                *word &= !(1 << (bit % 64));
                if *word != 0 {
                    break;
                }
                bit /= 64;
            }
        }
        Some((room, row))
    }

    fn first_at_least(&self, size: usize) -> Option<usize> {
        let mut bit = size;
        let mut height = 0;
        loop {
            let word = self.levels.get(height)?.get(bit / 64)? >> (bit % 64);
            if word != 0 {
                bit += word.trailing_zeros() as usize;
                break;
            }
            bit = bit / 64 + 1;
            height += 1;
        }
        for level in self.levels[..height].iter().rev() {
            bit = bit * 64 + level[bit].trailing_zeros() as usize;
        }
        Some(bit)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn takes_the_least_room_that_is_enough() {
        let mut space = FreeSpace::default();
        space.reset(8);
        for room in [3, 3, 7] {
            let row = space.open();
            space.put(room, row);
        }
        assert_eq!(space.take_at_least(2), Some((3, 1)));
        assert_eq!(space.take_at_least(2), Some((3, 0)));
        assert_eq!(space.take_at_least(2), Some((7, 2)));
        assert_eq!(space.take_at_least(1), None);
    }

    proptest! {
        #[test]
        fn equals_a_sorted_list(
            capacity in prop_oneof![2usize..300, 2usize..5000, 260_000usize..300_000],
            steps in proptest::collection::vec((any::<bool>(), 0.0..1.0f64), 0..200),
        ) {
            let mut space = FreeSpace::default();
            for _ in 0..2 {
                space.reset(capacity);
                let mut model: Vec<(usize, u32)> = Vec::new();
                for (put, at) in &steps {
                    let size = 1 + ((capacity - 1) as f64 * at) as usize;
                    if *put {
                        let row = space.open();
                        space.put(size.min(capacity - 1), row);
                        model.push((size.min(capacity - 1), row));
                    } else {
                        let best = model.iter().enumerate().filter(|(_, open)| open.0 >= size);
                        let best = best.min_by_key(|(put, open)| (open.0, std::cmp::Reverse(*put)));
                        let best = best.map(|(put, _)| put).map(|put| model.remove(put));
                        prop_assert_eq!(space.take_at_least(size), best);
                    }
                }
            }
        }
    }
}

//! Decompressed batches, kept while they are in use and memory allows.
//!
//! ```text
//! an epoch in blocks of 4,096 examples: 4 whole batches and 2 halves a block, so each batch is decompressed 1.25 times
//! ```
//!
//! Rows of a window are read in any order, so all batches of a window have to stay until it is done. What goes first is
//! the batch that came first and was not looked at since the last time it was its turn (second chance).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Memory for decompressed batches if nobody says otherwise: two windows of 16,384 examples of 16 KiB.
pub(crate) const DEFAULT_LIMIT: u64 = 512 << 20;

/// Values by number, made when they are asked for.
#[derive(Debug)]
pub(crate) struct Decoded<T> {
    slots: Vec<Slot<T>>,
    turns: Mutex<Turns>,
    limit: AtomicU64,
    made: AtomicU64,
}

#[derive(Debug)]
struct Slot<T> {
    value: Mutex<Option<Arc<T>>>,
    used: AtomicBool,
}

/// Which values there are, the one whose turn it is to go in front, with the bytes of each and of all.
#[derive(Debug, Default)]
struct Turns {
    queue: VecDeque<(usize, u64)>,
    bytes: u64,
}

impl<T> Decoded<T> {
    pub(crate) fn new(slots: usize, limit: u64) -> Self {
        let slot = || Slot { value: Mutex::new(None), used: AtomicBool::new(false) };
        Self {
            slots: std::iter::repeat_with(slot).take(slots).collect(),
            turns: Mutex::default(),
            limit: AtomicU64::new(limit),
            made: AtomicU64::new(0),
        }
    }

    /// Keeps up to this many bytes from now on; the values that threads hold at the moment come on top.
    pub(crate) fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// How many values have been made.
    pub(crate) fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// A value, made by `make` with its size in bytes if it is not there. Two threads never make the same one at once.
    pub(crate) fn get<E>(
        &self,
        slot: usize,
        make: impl FnOnce() -> Result<(T, u64), E>,
    ) -> Result<Arc<T>, E> {
        // A value is stored whole or not at all, so a panic elsewhere leaves nothing half done.
        let mut held = self.slots[slot].value.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = held.as_ref() {
            self.slots[slot].used.store(true, Ordering::Relaxed);
            return Ok(Arc::clone(value));
        }
        let (value, bytes) = make()?;
        let value = Arc::new(value);
        *held = Some(Arc::clone(&value));
        drop(held);
        self.made.fetch_add(1, Ordering::Relaxed);
        // Never two locks at a time: those that go are named first and dropped afterwards.
        for gone in self.admit(slot, bytes) {
            *self.slots[gone].value.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        Ok(value)
    }

    /// Puts a value at the end of the queue and says which ones have to go for it.
    fn admit(&self, slot: usize, bytes: u64) -> Vec<usize> {
        let limit = self.limit.load(Ordering::Relaxed);
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.bytes += bytes;
        let mut gone = Vec::new();
        // Everybody once with a second chance, then without.
        let mut chances = turns.queue.len();
        while turns.bytes > limit {
            let Some((oldest, size)) = turns.queue.pop_front() else { break };
            if chances > 0 && self.slots[oldest].used.swap(false, Ordering::Relaxed) {
                chances -= 1;
                turns.queue.push_back((oldest, size));
                continue;
            }
            turns.bytes -= size;
            gone.push(oldest);
        }
        turns.queue.push_back((slot, bytes));
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(number: usize) -> Result<(usize, u64), ()> {
        Ok((number, 10))
    }

    #[test]
    fn what_fits_is_made_once_and_what_does_not_goes_in_turn() {
        let decoded = Decoded::new(10, 30);
        for _ in 0..5 {
            (0..3).for_each(|slot| assert_eq!(*decoded.get(slot, || value(slot)).unwrap(), slot));
        }
        assert_eq!(decoded.made(), 3);
        for slot in 3..10 {
            decoded.get(slot, || value(slot)).unwrap();
        }
        assert_eq!(decoded.made(), 10);
        assert_eq!(decoded.turns.lock().unwrap().bytes, 30);
        let kept = decoded.slots.iter().filter(|slot| slot.value.lock().unwrap().is_some()).count();
        assert_eq!(kept, 3);
    }

    #[test]
    fn what_is_in_use_stays_while_others_pass_by() {
        let decoded = Decoded::new(100, 40);
        for slot in 1..100 {
            decoded.get(0, || value(0)).unwrap();
            decoded.get(slot, || value(slot)).unwrap();
        }
        assert_eq!(decoded.made(), 100);
    }

    #[test]
    fn a_value_that_cannot_be_made_is_tried_again() {
        let decoded = Decoded::new(1, 40);
        assert!(decoded.get(0, || Err::<(usize, u64), ()>(())).is_err());
        assert_eq!(*decoded.get(0, || value(7)).unwrap(), 7);
    }

    #[test]
    fn threads_get_the_same_values_within_the_limit() {
        let decoded = Decoded::new(64, 200);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let decoded = &decoded;
                scope.spawn(move || {
                    for place in 0..2000 {
                        let slot = (place * 7 + thread * 13) % 64;
                        assert_eq!(*decoded.get(slot, || value(slot)).unwrap(), slot);
                    }
                });
            }
        });
        assert!(decoded.turns.lock().unwrap().bytes <= 200);
    }

    #[test]
    fn one_value_larger_than_the_limit_is_still_given_out() {
        let decoded = Decoded::new(2, 1);
        assert_eq!(*decoded.get(0, || value(0)).unwrap(), 0);
        assert_eq!(*decoded.get(1, || value(1)).unwrap(), 1);
        assert_eq!(decoded.turns.lock().unwrap().queue.len(), 1);
    }
}

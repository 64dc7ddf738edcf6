//! Choices made while a split is read from its front, for as long as the keys fit in memory.

use std::collections::BTreeSet;

use crate::preprocess::SplitKey;

/// The keys met so far.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    keys: BTreeSet<SplitKey>,
    forgot: bool,
}

/// Keys that are remembered, at most.
const MOST_KEYS: usize = 1 << 20;

impl Seen {
    /// Whether each example stays.
    pub(crate) fn keep(&mut self, keys: Vec<Option<SplitKey>>) -> Vec<bool> {
        keys.into_iter().map(|key| key.is_none_or(|key| self.is_new(key))).collect()
    }

    /// Whether a key was met that could not be remembered: a copy of it may stay.
    pub(crate) fn forgot(&self) -> bool {
        self.forgot
    }

    fn is_new(&mut self, key: SplitKey) -> bool {
        if self.keys.len() < MOST_KEYS {
            return self.keys.insert(key);
        }
        let is_new = !self.keys.contains(&key);
        self.forgot |= is_new;
        is_new
    }
}

//! What a task yields below the cache boundary: named sequences, each known by its length.

use std::sync::Arc;

use crate::item::{Rope, StoredSpan};
use crate::rng::mix;

/// An item on its way through the steps below the boundary.
#[derive(Clone, Debug)]
pub struct Item {
    /// By feature; few, so a list.
    sequences: Vec<(Arc<str>, Rope)>,
    /// The example it comes from; of several, the first.
    example: u64,
    /// Tells the items of one example apart.
    path: u64,
}

impl Item {
    /// An example as it is stored: `sequences` by feature.
    pub fn new(example: u64, sequences: Vec<(Arc<str>, Rope)>) -> Self {
        Self { sequences, example, path: 0 }
    }

    /// The example that the item comes from: of several, the first.
    pub fn example(&self) -> u64 {
        self.example
    }

    /// 0 for a whole example; for one of several pieces of it, a number of its own.
    pub fn path(&self) -> u64 {
        self.path
    }

    /// The sequence of a feature, if the item has it.
    pub fn sequence(&self, feature: &str) -> Option<&Rope> {
        self.sequences.iter().find(|(name, _)| &**name == feature).map(|(_, rope)| rope)
    }

    /// Takes the sequence of a feature out of the item.
    pub fn take(&mut self, feature: &str) -> Option<Rope> {
        let place = self.sequences.iter().position(|(name, _)| &**name == feature)?;
        Some(self.sequences.swap_remove(place).1)
    }

    /// Gives the item a sequence of this feature, in the place of one it may have.
    pub fn set(&mut self, feature: &Arc<str>, rope: Rope) {
        match self.sequences.iter_mut().find(|(name, _)| name == feature) {
            Some((_, there)) => *there = rope,
            None => self.sequences.push((Arc::clone(feature), rope)),
        }
    }

    /// The same item with these sequences alone.
    pub fn with_sequences(&self, sequences: Vec<(Arc<str>, Rope)>) -> Self {
        Self { sequences, example: self.example, path: self.path }
    }

    /// Piece `index` of this item, with these sequences: random choices about it are not those about other pieces.
    pub fn piece(&self, index: u64, sequences: Vec<(Arc<str>, Rope)>) -> Self {
        Self { sequences, example: self.example, path: mix(self.path ^ mix(index.wrapping_add(1))) }
    }

    /// All its sequences.
    pub fn sequences(&self) -> &[(Arc<str>, Rope)] {
        &self.sequences
    }

    /// The stretches of stored sequences that it is made of, sorted, each once.
    pub fn sources(&self) -> Vec<StoredSpan> {
        let mut found = Vec::new();
        self.sequences.iter().for_each(|(_, rope)| rope.sources(&mut found));
        found.sort();
        found.dedup();
        found
    }
}

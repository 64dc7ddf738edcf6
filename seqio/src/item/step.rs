//! A step below the cache boundary: it sees lengths, and says what becomes of sequences without reading them.

use std::fmt::Debug;
use std::sync::Arc;

use crate::dataset::{ExampleStore, StoreError, edits_in_words};
use crate::item::{Item, Rope};
use crate::preprocess::TokenEdit;
use crate::rng::Key;

/// A step that is told of items by their lengths.
///
/// Laws: the result depends on nothing but the items and their keys;
/// items that stand in different groups of [`ItemStep::merges`] do not touch each other; and a sequence that is made
/// has the length that was promised.
pub trait ItemStep: Debug + Send + Sync {
    /// How many items it takes together, one behind the other; 1 for a step that looks at each by itself.
    fn merges(&self) -> usize {
        1
    }

    /// What becomes of `items`: [`ItemStep::merges`] of them, or the last ones, which may be fewer; any number of them for
    /// a step that looks at each by itself. Any number may come out, in order.
    fn plan(&self, items: Vec<Item>, draws: &Draws<'_>) -> Result<Vec<Item>, StoreError>;

    /// What it does, in a few words for `seqio explain`: `inputs, targets: spans of 3 behind sentinels, 15 % noise`.
    fn in_words(&self) -> String;
}

/// Where the random choices of one step come from: (seed, task, epoch, step name and occurrence), and the item.
#[derive(Clone, Copy, Debug)]
pub struct Draws<'a> {
    pub(crate) root: Key,
    pub(crate) store: &'a dyn ExampleStore,
}

impl Draws<'_> {
    /// The key of an item: the same wherever and whenever the item is planned.
    pub fn key(&self, item: &Item) -> Result<Key, StoreError> {
        Ok(self.root.of_example(&self.store.id(item.example())?).child(item.path()))
    }
}

/// Edits of sequences as a step among others.
#[derive(Debug)]
pub(crate) struct EditStep {
    /// By feature.
    edits: Vec<(Arc<str>, Vec<TokenEdit>)>,
}

impl EditStep {
    pub(crate) fn new(edits: impl IntoIterator<Item = (String, Vec<TokenEdit>)>) -> Self {
        let edits = edits.into_iter().filter(|(_, edits)| !edits.is_empty());
        Self { edits: edits.map(|(feature, edits)| (feature.into(), edits)).collect() }
    }
}

impl ItemStep for EditStep {
    fn plan(&self, mut items: Vec<Item>, _draws: &Draws<'_>) -> Result<Vec<Item>, StoreError> {
        for item in &mut items {
            for (feature, edits) in &self.edits {
                let Some(mut rope) = item.take(feature) else { continue };
                for edit in edits {
                    match edit {
                        TokenEdit::Trim { max_length } => {
                            rope.truncate(u32::try_from(*max_length).unwrap_or(u32::MAX));
                        }
                        TokenEdit::Append { id } => rope.append(Rope::ids([*id])),
                        TokenEdit::RepeatLast => rope.append(match rope.len() {
                            0 => Rope::ids([0]),
                            len => rope.slice(len - 1, 1),
                        }),
                    }
                }
                item.set(feature, rope);
            }
        }
        Ok(items)
    }

    fn in_words(&self) -> String {
        let edits = self.edits.iter().map(|(feature, edits)| format!("{feature} {}", edits_in_words(edits)));
        edits.collect::<Vec<_>>().join(", ")
    }
}

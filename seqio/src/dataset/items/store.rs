//! Items as a store of examples: what rows are written from where steps below the boundary merge, split or corrupt.

use std::sync::Arc;

use crate::dataset::store::{ExampleStore, StoreError};
use crate::example::{ExampleId, Origin};
use crate::item::{Item, Rope, StoredSpan};

/// Items planned together, and the store that their tokens come from.
#[derive(Debug)]
pub(crate) struct PlannedItems {
    pub(crate) store: Arc<dyn ExampleStore>,
    pub(crate) items: Vec<Item>,
}

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct HeldItem {
    pub(crate) planned: Arc<PlannedItems>,
    pub(crate) index: u32,
}

impl HeldItem {
    pub(crate) fn item(&self) -> &Item {
        &self.planned.items[self.index as usize]
    }
}

/// The items of a window, numbered from 0.
#[derive(Debug)]
pub(crate) struct ItemStore {
    features: Arc<[String]>,
    items: Vec<HeldItem>,
}

impl ItemStore {
    pub(crate) fn new(features: Arc<[String]>, items: Vec<HeldItem>) -> Self {
        Self { features, items }
    }

    /// An item by its number.
    pub(crate) fn item(&self, index: u64) -> Option<&Item> {
        Some(self.items.get(usize::try_from(index).ok()?)?.item())
    }

    /// The stretches of stored examples that an item is made of.
    pub(crate) fn sources(&self, index: u64) -> Vec<StoredSpan> {
        self.item(index).map(Item::sources).unwrap_or_default()
    }

    fn held(&self, index: u64) -> Result<&HeldItem, StoreError> {
        let held = usize::try_from(index).ok().and_then(|index| self.items.get(index));
        held.ok_or_else(|| {
            StoreError::new(format!("there is no item {index}; the window has {}", self.items.len()))
        })
    }

    fn rope(&self, feature: usize, index: u64) -> Option<&Rope> {
        self.item(index)?.sequence(self.features.get(feature)?)
    }
}

impl ExampleStore for ItemStore {
    fn num_examples(&self) -> u64 {
        self.items.len() as u64
    }

    fn features(&self) -> &[String] {
        &self.features
    }

    fn lengths(&self, feature: usize, examples: &[u64], out: &mut [u32]) {
        for (out, example) in out.iter_mut().zip(examples) {
            *out = self.rope(feature, *example).map_or(0, Rope::len);
        }
    }

    fn read_tokens(
        &self,
        feature: usize,
        example: u64,
        from: usize,
        out: &mut [i32],
    ) -> Result<(), StoreError> {
        let held = self.held(example)?;
        match self.rope(feature, example) {
            Some(rope) => rope.read(held.planned.store.as_ref(), from as u32, out),
            None => Ok(()),
        }
    }

    fn id(&self, example: u64) -> Result<ExampleId, StoreError> {
        let held = self.held(example)?;
        held.planned.store.id(held.item().example())
    }

    fn origins(&self, example: u64) -> Result<Vec<Origin>, StoreError> {
        let held = self.held(example)?;
        held.planned.store.origins(held.item().example())
    }

    fn place(&self, example: u64) -> Result<String, StoreError> {
        let held = self.held(example)?;
        held.planned.store.place(held.item().example())
    }

    fn key(&self, example: u64) -> Result<Option<Arc<str>>, StoreError> {
        let held = self.held(example)?;
        held.planned.store.key(held.item().example())
    }
}

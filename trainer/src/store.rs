//! Tensors that outlive a step: parameters, gradients between the parts of a step, the optimizer's state.

use crate::shape::Spec;

/// A stored tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreId(usize);

impl StoreId {
    /// Its place among the stores.
    pub(crate) fn index(self) -> usize {
        self.0
    }
}

/// What is known of a stored tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Store {
    /// Its name, as `decoder/logits_dense/kernel`.
    pub name: String,
    /// Its shape and kind: of the part that is held here.
    pub spec: Spec,
}

/// All tensors that outlive a step.
#[derive(Clone, Debug, Default)]
pub struct Stores {
    stores: Vec<Store>,
}

impl Stores {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more.
    pub fn add(&mut self, name: impl Into<String>, spec: Spec) -> StoreId {
        self.stores.push(Store { name: name.into(), spec });
        StoreId(self.stores.len() - 1)
    }

    /// What is known of one.
    pub fn get(&self, id: StoreId) -> &Store {
        &self.stores[id.0]
    }

    /// All of them, in the order in which they were added.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (StoreId, &Store)> {
        self.stores.iter().enumerate().map(|(i, store)| (StoreId(i), store))
    }

    /// How many bytes they take.
    pub fn bytes(&self) -> u64 {
        self.stores.iter().map(|store| 4 * store.spec.shape.elements() as u64).sum()
    }
}

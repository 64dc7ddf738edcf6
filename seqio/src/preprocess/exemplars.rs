//! Exemplars: examples of a split that a step shows beside each example, read once when the task is opened.
//!
//! ```text
//! train: "q1" "a1", "q2" "a2", …   ->   the first 1,000 after the steps before, each with its id
//! ```

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::example::ExampleId;
use crate::fingerprint::Fingerprint;

/// What a step shows of an example: what was asked, and the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Exemplar {
    /// What is asked.
    #[schemars(example = &"2 + 2")]
    pub inputs: String,
    /// The answer.
    #[schemars(example = &"4")]
    pub targets: String,
}

impl Exemplar {
    /// A question with its answer.
    pub fn new(inputs: impl Into<String>, targets: impl Into<String>) -> Self {
        Self { inputs: inputs.into(), targets: targets.into() }
    }
}

/// The exemplars that a step asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExemplarRequest<'a> {
    /// The split they come from.
    pub split: &'a str,
    /// How many examples from its front at the most.
    pub most: usize,
    /// How many it must have.
    pub least: usize,
}

/// Exemplars, with what tells whether one is the example beside which it would stand.
#[derive(Clone, Debug, Default)]
pub struct Exemplars {
    list: Vec<Exemplar>,
    /// Places in the list by id, and by what is asked.
    by_id: BTreeMap<ExampleId, usize>,
    by_inputs: BTreeMap<String, Vec<usize>>,
}

impl Exemplars {
    /// Exemplars in their order, with the ids of those that are examples of the task.
    pub fn new(exemplars: impl IntoIterator<Item = (Option<ExampleId>, Exemplar)>) -> Self {
        let mut all = Self::default();
        for (id, exemplar) in exemplars {
            let place = all.list.len();
            if let Some(id) = id {
                all.by_id.insert(id, place);
            }
            all.by_inputs.entry(exemplar.inputs.clone()).or_default().push(place);
            all.list.push(exemplar);
        }
        all
    }

    /// All of them, in their order.
    pub fn list(&self) -> &[Exemplar] {
        &self.list
    }

    /// The places of those that are this example, or ask what it asks: they would give the answer away. Sorted.
    pub fn same(&self, id: &ExampleId, inputs: &str) -> Vec<usize> {
        let mut places = self.by_inputs.get(inputs).cloned().unwrap_or_default();
        if let Some(place) = self.by_id.get(id)
            && let Err(at) = places.binary_search(place)
        {
            places.insert(at, *place);
        }
        places
    }

    /// The hash of all that is shown of them.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        let list = serde_json::to_value(&self.list).unwrap_or_default();
        Fingerprint::of_json("seqio exemplars", &list)
    }
}

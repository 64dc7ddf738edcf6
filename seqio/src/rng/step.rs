//! Where a step takes random numbers from: a stream of its own for each example.

use crate::example::ExampleId;
use crate::rng::{Draws, Key};

/// The randomness of one step: a stream of draws for each example, whatever the order in which examples come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepRandom(Key);

impl StepRandom {
    /// The randomness of a step of this name. `source` is the name that example ids have in them, and `occurrence` counts
    /// the steps of the same name before it in the task.
    pub fn new(step: &str, seed: u64, source: &str, occurrence: u64) -> Self {
        Self(Key::new(&format!("step.{step}"), seed, source, occurrence))
    }

    /// The draws for an example.
    pub fn example(&self, id: &ExampleId) -> Draws {
        self.0.of_example(id).draws()
    }
}

impl Default for StepRandom {
    fn default() -> Self {
        Self::new("", 0, "", 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_depend_on_everything_they_are_for_and_on_nothing_else() {
        let id = ExampleId([1; 16]);
        let first = |random: StepRandom, id: &ExampleId| random.example(id).bits();
        let all = [
            first(StepRandom::new("a", 0, "docs", 0), &id),
            first(StepRandom::new("b", 0, "docs", 0), &id),
            first(StepRandom::new("a", 1, "docs", 0), &id),
            first(StepRandom::new("a", 0, "more", 0), &id),
            first(StepRandom::new("a", 0, "docs", 1), &id),
            first(StepRandom::new("a", 0, "docs", 0), &id.part(0)),
        ];
        for (i, one) in all.iter().enumerate() {
            assert!(!all[..i].contains(one), "{i}");
        }
        assert_eq!(all[0], first(StepRandom::new("a", 0, "docs", 0), &id));
    }
}

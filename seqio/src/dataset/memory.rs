//! A store in memory: small data, tests and benches.
//!
//! ```text
//! MemoryStore::new([("targets", vec![vec![3, 9], vec![]])])  ->  example 0: [3, 9], example 1: []
//! ```

use crate::dataset::{ExampleStore, StoreError};
use crate::example::{ExampleId, Origin};

/// Token sequences by feature, held as u16 where all ids of the feature fit.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    num_examples: usize,
    names: Vec<String>,
    columns: Vec<Column>,
}

#[derive(Clone, Debug)]
struct Column {
    /// Sequence i is `starts[i]..starts[i + 1]`.
    starts: Vec<usize>,
    tokens: Tokens,
}

#[derive(Clone, Debug)]
enum Tokens {
    Narrow(Vec<u16>),
    Wide(Vec<i32>),
}

impl MemoryStore {
    /// Holds the sequences of each feature; example i has the i-th of each. The first of two equal names counts.
    ///
    /// # Panics
    /// If features have different numbers of sequences.
    pub fn new<'a>(features: impl IntoIterator<Item = (&'a str, Vec<Vec<i32>>)>) -> Self {
        let mut features: Vec<_> = features.into_iter().collect();
        features.sort_by_key(|(name, _)| *name);
        features.dedup_by_key(|(name, _)| *name);
        let num_examples = features.first().map_or(0, |(_, sequences)| sequences.len());
        let even = features.iter().all(|(_, sequences)| sequences.len() == num_examples);
        assert!(even, "every example has a sequence of every feature");
        Self {
            num_examples,
            names: features.iter().map(|(name, _)| (*name).to_owned()).collect(),
            columns: features.iter().map(|(_, sequences)| Column::new(sequences)).collect(),
        }
    }

    fn example(&self, example: u64) -> Result<usize, StoreError> {
        usize::try_from(example).ok().filter(|example| *example < self.num_examples).ok_or_else(|| {
            StoreError { problem: format!("there is no example {example}; there are {}", self.num_examples) }
        })
    }
}

impl Column {
    fn new(sequences: &[Vec<i32>]) -> Self {
        let mut starts = vec![0];
        starts.extend(sequences.iter().scan(0, |end, sequence| {
            *end += sequence.len();
            Some(*end)
        }));
        let narrow = sequences.iter().flatten().map(|id| u16::try_from(*id)).collect();
        let tokens = match narrow {
            Ok(ids) => Tokens::Narrow(ids),
            Err(_) => Tokens::Wide(sequences.concat()),
        };
        Self { starts, tokens }
    }
}

impl ExampleStore for MemoryStore {
    fn num_examples(&self) -> u64 {
        self.num_examples as u64
    }

    fn features(&self) -> &[String] {
        &self.names
    }

    fn lengths(&self, feature: usize, examples: &[u64], out: &mut [u32]) {
        let starts = &self.columns[feature].starts;
        for (example, out) in examples.iter().zip(out) {
            let example = *example as usize;
            *out = u32::try_from(starts[example + 1] - starts[example]).unwrap_or(u32::MAX);
        }
    }

    fn read_tokens(
        &self,
        feature: usize,
        example: u64,
        from: usize,
        out: &mut [i32],
    ) -> Result<(), StoreError> {
        let example = self.example(example)?;
        let column = &self.columns[feature];
        let length = column.starts[example + 1] - column.starts[example];
        if from + out.len() > length {
            let end = from + out.len();
            let problem =
                format!("example {example} has {length} ids of feature {feature}, not {from}..{end}");
            return Err(StoreError { problem });
        }
        let start = column.starts[example] + from;
        match &column.tokens {
            Tokens::Narrow(ids) => {
                let ids = &ids[start..start + out.len()];
                out.iter_mut().zip(ids).for_each(|(out, id)| *out = i32::from(*id));
            }
            Tokens::Wide(ids) => out.copy_from_slice(&ids[start..start + out.len()]),
        }
        Ok(())
    }

    fn id(&self, example: u64) -> Result<ExampleId, StoreError> {
        self.example(example).map(|example| ExampleId::new("memory", "", 0, example as u64))
    }

    fn origins(&self, example: u64) -> Result<Vec<Origin>, StoreError> {
        self.example(example)
            .map(|example| vec![Origin { file: 0, row: example as u64, offset: 0, length: 0 }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_back_what_it_was_given() {
        let store = MemoryStore::new([
            ("targets", vec![vec![3, 9, 70_000], vec![]]),
            ("inputs", vec![vec![4], vec![5, 6]]),
        ]);
        assert_eq!(store.features(), ["inputs", "targets"]);
        let mut lengths = [0; 2];
        store.lengths(1, &[1, 0], &mut lengths);
        assert_eq!(lengths, [0, 3]);
        let mut ids = [0; 2];
        store.read_tokens(1, 0, 1, &mut ids).unwrap();
        assert_eq!(ids, [9, 70_000]);
        store.read_tokens(0, 1, 0, &mut ids).unwrap();
        assert_eq!(ids, [5, 6]);
    }

    #[test]
    fn says_what_is_not_there() {
        let store = MemoryStore::new([("targets", vec![vec![3]])]);
        insta::assert_snapshot!(store.id(1).unwrap_err(), @"there is no example 1; there are 1");
        let error = store.read_tokens(0, 0, 0, &mut [0; 2]).unwrap_err();
        insta::assert_snapshot!(error, @"example 0 has 1 ids of feature 0, not 0..2");
    }
}

//! A token sequence that is known by its length, and read when its tokens are wanted.
//!
//! ```text
//! stored targets of example 7, 0..500  ++  stored targets of example 2, 0..68        a rope of 568, no token read
//! corrupted by `span_corruption`       ->  inputs: made of it, 512                   still no token read
//! ```
//!
//! Steps cut and join ropes while a window is planned; a row that is written reads just the tokens it holds.

use std::fmt;
use std::sync::Arc;

use crate::dataset::{ExampleStore, StoreError};
use crate::rng::Key;

/// A sequence of token ids: stretches of stored sequences, given ids, and what is made of other sequences.
#[derive(Clone, Debug, Default)]
pub struct Rope {
    parts: Vec<Part>,
    len: u32,
}

/// A stretch of a stored sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoredSpan {
    /// The feature's number in the store.
    pub feature: usize,
    /// The example.
    pub example: u64,
    /// First token.
    pub from: u32,
    /// Number of tokens.
    pub len: u32,
}

/// Makes tokens of other tokens: what a step does to sequences beyond cutting and joining them.
pub trait TokenOp: fmt::Debug + Send + Sync {
    /// Writes the result for these inputs. `out` has the length that the step promised; `key` is that of the item, the
    /// same for all that is made of it.
    fn write(&self, inputs: &[&[i32]], key: Key, out: &mut [i32]) -> Result<(), String>;
}

#[derive(Clone, Debug)]
enum Part {
    Stored(StoredSpan),
    Ids { ids: Arc<[i32]>, from: u32, len: u32 },
    Made { made: Arc<Made>, from: u32, len: u32 },
}

#[derive(Debug)]
struct Made {
    op: Arc<dyn TokenOp>,
    inputs: Vec<Rope>,
    key: Key,
    len: u32,
}

impl Part {
    fn len(&self) -> u32 {
        match self {
            Self::Stored(span) => span.len,
            Self::Ids { len, .. } | Self::Made { len, .. } => *len,
        }
    }

    /// The stretch `from..from + len` of this part.
    fn cut(&self, from: u32, len: u32) -> Self {
        match self {
            Self::Stored(span) => Self::Stored(StoredSpan { from: span.from + from, len, ..*span }),
            Self::Ids { ids, from: first, .. } => Self::Ids { ids: Arc::clone(ids), from: first + from, len },
            Self::Made { made, from: first, .. } => {
                Self::Made { made: Arc::clone(made), from: first + from, len }
            }
        }
    }
}

impl Rope {
    /// A stretch of a stored sequence.
    pub fn stored(span: StoredSpan) -> Self {
        Self::of(Part::Stored(span))
    }

    /// These ids.
    pub fn ids(ids: impl Into<Arc<[i32]>>) -> Self {
        let ids = ids.into();
        let len = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        Self::of(Part::Ids { ids, from: 0, len })
    }

    /// `len` tokens that `op` makes of other sequences.
    pub fn made(op: Arc<dyn TokenOp>, inputs: Vec<Rope>, key: Key, len: u32) -> Self {
        Self::of(Part::Made { made: Arc::new(Made { op, inputs, key, len }), from: 0, len })
    }

    fn of(part: Part) -> Self {
        let len = part.len();
        Self { parts: if len == 0 { Vec::new() } else { vec![part] }, len }
    }

    /// Number of tokens.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts another sequence behind this one.
    pub fn append(&mut self, other: Self) {
        self.len = self.len.saturating_add(other.len);
        self.parts.extend(other.parts);
    }

    /// Keeps the first tokens.
    pub fn truncate(&mut self, len: u32) {
        if len < self.len {
            *self = self.slice(0, len);
        }
    }

    /// The tokens `from..from + len`, as far as there are so many.
    pub fn slice(&self, from: u32, len: u32) -> Self {
        let (mut skip, mut left) = (from, len);
        let mut slice = Self::default();
        for part in &self.parts {
            if left == 0 {
                break;
            }
            let there = part.len();
            if skip >= there {
                skip -= there;
                continue;
            }
            let taken = (there - skip).min(left);
            slice.parts.push(part.cut(skip, taken));
            slice.len += taken;
            (skip, left) = (0, left - taken);
        }
        slice
    }

    /// The stretches of stored sequences that it is made of, in order; of what is made of others, all that these are
    /// made of.
    pub fn sources(&self, found: &mut Vec<StoredSpan>) {
        for part in &self.parts {
            match part {
                Part::Stored(span) => found.push(*span),
                Part::Ids { .. } => {}
                Part::Made { made, .. } => made.inputs.iter().for_each(|input| input.sources(found)),
            }
        }
    }

    /// Writes the tokens `from..from + out.len()` to `out`. The range lies inside the sequence.
    pub fn read(&self, store: &dyn ExampleStore, from: u32, out: &mut [i32]) -> Result<(), StoreError> {
        let (mut skip, mut out) = (from, out);
        for part in &self.parts {
            if out.is_empty() {
                break;
            }
            let there = part.len();
            if skip >= there {
                skip -= there;
                continue;
            }
            let taken = ((there - skip) as usize).min(out.len());
            let (here, rest) = out.split_at_mut(taken);
            match part {
                Part::Stored(span) => {
                    store.read_tokens(span.feature, span.example, (span.from + skip) as usize, here)?;
                }
                Part::Ids { ids, from, .. } => {
                    let first = (from + skip) as usize;
                    here.copy_from_slice(&ids[first..first + taken]);
                }
                Part::Made { made, from, .. } => made.read(store, from + skip, here)?,
            }
            (skip, out) = (0, rest);
        }
        debug_assert!(out.is_empty(), "the range lies inside the sequence");
        Ok(())
    }

    /// All tokens.
    pub fn to_vec(&self, store: &dyn ExampleStore) -> Result<Vec<i32>, StoreError> {
        let mut tokens = vec![0; self.len as usize];
        self.read(store, 0, &mut tokens)?;
        Ok(tokens)
    }
}

impl Made {
    fn read(&self, store: &dyn ExampleStore, from: u32, out: &mut [i32]) -> Result<(), StoreError> {
        let inputs = self.inputs.iter().map(|input| input.to_vec(store)).collect::<Result<Vec<_>, _>>()?;
        let inputs: Vec<&[i32]> = inputs.iter().map(Vec::as_slice).collect();
        let failed = |problem: String| StoreError::new(problem);
        if out.len() == self.len as usize {
            return self.op.write(&inputs, self.key, out).map_err(failed);
        }
        let mut all = vec![0; self.len as usize];
        self.op.write(&inputs, self.key, &mut all).map_err(failed)?;
        out.copy_from_slice(&all[from as usize..from as usize + out.len()]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::dataset::InMemoryExamples;

    #[derive(Debug)]
    struct Reversed;

    impl TokenOp for Reversed {
        fn write(&self, inputs: &[&[i32]], _key: Key, out: &mut [i32]) -> Result<(), String> {
            out.iter_mut().zip(inputs[0].iter().rev()).for_each(|(out, id)| *out = *id);
            Ok(())
        }
    }

    /// A cut, a joint or a reversal, with two numbers that say where.
    type Change = (u8, u32, u32);

    fn changed(rope: &Rope, tokens: &[i32], (kind, a, b): Change) -> (Rope, Vec<i32>) {
        let len = tokens.len() as u32;
        let from = a.checked_rem(len + 1).unwrap_or(0);
        let count = b.checked_rem(len - from + 1).unwrap_or(0);
        let cut = tokens[from as usize..(from + count) as usize].to_vec();
        let mut rope = rope.slice(from, count);
        match kind % 3 {
            0 => (rope, cut),
            1 => {
                rope.append(Rope::ids([a as i32, b as i32]));
                (rope, [cut, vec![a as i32, b as i32]].concat())
            }
            _ => {
                let key = Key::new("test", 0, "", 0);
                (Rope::made(Arc::new(Reversed), vec![rope], key, count), cut.into_iter().rev().collect())
            }
        }
    }

    proptest! {
        #[test]
        fn a_rope_reads_as_the_sequence_that_was_cut_and_joined(
            stored in prop::collection::vec(0i32..1000, 0..30),
            changes in prop::collection::vec((0u8..3, 0u32..50, 0u32..50), 0..6),
            cut in (0u32..50, 0u32..50),
        ) {
            let store = InMemoryExamples::of([("targets", vec![stored.clone()])]);
            let span = StoredSpan { feature: 0, example: 0, from: 0, len: stored.len() as u32 };
            let (mut rope, mut tokens) = (Rope::stored(span), stored);
            for change in changes {
                (rope, tokens) = changed(&rope, &tokens, change);
                prop_assert_eq!(rope.len() as usize, tokens.len());
            }
            prop_assert_eq!(&rope.to_vec(&store).unwrap(), &tokens);
            let from = cut.0 as usize % (tokens.len() + 1);
            let len = cut.1 as usize % (tokens.len() - from + 1);
            let mut out = vec![-1; len];
            rope.read(&store, from as u32, &mut out).unwrap();
            prop_assert_eq!(&out, &tokens[from..from + len]);
        }
    }

    #[test]
    fn sources_are_told_through_what_is_made_of_them() {
        let span = |example, len| StoredSpan { feature: 0, example, from: 0, len };
        let mut rope = Rope::stored(span(3, 4));
        rope.append(Rope::stored(span(9, 2)));
        let made = Rope::made(Arc::new(Reversed), vec![rope.slice(1, 4)], Key::new("test", 0, "", 0), 4);
        let mut found = Vec::new();
        made.sources(&mut found);
        assert_eq!(
            found,
            [StoredSpan { from: 1, len: 3, ..span(3, 0) }, StoredSpan { len: 1, ..span(9, 0) }]
        );
    }
}

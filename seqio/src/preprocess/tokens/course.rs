//! What most token steps are: a chunk of each sequence, some of them joined, cut into segments, and each segment made
//! into something.
//!
//! ```text
//! span_corruption     chunks of 65,536   128 joined   segments of 568   denoised
//! split_tokens                                        segments of n
//! ```

use std::sync::Arc;

use crate::dataset::StoreError;
use crate::item::{Draws, Item, ItemStep, Rope};
use crate::objective::{Chunk, ChunkRule, Denoisers, MaskBuffer, SegmentRule};
use crate::preprocess::tokens::denoising::Denoising;

/// What the keys of one item are for.
const CHUNK: u64 = 0;
const SEGMENTS: u64 = 1;
const DENOISING: u64 = 2;

/// A step in four stages, each of which may be left out.
#[derive(Debug)]
pub(super) struct Course {
    feature: Arc<str>,
    /// Cut where `feature` is.
    aligned: Vec<Arc<str>>,
    /// Passed on as they are.
    passed: Vec<Arc<str>>,
    chunk: Option<ChunkRule>,
    /// Behind each chunk.
    end: Option<i32>,
    joined: usize,
    segments: Segments,
    last: Last,
    words: String,
}

/// How sequences are cut.
#[derive(Debug)]
enum Segments {
    Whole,
    By(SegmentRule),
    Chosen(Denoisers),
}

/// What becomes of each segment.
#[derive(Debug)]
enum Last {
    AsItIs,
    /// Filled up to a length.
    Padded(u32, i32),
    /// Inputs of this name, and the feature as targets. One denoising, or one a denoiser.
    Denoised(Arc<str>, Vec<Denoising>),
}

impl Course {
    /// A course over one feature that does nothing yet and drops all others; `words` say what it does.
    pub(super) fn over(feature: &str, words: String) -> Self {
        Self {
            feature: feature.into(),
            aligned: Vec::new(),
            passed: Vec::new(),
            chunk: None,
            end: None,
            joined: 1,
            segments: Segments::Whole,
            last: Last::AsItIs,
            words,
        }
    }

    /// Features that are cut in the same places.
    pub(super) fn aligned(mut self, features: &[String]) -> Self {
        self.aligned = features.iter().map(|name| name.as_str().into()).collect();
        self
    }

    /// Features that are passed on.
    pub(super) fn passed(mut self, features: &[String]) -> Self {
        self.passed = features.iter().map(|name| name.as_str().into()).collect();
        self
    }

    /// Takes a chunk of each sequence; empty ones are dropped.
    pub(super) fn chunk(mut self, rule: ChunkRule) -> Self {
        self.chunk = Some(rule);
        self
    }

    /// Ends each chunk with an id.
    pub(super) fn end(mut self, id: Option<i32>) -> Self {
        self.end = id;
        self
    }

    /// Joins so many sequences. Nothing but the feature is left of them.
    pub(super) fn join(mut self, count: usize) -> Self {
        self.joined = count;
        self
    }

    /// Cuts into segments; empty sequences are dropped.
    pub(super) fn segments(mut self, rule: SegmentRule) -> Self {
        self.segments = Segments::By(rule);
        self
    }

    /// Fills segments up.
    pub(super) fn pad(mut self, length: u32, id: i32) -> Self {
        self.last = Last::Padded(length, id);
        self
    }

    /// Makes inputs and targets of each segment.
    pub(super) fn denoise(mut self, inputs: &str, denoising: Denoising) -> Self {
        self.last = Last::Denoised(inputs.into(), vec![denoising]);
        self
    }

    /// Cuts into segments of which each has a denoiser, and makes inputs and targets of them by the denoising of the same
    /// place.
    pub(super) fn choose(mut self, inputs: &str, denoisers: Denoisers, denoising: Vec<Denoising>) -> Self {
        self.segments = Segments::Chosen(denoisers);
        self.last = Last::Denoised(inputs.into(), denoising);
        self
    }

    /// The chunk of an item, with the sequences that go on; `None` drops it.
    fn begin(&self, mut item: Item, draws: &Draws<'_>) -> Result<Option<Item>, StoreError> {
        let length = item.sequence(&self.feature).map_or(0, Rope::len);
        let whole = Chunk { from: 0, length };
        let chunk = match &self.chunk {
            None => whole,
            Some(rule) => match rule.chunk(length, draws.key(&item)?.child(CHUNK)) {
                Some(chunk) => chunk,
                None => return Ok(None),
            },
        };
        let mut sequences = Vec::with_capacity(1 + self.aligned.len() + self.passed.len());
        for name in std::iter::once(&self.feature).chain(&self.aligned) {
            let rope = item.take(name).unwrap_or_default();
            if rope.len() != length {
                return Err(self.not_aligned(&item, name, rope.len(), length));
            }
            let mut rope = if chunk == whole { rope } else { rope.slice(chunk.from, chunk.length) };
            if let Some(id) = self.end {
                rope.append(Rope::ids([id]));
            }
            sequences.push((Arc::clone(name), rope));
        }
        for name in &self.passed {
            if let Some(rope) = item.take(name) {
                sequences.push((Arc::clone(name), rope));
            }
        }
        Ok(Some(item.with_sequences(sequences)))
    }

    fn not_aligned(&self, item: &Item, name: &str, found: u32, expected: u32) -> StoreError {
        StoreError::new(format!(
            "`{name}` is to be cut where `{}` is, but example {} has {found} ids of it and {expected} of `{}`",
            self.feature,
            item.example(),
            self.feature
        ))
    }

    fn join_items(&self, items: Vec<Item>) -> Vec<Item> {
        let Some(first) = items.first().filter(|_| self.joined > 1) else { return items };
        let mut all = Rope::default();
        let mut joined = first.with_sequences(Vec::new());
        items.into_iter().filter_map(|mut item| item.take(&self.feature)).for_each(|rope| all.append(rope));
        joined.set(&self.feature, all);
        vec![joined]
    }

    /// The segment of all sequences that are cut, and all that are passed on.
    fn piece(&self, item: &Item, index: u64, segment: Chunk) -> Item {
        let cut = |(name, rope): &(Arc<str>, Rope)| {
            let is_cut = *name == self.feature || self.aligned.contains(name);
            let rope = if is_cut { rope.slice(segment.from, segment.length) } else { rope.clone() };
            (Arc::clone(name), rope)
        };
        item.piece(index, item.sequences().iter().map(cut).collect())
    }

    fn finish(
        &self,
        mut item: Item,
        chosen: usize,
        draws: &Draws<'_>,
        buffer: &mut MaskBuffer,
    ) -> Result<Item, StoreError> {
        match &self.last {
            Last::AsItIs => {}
            Last::Padded(length, id) => {
                let mut rope = item.take(&self.feature).unwrap_or_default();
                let missing = length.saturating_sub(rope.len());
                rope.append(Rope::ids(vec![*id; missing as usize]));
                item.set(&self.feature, rope);
            }
            Last::Denoised(name, denoising) => {
                let key = draws.key(&item)?.child(DENOISING);
                let tokens = item.take(&self.feature).unwrap_or_default();
                let planned = denoising[chosen].plan(tokens, key, buffer);
                let (inputs, targets) = planned
                    .map_err(|error| StoreError::new(format!("example {}: {error}", item.example())))?;
                item.set(name, inputs);
                item.set(&self.feature, targets);
            }
        }
        Ok(item)
    }
}

impl ItemStep for Course {
    fn merges(&self) -> usize {
        self.joined
    }

    fn plan(&self, items: Vec<Item>, draws: &Draws<'_>) -> Result<Vec<Item>, StoreError> {
        let begun = items.into_iter().filter_map(|item| self.begin(item, draws).transpose());
        let begun = self.join_items(begun.collect::<Result<_, _>>()?);
        let mut buffer = MaskBuffer::default();
        let mut planned = Vec::with_capacity(begun.len());
        for item in begun {
            let length = item.sequence(&self.feature).map_or(0, Rope::len);
            match &self.segments {
                Segments::Whole => planned.push(self.finish(item, 0, draws, &mut buffer)?),
                Segments::By(rule) => {
                    let key = if rule.is_random() { draws.key(&item)?.child(SEGMENTS) } else { draws.root };
                    for (index, segment) in (0..).zip(rule.segments(length, key)) {
                        let piece = self.piece(&item, index, segment);
                        planned.push(self.finish(piece, 0, draws, &mut buffer)?);
                    }
                }
                Segments::Chosen(denoisers) => {
                    let key = draws.key(&item)?.child(SEGMENTS);
                    for (index, (chosen, segment)) in (0..).zip(denoisers.segments(length, key)) {
                        let piece = self.piece(&item, index, segment);
                        planned.push(self.finish(piece, chosen, draws, &mut buffer)?);
                    }
                }
            }
        }
        Ok(planned)
    }

    fn in_words(&self) -> String {
        self.words.clone()
    }
}

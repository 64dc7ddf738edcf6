//! Writes a side's row: the tokens of its pieces, segment after segment, and what follows from them.
//!
//! ```text
//! inputs [9, 4, 6], targets [3, 9], suffixes [2, 1] at length 9
//!   decoder_target_tokens     9 4 6 3 9 2 1 0 0
//!   decoder_input_tokens      0 9 4 6 3 9 2 0 0
//!   decoder_loss_weights      0 0 0 1 1 1 1 0 0
//!   decoder_causal_attention  1 1 1 1 0 0 0 0 0     the inputs and one more, where the first target is said
//!   target_suffix_weights     0 0 0 0 0 1 1 0 0     the targets instead, where there is no suffix
//!   decoder_cu_seqlens        0 7 7 7 7 7 7 7 7 7   0, the end of each segment, and the last end again
//! ```

use std::ops::Range;

use crate::batch::{Array, Values};
use crate::convert::Span;
use crate::convert::layout::{Field, Form, Part, Role, Side, SideLayout, Slot};
use crate::convert::sequences::{ExampleTokens, LossMask, Sequences};
use crate::dataset::StoreError;

/// A side's part of one row of a batch; empty slices for what it does not have.
#[derive(Debug, Default)]
pub(super) struct SideRow<'a> {
    pub(super) tokens: &'a mut [i32],
    pub(super) shifted: &'a mut [i32],
    pub(super) targets: &'a mut [i32],
    pub(super) positions: &'a mut [i32],
    pub(super) segments: &'a mut [i32],
    pub(super) causal: &'a mut [i32],
    pub(super) ends: &'a mut [i32],
    pub(super) count: &'a mut [i32],
    pub(super) weights: &'a mut [f32],
    pub(super) suffix_weights: &'a mut [f32],
}

impl<'a> SideRow<'a> {
    /// The row `row` of a side's arrays.
    pub(super) fn of(side: Side, slots: &[Slot], arrays: &'a mut [Array], row: usize) -> Self {
        let mut found = Self::default();
        for (slot, array) in slots.iter().zip(arrays) {
            let field = match slot {
                Slot::Of(of, field) if *of == side => field,
                _ => continue,
            };
            match field {
                Field::Tokens => found.tokens = i32_row(array, row),
                Field::Shifted => found.shifted = i32_row(array, row),
                Field::Targets => found.targets = i32_row(array, row),
                Field::Positions => found.positions = i32_row(array, row),
                Field::Segments => found.segments = i32_row(array, row),
                Field::Causal => found.causal = i32_row(array, row),
                Field::Ends => found.ends = i32_row(array, row),
                Field::Count => found.count = i32_row(array, row),
                Field::Weights => found.weights = f32_row(array, row),
                Field::SuffixWeights => found.suffix_weights = f32_row(array, row),
            }
        }
        found
    }
}

/// What writes the rows of a side, but for packed rows that come as they are.
#[derive(Clone, Debug)]
pub(super) struct SideWriter {
    pub(super) layout: SideLayout,
    /// The loss mask of each part, if the examples have one.
    pub(super) masks: Vec<Option<LossMask>>,
    /// Where segments are told apart.
    pub(super) packed: bool,
    pub(super) bos_id: i32,
}

/// Where things stand in a segment.
#[derive(Clone, Debug, Default)]
struct Segment {
    whole: Range<usize>,
    inputs: usize,
    targets: Range<usize>,
    suffixes: Range<usize>,
}

impl SideWriter {
    /// Writes a row. Each piece is an example and its spans, one a task feature of `features`.
    pub(super) fn write<'p>(
        &self,
        features: &[Sequences],
        pieces: impl Iterator<Item = (ExampleTokens<'p>, &'p [Span])>,
        mut row: SideRow<'_>,
    ) -> Result<(), StoreError> {
        let (mut filled, mut number) = (0, 0);
        if let Some(first) = row.ends.first_mut() {
            *first = 0;
        }
        for (example, spans) in pieces {
            number += 1;
            let segment = self.write_tokens(features, example, spans, filled, &mut row)?;
            self.write_targets(features, example, spans, &segment, &mut row)?;
            write_attention(&segment, &mut row);
            let whole = segment.whole;
            if self.packed {
                (0..).zip(&mut row.positions[whole.clone()]).for_each(|(position, out)| *out = position);
                row.segments[whole.clone()].fill(number);
                if let [_, ..] = row.shifted {
                    shift_right(&row.tokens[whole.clone()], self.bos_id, &mut row.shifted[whole.clone()]);
                }
            }
            if let Some(end) = row.ends.get_mut(number as usize) {
                *end = whole.end as i32;
            }
            filled = whole.end;
        }
        row.count.fill(number);
        pad_ends(row.ends, number as usize);
        self.pad(filled, &mut row);
        Ok(())
    }

    /// The tokens of a piece with their weights.
    fn write_tokens(
        &self,
        features: &[Sequences],
        example: ExampleTokens<'_>,
        spans: &[Span],
        from: usize,
        row: &mut SideRow<'_>,
    ) -> Result<Segment, StoreError> {
        let mut segment = Segment::default();
        let mut filled = from;
        for (part, mask) in self.layout.parts.iter().zip(&self.masks) {
            let span = spans[part.feature];
            let here = filled..filled + span.len as usize;
            example.read(&features[part.feature], span.from, &mut row.tokens[here.clone()])?;
            if let [_, ..] = row.weights {
                row.weights[here.clone()].fill(if part.loss { 1.0 } else { 0.0 });
            }
            if let (Some(mask), true) = (mask, part.loss) {
                // What is shifted is written later, so that its place is free until then.
                let (scratch, weights) = (&mut row.shifted[here.clone()], &mut row.weights[here.clone()]);
                mask.apply(example, &features[part.feature], span, scratch, weights)?;
            }
            segment.note(part, &here);
            filled = here.end;
        }
        segment.whole = from..filled;
        Ok(segment)
    }

    /// What an encoder alone is to say, beside what it reads.
    fn write_targets(
        &self,
        features: &[Sequences],
        example: ExampleTokens<'_>,
        spans: &[Span],
        segment: &Segment,
        row: &mut SideRow<'_>,
    ) -> Result<(), StoreError> {
        let Form::Masked { targets, mask_id } = self.layout.form else { return Ok(()) };
        let inputs = self.layout.parts.first().map_or(0, |part| part.feature);
        example.check_aligned(&features[inputs], &features[targets])?;
        example.read(&features[targets], spans[targets].from, &mut row.targets[segment.whole.clone()])?;
        let tokens = &row.tokens[segment.whole.clone()];
        for (weight, token) in row.weights[segment.whole.clone()].iter_mut().zip(tokens) {
            *weight = if *token == mask_id { 1.0 } else { 0.0 };
        }
        Ok(())
    }

    /// What stands behind the last segment.
    fn pad(&self, filled: usize, row: &mut SideRow<'_>) {
        row.tokens[filled..].fill(0);
        for out in [&mut row.targets, &mut row.positions, &mut row.segments, &mut row.causal] {
            out.get_mut(filled..).into_iter().for_each(|out| out.fill(0));
        }
        for out in [&mut row.weights, &mut row.suffix_weights] {
            out.get_mut(filled..).into_iter().for_each(|out| out.fill(0.0));
        }
        if row.shifted.is_empty() {
            return;
        }
        match self.packed {
            true => {
                row.shifted[filled..].fill(0);
                if let Some(first) = row.shifted.get_mut(filled) {
                    *first = self.bos_id;
                }
            }
            // The last token is shifted into the padding.
            false => shift_right(row.tokens, self.bos_id, row.shifted),
        }
    }
}

impl Segment {
    fn note(&mut self, part: &Part, here: &Range<usize>) {
        match part.role {
            Role::Inputs => self.inputs += here.len(),
            Role::Targets => self.targets = here.clone(),
            Role::Suffixes => self.suffixes = here.clone(),
        }
    }
}

/// Which places of a segment see each other, and which of them are suffix.
fn write_attention(segment: &Segment, row: &mut SideRow<'_>) {
    let whole = segment.whole.clone();
    if let [_, ..] = row.causal {
        let ones = (segment.inputs + 1).min(whole.len());
        let (prefix, rest) = row.causal[whole.clone()].split_at_mut(ones);
        prefix.fill(1);
        rest.fill(0);
    }
    if let [_, ..] = row.suffix_weights {
        row.suffix_weights[whole].fill(0.0);
        let suffix = if segment.suffixes.is_empty() { &segment.targets } else { &segment.suffixes };
        row.suffix_weights[suffix.clone()].fill(1.0);
    }
}

/// Repeats the last end, so that what follows are empty segments.
pub(super) fn pad_ends(ends: &mut [i32], number: usize) {
    if let Some((written, padding)) = ends.split_at_mut_checked(number + 1)
        && let Some(last) = written.last()
    {
        padding.fill(*last);
    }
}

/// All but the last token, after `first`.
pub(super) fn shift_right(tokens: &[i32], first: i32, out: &mut [i32]) {
    if let ([_, shifted @ ..], [tokens @ .., _]) = (&mut *out, tokens) {
        shifted.copy_from_slice(tokens);
        out[0] = first;
    }
}

pub(super) fn i32_row(array: &mut Array, row: usize) -> &mut [i32] {
    let width = array.length.max(1);
    match &mut array.values {
        Values::I32(values) => &mut values[row * width..(row + 1) * width],
        Values::F32(_) => unreachable!("made by `new_arrays`"),
    }
}

pub(super) fn f32_row(array: &mut Array, row: usize) -> &mut [f32] {
    let width = array.length.max(1);
    match &mut array.values {
        Values::F32(values) => &mut values[row * width..(row + 1) * width],
        Values::I32(_) => unreachable!("made by `new_arrays`"),
    }
}

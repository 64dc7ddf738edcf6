//! Writes a row that comes packed: its tokens, positions and segments are checked and taken as they are.
//!
//! ```text
//! targets               3 9 1 4 1
//! targets_positions     0 1 2 0 1      counted anew in each segment
//! targets_segment_ids   1 1 1 2 2      from 1, each as long as it lasts
//! targets_prefix        1 0 0 1 0      of a prefix language model: 1 for inputs, which stand first in a segment
//! ```

use crate::convert::Span;
use crate::convert::layout::{Form, SideLayout};
use crate::convert::sequences::{ExampleTokens, LossMask, Sequences};
use crate::convert::side::{SideRow, shift_right};
use crate::dataset::StoreError;

/// What writes the rows of a side whose examples are rows.
#[derive(Clone, Debug)]
pub(super) struct PrepackedWriter {
    pub(super) layout: SideLayout,
    pub(super) mask: Option<LossMask>,
    /// Whether tokens of the prefix have no loss.
    pub(super) loss_on_targets_only: bool,
    pub(super) bos_id: i32,
}

impl PrepackedWriter {
    /// Writes the row of an example.
    pub(super) fn write(
        &self,
        features: &[Sequences],
        example: ExampleTokens<'_>,
        spans: &[Span],
        row: &mut SideRow<'_>,
    ) -> Result<(), StoreError> {
        let first = self.layout.parts.first().map_or(0, |part| part.feature);
        let is_prefixed = self.layout.form == Form::Prepacked { prefix: true };
        let beside = &features[first + 1..first + if is_prefixed { 4 } else { 3 }];
        for beside in beside {
            example.check_aligned(&features[first], beside)?;
        }
        let span = spans[first];
        let filled = span.len as usize;
        let read = |feature: usize, out: &mut [i32]| {
            out[filled..].fill(0);
            example.read(&features[feature], span.from, &mut out[..filled])
        };
        read(first, row.tokens)?;
        read(first + 1, row.positions)?;
        read(first + 2, row.segments)?;
        if is_prefixed {
            read(first + 3, row.causal)?;
        }
        let names = Names { features, first };
        names.check(row).map_err(|problem| example.refused(problem))?;
        if row.shifted.is_empty() {
            return Ok(());
        }
        for (weight, segment) in row.weights.iter_mut().zip(row.segments.iter()) {
            *weight = if *segment > 0 { 1.0 } else { 0.0 };
        }
        if is_prefixed && self.loss_on_targets_only {
            let prefix = row.causal.iter().zip(row.weights.iter_mut());
            prefix.filter(|(prefix, _)| **prefix == 1).for_each(|(_, weight)| *weight = 0.0);
        }
        if let Some(mask) = &self.mask {
            let (scratch, weights) = (&mut row.shifted[..filled], &mut row.weights[..filled]);
            mask.apply(example, &features[first], span, scratch, weights)?;
        }
        self.write_segments(row);
        Ok(())
    }

    /// What follows from where segments begin and end.
    fn write_segments(&self, row: &mut SideRow<'_>) {
        let mut from = 0;
        for segment in row.segments.chunk_by(|a, b| a == b) {
            let whole = from..from + segment.len();
            from = whole.end;
            let is_padding = segment.first() == Some(&0);
            let (tokens, shifted) = (&row.tokens[whole.clone()], &mut row.shifted[whole.clone()]);
            shift_right(tokens, self.bos_id, shifted);
            if let [_, ..] = row.causal
                && !is_padding
            {
                // One more than the prefix: the place where the first target is said.
                let causal = &mut row.causal[whole];
                if let Some(next) = causal.iter().position(|prefix| *prefix == 0) {
                    causal[next] = 1;
                }
            }
        }
    }
}

/// Tells of a side's features by name.
struct Names<'a> {
    features: &'a [Sequences],
    first: usize,
}

impl Names<'_> {
    fn of(&self, beside: usize) -> &str {
        &self.features[self.first + beside].name
    }

    /// Says what is no packed row.
    fn check(&self, row: &SideRow<'_>) -> Result<(), String> {
        let mut before: (i32, i32) = (0, -1);
        for place in 0..row.segments.len() {
            let (segment, position) = (row.segments[place], row.positions[place]);
            let starts = segment != before.0;
            let is_padding = segment == 0;
            if is_padding {
                if let Some(next) = row.segments[place..].iter().position(|segment| *segment != 0) {
                    return Err(format!(
                        "`{}` is 0, padding, at place {place}, but {} at place {}; padding stands at the end",
                        self.of(2),
                        row.segments[place + next],
                        place + next
                    ));
                }
                for (values, name) in [(&*row.tokens, 0), (&*row.positions, 1), (&*row.causal, 3)] {
                    if let Some(value) = values.get(place).filter(|value| **value != 0) {
                        return Err(format!(
                            "`{}` is {value} at place {place}, which is padding by `{}`; padding is 0",
                            self.of(name),
                            self.of(2)
                        ));
                    }
                }
                continue;
            }
            if segment < before.0 {
                return Err(format!(
                    "`{}` is {segment} at place {place}, after {}; segments are numbered from 1 and rise",
                    self.of(2),
                    before.0
                ));
            }
            let expected = if starts { 0 } else { before.1 + 1 };
            if position != expected {
                return Err(format!(
                    "`{}` is {position} at place {place} in segment {segment}; it should be {expected}, counted from 0 in \
                     each segment",
                    self.of(1)
                ));
            }
            if let Some(prefix) = row.causal.get(place) {
                let may_be_one = starts || row.causal[place - 1] == 1;
                if !(*prefix == 0 || *prefix == 1 && may_be_one) {
                    return Err(format!(
                        "`{}` is {prefix} at place {place}; it must be 1 for the inputs, which stand first in segment \
                         {segment}, else 0",
                        self.of(3)
                    ));
                }
            }
            before = (segment, position);
        }
        Ok(())
    }
}

/// The first segment, of those up to the last of both sides, that neither has a token of.
pub(super) fn missing_segment(encoder: &[i32], decoder: &[i32]) -> Option<i32> {
    let (mut encoder, mut decoder) = (encoder.iter().copied().peekable(), decoder.iter().copied().peekable());
    let mut expected = 1;
    loop {
        while encoder.next_if(|segment| *segment < expected && *segment != 0).is_some() {}
        while decoder.next_if(|segment| *segment < expected && *segment != 0).is_some() {}
        let next = |side: Option<&i32>| side.copied().filter(|segment| *segment != 0);
        match (next(encoder.peek()), next(decoder.peek())) {
            (None, None) => return None,
            (a, b) if a == Some(expected) || b == Some(expected) => expected += 1,
            _ => return Some(expected),
        }
    }
}

//! Writes the model features of a row: the tokens of its pieces, segment after segment, and what follows from them.
//!
//! ```text
//! targets [3, 9, 1] and [4, 1] packed at length 7
//!   decoder_target_tokens  3 9 1 4 1 0 0
//!   decoder_input_tokens   0 3 9 0 4 0 0      shifted right inside each segment, BOS first
//!   decoder_loss_weights   1 1 1 1 1 0 0
//!   decoder_segment_ids    1 1 1 2 2 0 0
//!   decoder_positions      0 1 2 0 1 0 0
//! [3, 9, 1] alone, not packed
//!   decoder_target_tokens  3 9 1 0 0 0 0
//!   decoder_input_tokens   0 3 9 1 0 0 0      the last token is shifted into the padding
//!   decoder_loss_weights   1 1 1 0 0 0 0
//! ```
//!
//! Unlike SeqIO's, a segment's number is that of its item in the row, also in a feature that it has no tokens of, so
//! that `encoder_segment_ids` and `decoder_segment_ids` always speak of the same item; and weights and segments follow
//! from lengths, not from ids, so that an id 0 inside a sequence is a token like any other.

use std::collections::BTreeMap;

use crate::batch::{Array, Values};
use crate::convert::layout::{Dtype, Form, Layout, ModelFeature, Side, SideLayout, Slot};
use crate::convert::prepacked::{PrepackedWriter, missing_segment};
use crate::convert::sequences::{ExampleTokens, LossMask, Sequences};
use crate::convert::side::{SideRow, SideWriter, f32_row, i32_row};
use crate::convert::{Conversion, ConvertError, Span};
use crate::dataset::{ExampleStore, SequenceEdits, StoreError};
use crate::feature::{FeatureLengths, LOSS_SUFFIX};
use crate::preprocess::TokenEdit;

/// Writes rows for one converter, set of lengths and store.
#[derive(Clone, Debug)]
pub struct RowWriter {
    /// All arrays of a batch, sorted by name, and what each is for.
    arrays: Vec<ModelFeature>,
    slots: Vec<Slot>,
    /// The same without `row_valid`.
    model_features: Vec<ModelFeature>,
    /// What is read, in the order of spans and limits.
    features: Vec<Sequences>,
    sides: Vec<Writer>,
}

/// What writes a side.
#[derive(Clone, Debug)]
enum Writer {
    Pieces(SideWriter),
    Row(PrepackedWriter),
}

impl RowWriter {
    /// Checks that the store's features and the lengths are those that the converter needs. `edits` are the steps
    /// below the cache boundary, by feature.
    ///
    /// Where the store has a feature `targets_loss`, it is multiplied into the weights of `targets`.
    pub fn new(
        conversion: impl Into<Conversion>,
        lengths: &FeatureLengths,
        packed: bool,
        store_features: &[String],
        edits: &BTreeMap<String, Vec<TokenEdit>>,
    ) -> Result<Self, ConvertError> {
        let conversion = conversion.into();
        let layout = Layout::new(&conversion, lengths)?;
        conversion.check_packing(packed)?;
        let found = |name: &str, limit: usize| {
            Some(Sequences {
                name: name.to_owned(),
                feature: store_features.iter().position(|found| found == name)?,
                edits: SequenceEdits::new(edits.get(name).cloned().unwrap_or_default()),
                limit: u32::try_from(limit).unwrap_or(u32::MAX),
            })
        };
        let sequences = |(name, limit): (&String, &usize)| {
            found(name, *limit).ok_or_else(|| ConvertError::MissingFeature {
                converter: conversion.clone(),
                feature: name.clone(),
                found: store_features.to_vec(),
            })
        };
        let features = layout.features.iter().zip(&layout.limits).map(sequences);
        let features = features.collect::<Result<Vec<_>, ConvertError>>()?;
        let mask = |side: &SideLayout, part: usize| {
            let part = side.parts.get(part).filter(|part| part.loss)?;
            let tokens = &features[part.feature];
            Some(LossMask(found(&format!("{}{LOSS_SUFFIX}", tokens.name), tokens.limit as usize)?))
        };
        let writer = |side: &SideLayout| match side.form {
            Form::Prepacked { .. } => Writer::Row(PrepackedWriter {
                mask: mask(side, 0),
                layout: side.clone(),
                loss_on_targets_only: conversion.kind.loss_on_targets_only() == Some(true),
                bos_id: conversion.bos_id,
            }),
            _ => Writer::Pieces(SideWriter {
                masks: (0..side.parts.len()).map(|part| mask(side, part)).collect(),
                layout: side.clone(),
                packed,
                bos_id: conversion.bos_id,
            }),
        };
        let sides = layout.sides.iter().map(writer).collect();
        let (slots, arrays) = layout.arrays(packed).into_iter().unzip();
        Ok(Self { model_features: layout.model_features(packed), arrays, slots, sides, features })
    }

    /// Begins decoder inputs with another id than the converter says.
    pub fn with_bos_id(mut self, bos_id: i32) -> Self {
        for side in &mut self.sides {
            match side {
                Writer::Pieces(side) => side.bos_id = bos_id,
                Writer::Row(side) => side.bos_id = bos_id,
            }
        }
        self
    }

    /// The model features it writes, sorted by name; batches have `row_valid` besides.
    pub fn model_features(&self) -> &[ModelFeature] {
        &self.model_features
    }

    /// The arrays of its batches, sorted by name, `row_valid` among them.
    pub(crate) fn arrays(&self) -> &[ModelFeature] {
        &self.arrays
    }

    /// The features of the store that rows are planned by, with their edits, in the order of spans and limits.
    pub fn task_features(&self) -> impl Iterator<Item = (usize, &SequenceEdits)> {
        self.features.iter().map(|sequences| (sequences.feature, &sequences.edits))
    }

    /// Arrays for `num_rows` rows of padding, sorted by name, `row_valid` (all 0) among them.
    pub fn new_arrays(&self, num_rows: usize) -> Vec<Array> {
        let array = |feature: &ModelFeature| Array {
            name: feature.name.clone(),
            length: feature.length,
            values: match feature.dtype {
                Dtype::I32 => Values::I32(vec![0; num_rows * feature.length.max(1)]),
                Dtype::F32 => Values::F32(vec![0.0; num_rows * feature.length.max(1)]),
            },
        };
        self.arrays.iter().map(array).collect()
    }

    /// Writes row `row` of `arrays`, which [`Self::new_arrays`] made; whatever stood there is overwritten. Each piece
    /// is an example of the store and its spans, one a task feature.
    ///
    /// # Panics
    /// If the arrays are others, there is no such row, or the pieces do not fit into it.
    pub fn write_row<'a>(
        &self,
        store: &'a dyn ExampleStore,
        pieces: impl Iterator<Item = (u64, &'a [Span])> + Clone,
        arrays: &mut [Array],
        row: usize,
    ) -> Result<(), StoreError> {
        let pieces = pieces.map(|(example, spans)| (ExampleTokens { store, example }, spans));
        for (slot, array) in self.slots.iter().zip(arrays.iter_mut()) {
            match *slot {
                Slot::RowValid => i32_row(array, row).fill(1),
                Slot::Copy(feature) => {
                    let out = i32_row(array, row);
                    self.copy(feature, pieces.clone(), out)?;
                }
                Slot::Of(..) => {}
            }
        }
        for side in &self.sides {
            match side {
                Writer::Pieces(side) => {
                    let out = SideRow::of(side.layout.side, &self.slots, arrays, row);
                    side.write(&self.features, pieces.clone(), out)?;
                }
                Writer::Row(side) => {
                    let mut out = SideRow::of(side.layout.side, &self.slots, arrays, row);
                    for (example, spans) in pieces.clone().take(1) {
                        side.write(&self.features, example, spans, &mut out)?;
                    }
                }
            }
        }
        self.check_in_step(pieces, arrays, row)
    }

    /// Copies a feature that is passed through.
    fn copy<'p>(
        &self,
        feature: usize,
        pieces: impl Iterator<Item = (ExampleTokens<'p>, &'p [Span])>,
        out: &mut [i32],
    ) -> Result<(), StoreError> {
        let mut filled = 0;
        for (example, spans) in pieces.take(1) {
            let span = spans[feature];
            filled = span.len as usize;
            example.read(&self.features[feature], span.from, &mut out[..filled])?;
        }
        out[filled..].fill(0);
        Ok(())
    }

    /// Refuses packed rows whose two sides tell of different segments.
    fn check_in_step<'p>(
        &self,
        mut pieces: impl Iterator<Item = (ExampleTokens<'p>, &'p [Span])>,
        arrays: &mut [Array],
        row: usize,
    ) -> Result<(), StoreError> {
        if !self.sides.iter().any(|side| matches!(side, Writer::Row(_))) {
            return Ok(());
        }
        let decoder = SideRow::of(Side::Decoder, &self.slots, arrays, row).segments.to_vec();
        let encoder = SideRow::of(Side::Encoder, &self.slots, arrays, row).segments;
        match (missing_segment(encoder, &decoder), pieces.next()) {
            (Some(segment), Some((example, _))) => Err(example.refused(format!(
                "no token is of segment {segment}, but there are later segments; they are numbered from 1 without gaps"
            ))),
            _ => Ok(()),
        }
    }

    /// Writes a row that is one example, trimmed to the lengths.
    ///
    /// # Panics
    /// If the arrays are others or there is no such row.
    pub fn write_example(
        &self,
        store: &dyn ExampleStore,
        example: u64,
        arrays: &mut [Array],
        row: usize,
    ) -> Result<(), StoreError> {
        let tokens = ExampleTokens { store, example };
        let span =
            |sequences: &Sequences| Span { from: 0, len: tokens.length(sequences).min(sequences.limit) };
        let spans: Vec<Span> = self.features.iter().map(span).collect();
        self.write_row(store, std::iter::once((example, spans.as_slice())), arrays, row)
    }

    /// Makes row `row` padding: zeros everywhere, `row_valid` among them.
    ///
    /// # Panics
    /// If the arrays are not those of [`Self::new_arrays`] or there is no such row.
    pub fn write_padding(&self, arrays: &mut [Array], row: usize) {
        for array in arrays {
            match array.values {
                Values::I32(_) => i32_row(array, row).fill(0),
                Values::F32(_) => f32_row(array, row).fill(0.0),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::Converter;
    use crate::dataset::InMemoryExamples;

    fn lengths<const N: usize>(lengths: [(&str, usize); N]) -> FeatureLengths {
        lengths.map(|(name, length)| (name.to_owned(), length)).into_iter().collect()
    }

    fn writer(
        converter: impl Into<Conversion>,
        lengths: &FeatureLengths,
        packed: bool,
        store: &InMemoryExamples,
    ) -> RowWriter {
        RowWriter::new(converter, lengths, packed, store.features(), &BTreeMap::new()).unwrap()
    }

    fn show(arrays: &[Array]) -> String {
        let line = |array: &Array| match &array.values {
            Values::I32(values) => format!("{}: {values:?}\n", array.name),
            Values::F32(values) => format!("{}: {values:?}\n", array.name),
        };
        arrays.iter().map(line).collect()
    }

    fn span(from: u32, len: u32) -> [Span; 1] {
        [Span { from, len }]
    }

    #[test]
    fn a_packed_row_has_segments_and_positions() {
        let store = InMemoryExamples::of([("targets", vec![vec![3, 9, 1], vec![4, 1]])]);
        let writer = writer(Converter::Lm, &lengths([("targets", 7)]), true, &store);
        let mut arrays = writer.new_arrays(1);
        let (a, b) = (span(0, 3), span(0, 2));
        writer.write_row(&store, [(0, a.as_slice()), (1, &b)].into_iter(), &mut arrays, 0).unwrap();
        insta::assert_snapshot!(show(&arrays), @r"
        decoder_input_tokens: [0, 3, 9, 0, 4, 0, 0]
        decoder_loss_weights: [1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0]
        decoder_positions: [0, 1, 2, 0, 1, 0, 0]
        decoder_segment_ids: [1, 1, 1, 2, 2, 0, 0]
        decoder_target_tokens: [3, 9, 1, 4, 1, 0, 0]
        row_valid: [1]
        ");
    }

    #[test]
    fn an_item_without_targets_still_has_a_segment_of_its_own() {
        let store = InMemoryExamples::of([
            ("inputs", vec![vec![7, 8], vec![5], vec![6]]),
            ("targets", vec![vec![3], vec![], vec![4, 1]]),
        ]);
        let writer = writer(Converter::EncDec, &lengths([("inputs", 5), ("targets", 4)]), true, &store);
        let mut arrays = writer.new_arrays(1);
        let spans = [[(2, 1)], [(1, 0)], [(1, 2)]]
            .map(|[(inputs, targets)]| [Span { from: 0, len: inputs }, Span { from: 0, len: targets }]);
        let pieces = (0..).zip(&spans).map(|(example, spans)| (example, spans.as_slice()));
        writer.write_row(&store, pieces, &mut arrays, 0).unwrap();
        insta::assert_snapshot!(show(&arrays), @r"
        decoder_input_tokens: [0, 0, 4, 0]
        decoder_loss_weights: [1.0, 1.0, 1.0, 0.0]
        decoder_positions: [0, 0, 1, 0]
        decoder_segment_ids: [1, 3, 3, 0]
        decoder_target_tokens: [3, 4, 1, 0]
        encoder_input_tokens: [7, 8, 5, 6, 0]
        encoder_positions: [0, 1, 0, 0, 0]
        encoder_segment_ids: [1, 1, 2, 3, 0]
        row_valid: [1]
        ");
    }

    #[test]
    fn an_example_alone_is_trimmed_and_its_last_token_shifted_into_the_padding() {
        let store =
            InMemoryExamples::of([("inputs", vec![vec![7, 8, 5, 6, 1]]), ("targets", vec![vec![3, 9]])]);
        let lengths = lengths([("inputs", 4), ("targets", 4)]);
        let edits = BTreeMap::from([("targets".to_owned(), vec![TokenEdit::Append { id: 1 }])]);
        let writer = RowWriter::new(Converter::EncDec, &lengths, false, store.features(), &edits).unwrap();
        let mut arrays = writer.new_arrays(1);
        writer.write_example(&store, 0, &mut arrays, 0).unwrap();
        insta::assert_snapshot!(show(&arrays), @r"
        decoder_input_tokens: [0, 3, 9, 1]
        decoder_loss_weights: [1.0, 1.0, 1.0, 0.0]
        decoder_target_tokens: [3, 9, 1, 0]
        encoder_input_tokens: [7, 8, 5, 6]
        row_valid: [1]
        ");
    }

    #[test]
    fn a_row_is_the_same_whatever_stood_there() {
        let store = InMemoryExamples::of([("targets", vec![vec![3, 9, 1], vec![4, 1], vec![]])]);
        for packed in [false, true] {
            let writer = writer(Converter::Lm, &lengths([("targets", 5)]), packed, &store);
            let fresh: Vec<_> = (0..3)
                .map(|example| {
                    let mut arrays = writer.new_arrays(1);
                    writer.write_example(&store, example, &mut arrays, 0).unwrap();
                    arrays
                })
                .collect();
            let mut arrays = writer.new_arrays(1);
            for example in [0, 2, 1, 0, 1, 2] {
                writer.write_example(&store, example, &mut arrays, 0).unwrap();
                assert_eq!(arrays, fresh[example as usize]);
            }
            writer.write_padding(&mut arrays, 0);
            assert_eq!(arrays, writer.new_arrays(1));
        }
    }

    #[test]
    fn the_beginning_of_a_segment_is_the_bos_id() {
        let store = InMemoryExamples::of([("targets", vec![vec![3, 9], vec![4]])]);
        let writer = writer(Converter::Lm, &lengths([("targets", 5)]), true, &store).with_bos_id(77);
        let mut arrays = writer.new_arrays(1);
        let (a, b) = (span(0, 2), span(0, 1));
        writer.write_row(&store, [(0, a.as_slice()), (1, &b)].into_iter(), &mut arrays, 0).unwrap();
        assert_eq!(arrays[0].values, Values::I32(vec![77, 3, 77, 77, 0]));
    }

    fn conversion(text: &str) -> Conversion {
        text.parse().unwrap()
    }

    #[test]
    fn a_prefix_is_inputs_and_the_place_of_the_first_target() {
        let store = InMemoryExamples::of([
            ("inputs", vec![vec![9, 4, 6], vec![3, 2]]),
            ("targets", vec![vec![3, 9], vec![4]]),
            ("suffixes", vec![vec![2, 1], vec![]]),
        ]);
        let lengths = lengths([("inputs", 4), ("targets", 4), ("suffixes", 3)]);
        let writer = writer(conversion("prefix_suffix_lm:cu_seqlens=true"), &lengths, true, &store);
        let mut arrays = writer.new_arrays(1);
        let spans = [[3, 2, 2], [2, 1, 0]].map(|spans| spans.map(|len| Span { from: 0, len }));
        let pieces = (0..).zip(&spans).map(|(example, spans)| (example, spans.as_slice()));
        writer.write_row(&store, pieces, &mut arrays, 0).unwrap();
        insta::assert_snapshot!(show(&arrays), @r"
        decoder_causal_attention: [1, 1, 1, 1, 0, 0, 0, 1, 1, 1, 0]
        decoder_cu_seqlens: [0, 7, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10]
        decoder_input_tokens: [0, 9, 4, 6, 3, 9, 2, 0, 3, 2, 0]
        decoder_loss_weights: [0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0]
        decoder_num_segments: [2]
        decoder_positions: [0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 0]
        decoder_segment_ids: [1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 0]
        decoder_target_tokens: [9, 4, 6, 3, 9, 2, 1, 3, 2, 4, 0]
        row_valid: [1]
        target_suffix_weights: [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0]
        ");
    }

    #[test]
    fn a_loss_mask_is_cut_and_ended_as_its_tokens_are() {
        let store = InMemoryExamples::of([
            ("targets", vec![vec![3, 9, 4, 5], vec![6, 7], vec![]]),
            ("targets_loss", vec![vec![0, 1, 1, 0], vec![1, 0], vec![]]),
        ]);
        let edits = BTreeMap::from([
            ("targets".to_owned(), vec![TokenEdit::Trim { max_length: 3 }, TokenEdit::Append { id: 1 }]),
            ("targets_loss".to_owned(), vec![TokenEdit::Trim { max_length: 3 }, TokenEdit::RepeatLast]),
        ]);
        let lengths = lengths([("targets", 8)]);
        let writer = RowWriter::new(Converter::Lm, &lengths, true, store.features(), &edits).unwrap();
        let mut arrays = writer.new_arrays(1);
        // The middle of the first example, as of one that is too long; then all of the others.
        let spans = [Span { from: 1, len: 3 }, Span { from: 0, len: 3 }, Span { from: 0, len: 1 }];
        let pieces = (0..).zip(&spans).map(|(example, span)| (example, std::slice::from_ref(span)));
        writer.write_row(&store, pieces, &mut arrays, 0).unwrap();
        insta::assert_snapshot!(show(&arrays), @r"
        decoder_input_tokens: [0, 9, 4, 0, 6, 7, 0, 0]
        decoder_loss_weights: [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]
        decoder_positions: [0, 1, 2, 0, 1, 2, 0, 0]
        decoder_segment_ids: [1, 1, 1, 2, 2, 2, 3, 0]
        decoder_target_tokens: [9, 4, 1, 6, 7, 1, 1, 0]
        row_valid: [1]
        ");
    }

    /// What is wrong with an example of one row.
    fn refused(converter: &str, features: &[(&str, Vec<i32>)], packed: bool) -> String {
        let store = InMemoryExamples::of(features.iter().map(|(name, ids)| (*name, vec![ids.clone()])));
        let lengths = features.iter().filter(|(name, _)| ["inputs", "targets"].contains(name));
        let lengths = lengths.map(|(name, _)| ((*name).to_owned(), 6)).collect();
        let writer = writer(conversion(converter), &lengths, packed, &store);
        let error = writer.write_example(&store, 0, &mut writer.new_arrays(1), 0).unwrap_err();
        error.problem.replace(&format!("{:?}", store.id(0).unwrap()), "…")
    }

    #[test]
    fn what_does_not_stand_beside_its_tokens_is_refused_with_its_example() {
        let error = refused("lm", &[("targets", vec![3, 1]), ("targets_loss", vec![1])], true);
        insta::assert_snapshot!(error, @"example 0 (record 1 of file 1, id …): `targets` has 2 tokens, but `targets_loss` beside them has 1; the two must be as long, also after the steps below the cache boundary");
        let error = refused("lm", &[("targets", vec![3, 1]), ("targets_loss", vec![1, 3])], true);
        insta::assert_snapshot!(error, @"example 0 (record 1 of file 1, id …): `targets_loss` has 3 at place 1; it must be 1 for tokens with a loss, else 0");
        let error = refused("encoder:mask_id=9", &[("inputs", vec![3, 9]), ("targets", vec![3])], false);
        insta::assert_snapshot!(error, @"example 0 (record 1 of file 1, id …): `inputs` has 2 tokens, but `targets` beside them has 1; the two must be as long, also after the steps below the cache boundary");
    }

    #[test]
    fn what_is_no_packed_row_is_refused_with_its_example() {
        let error = |tokens: &[i32], positions: &[i32], segments: &[i32], prefix: &[i32]| {
            let features = [
                ("targets", tokens.to_vec()),
                ("targets_positions", positions.to_vec()),
                ("targets_segment_ids", segments.to_vec()),
                ("targets_prefix", prefix.to_vec()),
            ];
            let error = refused("prepacked_prefix_lm", &features, false);
            error.split_once("): ").unwrap().1.to_owned()
        };
        insta::assert_snapshot!(error(&[3, 1], &[0], &[1, 1], &[1, 0]), @"`targets` has 2 tokens, but `targets_positions` beside them has 1; the two must be as long, also after the steps below the cache boundary");
        insta::assert_snapshot!(error(&[3, 1], &[0, 1], &[1, 0], &[1, 0]), @"`targets` is 1 at place 1, which is padding by `targets_segment_ids`; padding is 0");
        insta::assert_snapshot!(error(&[3, 0, 4], &[0, 0, 0], &[1, 0, 2], &[1, 0, 0]), @"`targets_segment_ids` is 0, padding, at place 1, but 2 at place 2; padding stands at the end");
        insta::assert_snapshot!(error(&[3, 4], &[0, 0], &[2, 1], &[1, 0]), @"`targets_segment_ids` is 1 at place 1, after 2; segments are numbered from 1 and rise");
        insta::assert_snapshot!(error(&[3, 4], &[0, 2], &[1, 1], &[1, 0]), @"`targets_positions` is 2 at place 1 in segment 1; it should be 1, counted from 0 in each segment");
        insta::assert_snapshot!(error(&[3, 4], &[0, 1], &[1, 1], &[0, 1]), @"`targets_prefix` is 1 at place 1; it must be 1 for the inputs, which stand first in segment 1, else 0");
        insta::assert_snapshot!(error(&[3, 4], &[0, 0], &[1, 3], &[0, 0]), @"no token is of segment 2, but there are later segments; they are numbered from 1 without gaps");
    }

    #[test]
    fn a_feature_that_the_examples_lack_is_named() {
        let lengths = lengths([("inputs", 4), ("targets", 4)]);
        let found = ["targets".to_owned()];
        let error = RowWriter::new(Converter::EncDec, &lengths, true, &found, &BTreeMap::new()).unwrap_err();
        insta::assert_snapshot!(
            error,
            @"converter `enc_dec` needs feature `inputs`, but the examples have only `targets`"
        );
    }
}

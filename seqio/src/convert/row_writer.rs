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
use crate::convert::{ConvertError, Converter, Dtype, ModelFeature, Span};
use crate::dataset::{ExampleStore, SequenceEdits, StoreError};
use crate::feature::FeatureLengths;
use crate::preprocess::TokenEdit;

/// Writes rows for one converter, set of lengths and store.
#[derive(Clone, Debug)]
pub struct RowWriter {
    packed: bool,
    bos_id: i32,
    model_features: Vec<ModelFeature>,
    inputs: Option<Sequences>,
    targets: Sequences,
}

/// Where a task feature comes from.
#[derive(Clone, Debug)]
struct Sequences {
    /// Its number in the store.
    feature: usize,
    edits: SequenceEdits,
    limit: u32,
}

impl RowWriter {
    /// Checks that the store's features and the lengths are those that the converter needs. `edits` are the steps
    /// below the cache boundary, by feature.
    pub fn new(
        converter: Converter,
        lengths: &FeatureLengths,
        packed: bool,
        store_features: &[String],
        edits: &BTreeMap<String, Vec<TokenEdit>>,
    ) -> Result<Self, ConvertError> {
        let limits = converter.limits(lengths)?;
        let sequences = |(name, limit): (&&'static str, usize)| {
            let missing =
                || ConvertError::MissingFeature { converter, feature: name, found: store_features.to_vec() };
            Ok(Sequences {
                feature: store_features.iter().position(|found| found == name).ok_or_else(missing)?,
                edits: SequenceEdits::new(edits.get(*name).cloned().unwrap_or_default()),
                limit: u32::try_from(limit).unwrap_or(u32::MAX),
            })
        };
        let features = converter.task_features().iter().zip(limits).map(sequences);
        let mut features = features.collect::<Result<Vec<_>, ConvertError>>()?;
        Ok(Self {
            packed,
            bos_id: 0,
            model_features: converter.model_features(lengths, packed)?,
            targets: features
                .pop()
                .expect("every converter reads `targets`, the last of its features by name"),
            inputs: features.pop(),
        })
    }

    /// Begins decoder inputs with another id than SeqIO's 0.
    pub fn with_bos_id(self, bos_id: i32) -> Self {
        Self { bos_id, ..self }
    }

    /// The model features it writes, sorted by name; batches have `row_valid` besides.
    pub fn model_features(&self) -> &[ModelFeature] {
        &self.model_features
    }

    /// The features of the store that it reads, with their edits, in the order of spans and limits.
    pub fn task_features(&self) -> impl Iterator<Item = (usize, &SequenceEdits)> {
        self.inputs.iter().chain([&self.targets]).map(|sequences| (sequences.feature, &sequences.edits))
    }

    /// Arrays for `num_rows` rows of padding, sorted by name, `row_valid` (all 0) the last.
    pub fn new_arrays(&self, num_rows: usize) -> Vec<Array> {
        let array = |feature: &ModelFeature| Array {
            name: feature.name.to_owned(),
            length: feature.length,
            values: match feature.dtype {
                Dtype::I32 => Values::I32(vec![0; num_rows * feature.length]),
                Dtype::F32 => Values::F32(vec![0.0; num_rows * feature.length]),
            },
        };
        let mut arrays: Vec<Array> = self.model_features.iter().map(array).collect();
        let row_valid = Values::I32(vec![0; num_rows]);
        arrays.push(Array { name: "row_valid".to_owned(), length: 0, values: row_valid });
        arrays
    }

    /// Writes row `row` of `arrays`, which [`Self::new_arrays`] made; whatever stood there is overwritten. Each piece
    /// is an example of the store and its spans, one a task feature.
    ///
    /// # Panics
    /// If the arrays are others, there is no such row, or the pieces do not fit into it.
    pub fn write_row<'a>(
        &self,
        store: &dyn ExampleStore,
        pieces: impl Iterator<Item = (u64, &'a [Span])> + Clone,
        arrays: &mut [Array],
        row: usize,
    ) -> Result<(), StoreError> {
        let (row_valid, mut arrays) = arrays.split_last_mut().expect("made by `new_arrays`");
        let decoder = arrays.split_off_mut(..if self.packed { 5 } else { 3 }).expect("made by `new_arrays`");
        let targets = pieces.clone().map(|(example, spans)| (example, spans[spans.len() - 1]));
        if self.packed {
            let [input, weights, positions, segments, target] = decoder else { unreachable!("five arrays") };
            let (input, weights) = (i32_row(input, row), f32_row(weights, row));
            let (positions, segments, target) =
                (i32_row(positions, row), i32_row(segments, row), i32_row(target, row));
            let filled =
                self.targets.write_packed(store, targets, target, positions, segments, |from, target| {
                    shift_right(target, self.bos_id, &mut input[from..from + target.len()]);
                    weights[from..from + target.len()].fill(1.0);
                })?;
            weights[filled..].fill(0.0);
            input[filled..].fill(0);
            if filled < input.len() {
                input[filled] = self.bos_id;
            }
        } else {
            let [input, weights, target] = decoder else { unreachable!("three arrays") };
            let (input, weights, target) = (i32_row(input, row), f32_row(weights, row), i32_row(target, row));
            let filled = self.targets.write(store, targets, target)?;
            shift_right(target, self.bos_id, input);
            weights[..filled].fill(1.0);
            weights[filled..].fill(0.0);
        }
        if let Some(sequences) = &self.inputs {
            let inputs = pieces.map(|(example, spans)| (example, spans[0]));
            match arrays {
                [input, positions, segments] => {
                    let (positions, segments) = (i32_row(positions, row), i32_row(segments, row));
                    sequences.write_packed(
                        store,
                        inputs,
                        i32_row(input, row),
                        positions,
                        segments,
                        |_, _| (),
                    )?;
                }
                [input] => drop(sequences.write(store, inputs, i32_row(input, row))?),
                _ => unreachable!("one array, or three"),
            }
        }
        i32_row(row_valid, row)[0] = 1;
        Ok(())
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
        let span = |sequences: &Sequences| {
            let mut length = [0];
            store.lengths(sequences.feature, &[example], &mut length);
            Span { from: 0, len: sequences.edits.edited_length(length[0]).min(sequences.limit) }
        };
        let targets = span(&self.targets);
        let spans = [self.inputs.as_ref().map_or(targets, span), targets];
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

impl Sequences {
    /// Writes tokens and their padding, and returns the number of tokens.
    fn write(
        &self,
        store: &dyn ExampleStore,
        pieces: impl Iterator<Item = (u64, Span)>,
        tokens: &mut [i32],
    ) -> Result<usize, StoreError> {
        let mut filled = 0;
        for (example, span) in pieces {
            let out = &mut tokens[filled..filled + span.len as usize];
            self.edits.read(store, self.feature, example, span.from as usize, out)?;
            filled += out.len();
        }
        tokens[filled..].fill(0);
        Ok(filled)
    }

    /// Writes tokens, positions and segment ids with their padding, and returns the number of tokens. `each` gets
    /// every segment, while it is warm, with its place in the row.
    fn write_packed(
        &self,
        store: &dyn ExampleStore,
        pieces: impl Iterator<Item = (u64, Span)>,
        tokens: &mut [i32],
        positions: &mut [i32],
        segments: &mut [i32],
        mut each: impl FnMut(usize, &[i32]),
    ) -> Result<usize, StoreError> {
        let mut filled = 0;
        for (segment, (example, span)) in (1..).zip(pieces) {
            let here = filled..filled + span.len as usize;
            let out = &mut tokens[here.clone()];
            self.edits.read(store, self.feature, example, span.from as usize, out)?;
            each(filled, out);
            (0..).zip(&mut positions[here.clone()]).for_each(|(position, out)| *out = position);
            segments[here].fill(segment);
            filled += span.len as usize;
        }
        tokens[filled..].fill(0);
        positions[filled..].fill(0);
        segments[filled..].fill(0);
        Ok(filled)
    }
}

/// All but the last token, after `first`.
fn shift_right(tokens: &[i32], first: i32, out: &mut [i32]) {
    if let ([_, shifted @ ..], [tokens @ .., _]) = (&mut *out, tokens) {
        shifted.copy_from_slice(tokens);
        out[0] = first;
    }
}

fn i32_row(array: &mut Array, row: usize) -> &mut [i32] {
    let width = array.length.max(1);
    match &mut array.values {
        Values::I32(values) => &mut values[row * width..(row + 1) * width],
        Values::F32(_) => unreachable!("made by `new_arrays`"),
    }
}

fn f32_row(array: &mut Array, row: usize) -> &mut [f32] {
    let width = array.length.max(1);
    match &mut array.values {
        Values::F32(values) => &mut values[row * width..(row + 1) * width],
        Values::I32(_) => unreachable!("made by `new_arrays`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::InMemoryExamples;

    fn lengths<const N: usize>(lengths: [(&str, usize); N]) -> FeatureLengths {
        lengths.map(|(name, length)| (name.to_owned(), length)).into_iter().collect()
    }

    fn writer(
        converter: Converter,
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

//! What holds of the rows of every converter: what stands where, what counts, and who sees whom.
//!
//! Ids tell where they come from, so that the mask of attention, made of segments and `decoder_causal_attention` as a
//! model makes it, can be compared with what belongs together.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use crate::batch::{Array, Values};
use crate::convert::{Conversion, Packing, RowWriter, WindowPlanner};
use crate::dataset::{ExampleStore, InMemoryExamples};
use crate::feature::FeatureLengths;

const FEATURES: [&str; 3] = ["inputs", "targets", "suffixes"];
const BOS: i32 = 7;

/// Examples and what is asked for.
#[derive(Clone, Debug)]
struct Case {
    conversion: Conversion,
    packing: Packing,
    lengths: FeatureLengths,
    /// Lengths of the features of each example.
    examples: Vec<[usize; 3]>,
    /// Loss masks of targets, if the examples have them, as bits.
    masks: Option<u64>,
}

fn case() -> impl Strategy<Value = Case> {
    let converter = prop_oneof![
        Just("lm"),
        Just("enc_dec"),
        Just("prefix_lm"),
        Just("prefix_lm:loss_on_targets_only=false"),
        Just("prefix_suffix_lm"),
        Just("encoder:mask_id=5"),
    ];
    let packing = prop_oneof![Just(Packing::None), Just(Packing::Greedy), Just(Packing::BestFit)];
    (converter, packing, [1usize..7, 1usize..7, 1usize..7], any::<bool>(), prop::option::of(any::<u64>()))
        .prop_flat_map(|(converter, packing, limits, ends, masks)| {
            // From nothing to one too many.
            let lengths = limits.map(|limit| prop_oneof![2 => 0..=limit + 1, 1 => Just(0), 1 => Just(limit)]);
            let examples = prop::collection::vec(lengths, 1..14);
            (Just((converter, packing, limits, ends, masks)), examples)
        })
        .prop_map(|((converter, packing, mut limits, ends, masks), mut examples)| {
            let mut conversion: Conversion = converter.parse().unwrap();
            conversion.bos_id = BOS;
            conversion.cu_seqlens = ends && packing != Packing::None;
            if converter.starts_with("encoder") {
                limits[1] = limits[0];
                examples.iter_mut().for_each(|lengths| lengths[1] = lengths[0]);
            }
            let read = conversion.kind.task_features();
            let lengths = FEATURES.iter().zip(limits).filter(|(name, _)| read.contains(name));
            let lengths = lengths.map(|(name, length)| ((*name).to_owned(), length)).collect();
            Case { conversion, packing, lengths, examples, masks }
        })
}

/// Where an id comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Source {
    example: usize,
    feature: usize,
    place: usize,
}

impl Source {
    fn id(self) -> i32 {
        (1000 * (self.example + 1) + 100 * self.feature + self.place) as i32
    }

    /// `None` for padding.
    fn of(id: i32) -> Option<Self> {
        let id = id as usize;
        (id > 0).then(|| Self { example: id / 1000 - 1, feature: id / 100 % 10, place: id % 100 })
    }
}

impl Case {
    fn mask(&self, source: Source) -> bool {
        self.masks.is_none_or(|bits| bits >> ((source.example * 7 + source.place) % 64) & 1 == 1)
    }

    fn store(&self) -> InMemoryExamples {
        let sequences = |feature: usize| -> Vec<Vec<i32>> {
            let ids = |(example, lengths): (usize, &[usize; 3])| {
                (0..lengths[feature]).map(|place| Source { example, feature, place }.id()).collect()
            };
            self.examples.iter().enumerate().map(ids).collect()
        };
        let mut features: Vec<(&str, Vec<Vec<i32>>)> =
            FEATURES.iter().enumerate().map(|(feature, name)| (*name, sequences(feature))).collect();
        if self.masks.is_some() {
            let masks = sequences(1).into_iter().map(|ids| {
                ids.into_iter().filter_map(Source::of).map(|source| i32::from(self.mask(source))).collect()
            });
            features.push(("targets_loss", masks.collect()));
        }
        InMemoryExamples::of(features)
    }

    fn rows(&self) -> Rows {
        let store = self.store();
        let packed = self.packing != Packing::None;
        let edits = BTreeMap::new();
        let writer =
            RowWriter::new(self.conversion.clone(), &self.lengths, packed, store.features(), &edits).unwrap();
        let limits = self.conversion.limits(&self.lengths).unwrap();
        let all: Vec<u64> = (0..store.num_examples()).collect();
        let lengths: Vec<Vec<u32>> = writer
            .task_features()
            .map(|(feature, _)| {
                let mut lengths = vec![0; all.len()];
                store.lengths(feature, &all, &mut lengths);
                lengths
            })
            .collect();
        let lengths: Vec<&[u32]> = lengths.iter().map(Vec::as_slice).collect();
        let plan = WindowPlanner::new(&limits, self.packing, 7, "laws")
            .unwrap()
            .with_joined_features(self.conversion.kind.joins_features())
            .plan(&lengths, 0);
        let mut arrays = writer.new_arrays(plan.num_rows());
        for (index, row) in plan.rows().enumerate() {
            let pieces = row.pieces().map(|piece| (u64::from(piece.item), piece.spans));
            // Whatever stood there is overwritten.
            for _ in 0..2 {
                writer.write_row(&store, pieces.clone(), &mut arrays, index).unwrap();
            }
        }
        Rows { arrays, num_rows: plan.num_rows() }
    }

    /// Whether a token of a decoder counts.
    fn has_loss(&self, source: Source) -> bool {
        match source.feature {
            0 => self.conversion.kind.loss_on_targets_only() == Some(false),
            1 => self.mask(source),
            _ => true,
        }
    }
}

struct Rows {
    arrays: Vec<Array>,
    num_rows: usize,
}

impl Rows {
    fn ints(&self, name: &str, row: usize) -> Option<&[i32]> {
        let array = self.arrays.iter().find(|array| array.name == name)?;
        let width = array.length.max(1);
        match &array.values {
            Values::I32(values) => Some(&values[row * width..(row + 1) * width]),
            Values::F32(_) => None,
        }
    }

    fn floats(&self, name: &str, row: usize) -> Option<&[f32]> {
        let array = self.arrays.iter().find(|array| array.name == name)?;
        match &array.values {
            Values::F32(values) => Some(&values[row * array.length..(row + 1) * array.length]),
            Values::I32(_) => None,
        }
    }

    /// Segments of a side; without packing all tokens are one.
    fn segments(&self, side: &str, tokens: &[i32], row: usize) -> Vec<i32> {
        match self.ints(&format!("{side}_segment_ids"), row) {
            Some(segments) => segments.to_vec(),
            None => tokens.iter().map(|token| i32::from(*token != 0)).collect(),
        }
    }
}

/// The tokens of a side that says something.
const DECODER: &str = "decoder_target_tokens";
const ENCODER: &str = "encoder_input_tokens";

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn every_token_within_its_length_is_in_one_row(case in case()) {
        let rows = case.rows();
        let mut found = Vec::new();
        for row in 0..rows.num_rows {
            for name in [DECODER, ENCODER, "encoder_target_tokens"] {
                found.extend(rows.ints(name, row).unwrap_or_default().iter().filter_map(|id| Source::of(*id)));
            }
        }
        let splits = case.packing == Packing::BestFit && case.lengths.len() == 1;
        let mut expected = Vec::new();
        for (example, lengths) in case.examples.iter().enumerate() {
            for (feature, name) in FEATURES.iter().enumerate() {
                let Some(limit) = case.lengths.get(*name) else { continue };
                let kept = if splits { lengths[feature] } else { lengths[feature].min(*limit) };
                expected.extend((0..kept).map(|place| Source { example, feature, place }));
            }
        }
        found.sort();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn segments_are_examples_and_positions_count_in_them(case in case()) {
        let rows = case.rows();
        for row in 0..rows.num_rows {
            let mut examples = BTreeMap::new();
            for (side, tokens) in [("decoder", DECODER), ("encoder", ENCODER)] {
                let Some(tokens) = rows.ints(tokens, row) else { continue };
                let segments = rows.segments(side, tokens, row);
                let filled = tokens.iter().take_while(|token| **token != 0).count();
                prop_assert!(tokens[filled..].iter().all(|token| *token == 0));
                prop_assert!(segments[filled..].iter().all(|segment| *segment == 0));
                prop_assert!(segments[..filled].is_sorted());
                for (token, segment) in tokens[..filled].iter().zip(&segments) {
                    let example = Source::of(*token).unwrap().example;
                    // The same segment is the same example on both sides, and in every feature.
                    prop_assert_eq!(*examples.entry(*segment).or_insert(example), example);
                }
                if let Some(positions) = rows.ints(&format!("{side}_positions"), row) {
                    for (place, position) in positions.iter().enumerate() {
                        let before = segments[..place].iter().filter(|segment| **segment == segments[place]);
                        let expected = if segments[place] == 0 { 0 } else { before.count() };
                        prop_assert_eq!(*position as usize, expected);
                    }
                }
                if let Some(ends) = rows.ints(&format!("{side}_cu_seqlens"), row) {
                    let count = rows.ints(&format!("{side}_num_segments"), row).unwrap()[0] as usize;
                    prop_assert_eq!(ends[0], 0);
                    prop_assert_eq!(ends[count] as usize, filled);
                    prop_assert!(ends[count..].iter().all(|end| *end as usize == filled));
                    for segment in 1..=count {
                        let stretch = ends[segment - 1] as usize..ends[segment] as usize;
                        prop_assert!(segments[stretch.clone()].iter().all(|id| *id as usize == segment));
                        prop_assert_eq!(segments.iter().filter(|id| **id as usize == segment).count(), stretch.len());
                    }
                }
            }
            let numbers: BTreeSet<i32> = examples.keys().copied().collect();
            prop_assert!(numbers.into_iter().eq(1..=examples.len() as i32), "segments are numbered without gaps");
        }
    }

    #[test]
    fn decoders_read_the_token_before_and_weights_are_those_of_what_counts(case in case()) {
        let rows = case.rows();
        let packed = case.packing != Packing::None;
        for row in 0..rows.num_rows {
            if let (Some(tokens), Some(read)) = (rows.ints(DECODER, row), rows.ints("decoder_input_tokens", row)) {
                let segments = rows.segments("decoder", tokens, row);
                let filled = segments.iter().filter(|segment| **segment != 0).count();
                for place in 0..tokens.len() {
                    let expected = match place {
                        0 => BOS,
                        _ if place < filled && segments[place] != segments[place - 1] => BOS,
                        _ if place == filled && packed => BOS,
                        _ => tokens[place - 1],
                    };
                    prop_assert_eq!(read[place], expected, "place {} of {:?}", place, tokens);
                }
                let weights = rows.floats("decoder_loss_weights", row).unwrap();
                for (token, weight) in tokens.iter().zip(weights) {
                    let expected = Source::of(*token).is_some_and(|source| case.has_loss(source));
                    prop_assert_eq!(*weight, f32::from(u8::from(expected)));
                }
            }
            if let (Some(tokens), Some(said)) = (rows.ints(ENCODER, row), rows.ints("encoder_target_tokens", row)) {
                for (token, said) in tokens.iter().zip(said) {
                    let beside = Source::of(*token).map(|source| Source { feature: 1, ..source }.id());
                    prop_assert_eq!(*said, beside.unwrap_or(0));
                }
            }
        }
    }

    #[test]
    fn nobody_sees_another_document_or_what_it_is_to_say(case in case()) {
        let rows = case.rows();
        for row in 0..rows.num_rows {
            let Some(tokens) = rows.ints(DECODER, row) else { continue };
            let segments = rows.segments("decoder", tokens, row);
            let prefix = rows.ints("decoder_causal_attention", row);
            let weights = rows.floats("decoder_loss_weights", row).unwrap();
            let in_prefix = |place: usize| prefix.is_some_and(|prefix| prefix[place] == 1);
            for query in 0..tokens.len() {
                if segments[query] == 0 {
                    prop_assert!(!in_prefix(query), "padding is no prefix");
                    continue;
                }
                let own = Source::of(tokens[query]).unwrap();
                for key in 0..tokens.len() {
                    let sees = segments[query] == segments[key]
                        && (key <= query || in_prefix(query) && in_prefix(key));
                    let Some(other) = Source::of(tokens[key]) else {
                        prop_assert!(!sees, "padding is seen");
                        continue;
                    };
                    if sees {
                        prop_assert_eq!(own.example, other.example);
                    }
                    if own.example == other.example {
                        prop_assert!(sees || key > query, "what came before is seen");
                        let joined = case.conversion.kind.joins_features();
                        prop_assert!(sees || !(joined && own.feature == 0 && other.feature == 0), "inputs see each other");
                        prop_assert!(sees || !(joined && own.feature > 0 && other.feature == 0), "inputs are seen");
                    }
                    // At `key` a decoder reads the token before it: later places tell what is to be said.
                    let only_targets = case.conversion.kind.loss_on_targets_only() != Some(false);
                    prop_assert!(!(sees && key > query && only_targets && weights[query] > 0.0));
                }
            }
        }
    }

    #[test]
    fn suffixes_count_or_targets_where_there_is_none(case in case()) {
        let rows = case.rows();
        for row in 0..rows.num_rows {
            let Some(weights) = rows.floats("target_suffix_weights", row) else { continue };
            let tokens = rows.ints(DECODER, row).unwrap();
            for (token, weight) in tokens.iter().zip(weights) {
                let expected = Source::of(*token).is_some_and(|source| match source.feature {
                    2 => true,
                    1 => case.examples[source.example][2] == 0,
                    _ => false,
                });
                prop_assert_eq!(*weight, f32::from(u8::from(expected)));
            }
        }
    }

    #[test]
    fn packed_rows_given_back_are_the_same_rows(case in case()) {
        let prepacked = match case.conversion.kind.name() {
            "lm" => "prepacked_lm",
            "enc_dec" => "prepacked_enc_dec",
            "prefix_lm" => "prepacked_prefix_lm",
            _ => return Ok(()),
        };
        let mut case = case;
        if case.packing == Packing::None {
            case.packing = Packing::Greedy;
        }
        (case.masks, case.conversion.cu_seqlens) = (None, false);
        let rows = case.rows();
        let all = |name: &str| -> Vec<Vec<i32>> {
            let filled = |row: usize| {
                let side = name.split('_').next().unwrap();
                let segments = rows.ints(&format!("{side}_segment_ids"), row).unwrap();
                segments.iter().filter(|segment| **segment != 0).count()
            };
            (0..rows.num_rows).map(|row| rows.ints(name, row).unwrap()[..filled(row)].to_vec()).collect()
        };
        let is_inputs = |id: i32| i32::from(Source::of(id).is_some_and(|source| source.feature == 0));
        let mut features = vec![
            ("targets", all(DECODER)),
            ("targets_positions", all("decoder_positions")),
            ("targets_segment_ids", all("decoder_segment_ids")),
        ];
        let prefix = all(DECODER).into_iter().map(|ids| ids.into_iter().map(is_inputs).collect()).collect();
        let mut lengths = case.lengths.clone();
        match prepacked {
            "prepacked_prefix_lm" => {
                features.push(("targets_prefix", prefix));
                lengths = BTreeMap::from([("targets".to_owned(), case.lengths.values().sum())]);
            }
            "prepacked_enc_dec" => features.extend([
                ("inputs", all(ENCODER)),
                ("inputs_positions", all("encoder_positions")),
                ("inputs_segment_ids", all("encoder_segment_ids")),
            ]),
            _ => {}
        }
        let store = InMemoryExamples::of(features);
        let mut conversion: Conversion = prepacked.parse().unwrap();
        if case.conversion.kind.loss_on_targets_only() == Some(false) {
            conversion = "prepacked_prefix_lm:loss_on_targets_only=false".parse().unwrap();
        }
        conversion.bos_id = BOS;
        let edits = BTreeMap::new();
        let writer = RowWriter::new(conversion, &lengths, false, store.features(), &edits).unwrap();
        let mut arrays = writer.new_arrays(rows.num_rows);
        for row in 0..rows.num_rows {
            writer.write_example(&store, row as u64, &mut arrays, row).unwrap();
        }
        prop_assert_eq!(&arrays, &rows.arrays);
    }
}

//! `greedy` against `seqio.utils.trim_and_pack_dataset`.

use std::collections::BTreeMap;

use seqio::{Conversion, Converter, FeatureLengths, Packing, WindowPlanner};
use serde::Deserialize;

use crate::golden::{self, Example, Output};
use crate::rows::{self, Request};

const FILE: &str = "trim_and_pack.jsonl";

#[derive(Deserialize)]
struct Case {
    name: String,
    feature_lengths: FeatureLengths,
    examples: Vec<Example>,
    output: Option<Vec<BTreeMap<String, Vec<i64>>>>,
}

#[test]
fn greedy_packs_as_seqio_does() {
    let mut found = Vec::new();
    for (line, case) in golden::lines::<Case>(FILE) {
        let lengths = &case.feature_lengths;
        let converter = match lengths.keys().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["targets"] => Some(Conversion::from(Converter::Lm)),
            ["inputs"] | ["inputs", "targets"] => Some(Converter::EncDec.into()),
            _ => None,
        };
        let Some(expected) = &case.output else {
            let converter = converter.unwrap();
            let request = Request { converter, lengths, packing: Packing::Greedy, check_lengths: false };
            assert!(rows::rows(&request, &case.examples).is_err(), "line {line}");
            continue;
        };
        let ours = match converter {
            Some(converter) => converted(converter, lengths, &case.examples),
            None => planned(lengths, &case.examples),
        };
        let expected = golden::by_feature(expected);
        found.extend(golden::differences(FILE, line, &case.name, &expected, &ours));
    }
    golden::assert_listed(FILE, found);
    golden::assert_counts(FILE, 10, 1);
}

/// What the converter writes, under the names that packing has for it.
fn converted(converter: Conversion, lengths: &FeatureLengths, examples: &[Example]) -> Output {
    let request = Request { converter, lengths, packing: Packing::Greedy, check_lengths: false };
    let rows = rows::output(&rows::rows(&request, examples).unwrap());
    let names = [
        ("encoder_input_tokens", "inputs"),
        ("encoder_positions", "inputs_positions"),
        ("encoder_segment_ids", "inputs_segment_ids"),
        ("decoder_target_tokens", "targets"),
        ("decoder_positions", "targets_positions"),
        ("decoder_segment_ids", "targets_segment_ids"),
    ];
    let names =
        names.into_iter().filter_map(|(model, task)| Some((task.to_owned(), rows.get(model)?.clone())));
    names.collect()
}

/// Other features than the converters know: the plan alone, written out here.
fn planned(lengths: &FeatureLengths, examples: &[Example]) -> Output {
    let limits: Vec<usize> = lengths.values().copied().collect();
    let item_lengths: Vec<Vec<u32>> = lengths
        .keys()
        .map(|name| examples.iter().map(|example| example[name].len() as u32).collect())
        .collect();
    let item_lengths: Vec<&[u32]> = item_lengths.iter().map(Vec::as_slice).collect();
    let plan = WindowPlanner::new(&limits, Packing::Greedy, 7, "golden").unwrap().plan(&item_lengths, 0);
    let mut output = Output::new();
    for (feature, (name, limit)) in lengths.iter().enumerate() {
        for row in plan.rows() {
            let (mut tokens, mut positions, mut segments) = (Vec::new(), Vec::new(), Vec::new());
            for (segment, piece) in (1..).zip(row.pieces()) {
                let len = piece.spans[feature].len;
                let ids = &examples[piece.item as usize][name][..len as usize];
                tokens.extend(ids.iter().map(|id| i64::from(*id)));
                positions.extend(0..i64::from(len));
                segments.extend((0..len).map(|_| segment));
            }
            for (suffix, mut row) in [("", tokens), ("_positions", positions), ("_segment_ids", segments)] {
                row.resize(*limit, 0);
                output.entry(format!("{name}{suffix}")).or_default().push(row);
            }
        }
    }
    output
}

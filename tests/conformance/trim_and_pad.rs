//! `pass_through` against `seqio.utils.trim_and_pad_dataset`, and the step `trim` against `trim_dataset`.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array as _, AsArray as _, ListArray, RecordBatch};
use arrow::datatypes::Int32Type;
use seqio::{
    Converter, ExampleId, ExampleRow, Examples, Feature, FeatureLengths, Packing, PassThroughVocabulary,
    Preprocessor, SpecialIds, StepContext, Trim,
};
use serde_json::Value;

use crate::golden::{self, Example, Output, ids};
use crate::rows::{self, Request};

const FILE: &str = "trim_and_pad.jsonl";

/// Lines whose sequences have two axes: features are sequences of ids here.
const TWO_AXES: [usize; 3] = [7, 8, 9];

#[test]
fn rows_are_trimmed_and_padded_as_seqio_does() {
    let mut found = Vec::new();
    let mut compared = 0;
    for (line, case) in golden::lines::<Value>(FILE) {
        let has_two_axes = case["feature_lengths"]["a"].is_array() || case["examples"][0]["a"][0].is_array();
        assert_eq!(has_two_axes, TWO_AXES.contains(&line), "line {line}");
        if has_two_axes {
            continue;
        }
        let lengths: FeatureLengths = serde_json::from_value(case["feature_lengths"].clone()).unwrap();
        let examples = examples(&case["examples"]);
        let ours = match case["fn"].as_str().unwrap() {
            "trim_dataset" => trimmed(&lengths, &examples),
            _ => {
                let request = Request {
                    converter: Converter::PassThrough.into(),
                    lengths: &lengths,
                    packing: Packing::None,
                    check_lengths: false,
                };
                rows::output(&rows::rows(&request, &examples).unwrap())
            }
        };
        let mut expected = Output::new();
        for (feature, row) in self::examples(&case["output"]).into_iter().flatten() {
            expected.entry(feature).or_default().push(row.into_iter().map(i64::from).collect());
        }
        found.extend(golden::differences(FILE, line, case["fn"].as_str().unwrap(), &expected, &ours));
        compared += 1;
    }
    assert_eq!(compared, 6);
    golden::assert_listed(FILE, found);
    golden::assert_counts(FILE, 9, 1);
}

fn examples(value: &Value) -> Vec<Example> {
    let example = |example: &Value| {
        let features = example.as_object().unwrap().iter();
        features.map(|(name, value)| (name.clone(), ids(value))).collect()
    };
    value.as_array().unwrap().iter().map(example).collect()
}

/// What the step leaves of the examples.
fn trimmed(lengths: &FeatureLengths, examples: &[Example]) -> Output {
    let special = SpecialIds { pad: 0, eos: None, bos: None, unk: None };
    let vocabulary = Arc::new(PassThroughVocabulary::new(1000, 0, true, special).unwrap());
    let feature = Feature { vocabulary, vocabulary_name: "ids".to_owned(), add_eos: false, required: true };
    let names: Vec<&String> = examples[0].keys().collect();
    let column = |name: &&String| -> (String, arrow::array::ArrayRef) {
        let lists = examples.iter().map(|example| Some(example[*name].iter().copied().map(Some)));
        ((*name).clone(), Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists)))
    };
    let columns = RecordBatch::try_from_iter(names.iter().map(column)).unwrap();
    let row = |example: usize| ExampleRow::new(ExampleId::new("golden", "", 0, example as u64), Vec::new());
    let input = Examples::new(columns, (0..examples.len()).map(row).collect());
    let ctx = StepContext {
        output_features: names.iter().map(|name| ((*name).clone(), feature.clone())).collect(),
        lengths: lengths.clone(),
        ..StepContext::default()
    };
    let output = Trim::default().apply(input, &ctx).unwrap();
    let rows = |name: &String| -> Vec<Vec<i64>> {
        let lists = output.columns.column_by_name(name).unwrap().as_list::<i32>();
        let ids = |row: usize| lists.value(row).as_primitive::<Int32Type>().values().to_vec();
        (0..lists.len()).map(|row| ids(row).into_iter().map(i64::from).collect()).collect()
    };
    names.into_iter().map(|name| (name.clone(), rows(name))).collect::<BTreeMap<_, _>>()
}

//! The converters against SeqIO's, all of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use seqio::{
    Conversion, Converter, Feature, FeatureLengths, Packing, PassThroughVocabulary, Preprocessor, SpecialIds,
    StepContext, Trim,
};
use serde::Deserialize;
use serde_json::Value;

use crate::golden::{self, Example};
use crate::rows::{self, Request};

const FILE: &str = "feature_converters.jsonl";

#[derive(Deserialize)]
struct Case {
    set: String,
    converter: String,
    kwargs: BTreeMap<String, Value>,
    trim_first: bool,
    task_feature_lengths: FeatureLengths,
    examples: Vec<Example>,
    output: Option<Vec<BTreeMap<String, Vec<i64>>>>,
}

impl Case {
    /// Our converter of the same meaning.
    fn converter(&self) -> Conversion {
        let loss_on_targets_only = self.flag("loss_on_targets_only", true);
        let kind = match self.converter.as_str() {
            "LMFeatureConverter" => Converter::Lm,
            "EncDecFeatureConverter" => Converter::EncDec,
            "PrefixLMFeatureConverter" => Converter::PrefixLm { loss_on_targets_only },
            "PrefixSuffixLMFeatureConverter" => Converter::PrefixSuffixLm { loss_on_targets_only },
            "DecoderFeatureConverter" => Converter::Decoder { loss_on_targets_only },
            "EncoderFeatureConverter" => Converter::Encoder { mask_id: self.id("mask_id") },
            "PassThroughFeatureConverter" => Converter::PassThrough,
            "PrePackedEncDecFeatureConverter" => Converter::PrepackedEncDec,
            other => panic!("no converter for {other}"),
        };
        let passthrough = self.passthrough().cloned().collect();
        Conversion { bos_id: self.id("bos_id"), passthrough, ..kind.into() }
    }

    fn passthrough(&self) -> impl Iterator<Item = &String> {
        self.kwargs
            .get("passthrough_features")
            .into_iter()
            .flat_map(|names| names.as_object().unwrap().keys())
    }

    /// The lengths, also of what is passed through: we know no array without one.
    fn lengths(&self) -> FeatureLengths {
        let mut lengths = self.task_feature_lengths.clone();
        lengths.extend(self.passthrough().map(|name| (name.clone(), 1)));
        lengths
    }

    fn packing(&self) -> Packing {
        // The one converter that has no argument `pack`.
        let default = self.converter != "PassThroughFeatureConverter";
        if self.flag("pack", default) { Packing::Greedy } else { Packing::None }
    }

    fn flag(&self, name: &str, default: bool) -> bool {
        self.kwargs.get(name).map_or(default, |flag| flag.as_bool().unwrap())
    }

    fn id(&self, name: &str) -> i32 {
        self.kwargs.get(name).map_or(0, |id| i32::try_from(id.as_i64().unwrap()).unwrap())
    }

    fn examples(&self) -> Vec<Example> {
        let mut examples = self.examples.clone();
        if self.trim_first {
            for (name, ids) in examples.iter_mut().flatten() {
                ids.truncate(self.task_feature_lengths.get(name).copied().unwrap_or(usize::MAX));
            }
        }
        examples
    }
}

#[test]
fn model_features_are_those_of_seqio() {
    let mut found = Vec::new();
    let (mut compared, mut refused) = (0, 0);
    for (line, case) in golden::lines::<Case>(FILE) {
        if case.set == "err_int64" {
            assert_int64_is_refused(&case);
            refused += 1;
            continue;
        }
        let request = Request {
            converter: case.converter(),
            lengths: &case.lengths(),
            packing: case.packing(),
            // The one converter that looks at no length.
            check_lengths: case.flag("apply_length_check", true)
                && case.converter().kind != Converter::PassThrough,
        };
        match (rows::rows(&request, &case.examples()), &case.output) {
            (Ok(ours), Some(expected)) => {
                let name = format!("{} of {}, {}", case.set, case.converter, case.packing());
                let (expected, ours) = (golden::by_feature(expected), rows::output(&ours));
                found.extend(golden::differences(FILE, line, &name, &expected, &ours));
                compared += 1;
            }
            (Err(error), None) => {
                assert!(error.to_string().len() > 40, "line {line}: {error}");
                refused += 1;
            }
            (Ok(_), None) => panic!("line {line}: SeqIO refuses what we accept"),
            (Err(error), Some(_)) => panic!("line {line}: we refuse what SeqIO accepts: {error}"),
        }
    }
    assert_eq!((compared, refused), (200, 14), "lines compared, and refused by both");
    golden::assert_listed(FILE, found);
    golden::assert_counts(FILE, 214, 42);
}

/// Ids of another type never get as far as a converter: the steps refuse them when the task is defined.
fn assert_int64_is_refused(case: &Case) {
    let special = SpecialIds { pad: 0, eos: Some(1), bos: None, unk: None };
    let vocabulary = Arc::new(PassThroughVocabulary::new(100, 0, true, special).unwrap());
    let feature = Feature { vocabulary, vocabulary_name: "ids".to_owned(), add_eos: true, required: true };
    let names = || case.task_feature_lengths.keys().cloned();
    let ctx = StepContext {
        output_features: names().map(|name| (name, feature.clone())).collect(),
        lengths: case.task_feature_lengths.clone(),
        ..StepContext::default()
    };
    let int64 = DataType::List(Arc::new(Field::new_list_field(DataType::Int64, true)));
    let fields: Vec<Field> = names().map(|name| Field::new(name, int64.clone(), false)).collect();
    let error = Trim::default().output_schema(&Arc::new(Schema::new(fields)), &ctx).unwrap_err();
    assert!(error.to_string().contains("needs `inputs` to be"), "{error}");
}

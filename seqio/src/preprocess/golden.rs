//! The steps on the answers of SeqIO and T5.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int32Builder, Int64Array, ListBuilder, RecordBatch, StringArray,
    StringBuilder,
};
use arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type};
use serde_json::{Map, Value, json};

use crate::example::Examples;
use crate::feature::FeatureLengths;
use crate::preprocess::{
    AppendEos, AppendEosAfterTrim, Format, PreprocessError, Preprocessor, Select, Step, StepContext, Tokenize,
};
use crate::testing::{assert_step_laws, context, rows};
use crate::vocabulary::golden::{bytes, ids, rows as golden_rows};
use crate::vocabulary::{SharedVocabulary, VocabularySpec};

/// Rows that have another answer here, by function, with the reason.
const DIFFERENCES: &[(&str, &str)] = &[
    ("random_split_text", "the lengths are drawn from TensorFlow's generator there"),
    ("fill_in_the_blank", "the cuts are drawn from TensorFlow's generator there"),
    ("seqio.truncate_inputs_left", "it edits sequences below the boundary: no text step"),
    ("seqio.tokenize rank 2", "a feature is one sequence of ids for each example"),
];

#[test]
fn steps_answer_as_seqio_and_t5_do() {
    let (mut same, mut different) = (0, Vec::new());
    for case in golden_rows("seqio/text_preprocessors.jsonl") {
        let name = case["fn"].as_str().unwrap();
        if DIFFERENCES.iter().any(|(different, _)| *different == name) {
            different.push(name.to_owned());
            continue;
        }
        for (steps, expected) in answers(name, &case) {
            let input = examples(case["examples"].as_array().unwrap());
            let found = run(&steps, input, &step_context(&case["kwargs"]));
            match (found, expected) {
                (Ok(found), Some(expected)) => {
                    assert_eq!(rows_of(&found), expected, "{name} {}", case["kwargs"])
                }
                (Err(_), None) => {}
                (Ok(found), None) => panic!("{name} must be refused, but gave {:?}", rows_of(&found)),
                (Err(error), Some(_)) => panic!("{name} {}: {error}", case["kwargs"]),
            }
        }
        same += 1;
    }
    assert_eq!(same, 30);
    assert_eq!(different, DIFFERENCES.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>());
}

/// Some steps, and the rows that they must give; `None` for an error.
type Answer = (Vec<Arc<dyn Preprocessor>>, Option<Vec<Value>>);

/// The steps that do what a function does with the settings of a case, and the rows they must give.
fn answers(name: &str, case: &Value) -> Vec<Answer> {
    let kwargs = &case["kwargs"];
    let output = |value: &Value| value.as_array().cloned();
    let one = |step: Value| vec![(vec![made(step)], output(&case["output"]))];
    match name {
        "squad" => {
            let contexts = kwargs["include_context"].as_array().unwrap();
            let each = contexts.iter().zip(case["output"].as_array().unwrap());
            let step = |context: &Value| vec![made(json!({ "op": "squad", "include_context": context }))];
            each.map(|(context, expected)| (step(context), output(expected))).collect()
        }
        "seqio.rekey" => {
            // TOML has no null: SeqIO's `None` is an empty old name here.
            let old = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let map = kwargs["key_map"].as_object().unwrap().iter();
            let map: BTreeMap<String, String> = map.map(|(new, value)| (new.clone(), old(value))).collect();
            one(json!({ "op": "rekey", "to_from": map }))
        }
        "seqio.preprocess_tensorflow_examples" => {
            let set = [("inputs", &kwargs["inputs_format"]), ("targets", &kwargs["targets_format"])];
            let set = set.map(|(column, format)| (column, braced(format.as_str().unwrap(), &["q", "a"])));
            let steps: [Arc<dyn Preprocessor>; 2] =
                [Arc::new(Format::new(set)), Arc::new(Select::new(["inputs", "targets"]))];
            vec![(steps.to_vec(), output(&case["output"]))]
        }
        "seqio.tokenize" => {
            let keep = kwargs["copy_pretokenized"].as_bool().unwrap();
            let mut steps: Vec<Arc<dyn Preprocessor>> = vec![Arc::new(Tokenize { keep_pretokenized: keep })];
            if kwargs["with_eos"].as_bool().unwrap() {
                steps.push(Arc::new(AppendEos::default()));
            }
            vec![(steps, output(&case["output"]))]
        }
        "seqio.append_eos" => vec![(vec![Arc::new(AppendEos::default())], output(&case["output"]))],
        "seqio.append_eos_after_trim" => {
            vec![(vec![Arc::new(AppendEosAfterTrim::default())], output(&case["output"]))]
        }
        "parse_tsv" | "preprocess_tsv" => {
            let mut step = kwargs.clone();
            step["op"] = name.into();
            step["text_key"] = "line".into();
            one(step)
        }
        _ => {
            let mut step = kwargs.clone();
            step["op"] = name.into();
            one(step)
        }
    }
}

/// SeqIO leaves braces that name no column as they are; here they are written twice.
fn braced(format: &str, columns: &[&str]) -> String {
    let mut template = format.replace('{', "{{").replace('}', "}}");
    for column in columns {
        template = template.replace(&format!("{{{{{column}}}}}"), &format!("{{{column}}}"));
    }
    template
}

pub(super) fn made(step: Value) -> Arc<dyn Preprocessor> {
    let step: Step = serde_json::from_value(step.clone()).unwrap_or_else(|error| panic!("{error}: {step}"));
    assert!(!matches!(step, Step::Custom(_)), "{step:?} is a step");
    step.preprocessor(&Default::default()).unwrap().unwrap()
}

pub(super) fn run(
    steps: &[Arc<dyn Preprocessor>],
    input: Examples,
    ctx: &StepContext,
) -> Result<Examples, PreprocessError> {
    let mut examples = input;
    for step in steps {
        step.output_schema(&examples.columns.schema(), ctx)?;
        let output = step.apply(examples.clone(), ctx)?;
        assert_step_laws(step.as_ref(), ctx, &Examples { counts: BTreeMap::new(), ..examples });
        examples = output;
    }
    Ok(examples)
}

fn vocabulary(model: &str) -> SharedVocabulary {
    let spec: VocabularySpec = serde_json::from_value(json!({ "sentencepiece": "a.model" })).unwrap();
    spec.open(Some(bytes(&format!("seqio/models/{model}.model")))).unwrap()
}

fn step_context(kwargs: &Value) -> StepContext {
    let mut ctx = StepContext::default();
    for (name, feature) in kwargs["output_features"].as_object().into_iter().flatten() {
        let mut one = context(name, Some(1));
        let made = one.output_features.get_mut(name).unwrap();
        made.add_eos = feature["add_eos"].as_bool().unwrap();
        if let Some(model) = kwargs["model"].as_str() {
            made.vocabulary = vocabulary(model);
        }
        ctx.output_features.append(&mut one.output_features);
    }
    let lengths = kwargs["sequence_length"].as_object().into_iter().flatten();
    ctx.lengths = lengths
        .map(|(name, length)| (name.clone(), length.as_u64().unwrap() as usize))
        .collect::<FeatureLengths>();
    ctx
}

/// The examples of a case as columns. `answers = { text = [...] }` becomes the list.
pub(super) fn examples(cases: &[Value]) -> Examples {
    let names = cases[0].as_object().unwrap().keys();
    let column = |name: &String| -> (String, ArrayRef) {
        let value = |case: &Value| match case[name].get("text") {
            Some(texts) => texts.clone(),
            None => case[name].clone(),
        };
        let values: Vec<Value> = cases.iter().map(value).collect();
        let column: ArrayRef = match &values[0] {
            Value::String(_) => {
                Arc::new(StringArray::from_iter_values(values.iter().map(|text| text.as_str().unwrap())))
            }
            Value::Number(_) if values.iter().all(Value::is_i64) => {
                Arc::new(Int64Array::from_iter_values(values.iter().map(|number| number.as_i64().unwrap())))
            }
            Value::Number(_) => {
                Arc::new(Float64Array::from_iter_values(values.iter().map(|number| number.as_f64().unwrap())))
            }
            Value::Array(items) if items.first().is_some_and(Value::is_string) => {
                let mut lists = ListBuilder::new(StringBuilder::new());
                for value in &values {
                    let texts = value.as_array().unwrap();
                    texts.iter().for_each(|text| lists.values().append_value(text.as_str().unwrap()));
                    lists.append(true);
                }
                Arc::new(lists.finish())
            }
            _ => {
                let mut lists = ListBuilder::new(Int32Builder::new());
                for value in &values {
                    lists.values().append_slice(&ids(value));
                    lists.append(true);
                }
                Arc::new(lists.finish())
            }
        };
        (name.clone(), column)
    };
    let columns = RecordBatch::try_from_iter(names.map(column)).unwrap();
    Examples::new(columns, rows(cases.len()))
}

pub(super) fn rows_of(examples: &Examples) -> Vec<Value> {
    let schema = examples.columns.schema();
    let row = |row: usize| {
        let cells = schema.fields().iter().zip(examples.columns.columns());
        Value::Object(
            cells.map(|(field, column)| (field.name().clone(), cell(column, row))).collect::<Map<_, _>>(),
        )
    };
    (0..examples.len()).map(row).collect()
}

fn cell(column: &ArrayRef, row: usize) -> Value {
    match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().value(row).into(),
        DataType::Int32 => column.as_primitive::<Int32Type>().value(row).into(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).into(),
        DataType::Float64 => column.as_primitive::<Float64Type>().value(row).into(),
        DataType::List(_) => {
            let items = column.as_list::<i32>().value(row);
            (0..items.len()).map(|item| cell(&items, item)).collect::<Vec<_>>().into()
        }
        other => panic!("{other}"),
    }
}

//! The steps on SeqIO's own answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Builder, ListBuilder, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Int32Type};
use serde_json::{Map, Value};

use crate::example::Examples;
use crate::feature::FeatureLengths;
use crate::preprocess::{AppendEos, AppendEosAfterTrim, Preprocessor, Rekey, StepContext};
use crate::testing::{assert_step_laws, context, rows};
use crate::vocabulary::golden::{ids, rows as golden_rows};

#[test]
fn steps_answer_as_seqio_does() {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for case in golden_rows("seqio/steps.jsonl") {
        let name = case["fn"].as_str().unwrap();
        *seen.entry(name.to_owned()).or_default() += 1;
        let kwargs = &case["kwargs"];
        let step: Box<dyn Preprocessor> = match name {
            "seqio.rekey" => Box::new(rekey(&kwargs["key_map"])),
            "seqio.append_eos" => Box::new(AppendEos::default()),
            "seqio.append_eos_after_trim" => Box::new(AppendEosAfterTrim::default()),
            other => panic!("no step answers for `{other}`"),
        };
        let ctx = step_context(kwargs);
        let input = examples(case["examples"].as_array().unwrap());
        assert_step_laws(step.as_ref(), &ctx, &input);
        let output = step.apply(input, &ctx).unwrap();
        assert_eq!(rows_of(&output), *case["output"].as_array().unwrap(), "{name} {kwargs}");
    }
    let seen: Vec<_> = seen.iter().map(|(name, count)| (name.as_str(), *count)).collect();
    assert_eq!(seen, [("seqio.append_eos", 1), ("seqio.append_eos_after_trim", 5), ("seqio.rekey", 1)]);
}

/// TOML has no null: SeqIO's `None` is an empty old name here.
fn rekey(key_map: &Value) -> Rekey {
    let old = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Rekey::new(key_map.as_object().unwrap().iter().map(|(new, value)| (new.clone(), old(value))))
}

fn step_context(kwargs: &Value) -> StepContext {
    let mut ctx = StepContext::default();
    for (name, feature) in kwargs["output_features"].as_object().into_iter().flatten() {
        let mut one = context(name, Some(1));
        one.output_features.get_mut(name).unwrap().add_eos = feature["add_eos"].as_bool().unwrap();
        ctx.output_features.append(&mut one.output_features);
    }
    let lengths = kwargs["sequence_length"].as_object().into_iter().flatten();
    ctx.lengths = lengths
        .map(|(name, length)| (name.clone(), length.as_u64().unwrap() as usize))
        .collect::<FeatureLengths>();
    ctx
}

fn examples(cases: &[Value]) -> Examples {
    let names = cases[0].as_object().unwrap().keys();
    let column = |name: &String| -> (String, ArrayRef) {
        let values = cases.iter().map(|case| &case[name]);
        if cases[0][name].is_string() {
            return (
                name.clone(),
                Arc::new(StringArray::from_iter_values(values.map(|text| text.as_str().unwrap()))),
            );
        }
        let mut lists = ListBuilder::new(Int32Builder::new());
        for value in values {
            lists.values().append_slice(&ids(value));
            lists.append(true);
        }
        (name.clone(), Arc::new(lists.finish()))
    };
    let columns = RecordBatch::try_from_iter(names.map(column)).unwrap();
    Examples::new(columns, rows(cases.len()))
}

fn rows_of(examples: &Examples) -> Vec<Value> {
    let schema = examples.columns.schema();
    let cell = |column: &ArrayRef, row: usize| match column.data_type() {
        DataType::Utf8 => Value::from(column.as_string::<i32>().value(row)),
        _ => Value::from(column.as_list::<i32>().value(row).as_primitive::<Int32Type>().values().to_vec()),
    };
    let row = |row: usize| {
        let cells = schema.fields().iter().zip(examples.columns.columns());
        Value::Object(
            cells.map(|(field, column)| (field.name().clone(), cell(column, row))).collect::<Map<_, _>>(),
        )
    };
    (0..examples.len()).map(row).collect()
}

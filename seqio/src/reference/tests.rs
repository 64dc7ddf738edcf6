//! The reference is complete: nothing can be added to task files without a word about it.

use serde_json::Value;

use super::*;
use crate::preprocess::Step;
use crate::source::SourceSpec;
use crate::vocabulary::VocabularySpec;

const HOW: &str = "give it a doc comment, and `#[schemars(example = …)]`; a key with a default says it by `#[serde(default)]` \
                   or `#[schemars(extend(\"default\" = …))]`, in words by `extend(\"x-default\" = \"…\")`; see `task/spec.rs`";

fn of_part(part: Part) -> Vec<Topic> {
    Reference::new().topics.into_iter().filter(|topic| topic.part == part).collect()
}

fn value_of(example: &str) -> Value {
    let (_, value) = example.split_once(" = ").unwrap();
    let table: toml::Table = toml::from_str(&format!("value = {value}")).unwrap();
    serde_json::to_value(&table["value"]).unwrap()
}

#[test]
fn everything_has_a_meaning_and_an_example() {
    for topic in Reference::new().topics {
        let name = &topic.name;
        assert!(!topic.meaning.is_empty(), "`{name}` has no description: {HOW}");
        for key in topic.kinds.iter().chain(&topic.keys) {
            assert!(!key.meaning.is_empty(), "key `{}` of `{name}` has no description: {HOW}", key.name);
            assert!(!key.value.is_empty(), "key `{}` of `{name}` has no type: {HOW}", key.name);
            let is_optional = key.required || key.default.is_some();
            assert!(
                is_optional || !topic.keys.contains(key) || topic.part == Part::ColumnType,
                "key `{}` of `{name}` has no default: {HOW}",
                key.name
            );
            let has_example =
                key.example.is_some() || topic.part == Part::ColumnType || topic.example.is_some();
            assert!(has_example, "key `{}` of `{name}` has no example: {HOW}", key.name);
        }
    }
}

#[test]
fn every_step_is_there_with_an_example_that_reads_as_that_step() {
    let steps = of_part(Part::Step);
    for (op, summary) in Step::TABLE {
        let topic =
            steps.iter().find(|topic| topic.name == *op).unwrap_or_else(|| panic!("`{op}` is not there"));
        assert!(topic.meaning.to_lowercase().starts_with(&summary.to_lowercase()), "{topic:?}");
        let example = topic.example.as_ref().unwrap_or_else(|| panic!("step `{op}` has no example: {HOW}"));
        let step: Step = serde_json::from_value(value_of(&format!("step = {example}")))
            .unwrap_or_else(|error| panic!("the example of `{op}` is no step: {error}: {example}"));
        assert_eq!(step.op(), *op);
        assert!(!matches!(step, Step::Custom(_)));
    }
}

/// Reads a table of a kind, with one more key.
fn reads<T: serde::de::DeserializeOwned>(kind: &Key, key: Option<&Key>) -> Result<T, String> {
    reads_all(&[Some(kind), key].into_iter().flatten().collect::<Vec<_>>())
}

fn reads_all<T: serde::de::DeserializeOwned>(keys: &[&Key]) -> Result<T, String> {
    let mut table = serde_json::Map::new();
    for key in keys {
        table.insert(key.name.clone(), value_of(key.example.as_ref().unwrap()));
    }
    serde_json::from_value(Value::Object(table)).map_err(|error| error.to_string())
}

fn examples_read<T: serde::de::DeserializeOwned + std::fmt::Debug>(topic: &Topic) {
    for kind in &topic.kinds {
        // Some kinds need another key beside them.
        let beside = topic.keys.iter().map(Some);
        let results: Vec<_> = std::iter::once(None).chain(beside).map(|key| reads::<T>(kind, key)).collect();
        assert!(results.iter().any(Result::is_ok), "the example of `{}`: {results:?}", kind.name);
    }
    // One key, alone or with another that it needs.
    let combinations = topic.kinds.iter().flat_map(|kind| topic.keys.iter().map(move |other| (kind, other)));
    for key in &topic.keys {
        let fits = |(kind, other): (&Key, &Key)| reads_all::<T>(&[kind, other, key]).is_ok();
        assert!(combinations.clone().any(fits), "the example of `{}` fits no kind", key.name);
    }
}

#[test]
fn the_examples_of_sources_and_vocabularies_are_read() {
    examples_read::<SourceSpec>(&of_part(Part::Source)[0]);
    examples_read::<VocabularySpec>(&of_part(Part::Vocabulary)[0]);
}

#[test]
fn the_kinds_are_those_that_the_reader_of_task_files_names() {
    for (topic, message) in [
        (&of_part(Part::Source)[0], serde_json::from_str::<SourceSpec>("{}").unwrap_err().to_string()),
        (
            &of_part(Part::Vocabulary)[0],
            serde_json::from_str::<VocabularySpec>("{}").unwrap_err().to_string(),
        ),
    ] {
        for kind in &topic.kinds {
            assert!(
                message.contains(&format!("`{}`", kind.name)),
                "`{}` is not in: {message}; {HOW}",
                kind.name
            );
        }
        let known = message.split('`').skip(1).step_by(2);
        for name in known.filter(|name| *name != "nothing") {
            assert!(
                topic.kinds.iter().any(|kind| kind.name == name),
                "`{name}` has a default, so it is no kind"
            );
        }
    }
}

#[test]
fn an_entry_is_found_by_its_name() {
    let reference = Reference::new();
    let about = reference.about("append_eos");
    assert_eq!((about.len(), about[0].part), (1, Part::Step));
    let features = reference.about("features");
    assert!(features.len() >= 4, "the table, the key of tasks, and the settings of steps: {features:?}");
    assert!(features[1].keys.iter().all(|key| key.name == "features"));
    assert!(reference.about("trimm").is_empty());
    assert!(reference.names().contains(&"jsonl"));
}

/// What an editor does with the schema, in the part that our schema uses.
fn fits(schema: &Value, value: &Value) -> bool {
    let all = |word: &str| schema[word].as_array().into_iter().flatten();
    let type_fits = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        _ => true,
    };
    let table = value.as_object();
    let entries_fit = table.into_iter().flatten().all(|(key, value)| {
        match (schema["properties"].get(key), &schema["additionalProperties"]) {
            (Some(inner), _) => fits(inner, value),
            (None, Value::Bool(more)) => *more,
            (None, inner) => fits(inner, value),
        }
    });
    type_fits
        && entries_fit
        && schema.get("const").is_none_or(|constant| constant == value)
        && schema
            .get("enum")
            .is_none_or(|values| values.as_array().is_some_and(|values| values.contains(value)))
        && all("required").all(|key| key.as_str().is_some_and(|key| value.get(key).is_some()))
        && value
            .as_array()
            .into_iter()
            .flatten()
            .all(|item| schema.get("items").is_none_or(|inner| fits(inner, item)))
        && (schema.get("anyOf").is_none() || all("anyOf").any(|inner| fits(inner, value)))
        && (schema.get("oneOf").is_none() || all("oneOf").filter(|inner| fits(inner, value)).count() == 1)
}

#[test]
fn the_documented_task_files_fit_the_schema_and_mistaken_ones_do_not() {
    let schema = task_file_schema();
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/task-files.md");
    let text = std::fs::read_to_string(path).unwrap();
    let blocks = text.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let mut count = 0;
    for block in blocks {
        let file: Value = toml::from_str(block).unwrap();
        assert!(fits(&schema, &file), "{block}");
        let mut mistaken = file.clone();
        mistaken["vocabulary"]["mistaken"] = serde_json::json!({ "bytes": true });
        assert!(!fits(&schema, &mistaken), "{block}");
        count += 1;
    }
    assert!(count >= 4);
    let wrong = [
        r#"[vocabulary.v]
           byte = true
           pass_through = 7"#,
        r#"[task.t]
           source = { jsonl = { train = "a" } }
           features = { targets = { vocabulary = "v" } }
           steps = [{ op = "trimm" }]"#,
        r#"[task.t]
           source = { jsonl = { train = "a" }, columns = { a = "str" } }
           features = {}"#,
    ];
    for text in wrong {
        assert!(!fits(&schema, &toml::from_str(text).unwrap()), "{text}");
    }
}

#[test]
fn the_schema_has_nothing_that_only_we_read() {
    let text = task_file_schema().to_string();
    assert!(!text.contains("\"x-") && !text.contains("\"type\":\"null\""), "{text}");
}

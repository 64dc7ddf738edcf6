//! From the annotated schema of task files to the topics of the reference.

use serde_json::Value;

use crate::reference::inline::inline;
use crate::reference::{Choice, Key, Part, Reference, Topic};

/// Reads the whole schema.
pub(super) fn reference(schema: &Value) -> Reference {
    let table = |key: &str| &schema["properties"][key]["additionalProperties"];
    let (vocabulary, task) = (table("vocabulary"), table("task"));
    let source = &task["properties"]["source"];
    let feature = &task["properties"]["features"]["additionalProperties"];
    let steps = task["properties"]["steps"]["items"]["oneOf"].as_array();

    let mut topics = Vec::new();
    with_inner(&mut topics, topic(Part::Vocabulary, "vocabulary", vocabulary), vocabulary);
    topics.push(topic(Part::Task, "task", task));
    with_inner(&mut topics, topic(Part::Source, "source", source), source);
    topics.push(column_types(&source["properties"]["columns"]["additionalProperties"]));
    topics.push(topic(Part::Feature, "features", feature));
    for step in steps.into_iter().flatten() {
        let name = step["title"].as_str().unwrap_or_default();
        let mut read = topic(Part::Step, name, step);
        read.keys.retain(|key| key.name != "op");
        with_inner(&mut topics, read, step);
    }
    Reference { topics }
}

/// A table's keys, required ones first.
fn topic(part: Part, name: &str, table: &Value) -> Topic {
    let mut keys: Vec<Key> = properties(table).map(|(name, node)| key(table, name, node)).collect();
    keys.sort_by(|a, b| (!a.required, &a.name).cmp(&(!b.required, &b.name)));
    let (kinds, keys) = match (part, name) {
        (Part::Vocabulary, "vocabulary") | (Part::Source, "source" | "tables") => {
            keys.into_iter().partition(|key| !key.required && key.default.is_none())
        }
        _ => (Vec::new(), keys),
    };
    let example = first_example(table).map(inline);
    Topic { part, name: name.to_owned(), meaning: description(table), example, kinds, keys }
}

/// The topic, and one more for each key of it whose value is a table with keys of its own.
fn with_inner(topics: &mut Vec<Topic>, read: Topic, table: &Value) {
    let part = read.part;
    topics.push(read);
    for (name, node) in properties(table) {
        for inner in tables_in(node) {
            topics.push(Topic { example: None, ..topic(part, name, inner) });
        }
    }
}

/// Tables with named keys that a value is or holds.
fn tables_in(node: &Value) -> Vec<&Value> {
    if node.get("properties").is_some() {
        return vec![node];
    }
    let alternatives = ["anyOf", "oneOf"].into_iter().filter_map(|word| node[word].as_array()).flatten();
    let inner = [&node["additionalProperties"], &node["items"]];
    alternatives.chain(inner).filter(|node| node.is_object()).flat_map(tables_in).collect()
}

fn key(table: &Value, name: &str, node: &Value) -> Key {
    let default = node.get("default").map(|value| format!("`{}`", inline(value)));
    let in_words = node["x-default"].as_str().map(str::to_owned);
    Key {
        name: name.to_owned(),
        value: type_in_words(node),
        required: is_required(table, name),
        default: default.or(in_words),
        meaning: description(node),
        choices: choices(node),
        example: first_example(node).map(|value| format!("{name} = {}", inline(value))),
    }
}

fn column_types(node: &Value) -> Topic {
    let types = choices(node).into_iter().filter(|choice| !choice.value.ends_with("?\""));
    let key = |choice: Choice| Key {
        name: choice.value.trim_matches('"').to_owned(),
        value: choice.value,
        required: false,
        default: None,
        meaning: choice.meaning,
        choices: Vec::new(),
        example: None,
    };
    Topic {
        part: Part::ColumnType,
        name: "columns".to_owned(),
        meaning: "The types of columns. With `?` at the end (`\"string?\"`) records may lack the column, and then have a null."
            .to_owned(),
        example: None,
        kinds: Vec::new(),
        keys: types.map(key).collect(),
    }
}

/// Named keys of a table.
pub(super) fn properties(table: &Value) -> impl Iterator<Item = (&str, &Value)> {
    table["properties"].as_object().into_iter().flatten().map(|(name, node)| (name.as_str(), node))
}

/// Whether a key says what kind the table is: it need not be there, and nothing holds without it.
pub(super) fn is_kind(table: &Value, name: &str, node: &Value) -> bool {
    !is_required(table, name) && node.get("default").is_none() && node.get("x-default").is_none()
}

fn is_required(table: &Value, name: &str) -> bool {
    table["required"].as_array().is_some_and(|names| names.iter().any(|required| required == name))
}

fn description(node: &Value) -> String {
    node["description"].as_str().unwrap_or_default().to_owned()
}

fn first_example(node: &Value) -> Option<&Value> {
    node["examples"].as_array()?.first()
}

/// The values of an enumeration.
fn choices(node: &Value) -> Vec<Choice> {
    let named = node["oneOf"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|one| Some(Choice { value: inline(one.get("const")?), meaning: description(one) }));
    let bare = node["enum"].as_array().into_iter().flatten();
    named.chain(bare.map(|value| Choice { value: inline(value), meaning: String::new() })).collect()
}

fn type_in_words(node: &Value) -> String {
    if let Some(words) = node["x-type"].as_str() {
        return words.to_owned();
    }
    let choices = choices(node);
    if !choices.is_empty() {
        let values: Vec<String> = choices.iter().map(|choice| format!("`{}`", choice.value)).collect();
        return values.join(" or ");
    }
    let alternatives = ["anyOf", "oneOf"].into_iter().filter_map(|word| node[word].as_array()).flatten();
    let alternatives: Vec<String> = alternatives.map(type_in_words).collect();
    match node["type"].as_str() {
        Some("string") => "text".to_owned(),
        Some("boolean") => "`true` or `false`".to_owned(),
        Some("integer") => "whole number".to_owned(),
        Some("number") => "number".to_owned(),
        Some("array") => format!("list of {}", type_in_words(&node["items"])),
        Some("object") if node["additionalProperties"].is_object() => {
            format!("table of name = {}", type_in_words(&node["additionalProperties"]))
        }
        Some("object") => "table".to_owned(),
        _ => alternatives.join(" or "),
    }
}

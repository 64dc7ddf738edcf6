//! The JSON Schema of task files, from the types that read them.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::reference::read::{is_kind, properties};
use crate::task::TaskFile;

/// The JSON Schema (draft 7) of task files, for editors: it completes keys, shows what they mean and marks what does
/// not belong.
///
/// Steps that a program adds by itself are unknown to it.
pub fn task_file_schema() -> Value {
    let mut schema = annotated();
    if let Some(root) = schema.as_object_mut() {
        root.insert("title".to_owned(), json!("seqio task file"));
    }
    strip_annotations(&mut schema);
    schema
}

/// The schema with our annotations: `x-type`, `x-default` and `x-summary`.
pub(super) fn annotated() -> Value {
    let settings = SchemaSettings::draft07().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<TaskFile>().to_value();
    tidy(&mut schema);
    for way in [&["vocabulary"][..], &["task", "source"], &["task", "source", "tables"]] {
        if let Some(table) = table_at(&mut schema, way) {
            one_kind(table);
        }
    }
    schema
}

/// The table that stands at a way of keys, names left out.
fn table_at<'a>(schema: &'a mut Value, way: &[&str]) -> Option<&'a mut Value> {
    way.iter().try_fold(schema, |node, key| {
        let node = node.get_mut("properties")?.get_mut(*key)?;
        if node.get("properties").is_none() { node.get_mut("additionalProperties") } else { Some(node) }
    })
}

/// Demands exactly one of the keys that name a kind.
fn one_kind(table: &mut Value) {
    let kinds: Vec<Value> = properties(table)
        .filter(|(name, key)| is_kind(table, name, key))
        .map(|(name, _)| json!({ "required": [name] }))
        .collect();
    table["oneOf"] = Value::Array(kinds);
}

/// Calls `change` for each schema directly inside a schema.
fn each_inner(schema: &mut Map<String, Value>, change: &mut dyn FnMut(&mut Value)) {
    for (word, value) in schema {
        match (word.as_str(), value) {
            ("properties", Value::Object(named)) => named.values_mut().for_each(&mut *change),
            ("oneOf" | "anyOf" | "allOf", Value::Array(all)) => all.iter_mut().for_each(&mut *change),
            ("items" | "additionalProperties", inner) => change(inner),
            _ => {}
        }
    }
}

/// TOML has no null, and documentation is for people who do not read Rust.
fn tidy(node: &mut Value) {
    let Value::Object(schema) = node else { return };
    schema.remove("format");
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(alternatives)) = schema.get_mut("anyOf") {
        alternatives.retain(|alternative| alternative.get("type") != Some(&json!("null")));
        if let [Value::Object(only)] = alternatives.as_slice() {
            // What is said of the key goes before what is said of its type.
            let mut merged = only.clone();
            schema.remove("anyOf");
            merged.extend(std::mem::take(schema));
            *schema = merged;
        }
    }
    if let Some(Value::String(text)) = schema.get("description") {
        let text = plain(text);
        schema.insert("description".to_owned(), text.into());
    }
    each_inner(schema, &mut tidy);
}

/// Documentation as one line a paragraph, without code blocks and links.
fn plain(text: &str) -> String {
    let outside = text.split("```").step_by(2).collect::<String>();
    let paragraphs =
        outside.split("\n\n").map(|lines| lines.split_whitespace().collect::<Vec<_>>().join(" "));
    let text = paragraphs.filter(|paragraph| !paragraph.is_empty()).collect::<Vec<_>>().join("\n\n");
    text.replace("[`", "`").replace("`]", "`")
}

fn strip_annotations(node: &mut Value) {
    let Value::Object(schema) = node else { return };
    schema.retain(|key, _| !key.starts_with("x-"));
    each_inner(schema, &mut strip_annotations);
}

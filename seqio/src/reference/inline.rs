//! Values as they are written in task files: TOML on one line.
//!
//! ```text
//! {"to_from":{"targets":"text"}}   ->   { to_from = { targets = "text" } }
//! ```

use serde_json::Value;

/// A value as TOML on one line. Nulls, which TOML does not have, are left out of tables.
pub fn inline(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => string(text),
        Value::Array(items) => format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", ")),
        Value::Object(table) => {
            let mut entries: Vec<(&String, &Value)> =
                table.iter().filter(|(_, value)| !value.is_null()).collect();
            // A step is known by its `op`.
            entries.sort_by_key(|(key, _)| (*key != "op", key.as_str()));
            let entries: Vec<String> = entries
                .iter()
                .map(|(key, value)| format!("{} = {}", bare_or_quoted(key), inline(value)))
                .collect();
            if entries.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", entries.join(", ")) }
        }
    }
}

/// A key as TOML has it: bare where it can be.
pub fn bare_or_quoted(key: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if !key.is_empty() && key.bytes().all(is_bare) { key.to_owned() } else { string(key) }
}

/// A basic string: JSON writes them as TOML reads them, but for DEL.
fn string(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_value_reads_back_as_it_was() {
        for value in [
            json!({ "op": "rekey", "a b": [1, 2.5, true], "t": { "x": "q\"\\\n\u{7f}é\u{1}" }, "empty": {} }),
            json!({ "list": ["train", "validation"], "": "" }),
        ] {
            let text = inline(&value);
            let read: toml::Table = toml::from_str(&format!("value = {text}")).unwrap();
            assert_eq!(serde_json::to_value(&read["value"]).unwrap(), value, "{text}");
        }
        assert_eq!(inline(&json!({ "b": 1, "op": "x" })), "{ op = \"x\", b = 1 }");
    }
}

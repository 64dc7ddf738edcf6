//! JSON text to the values that templates see and back: keys in their order, and JSON as Python writes it.
//!
//! ```text
//! {"b": 1, "a": "é"}   <->   {'b': 1, 'a': 'é'}        {{ x | tojson }} writes {"b": 1, "a": "é"}
//! ```

use std::fmt;

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, Value};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// Makes of a string what the template is to see, or says why it cannot.
pub(super) type ReadString<'a> = dyn Fn(&str) -> Result<String, String> + 'a;

/// Reads JSON text; every string that is not a key goes through `read`.
pub(super) fn parse(text: &str, read: &ReadString<'_>) -> Result<Value, serde_json::Error> {
    let mut json = serde_json::Deserializer::from_str(text);
    let value = Reader { read }.deserialize(&mut json)?;
    json.end()?;
    Ok(value)
}

#[derive(Clone, Copy)]
struct Reader<'a> {
    read: &'a ReadString<'a>,
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::from(()))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Value, E> {
        (self.read)(value).map(Value::from).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut items: Vec<Value> = Vec::new();
        while let Some(item) = list.next_element_seed(self)? {
            items.push(item);
        }
        Ok(Value::from(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries: Vec<(String, Value)> = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            entries.push((key, map.next_value_seed(self)?));
        }
        Ok(Value::from_pairs(entries))
    }
}

/// A value of a definition, as templates see it.
pub(super) fn of_setting(value: &serde_json::Value) -> Value {
    match value {
        serde_json::Value::Null => Value::from(()),
        serde_json::Value::Bool(value) => Value::from(*value),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => Value::from(value),
            (None, Some(value)) => Value::from(value),
            (None, None) => Value::from(number.as_f64().unwrap_or(f64::NAN)),
        },
        serde_json::Value::String(text) => Value::from(text.as_str()),
        serde_json::Value::Array(items) => Value::from(items.iter().map(of_setting).collect::<Vec<_>>()),
        serde_json::Value::Object(entries) => {
            Value::from_pairs(entries.iter().map(|(key, value)| (key.as_str(), of_setting(value))))
        }
    }
}

/// The filter `tojson` as Hugging Face defines it for chat templates: `json.dumps` of Python without escapes of
/// characters outside ASCII.
pub(super) fn tojson(value: &Value, kwargs: Kwargs) -> Result<String, Error> {
    let indent: Option<usize> = kwargs.get("indent")?;
    let escape: Option<bool> = kwargs.get("ensure_ascii")?;
    let sort: Option<bool> = kwargs.get("sort_keys")?;
    let separators: Option<Value> = kwargs.get("separators")?;
    kwargs.assert_all_used()?;
    let (mut between, mut after_key) =
        (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned());
    if let Some(separators) = separators {
        let given: Vec<Value> = separators.try_iter()?.collect();
        let [first, second] = &given[..] else {
            return Err(Error::new(ErrorKind::InvalidOperation, "`separators` is a pair of strings"));
        };
        (between, after_key) = (first.to_string(), second.to_string());
    }
    let style = Style {
        indent,
        escape: escape.unwrap_or(false),
        sort: sort.unwrap_or(false),
        between: &between,
        after_key: &after_key,
    };
    let mut json = String::new();
    style.write(value, 0, &mut json)?;
    Ok(json)
}

/// How `json.dumps` is asked to write.
struct Style<'a> {
    indent: Option<usize>,
    escape: bool,
    sort: bool,
    between: &'a str,
    after_key: &'a str,
}

impl Style<'_> {
    fn write(&self, value: &Value, depth: usize, json: &mut String) -> Result<(), Error> {
        match value.kind() {
            ValueKind::None => json.push_str("null"),
            ValueKind::Bool => json.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => json.push_str(&number(value)),
            ValueKind::String => self.string(value.as_str().unwrap_or_default(), json),
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Vec<Value> = value.try_iter()?.collect();
                self.block(['[', ']'], &items, depth, json, |item, json| self.write(item, depth + 1, json))?;
            }
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sort {
                    keys.sort();
                }
                self.block(['{', '}'], &keys, depth, json, |key, json| {
                    match key.as_str() {
                        Some(text) => self.string(text, json),
                        None => self.string(&number(key), json),
                    }
                    json.push_str(self.after_key);
                    self.write(&value.get_item(key)?, depth + 1, json)
                })?;
            }
            kind => {
                let problem = format!("`tojson` cannot write what is {kind}");
                return Err(Error::new(ErrorKind::InvalidOperation, problem));
            }
        }
        Ok(())
    }

    fn block(
        &self,
        [open, close]: [char; 2],
        items: &[Value],
        depth: usize,
        json: &mut String,
        write: impl Fn(&Value, &mut String) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let line = |depth: usize, json: &mut String| {
            if let (Some(indent), false) = (self.indent, items.is_empty()) {
                json.push('\n');
                json.push_str(&" ".repeat(indent.min(64) * depth));
            }
        };
        json.push(open);
        for (number, item) in items.iter().enumerate() {
            if number > 0 {
                json.push_str(self.between);
            }
            line(depth + 1, json);
            write(item, json)?;
        }
        line(depth, json);
        json.push(close);
        Ok(())
    }

    fn string(&self, text: &str, json: &mut String) {
        json.push('"');
        for c in text.chars() {
            match c {
                '"' => json.push_str("\\\""),
                '\\' => json.push_str("\\\\"),
                '\n' => json.push_str("\\n"),
                '\r' => json.push_str("\\r"),
                '\t' => json.push_str("\\t"),
                '\u{8}' => json.push_str("\\b"),
                '\u{c}' => json.push_str("\\f"),
                ..' ' => json.push_str(&format!("\\u{:04x}", c as u32)),
                // Marks, which are no text, go through as they are.
                _ if self.escape && !c.is_ascii() && !('\u{FDD0}'..='\u{FDD3}').contains(&c) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        json.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                c => json.push(c),
            }
        }
        json.push('"');
    }
}

/// A number as Python writes it: `1e+16` for a float from there on, `1e-05` below 0.0001.
fn number(value: &Value) -> String {
    if value.is_integer() || !value.is_number() {
        return value.to_string();
    }
    let Ok(float) = f64::try_from(value.clone()) else { return value.to_string() };
    if float.is_nan() {
        return "NaN".to_owned();
    }
    if float.is_infinite() {
        return if float > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let scientific = format!("{float:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    match exponent.parse::<i32>() {
        Ok(exponent) if float != 0.0 && !(-4..16).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        _ => format!("{float:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Value {
        parse(json, &|text| Ok(text.to_owned())).unwrap()
    }

    fn dumped(json: &str, kwargs: &[(&'static str, Value)]) -> String {
        let kwargs = Kwargs::from_iter(kwargs.iter().cloned());
        tojson(&read(json), kwargs).unwrap()
    }

    /// The right sides are what `json.dumps(json.loads(…), ensure_ascii=False, …)` of Python 3 gives.
    #[test]
    fn json_is_written_as_python_does() {
        for (json, python) in [
            (
                r#"{"b":1,"a":[true,null,"é\u0001\"\\/"],"c":{},"d":[]}"#,
                r#"{"b": 1, "a": [true, null, "é\u0001\"\\/"], "c": {}, "d": []}"#,
            ),
            (
                "[1.0,0.1,1e16,1e-5,123456789012345680.0,-0.0,1e300,12345678901234567890,0.0001]",
                "[1.0, 0.1, 1e+16, 1e-05, 1.2345678901234568e+17, -0.0, 1e+300, 12345678901234567890, 0.0001]",
            ),
            (r#""\b\f\n\r\t\u007f""#, "\"\\b\\f\\n\\r\\t\u{7f}\""),
        ] {
            assert_eq!(dumped(json, &[]), python);
        }
        let nested = r#"{"b":{"x":[1,{"y":[]}]},"a":{}}"#;
        assert_eq!(
            dumped(nested, &[("indent", Value::from(2))]),
            "{\n  \"b\": {\n    \"x\": [\n      1,\n      {\n        \"y\": []\n      }\n    ]\n  },\n  \"a\": {}\n}"
        );
        assert_eq!(
            dumped(nested, &[("sort_keys", Value::from(true))]),
            r#"{"a": {}, "b": {"x": [1, {"y": []}]}}"#
        );
        assert_eq!(dumped("\"é🙂\"", &[("ensure_ascii", Value::from(true))]), r#""\u00e9\ud83d\ude42""#);
        let tight = Value::from(vec![",", ":"]);
        assert_eq!(dumped(nested, &[("separators", tight)]), nested);
    }

    #[test]
    fn strings_are_read_as_asked_but_keys_are_not() {
        let value = parse(r#"{"a": ["b", {"c": "d"}]}"#, &|text| Ok(format!("<{text}>"))).unwrap();
        assert_eq!(
            tojson(&value, Kwargs::from_iter([("indent", Value::from(()))])).unwrap(),
            r#"{"a": ["<b>", {"c": "<d>"}]}"#
        );
        let error = parse("[1, \"x\"]", &|_| Err("no".to_owned())).unwrap_err().to_string();
        assert!(error.starts_with("no"), "{error}");
    }
}

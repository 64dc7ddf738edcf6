//! Keys: the values that name a row of a query's result, in place of file and line.
//!
//! ```text
//! key = ["id", "part"]   ->   id=5, part="a"      the text that is kept and shown
//!                        ->   i5 sa                what example ids are made of, besides the source's name
//! ```

use std::fmt;
use std::str::FromStr;

use crate::text::quoted;

/// One value of a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyValue {
    /// A text.
    Text(String),
    /// A whole number.
    Number(i64),
    /// True or false.
    Flag(bool),
}

impl KeyValue {
    /// What ids are made of: a letter for the kind, then the text or a number of 64 bits, so that the width of a column
    /// of numbers makes no other id.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Text(text) => [b"s", text.as_bytes()].concat(),
            Self::Number(number) => [&b"i"[..], &number.to_le_bytes()].concat(),
            Self::Flag(flag) => vec![b'b', u8::from(*flag)],
        }
    }
}

impl fmt::Display for KeyValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => serde_json::Value::from(text.as_str()).fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Flag(flag) => flag.fmt(f),
        }
    }
}

/// `id=5, part="a"`.
pub(crate) fn key_text<'a>(names: &[String], values: impl IntoIterator<Item = &'a KeyValue>) -> String {
    let pairs = names.iter().zip(values).map(|(name, value)| format!("{name}={value}"));
    pairs.collect::<Vec<_>>().join(", ")
}

/// A key as a person writes it: `id=5`, `name=abc` or `name="a, b"`; the columns in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenKey {
    pairs: Vec<(String, Written)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Written {
    text: String,
    is_quoted: bool,
}

impl Written {
    /// What it can mean.
    fn meanings(&self) -> Vec<KeyValue> {
        let mut meanings = vec![KeyValue::Text(self.text.clone())];
        if self.is_quoted {
            return meanings;
        }
        meanings.extend(self.text.parse().ok().map(KeyValue::Number));
        meanings.extend(self.text.parse().ok().map(KeyValue::Flag));
        meanings
    }
}

impl WrittenKey {
    /// The keys that rows can have which are meant, as they are kept; `columns` are those of the rows' keys.
    pub fn texts(&self, columns: &[String]) -> Result<Vec<String>, String> {
        let named = |name: &String| self.pairs.iter().find(|(written, _)| written == name);
        let known = self.pairs.iter().all(|(name, _)| columns.contains(name));
        let values: Option<Vec<&Written>> =
            columns.iter().map(|name| named(name).map(|(_, value)| value)).collect();
        let (Some(values), true) = (values, known && self.pairs.len() == columns.len()) else {
            return Err(format!("its key is {}, and `{self}` names other columns", quoted(columns)));
        };
        let mut keys: Vec<Vec<KeyValue>> = vec![Vec::new()];
        for value in values {
            let meanings = value.meanings();
            let longer = |key: &Vec<KeyValue>, meaning: &KeyValue| {
                [key.as_slice(), std::slice::from_ref(meaning)].concat()
            };
            keys = keys.iter().flat_map(|key| meanings.iter().map(|meaning| longer(key, meaning))).collect();
        }
        Ok(keys.iter().map(|key| key_text(columns, key)).collect())
    }
}

impl fmt::Display for WrittenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pair = |(name, value): &(String, Written)| match value.is_quoted {
            true => format!("{name}={}", serde_json::Value::from(value.text.as_str())),
            false => format!("{name}={}", value.text),
        };
        f.write_str(&self.pairs.iter().map(pair).collect::<Vec<_>>().join(", "))
    }
}

impl FromStr for WrittenKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = || format!("`{text}` is no key; write it as `id=5` or `id=5, part=\"a\"`");
        let mut pairs = Vec::new();
        let mut rest = text;
        loop {
            let (name, value) = rest.split_once('=').ok_or_else(wanted)?;
            let (name, value) = (name.trim(), value.trim_start());
            if name.is_empty() {
                return Err(wanted());
            }
            let (written, after) = if value.starts_with('"') {
                let mut values = serde_json::Deserializer::from_str(value).into_iter::<String>();
                let text = values.next().and_then(Result::ok).ok_or_else(wanted)?;
                (Written { text, is_quoted: true }, &value[values.byte_offset()..])
            } else {
                let end = value.find(',').unwrap_or(value.len());
                (Written { text: value[..end].trim_end().to_owned(), is_quoted: false }, &value[end..])
            };
            pairs.push((name.to_owned(), written));
            let after = after.trim();
            match after.strip_prefix(',') {
                Some(more) => rest = more,
                None if after.is_empty() && pairs.len() <= 8 => return Ok(Self { pairs }),
                None => return Err(wanted()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_key_finds_numbers_texts_and_flags_in_any_order() {
        let columns = ["id".to_owned(), "part".to_owned()];
        let key = |text: &str| text.parse::<WrittenKey>().unwrap().texts(&columns).unwrap();
        let text = |values: &[KeyValue]| key_text(&columns, values);
        let wanted = text(&[KeyValue::Number(5), KeyValue::Text("a, \"b\"".to_owned())]);
        assert!(key(r#"id=5, part="a, \"b\"""#).contains(&wanted));
        assert!(key(r#" part = "a, \"b\"" ,id= 5"#).contains(&wanted));
        assert!(
            !key("id=\"5\", part=x").contains(&text(&[KeyValue::Number(5), KeyValue::Text("x".to_owned())]))
        );
        assert!(key("id=-7, part=true").contains(&text(&[KeyValue::Number(-7), KeyValue::Flag(true)])));
    }

    #[test]
    fn what_is_no_key_or_another_key_is_told() {
        for text in ["", "id", "=5", "id=5,", "id=\"5", "id=\"5\" x", "id=5, part"] {
            assert!(text.parse::<WrittenKey>().is_err(), "{text}");
        }
        let error = "id=5".parse::<WrittenKey>().unwrap().texts(&["url".to_owned()]).unwrap_err();
        insta::assert_snapshot!(error, @"its key is `url`, and `id=5` names other columns");
    }

    #[test]
    fn keys_are_shown_as_they_can_be_written() {
        let names = ["id".to_owned(), "part".to_owned()];
        let values = [KeyValue::Number(5), KeyValue::Text("a\n\"é".to_owned())];
        let text = key_text(&names, &values);
        insta::assert_snapshot!(text, @r#"id=5, part="a\n\"é""#);
        assert!(text.parse::<WrittenKey>().unwrap().texts(&names).unwrap().contains(&text));
    }
}

//! Hashes of definitions: blake3 over canonical JSON.
//!
//! ```text
//! {"b": 1, "a": [true, null]}   ->   {"a":[true,null],"b":1}   ->   blake3, 64 hex digits
//! ```

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// The hash of everything that decides some data; printed as 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The hash of a file's bytes.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// The hash of a definition: `purpose` keeps hashes for different ends apart.
    pub fn of_json(purpose: &str, definition: &Value) -> Self {
        let mut text = format!("{purpose}\n");
        write_canonical(definition, &mut text);
        Self::of_bytes(text.as_bytes())
    }

    /// The bytes of the hash.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first 16 hex digits: enough to tell definitions apart in names and messages.
    pub fn short(&self) -> String {
        let mut text = self.to_string();
        text.truncate(16);
        text
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is no fingerprint.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("a fingerprint is 64 hex digits, but found `{0}`")]
pub struct NotAFingerprint(String);

impl FromStr for Fingerprint {
    type Err = NotAFingerprint;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let hash = blake3::Hash::from_hex(text).map_err(|_| NotAFingerprint(text.to_owned()))?;
        Ok(Self(*hash.as_bytes()))
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The canonical JSON of a value: keys sorted by their bytes, no spaces, strings and numbers as `serde_json` writes
/// them. Equal values give equal text whichever way they were made.
pub fn canonical_json(value: &Value) -> String {
    let mut text = String::new();
    write_canonical(value, &mut text);
    text
}

fn write_canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(entries) => {
            // Sorted here: another crate may switch on `serde_json`'s insertion order.
            let mut entries: Vec<_> = entries.iter().collect();
            entries.sort_by_key(|(key, _)| key.as_str());
            text.push('{');
            for (place, (key, value)) in entries.into_iter().enumerate() {
                if place > 0 {
                    text.push(',');
                }
                text.push_str(&Value::from(key.as_str()).to_string());
                text.push(':');
                write_canonical(value, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    text.push(',');
                }
                write_canonical(item, text);
            }
            text.push(']');
        }
        scalar => text.push_str(&scalar.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_order_of_keys_does_not_count() {
        let text = r#"{"b": 1, "a": [true, null, 0.5, "é\n"], "B": {}}"#;
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(canonical_json(&value), r#"{"B":{},"a":[true,null,0.5,"é\n"],"b":1}"#);
        let other = json!({"a": [true, null, 0.5, "é\n"], "B": {}, "b": 1});
        assert_eq!(Fingerprint::of_json("test", &value), Fingerprint::of_json("test", &other));
        assert_ne!(Fingerprint::of_json("test", &value), Fingerprint::of_json("other", &value));
    }

    #[test]
    fn a_fingerprint_is_read_back_from_its_text() {
        let fingerprint = Fingerprint::of_bytes(b"abc");
        assert_eq!(fingerprint.to_string().parse(), Ok(fingerprint));
        assert_eq!(fingerprint.short(), "6437b3ac38465133");
        assert_eq!("xyz".parse::<Fingerprint>(), Err(NotAFingerprint("xyz".to_owned())));
        let json = serde_json::to_string(&fingerprint).unwrap();
        assert_eq!(serde_json::from_str::<Fingerprint>(&json).unwrap(), fingerprint);
    }
}

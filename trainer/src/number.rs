//! Floats in JSON, which knows neither infinity nor what is not a number.
//!
//! ```text
//! 0.5 -> 0.5      NaN -> "NaN"      -∞ -> "-Infinity"
//! ```
//!
//! Python's `float` and JavaScript's `Number` read these words.

use std::collections::BTreeMap;

use serde::de::Error;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serializer};
use serde_json::Value;

/// A float as JSON.
pub(crate) fn to_json(number: f64) -> Value {
    match serde_json::Number::from_f64(number) {
        Some(number) => Value::Number(number),
        None if number.is_nan() => "NaN".into(),
        None if number > 0.0 => "Infinity".into(),
        None => "-Infinity".into(),
    }
}

/// A float from JSON.
pub(crate) fn from_json(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(word) => match word.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

/// Named floats as JSON: `#[serde(with = "crate::number::named")]`.
pub(crate) mod named {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        numbers: &BTreeMap<String, f64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(numbers.len()))?;
        for (name, number) in numbers {
            map.serialize_entry(name, &to_json(*number))?;
        }
        map.end()
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<String, f64>, D::Error> {
        let values = BTreeMap::<String, Value>::deserialize(deserializer)?;
        values
            .into_iter()
            .map(|(name, value)| match from_json(&value) {
                Some(number) => Ok((name, number)),
                None => Err(D::Error::custom(format!("`{name}` is {value}, which is no number"))),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_float_comes_back() {
        for number in [0.1, -0.0, f64::MIN_POSITIVE, f64::MAX, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            let text = to_json(number).to_string();
            let back = from_json(&serde_json::from_str(&text).unwrap()).unwrap();
            assert_eq!(back.to_bits(), number.to_bits(), "{text}");
        }
    }
}

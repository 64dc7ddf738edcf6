//! What differs between two definitions, in words.
//!
//! ```text
//! before  steps = [ rekey, tokenize { keep_pretokenized = false } ]
//! now     steps = [ rekey, tokenize { keep_pretokenized = true }, trim ]
//! words   step 2 `tokenize`: `keep_pretokenized` was false and is true; step 3 `trim` is new
//! ```
//!
//! Definitions are compared as the JSON that a fingerprint is the hash of, so that nothing that counts is left out:
//! what this file has no words for is told by its path.

use serde::Serialize;
use serde_json::{Map, Value};

/// Longer values are cut in words; they are whole in [`Difference::before`] and [`Difference::now`].
const LONGEST_VALUE: usize = 60;

/// One thing that is not as it was.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The part of the definition: `format_version`, `source`, `steps`, `features`, `lengths`, `cache_seed`, `shuffle`.
    pub part: String,
    /// What it is, in words.
    pub words: String,
    /// What it was; null if it was not there.
    pub before: Value,
    /// What it is; null if it is not there.
    pub now: Value,
}

/// All that differs between two definitions above the boundary, as [`seqio::Task::cache_definition`] gives them.
pub fn differences(before: &Value, now: &Value) -> Vec<Difference> {
    let mut found = Found { part: String::new(), differences: Vec::new() };
    let (Value::Object(before), Value::Object(now)) = (before, now) else {
        found.changed("the definition", before, now);
        return found.differences;
    };
    for (part, before, now) in entries(before, now) {
        part.clone_into(&mut found.part);
        match (part, before, now) {
            ("format_version", ..) => found.changed("the version of the cache format", before, now),
            ("cache_seed", ..) => found.changed("the cache seed", before, now),
            ("shuffle", ..) => found.changed("the list of splits that are stored shuffled", before, now),
            ("steps", Value::Array(before), Value::Array(now)) => found.steps(before, now),
            ("features", Value::Object(before), Value::Object(now)) => found.features(before, now),
            ("source", Value::Object(before), Value::Object(now)) => found.source(before, now),
            ("lengths", Value::Object(before), Value::Object(now)) => {
                found.members(before, now, &|name| format!("the task's length of `{name}`"));
            }
            _ => found.below(part, before, now),
        }
    }
    found.differences
}

/// The first few of many things, for a line of text.
pub(crate) fn first_few(words: impl IntoIterator<Item = String>) -> String {
    let mut words: Vec<String> = words.into_iter().collect();
    if words.len() > 5 {
        let more = words.len() - 4;
        words.truncate(4);
        words.push(format!("and {more} more"));
    }
    words.join("; ")
}

struct Found {
    part: String,
    differences: Vec<Difference>,
}

impl Found {
    fn add(&mut self, words: String, before: &Value, now: &Value) {
        let (part, before, now) = (self.part.clone(), before.clone(), now.clone());
        self.differences.push(Difference { part, words, before, now });
    }

    /// Tells of a value by the name of what it is.
    fn changed(&mut self, what: &str, before: &Value, now: &Value) {
        let words = match (before, now) {
            _ if before == now => return,
            (Value::Null, now) => format!("{what} is new: {}", short(now)),
            (before, Value::Null) => format!("{what} is gone, it was {}", short(before)),
            _ => format!("{what} was {} and is {}", short(before), short(now)),
        };
        self.add(words, before, now);
    }

    /// Tells of each member that differs.
    fn members(
        &mut self,
        before: &Map<String, Value>,
        now: &Map<String, Value>,
        what: &dyn Fn(&str) -> String,
    ) {
        for (key, before, now) in entries(before, now) {
            self.changed(&what(key), before, now);
        }
    }

    /// Tells of what has no words of its own, by its path.
    fn below(&mut self, path: &str, before: &Value, now: &Value) {
        match (before, now) {
            (Value::Object(before), Value::Object(now)) => {
                for (key, before, now) in entries(before, now) {
                    self.below(&format!("{path}.{key}"), before, now);
                }
            }
            _ => self.changed(&format!("`{path}`"), before, now),
        }
    }

    fn source(&mut self, before: &Map<String, Value>, now: &Map<String, Value>) {
        for (key, before, now) in entries(before, now) {
            match (key, before, now) {
                ("name", ..) => self.changed("the source's name, part of every id,", before, now),
                ("format", Value::String(_), Value::String(_)) => {
                    self.changed("the format of the source", before, now);
                }
                ("columns", Value::Object(before), Value::Object(now)) => {
                    self.members(before, now, &|name| format!("the source's column `{name}`"));
                }
                _ => self.below(&format!("source.{key}"), before, now),
            }
        }
    }

    fn features(&mut self, before: &Map<String, Value>, now: &Map<String, Value>) {
        for (name, before, now) in entries(before, now) {
            let (Value::Object(old), Value::Object(new)) = (before, now) else {
                self.changed(&format!("feature `{name}`"), before, now);
                continue;
            };
            for (key, before, now) in entries(old, new) {
                match (key, before, now) {
                    ("vocabulary_file", Value::String(_), Value::String(_)) => {
                        let words = format!(
                            "feature `{name}`: the bytes of its vocabulary file are others, their hash was {} and is {}",
                            short(before),
                            short(now)
                        );
                        self.add(words, before, now);
                    }
                    ("vocabulary", Value::Object(before), Value::Object(now)) => {
                        self.members(before, now, &|key| {
                            format!("feature `{name}`: `{key}` of its vocabulary")
                        });
                    }
                    _ => self.changed(&format!("feature `{name}`: `{key}`"), before, now),
                }
            }
        }
    }

    fn steps(&mut self, before: &[Value], now: &[Value]) {
        let pairs = aligned(before, now);
        let mut gone: Vec<usize> =
            (0..before.len()).filter(|old| pairs.iter().all(|(paired, _)| paired != old)).collect();
        for (index, step) in now.iter().enumerate() {
            let place = index + 1;
            if let Some((old, _)) = pairs.iter().find(|(_, new)| *new == index) {
                self.step(place, &before[*old], step);
            } else if let Some(moved) = gone.iter().position(|&old| before[old] == *step) {
                let from = gone.remove(moved);
                let words = format!("step `{}` moved from place {} to place {place}", op(step), from + 1);
                self.add(words, &before[from], step);
            } else {
                self.add(format!("step {place} `{}` is new", op(step)), &Value::Null, step);
            }
        }
        for old in gone {
            let words = format!("step `{}`, at place {}, is gone", op(&before[old]), old + 1);
            self.add(words, &before[old], &Value::Null);
        }
    }

    fn step(&mut self, place: usize, before: &Value, now: &Value) {
        let (Value::Object(old), Value::Object(new)) = (before, now) else {
            return self.changed(&format!("step {place}"), before, now);
        };
        let name = op(now);
        for (key, before, now) in entries(old, new) {
            match key {
                "version" => {
                    let words = format!(
                        "step {place} `{name}` had version {} and has version {}: this program gives other results",
                        short(before),
                        short(now)
                    );
                    self.add(words, before, now);
                }
                _ => self.changed(&format!("step {place} `{name}`: `{key}`"), before, now),
            }
        }
    }
}

/// The members that differ, those of `before` first.
fn entries<'a>(
    before: &'a Map<String, Value>,
    now: &'a Map<String, Value>,
) -> impl Iterator<Item = (&'a str, &'a Value, &'a Value)> {
    const NONE: &Value = &Value::Null;
    let keys = before.keys().chain(now.keys().filter(|key| !before.contains_key(*key)));
    keys.map(|key| (key.as_str(), before.get(key).unwrap_or(NONE), now.get(key).unwrap_or(NONE)))
        .filter(|(_, before, now)| before != now)
}

fn op(step: &Value) -> &str {
    step.get("op").and_then(Value::as_str).unwrap_or("?")
}

/// Which old step is which new one: equal steps before steps of the same name, in order, as many as can be.
fn aligned(before: &[Value], now: &[Value]) -> Vec<(usize, usize)> {
    let score = |old: &Value, new: &Value| match () {
        () if old == new => 3u32,
        () if op(old) == op(new) => 2,
        () => 0,
    };
    let mut best = vec![vec![0; now.len() + 1]; before.len() + 1];
    for old in (0..before.len()).rev() {
        for new in (0..now.len()).rev() {
            let paired = match score(&before[old], &now[new]) {
                0 => 0,
                score => score + best[old + 1][new + 1],
            };
            best[old][new] = paired.max(best[old + 1][new]).max(best[old][new + 1]);
        }
    }
    let (mut old, mut new, mut pairs) = (0, 0, Vec::new());
    while old < before.len() && new < now.len() {
        let score = score(&before[old], &now[new]);
        if score > 0 && best[old][new] == score + best[old + 1][new + 1] {
            pairs.push((old, new));
            (old, new) = (old + 1, new + 1);
        } else if best[old][new] == best[old + 1][new] {
            old += 1;
        } else {
            new += 1;
        }
    }
    pairs
}

/// A value for a line of text: hashes by their first digits, long values cut.
fn short(value: &Value) -> String {
    if let Value::String(text) = value
        && text.len() == 64
        && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    {
        return format!("{}…", &text[..8]);
    }
    let text = value.to_string();
    match text.char_indices().nth(LONGEST_VALUE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn words(before: &Value, now: &Value) -> Vec<String> {
        differences(before, now).into_iter().map(|difference| difference.words).collect()
    }

    fn definition() -> Value {
        json!({
            "format_version": 1,
            "source": { "name": "docs", "format": "jsonl", "columns": { "text": "string" }, "on_bad_row": "error" },
            "steps": [
                { "op": "rekey", "version": 1, "to_from": { "targets": "text" } },
                { "op": "tokenize", "version": 1, "keep_pretokenized": false },
                { "op": "append_eos", "version": 1 },
            ],
            "features": { "targets": {
                "vocabulary": { "sentencepiece": true, "extra_ids": 0 },
                "vocabulary_file": "ab".repeat(32),
                "required": true,
            } },
            "lengths": {},
            "cache_seed": 0,
            "shuffle": ["train"],
        })
    }

    /// The words for one edit of the definition.
    fn after(edit: impl FnOnce(&mut Value)) -> String {
        let mut now = definition();
        edit(&mut now);
        words(&definition(), &now).join("\n")
    }

    #[test]
    fn every_part_of_a_definition_has_words() {
        let all: Vec<String> = [
            after(|now| now["format_version"] = 2.into()),
            after(|now| now["cache_seed"] = 7.into()),
            after(|now| now["shuffle"] = json!([])),
            after(|now| now["lengths"] = json!({ "targets": 512 })),
            after(|now| now["source"]["name"] = "other".into()),
            after(|now| now["source"]["format"] = "parquet".into()),
            after(|now| now["source"]["format"] = json!({ "csv": { "delimiter": ";" } })),
            after(|now| now["source"]["on_bad_row"] = "skip".into()),
            after(|now| now["source"]["columns"]["text"] = "int64".into()),
            after(|now| now["source"]["columns"] = json!({ "text": "string", "url": "string" })),
            after(|now| now["features"]["targets"]["vocabulary_file"] = "cd".repeat(32).into()),
            after(|now| now["features"]["targets"]["vocabulary"]["extra_ids"] = 100.into()),
            after(|now| now["features"]["targets"]["required"] = false.into()),
            after(|now| now["features"]["targets"]["add_eos"] = true.into()),
            after(|now| now["features"] = json!({})),
            after(|now| now["steps"][1]["keep_pretokenized"] = true.into()),
            after(|now| now["steps"][1]["version"] = 2.into()),
            after(|now| now["steps"].as_array_mut().unwrap().swap(1, 2)),
            after(|now| drop(now["steps"].as_array_mut().unwrap().remove(1))),
            after(|now| {
                now["steps"].as_array_mut().unwrap().insert(1, json!({ "op": "trim", "version": 1 }))
            }),
            after(|now| now["of_tomorrow"] = json!({ "deep": [1] })),
        ]
        .into();
        insta::assert_snapshot!(all.join("\n"), @r#"
        the version of the cache format was 1 and is 2
        the cache seed was 0 and is 7
        the list of splits that are stored shuffled was ["train"] and is []
        the task's length of `targets` is new: 512
        the source's name, part of every id, was "docs" and is "other"
        the format of the source was "jsonl" and is "parquet"
        `source.format` was "jsonl" and is {"csv":{"delimiter":";"}}
        `source.on_bad_row` was "error" and is "skip"
        the source's column `text` was "string" and is "int64"
        the source's column `url` is new: "string"
        feature `targets`: the bytes of its vocabulary file are others, their hash was abababab… and is cdcdcdcd…
        feature `targets`: `extra_ids` of its vocabulary was 0 and is 100
        feature `targets`: `required` was true and is false
        feature `targets`: `add_eos` is new: true
        feature `targets` is gone, it was {"required":true,"vocabulary":{"extra_ids":0,"sentencepiece"…
        step 2 `tokenize`: `keep_pretokenized` was false and is true
        step 2 `tokenize` had version 1 and has version 2: this program gives other results
        step `tokenize` moved from place 2 to place 3
        step `tokenize`, at place 2, is gone
        step 2 `trim` is new
        `of_tomorrow` is new: {"deep":[1]}
        "#);
        assert!(all.iter().all(|words| !words.is_empty() && !words.contains('\n')));
        assert_eq!(words(&definition(), &definition()), Vec::<String>::new());
    }

    #[test]
    fn many_things_are_told_in_one_line() {
        let words = (1..=7).map(|number| number.to_string());
        assert_eq!(first_few(words), "1; 2; 3; 4; and 3 more");
        assert_eq!(first_few((1..=5).map(|number| number.to_string())), "1; 2; 3; 4; 5");
    }

    proptest! {
        #[test]
        fn steps_differ_exactly_if_there_are_words(
            before in prop::collection::vec(0u8..6, 0..7),
            now in prop::collection::vec(0u8..6, 0..7),
        ) {
            // Two settings of three steps.
            let steps = |of: &[u8]| -> Value {
                of.iter().map(|step| json!({ "op": format!("op{}", step / 2), "set": step % 2 })).collect()
            };
            let (old, new) = (json!({ "steps": steps(&before) }), json!({ "steps": steps(&now) }));
            let found = differences(&old, &new);
            prop_assert_eq!(found.is_empty(), before == now);
            // Every step is accounted for: what is new or gone makes up for the difference in number.
            let gone = found.iter().filter(|difference| difference.now.is_null()).count();
            let added = found.iter().filter(|difference| difference.words.ends_with("is new")).count();
            prop_assert_eq!(before.len() + added, now.len() + gone);
        }
    }
}

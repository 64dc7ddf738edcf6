//! What differs between two configurations, and which of it forbids to go on with a run.
//!
//! ```text
//! data.batch_size: 8 → 16      forbids
//! train.steps: 1000 → 2000     does not
//! ```

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use crate::config::RunConfig;

/// Settings, or tables of them, that a run may be continued with whatever they are: they change no step's numbers.
/// Which data are behind names and paths is known by their own fingerprints.
const FREE: [&str; 14] = [
    "model.recompute",
    "data.files",
    "data.cache_dir",
    "data.cache",
    "data.read_ahead",
    "train.steps",
    "train.on_non_finite",
    "train.log_every",
    "checkpoint",
    // It is read when a run begins, and not again.
    "restore",
    "eval",
    "device",
    // It changes numbers by what float32 sums in another order.
    "mesh",
    "run",
];

/// A setting that two configurations have differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The setting, as `data.batch_size`.
    pub key: String,
    /// What it was; nothing if it was not set.
    pub before: Option<String>,
    /// What it is.
    pub now: Option<String>,
    /// Whether steps after it are those of another run.
    pub forbids: bool,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = |value: &Option<String>| value.clone().unwrap_or_else(|| "not set".to_owned());
        write!(f, "`{}`: {} → {}", self.key, words(&self.before), words(&self.now))
    }
}

/// Whether a run with another value there is another run.
pub(super) fn forbids(key: &str) -> bool {
    let is_in =
        |table: &str| key.strip_prefix(table).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    !FREE.iter().any(|free| is_in(free))
}

impl RunConfig {
    /// What is different now, sorted by key; nothing if it is the same run.
    pub fn differences(&self, now: &Self) -> Vec<Difference> {
        let (before, now) = (self.settings(), now.settings());
        let keys: std::collections::BTreeSet<&String> = before.keys().chain(now.keys()).collect();
        let words = |value: Option<&Value>| value.map(ToString::to_string);
        keys.into_iter()
            .filter(|key| before.get(*key) != now.get(*key))
            .map(|key| Difference {
                key: key.clone(),
                before: words(before.get(key)),
                now: words(now.get(key)),
                forbids: forbids(key),
            })
            .collect()
    }

    /// Every setting under its whole name, as `data.lengths.targets`.
    pub(super) fn settings(&self) -> BTreeMap<String, Value> {
        let text = self.to_toml();
        // By way of text: there `0.1` is what a person wrote, and not what the nearest 32-bit number is in 64 bits.
        let tables: Value = toml::from_str(&text).expect("what was just written can be read");
        let mut settings = BTreeMap::new();
        flatten(String::new(), tables, &mut settings);
        settings
    }
}

fn flatten(name: String, value: Value, settings: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(table) => {
            for (key, value) in table {
                flatten(if name.is_empty() { key } else { format!("{name}.{key}") }, value, settings);
            }
        }
        value => {
            settings.insert(name, value);
        }
    }
}

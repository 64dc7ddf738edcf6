//! Everything a task file can say, told by the types that read it: names, types, defaults, meanings, examples.
//!
//! ```text
//! pub struct Trim {                         step `trim`
//!     /// Limits the step to these …   ->     features   list of text   default: all   Limits the step to these …
//!     pub features: Vec<String>,
//! }
//! ```
//!
//! `docs/reference.md` is made of it, and so is the JSON Schema with which editors complete and check task files.

mod inline;
mod markdown;
mod read;
mod schema;
#[cfg(test)]
mod tests;

use serde::Serialize;

pub use self::inline::{bare_or_quoted, inline};
pub use self::schema::task_file_schema;

/// Everything a task file can say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Reference {
    /// In the order of the documentation.
    pub topics: Vec<Topic>,
}

/// One table of task files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Topic {
    /// What it belongs to.
    pub part: Part,
    /// What it is called: `vocabulary`, `source`, the name of a step.
    pub name: String,
    /// What it is for.
    pub meaning: String,
    /// As it is written in TOML.
    pub example: Option<String>,
    /// Keys of which exactly one says what kind it is.
    pub kinds: Vec<Key>,
    /// The other keys.
    pub keys: Vec<Key>,
}

/// A part of a task file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// `[vocabulary.NAME]`.
    Vocabulary,
    /// `[task.NAME]`.
    Task,
    /// A task's `source`.
    Source,
    /// A type in the `columns` of a source.
    ColumnType,
    /// One of a task's `features`.
    Feature,
    /// One of a task's `steps`.
    Step,
}

/// A key of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Key {
    /// The key.
    pub name: String,
    /// What its value is, in words.
    pub value: String,
    /// Whether it must be given.
    pub required: bool,
    /// What holds without it, in TOML or in words.
    pub default: Option<String>,
    /// What it means.
    pub meaning: String,
    /// The values there are, if they are few.
    pub choices: Vec<Choice>,
    /// As it is written in TOML.
    pub example: Option<String>,
}

/// One of the values that a key can have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// In TOML.
    pub value: String,
    /// What it means.
    pub meaning: String,
}

impl Reference {
    /// The reference of this program's task files.
    pub fn new() -> Self {
        read::reference(&schema::annotated())
    }

    /// The topics called `name`, and those that have a key called `name` with only that key, nearest match first.
    pub fn about(&self, name: &str) -> Vec<Topic> {
        let whole = self.topics.iter().filter(|topic| topic.name == name).cloned();
        let in_part = self.topics.iter().filter(|topic| topic.name != name).filter_map(|topic| {
            let only = |keys: &[Key]| keys.iter().filter(|key| key.name == name).cloned().collect::<Vec<_>>();
            let (kinds, keys) = (only(&topic.kinds), only(&topic.keys));
            (!kinds.is_empty() || !keys.is_empty()).then(|| Topic { kinds, keys, ..topic.clone() })
        });
        whole.chain(in_part).collect()
    }

    /// Every name that [`Reference::about`] knows.
    pub fn names(&self) -> Vec<&str> {
        let keys = self.topics.iter().flat_map(|topic| topic.kinds.iter().chain(&topic.keys));
        let mut names: Vec<&str> = self.topics.iter().map(|topic| topic.name.as_str()).collect();
        names.extend(keys.map(|key| key.name.as_str()));
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The reference as Markdown: `docs/reference.md`.
    pub fn to_markdown(&self) -> String {
        markdown::whole(self)
    }
}

impl Default for Reference {
    fn default() -> Self {
        Self::new()
    }
}

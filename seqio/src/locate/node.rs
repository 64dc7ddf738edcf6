//! A TOML document as a tree that knows where each part stands.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// A value and its byte range in the file.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) span: Range<usize>,
    pub(crate) value: NodeValue,
}

#[derive(Clone, Debug)]
pub(crate) enum NodeValue {
    /// In the order of the file.
    Table(Vec<Entry>),
    Array(Vec<Node>),
    String(String),
    Integer(i128),
    Float(f64),
    Boolean(bool),
    Datetime(String),
}

/// A key and its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_span: Range<usize>,
    pub(crate) node: Node,
}

/// One step on the way from a node to one inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Key(String),
    Index(usize),
}

impl Node {
    /// Reads a document. What is wrong with its syntax comes back with its place.
    pub(crate) fn parse(text: &str) -> Result<Self, (String, Range<usize>)> {
        match DeTable::parse(text) {
            Ok(table) => Ok(Self { span: table.span(), value: entries(table.get_ref()) }),
            Err(error) => Err((error.message().to_owned(), error.span().unwrap_or(0..0))),
        }
    }

    /// The entries of a table; none for anything else.
    pub(crate) fn entries(&self) -> &[Entry] {
        match &self.value {
            NodeValue::Table(entries) => entries,
            _ => &[],
        }
    }

    /// The entry of a table under `key`.
    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// The value of a table under `key`.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.node)
    }

    /// The items of an array; none for anything else.
    pub(crate) fn items(&self) -> &[Node] {
        match &self.value {
            NodeValue::Array(items) => items,
            _ => &[],
        }
    }

    /// The text, if it is one.
    pub(crate) fn as_str(&self) -> Option<&str> {
        match &self.value {
            NodeValue::String(text) => Some(text),
            _ => None,
        }
    }

    /// The node at the end of a path, or the last one on the way that exists.
    pub(crate) fn follow(&self, path: &[Part]) -> &Node {
        let mut node = self;
        for part in path {
            let next = match part {
                Part::Key(key) => node.get(key),
                Part::Index(index) => node.items().get(*index),
            };
            match next {
                Some(next) => node = next,
                None => break,
            }
        }
        node
    }

    /// The range of the last key of a path, or of the last node on the way that exists.
    #[cfg(test)]
    pub(crate) fn key_span(&self, path: &[Part]) -> Range<usize> {
        match path.split_last() {
            Some((Part::Key(key), way)) => match self.follow(way).entry(key) {
                Some(entry) => entry.key_span.clone(),
                None => self.follow(way).span.clone(),
            },
            _ => self.follow(path).span.clone(),
        }
    }

    /// The range of the first text in here, key or value, that `test` accepts.
    pub(crate) fn find_text(&self, test: &dyn Fn(&str) -> bool) -> Option<Range<usize>> {
        match &self.value {
            NodeValue::String(text) => test(text).then(|| self.span.clone()),
            NodeValue::Array(items) => items.iter().find_map(|item| item.find_text(test)),
            NodeValue::Table(entries) => entries.iter().find_map(|entry| {
                let key = test(&entry.key).then(|| entry.key_span.clone());
                entry.node.find_text(test).or(key)
            }),
            _ => None,
        }
    }

    /// The same with all ranges moved `by` bytes on, less `back`.
    pub(crate) fn moved(mut self, by: usize, back: usize) -> Self {
        let moved =
            |span: Range<usize>| (span.start + by).saturating_sub(back)..(span.end + by).saturating_sub(back);
        self.span = moved(self.span);
        self.value = match self.value {
            NodeValue::Table(entries) => {
                let entry = |entry: Entry| Entry {
                    key_span: moved(entry.key_span),
                    node: entry.node.moved(by, back),
                    ..entry
                };
                NodeValue::Table(entries.into_iter().map(entry).collect())
            }
            NodeValue::Array(items) => {
                NodeValue::Array(items.into_iter().map(|item| item.moved(by, back)).collect())
            }
            value => value,
        };
        self
    }

    /// Takes the entry at the end of a path of keys out of its table; whether it was there.
    pub(crate) fn remove(&mut self, path: &[Part]) -> bool {
        let Some((Part::Key(key), way)) = path.split_last() else {
            return false;
        };
        let mut node = self;
        for part in way {
            let next = match (part, &mut node.value) {
                (Part::Key(key), NodeValue::Table(entries)) => {
                    entries.iter_mut().find(|entry| entry.key == *key).map(|entry| &mut entry.node)
                }
                (Part::Index(index), NodeValue::Array(items)) => items.get_mut(*index),
                _ => None,
            };
            match next {
                Some(next) => node = next,
                None => return false,
            }
        }
        let NodeValue::Table(entries) = &mut node.value else {
            return false;
        };
        let before = entries.len();
        entries.retain(|entry| entry.key != *key);
        entries.len() < before
    }
}

fn node(value: &Spanned<DeValue<'_>>) -> Node {
    let found = match value.get_ref() {
        DeValue::Table(table) => entries(table),
        DeValue::Array(items) => NodeValue::Array(items.iter().map(node).collect()),
        DeValue::String(text) => NodeValue::String(text.to_string()),
        DeValue::Integer(integer) => {
            // What does not fit is refused wherever it is used.
            NodeValue::Integer(i128::from_str_radix(integer.as_str(), integer.radix()).unwrap_or(i128::MAX))
        }
        DeValue::Float(float) => NodeValue::Float(float.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(value) => NodeValue::Boolean(*value),
        DeValue::Datetime(datetime) => NodeValue::Datetime(datetime.to_string()),
    };
    Node { span: value.span(), value: found }
}

fn entries(table: &DeTable<'_>) -> NodeValue {
    let entry = |(key, value): (&Spanned<DeString<'_>>, &Spanned<DeValue<'_>>)| Entry {
        key: key.get_ref().to_string(),
        key_span: key.span(),
        node: node(value),
    };
    let mut entries: Vec<Entry> = table.iter().map(entry).collect();
    entries.sort_by_key(|entry| entry.key_span.start);
    NodeValue::Table(entries)
}

//! Finds places in one table of a task file; or none, for definitions made in Rust.

use std::ops::Range;
use std::sync::Arc;

use crate::locate::{Mistake, Node, Part, Place, TaskText};

/// One table of a task file.
#[derive(Clone, Debug)]
pub(crate) struct Locator {
    table: Option<Table>,
}

#[derive(Clone, Debug)]
struct Table {
    text: Arc<TaskText>,
    /// Where its name stands.
    name: Range<usize>,
    node: Node,
}

impl Locator {
    /// For definitions that stand in no file.
    pub(crate) fn nowhere() -> Self {
        Self { table: None }
    }

    pub(crate) fn new(text: &Arc<TaskText>, name: &Range<usize>, node: &Node) -> Self {
        Self { table: Some(Table { text: Arc::clone(text), name: name.clone(), node: node.clone() }) }
    }

    /// Where the table's name stands.
    pub(crate) fn name(&self) -> Option<Place> {
        self.table.as_ref().map(|table| table.text.place(&table.name))
    }

    /// Where a value stands, or the last one on the way to it that exists.
    pub(crate) fn value(&self, path: &[Part]) -> Option<Place> {
        let table = self.table.as_ref()?;
        let node = table.node.follow(path);
        // The table itself spans many lines: its name is the better place.
        let span = if std::ptr::eq(node, &table.node) { &table.name } else { &node.span };
        Some(table.text.place(span))
    }

    /// Where a key stands.
    pub(crate) fn key(&self, path: &[Part]) -> Option<Place> {
        let table = self.table.as_ref()?;
        let (last, way) = path.split_last()?;
        let Part::Key(key) = last else { return self.value(path) };
        match table.node.follow(way).entry(key) {
            Some(entry) => Some(table.text.place(&entry.key_span)),
            None => self.value(way),
        }
    }

    /// Where a mistake stands that [`decode`](crate::locate::decode) found in the node at the end of `way`.
    pub(crate) fn mistake(&self, way: &[Part], mistake: &Mistake) -> Option<Place> {
        let path = [way, mistake.path()].concat();
        if mistake.is_about_a_key() { self.key(&path) } else { self.value(&path) }
    }

    /// Where a step stands: its `op`.
    pub(crate) fn step(&self, index: usize) -> Option<Place> {
        let table = self.table.as_ref()?;
        let step = table.node.get("steps")?.items().get(index)?;
        let span = step.get("op").map_or(&step.span, |op| &op.span);
        Some(table.text.place(span))
    }

    /// Where a step mentions one of `names`, or else where it stands.
    pub(crate) fn in_step(&self, index: usize, names: &[String]) -> Option<Place> {
        let table = self.table.as_ref()?;
        let step = table.node.get("steps")?.items().get(index)?;
        let mentions =
            |text: &str| names.iter().any(|name| text == name || text.contains(&format!("{{{name}}}")));
        // Else in the middle of an expression.
        let has_word = |text: &str| names.iter().any(|name| is_word_of(name, text));
        match step.find_text(&mentions).or_else(|| step.find_text(&has_word)) {
            Some(span) => Some(table.text.place(&span)),
            None => self.step(index),
        }
    }

    /// Where under `key` a text stands that `test` accepts, or else the key's value.
    pub(crate) fn text_in(&self, key: &str, test: &dyn Fn(&str) -> bool) -> Option<Place> {
        let table = self.table.as_ref()?;
        match table.node.get(key).and_then(|node| node.find_text(test)) {
            Some(span) => Some(table.text.place(&span)),
            None => self.value(&[Part::Key(key.to_owned())]),
        }
    }
}

/// Whether `word` stands in `text` with no letter or digit beside it.
fn is_word_of(word: &str, text: &str) -> bool {
    let is_free = |beside: Option<char>| beside.is_none_or(|c| !c.is_alphanumeric() && c != '_');
    text.match_indices(word).any(|(at, found)| {
        is_free(text[..at].chars().next_back()) && is_free(text[at + found.len()..].chars().next())
    })
}

//! A TOML file read part by part, for files other than task files that are to be complained of as well.
//!
//! ```text
//! [train]                   decode::<Train>(["train"])   ->  run.toml:2:1: `[train]`: unknown key `step`
//! step = 100                                                 hint: did you mean `steps`?
//! set("--set", "train.steps=many")                       ->  --set:1:13: `[train]`: `steps` must be a whole number, …
//! ```

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::error::{DefinitionError, DefinitionErrors};
use crate::locate::{Entry, Mistake, Node, NodeValue, Part, Place, TaskText, decode};

/// A TOML file and values laid over it, read part by part into plain data; every mistake is found, each with its place.
///
/// ```
/// use std::collections::BTreeMap;
///
/// use seqio::TomlDocument;
///
/// let mut document = TomlDocument::parse("run.toml", "[train]\nsteps = 10\n")?;
/// document.set("--set", "train.steps=20")?;
/// let train: BTreeMap<String, u64> = document.decode(&["train"])?;
/// assert_eq!(train["steps"], 20);
///
/// document.set("--set", "train.steps=many")?;
/// let error = document.decode::<BTreeMap<String, u64>>(&["train"]).unwrap_err();
/// assert!(error.to_string().starts_with("--set:1:13: `[train]`: `steps` must be a whole number"));
/// # Ok::<(), seqio::DefinitionErrors>(())
/// ```
#[derive(Clone, Debug)]
pub struct TomlDocument {
    /// The file, then what was laid over it; each with the place of its first byte in the ranges of nodes.
    texts: Vec<(usize, Arc<TaskText>)>,
    root: Node,
}

impl TomlDocument {
    /// Reads a text. `path` is what its mistakes are said to be in.
    pub fn parse(path: impl Into<PathBuf>, text: impl Into<String>) -> Result<Self, DefinitionErrors> {
        let text = TaskText { path: path.into(), text: text.into() };
        match Node::parse(&text.text) {
            Ok(root) => Ok(Self { texts: vec![(0, Arc::new(text))], root }),
            Err((problem, span)) => Err(not_toml(&problem, &text, &span).into()),
        }
    }

    /// Lays `section.key=value` over the file. The value is one of TOML; a text needs no quotes if it is nothing else.
    /// `origin` is what its mistakes are said to be in.
    pub fn set(&mut self, origin: &str, assignment: &str) -> Result<(), DefinitionErrors> {
        let text = TaskText { path: origin.into(), text: assignment.to_owned() };
        let refuse = |problem: String, span: Range<usize>| {
            let hint = "write it as `train.steps=1000`";
            DefinitionErrors::from(DefinitionError::new(problem).at(Some(text.place(&span))).hint(hint))
        };
        let Some((keys, written)) = assignment.split_once('=') else {
            return Err(refuse("this sets nothing: it has no `=`".to_owned(), 0..assignment.len()));
        };
        let path: Vec<&str> = keys.split('.').map(str::trim).collect();
        if path.iter().any(|key| key.is_empty()) {
            return Err(refuse("this names no key".to_owned(), 0..keys.len()));
        }
        let value = written.trim();
        let start = keys.len() + 1 + (written.len() - written.trim_start().len());
        let base = self.next_base();
        let node = match Node::parse(&format!("v={value}")) {
            Ok(parsed) => match parsed.get("v") {
                // `v=` is two bytes long.
                Some(node) if parsed.entries().len() == 1 => node.clone().moved(base + start, 2),
                _ => return Err(refuse("this sets more than one value".to_owned(), 0..assignment.len())),
            },
            Err((problem, span)) if value.starts_with(['[', '{', '"', '\'']) || value.is_empty() => {
                let at = |place: usize| start + place.saturating_sub(2);
                return Err(not_toml(&problem, &text, &(at(span.start)..at(span.end))).into());
            }
            Err(_) => Node {
                span: base + start..base + start + value.len(),
                value: NodeValue::String(value.to_owned()),
            },
        };
        let key_span = base..base + keys.len();
        if let Err(key) = put(&mut self.root, &path, &key_span, node) {
            return Err(refuse(
                format!("`{key}` is no table, so nothing inside it can be set"),
                0..keys.len(),
            ));
        }
        self.texts.push((base, Arc::new(text)));
        Ok(())
    }

    /// Gives a table the keys that it has not, from a TOML text. `origin` is what mistakes in it are said to be in.
    pub fn fill_in(&mut self, table: &[&str], origin: &str, text: &str) -> Result<(), DefinitionErrors> {
        let text = TaskText { path: origin.into(), text: text.to_owned() };
        let base = self.next_base();
        let defaults = match Node::parse(&text.text) {
            Ok(node) => node.moved(base, 0),
            Err((problem, span)) => return Err(not_toml(&problem, &text, &span).into()),
        };
        for entry in defaults.entries() {
            let path = [table, &[entry.key.as_str()]].concat();
            if !self.contains(&path) {
                // What is no table keeps what it has, and is complained of where it is decoded.
                let _ = put(&mut self.root, &path, &entry.key_span, entry.node.clone());
            }
        }
        self.texts.push((base, Arc::new(text)));
        Ok(())
    }

    /// The keys of a table, in the order of the file; none of what is no table.
    pub fn keys(&self, table: &[&str]) -> Vec<&str> {
        let entries = self.get(table).map_or(&[][..], Node::entries);
        entries.iter().map(|entry| entry.key.as_str()).collect()
    }

    /// Whether there is a value at the end of a path of keys.
    pub fn contains(&self, path: &[&str]) -> bool {
        self.get(path).is_some()
    }

    /// The text at the end of a path of keys, if it is one.
    pub fn text(&self, path: &[&str]) -> Option<&str> {
        self.get(path).and_then(Node::as_str)
    }

    /// Takes a value out; whether it was there.
    pub fn remove(&mut self, path: &[&str]) -> bool {
        self.root.remove(&parts(path))
    }

    /// Reads a table, or the whole document, as a `T`, or tells everything that is wrong with it. What is not there
    /// counts as an empty table.
    pub fn decode<T: DeserializeOwned>(&self, table: &[&str]) -> Result<T, DefinitionErrors> {
        let empty = Node { span: 0..0, value: NodeValue::Table(Vec::new()) };
        let node = self.get(table).unwrap_or(&empty);
        let error = |mistake: &Mistake| {
            let path = [parts(table), mistake.path().to_vec()].concat();
            let place =
                if mistake.is_about_a_key() { self.key_place(&path) } else { self.value_place(&path) };
            within(table, DefinitionError::new(mistake.problem()).maybe_hint(mistake.hint()).at(place))
        };
        decode(node).map_err(|mistakes| DefinitionErrors::new(mistakes.iter().map(error).collect()))
    }

    /// Where the value at the end of a path of keys stands, or what comes nearest to it.
    pub fn place(&self, path: &[&str]) -> Option<Place> {
        self.value_place(&parts(path))
    }

    /// Where the last key of a path stands, or what comes nearest to it.
    pub fn place_of_key(&self, path: &[&str]) -> Option<Place> {
        self.key_place(&parts(path))
    }

    fn get(&self, path: &[&str]) -> Option<&Node> {
        path.iter().try_fold(&self.root, |node, key| node.get(key))
    }

    /// Of a table that was not reached to its end, the name: it may be many lines long.
    fn value_place(&self, path: &[Part]) -> Option<Place> {
        let mut span = None;
        let mut node = &self.root;
        for part in path {
            match part {
                Part::Key(key) => match node.entry(key) {
                    Some(entry) => (node, span) = (&entry.node, Some((&entry.key_span, &entry.node))),
                    None => break,
                },
                Part::Index(index) => match node.items().get(*index) {
                    Some(item) => (node, span) = (item, Some((&item.span, item))),
                    None => break,
                },
            }
        }
        let (name, node) = span?;
        self.place_of(if matches!(node.value, NodeValue::Table(_)) { name } else { &node.span })
    }

    fn key_place(&self, path: &[Part]) -> Option<Place> {
        let (last, way) = path.split_last()?;
        let Part::Key(key) = last else { return self.value_place(path) };
        match self.root.follow(way).entry(key) {
            Some(entry) => self.place_of(&entry.key_span),
            None => self.value_place(way),
        }
    }

    fn place_of(&self, span: &Range<usize>) -> Option<Place> {
        let (base, text) = self.texts.iter().rev().find(|(base, _)| *base <= span.start)?;
        Some(text.place(&(span.start - base..span.end.saturating_sub(*base))))
    }

    fn next_base(&self) -> usize {
        // One byte between texts, so that the end of one is not the start of the next.
        self.texts.last().map_or(0, |(base, text)| base + text.text.len() + 1)
    }
}

/// The table that a mistake is in, as files name it.
fn within(table: &[&str], error: DefinitionError) -> DefinitionError {
    if table.is_empty() { error } else { error.within(format!("`[{}]`", table.join("."))) }
}

fn parts(path: &[&str]) -> Vec<Part> {
    path.iter().map(|key| Part::Key((*key).to_owned())).collect()
}

fn not_toml(problem: &str, text: &TaskText, span: &Range<usize>) -> DefinitionError {
    DefinitionError::new(format!("this is not TOML: {problem}")).at(Some(text.place(span)))
}

/// Puts a value at the end of a path, making the tables on the way. What stands on the way and is no table comes back.
fn put(root: &mut Node, path: &[&str], key_span: &Range<usize>, value: Node) -> Result<(), String> {
    let Some((last, way)) = path.split_last() else { return Ok(()) };
    let mut node = root;
    for key in way {
        let table = Node { span: key_span.clone(), value: NodeValue::Table(Vec::new()) };
        let entries = entries_of(node).ok_or_else(|| (*key).to_owned())?;
        node = &mut entry_of(entries, key, key_span, table).node;
    }
    let entries = entries_of(node).ok_or_else(|| way.join("."))?;
    let entry = entry_of(entries, last, key_span, value.clone());
    entry.key_span = key_span.clone();
    entry.node = value;
    Ok(())
}

fn entries_of(node: &mut Node) -> Option<&mut Vec<Entry>> {
    match &mut node.value {
        NodeValue::Table(entries) => Some(entries),
        _ => None,
    }
}

/// The entry under `key`, made if it is not there.
fn entry_of<'a>(
    entries: &'a mut Vec<Entry>,
    key: &str,
    key_span: &Range<usize>,
    node: Node,
) -> &'a mut Entry {
    let place = entries.iter().position(|entry| entry.key == key).unwrap_or_else(|| {
        entries.push(Entry { key: key.to_owned(), key_span: key_span.clone(), node });
        entries.len() - 1
    });
    &mut entries[place]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Train {
        steps: u64,
        #[serde(default)]
        name: String,
        #[serde(default)]
        lengths: BTreeMap<String, u64>,
    }

    const FILE: &str = "[train]\nsteps = 10\nlengths = { a = 1 }\n";

    fn document(sets: &[&str]) -> TomlDocument {
        let mut document = TomlDocument::parse("run.toml", FILE).unwrap();
        sets.iter().for_each(|set| document.set("--set", set).unwrap());
        document
    }

    fn train(sets: &[&str]) -> Train {
        document(sets).decode(&["train"]).unwrap()
    }

    #[test]
    fn values_laid_over_the_file_count_and_texts_need_no_quotes() {
        assert_eq!(train(&[]).steps, 10);
        assert_eq!(train(&["train.steps = 1_000", "train.steps=7"]).steps, 7);
        assert_eq!(train(&["train.name=t5_1_1/small"]).name, "t5_1_1/small");
        assert_eq!(train(&["train.name='a b'"]).name, "a b");
        assert_eq!(train(&["train.name=a = b"]).name, "a = b");
        assert_eq!(train(&["train.name=2024-01-01"]).name, "2024-01-01");
        assert_eq!(train(&["train.lengths.b=2"]).lengths, BTreeMap::from([("a".into(), 1), ("b".into(), 2)]));
        assert_eq!(train(&["train.lengths={b=2}"]).lengths, BTreeMap::from([("b".into(), 2)]));
    }

    #[test]
    fn what_sets_nothing_is_refused_in_words() {
        let refused = |set: &str| document(&[]).set("--set", set).unwrap_err().to_string();
        insta::assert_snapshot!(refused("train.steps"), @r"
        --set:1:1: this sets nothing: it has no `=`
          |
        1 | train.steps
          | ^^^^^^^^^^^
        hint: write it as `train.steps=1000`
        ");
        insta::assert_snapshot!(refused("train.steps.a=3").lines().next().unwrap(), @"--set:1:1: `train.steps` is no table, so nothing inside it can be set");
        assert!(refused(".steps=3").starts_with("--set:1:1: this names no key"));
        assert!(
            refused("train.name=\"x").starts_with("--set:1:14: this is not TOML"),
            "{}",
            refused("train.name=\"x")
        );
        assert!(refused("train.name=1\n[other]").starts_with("--set:1:1: this sets more than one value"));
    }

    #[test]
    fn mistakes_are_placed_in_the_text_that_they_come_from() {
        let document = document(&["train.lengths.b=many", "train.stps=3"]);
        insta::assert_snapshot!(document.decode::<Train>(&["train"]).unwrap_err(), @r#"
        --set:1:1: `[train]`: unknown key `stps`
          |
        1 | train.stps=3
          | ^^^^^^^^^^
        hint: did you mean `steps`?

        --set:1:17: `[train]`: `b` must be a whole number, 0 or more, but is the text "many"
          |
        1 | train.lengths.b=many
          |                 ^^^^
        "#);
        let absent = document.decode::<Train>(&["absent"]).unwrap_err().to_string();
        assert_eq!(absent, "`[absent]`: the key `steps` is missing");
    }

    #[test]
    fn filling_in_changes_nothing_that_is_there() {
        let mut document = document(&[]);
        document.fill_in(&["train"], "preset", "steps = 3\nname = 4\n").unwrap();
        assert_eq!(document.keys(&["train"]), ["steps", "lengths", "name"]);
        insta::assert_snapshot!(document.decode::<Train>(&["train"]).unwrap_err(), @r"
        preset:2:8: `[train]`: `name` must be a text, but is `4`
          |
        2 | name = 4
          |        ^
        ");
        assert!(document.remove(&["train", "name"]));
        assert_eq!(document.decode::<Train>(&["train"]).unwrap().steps, 10);
    }

    #[test]
    fn places_are_those_of_values_keys_and_names_of_tables() {
        let document = document(&[]);
        let at = |path: &[&str]| document.place(path).map(|place| (place.line, place.column));
        assert_eq!(at(&["train", "steps"]), Some((2, 9)));
        assert_eq!(at(&["train", "absent"]), Some((1, 2)));
        assert_eq!(at(&["absent"]), None);
        assert_eq!(document.place_of_key(&["train", "steps"]).map(|place| place.column), Some(1));
    }
}

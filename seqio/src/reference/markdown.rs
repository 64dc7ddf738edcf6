//! The reference as Markdown.

use std::fmt::Write as _;

use crate::reference::{Choice, Key, Part, Reference, Topic};

const HEAD: &str = "\
# Reference of task files

Every key, kind, type and step of this version, made from the code by `seqio reference`; a test compares this file with
it. [`task-files.md`](task-files.md) explains how they go together, and [`guide.md`](guide.md) begins at the beginning.
`seqio reference NAME` prints one entry; `seqio schema` prints the same as a JSON Schema, with which editors complete and
check task files.

A task file is TOML and holds tables `[vocabulary.NAME]` and `[task.NAME]`. Relative paths start from its folder.
";

const STEPS: &str = "
## Steps

`steps = [{ op = \"NAME\", … }, …]`: each is a table with the step's name as `op` and its settings beside it.
";

/// `docs/reference.md`.
pub(super) fn whole(reference: &Reference) -> String {
    let mut text = HEAD.to_owned();
    let mut steps_begun = false;
    for topic in &reference.topics {
        if topic.part == Part::Step && !steps_begun {
            text.push_str(STEPS);
            steps_begun = true;
        }
        write_topic(&mut text, topic);
    }
    text
}

fn write_topic(text: &mut String, topic: &Topic) {
    let heading = match (topic.part, topic.name.as_str()) {
        (Part::Vocabulary, "vocabulary") => "## `[vocabulary.NAME]`".to_owned(),
        (Part::Task, _) => "## `[task.NAME]`".to_owned(),
        (Part::Source, "source") => "## `source`".to_owned(),
        (Part::ColumnType, _) => "## Types of `columns`".to_owned(),
        (Part::Feature, _) => "## `features`".to_owned(),
        (_, name) => format!("### `{name}`"),
    };
    let _ = write!(text, "\n{heading}\n\n{}\n", topic.meaning);
    if let (Part::Step, Some(example)) = (topic.part, &topic.example) {
        let _ = write!(text, "\n```toml\n{example}\n```\n");
    }
    if topic.part == Part::ColumnType {
        let _ = write!(text, "\n| type | a value is |\n|---|---|\n");
        for key in &topic.keys {
            let _ = writeln!(text, "| `{}` | {} |", key.value, cell(key.meaning.trim_end_matches('.')));
        }
        return;
    }
    if !topic.kinds.is_empty() {
        text.push_str("\nExactly one of these keys says what kind it is:\n");
        write_keys(text, &topic.kinds);
        text.push_str("\nBeside it:\n");
    }
    if !topic.keys.is_empty() {
        write_keys(text, &topic.keys);
    }
}

/// A table of keys, without the columns in which no key has anything.
fn write_keys(text: &mut String, keys: &[Key]) {
    let with_default = keys.iter().any(|key| key.required || key.default.is_some());
    let with_example = keys.iter().any(|key| key.example.is_some());
    let row = |key: &str, value: &str, default: &str, meaning: &str, example: &str| {
        let mut cells = vec![key.to_owned(), value.to_owned()];
        cells.extend(with_default.then(|| default.to_owned()));
        cells.push(meaning.to_owned());
        cells.extend(with_example.then(|| example.to_owned()));
        format!("| {} |\n", cells.join(" | "))
    };
    text.push('\n');
    text.push_str(&row("key", "value", "default", "meaning", "example"));
    text.push_str(&row("---", "---", "---", "---", "---").replace(' ', ""));
    for key in keys {
        let default = match (&key.default, key.required) {
            (_, true) => "required".to_owned(),
            (default, false) => default.clone().unwrap_or_default(),
        };
        let example = key.example.as_ref().map_or(String::new(), |example| format!("`{example}`"));
        let name = format!("`{}`", key.name);
        text.push_str(&row(&name, &cell(&key.value), &cell(&default), &cell(&meaning(key)), &cell(&example)));
    }
}

/// The meaning, and that of each value where values have their own.
fn meaning(key: &Key) -> String {
    let described = key.choices.iter().filter(|choice| !choice.meaning.is_empty());
    let choices: Vec<String> =
        described.map(|Choice { value, meaning }| format!("`{value}`: {meaning}")).collect();
    std::iter::once(key.meaning.clone()).chain(choices).collect::<Vec<_>>().join(" ")
}

/// Text that stays inside its cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace("\n\n", " ").replace('\n', " ")
}

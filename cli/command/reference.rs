//! `seqio reference` and `seqio schema`: what task files can say, for people and for editors.

use std::io::Write as _;

use seqio::reference::{Key, Part, Reference, Topic, task_file_schema};

use crate::args::ReferenceArgs;
use crate::output::{Out, Style};
use crate::report::{WithHint as _, usage};

/// Runs `seqio reference`.
pub(crate) fn run(args: &ReferenceArgs, out: &mut Out) -> anyhow::Result<()> {
    let reference = Reference::new();
    let Some(name) = &args.name else {
        return match args.json.wanted {
            true => out.json(&reference),
            false => Ok(out.write_all(reference.to_markdown().as_bytes())?),
        };
    };
    let topics = reference.about(name);
    if topics.is_empty() {
        let problem = Err(usage(format!("task files have nothing called `{name}`")));
        return match seqio::nearest(name, reference.names()) {
            Some(near) => problem.hint(|| format!("did you mean `{near}`?")),
            None => problem.hint(|| "`seqio reference` prints everything there is".to_owned()),
        };
    }
    if args.json.wanted {
        return out.json(&topics);
    }
    for (place, topic) in topics.iter().enumerate() {
        if place > 0 {
            writeln!(out)?;
        }
        print(topic, name, out)?;
    }
    Ok(())
}

/// Runs `seqio schema`.
pub(crate) fn schema(out: &mut Out) -> anyhow::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &task_file_schema())?;
    Ok(writeln!(out)?)
}

fn print(topic: &Topic, name: &str, out: &mut Out) -> anyhow::Result<()> {
    let paint = out.paint;
    let part = match topic.part {
        Part::Vocabulary => "in `[vocabulary.NAME]`",
        Part::Task => "in `[task.NAME]`",
        Part::Source => "in a task's `source`",
        Part::ColumnType => "type of a column, in `columns` of a source",
        Part::Feature => "in a task's `features`",
        Part::Step => "step",
    };
    let title = match (topic.part, topic.name == name) {
        (Part::Step, _) => format!("{part} `{}`", topic.name),
        (_, true) => topic.name.clone(),
        (_, false) => part.to_owned(),
    };
    writeln!(out, "{}", paint.text(Style::Strong, title))?;
    if topic.name == name {
        for paragraph in topic.meaning.split("\n\n") {
            wrapped(paragraph, 2, out)?;
        }
        if let Some(example) = &topic.example {
            writeln!(out, "  {}", paint.text(Style::Faint, example))?;
        }
    }
    for key in topic.kinds.iter().chain(&topic.keys) {
        print_key(key, topic.part, out)?;
    }
    Ok(())
}

fn print_key(key: &Key, part: Part, out: &mut Out) -> anyhow::Result<()> {
    let paint = out.paint;
    let default = match (&key.default, key.required) {
        (_, true) => ", required".to_owned(),
        (Some(default), false) => format!(", default: {default}"),
        (None, false) => String::new(),
    };
    let value = if part == Part::ColumnType { String::new() } else { format!(": {}", key.value) };
    writeln!(out)?;
    writeln!(out, "  {}{value}{default}", paint.text(Style::Strong, &key.name))?;
    wrapped(&key.meaning, 6, out)?;
    for choice in key.choices.iter().filter(|choice| !choice.meaning.is_empty()) {
        wrapped(&format!("{}  {}", choice.value, choice.meaning), 8, out)?;
    }
    if let Some(example) = &key.example {
        writeln!(out, "      {}", paint.text(Style::Faint, example))?;
    }
    Ok(())
}

/// Words in lines that fit the terminal.
fn wrapped(text: &str, indent: usize, out: &mut Out) -> anyhow::Result<()> {
    let width = out.width().min(100);
    let mut line = String::new();
    for word in text.split(' ') {
        if !line.is_empty() && indent + line.chars().count() + 1 + word.chars().count() > width {
            writeln!(out, "{:indent$}{line}", "")?;
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    Ok(writeln!(out, "{:indent$}{line}", "")?)
}

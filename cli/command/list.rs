//! `seqio list`: what the task files define, and what a task and its batches can be made of. Opens no vocabulary and no source.

use std::io::Write as _;

use seqio::reference::{Part, Reference};
use seqio::{Converter, Step};
use serde::Serialize;

use crate::args::{ListArgs, Listed};
use crate::output::{Align, Out, Table};
use crate::session::Session;

#[derive(Serialize)]
struct TaskLine {
    name: String,
    features: Vec<String>,
    splits: Vec<String>,
    place: Option<String>,
}

#[derive(Serialize)]
struct StepLine {
    name: &'static str,
    summary: &'static str,
}

#[derive(Serialize)]
struct KindLine {
    part: &'static str,
    name: String,
    meaning: String,
}

#[derive(Serialize)]
struct ConverterLine {
    name: &'static str,
    reads: &'static str,
    settings: &'static [&'static str],
    summary: &'static str,
}

#[derive(Serialize)]
struct VocabularyLine {
    name: String,
    kind: String,
    file: Option<String>,
}

/// Runs the command.
pub(crate) fn run(session: &Session, args: &ListArgs, out: &mut Out) -> anyhow::Result<()> {
    match args.what {
        Listed::Tasks => tasks(session, args, out),
        Listed::Steps => steps(args, out),
        Listed::Kinds => kinds(args, out),
        Listed::Vocabularies => vocabularies(session, args, out),
        Listed::Converters => converters(args, out),
    }
}

fn tasks(session: &Session, args: &ListArgs, out: &mut Out) -> anyhow::Result<()> {
    let registry = session.registry()?;
    let line = |(name, spec): (&str, &seqio::TaskSpec)| TaskLine {
        name: name.to_owned(),
        features: spec.features.keys().cloned().collect(),
        splits: spec.source.splits.keys().cloned().collect(),
        place: registry.place_of(name),
    };
    let lines: Vec<TaskLine> = registry.specs().map(line).collect();
    if args.json.wanted {
        return out.json(&lines);
    }
    if args.names {
        return names(lines.iter().map(|line| &*line.name), out);
    }
    let mut table = Table::new([
        ("task", Align::Left),
        ("features", Align::Left),
        ("splits", Align::Left),
        ("defined at", Align::Left),
    ]);
    for line in lines {
        table.row([
            line.name,
            line.features.join(", "),
            line.splits.join(", "),
            line.place.unwrap_or_default(),
        ]);
    }
    print(&table, "no task is defined", out)
}

fn steps(args: &ListArgs, out: &mut Out) -> anyhow::Result<()> {
    let lines: Vec<StepLine> = Step::TABLE.iter().map(|(name, summary)| StepLine { name, summary }).collect();
    if args.json.wanted {
        return out.json(&lines);
    }
    if args.names {
        return names(lines.iter().map(|line| line.name), out);
    }
    let mut table = Table::new([("step", Align::Left), ("what it does", Align::Left)]);
    for line in lines {
        table.row([line.name.to_owned(), line.summary.to_owned()]);
    }
    print(&table, "there are no steps", out)
}

/// Kinds of sources, columns and vocabularies, from the reference.
fn kinds(args: &ListArgs, out: &mut Out) -> anyhow::Result<()> {
    let mut lines = Vec::new();
    for topic in Reference::new().topics {
        let (part, kinds) = match topic.part {
            Part::Source if topic.name == "source" => ("source", topic.kinds),
            Part::Vocabulary if !topic.kinds.is_empty() => ("vocabulary", topic.kinds),
            Part::ColumnType => ("column", topic.keys),
            _ => continue,
        };
        lines.extend(kinds.into_iter().map(|kind| KindLine { part, name: kind.name, meaning: kind.meaning }));
    }
    lines.sort_by_key(|line| line.part);
    if args.json.wanted {
        return out.json(&lines);
    }
    if args.names {
        return names(lines.iter().map(|line| &*line.name), out);
    }
    let mut table = Table::new([("of", Align::Left), ("kind", Align::Left), ("what it is", Align::Left)]);
    for line in lines {
        table.row([line.part.to_owned(), line.name, line.meaning.trim_end_matches('.').to_owned()]);
    }
    print(&table, "there are no kinds", out)
}

fn vocabularies(session: &Session, args: &ListArgs, out: &mut Out) -> anyhow::Result<()> {
    let registry = session.registry()?;
    let line = |(name, spec): (&str, &seqio::VocabularySpec)| VocabularyLine {
        name: name.to_owned(),
        kind: spec.kind().to_owned(),
        file: spec.path().map(|path| path.display().to_string()),
    };
    let lines: Vec<VocabularyLine> = registry.vocabularies().map(line).collect();
    if args.json.wanted {
        return out.json(&lines);
    }
    if args.names {
        return names(lines.iter().map(|line| &*line.name), out);
    }
    let mut table = Table::new([("vocabulary", Align::Left), ("kind", Align::Left), ("file", Align::Left)]);
    for line in lines {
        table.row([line.name, line.kind, line.file.unwrap_or_default()]);
    }
    print(&table, "no vocabulary is defined", out)
}

fn converters(args: &ListArgs, out: &mut Out) -> anyhow::Result<()> {
    let line = |entry: &seqio::ConverterEntry| ConverterLine {
        name: entry.name,
        reads: entry.reads,
        settings: entry.settings,
        summary: entry.summary,
    };
    let lines: Vec<ConverterLine> = Converter::TABLE.iter().map(line).collect();
    if args.json.wanted {
        return out.json(&lines);
    }
    if args.names {
        return names(lines.iter().map(|line| line.name), out);
    }
    let mut table = Table::new([
        ("converter", Align::Left),
        ("reads", Align::Left),
        ("settings", Align::Left),
        ("what it is for", Align::Left),
    ]);
    for line in lines {
        table.row([
            line.name.to_owned(),
            line.reads.to_owned(),
            line.settings.join(", "),
            line.summary.to_owned(),
        ]);
    }
    print(&table, "there are no converters", out)
}

fn names<'a>(mut names: impl Iterator<Item = &'a str>, out: &mut Out) -> anyhow::Result<()> {
    Ok(names.try_for_each(|name| writeln!(out, "{name}"))?)
}

fn print(table: &Table, empty: &str, out: &mut Out) -> anyhow::Result<()> {
    if table.is_empty() {
        return Ok(writeln!(out, "{empty}")?);
    }
    let paint = out.paint;
    Ok(table.write(out, paint, 0)?)
}

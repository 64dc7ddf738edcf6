//! `seqio batch`: what a model sees at one step, decoded, and where each piece came from.

use std::collections::BTreeMap;
use std::io::Write as _;

use seqio::{ExampleStore as _, Origin, PieceTrace, RowTrace, SourceTrace};
use seqio_cache::CachedSplit;
use serde::Serialize;

use crate::args::BatchArgs;
use crate::command::inspect::cached_place;
use crate::format::counted;
use crate::interrupt::Interrupt;
use crate::model_row::{ModelRow, rows};
use crate::output::{Out, Style};
use crate::report::usage;
use crate::session::{Opened, Session, Wanted};
use crate::shape;
use crate::tokens::shown_text;

/// Characters of a piece's text, at most.
const TEXT_LIMIT: usize = 240;

#[derive(Serialize)]
struct Step {
    step: u64,
    digest: String,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    row: u64,
    digest: String,
    pieces: Vec<Piece>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<serde_json::Value>,
}

#[derive(Serialize)]
struct Piece {
    segment: u32,
    place: String,
    /// The raw records it was made from.
    origins: Vec<Record>,
    /// Of a query: the key of its row.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    id: String,
    epoch: u64,
    example: u64,
    parts: Vec<Part>,
    /// What the item is made of, if a step below the cache boundary made it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sources: Vec<Source>,
}

#[derive(Serialize)]
struct Source {
    place: String,
    example: u64,
    feature: String,
    from: u32,
    tokens: u32,
}

#[derive(Serialize)]
struct Record {
    file: String,
    /// Counted from 1.
    line: u64,
    offset: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct Part {
    feature: String,
    from: u32,
    tokens: u32,
    text: String,
}

/// Runs the command.
pub(crate) fn run(session: &Session, args: &BatchArgs, out: &mut Out) -> anyhow::Result<()> {
    let interrupt = Interrupt::listen()?;
    let data = &args.data;
    let wanted = Wanted { task: data.task.as_deref(), cache: data.cache.as_deref(), split: &data.split };
    let opened = session.open(wanted, &args.build, &interrupt, out.notes())?;
    interrupt.release();
    let mut config = shape::config(&opened.task, opened.split.name(), &args.shape, args.batch_size)?;
    config.read_ahead = 0;
    let size = args.batch_size.batch_size as usize;
    if let Some(row) = args.row.filter(|row| *row >= size) {
        return Err(usage(format!(
            "a batch has {}, counted from 0: there is no `--row {row}`",
            counted(size as u64, "row")
        )));
    }
    let dataset = shape::dataset(&opened, config)?;
    let trace = dataset.trace(args.step)?;
    let Some(batch) = dataset.iter_from(args.step)?.next().transpose()? else {
        anyhow::bail!("the stream ends before step {}", args.step);
    };
    let digests = batch.row_digests();
    let chosen = |row: &usize| args.row.is_none_or(|wanted| wanted == *row);
    let shown: Vec<(ModelRow<'_>, Row)> = rows(&batch)
        .zip(&digests)
        .enumerate()
        .filter(|(row, _)| chosen(row))
        .map(|(index, (row, digest))| {
            let trace = trace.rows.get(index);
            let pieces = trace.map_or(Ok(Vec::new()), |trace| pieces(&opened, trace, row))?;
            let number = batch.first_row + index as u64;
            let model = args.json.wanted.then(|| row.json(&opened.task));
            Ok((row, Row { row: number, digest: digest.to_string(), pieces, model }))
        })
        .collect::<anyhow::Result<_>>()?;
    let digest = batch.digest().to_string();
    if args.json.wanted {
        let rows = shown.into_iter().map(|(_, row)| row).collect();
        return out.json(&Step { step: args.step, digest, rows });
    }
    let title = out.paint.text(Style::Strong, format!("step {}", args.step));
    writeln!(out, "{title}  {}  digest {digest}", counted(batch.num_rows as u64, "row"))?;
    for (model_row, row) in &shown {
        print(*model_row, row, args.tokens, &opened, out)?;
    }
    Ok(())
}

/// The pieces of a row in order, each with its text.
fn pieces(opened: &Opened, trace: &RowTrace, row: ModelRow<'_>) -> anyhow::Result<Vec<Piece>> {
    let mut used = BTreeMap::<&str, usize>::new();
    let mut pieces = Vec::new();
    for piece in &trace.pieces {
        let example = opened.split.example_row(piece.example)?;
        let parts = piece.parts.iter().map(|part| {
            let (holder, ids) = row.holder(&part.feature);
            let start = used.entry(holder).or_default();
            let ids = ids.get(*start..*start + part.len as usize).unwrap_or_default();
            *start += part.len as usize;
            let vocabulary = opened.task.features().get(&part.feature).map(|feature| &feature.vocabulary);
            let text = vocabulary.map_or(String::new(), |vocabulary| vocabulary.decode(ids));
            Part { feature: part.feature.clone(), from: part.from, tokens: part.len, text }
        });
        pieces.push(Piece {
            segment: piece.segment,
            place: match others(piece) {
                0 => cached_place(&opened.split, &example),
                others => format!(
                    "{} and {}",
                    cached_place(&opened.split, &example),
                    counted(others, "more example")
                ),
            },
            sources: sources(opened, piece)?,
            origins: example.origins.iter().map(|origin| record(&opened.split, origin)).collect(),
            key: example.key.as_ref().map(ToString::to_string),
            id: format!("{:?}", example.id),
            epoch: piece.epoch,
            example: piece.example,
            parts: parts.collect(),
        });
    }
    Ok(pieces)
}

/// Examples that an item is made of besides the first.
fn others(piece: &PieceTrace) -> u64 {
    let mut examples: Vec<u64> = piece.sources.iter().map(|source| source.example).collect();
    examples.retain(|example| *example != piece.example);
    examples.sort_unstable();
    examples.dedup();
    examples.len() as u64
}

fn sources(opened: &Opened, piece: &PieceTrace) -> anyhow::Result<Vec<Source>> {
    let source = |source: &SourceTrace| {
        let example = opened.split.example_row(source.example)?;
        Ok(Source {
            place: cached_place(&opened.split, &example),
            example: source.example,
            feature: source.feature.clone(),
            from: source.from,
            tokens: source.len,
        })
    };
    piece.sources.iter().map(source).collect()
}

fn record(split: &CachedSplit, origin: &Origin) -> Record {
    let file = split.file_name(origin).unwrap_or("?").to_owned();
    Record { file, line: origin.row + 1, offset: origin.offset, bytes: origin.length }
}

fn print(
    model_row: ModelRow<'_>,
    row: &Row,
    tokens: usize,
    opened: &Opened,
    out: &mut Out,
) -> anyhow::Result<()> {
    writeln!(out)?;
    let paint = out.paint;
    let title = paint.text(Style::Strong, format!("row {}", row.row));
    match row.pieces.len() as u64 {
        0 => writeln!(out, "{title}  empty: it only fills up the batch")?,
        pieces => writeln!(out, "{title}  {}", counted(pieces, "piece"))?,
    }
    for piece in &row.pieces {
        let segment = paint.text(Style::Segment(piece.segment as i32), format!("segment {}", piece.segment));
        writeln!(out, "  {segment}  {}  epoch {}", piece.place, piece.epoch)?;
        for part in &piece.parts {
            let to = part.from + part.tokens;
            let text = shown_text(&part.text, TEXT_LIMIT);
            writeln!(out, "    {} {}..{to}: {text}", part.feature, part.from)?;
        }
    }
    if tokens > 0 && !row.pieces.is_empty() {
        model_row.print_sides(&opened.task, tokens, out)?;
    }
    Ok(())
}

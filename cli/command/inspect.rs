//! `seqio inspect`: a few examples at some stage of the path, without a cache.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray as _};
use arrow::datatypes::{DataType, Int32Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use seqio::{
    Dataset, DatasetConfig, ExampleRow, ExampleStore, FeatureLengths, InMemoryExamples, ItemSteps,
    LOSS_SUFFIX, OrderKind, ReadChunk, Split, SplitReader, Step, Task,
};
use seqio_cache::CachedSplit;
use serde_json::{Map, Value, json};

use crate::args::{InspectArgs, StageName};
use crate::build::tell_passed_over;
use crate::format::{count, dropped_in_words};
use crate::interrupt::Interrupt;
use crate::model_row::{ModelRow, rows};
use crate::output::{Notes, Out, Style};
use crate::report::usage;
use crate::session::{Session, check_split, task_of_cache};
use crate::shape;
use crate::tokens::{Beside, TokenGrid, shown_piece, shown_text};
use crate::value::LengthList;

/// Examples read for stage `model`, at most: rows are packed from them.
const EXAMPLES_FOR_ROWS: usize = 4096;

/// An example with what is to be shown of it.
struct Shown {
    row: ExampleRow,
    place: String,
    columns: Vec<(String, ArrayRef)>,
}

/// Runs the command.
pub(crate) fn run(session: &Session, args: &InspectArgs, out: &mut Out) -> anyhow::Result<()> {
    let interrupt = Interrupt::listen()?;
    interrupt.told(inspect(session, args, &interrupt, out), "run the same command again")
}

fn inspect(
    session: &Session,
    args: &InspectArgs,
    interrupt: &Interrupt,
    out: &mut Out,
) -> anyhow::Result<()> {
    let mut input = Input::open(session, args, interrupt)?;
    if args.stage == StageName::Model {
        model(&mut input, args, interrupt, out)?;
        input.tell_passed_over(args, out.notes());
        return Ok(());
    }
    let examples = input.examples(args.num, args.stage, interrupt)?;
    input.tell_dropped(out.notes());
    if !input.is_exact() {
        out.notes()
            .note("there are too many different examples to remember: some of these may be duplicates");
    }
    input.tell_passed_over(args, out.notes());
    let task = input.task();
    let edits = match args.stage {
        StageName::Raw | StageName::Model => Default::default(),
        StageName::Task => {
            let lengths = lengths(&task, args)?;
            if let Some(steps) = task.item_steps(&lengths)? {
                return show_items(&task, &steps, &examples, args, out);
            }
            task.token_edits(&lengths)?
        }
    };
    let mut json = Vec::new();
    for (number, example) in examples.iter().enumerate() {
        let columns = example.columns.iter().map(|(name, column)| {
            let edits = edits.get(name).map_or(&[][..], Vec::as_slice);
            column_of(name, column, edits, &task)
        });
        let columns = columns.collect::<anyhow::Result<Vec<_>>>()?;
        if args.json.wanted {
            json.push(example_json(example, &columns, &task));
            continue;
        }
        let title = format!("example {number}");
        writeln!(
            out,
            "{}  {}  id {:?}",
            out.paint.text(Style::Strong, title),
            example.place,
            example.row.id
        )?;
        for column in columns.iter().filter(|column| !stands_beside(column, &columns)) {
            print_column(column, loss_of(column, &columns), &task, args.tokens, out)?;
        }
        writeln!(out)?;
    }
    if args.json.wanted {
        return out.json(&json);
    }
    if examples.is_empty() {
        writeln!(out, "split `{}` has no examples", args.data.split)?;
    }
    Ok(())
}

fn lengths(task: &Task, args: &InspectArgs) -> anyhow::Result<FeatureLengths> {
    let features: Vec<String> = task.features().keys().cloned().collect();
    LengthList::resolve(&args.lengths, &features).map_err(usage)
}

/// What the steps below the boundary make of the first examples.
fn show_items(
    task: &Task,
    steps: &ItemSteps,
    examples: &[Shown],
    args: &InspectArgs,
    out: &mut Out,
) -> anyhow::Result<()> {
    let mut store = InMemoryExamples::new(steps.stored().iter().cloned());
    for example in examples {
        let tokens = steps.stored().iter().map(|feature| {
            let column = example.columns.iter().find(|(name, _)| name == feature);
            match column.map(|(name, column)| column_of(name, column, &[], task)).transpose()? {
                Some(ShownColumn { content: Content::Tokens(ids), .. }) => Ok(ids),
                _ => Ok(Vec::new()),
            }
        });
        let tokens = tokens.collect::<anyhow::Result<Vec<Vec<i32>>>>()?;
        store.push(example.row.clone(), &tokens.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }
    let items = steps.carry_out(&store, 0, task.name(), 0)?;
    let merged = steps.steps().iter().filter(|step| step.step.merges() > examples.len());
    for step in merged {
        let (merges, shown) = (step.step.merges(), examples.len());
        out.notes().note(format!(
            "`{}` merges {merges} examples at a time; these items are made of the first {shown}: `-n {merges}` shows all of a group",
            step.name
        ));
    }
    let mut json = Vec::new();
    for (number, item) in items.iter().enumerate() {
        let places: Vec<&str> = item
            .examples
            .iter()
            .filter_map(|example| Some(examples.get(usize::try_from(*example).ok()?)?.place.as_str()))
            .collect();
        let columns = item
            .sequences
            .iter()
            .map(|(name, ids)| ShownColumn { name: name.clone(), content: Content::Tokens(ids.clone()) });
        let columns: Vec<ShownColumn> = columns.collect();
        if args.json.wanted {
            json.push(json!({ "places": places, "columns": columns_json(&columns, task) }));
            continue;
        }
        let place = match places.as_slice() {
            [first, others @ ..] if !others.is_empty() => format!("{first} and {} more", others.len()),
            places => places.concat(),
        };
        writeln!(out, "{}  {place}", out.paint.text(Style::Strong, format!("item {number}")))?;
        for column in columns.iter().filter(|column| !stands_beside(column, &columns)) {
            print_column(column, loss_of(column, &columns), task, args.tokens, out)?;
        }
        writeln!(out)?;
    }
    if args.json.wanted {
        return out.json(&json);
    }
    if items.is_empty() {
        writeln!(out, "the steps below the cache boundary make no item of these examples")?;
    }
    Ok(())
}

/// Where examples are taken from: the source, or a cache folder.
enum Input {
    Source(Arc<Task>, Box<SplitReader>),
    Cache(Arc<Task>, Arc<CachedSplit>),
}

impl Input {
    fn open(session: &Session, args: &InspectArgs, interrupt: &Interrupt) -> anyhow::Result<Self> {
        let split: Split = args.data.split.parse()?;
        if let Some(folder) = &args.data.cache {
            let (task, cache) = task_of_cache(folder, args.data.task.as_deref())?;
            if args.stage == StageName::Raw {
                return Err(usage(
                    "a cache holds examples after the steps above its boundary, so there is no stage `raw`",
                ));
            }
            return Ok(Self::Cache(task, Arc::new(cache.split(&split.to_string())?)));
        }
        let name = args.data.task.as_deref().unwrap_or_default();
        let task = session.task(name, &interrupt.budget(args.memory))?;
        check_split(&task, &split)?;
        let reader = SplitReader::new(Arc::clone(&task), &split)?;
        let reader = if args.stage == StageName::Raw { reader.raw() } else { reader.choosing() };
        Ok(Self::Source(task, Box::new(reader)))
    }

    fn task(&self) -> Arc<Task> {
        match self {
            Self::Source(task, _) | Self::Cache(task, _) => Arc::clone(task),
        }
    }

    /// Says which examples of those read so far are not shown because a step dropped them.
    fn tell_dropped(&self, notes: Notes) {
        let Self::Source(task, reader) = self else { return };
        for (&step, &examples) in reader.dropped() {
            let op = task.spec().steps.get(step - 1).map_or("step", Step::op);
            let read = count(reader.examples_read());
            notes.note(format!("{} of {read} read so far", dropped_in_words(step, op, examples)));
        }
    }

    /// Whether no duplicate was shown that the task drops.
    fn is_exact(&self) -> bool {
        match self {
            Self::Source(_, reader) => reader.is_exact(),
            Self::Cache(..) => true,
        }
    }

    /// Says how many bad records there were on the way.
    fn tell_passed_over(&self, args: &InspectArgs, notes: Notes) {
        if let Self::Source(task, reader) = self {
            tell_passed_over(task, &args.data.split, reader.bad_rows(), notes);
        }
    }

    /// The first examples, with their places.
    fn examples(
        &mut self,
        num: usize,
        stage: StageName,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Vec<Shown>> {
        let mut shown = Vec::new();
        match self {
            Self::Cache(_, split) => {
                let num = split.num_examples().min(num as u64);
                let batch = split.examples(0..num)?;
                for example in 0..num {
                    let row = split.example_row(example)?;
                    let columns = columns_at(&batch, example as usize);
                    shown.push(Shown { place: cached_place(split, &row), row, columns });
                }
            }
            Self::Source(task, reader) => {
                while shown.len() < num {
                    let Some(chunk) = next_chunk(reader, interrupt)? else { break };
                    for index in 0..chunk.examples.len().min(num - shown.len()) {
                        let columns = columns_at(&chunk.examples.columns, index);
                        let columns = match stage {
                            StageName::Raw => columns,
                            // What else the steps left over does not come out of the task.
                            _ => columns.into_iter().filter(|(name, _)| is_shown(name, task)).collect(),
                        };
                        let row = chunk.examples.rows[index].clone();
                        shown.push(Shown { place: place(reader, &chunk, &row)?, row, columns });
                    }
                }
            }
        }
        Ok(shown)
    }
}

/// The next chunk, unless a stop was asked for.
fn next_chunk(reader: &mut SplitReader, interrupt: &Interrupt) -> anyhow::Result<Option<ReadChunk>> {
    let chunk = reader.next().transpose()?;
    anyhow::ensure!(!interrupt.asked(), "interrupted");
    Ok(chunk)
}

fn is_shown(name: &str, task: &Task) -> bool {
    task.features().contains_key(name) || name.ends_with(seqio::PRETOKENIZED_SUFFIX)
}

fn columns_at(batch: &arrow::array::RecordBatch, row: usize) -> Vec<(String, ArrayRef)> {
    let schema = batch.schema();
    let names = schema.fields().iter().map(|field| field.name().clone());
    names.zip(batch.columns().iter().map(|column| column.slice(row, 1))).collect()
}

fn place(reader: &SplitReader, chunk: &ReadChunk, row: &ExampleRow) -> anyhow::Result<String> {
    let Some(origin) = row.origins.first() else { return Ok(String::new()) };
    let line = reader.line_of(chunk.range, origin.row)?;
    let path = reader.files().get(chunk.range.file as usize).map_or(Path::new(""), |file| &file.path);
    let place = format!("{}:{line}", path.strip_prefix(".").unwrap_or(path).display());
    Ok(with_key(place, row))
}

/// A place with the row's key, if it has one: `train.sql:3, id=5`.
fn with_key(place: String, row: &ExampleRow) -> String {
    match &row.key {
        Some(key) => format!("{place}, {key}"),
        None => place,
    }
}

/// File and line of a cached example.
pub(crate) fn cached_place(split: &CachedSplit, row: &ExampleRow) -> String {
    let places = row
        .origins
        .iter()
        .map(|origin| format!("{}:{}", split.file_name(origin).unwrap_or("?"), origin.row + 1));
    with_key(places.collect::<Vec<_>>().join(", "), row)
}

/// A column of one example, as it is shown.
struct ShownColumn {
    name: String,
    content: Content,
}

enum Content {
    Tokens(Vec<i32>),
    Text(Option<String>),
    Other(String),
}

fn column_of(
    name: &str,
    column: &ArrayRef,
    edits: &[seqio::TokenEdit],
    task: &Task,
) -> anyhow::Result<ShownColumn> {
    let is_feature = task.features().contains_key(name);
    let content = match column.data_type() {
        DataType::List(item) if is_feature && *item.data_type() == DataType::Int32 => {
            let ids = if column.is_null(0) { Vec::new() } else { ids_of(&column.as_list::<i32>().value(0)) };
            Content::Tokens(edited(ids, edits))
        }
        DataType::Utf8 => {
            Content::Text((!column.is_null(0)).then(|| column.as_string::<i32>().value(0).to_owned()))
        }
        _ => Content::Other(ArrayFormatter::try_new(column, &FormatOptions::default())?.value(0).to_string()),
    };
    Ok(ShownColumn { name: name.to_owned(), content })
}

fn ids_of(list: &ArrayRef) -> Vec<i32> {
    list.as_primitive::<Int32Type>().values().to_vec()
}

/// What the steps below the cache boundary make of a sequence.
fn edited(mut ids: Vec<i32>, edits: &[seqio::TokenEdit]) -> Vec<i32> {
    for edit in edits {
        match *edit {
            seqio::TokenEdit::Trim { max_length } => ids.truncate(max_length),
            seqio::TokenEdit::Append { id } => ids.push(id),
            seqio::TokenEdit::RepeatLast => ids.push(ids.last().copied().unwrap_or(0)),
        }
    }
    ids
}

/// Which tokens of a column count, if another column says so.
fn loss_of<'a>(column: &ShownColumn, columns: &'a [ShownColumn]) -> Option<&'a [i32]> {
    let Content::Tokens(ids) = &column.content else { return None };
    let name = format!("{}{LOSS_SUFFIX}", column.name);
    match &columns.iter().find(|other| other.name == name)?.content {
        Content::Tokens(loss) if loss.len() == ids.len() => Some(loss),
        _ => None,
    }
}

/// Whether a column is shown beside the tokens that it is about.
fn stands_beside(column: &ShownColumn, columns: &[ShownColumn]) -> bool {
    let about = column.name.strip_suffix(LOSS_SUFFIX);
    let about = about.and_then(|name| columns.iter().find(|other| other.name == name));
    about.is_some_and(|about| loss_of(about, columns).is_some())
}

fn print_column(
    column: &ShownColumn,
    loss: Option<&[i32]>,
    task: &Task,
    limit: usize,
    out: &mut Out,
) -> anyhow::Result<()> {
    let (paint, width) = (out.paint, out.width());
    let name = paint.text(Style::Strong, &column.name);
    match &column.content {
        Content::Text(None) => writeln!(out, "  {name}: null")?,
        Content::Text(Some(text)) => {
            writeln!(out, "  {name}: {}", shown_text(text, limit.saturating_mul(8)))?
        }
        Content::Other(text) => writeln!(out, "  {name}: {}", shown_text(text, limit.saturating_mul(8)))?,
        Content::Tokens(ids) => {
            let count = crate::format::counted(ids.len() as u64, "token");
            let Some(feature) = task.features().get(&column.name) else { return Ok(()) };
            let vocabulary = feature.vocabulary.as_ref();
            let text = shown_text(&vocabulary.decode(ids), limit.saturating_mul(4));
            let counted = match loss.map(|loss| loss.iter().filter(|loss| **loss != 0).count()) {
                None => String::new(),
                Some(0) => ", none with a loss".to_owned(),
                Some(some) => format!(", {} with a loss", crate::format::count(some as u64)),
            };
            writeln!(out, "  {name}, {count}{counted}: {text}")?;
            let weights: Option<Vec<f32>> = loss.map(|loss| loss.iter().map(|loss| *loss as f32).collect());
            let beside = Beside { weights: weights.as_deref(), ..Beside::default() };
            TokenGrid::new(ids, vocabulary, beside, limit).write(out, paint, 4, width)?;
        }
    }
    Ok(())
}

fn columns_json(columns: &[ShownColumn], task: &Task) -> Value {
    let mut features = Map::new();
    for column in columns {
        let value = match (&column.content, task.features().get(&column.name)) {
            (Content::Tokens(ids), Some(feature)) => {
                let vocabulary = feature.vocabulary.as_ref();
                let pieces: Vec<String> = ids.iter().map(|id| shown_piece(*id, vocabulary)).collect();
                let mut shown = json!({ "ids": ids, "pieces": pieces, "text": vocabulary.decode(ids) });
                if let Some(loss) = loss_of(column, columns) {
                    shown["loss"] = json!(loss);
                }
                shown
            }
            (Content::Tokens(ids), None) => json!(ids),
            (Content::Text(text), _) => json!(text),
            (Content::Other(text), _) => json!(text),
        };
        features.insert(column.name.clone(), value);
    }
    Value::Object(features)
}

fn example_json(example: &Shown, columns: &[ShownColumn], task: &Task) -> Value {
    let mut shown = json!({ "id": format!("{:?}", example.row.id), "place": example.place });
    if let Some(key) = &example.row.key {
        shown["key"] = json!(key.as_ref());
    }
    shown["columns"] = columns_json(columns, task);
    shown
}

/// Rows as a model sees them, packed from the first examples in their order.
fn model(input: &mut Input, args: &InspectArgs, interrupt: &Interrupt, out: &mut Out) -> anyhow::Result<()> {
    let task = input.task();
    let converter = shape::converter(args.converter.as_ref(), &task)?;
    if args.lengths.is_empty() {
        return Err(usage(
            "stage `model` needs `--lengths`, as `--lengths 512` or `--lengths inputs=512,targets=128`",
        ));
    }
    let lengths = shape::lengths(&args.lengths, &converter, &task)?;
    let mut config = DatasetConfig::new(&args.data.split, converter, []);
    config.lengths = lengths;
    config.packing = shape::packing(args.pack);
    config.converter.check_packing(config.is_packed()).map_err(|error| usage(error.to_string()))?;
    config.order = OrderKind::Storage;
    config.epochs = Some(1);
    config.read_ahead = 0;
    config.batch_sizes = seqio::BatchSizes::constant(args.num.max(1) as u64);
    let store: Arc<dyn ExampleStore> = match input {
        Input::Cache(_, split) => Arc::clone(split) as Arc<dyn ExampleStore>,
        Input::Source(_, reader) => {
            let wanted =
                config.lengths.values().map(|length| length.saturating_mul(args.num + 1)).max().unwrap_or(0);
            let steps = task.item_steps(&config.lengths)?;
            let read = config.converter.read_features(&config.lengths, task.features().keys());
            let features = steps.as_ref().map_or(read.as_slice(), ItemSteps::stored);
            Arc::new(first_examples(reader, features, wanted, interrupt)?)
        }
    };
    if store.num_examples() == 0 {
        return nothing_to_show(args, "examples", out);
    }
    let stream_task = shape::stream_task(&task, "inspected".to_owned(), &config.lengths)?;
    let dataset = Dataset::new(stream_task, store, config)?;
    let Some(batch) = dataset.iter()?.next().transpose()? else {
        return nothing_to_show(args, "examples with tokens", out);
    };
    let shown: Vec<ModelRow<'_>> = rows(&batch).filter(|row| row.is_valid()).take(args.num).collect();
    if args.json.wanted {
        let shown: Vec<Value> = shown.iter().map(|row| row.json(&task)).collect();
        return out.json(&shown);
    }
    for row in &shown {
        row.print(&task, args.tokens, out)?;
        writeln!(out)?;
    }
    Ok(())
}

/// An empty list, or words.
fn nothing_to_show(args: &InspectArgs, what: &str, out: &mut Out) -> anyhow::Result<()> {
    match args.json.wanted {
        true => out.json(&[(); 0]),
        false => Ok(writeln!(out, "split `{}` has no {what}", args.data.split)?),
    }
}

/// Examples from the front of the split, until there are this many tokens in some feature.
fn first_examples(
    reader: &mut SplitReader,
    features: &[String],
    wanted: usize,
    interrupt: &Interrupt,
) -> anyhow::Result<InMemoryExamples> {
    let mut store = InMemoryExamples::new(features);
    let mut tokens = 0;
    let mut count = 0;
    while tokens < wanted && count < EXAMPLES_FOR_ROWS {
        let Some(chunk) = next_chunk(reader, interrupt)? else { break };
        let to = chunk.examples.len().min(EXAMPLES_FOR_ROWS - count);
        for row in 0..to {
            store.append(&chunk.examples, row, row + 1)?;
            count += 1;
            let lengths = (0..store.features().len()).map(|feature| {
                let mut length = [0];
                store.lengths(feature, &[count as u64 - 1], &mut length);
                length[0] as usize
            });
            tokens += lengths.max().unwrap_or(0);
            if tokens >= wanted {
                break;
            }
        }
    }
    Ok(store)
}

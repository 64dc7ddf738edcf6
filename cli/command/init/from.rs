//! A task file for files that a person has: what they are, their columns, and which of them holds the text.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use arrow::array::{Array, AsArray as _, RecordBatch};
use arrow::datatypes::DataType;
use seqio::reference::{Part, Reference, bare_or_quoted, inline};
use seqio::{DataSource, FileRanges, SourceSpec};
use serde_json::{Map, Value};

use crate::args::InitArgs;
use crate::format::count;
use crate::report::{WithHint as _, usage};

/// A task file and what was found on the way.
pub(super) struct Made {
    pub(super) text: String,
    /// For the person, a line each.
    pub(super) found: Vec<String>,
}

/// Names of text columns, the likeliest first.
const TEXT_NAMES: [&str; 12] = [
    "text",
    "content",
    "contents",
    "body",
    "document",
    "article",
    "raw_content",
    "completion",
    "story",
    "message",
    "sentence",
    "code",
];

/// Endings of files, and the kind of source that reads them. Compression is looked through.
const ENDINGS: [(&str, &str); 13] = [
    ("jsonl", "jsonl"),
    ("ndjson", "jsonl"),
    ("json", "jsonl"),
    ("parquet", "parquet"),
    ("txt", "text"),
    ("text", "text"),
    ("csv", "csv"),
    ("tsv", "tsv"),
    ("arrow", "arrow"),
    ("feather", "arrow"),
    ("ipc", "arrow"),
    ("tfrecord", "tfrecord"),
    ("tfrecords", "tfrecord"),
];

const COMPRESSIONS: [&str; 6] = ["gz", "zst", "bz2", "xz", "zstd", "bzip2"];

/// Parts of file names that tell a split; what fits none is for training.
const SPLIT_WORDS: [(&str, &str); 6] = [
    ("validation", "validation"),
    ("valid", "validation"),
    ("val", "validation"),
    ("dev", "validation"),
    ("eval", "validation"),
    ("test", "test"),
];

/// Makes the task file.
pub(super) fn task_file(args: &InitArgs, files: &[PathBuf]) -> anyhow::Result<Made> {
    let kind = kind_of(files)?;
    let splits = splits_of(files);
    let base = std::path::absolute(&args.folder).context("cannot tell the current folder")?;
    let base = real(&base);
    let (mut patterns, mut full_patterns) = (BTreeMap::new(), BTreeMap::new());
    for (split, files) in &splits {
        let files = files.iter().map(|file| real_file(file)).collect::<anyhow::Result<Vec<_>>>()?;
        let seen = files.iter().map(|file| pattern(&relative(file, &base)));
        patterns.insert(split.clone(), seen.collect::<anyhow::Result<Vec<_>>>()?);
        let full = files.iter().map(|file| pattern(file));
        full_patterns.insert(split.clone(), full.collect::<anyhow::Result<Vec<_>>>()?);
    }
    let first = splits.values().next().and_then(|files| files.first()).cloned().unwrap_or_default();
    let columns = columns_of(kind, &full_patterns, &base)
        .with_context(|| format!("cannot read the columns of `{}`", first.display()))?;
    let text = text_column(args, &columns, &first)?;

    let mut found: Vec<String> = splits
        .iter()
        .map(|(split, files)| {
            format!("split {split}: {}", crate::format::counted(files.len() as u64, "file"))
        })
        .collect();
    found.push(format!("columns of {}: {}", first.display(), columns.in_words()));
    found.push(format!("the text is in `{}`{}", text.name, text.why));
    Ok(Made { text: render(args, kind, &patterns, &columns, &text.name), found })
}

/// The kind of source that reads these files, by the ends of their names.
fn kind_of(files: &[PathBuf]) -> anyhow::Result<&'static str> {
    let mut kinds: Vec<(&'static str, &PathBuf)> = Vec::new();
    for file in files {
        let kind = kind_by_name(file).ok_or_else(|| {
            let ends: Vec<String> = ENDINGS.iter().map(|(end, _)| format!(".{end}")).collect();
            usage(format!(
                "`{}` does not say what it holds; its name should end in one of {}, perhaps compressed (.gz, .zst, .bz2, .xz)",
                file.display(),
                seqio::quoted(ends)
            ))
        })?;
        match kinds.first() {
            Some((first, other)) if *first != kind => {
                return Err(usage(format!(
                    "`{}` is {first} and `{}` is {kind}: a task has one source; run `seqio init` for each in a folder \
                     of its own",
                    other.display(),
                    file.display()
                )));
            }
            _ => kinds.push((kind, file)),
        }
    }
    let kind = kinds.first().map_or("jsonl", |(kind, _)| kind);
    let topics = Reference::new().topics;
    let known = topics.iter().filter(|topic| topic.part == Part::Source).flat_map(|topic| &topic.kinds);
    if !known.into_iter().any(|known| known.name == kind) {
        return Err(usage(format!("this program has no source that reads {kind}")));
    }
    Ok(kind)
}

fn kind_by_name(file: &Path) -> Option<&'static str> {
    let name = file.file_name()?.to_str()?.to_lowercase();
    let mut parts = name.rsplit('.');
    let mut end = parts.next()?;
    if COMPRESSIONS.contains(&end) {
        end = parts.next()?;
    }
    // As in `train.tfrecord-00000-of-00064`.
    let end = end.split_once('-').filter(|(_, shard)| shard.contains("-of-")).map_or(end, |(end, _)| end);
    ENDINGS.iter().find(|(known, _)| *known == end).map(|(_, kind)| *kind)
}

/// Which files are for which split, by words in their names.
fn splits_of(files: &[PathBuf]) -> BTreeMap<String, Vec<PathBuf>> {
    let mut splits: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let mut words = name.split(|c: char| !c.is_ascii_alphabetic());
        let split = words
            .find_map(|word| SPLIT_WORDS.iter().find(|(known, _)| *known == word).map(|(_, split)| *split));
        splits.entry(split.unwrap_or("train").to_owned()).or_default().push(file.clone());
    }
    if !splits.contains_key("train") {
        // Nothing but test data, it seems; it is to be trained on all the same.
        let all = splits.into_values().flatten().collect();
        return BTreeMap::from([("train".to_owned(), all)]);
    }
    splits
}

fn real_file(file: &Path) -> anyhow::Result<PathBuf> {
    let full = file.canonicalize().with_context(|| format!("cannot read `{}`", file.display()))?;
    if full.is_dir() {
        return Err(usage(format!("`{}` is a folder; name its files, as `{0}/*`", file.display())));
    }
    Ok(full)
}

/// A path as a pattern that matches it alone.
fn pattern(path: &Path) -> anyhow::Result<String> {
    let text = path.to_str().ok_or_else(|| usage(format!("the path `{}` is not Unicode", path.display())))?;
    Ok(escaped(text))
}

/// The real path of a folder that may not be there yet.
fn real(folder: &Path) -> PathBuf {
    let mut missing = Vec::new();
    let mut at = folder;
    loop {
        if let Ok(real) = at.canonicalize() {
            return missing.iter().rev().fold(real, |path, name| path.join(name));
        }
        match (at.parent(), at.file_name()) {
            (Some(parent), Some(name)) => {
                missing.push(name);
                at = parent;
            }
            _ => return folder.to_owned(),
        }
    }
}

/// `file` as seen from `base`; absolute if they share no folder but the root.
fn relative(file: &Path, base: &Path) -> PathBuf {
    let (file_parts, base_parts): (Vec<_>, Vec<_>) =
        (file.components().collect(), base.components().collect());
    let shared = file_parts.iter().zip(&base_parts).take_while(|(a, b)| a == b).count();
    if shared <= 1 {
        return file.to_owned();
    }
    let up = base_parts[shared..].iter().map(|_| Component::ParentDir);
    up.chain(file_parts[shared..].iter().copied()).collect()
}

fn escaped(path: &str) -> String {
    let one = |c: char| if "[]*?".contains(c) { format!("[{c}]") } else { c.to_string() };
    path.chars().map(one).collect()
}

/// Columns with what is in them, from the first records of the first file.
struct Columns {
    schema: Vec<(String, DataType)>,
    /// Mean length of the text columns' values, in characters.
    text_lengths: BTreeMap<String, u64>,
}

impl Columns {
    fn in_words(&self) -> String {
        let one = |(name, data): &(String, DataType)| format!("{name} ({})", seqio::type_name(data));
        self.schema.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}

fn columns_of(kind: &str, patterns: &BTreeMap<String, Vec<String>>, base: &Path) -> anyhow::Result<Columns> {
    let table = Map::from_iter([(kind.to_owned(), serde_json::to_value(patterns)?)]);
    let spec: SourceSpec = serde_json::from_value(Value::Object(table))?;
    let source = spec.open("init", base)?;
    let schema = source.schema();
    let schema: Vec<_> =
        schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect();
    let sample = first_records(&source)?;
    let lengths = schema.iter().filter_map(|(name, _)| {
        let column = sample.as_ref()?.column_by_name(name)?;
        let texts = arrow::compute::cast(column, &DataType::Utf8).ok()?;
        let is_text = matches!(column.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
        let characters = texts.as_string::<i32>().iter().flatten().map(|text| text.chars().count() as u64);
        is_text.then(|| (name.clone(), characters.sum::<u64>() / (texts.len() as u64).max(1)))
    });
    let text_lengths = lengths.collect();
    Ok(Columns { schema, text_lengths })
}

/// The first chunk of records that can be read.
fn first_records(source: &Arc<dyn DataSource>) -> anyhow::Result<Option<RecordBatch>> {
    let splits = source.splits();
    let split = splits.iter().find(|split| *split == "train").or(splits.first());
    let Some(split) = split else { return Ok(None) };
    for (index, file) in (0u32..).zip(source.files(split)?) {
        let range = match source.ranges(&file, index)? {
            FileRanges::Known(ranges) => match ranges.first() {
                Some(range) => Some(*range),
                None => continue,
            },
            FileRanges::Streamed => None,
        };
        for chunk in source.read(&file, index, range, Box::new(|_| false))? {
            let parsed = source.parse(&file, &chunk?)?;
            if !parsed.examples.is_empty() {
                return Ok(Some(parsed.examples.columns));
            }
        }
    }
    Ok(None)
}

struct TextColumn {
    name: String,
    /// Why it is taken, for the person.
    why: String,
}

/// The column asked for, else the one that is called as texts are, else the one with the longest texts.
fn text_column(args: &InitArgs, columns: &Columns, first: &Path) -> anyhow::Result<TextColumn> {
    let texts = &columns.text_lengths;
    if let Some(wanted) = &args.text {
        if texts.contains_key(wanted) {
            return Ok(TextColumn { name: wanted.clone(), why: String::new() });
        }
        let problem = usage(format!(
            "`{}` has no column `{wanted}` of text, only {}",
            first.display(),
            seqio::quoted(texts.keys())
        ));
        return match seqio::nearest(wanted, texts.keys().map(String::as_str)) {
            Some(near) => Err(problem).hint(|| format!("did you mean `{near}`?")),
            None => Err(problem),
        };
    }
    let by_name = TEXT_NAMES.iter().find(|name| texts.contains_key(**name));
    let longest = texts.iter().max_by_key(|(_, length)| **length);
    let others = if texts.len() > 1 { "; `--text COLUMN` takes another" } else { "" };
    match (by_name, longest) {
        (Some(name), _) => Ok(TextColumn { name: (*name).to_owned(), why: format!(", by its name{others}") }),
        (None, Some((name, length))) => Ok(TextColumn {
            name: name.clone(),
            why: format!(", which has the longest texts ({} characters in the mean){others}", count(*length)),
        }),
        (None, None) => {
            let problem =
                anyhow::anyhow!("`{}` has no column of text; it has {}", first.display(), columns.in_words());
            Err(problem).hint(|| {
                "ids that are made already are read with a `pass_through` vocabulary: see `seqio reference pass_through`"
                    .to_owned()
            })
        }
    }
}

fn render(
    args: &InitArgs,
    kind: &str,
    patterns: &BTreeMap<String, Vec<String>>,
    columns: &Columns,
    text: &str,
) -> String {
    let task = &args.task;
    let splits: Vec<String> = patterns
        .iter()
        .map(|(split, patterns)| format!("source.{kind}.{split} = {}\n", inline(&patterns_value(patterns))))
        .collect();
    let declared = match kind {
        "text" => String::new(),
        _ => format!(
            "\n# The columns that are read; \"string?\" lets records lack it. There are: {}.\nsource.columns.{} = \"string\"\n",
            columns.in_words().replace('\n', " "),
            bare_or_quoted(text)
        ),
    };
    let splits = splits.concat();
    let text = inline(&Value::from(text));
    format!(
        "\
# What the data is, and what becomes of it; written by `seqio init`. Paths are relative to this file.
#
#   seqio inspect {task}            a few examples: token ids beside their text
#   seqio cache build {task}        encode once and keep the tokens
#   seqio reference               everything that can stand in this file

# Turns text into token ids. Bytes need no file; put the vocabulary of your model in its place:
#   tokenizer_json = \"tokenizer.json\"     or     sentencepiece = \"spm.model\"
[vocabulary.tokens]
byte = true

[task.{task}]
# The files of each split. Patterns match many: \"data/*.{kind}\".
{splits}{declared}
# What comes out: one feature, which a language model learns to predict.
features = {{ targets = {{ vocabulary = \"tokens\" }} }}
steps = [
  {{ op = \"rekey\", to_from = {{ targets = {text} }} }},
  {{ op = \"tokenize\" }},
  {{ op = \"cache\" }},           # above: once, and kept on disk; below: every time it is read
  {{ op = \"append_eos\" }},
]
"
    )
}

/// One pattern stands by itself.
fn patterns_value(patterns: &[String]) -> Value {
    match patterns {
        [one] => Value::from(one.as_str()),
        several => Value::from(several.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_a_file_is_seen_through_its_compression() {
        let kind = |name: &str| kind_by_name(Path::new(name));
        assert_eq!(kind("a/b.jsonl.gz"), Some("jsonl"));
        assert_eq!(kind("part.0.PARQUET"), Some("parquet"));
        assert_eq!(kind("train.tfrecord-00000-of-00064.gz"), Some("tfrecord"));
        assert_eq!([kind("notes"), kind("a.gz"), kind("a.doc")], [None; 3]);
    }

    #[test]
    fn splits_are_told_by_words_in_names() {
        let files = ["train-0.jsonl", "en_valid.jsonl", "latest.jsonl", "test.jsonl"].map(PathBuf::from);
        let splits = splits_of(&files);
        assert_eq!(splits["train"].len(), 2);
        assert_eq!((splits["validation"].len(), splits["test"].len()), (1, 1));
        assert_eq!(splits_of(&files[3..])["train"].len(), 1);
    }

    #[test]
    fn paths_are_seen_from_the_task_file() {
        let seen = |file: &str, base: &str| relative(Path::new(file), Path::new(base));
        assert_eq!(seen("/home/me/data/a.txt", "/home/me"), Path::new("data/a.txt"));
        assert_eq!(
            seen("/home/me/data/a.txt", "/home/me/p/q"),
            ["..", "..", "data", "a.txt"].iter().collect::<PathBuf>()
        );
        assert_eq!(seen("/data/a.txt", "/home/me"), Path::new("/data/a.txt"));
        assert_eq!(escaped("a[1]*.txt"), "a[[]1[]][*].txt");
    }
}

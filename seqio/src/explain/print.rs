//! An explanation as text for a terminal.

use std::fmt::{self, Write as _};

use serde_json::Value;

use crate::explain::{Column, Explanation, Stage, StagePlace};
use crate::preprocess::TokenEdit;
use crate::source::{OnBadRow, SourceFormat};

/// Settings of more characters, as templates are, are told by how they begin.
const MAX_SETTING: usize = 400;

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "task {}", self.task)?;
        self.print_source(f)?;
        writeln!(f)?;
        let width = self.stages.iter().map(|stage| stage.op.len()).max().unwrap_or_default();
        for stage in &self.stages {
            self.print_stage(f, stage, width)?;
        }
        writeln!(f, "\nfeatures")?;
        for feature in &self.features {
            let mut line = format!(
                "  {}: {} `{}`, {} ids",
                feature.name, feature.kind, feature.vocabulary, feature.vocab_size
            );
            match feature.eos {
                Some(eos) => write!(line, ", EOS {eos}")?,
                None => write!(line, ", no EOS")?,
            }
            if !feature.add_eos {
                line.push_str(", not appended (`add_eos = false`)");
            }
            if !feature.present {
                line.push_str(", absent");
            }
            writeln!(f, "{line}")?;
        }
        for warning in &self.warnings {
            write!(f, "\nwarning: {warning}")?;
        }
        if !self.warnings.is_empty() {
            writeln!(f)?;
        }
        Ok(())
    }
}

fn format_in_words(format: SourceFormat) -> &'static str {
    match format {
        SourceFormat::Text => "lines of text",
        SourceFormat::Jsonl => "JSON lines",
        SourceFormat::Csv => "CSV",
        SourceFormat::Tsv => "TSV",
        SourceFormat::Parquet => "Parquet",
        SourceFormat::Arrow => "Arrow",
        SourceFormat::Tfrecord => "TFRecord",
        SourceFormat::HfDataset => "a saved data set of Hugging Face's",
        SourceFormat::SeqioCache => "a cache of SeqIO",
        SourceFormat::Program => "a source of the program's own",
        SourceFormat::Sql => "rows of a query",
    }
}

impl Explanation {
    fn print_source(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = &self.source;
        let bad = match source.on_bad_row {
            OnBadRow::Fail => "a bad record stops the run",
            OnBadRow::Skip => "bad records are skipped and counted",
            OnBadRow::SetAside => "bad records are set aside and counted",
        };
        writeln!(f, "\nsource `{}`: {}; {bad}", source.name, format_in_words(source.format))?;
        if let Some(turns) = source.interleave {
            let (files, records) = (turns.cycle_length, turns.block_length);
            writeln!(f, "  files take turns: {files} are open at a time, and a turn is {records} records")?;
        }
        let width = source.splits.iter().map(|split| split.name.chars().count()).max().unwrap_or_default();
        let has_files = source.format != SourceFormat::Program;
        for split in &source.splits {
            let patterns = match source.format {
                // As one line.
                SourceFormat::Sql => split.patterns.concat().split_whitespace().collect::<Vec<_>>().join(" "),
                _ => split.patterns.join(", "),
            };
            write!(f, "  {:width$}  {patterns}", split.name)?;
            if let (Some(files), Some(bytes), true) = (split.files, split.bytes, has_files) {
                let plural = if files == 1 { "" } else { "s" };
                write!(f, "  ({files} file{plural}, {})", size_in_words(bytes))?;
            }
            writeln!(f)?;
        }
        if source.reads > 1 {
            let times =
                if source.reads == 2 { "twice".to_owned() } else { format!("{} times", source.reads) };
            writeln!(f, "  each split is read {times}, and the steps before the comparison run each time")?;
        }
        for table in &source.tables {
            let format = format_in_words(table.format);
            write!(f, "  table {}: {format}  {}", table.name, table.patterns.join(", "))?;
            let columns: Vec<String> =
                table.columns.iter().map(|(name, column)| format!("{name}: {column}")).collect();
            if !columns.is_empty() {
                write!(f, "  ({})", columns.join(", "))?;
            }
            writeln!(f)?;
        }
        if !source.key.is_empty() {
            writeln!(f, "  key: {}", source.key.join(", "))?;
        }
        if !source.columns.is_empty() {
            writeln!(f, "  columns: {}", columns_in_words(&source.columns))?;
        }
        Ok(())
    }

    fn print_stage(&self, f: &mut fmt::Formatter<'_>, stage: &Stage, width: usize) -> fmt::Result {
        let number = stage.number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        match stage.place {
            StagePlace::Cache => {
                let implied = if stage.number.is_some() { "" } else { " (implied)" };
                let shuffled =
                    self.source.splits.iter().filter(|split| split.shuffled).map(|split| &*split.name);
                let shuffled: Vec<&str> = shuffled.collect();
                let order = match (shuffled.len(), self.source.splits.len()) {
                    (0, _) => "stored in the order of the source".to_owned(),
                    (some, all) if some == all => "stored shuffled".to_owned(),
                    _ => format!(
                        "{} stored shuffled, the rest in the order of the source",
                        shuffled.join(", ")
                    ),
                };
                writeln!(f, "{number:>2}  ── cache{implied} ── {order}")?;
                writeln!(f, "      {}", columns_in_words(&stage.columns))
            }
            StagePlace::Above => {
                write_op(f, &number, stage, width)?;
                if stage.whole_split {
                    writeln!(f, "      compares all examples of a split, which is read once more for it")?;
                }
                if stage.columns.is_empty() {
                    return Ok(());
                }
                writeln!(f, "      {}", columns_in_words(&stage.columns))
            }
            StagePlace::Below => {
                write_op(f, &number, stage, width)?;
                if let Some(does) = &stage.does {
                    return writeln!(f, "      {does}");
                }
                for (feature, edits) in &stage.edits {
                    writeln!(
                        f,
                        "      {feature}: {}",
                        edits_in_words(edits, stage.lengths_missing.contains(feature))
                    )?;
                }
                Ok(())
            }
        }
    }
}

fn write_op(f: &mut fmt::Formatter<'_>, number: &str, stage: &Stage, width: usize) -> fmt::Result {
    let settings: Vec<String> =
        stage.settings.iter().map(|(key, value)| format!("{key} = {}", toml_in_line(value))).collect();
    let line = format!("{number:>2}  {:width$}  {}", stage.op, settings.join(", "));
    writeln!(f, "{}", line.trim_end())
}

fn toml_in_line(value: &Value) -> String {
    match value {
        Value::Object(entries) => {
            let entries = entries.iter().map(|(key, value)| format!("{key} = {}", toml_in_line(value)));
            format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(toml_in_line).collect::<Vec<_>>().join(", "))
        }
        Value::String(text) if text.chars().count() > MAX_SETTING => {
            let start: String = text.chars().take(MAX_SETTING / 4).collect();
            format!("{}… ({} characters)", Value::from(start), text.chars().count())
        }
        scalar => scalar.to_string(),
    }
}

fn columns_in_words(columns: &[Column]) -> String {
    let column = |column: &Column| {
        let null = if column.nullable { " or null" } else { "" };
        format!("{}: {}{null}", column.name, column.type_name)
    };
    columns.iter().map(column).collect::<Vec<_>>().join(", ")
}

fn edits_in_words(edits: &[TokenEdit], length_missing: bool) -> String {
    let edit = |edit: &TokenEdit| match edit {
        TokenEdit::Trim { max_length } => format!("the first {max_length}"),
        TokenEdit::Append { id } => format!("then EOS ({id})"),
        TokenEdit::RepeatLast => "then the last once more".to_owned(),
    };
    let mut words: Vec<String> = edits.iter().map(edit).collect();
    if length_missing {
        words.insert(0, "all (no length given)".to_owned());
    }
    if words.is_empty() { "unchanged".to_owned() } else { words.join(", ") }
}

fn size_in_words(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut size = bytes as f64;
    let mut unit = "B";
    for next in UNITS {
        if size < 999.95 {
            break;
        }
        size /= 1000.0;
        unit = next;
    }
    format!("{size:.1} {unit}")
}

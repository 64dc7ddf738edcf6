//! Why a step refuses its input, in words a person can act on.

use arrow::datatypes::{DataType, Schema};
use arrow::error::ArrowError;

use crate::example::{ExampleId, ExampleRow, Origin};
use crate::text::quoted;
use crate::whole_split::WholeSplitError;

/// Why a step refused its input.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PreprocessError {
    /// Columns that the step needs are not there.
    #[error("step `{step}` needs {what} {}, but the examples have only {}", quoted(names), quoted(found))]
    Missing {
        /// The step.
        step: &'static str,
        /// `feature`, `column` or `columns`.
        what: &'static str,
        /// The names looked for.
        names: Vec<String>,
        /// The columns there are.
        found: Vec<String>,
    },
    /// A column has another type than the step works on.
    #[error("step `{step}` needs `{column}` to be {expected}, but it is `{}`", type_name(found))]
    WrongType {
        /// The step.
        step: &'static str,
        /// The column.
        column: String,
        /// What it would have to be.
        expected: &'static str,
        /// What it is.
        found: DataType,
    },
    /// The step's settings or place make no sense.
    #[error("step `{step}`: {problem}")]
    Setting {
        /// The step.
        step: &'static str,
        /// What is wrong and what to do.
        problem: String,
    },
    /// One example's value is wrong.
    #[error("step `{step}`, feature `{feature}`: {problem} ({})", row_in_words(example, origins))]
    Row {
        /// The step.
        step: &'static str,
        /// The feature.
        feature: String,
        /// What is wrong with the value.
        problem: String,
        /// The example.
        example: ExampleId,
        /// Where it came from; who knows the source can turn it into file and line.
        origins: Vec<Origin>,
    },
    /// An expression fails on one example.
    #[error("step `{step}`, {setting}: {problem} ({})", row_in_words(example, origins))]
    Expression {
        /// The step.
        step: &'static str,
        /// Where the expression stands in the step's settings, in words.
        setting: String,
        /// What went wrong.
        problem: String,
        /// The example.
        example: ExampleId,
        /// Where it came from.
        origins: Vec<Origin>,
    },
    /// A step of a task failed.
    #[error("task `{task}`, step {number} of {steps}: {error}")]
    InTask {
        /// The task.
        task: String,
        /// The step's place, from 1.
        number: usize,
        /// How many steps the task has.
        steps: usize,
        /// What the step said.
        #[source]
        error: Box<PreprocessError>,
    },
    /// The task was opened from a cache: what stands above the boundary cannot run.
    #[error(
        "task `{task}` came from its cache, without its source: its steps above the cache boundary cannot run"
    )]
    NoSource {
        /// The task.
        task: String,
    },
    /// A step looks at the whole split, and nobody has said what it keeps.
    #[error("step `{step}` looks at the whole split: read it with `SplitReader`, and with `SplitChoices`")]
    NotChosen {
        /// The step.
        step: &'static str,
    },
    /// What a step keeps of a split cannot be read.
    #[error(transparent)]
    WholeSplit(#[from] WholeSplitError),
    /// Arrow refused a batch.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
}

impl PreprocessError {
    /// A missing column, with what was there instead.
    pub fn missing(step: &'static str, what: &'static str, name: &str, schema: &Schema) -> Self {
        Self::Missing { step, what, names: vec![name.to_owned()], found: column_names(schema) }
    }

    /// One or more missing columns, with what was there instead.
    pub(crate) fn missing_columns(step: &'static str, names: Vec<String>, schema: &Schema) -> Self {
        let what = if names.len() == 1 { "column" } else { "columns" };
        Self::Missing { step, what, names, found: column_names(schema) }
    }

    /// A wrong value in the example of `row`.
    pub fn row(step: &'static str, feature: &str, problem: String, row: &ExampleRow) -> Self {
        let feature = feature.to_owned();
        Self::Row { step, feature, problem, example: row.id, origins: row.origins.clone() }
    }

    /// Where the example at fault came from, if one example is at fault.
    pub fn origins(&self) -> &[Origin] {
        match self {
            Self::Row { origins, .. } | Self::Expression { origins, .. } => origins,
            Self::InTask { error, .. } => error.origins(),
            _ => &[],
        }
    }
}

/// The names of a schema's columns, in order.
pub(crate) fn column_names(schema: &Schema) -> Vec<String> {
    schema.fields().iter().map(|field| field.name().clone()).collect()
}

/// A column's type in the words of task files: `string`, `int64`, `list of int32`.
pub fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "string".to_owned(),
        DataType::Boolean => "bool".to_owned(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "binary".to_owned(),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            format!("list of {}", type_name(item.data_type()))
        }
        other => other.to_string().to_lowercase(),
    }
}

fn row_in_words(example: &ExampleId, origins: &[Origin]) -> String {
    match origins.first() {
        Some(origin) => format!("record {} of file {}, example {example:?}", origin.row + 1, origin.file + 1),
        None => format!("example {example:?}"),
    }
}

//! The exemplars that steps of a task ask for: read once, when the task is opened.

use std::sync::Arc;

use arrow::array::{Array, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;

use crate::error::{DefinitionError, DefinitionErrorKind};
use crate::example::{ExampleId, Examples};
use crate::preprocess::{Exemplar, ExemplarRequest, Exemplars, StepContext};
use crate::source::{DataSource, FileRanges, SourceError};
use crate::task::PlacedStep;
use crate::text::{counted, nearest, quoted};

/// Reads the exemplars of each step that asks for some; the steps before it are run on them. Of steps that look at a whole
/// split nothing is dropped.
pub(super) fn read_all(
    source: &dyn DataSource,
    steps: &mut [PlacedStep],
    ctx: &StepContext,
) -> Result<(), (usize, Box<DefinitionError>)> {
    for place in 0..steps.len() {
        let step = Arc::clone(&steps[place].step);
        let Some(request) = step.exemplars() else { continue };
        let read = read(source, &steps[..place], ctx, request);
        steps[place].exemplars = Some(Arc::new(read.map_err(|error| (steps[place].index, error))?));
    }
    Ok(())
}

fn read(
    source: &dyn DataSource,
    before: &[PlacedStep],
    ctx: &StepContext,
    request: ExemplarRequest<'_>,
) -> Result<Exemplars, Box<DefinitionError>> {
    let ExemplarRequest { split, most, least } = request;
    let splits = source.splits();
    if !splits.iter().any(|known| known == split) {
        let hint = match nearest(split, splits.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the splits are {}", quoted(&splits)),
        };
        let problem = format!("there is no split `{split}` to take exemplars from");
        return Err(Box::new(DefinitionError::new(problem).hint(hint)));
    }
    let mut found = Vec::new();
    let files = source.files(split).map_err(|error| unreadable(split, &error))?;
    'files: for (index, file) in (0u32..).zip(&files) {
        let ranges = match source.ranges(file, index).map_err(|error| unreadable(split, &error))? {
            FileRanges::Known(ranges) => ranges.into_iter().map(Some).collect(),
            FileRanges::Streamed => vec![None],
        };
        for range in ranges {
            let chunks = source.read(file, index, range, Box::new(|_| false));
            for chunk in chunks.map_err(|error| unreadable(split, &error))? {
                let parsed = chunk.and_then(|chunk| source.parse(file, &chunk));
                let mut examples = parsed.map_err(|error| unreadable(split, &error))?.examples;
                for placed in before.iter().filter(|placed| placed.step.whole_split().is_none()) {
                    let applied = placed.step.apply(examples, &placed.context(ctx));
                    examples = applied.map_err(|error| {
                        DefinitionError::new(format!(
                            "the exemplars of split `{split}` cannot be made: {error}"
                        ))
                    })?;
                }
                found.extend(texts(&examples).map_err(|problem| {
                    DefinitionError::new(format!(
                        "the exemplars of split `{split}` cannot be made: {problem}"
                    ))
                })?);
                if found.len() >= most {
                    break 'files;
                }
            }
        }
    }
    found.truncate(most);
    if found.len() < least {
        let problem = format!(
            "split `{split}` has {}, but {least} are needed: one more than are shown, as none is shown beside itself",
            counted(found.len() as u64, "example")
        );
        return Err(Box::new(DefinitionError::new(problem).hint("ask for fewer, or name another split")));
    }
    Ok(Exemplars::new(found))
}

/// Inputs and targets of each example, with its id.
fn texts(examples: &Examples) -> Result<Vec<(Option<ExampleId>, Exemplar)>, String> {
    let column = |name: &str| {
        let column = examples.columns.column_by_name(name);
        let column = column.ok_or_else(|| format!("they have no column `{name}`"))?;
        cast(column, &DataType::Utf8).map_err(|error| error.to_string())
    };
    let (inputs, targets) = (column("inputs")?, column("targets")?);
    let (inputs, targets) = (inputs.as_string::<i32>(), targets.as_string::<i32>());
    let text = |texts: &StringArray, row: usize| {
        if texts.is_valid(row) { texts.value(row).to_owned() } else { String::new() }
    };
    let rows = examples.rows.iter().enumerate();
    Ok(rows
        .map(|(row, example)| (Some(example.id), Exemplar::new(text(inputs, row), text(targets, row))))
        .collect())
}

fn unreadable(split: &str, error: &SourceError) -> Box<DefinitionError> {
    let problem = format!("split `{split}`, which exemplars are taken from, cannot be read: {error}");
    Box::new(DefinitionError::new(problem).of_kind(DefinitionErrorKind::Source))
}

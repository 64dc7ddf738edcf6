//! A text step run on a chunk of examples.

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;

use crate::example::Examples;
use crate::preprocess::text::TextStep;
use crate::preprocess::text::row::{Column, Pieces, Row};
use crate::preprocess::{PreprocessError, StepContext};

/// The columns that a step will make, or why it cannot run.
pub(super) fn output_schema<S: TextStep>(step: &S, input: &SchemaRef) -> Result<SchemaRef, PreprocessError> {
    let (plan, _) = step.plan(input)?;
    plan.schema(S::NAME, input)
}

/// Runs a step on some examples.
pub(super) fn apply<S: TextStep>(
    step: &S,
    examples: Examples,
    ctx: &StepContext,
) -> Result<Examples, PreprocessError> {
    let input = examples.columns.schema();
    let (plan, state) = step.plan(&input)?;
    let schema = plan.schema(S::NAME, &input)?;
    let open =
        |(name, kind): &(String, _)| Column::open(examples.columns.column(input.index_of(name)?), *kind);
    let columns: Vec<Column> = plan.reads.iter().map(open).collect::<Result<_, PreprocessError>>()?;
    let mut pieces = Pieces::new(&plan.makes, &examples.columns)?;
    for (index, example) in examples.rows.iter().enumerate() {
        let row = Row { step: S::NAME, index, names: &plan.reads, columns: &columns, row: example, ctx };
        pieces.parent = index;
        step.row(&state, &row, &mut pieces)?;
    }
    let (columns, parents) = pieces.finish(&examples.columns)?;
    let rows = RecordBatchOptions::new().with_row_count(Some(parents.len()));
    let columns = RecordBatch::try_new_with_options(schema, columns, &rows)?;
    if S::MAKES_MANY {
        return Ok(examples.parts(columns, &parents));
    }
    let mut made = examples;
    let mut kept = parents.iter().copied().peekable();
    let keep: Vec<bool> = (0..made.len()).map(|row| kept.next_if_eq(&row).is_some()).collect();
    let mut keep = keep.iter().copied();
    made.rows.retain(|_| keep.next().unwrap_or(false));
    made.columns = columns;
    Ok(made)
}

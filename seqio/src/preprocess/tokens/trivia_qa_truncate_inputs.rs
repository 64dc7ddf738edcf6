//! Long contexts cut around their answer.
//!
//! ```text
//! length 4    inputs: [2, 3, 5, 7, 9, 11, 13]  targets: [5, 7, 9]   ->   inputs: [3, 5, 7, 9]   (or [5, 7, 9, 11])
//! ```

use std::sync::Arc;

use arrow::array::{Array, AsArray, ListArray, RecordBatch};
use arrow::datatypes::{Int32Type, SchemaRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::example::{ExampleId, Examples};
use crate::preprocess::columns::{token_column, token_field, token_index};
use crate::preprocess::tokens::settings::{INPUTS, TARGETS, length};
use crate::preprocess::{PreprocessError, Preprocessor, StepContext};
use crate::rng::Key;

const STEP: &str = "trivia_qa_truncate_inputs";

/// Cuts `inputs` that are longer than their length to a random stretch that holds the ids of `targets`; where they are not in
/// it, and where inputs are empty, the example is dropped. It looks at tokens, and so stands above the cache boundary, in a
/// task that fixes the length of `inputs`, after `tokenize` and before an EOS is appended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self {})]
pub struct TriviaQaTruncateInputs {}

impl Preprocessor for TriviaQaTruncateInputs {
    fn name(&self) -> &'static str {
        STEP
    }

    fn length_dependent(&self, _ctx: &StepContext) -> Vec<String> {
        vec![INPUTS.to_owned()]
    }

    fn output_schema(&self, input: &SchemaRef, ctx: &StepContext) -> Result<SchemaRef, PreprocessError> {
        length(STEP, ctx, INPUTS)?;
        token_index(STEP, input, TARGETS)?;
        let inputs = token_index(STEP, input, INPUTS)?;
        let mut fields = input.fields().to_vec();
        fields[inputs] = Arc::new(token_field(INPUTS));
        Ok(Arc::new(arrow::datatypes::Schema::new(fields)))
    }

    fn apply(&self, examples: Examples, ctx: &StepContext) -> Result<Examples, PreprocessError> {
        let max_length = length(STEP, ctx, INPUTS)? as usize;
        let input = examples.columns.schema();
        let schema = self.output_schema(&input, ctx)?;
        let place = token_index(STEP, &input, INPUTS)?;
        let contexts = examples.columns.column(place).as_list::<i32>();
        let answers = examples.columns.column(token_index(STEP, &input, TARGETS)?).as_list::<i32>();
        let mut ids = Vec::new();
        let mut ends = vec![0];
        let mut keep = Vec::with_capacity(examples.len());
        for (row, example) in examples.rows.iter().enumerate() {
            let (context, answer) = (tokens(contexts, row), tokens(answers, row));
            let stretch = stretch(&context, &answer, max_length, &example.id);
            keep.push(stretch.is_some());
            ids.extend_from_slice(stretch.unwrap_or_default());
            ends.push(ids.len() as i32);
        }
        let mut columns = examples.columns.columns().to_vec();
        columns[place] = Arc::new(token_column(ids, ends));
        let columns = RecordBatch::try_new(schema, columns)?;
        Ok(examples.with_columns(columns).keep(&keep)?)
    }
}

fn tokens(lists: &ListArray, row: usize) -> Vec<i32> {
    if lists.is_null(row) {
        return Vec::new();
    }
    lists.value(row).as_primitive::<Int32Type>().values().to_vec()
}

/// The stretch of at most `max_length` ids of `context` that is taken for the example of this id; `None` drops it. Only the
/// first place at which the answer stands counts.
fn stretch<'a>(context: &'a [i32], answer: &[i32], max_length: usize, id: &ExampleId) -> Option<&'a [i32]> {
    if context.len() <= max_length {
        return (!context.is_empty()).then_some(context);
    }
    let at =
        (0..=context.len().saturating_sub(answer.len())).find(|at| context[*at..].starts_with(answer))?;
    let latest = at.min(context.len() - max_length);
    let earliest = (at + answer.len()).saturating_sub(max_length).min(latest);
    let half = |from: usize| id.0[from..from + 8].iter().fold(0, |half, byte| half << 8 | u64::from(*byte));
    let key = Key::new(STEP, 0, "", 0).child(half(0)).child(half(8));
    let start = earliest + key.draws().below((latest - earliest) as u64 + 1) as usize;
    Some(&context[start..start + max_length]).filter(|stretch| !stretch.is_empty())
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int32Builder, ListBuilder};
    use serde_json::Value;

    use super::*;
    use crate::preprocess::tokens::testing::context;
    use crate::testing::{assert_step_laws, rows};
    use crate::vocabulary::golden::{ids, rows as golden_rows};

    /// Inputs and targets.
    type Pair = (Vec<i32>, Vec<i32>);

    fn examples(pairs: &[Pair]) -> Examples {
        let column = |part: &dyn Fn(&Pair) -> Vec<i32>| -> ArrayRef {
            let mut lists = ListBuilder::new(Int32Builder::new());
            for pair in pairs {
                lists.values().append_slice(&part(pair));
                lists.append(true);
            }
            Arc::new(lists.finish())
        };
        let columns = [(INPUTS, column(&|pair| pair.0.clone())), (TARGETS, column(&|pair| pair.1.clone()))];
        Examples::new(RecordBatch::try_from_iter(columns).unwrap(), rows(pairs.len()))
    }

    fn pairs_of(examples: &Examples) -> Vec<Pair> {
        let column = |name| examples.columns.column_by_name(name).unwrap().as_list::<i32>();
        (0..examples.len()).map(|row| (tokens(column(INPUTS), row), tokens(column(TARGETS), row))).collect()
    }

    #[test]
    fn contexts_hold_their_answer_as_t5s_do() {
        let cases = golden_rows("seqio/t5_token_preprocessors.jsonl");
        let case = cases.iter().find(|case| case["fn"] == STEP).unwrap();
        let pairs = |rows: &Value| -> Vec<Pair> {
            rows.as_array().unwrap().iter().map(|row| (ids(&row[INPUTS]), ids(&row[TARGETS]))).collect()
        };
        let ctx = context(&[INPUTS, TARGETS], &[(INPUTS, 4)]);
        let given = examples(&pairs(&case["examples"]));
        assert_step_laws(&TriviaQaTruncateInputs {}, &ctx, &given);
        let ours = pairs_of(&TriviaQaTruncateInputs {}.apply(given, &ctx).unwrap());
        let theirs = pairs(&case["output"]);
        assert_eq!(ours.len(), theirs.len());
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!((ours.0.len(), &ours.1), (theirs.0.len(), &theirs.1));
        }
        for (context, answer) in ours.iter().chain(&theirs).filter(|(context, _)| context.len() == 4) {
            assert!(context.windows(answer.len()).any(|window| window == answer), "{context:?} {answer:?}");
        }
    }

    #[test]
    fn every_stretch_with_the_answer_is_taken() {
        let context: Vec<i32> = (2..22).collect();
        let mut starts = std::collections::BTreeSet::new();
        for row in rows(400) {
            let taken = stretch(&context, &[10, 11], 6, &row.id).unwrap();
            assert!(taken.len() == 6 && taken.windows(2).any(|window| window == [10, 11]));
            starts.insert(taken[0]);
        }
        assert_eq!(starts.into_iter().collect::<Vec<_>>(), [6, 7, 8, 9, 10]);
        let id = rows(1)[0].id;
        assert_eq!(stretch(&context, &[11, 10], 6, &id), None);
        assert_eq!(stretch(&[], &[], 6, &id), None);
        assert_eq!(stretch(&context, &(4..12).collect::<Vec<_>>(), 6, &id), Some(&[4, 5, 6, 7, 8, 9][..]));
        assert_eq!(stretch(&context, &[21], 6, &id), Some(&[16, 17, 18, 19, 20, 21][..]));
    }
}

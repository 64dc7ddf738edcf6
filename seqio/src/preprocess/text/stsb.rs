//! How much alike two sentences are, as STS-B has it.
//!
//! ```text
//! sentence1: "Big news."  sentence2: "No idea."  label: 2.57  idx: 5
//!     ->   inputs: "stsb sentence1: Big news. sentence2: No idea."  targets: "2.6"  idx: 5
//! ```

use arrow::datatypes::Schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::preprocess::PreprocessError;
use crate::preprocess::text::{Kind, Pieces, Plan, Row, TextStep, Value};

/// Makes `sentence1` and `sentence2` the `inputs`, and the number `label` the `targets`, rounded to a fifth in single
/// precision, halves to even, and written with one decimal. `idx` stays, if it is there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self {})]
pub struct Stsb {}

impl TextStep for Stsb {
    const NAME: &'static str = "stsb";

    type State = ();

    fn plan(&self, input: &Schema) -> Result<(Plan, ()), PreprocessError> {
        let reads = [("sentence1", Kind::Text), ("sentence2", Kind::Text), ("label", Kind::Number)];
        Ok((Plan::reads(reads).texts(&["inputs", "targets"]).keeps_any(input, &["idx"]), ()))
    }

    fn row(&self, (): &(), row: &Row<'_>, out: &mut Pieces) -> Result<(), PreprocessError> {
        let Some(label) = row.number(2).filter(|label| label.is_finite()) else {
            return Err(row.fail(2, "it must be a number, but is null, infinite or no number"));
        };
        let inputs = format!("stsb sentence1: {} sentence2: {}", row.text(0), row.text(1));
        let targets = format!("{:.1}", (label * 5.0).round_ties_even() / 5.0);
        out.push(row, &[Value::Text(&inputs), Value::Text(&targets)])
    }
}

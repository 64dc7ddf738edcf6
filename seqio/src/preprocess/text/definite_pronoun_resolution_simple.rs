//! Whom a pronoun means, as the data set of definite pronoun resolution asks it.
//!
//! ```text
//! sentence: "Bob asked Tom if he can lend some money."  pronoun: "he"  candidates: ["Bob", "Tom"]  label: 1
//!     ->   inputs: "wsc: Bob asked Tom if *he* can lend some money."  targets: "Tom"
//! ```

use arrow::datatypes::Schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::preprocess::PreprocessError;
use crate::preprocess::text::{Kind, Pieces, Plan, Row, TextStep, Value, wsc_label};

/// Marks the first place of `pronoun` in `sentence` where it is a word of its own, behind a blank; that of `candidates`
/// which `label` counts is the `targets`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::default())]
pub struct DefinitePronounResolutionSimple {
    /// What the inputs begin with.
    #[serde(default = "wsc_label")]
    pub label: String,
}

impl Default for DefinitePronounResolutionSimple {
    fn default() -> Self {
        Self { label: wsc_label() }
    }
}

impl TextStep for DefinitePronounResolutionSimple {
    const NAME: &'static str = "definite_pronoun_resolution_simple";

    type State = ();

    fn plan(&self, _input: &Schema) -> Result<(Plan, ()), PreprocessError> {
        let reads = [
            ("sentence", Kind::Text),
            ("pronoun", Kind::Text),
            ("candidates", Kind::Texts),
            ("label", Kind::Whole),
        ];
        Ok((Plan::reads(reads).texts(&["inputs", "targets"]), ()))
    }

    fn row(&self, (): &(), row: &Row<'_>, out: &mut Pieces) -> Result<(), PreprocessError> {
        let candidates = row.texts(2);
        let label = row.whole(3).and_then(|label| usize::try_from(label).ok());
        let Some(targets) = label.and_then(|label| candidates.get(label)) else {
            let found = row.whole(3).map_or("null".to_owned(), |label| label.to_string());
            let problem =
                format!("it is {found}, but there are {} candidates, counted from 0", candidates.len());
            return Err(row.fail(3, problem));
        };
        let inputs = format!("{} {}", self.label, mark_pronoun(row.text(0), row.text(1)));
        out.push(row, &[Value::Text(&inputs), Value::Text(targets)])
    }
}

/// The sentence with `*pronoun*` where the pronoun first stands between a blank and a blank, a full stop or a comma; as it
/// is if it stands nowhere so.
fn mark_pronoun(sentence: &str, pronoun: &str) -> String {
    let wanted = format!(" {pronoun}");
    let ends = |at: &usize| sentence[at + wanted.len()..].starts_with([' ', '.', ',']);
    let mut places = sentence.match_indices(' ').map(|(at, _)| at);
    match places.find(|at| sentence[*at..].starts_with(&wanted) && ends(at)) {
        Some(at) => format!("{} *{pronoun}*{}", &sentence[..at], &sentence[at + wanted.len()..]),
        None => sentence.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_place_counts() {
        assert_eq!(
            mark_pronoun("Ann hit her hat, it fell, it lay.", "it"),
            "Ann hit her hat, *it* fell, it lay."
        );
        assert_eq!(mark_pronoun("Ann saw it.", "it"), "Ann saw *it*.");
        assert_eq!(mark_pronoun("It was its hat; it? No", "it"), "It was its hat; it? No");
    }
}

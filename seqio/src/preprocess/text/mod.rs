//! The text steps of SeqIO and T5: from the columns of a data set to `inputs` and `targets`, before `tokenize`.
//!
//! ```text
//! en: "That is good."  de: "Das ist gut."   --translate-->   inputs: "translate German to English: Das …"  targets: …
//! ```
//!
//! Each is a [`TextStep`]: it says which columns it reads and which it makes, and makes rows from a row.

mod apply;
mod clean;
mod definite_pronoun_resolution_simple;
mod fewshot;
mod fill_in_the_blank;
mod fill_in_the_blank_sized;
mod filter_by_string_length;
mod glue;
mod languages;
mod lm;
mod multi_translate;
mod neighboring_pairs;
mod next_sentence_prediction;
mod pad_nonspaced_languages;
mod parse_tsv;
mod plan;
mod preprocess_tsv;
mod random_split_text;
mod rank_classification;
mod rank_classification_formatter;
mod record;
mod row;
mod sentences;
mod split_text_to_words;
mod squad;
mod stsb;
mod summarize;
#[cfg(test)]
mod tests;
mod translate;
mod trivia_qa;
mod wnli_simple;
mod wsc;
mod wsc_simple;

use std::fmt::Debug;

use arrow::datatypes::Schema;

use self::apply::{apply, output_schema};
pub use self::definite_pronoun_resolution_simple::DefinitePronounResolutionSimple;
pub use self::fewshot::Fewshot;
pub use self::fill_in_the_blank::FillInTheBlank;
pub use self::fill_in_the_blank_sized::FillInTheBlankSized;
pub use self::filter_by_string_length::FilterByStringLength;
pub use self::glue::Glue;
pub use self::lm::Lm;
pub use self::multi_translate::MultiTranslate;
pub use self::neighboring_pairs::NeighboringPairs;
pub use self::next_sentence_prediction::NextSentencePrediction;
pub use self::pad_nonspaced_languages::PadNonspacedLanguages;
pub use self::parse_tsv::ParseTsv;
use self::plan::{Kind, Made, Plan};
pub use self::preprocess_tsv::PreprocessTsv;
pub use self::random_split_text::RandomSplitText;
pub use self::rank_classification::{RankClassification, RankMode};
pub use self::rank_classification_formatter::{ChoiceFormats, RankClassificationFormatter};
pub use self::record::Record;
use self::row::{Pieces, Row, Value};
pub use self::split_text_to_words::SplitTextToWords;
pub use self::squad::Squad;
pub use self::stsb::Stsb;
pub use self::summarize::Summarize;
pub use self::translate::Translate;
pub use self::trivia_qa::TriviaQa;
pub use self::wnli_simple::WnliSimple;
pub use self::wsc::Wsc;
pub use self::wsc_simple::WscSimple;
use crate::preprocess::PreprocessError;

/// A step from columns of text to other columns, one row at a time.
trait TextStep: Debug {
    /// The step's name in task files.
    const NAME: &'static str;
    /// Whether it can make several examples of one: they get ids of their own.
    const MAKES_MANY: bool = false;

    /// What the settings come to for some columns.
    type State;

    /// What it reads and makes, and whatever it needs for each row; an error if the settings make no sense.
    fn plan(&self, input: &Schema) -> Result<(Plan, Self::State), PreprocessError>;

    /// Makes any number of rows of one.
    fn row(&self, state: &Self::State, row: &Row<'_>, out: &mut Pieces) -> Result<(), PreprocessError>;
}

/// Implements the trait of steps for text steps.
macro_rules! text_steps {
    ($($step:ty),* $(,)?) => {$(
        impl $crate::preprocess::Preprocessor for $step {
            fn name(&self) -> &'static str {
                <Self as TextStep>::NAME
            }

            fn output_schema(
                &self,
                input: &arrow::datatypes::SchemaRef,
                _ctx: &$crate::preprocess::StepContext,
            ) -> Result<arrow::datatypes::SchemaRef, PreprocessError> {
                output_schema(self, input)
            }

            fn apply(
                &self,
                examples: $crate::example::Examples,
                ctx: &$crate::preprocess::StepContext,
            ) -> Result<$crate::example::Examples, PreprocessError> {
                apply(self, examples, ctx)
            }
        }
    )*};
}

/// A setting that makes no sense.
fn setting(step: &'static str, problem: impl Into<String>) -> PreprocessError {
    PreprocessError::Setting { step, problem: problem.into() }
}

/// The name of the label in a column of whole numbers: `<unk>` for -1 and null.
fn label_name<'a, L: AsRef<str>>(
    row: &Row<'_>,
    column: usize,
    names: &'a [L],
) -> Result<&'a str, PreprocessError> {
    let label = match row.whole(column) {
        None | Some(-1) => return Ok("<unk>"),
        Some(label) => label,
    };
    let name = usize::try_from(label).ok().and_then(|label| names.get(label));
    name.map(AsRef::as_ref).ok_or_else(|| {
        let problem = format!("there is no label {label}; there are {}, counted from 0", names.len());
        row.fail(column, problem)
    })
}

fn text_key() -> String {
    "text".to_owned()
}

fn label_key() -> String {
    "label".to_owned()
}

fn fill_label() -> String {
    "fill: ".to_owned()
}

fn wsc_label() -> String {
    "wsc:".to_owned()
}

fn tab() -> String {
    "\t".to_owned()
}

fn yes() -> bool {
    true
}

text_steps! {
    DefinitePronounResolutionSimple, FillInTheBlank, FillInTheBlankSized, FilterByStringLength, Glue, Lm, MultiTranslate,
    NeighboringPairs, NextSentencePrediction, PadNonspacedLanguages, ParseTsv, PreprocessTsv, RandomSplitText,
    RankClassification, Record, SplitTextToWords, Squad, Stsb, Summarize, Translate, TriviaQa, WnliSimple, Wsc, WscSimple,
}

//! Blanks around the characters of writings that have none between words.
//!
//! ```text
//! text: "Hello there. 你好吗?"   ->   text: "Hello there. 你 好 吗 ?"
//! ```

use std::ops::RangeInclusive;

use arrow::datatypes::Schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::preprocess::PreprocessError;
use crate::preprocess::text::clean::pad;
use crate::preprocess::text::{Kind, Pieces, Plan, Row, TextStep, Value, text_key};

/// Puts blanks around each character of writings without blanks between words, and one blank for each run of white space:
/// Burmese, Chinese, Japanese, Javanese, Khmer, Lao, Tai Lue, Tai Tham, Thai and Tibetan, with the punctuation of Chinese
/// and Japanese.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::default())]
pub struct PadNonspacedLanguages {
    /// The column of the text.
    #[serde(default = "text_key")]
    pub text_key: String,
}

impl Default for PadNonspacedLanguages {
    fn default() -> Self {
        Self { text_key: text_key() }
    }
}

/// Blocks of Unicode, in their order.
const APART: [RangeInclusive<char>; 17] = [
    '\u{0e00}'..='\u{0e7f}', // Thai
    '\u{0e80}'..='\u{0eff}', // Lao
    '\u{0f00}'..='\u{0fff}', // Tibetan
    '\u{1000}'..='\u{104f}', // Burmese
    '\u{1780}'..='\u{17ff}', // Khmer
    '\u{1980}'..='\u{19df}', // Tai Lue
    '\u{19e0}'..='\u{19ff}', // Khmer symbols
    '\u{1a20}'..='\u{1aaf}', // Tai Tham
    '\u{2e80}'..='\u{2eff}', // CJK radicals
    '\u{3000}'..='\u{303f}', // CJK symbols and punctuation
    '\u{3040}'..='\u{309f}', // Hiragana
    '\u{30a0}'..='\u{30ff}', // Katakana
    '\u{31c0}'..='\u{31ef}', // CJK strokes
    '\u{3400}'..='\u{4dbf}', // CJK extension A
    '\u{4e00}'..='\u{9fff}', // CJK
    '\u{a980}'..='\u{a9df}', // Javanese
    '\u{f900}'..='\u{faff}', // CJK compatibility
];

impl TextStep for PadNonspacedLanguages {
    const NAME: &'static str = "pad_nonspaced_languages";

    type State = ();

    fn plan(&self, input: &Schema) -> Result<(Plan, ()), PreprocessError> {
        Ok((Plan::reads([(&self.text_key, Kind::Text)]).replaces(input, &self.text_key), ()))
    }

    fn row(&self, (): &(), row: &Row<'_>, out: &mut Pieces) -> Result<(), PreprocessError> {
        let text = row.text(0);
        let padded = pad(text, |c| c >= '\u{0e00}' && APART.iter().any(|block| block.contains(&c)));
        out.push(row, &[Value::Text(&padded)])
    }
}

//! How text is prepared and cut into word pieces: the arguments of SeqIO's `BertWordPieceVocabulary`.
//!
//! ```toml
//! bert_wordpiece = "vocab.txt"
//! lower_case = true              # of uncased models
//! ```

use std::borrow::Cow;

use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fold;
use crate::vocabulary::VocabularyError;

/// A normal form of Unicode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NormalizationForm {
    /// Composed.
    #[serde(rename = "NFC")]
    Nfc,
    /// Decomposed.
    #[serde(rename = "NFD")]
    Nfd,
    /// Composed, compatibility forms replaced.
    #[serde(rename = "NFKC")]
    Nfkc,
    /// Decomposed, compatibility forms replaced.
    #[serde(rename = "NFKD")]
    Nfkd,
}

/// How a `bert_wordpiece` vocabulary cuts text; the defaults are SeqIO's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WordPieceOptions {
    /// Whether case is folded and accents are taken off, for pieces in lower case.
    pub lower_case: bool,
    /// The normal form that text is brought into before; with `lower_case` it is NFD in any case.
    pub normalization_form: Option<NormalizationForm>,
    /// Whether runs of spaces are words too.
    pub keep_whitespace: bool,
    /// Whether `[unused1]` and the like in text is a piece.
    pub preserve_unused_token: bool,
    /// Whether characters that no piece begins with are unknown one by one, or the whole word is.
    pub split_unknown_characters: bool,
    /// What the pieces begin with that go on with a word.
    pub suffix_indicator: String,
    /// Words of more bytes are unknown.
    pub max_bytes_per_word: usize,
    /// The longest piece that is looked for, without its indicator, in characters.
    pub max_chars_per_token: Option<usize>,
}

/// SeqIO's indicator of pieces that go on with a word.
pub(crate) const SUFFIX_INDICATOR: &str = "##";
/// SeqIO's length of the longest words, in bytes.
pub(crate) const MAX_BYTES_PER_WORD: usize = 100;

impl Default for WordPieceOptions {
    fn default() -> Self {
        Self {
            lower_case: false,
            normalization_form: None,
            keep_whitespace: false,
            preserve_unused_token: false,
            split_unknown_characters: false,
            suffix_indicator: SUFFIX_INDICATOR.to_owned(),
            max_bytes_per_word: MAX_BYTES_PER_WORD,
            max_chars_per_token: None,
        }
    }
}

impl WordPieceOptions {
    /// Refuses what cannot be meant.
    pub(crate) fn check(&self) -> Result<(), VocabularyError> {
        let refuse =
            |setting, problem: &str| Err(VocabularyError::Setting { setting, problem: problem.to_owned() });
        match self {
            Self { lower_case: true, normalization_form: Some(form), .. }
                if *form != NormalizationForm::Nfd =>
            {
                refuse("normalization_form", "text in lower case is NFD: leave the key out, or `lower_case`")
            }
            Self { max_chars_per_token: Some(0), .. } => refuse(
                "max_chars_per_token",
                "no piece has 0 characters: leave the key out for pieces of any length",
            ),
            _ => Ok(()),
        }
    }

    /// The text whose words are looked up.
    pub(super) fn prepare<'a>(&self, text: &'a str) -> Cow<'a, str> {
        const NFC: ComposingNormalizerBorrowed<'static> = ComposingNormalizerBorrowed::new_nfc();
        const NFKC: ComposingNormalizerBorrowed<'static> = ComposingNormalizerBorrowed::new_nfkc();
        const NFD: DecomposingNormalizerBorrowed<'static> = DecomposingNormalizerBorrowed::new_nfd();
        const NFKD: DecomposingNormalizerBorrowed<'static> = DecomposingNormalizerBorrowed::new_nfkd();
        match self.normalization_form {
            _ if self.lower_case => Cow::Owned(fold::lower_case(text)),
            None => Cow::Borrowed(text),
            Some(_) if text.is_ascii() => Cow::Borrowed(text),
            Some(NormalizationForm::Nfc) => Cow::Owned(NFC.normalize_iter(text.chars()).collect()),
            Some(NormalizationForm::Nfkc) => Cow::Owned(NFKC.normalize_iter(text.chars()).collect()),
            Some(NormalizationForm::Nfd) => Cow::Owned(NFD.normalize_iter(text.chars()).collect()),
            Some(NormalizationForm::Nfkd) => Cow::Owned(NFKD.normalize_iter(text.chars()).collect()),
        }
    }
}

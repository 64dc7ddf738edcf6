//! Text to ids and back: the trait, and the table of kinds.
//!
//! | key in task files | kind |
//! |---|---|
//! | `sentencepiece` | a SentencePiece `.model`, by an exact encoder of our own |
//! | `tokenizer_json` | a Hugging Face `tokenizer.json` |
//! | `tiktoken` | a rank file of tiktoken's, with the name of a split pattern |
//! | `bert_wordpiece` | a `vocab.txt` of word pieces, as SeqIO's `BertWordPieceVocabulary` reads it |
//! | `unigram` | SeqIO's `UnigramVocabulary` |
//! | `full_codepoint`, `partial_codepoint` | SeqIO's `FullCodepointVocabulary` and `PartialCodepointVocabulary` |
//! | `byte` | SeqIO's `ByteVocabulary` |
//! | `pass_through` | SeqIO's `PassThroughVocabulary` |

mod bert_wordpiece;
mod byte;
mod codepoint;
#[cfg(test)]
pub(crate) mod golden;
mod guard;
mod lines;
mod listed;
#[cfg(test)]
mod offsets;
mod pass_through;
mod pipeline;
mod sentencepiece;
mod sentinels;
mod settings;
mod spec;
mod special_ids;
mod spellings;
mod tiktoken;
mod tokenizer_json;
mod trie;
mod unigram;

pub(crate) use self::{
    bert_wordpiece::BertWordPiece,
    tiktoken::{Tiktoken, TiktokenOptions},
    tokenizer_json::{TokenizerJson, TokenizerJsonOptions},
};
pub use self::{
    bert_wordpiece::{NormalizationForm, WordPieceOptions},
    byte::ByteVocabulary,
    codepoint::{FullCodepointVocabulary, PartialCodepointVocabulary},
    listed::Listed,
    pass_through::PassThroughVocabulary,
    sentencepiece::{SentencePiece, SentencePieceOptions},
    settings::Arithmetic,
    spec::VocabularySpec,
    special_ids::SpecialId,
    tiktoken::SplitPattern,
    unigram::UnigramVocabulary,
};

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::example::EncodeCounts;

/// The ids with a meaning of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpecialIds {
    /// Fills rows up to their length; 0 unless the vocabulary says otherwise.
    pub pad: i32,
    /// Ends a sequence.
    pub eos: Option<i32>,
    /// Begins a sequence.
    pub bos: Option<i32>,
    /// Stands for what the vocabulary cannot spell.
    pub unk: Option<i32>,
}

impl SpecialIds {
    /// How many of these ids stand for what the vocabulary cannot spell.
    pub(crate) fn count_unknown(&self, ids: &[i32]) -> u64 {
        self.unk.map_or(0, |unk| ids.iter().filter(|id| **id == unk).count() as u64)
    }
}

/// What happens to text that spells a special token (`<s>`, `<|endoftext|>`, `<extra_id_0>` …).
///
/// Left out, each kind follows the library it comes from: SentencePiece matches user-defined pieces and not control
/// pieces, a `tokenizer.json` matches its added tokens, and of a rank file text is text, as of tiktoken's
/// `encode_ordinary`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SpecialTokensInText {
    /// It is text like any other: no special id ever comes out of text.
    Plain,
    /// It becomes the special token's id.
    Match,
}

/// Which spellings of special tokens in a text become special ids, when its places are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialPlaces<'a> {
    /// As the vocabulary was opened.
    AsUsual,
    /// All, but those that touch these ranges of bytes, which rise: they are text like any other.
    AllBut(&'a [Range<usize>]),
}

/// Turns text into token ids and ids into text.
///
/// Laws: `encode_into` appends and depends on nothing but the text; every id is in `0..vocab_size`; it never adds
/// EOS or BOS. `decode` accepts any ids and follows SeqIO: ids at or above the size become UNK, nothing after the
/// first EOS is read.
pub trait Vocabulary: Debug + Send + Sync {
    /// The kind's name in task files.
    fn kind(&self) -> &'static str;

    /// Number of ids, extra ids included.
    fn vocab_size(&self) -> usize;

    /// How many of the ids are extra ids (sentinels).
    fn extra_ids(&self) -> usize;

    /// The ids with a meaning of their own.
    fn special_ids(&self) -> SpecialIds;

    /// Appends the ids of `text` to `ids`. Scratch memory is pooled inside: any number of threads may call it.
    fn encode_into(&self, text: &str, ids: &mut Vec<i32>) -> Result<EncodeCounts, VocabularyError>;

    /// Whether [`Self::encode_with_offsets_into`] can say where tokens begin.
    fn has_offsets(&self) -> bool {
        false
    }

    /// Appends the ids of `text` to `ids`, and for each id the byte of `text` where its token begins to `starts`: bytes
    /// never fall, and tokens that share a character begin where it does. With [`SpecialPlaces::AsUsual`] the ids are
    /// those of [`Self::encode_into`].
    fn encode_with_offsets_into(
        &self,
        _text: &str,
        _special: SpecialPlaces<'_>,
        _ids: &mut Vec<i32>,
        _starts: &mut Vec<usize>,
    ) -> Result<EncodeCounts, VocabularyError> {
        Err(VocabularyError::Encode {
            problem: format!("a `{}` vocabulary does not say where its tokens begin in a text", self.kind()),
        })
    }

    /// Where `text` spells special tokens that [`SpecialPlaces::AllBut`] can keep text, from left to right.
    fn special_places(&self, _text: &str) -> Result<Vec<Range<usize>>, VocabularyError> {
        Ok(Vec::new())
    }

    /// The text of `ids`.
    fn decode(&self, ids: &[i32]) -> String;

    /// How one id is spelled, for showing tokens beside their text; `None` if there is no such id.
    fn piece(&self, id: i32) -> Option<String>;

    /// The bytes of the file the vocabulary was opened from, if it has one: hashed into fingerprints and carried in
    /// caches.
    fn file(&self) -> Option<&[u8]>;

    /// The id of the first sentinel as T5 counts them (`vocab_size - 1`); the k-th is `k` below it.
    fn sentinel_id(&self) -> i32 {
        self.vocab_size() as i32 - 1
    }
}

/// Why a vocabulary cannot be opened or cannot encode.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VocabularyError {
    /// The file is not what its key says.
    #[error("{problem}")]
    Malformed {
        /// What is wrong, with the component that is at fault.
        problem: String,
    },
    /// A setting does not fit this vocabulary.
    #[error("`{setting}`: {problem}")]
    Setting {
        /// The key in the vocabulary's table.
        setting: &'static str,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// The text could not be encoded.
    #[error("cannot encode: {problem}")]
    Encode {
        /// What the encoder said.
        problem: String,
    },
}

/// A vocabulary that may be shared between features and threads.
pub type SharedVocabulary = Arc<dyn Vocabulary>;

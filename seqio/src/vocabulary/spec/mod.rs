//! A vocabulary as a definition describes it, before its file is read.
//!
//! ```toml
//! [vocabulary.t5]
//! sentencepiece = "vocab/t5.model"   # exactly one key says what kind it is
//! extra_ids = 100
//! ```

mod table;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::table::VocabularyTable;
use crate::vocabulary::special_ids::{NamedIds, SpecialId, WithSpecialIds};
use crate::vocabulary::{
    Arithmetic, BertWordPiece, ByteVocabulary, FullCodepointVocabulary, Listed, NormalizationForm,
    PartialCodepointVocabulary, PassThroughVocabulary, SentencePiece, SentencePieceOptions, SharedVocabulary,
    SpecialIds, SpecialTokensInText, SplitPattern, Tiktoken, TiktokenOptions, TokenizerJson,
    TokenizerJsonOptions, UnigramVocabulary, VocabularyError, WordPieceOptions,
};

/// Which vocabulary, and its settings. Equal in TOML and from the builder methods.
///
/// ```
/// use seqio::VocabularySpec;
///
/// let bytes = VocabularySpec::byte().extra_ids(100).open(None)?;
/// assert_eq!((bytes.vocab_size(), bytes.sentinel_id()), (359, 358));
/// # Ok::<(), seqio::VocabularyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "VocabularyTable", into = "VocabularyTable")]
#[schemars(description = "Turns text into token ids and ids into text.")]
pub struct VocabularySpec {
    kind: Kind,
    extra_ids: usize,
    reverse_extra_ids: bool,
    arithmetic: Option<Arithmetic>,
    special_tokens: Option<BTreeMap<String, u32>>,
    special_tokens_in_text: Option<SpecialTokensInText>,
    split_on_space: bool,
    named: NamedIds,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    SentencePiece(PathBuf),
    TokenizerJson(PathBuf),
    Tiktoken(PathBuf, SplitPattern),
    BertWordPiece(PathBuf, WordPieceOptions),
    Unigram(Listed<String>),
    FullCodepoint,
    PartialCodepoint(Listed<u32>),
    Byte,
    PassThrough(usize),
}

impl VocabularySpec {
    /// A SentencePiece `.model` file.
    pub fn sentencepiece(path: impl Into<PathBuf>) -> Self {
        Self::new(Kind::SentencePiece(path.into()))
    }

    /// A Hugging Face `tokenizer.json` file.
    pub fn tokenizer_json(path: impl Into<PathBuf>) -> Self {
        Self::new(Kind::TokenizerJson(path.into()))
    }

    /// A rank file of tiktoken's, for a tokenizer that splits text by this pattern.
    pub fn tiktoken(path: impl Into<PathBuf>, pattern: SplitPattern) -> Self {
        Self::new(Kind::Tiktoken(path.into(), pattern))
    }

    /// BERT's word pieces: a `vocab.txt` with a piece on each line.
    pub fn bert_wordpiece(path: impl Into<PathBuf>, options: WordPieceOptions) -> Self {
        Self::new(Kind::BertWordPiece(path.into(), options))
    }

    /// SeqIO's list of words: a file with a word on each line, or the words.
    pub fn unigram(words: impl Into<Listed<String>>) -> Self {
        Self::new(Kind::Unigram(words.into()))
    }

    /// SeqIO's vocabulary of all code points.
    pub fn full_codepoint() -> Self {
        Self::new(Kind::FullCodepoint)
    }

    /// SeqIO's vocabulary of some code points: a file with a decimal number on each line, or the numbers.
    pub fn partial_codepoint(codepoints: impl Into<Listed<u32>>) -> Self {
        Self::new(Kind::PartialCodepoint(codepoints.into()))
    }

    /// SeqIO's byte vocabulary.
    pub fn byte() -> Self {
        Self::new(Kind::Byte)
    }

    /// Ids `0..size` that the data already holds.
    pub fn pass_through(size: usize) -> Self {
        Self::new(Kind::PassThrough(size))
    }

    /// Adds sentinels `<extra_id_0>` and on after the vocabulary's own ids.
    pub fn extra_ids(mut self, extra_ids: usize) -> Self {
        self.extra_ids = extra_ids;
        self
    }

    /// Whether `<extra_id_0>` is the last id (the default, and what T5 counts on) or the first of them.
    pub fn reverse_extra_ids(mut self, reverse: bool) -> Self {
        self.reverse_extra_ids = reverse;
        self
    }

    /// Reads a SentencePiece model with the arithmetic of this release.
    pub fn arithmetic(mut self, arithmetic: Arithmetic) -> Self {
        self.arithmetic = Some(arithmetic);
        self
    }

    /// Names the special tokens of a rank file with their ids, in place of those of the tokenizer that its pattern is
    /// named after.
    pub fn special_tokens<S: Into<String>>(mut self, tokens: impl IntoIterator<Item = (S, u32)>) -> Self {
        self.special_tokens = Some(tokens.into_iter().map(|(text, id)| (text.into(), id)).collect());
        self
    }

    /// What text that spells a special token becomes.
    pub fn special_tokens_in_text(mut self, what: SpecialTokensInText) -> Self {
        self.special_tokens_in_text = Some(what);
        self
    }

    /// Looks the words between spaces up in a `unigram` vocabulary, and not the text as a whole.
    pub fn split_on_space(mut self, split: bool) -> Self {
        self.split_on_space = split;
        self
    }

    /// Names the id that fills rows.
    pub fn pad(mut self, id: impl Into<SpecialId>) -> Self {
        self.named.pad = Some(id.into());
        self
    }

    /// Names the id that ends a sequence.
    pub fn eos(mut self, id: impl Into<SpecialId>) -> Self {
        self.named.eos = Some(id.into());
        self
    }

    /// Names the id that begins a sequence.
    pub fn bos(mut self, id: impl Into<SpecialId>) -> Self {
        self.named.bos = Some(id.into());
        self
    }

    /// Names the id that stands for what the vocabulary cannot spell.
    pub fn unk(mut self, id: impl Into<SpecialId>) -> Self {
        self.named.unk = Some(id.into());
        self
    }

    /// The kind's key in task files.
    pub fn kind(&self) -> &'static str {
        match self.kind {
            Kind::SentencePiece(_) => "sentencepiece",
            Kind::TokenizerJson(_) => "tokenizer_json",
            Kind::Tiktoken(..) => "tiktoken",
            Kind::BertWordPiece(..) => "bert_wordpiece",
            Kind::Unigram(_) => "unigram",
            Kind::FullCodepoint => "full_codepoint",
            Kind::PartialCodepoint(_) => "partial_codepoint",
            Kind::Byte => "byte",
            Kind::PassThrough(_) => "pass_through",
        }
    }

    /// The file that `open` needs, relative to the task file, if the kind has one.
    pub fn path(&self) -> Option<&Path> {
        match &self.kind {
            Kind::SentencePiece(path)
            | Kind::TokenizerJson(path)
            | Kind::Tiktoken(path, _)
            | Kind::BertWordPiece(path, _) => Some(path),
            Kind::Unigram(words) => words.path(),
            Kind::PartialCodepoint(codepoints) => codepoints.path(),
            Kind::FullCodepoint | Kind::Byte | Kind::PassThrough(_) => None,
        }
    }

    /// Everything that decides ids but the file's bytes, as one line of JSON in which equal specs are equal text.
    ///
    /// The path is left out: a vocabulary file that moves is the same vocabulary.
    pub fn canonical(&self) -> String {
        let mut plainest = self.clone();
        match &mut plainest.kind {
            Kind::SentencePiece(path) => *path = PathBuf::new(),
            Kind::TokenizerJson(path) => {
                *path = PathBuf::new();
                plainest.special_tokens_in_text.take_if(|what| *what == SpecialTokensInText::Match);
            }
            Kind::Tiktoken(path, _) => {
                *path = PathBuf::new();
                plainest.special_tokens_in_text.take_if(|what| *what == SpecialTokensInText::Plain);
            }
            Kind::BertWordPiece(path, options) => {
                *path = PathBuf::new();
                options
                    .normalization_form
                    .take_if(|form| options.lower_case && *form == NormalizationForm::Nfd);
            }
            Kind::Unigram(Listed::File(path)) | Kind::PartialCodepoint(Listed::File(path)) => {
                *path = PathBuf::new();
            }
            Kind::Unigram(Listed::Here(_))
            | Kind::PartialCodepoint(Listed::Here(_))
            | Kind::FullCodepoint
            | Kind::Byte
            | Kind::PassThrough(_) => {}
        }
        plainest.reverse_extra_ids |= plainest.extra_ids == 0;
        serde_json::to_string(&plainest).expect("a table of numbers and strings is JSON")
    }

    /// Opens the vocabulary. `file` holds the bytes of the file at `path`; kinds without a file ignore it.
    pub fn open(&self, file: Option<Vec<u8>>) -> Result<SharedVocabulary, VocabularyError> {
        self.check()?;
        let file = || {
            file.ok_or_else(|| VocabularyError::Setting {
                setting: self.kind(),
                problem: "the bytes of its file are needed to open it".to_owned(),
            })
        };
        let (extra_ids, reverse) = (self.extra_ids, self.reverse_extra_ids);
        match &self.kind {
            Kind::SentencePiece(_) => {
                let options = SentencePieceOptions {
                    extra_ids,
                    reverse_extra_ids: reverse,
                    arithmetic: self.arithmetic.unwrap_or_default(),
                    special_tokens_in_text: self.special_tokens_in_text,
                };
                WithSpecialIds::wrap(Arc::new(SentencePiece::open(file()?, &options)?), &self.named)
            }
            Kind::TokenizerJson(_) => {
                let options = TokenizerJsonOptions {
                    extra_ids,
                    reverse_extra_ids: reverse,
                    special_tokens_in_text: self.special_tokens_in_text.unwrap_or(SpecialTokensInText::Match),
                    named: self.named.clone(),
                };
                Ok(Arc::new(TokenizerJson::open(file()?, &options)?))
            }
            Kind::Tiktoken(_, pattern) => {
                let options = TiktokenOptions {
                    pattern: *pattern,
                    special_tokens: self.special_tokens.clone(),
                    extra_ids,
                    reverse_extra_ids: reverse,
                    special_tokens_in_text: self.special_tokens_in_text.unwrap_or(SpecialTokensInText::Plain),
                    named: self.named.clone(),
                };
                Ok(Arc::new(Tiktoken::open(file()?, &options)?))
            }
            Kind::BertWordPiece(_, options) => {
                Ok(Arc::new(BertWordPiece::open(file()?, options, extra_ids, reverse, &self.named)?))
            }
            Kind::Unigram(words) => {
                let file = words.path().map(|_| file()).transpose()?;
                let words = UnigramVocabulary::new(words, file, self.split_on_space, extra_ids, reverse)?;
                WithSpecialIds::wrap(Arc::new(words), &self.named)
            }
            Kind::FullCodepoint => Ok(Arc::new(FullCodepointVocabulary::new(extra_ids, reverse)?)),
            Kind::PartialCodepoint(codepoints) => {
                let file = codepoints.path().map(|_| file()).transpose()?;
                Ok(Arc::new(PartialCodepointVocabulary::new(codepoints, file, extra_ids, reverse)?))
            }
            Kind::Byte => Ok(Arc::new(ByteVocabulary::new(extra_ids, reverse)?)),
            Kind::PassThrough(size) => {
                let own = SpecialIds { pad: 0, eos: None, bos: None, unk: None };
                let special = self.named.resolve(own, size.saturating_add(extra_ids), Vec::new)?;
                Ok(Arc::new(PassThroughVocabulary::new(*size, extra_ids, reverse, special)?))
            }
        }
    }

    fn new(kind: Kind) -> Self {
        Self {
            kind,
            extra_ids: 0,
            reverse_extra_ids: true,
            arithmetic: None,
            special_tokens: None,
            special_tokens_in_text: None,
            split_on_space: false,
            named: NamedIds::default(),
        }
    }

    /// Refuses settings that this kind of vocabulary would ignore.
    fn check(&self) -> Result<(), VocabularyError> {
        let refuse = |setting, problem: String| Err(VocabularyError::Setting { setting, problem });
        if self.arithmetic.is_some() && !matches!(self.kind, Kind::SentencePiece(_)) {
            let problem =
                format!("only a `sentencepiece` vocabulary has it, and this one is `{}`", self.kind());
            return refuse("arithmetic", problem);
        }
        if self.special_tokens.is_some() && !matches!(self.kind, Kind::Tiktoken(..)) {
            let problem = format!("only a `tiktoken` vocabulary has them, and this one is `{}`", self.kind());
            return refuse("special_tokens", problem);
        }
        let looks_for_special_tokens =
            matches!(self.kind, Kind::SentencePiece(_) | Kind::TokenizerJson(_) | Kind::Tiktoken(..));
        if self.special_tokens_in_text.is_some() && !looks_for_special_tokens {
            let problem = format!("a `{}` vocabulary never looks for special tokens in text", self.kind());
            return refuse("special_tokens_in_text", problem);
        }
        if self.split_on_space && !matches!(self.kind, Kind::Unigram(_)) {
            let problem = format!("only a `unigram` vocabulary has it, and this one is `{}`", self.kind());
            return refuse("split_on_space", problem);
        }
        if let Kind::BertWordPiece(_, options) = &self.kind {
            options.check()?;
        }
        for (setting, id) in self.named.iter() {
            match (&self.kind, id) {
                (Kind::FullCodepoint, _) => {
                    let problem =
                        "a `full_codepoint` vocabulary has pad 0, eos 57349, and neither unk nor bos"
                            .to_owned();
                    return refuse(setting, problem);
                }
                (Kind::PartialCodepoint(_), _) => {
                    let problem =
                        "a `partial_codepoint` vocabulary has pad 0, eos 1, unk 2 and no bos".to_owned();
                    return refuse(setting, problem);
                }
                (Kind::Byte, _) => {
                    let problem = "a `byte` vocabulary has pad 0, eos 1, unk 2 and no bos".to_owned();
                    return refuse(setting, problem);
                }
                (Kind::PassThrough(_), SpecialId::Piece(piece)) => {
                    let problem =
                        format!("a `pass_through` vocabulary has no pieces: give an id, not `{piece}`");
                    return refuse(setting, problem);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(toml: &str) -> Result<VocabularySpec, String> {
        toml::from_str(toml).map_err(|error| error.to_string())
    }

    #[test]
    fn tables_and_builder_methods_agree() {
        let wordpiece = WordPieceOptions {
            lower_case: true,
            suffix_indicator: "@@".to_owned(),
            max_chars_per_token: Some(20),
            ..WordPieceOptions::default()
        };
        let words = vec!["yes".to_owned(), "no".to_owned()];
        for (toml, built) in [
            (
                "bert_wordpiece = 'v.txt'\nlower_case = true\nsuffix_indicator = '@@'\nmax_chars_per_token = 20",
                VocabularySpec::bert_wordpiece("v.txt", wordpiece),
            ),
            (
                "unigram = 'w.txt'\nsplit_on_space = true",
                VocabularySpec::unigram("w.txt").split_on_space(true),
            ),
            ("unigram = ['yes', 'no']\neos = 'no'", VocabularySpec::unigram(words).eos("no")),
            ("full_codepoint = true\nextra_ids = 3", VocabularySpec::full_codepoint().extra_ids(3)),
            ("partial_codepoint = 'c.txt'", VocabularySpec::partial_codepoint("c.txt")),
            ("partial_codepoint = [104, 233]", VocabularySpec::partial_codepoint(vec![104, 233])),
        ] {
            assert_eq!(read(toml).unwrap(), built);
            let text = serde_json::to_string(&built).unwrap();
            assert_eq!(serde_json::from_str::<VocabularySpec>(&text).unwrap(), built, "{text}");
        }
    }

    #[test]
    fn neither_paths_nor_settings_as_they_are_anyway_change_what_is_fingerprinted() {
        let canonical = |toml: &str| read(toml).unwrap().canonical();
        for (one, other) in [
            ("unigram = 'a.txt'", "unigram = 'b/c.txt'"),
            ("partial_codepoint = 'a.txt'", "partial_codepoint = 'b.txt'"),
            (
                "bert_wordpiece = 'a'\nlower_case = true",
                "bert_wordpiece = 'b'\nlower_case = true\nnormalization_form = 'NFD'\nmax_bytes_per_word = 100",
            ),
        ] {
            assert_eq!(canonical(one), canonical(other));
        }
        assert_ne!(canonical("bert_wordpiece = 'a'"), canonical("bert_wordpiece = 'a'\nlower_case = true"));
        assert_ne!(canonical("unigram = ['a']"), canonical("unigram = ['b']"));
        assert_ne!(canonical("unigram = ['a']"), canonical("unigram = ['a']\nsplit_on_space = true"));
    }

    #[test]
    fn settings_of_another_kind_are_refused() {
        for (toml, problem) in [
            ("byte = true\nlower_case = true", "`lower_case`: only a `bert_wordpiece` vocabulary has it"),
            ("unigram = ['a']\nmax_bytes_per_word = 3", "`max_bytes_per_word`: only a `bert_wordpiece`"),
            ("byte = true\nsplit_on_space = true", "`split_on_space`: only a `unigram` vocabulary has it"),
            (
                "bert_wordpiece = 'a'\nspecial_tokens_in_text = 'match'",
                "never looks for special tokens in text",
            ),
            (
                "bert_wordpiece = 'a'\nmax_chars_per_token = 0",
                "`max_chars_per_token`: no piece has 0 characters",
            ),
            ("full_codepoint = false", "write `full_codepoint = true`"),
            ("partial_codepoint = [1]\nunk = 3", "has pad 0, eos 1, unk 2 and no bos"),
            ("partial_codepoint = [-1]", "expected the path of a file with an entry on each line"),
        ] {
            let error = read(toml).unwrap_err();
            assert!(error.contains(problem), "{toml}\n{error}");
        }
    }
}

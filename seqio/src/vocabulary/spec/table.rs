//! A vocabulary as it stands in TOML: one key for its kind, and settings beside it.
//!
//! ```toml
//! bert_wordpiece = "vocab.txt"
//! lower_case = true
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Kind, VocabularySpec};
use crate::text::quoted;
use crate::vocabulary::bert_wordpiece::{MAX_BYTES_PER_WORD, SUFFIX_INDICATOR};
use crate::vocabulary::special_ids::{NamedIds, SpecialId};
use crate::vocabulary::{
    Arithmetic, Listed, NormalizationForm, SpecialTokensInText, SplitPattern, VocabularyError,
    WordPieceOptions,
};

/// The TOML form.
///
/// A key that is not required and has no default names a kind.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct VocabularyTable {
    /// A SentencePiece `.model` file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"vocab/t5.model", extend("x-type" = "path"))]
    sentencepiece: Option<PathBuf>,
    /// A Hugging Face `tokenizer.json` file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"vocab/gpt2/tokenizer.json", extend("x-type" = "path"))]
    tokenizer_json: Option<PathBuf>,
    /// A tiktoken rank file, with the `pattern` that splits text for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"vocab/cl100k_base.tiktoken", extend("x-type" = "path"))]
    tiktoken: Option<PathBuf>,
    /// BERT's word pieces, a piece on each line: its `vocab.txt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"vocab/bert/vocab.txt", extend("x-type" = "path"))]
    bert_wordpiece: Option<PathBuf>,
    /// SeqIO's list of words: 0 pad, then the words, then one id for all others. In a file, a word on each line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = serde_json::json!(["yes", "no"]), extend("x-type" = "path or list of words"))]
    unigram: Option<Listed<String>>,
    /// SeqIO's code points, each its own id: 0 pad, 57349 (U+E005) EOS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = true, extend("x-type" = "`true`"))]
    full_codepoint: Option<bool>,
    /// Some code points, as SeqIO counts them: 0 pad, 1 EOS, 2 unknown, then those listed. In a file, a decimal number on
    /// each line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"vocab/letters.txt", extend("x-type" = "path or list of numbers"))]
    partial_codepoint: Option<Listed<u32>>,
    /// SeqIO's bytes: 0 pad, 1 EOS, 2 unknown, byte b is id b + 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = true, extend("x-type" = "`true`"))]
    byte: Option<bool>,
    /// Ids `0..size` that the data already holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = 32000, extend("x-type" = "size"))]
    pass_through: Option<usize>,
    /// `tiktoken` only: how text is split into words, as the tokenizer of that name does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = SplitPattern::Cl100k, extend("x-default" = "required with `tiktoken`"))]
    pattern: Option<SplitPattern>,
    /// `unigram` only: whether the words between spaces are looked up, or the text as a whole.
    #[serde(default, skip_serializing_if = "is_no")]
    #[schemars(example = true, extend("default" = false))]
    split_on_space: bool,
    /// `bert_wordpiece` only: whether case is folded and accents are taken off, as uncased models want it.
    #[serde(default, skip_serializing_if = "is_no")]
    #[schemars(example = true, extend("default" = false))]
    lower_case: bool,
    /// `bert_wordpiece` only: the normal form of Unicode that text is brought into before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        example = NormalizationForm::Nfkc,
        extend("x-default" = "none; with `lower_case`, `\"NFD\"` after compatibility forms are replaced")
    )]
    normalization_form: Option<NormalizationForm>,
    /// `bert_wordpiece` only: whether runs of spaces are words too.
    #[serde(default, skip_serializing_if = "is_no")]
    #[schemars(example = true, extend("default" = false))]
    keep_whitespace: bool,
    /// `bert_wordpiece` only: whether `[unused1]` and the like in text is looked up as one word.
    #[serde(default, skip_serializing_if = "is_no")]
    #[schemars(example = true, extend("default" = false))]
    preserve_unused_token: bool,
    /// `bert_wordpiece` only: whether characters that no piece begins with are unknown one by one, or the whole word is.
    #[serde(default, skip_serializing_if = "is_no")]
    #[schemars(example = true, extend("default" = false))]
    split_unknown_characters: bool,
    /// `bert_wordpiece` only: what the pieces begin with that go on with a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"@@", extend("default" = "##"))]
    suffix_indicator: Option<String>,
    /// `bert_wordpiece` only: words of more bytes are unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = 200, extend("default" = 100))]
    max_bytes_per_word: Option<usize>,
    /// `bert_wordpiece` only: the longest piece that is looked for, in characters, without its indicator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = 20, extend("x-default" = "that of the file"))]
    max_chars_per_token: Option<usize>,
    /// How many sentinels `<extra_id_0>`, `<extra_id_1>` … follow the vocabulary's own ids.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(example = 100, extend("default" = 0))]
    extra_ids: usize,
    /// Whether `<extra_id_0>` is the last id, as T5 counts, or the first of the sentinels.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    #[schemars(example = false, extend("default" = true))]
    reverse_extra_ids: bool,
    /// `sentencepiece` only: the release whose rounding decides between equally good ways to cut a text.
    #[serde(default, skip_serializing_if = "is_default_arithmetic")]
    #[schemars(example = Arithmetic::V0_2_0, extend("default" = "0.2.3"))]
    arithmetic: Option<Arithmetic>,
    /// `tiktoken` only: special tokens with their ids, which a rank file does not hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        example = serde_json::json!({ "<|begin_of_text|>": 128000 }),
        extend("x-default" = "those of the tokenizer that `pattern` is named after, for its own file", "x-type" = "table of token = id")
    )]
    special_tokens: Option<BTreeMap<String, u32>>,
    /// What text that spells a special token (`</s>`, `<|endoftext|>`) becomes; for kinds with a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = SpecialTokensInText::Plain, extend("x-default" = "as the library that the kind comes from"))]
    special_tokens_in_text: Option<SpecialTokensInText>,
    /// The id that fills rows up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = 0, extend("x-default" = "the vocabulary's own"))]
    pad: Option<SpecialId>,
    /// The id that ends a sequence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"<|endoftext|>", extend("x-default" = "the vocabulary's own"))]
    eos: Option<SpecialId>,
    /// The id that begins a sequence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"<s>", extend("x-default" = "the vocabulary's own"))]
    bos: Option<SpecialId>,
    /// The id of what the vocabulary cannot spell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"<unk>", extend("x-default" = "the vocabulary's own"))]
    unk: Option<SpecialId>,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

fn yes() -> bool {
    true
}

fn is_yes(flag: &bool) -> bool {
    *flag
}

fn is_no(flag: &bool) -> bool {
    !*flag
}

fn is_default_arithmetic(arithmetic: &Option<Arithmetic>) -> bool {
    arithmetic.is_none_or(|arithmetic| arithmetic == Arithmetic::default())
}

impl VocabularyTable {
    /// The settings of word pieces, with the name of the first that is there.
    fn wordpiece(&self) -> (WordPieceOptions, Option<&'static str>) {
        let given = [
            ("lower_case", self.lower_case),
            ("normalization_form", self.normalization_form.is_some()),
            ("keep_whitespace", self.keep_whitespace),
            ("preserve_unused_token", self.preserve_unused_token),
            ("split_unknown_characters", self.split_unknown_characters),
            ("suffix_indicator", self.suffix_indicator.is_some()),
            ("max_bytes_per_word", self.max_bytes_per_word.is_some()),
            ("max_chars_per_token", self.max_chars_per_token.is_some()),
        ];
        let options = WordPieceOptions {
            lower_case: self.lower_case,
            normalization_form: self.normalization_form,
            keep_whitespace: self.keep_whitespace,
            preserve_unused_token: self.preserve_unused_token,
            split_unknown_characters: self.split_unknown_characters,
            suffix_indicator: self.suffix_indicator.clone().unwrap_or_else(|| SUFFIX_INDICATOR.to_owned()),
            max_bytes_per_word: self.max_bytes_per_word.unwrap_or(MAX_BYTES_PER_WORD),
            max_chars_per_token: self.max_chars_per_token,
        };
        (options, given.into_iter().find(|(_, given)| *given).map(|(setting, _)| setting))
    }

    fn set_wordpiece(&mut self, options: WordPieceOptions) {
        self.lower_case = options.lower_case;
        self.normalization_form = options.normalization_form;
        self.keep_whitespace = options.keep_whitespace;
        self.preserve_unused_token = options.preserve_unused_token;
        self.split_unknown_characters = options.split_unknown_characters;
        self.suffix_indicator = Some(options.suffix_indicator).filter(|it| it != SUFFIX_INDICATOR);
        self.max_bytes_per_word = Some(options.max_bytes_per_word).filter(|it| *it != MAX_BYTES_PER_WORD);
        self.max_chars_per_token = options.max_chars_per_token;
    }
}

impl TryFrom<VocabularyTable> for VocabularySpec {
    type Error = VocabularyError;

    fn try_from(table: VocabularyTable) -> Result<Self, VocabularyError> {
        const KINDS: [&str; 9] = [
            "sentencepiece",
            "tokenizer_json",
            "tiktoken",
            "bert_wordpiece",
            "unigram",
            "full_codepoint",
            "partial_codepoint",
            "byte",
            "pass_through",
        ];
        let refuse = |setting, problem| Err(VocabularyError::Setting { setting, problem });
        let pattern = match (&table.tiktoken, table.pattern) {
            (Some(_), None) => {
                let names = quoted(SplitPattern::NAMES);
                return refuse("pattern", format!("a `tiktoken` vocabulary needs it, one of {names}"));
            }
            (None, Some(_)) => {
                return refuse(
                    "pattern",
                    "only a `tiktoken` vocabulary is split by a named pattern".to_owned(),
                );
            }
            (_, pattern) => pattern,
        };
        let (wordpiece, setting) = table.wordpiece();
        if let (None, Some(setting)) = (&table.bert_wordpiece, setting) {
            return refuse(setting, "only a `bert_wordpiece` vocabulary has it".to_owned());
        }
        let kinds: Vec<(&str, Kind)> = [
            table.sentencepiece.map(|path| ("sentencepiece", Kind::SentencePiece(path))),
            table.tokenizer_json.map(|path| ("tokenizer_json", Kind::TokenizerJson(path))),
            table.tiktoken.zip(pattern).map(|(path, pattern)| ("tiktoken", Kind::Tiktoken(path, pattern))),
            table.bert_wordpiece.map(|path| ("bert_wordpiece", Kind::BertWordPiece(path, wordpiece))),
            table.unigram.map(|words| ("unigram", Kind::Unigram(words))),
            table.full_codepoint.map(|_| ("full_codepoint", Kind::FullCodepoint)),
            table.partial_codepoint.map(|listed| ("partial_codepoint", Kind::PartialCodepoint(listed))),
            table.byte.map(|_| ("byte", Kind::Byte)),
            table.pass_through.map(|size| ("pass_through", Kind::PassThrough(size))),
        ]
        .into_iter()
        .flatten()
        .collect();
        let found = quoted(kinds.iter().map(|(name, _)| *name));
        let Ok([(_, kind)]) = <[_; 1]>::try_from(kinds) else {
            let problem = format!("a vocabulary has exactly one of {}; found {found}", quoted(KINDS));
            return Err(VocabularyError::Malformed { problem });
        };
        for (setting, value) in [("byte", table.byte), ("full_codepoint", table.full_codepoint)] {
            if value == Some(false) {
                return refuse(setting, format!("write `{setting} = true`, or leave the key out"));
            }
        }
        let spec = Self {
            kind,
            extra_ids: table.extra_ids,
            reverse_extra_ids: table.reverse_extra_ids,
            arithmetic: table.arithmetic,
            special_tokens: table.special_tokens,
            special_tokens_in_text: table.special_tokens_in_text,
            split_on_space: table.split_on_space,
            named: NamedIds { pad: table.pad, eos: table.eos, bos: table.bos, unk: table.unk },
        };
        spec.check()?;
        Ok(spec)
    }
}

impl From<VocabularySpec> for VocabularyTable {
    fn from(spec: VocabularySpec) -> Self {
        let mut table = Self {
            sentencepiece: None,
            tokenizer_json: None,
            tiktoken: None,
            bert_wordpiece: None,
            unigram: None,
            full_codepoint: None,
            partial_codepoint: None,
            byte: None,
            pass_through: None,
            pattern: None,
            split_on_space: spec.split_on_space,
            lower_case: false,
            normalization_form: None,
            keep_whitespace: false,
            preserve_unused_token: false,
            split_unknown_characters: false,
            suffix_indicator: None,
            max_bytes_per_word: None,
            max_chars_per_token: None,
            extra_ids: spec.extra_ids,
            reverse_extra_ids: spec.reverse_extra_ids,
            arithmetic: spec.arithmetic,
            special_tokens: spec.special_tokens,
            special_tokens_in_text: spec.special_tokens_in_text,
            pad: spec.named.pad,
            eos: spec.named.eos,
            bos: spec.named.bos,
            unk: spec.named.unk,
        };
        match spec.kind {
            Kind::SentencePiece(path) => table.sentencepiece = Some(path),
            Kind::TokenizerJson(path) => table.tokenizer_json = Some(path),
            Kind::Tiktoken(path, pattern) => {
                (table.tiktoken, table.pattern) = (Some(path), Some(pattern));
            }
            Kind::BertWordPiece(path, options) => {
                table.bert_wordpiece = Some(path);
                table.set_wordpiece(options);
            }
            Kind::Unigram(words) => table.unigram = Some(words),
            Kind::FullCodepoint => table.full_codepoint = Some(true),
            Kind::PartialCodepoint(listed) => table.partial_codepoint = Some(listed),
            Kind::Byte => table.byte = Some(true),
            Kind::PassThrough(size) => table.pass_through = Some(size),
        }
        table
    }
}

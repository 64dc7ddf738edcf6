//! A vocabulary as a definition describes it, before its file is read.
//!
//! ```toml
//! [vocabulary.t5]
//! sentencepiece = "vocab/t5.model"   # exactly one of: sentencepiece, tokenizer_json, tiktoken, byte, pass_through
//! extra_ids = 100
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::quoted;
use crate::vocabulary::special_ids::{NamedIds, SpecialId, WithSpecialIds};
use crate::vocabulary::{
    Arithmetic, ByteVocabulary, PassThroughVocabulary, SentencePiece, SentencePieceOptions, SharedVocabulary,
    SpecialIds, SpecialTokensInText, SplitPattern, Tiktoken, TiktokenOptions, TokenizerJson,
    TokenizerJsonOptions, VocabularyError,
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
    named: NamedIds,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    SentencePiece(PathBuf),
    TokenizerJson(PathBuf),
    Tiktoken(PathBuf, SplitPattern),
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
            Kind::Byte => "byte",
            Kind::PassThrough(_) => "pass_through",
        }
    }

    /// The file that `open` needs, relative to the task file, if the kind has one.
    pub fn path(&self) -> Option<&Path> {
        match &self.kind {
            Kind::SentencePiece(path) | Kind::TokenizerJson(path) | Kind::Tiktoken(path, _) => Some(path),
            Kind::Byte | Kind::PassThrough(_) => None,
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
            Kind::Byte | Kind::PassThrough(_) => {}
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
        match &self.kind {
            Kind::SentencePiece(_) => {
                let options = SentencePieceOptions {
                    extra_ids: self.extra_ids,
                    reverse_extra_ids: self.reverse_extra_ids,
                    arithmetic: self.arithmetic.unwrap_or_default(),
                    special_tokens_in_text: self.special_tokens_in_text,
                };
                WithSpecialIds::wrap(Arc::new(SentencePiece::open(file()?, &options)?), &self.named)
            }
            Kind::TokenizerJson(_) => {
                let options = TokenizerJsonOptions {
                    extra_ids: self.extra_ids,
                    reverse_extra_ids: self.reverse_extra_ids,
                    special_tokens_in_text: self.special_tokens_in_text.unwrap_or(SpecialTokensInText::Match),
                    named: self.named.clone(),
                };
                Ok(Arc::new(TokenizerJson::open(file()?, &options)?))
            }
            Kind::Tiktoken(_, pattern) => {
                let options = TiktokenOptions {
                    pattern: *pattern,
                    special_tokens: self.special_tokens.clone(),
                    extra_ids: self.extra_ids,
                    reverse_extra_ids: self.reverse_extra_ids,
                    special_tokens_in_text: self.special_tokens_in_text.unwrap_or(SpecialTokensInText::Plain),
                    named: self.named.clone(),
                };
                Ok(Arc::new(Tiktoken::open(file()?, &options)?))
            }
            Kind::Byte => Ok(Arc::new(ByteVocabulary::new(self.extra_ids, self.reverse_extra_ids)?)),
            Kind::PassThrough(size) => {
                let own = SpecialIds { pad: 0, eos: None, bos: None, unk: None };
                let special = self.named.resolve(own, size.saturating_add(self.extra_ids), Vec::new)?;
                let (extra_ids, reverse) = (self.extra_ids, self.reverse_extra_ids);
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
        if self.special_tokens_in_text.is_some() && self.path().is_none() {
            let problem = format!("a `{}` vocabulary never looks for special tokens in text", self.kind());
            return refuse("special_tokens_in_text", problem);
        }
        for (setting, id) in self.named.iter() {
            match (&self.kind, id) {
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

/// The TOML form.
///
/// A key that is not required and has no default names a kind.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct VocabularyTable {
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

fn is_default_arithmetic(arithmetic: &Option<Arithmetic>) -> bool {
    arithmetic.is_none_or(|arithmetic| arithmetic == Arithmetic::default())
}

impl TryFrom<VocabularyTable> for VocabularySpec {
    type Error = VocabularyError;

    fn try_from(table: VocabularyTable) -> Result<Self, VocabularyError> {
        const KINDS: [&str; 5] = ["sentencepiece", "tokenizer_json", "tiktoken", "byte", "pass_through"];
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
        let kinds: Vec<(&str, Kind)> = [
            table.sentencepiece.map(|path| ("sentencepiece", Kind::SentencePiece(path))),
            table.tokenizer_json.map(|path| ("tokenizer_json", Kind::TokenizerJson(path))),
            table.tiktoken.zip(pattern).map(|(path, pattern)| ("tiktoken", Kind::Tiktoken(path, pattern))),
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
        if table.byte == Some(false) {
            return refuse("byte", "write `byte = true`, or leave the key out".to_owned());
        }
        let spec = Self {
            kind,
            extra_ids: table.extra_ids,
            reverse_extra_ids: table.reverse_extra_ids,
            arithmetic: table.arithmetic,
            special_tokens: table.special_tokens,
            special_tokens_in_text: table.special_tokens_in_text,
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
            byte: None,
            pass_through: None,
            pattern: None,
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
            Kind::Byte => table.byte = Some(true),
            Kind::PassThrough(size) => table.pass_through = Some(size),
        }
        table
    }
}

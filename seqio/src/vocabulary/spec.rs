//! A vocabulary as a definition describes it, before its file is read.
//!
//! ```toml
//! [vocabulary.t5]
//! sentencepiece = "vocab/t5.model"   # exactly one of: sentencepiece, tokenizer_json, byte, pass_through
//! extra_ids = 100
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::text::quoted;
use crate::vocabulary::special_ids::{NamedIds, SpecialId, WithSpecialIds};
use crate::vocabulary::{
    Arithmetic, ByteVocabulary, PassThroughVocabulary, SentencePiece, SentencePieceOptions, SharedVocabulary,
    SpecialIds, SpecialTokensInText, TokenizerJson, TokenizerJsonOptions, VocabularyError,
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "VocabularyTable", into = "VocabularyTable")]
pub struct VocabularySpec {
    kind: Kind,
    extra_ids: usize,
    reverse_extra_ids: bool,
    arithmetic: Option<Arithmetic>,
    special_tokens_in_text: Option<SpecialTokensInText>,
    named: NamedIds,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    SentencePiece(PathBuf),
    TokenizerJson(PathBuf),
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
            Kind::Byte => "byte",
            Kind::PassThrough(_) => "pass_through",
        }
    }

    /// The file that `open` needs, relative to the task file, if the kind has one.
    pub fn path(&self) -> Option<&Path> {
        match &self.kind {
            Kind::SentencePiece(path) | Kind::TokenizerJson(path) => Some(path),
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
            Kind::Byte => Ok(Arc::new(ByteVocabulary::new(self.extra_ids, self.reverse_extra_ids)?)),
            Kind::PassThrough(size) => {
                let own = SpecialIds { pad: 0, eos: None, bos: None, unk: None };
                let special =
                    self.named.resolve(own, size.saturating_add(self.extra_ids), std::iter::empty)?;
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
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct VocabularyTable {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sentencepiece: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokenizer_json: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    byte: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pass_through: Option<usize>,
    #[serde(default, skip_serializing_if = "is_zero")]
    extra_ids: usize,
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    reverse_extra_ids: bool,
    #[serde(default, skip_serializing_if = "is_default_arithmetic")]
    arithmetic: Option<Arithmetic>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    special_tokens_in_text: Option<SpecialTokensInText>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pad: Option<SpecialId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    eos: Option<SpecialId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bos: Option<SpecialId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
        const KINDS: [&str; 4] = ["sentencepiece", "tokenizer_json", "byte", "pass_through"];
        let kinds: Vec<(&str, Kind)> = [
            table.sentencepiece.map(|path| ("sentencepiece", Kind::SentencePiece(path))),
            table.tokenizer_json.map(|path| ("tokenizer_json", Kind::TokenizerJson(path))),
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
            let problem = "write `byte = true`, or leave the key out".to_owned();
            return Err(VocabularyError::Setting { setting: "byte", problem });
        }
        let spec = Self {
            kind,
            extra_ids: table.extra_ids,
            reverse_extra_ids: table.reverse_extra_ids,
            arithmetic: table.arithmetic,
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
            byte: None,
            pass_through: None,
            extra_ids: spec.extra_ids,
            reverse_extra_ids: spec.reverse_extra_ids,
            arithmetic: spec.arithmetic,
            special_tokens_in_text: spec.special_tokens_in_text,
            pad: spec.named.pad,
            eos: spec.named.eos,
            bos: spec.named.bos,
            unk: spec.named.unk,
        };
        match spec.kind {
            Kind::SentencePiece(path) => table.sentencepiece = Some(path),
            Kind::TokenizerJson(path) => table.tokenizer_json = Some(path),
            Kind::Byte => table.byte = Some(true),
            Kind::PassThrough(size) => table.pass_through = Some(size),
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::golden;

    fn parse(toml: &str) -> Result<VocabularySpec, String> {
        toml::from_str(toml).map_err(|error| error.message().to_owned())
    }

    fn error(toml: &str) -> String {
        parse(toml).unwrap_err()
    }

    #[test]
    fn toml_and_the_builder_give_equal_specs() {
        let rows = [
            (
                "sentencepiece = 'vocab/t5.model'\nextra_ids = 100\narithmetic = '0.2.0'",
                VocabularySpec::sentencepiece("vocab/t5.model").extra_ids(100).arithmetic(Arithmetic::V0_2_0),
            ),
            (
                "tokenizer_json = 'gpt2.json'\nspecial_tokens_in_text = 'plain'\npad = 0\neos = '<|endoftext|>'",
                VocabularySpec::tokenizer_json("gpt2.json")
                    .special_tokens_in_text(SpecialTokensInText::Plain)
                    .pad(0)
                    .eos("<|endoftext|>"),
            ),
            ("byte = true\nreverse_extra_ids = false", VocabularySpec::byte().reverse_extra_ids(false)),
            ("pass_through = 1000\neos = 1", VocabularySpec::pass_through(1000).eos(1)),
        ];
        for (toml, built) in rows {
            let parsed = parse(toml).unwrap();
            assert_eq!(parsed, built);
            let again: VocabularySpec = toml::from_str(&toml::to_string(&parsed).unwrap()).unwrap();
            assert_eq!(again, parsed);
        }
    }

    #[test]
    fn a_mistake_is_refused_in_words() {
        let errors = [
            error(""),
            error("byte = true\npass_through = 7"),
            error("byte = false"),
            error("byte = true\nextra_id = 7"),
            error("byte = true\nextra_ids = -1"),
            error("byte = true\narithmetic = '0.2.3'"),
            error("sentencepiece = 'a'\narithmetic = '0.3'"),
            error("byte = true\nspecial_tokens_in_text = 'plain'"),
            error("byte = true\neos = 1"),
            error("pass_through = 7\neos = '</s>'"),
            error("tokenizer_json = 'a'\neos = 1.5"),
            parse("pass_through = 7\neos = 7").unwrap().open(None).unwrap_err().to_string(),
            parse("tokenizer_json = 'a'").unwrap().open(None).unwrap_err().to_string(),
            parse("byte = true\nextra_ids = 9000000000000000000")
                .unwrap()
                .open(None)
                .unwrap_err()
                .to_string(),
            VocabularySpec::byte().bos(1).open(None).unwrap_err().to_string(),
        ];
        insta::assert_snapshot!(errors.join("\n"), @r#"
        a vocabulary has exactly one of `sentencepiece`, `tokenizer_json`, `byte`, `pass_through`; found nothing
        a vocabulary has exactly one of `sentencepiece`, `tokenizer_json`, `byte`, `pass_through`; found `byte`, `pass_through`
        `byte`: write `byte = true`, or leave the key out
        unknown field `extra_id`, expected one of `sentencepiece`, `tokenizer_json`, `byte`, `pass_through`, `extra_ids`, `reverse_extra_ids`, `arithmetic`, `special_tokens_in_text`, `pad`, `eos`, `bos`, `unk`
        invalid value: integer `-1`, expected usize
        `arithmetic`: only a `sentencepiece` vocabulary has it, and this one is `byte`
        unknown variant `0.3`, expected `0.2.0` or `0.2.3`
        `special_tokens_in_text`: a `byte` vocabulary never looks for special tokens in text
        `eos`: a `byte` vocabulary has pad 0, eos 1, unk 2 and no bos
        `eos`: a `pass_through` vocabulary has no pieces: give an id, not `</s>`
        expected the text of a piece, or its id
        `eos`: there is no id 7; the vocabulary has ids 0 to 6
        `tokenizer_json`: the bytes of its file are needed to open it
        `extra_ids`: a vocabulary of 9000000000000000000 ids does not fit; at most 536870912 do
        `bos`: a `byte` vocabulary has pad 0, eos 1, unk 2 and no bos
        "#);
    }

    #[test]
    fn the_canonical_form_skips_defaults_and_the_path() {
        let canonical = |toml| parse(toml).unwrap().canonical();
        assert_eq!(canonical("tokenizer_json = 'a'"), canonical("tokenizer_json = 'b/c'"));
        let spelled_out = "tokenizer_json = 'a'\nextra_ids = 0\nreverse_extra_ids = false\nspecial_tokens_in_text = 'match'";
        assert_eq!(canonical(spelled_out), canonical("tokenizer_json = 'a'"));
        assert_eq!(canonical("sentencepiece = 'a'\narithmetic = '0.2.3'"), canonical("sentencepiece = 'a'"));
        insta::assert_snapshot!(canonical("sentencepiece = 'a'\nspecial_tokens_in_text = 'match'\nextra_ids = 100"), @r#"{"sentencepiece":"","extra_ids":100,"special_tokens_in_text":"match"}"#);
    }

    #[test]
    fn each_kind_opens_from_its_bytes() {
        let spec = parse("tokenizer_json = 'gpt2.json'\nextra_ids = 2\nbos = '<|endoftext|>'").unwrap();
        let file = golden::bytes("tokenizers/gpt2/tokenizer.json");
        let vocabulary = spec.open(Some(file.clone())).unwrap();
        assert_eq!((vocabulary.kind(), spec.kind()), ("tokenizer_json", "tokenizer_json"));
        assert_eq!((vocabulary.vocab_size(), vocabulary.special_ids().bos), (50259, Some(50256)));
        assert!(vocabulary.file() == Some(&file));
        for (toml, size) in [("byte = true\nextra_ids = 3", 262), ("pass_through = 10\nextra_ids = 3", 13)] {
            let spec = parse(toml).unwrap();
            let vocabulary = spec.open(None).unwrap();
            assert_eq!(
                (vocabulary.kind(), vocabulary.vocab_size(), vocabulary.file()),
                (spec.kind(), size, None)
            );
        }
    }
}

//! The JSON of a `tokenizer.json`: checked, brought into the form the crate reads, and changed where settings ask.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tokenizers::pipeline::PipelineTokenizer;

use crate::caught::caught;
use crate::text::quoted;
use crate::vocabulary::VocabularyError;
use crate::vocabulary::pipeline::plain_words;
use crate::vocabulary::sentinels::Sentinels;

/// Tables are made with a place for every id up to the greatest, so a stray id must not ask for gigabytes.
const MAX_ID: u64 = (1 << 24) - 1;
/// The crate keeps a piece's length in 16 bits.
const MAX_PIECE_BYTES: usize = u16::MAX as usize;

/// Kinds of model that the crate knows.
const MODELS: [&str; 4] = ["BPE", "Unigram", "WordLevel", "WordPiece"];

/// A checked `tokenizer.json` in canonical form.
#[derive(Clone, Debug)]
pub(super) struct Config {
    root: Map<String, Value>,
}

impl Config {
    /// Reads the file and checks what the crate would take on trust.
    pub(super) fn parse(file: &[u8]) -> Result<Self, VocabularyError> {
        let mut root: Value =
            serde_json::from_slice(file).map_err(|error| malformed(&format!("it is not JSON: {error}")))?;
        if let Some(root) = root.as_object_mut() {
            // Padding, truncation and the tokens around a sequence are steps' work here, and are not read.
            for key in ["truncation", "padding", "post_processor"] {
                root.remove(key);
            }
        }
        tokenizers::canonicalize_value(&mut root).map_err(|error| malformed(&error.to_string()))?;
        let Value::Object(root) = root else { return Err(malformed("it is not a JSON object")) };
        let config = Self { root };
        config.check()?;
        Ok(config)
    }

    /// One more than the greatest id.
    pub(super) fn size(&self) -> usize {
        self.tokens().map(|(_, id)| id as usize + 1).max().unwrap_or(0)
    }

    /// Every token with its id: the model's and the added ones.
    pub(super) fn tokens(&self) -> impl Iterator<Item = (&str, i32)> {
        let added = self.added().map(|token| (content(token), self.added_id(token)));
        self.model_tokens().chain(added)
    }

    /// The tokens that the file calls special.
    pub(super) fn special_tokens(&self) -> impl Iterator<Item = (&str, i32)> {
        self.added()
            .filter(|token| token.get("special").and_then(Value::as_bool) == Some(true))
            .map(|token| (content(token), self.added_id(token)))
    }

    /// The special tokens that can be spelled otherwise: a single character is an atom that merges start from, and so
    /// is text already.
    pub(super) fn renamable_tokens(&self) -> impl Iterator<Item = &str> {
        self.special_tokens().map(|(text, _)| text).filter(|text| text.chars().count() > 1)
    }

    /// The piece that stands for what the model cannot spell.
    pub(super) fn unknown_id(&self) -> Option<i32> {
        let model = self.model();
        if let Some(id) = model.get("unk_id").and_then(Value::as_u64) {
            return i32::try_from(id).ok();
        }
        let unknown = model.get("unk_token")?.as_str()?;
        self.tokens().find(|(piece, _)| *piece == unknown).map(|(_, id)| id)
    }

    /// The token that plays a role (`eos_token`), if the file says so.
    pub(super) fn role(&self, role: &str) -> Option<i32> {
        let token = self.root.get("role_to_token")?.get(role)?.as_str()?;
        self.tokens().find(|(piece, _)| *piece == token).map(|(_, id)| id)
    }

    /// What pieces begin with that go on with a word, and what those end with that end one; mostly nothing.
    pub(super) fn affixes(&self) -> [&str; 2] {
        ["continuing_subword_prefix", "end_of_word_suffix"]
            .map(|affix| self.model().get(affix).and_then(Value::as_str).unwrap_or(""))
    }

    /// Whether characters without a piece are spelled as bytes.
    pub(super) fn has_byte_fallback(&self) -> bool {
        self.model().get("byte_fallback").and_then(Value::as_bool) == Some(true)
    }

    /// With `<extra_id_k>` as tokens that match anywhere in text.
    pub(super) fn with_sentinels(mut self, sentinels: &Sentinels) -> Self {
        let tokens = sentinels.iter().map(|(id, content)| {
            json!({
                "id": id, "content": content, "special": false,
                "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
            })
        });
        match self.root.get_mut("added_tokens").and_then(Value::as_array_mut) {
            Some(added) => added.extend(tokens),
            None => drop(self.root.insert("added_tokens".to_owned(), tokens.collect())),
        }
        self
    }

    /// With special tokens that keep their ids but are spelled as no text is, so that text never becomes one.
    pub(super) fn without_special_tokens(mut self, marker: &Marker) -> Self {
        let renamed: BTreeMap<String, String> =
            self.renamable_tokens().map(|text| (text.to_owned(), marker.spell(text))).collect();
        for token in self.root.get_mut("added_tokens").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(spelling) = renamed.get(content(token)) {
                token["content"] = json!(spelling);
                token["normalized"] = json!(false);
            }
        }
        let Some(model) = self.root.get_mut("model").and_then(Value::as_object_mut) else { return self };
        let prefix = model.get("continuing_subword_prefix").and_then(Value::as_str).map_or(0, str::len);
        match model.get_mut("vocab") {
            Some(Value::Object(vocab)) => {
                for (text, spelling) in &renamed {
                    if let Some(id) = vocab.remove(text) {
                        vocab.insert(spelling.clone(), id);
                    }
                }
            }
            Some(Value::Array(vocab)) => {
                for piece in vocab.iter_mut().filter_map(|entry| entry.get_mut(0)) {
                    if let Some(spelling) = piece.as_str().and_then(|piece| renamed.get(piece)) {
                        *piece = json!(spelling);
                    }
                }
            }
            _ => {}
        }
        if let Some(unknown) = model.get_mut("unk_token")
            && let Some(spelling) = unknown.as_str().and_then(|unknown| renamed.get(unknown))
        {
            *unknown = json!(spelling);
        }
        if let Some(merges) = model.get_mut("merges").and_then(Value::as_array_mut) {
            merges.retain(|merge| match merge_of(merge) {
                Some((left, right)) => {
                    let whole = format!("{left}{}", right.get(prefix..).unwrap_or(""));
                    ![left, right, whole.as_str()].into_iter().any(|piece| renamed.contains_key(piece))
                }
                None => true,
            });
        }
        self
    }

    /// Hands the configuration to the crate.
    pub(super) fn build(self) -> Result<PipelineTokenizer, VocabularyError> {
        let text = Value::Object(self.root).to_string();
        // Assertions guard some of the crate's tables; `check` knows those seen, and this the rest.
        match caught(|| tokenizers::from_json(&text)) {
            Ok(Ok(pipeline)) => Ok(pipeline),
            Ok(Err(error)) => Err(malformed(&error.to_string())),
            Err(_) => Err(malformed("its tables contradict each other")),
        }
    }

    fn check(&self) -> Result<(), VocabularyError> {
        let check_id = |piece: &str, id: Option<u64>| match id {
            Some(id) if id <= MAX_ID => Ok(()),
            Some(id) => Err(malformed(&format!("the id {id} of `{piece}` is above {MAX_ID}"))),
            None => Err(malformed(&format!("the id of `{piece}` is not a whole number"))),
        };
        let check_piece = |piece: &str| match piece.len() {
            ..=MAX_PIECE_BYTES => Ok(()),
            length => {
                Err(malformed(&format!("a piece is {length} bytes long; at most {MAX_PIECE_BYTES} fit")))
            }
        };
        let model = self.model();
        let kind = model.get("type").and_then(Value::as_str).unwrap_or("");
        if !MODELS.contains(&kind) {
            return Err(malformed(&format!("the model is a `{kind}`, not one of {}", quoted(MODELS))));
        }
        match model.get("vocab") {
            Some(Value::Object(vocab)) => {
                for (piece, id) in vocab {
                    check_piece(piece)?;
                    check_id(piece, id.as_u64())?;
                }
            }
            Some(Value::Array(vocab)) => {
                for (id, entry) in vocab.iter().enumerate() {
                    let piece = entry.get(0).and_then(Value::as_str);
                    let piece =
                        piece.ok_or_else(|| malformed("`model.vocab` has an entry without a piece"))?;
                    check_piece(piece)?;
                    check_id(piece, Some(id as u64))?;
                }
            }
            _ => return Err(malformed("`model.vocab` is neither a table nor a list of pieces")),
        }
        if self.model_tokens().next().is_none() {
            return Err(malformed("`model.vocab` is empty"));
        }
        for token in self.added() {
            check_piece(content(token))?;
            check_id(content(token), token.get("id").and_then(Value::as_u64))?;
        }
        let prefix = model.get("continuing_subword_prefix").and_then(Value::as_str).unwrap_or("");
        for merge in model.get("merges").and_then(Value::as_array).into_iter().flatten() {
            if let Some((left, right)) = merge_of(merge)
                && !right.starts_with(prefix)
            {
                let problem =
                    format!("the merge `{left}` `{right}` lacks the prefix `{prefix}` of later pieces");
                return Err(malformed(&problem));
            }
        }
        Ok(())
    }

    fn model(&self) -> &Value {
        static NONE: Value = Value::Null;
        self.root.get("model").unwrap_or(&NONE)
    }

    fn model_tokens(&self) -> impl Iterator<Item = (&str, i32)> {
        let vocab = self.model().get("vocab");
        let named = vocab.and_then(Value::as_object).into_iter().flatten();
        let named = named.map(|(piece, id)| (piece.as_str(), id.as_u64().unwrap_or(0) as i32));
        let listed = vocab.and_then(Value::as_array).into_iter().flatten().enumerate();
        let listed =
            listed.map(|(id, entry)| (entry.get(0).and_then(Value::as_str).unwrap_or(""), id as i32));
        named.chain(listed)
    }

    fn added(&self) -> impl Iterator<Item = &Value> {
        self.root.get("added_tokens").and_then(Value::as_array).into_iter().flatten()
    }

    fn added_id(&self, token: &Value) -> i32 {
        token.get("id").and_then(Value::as_u64).unwrap_or(0) as i32
    }
}

/// Spells tokens with 128 noncharacters each, the bits of a hash, so that no text has them by chance.
pub(in crate::vocabulary) struct Marker {
    key: [u8; 32],
}

impl Marker {
    const CHARACTERS: usize = 128;
    /// The bytes that every spelling begins with: U+10FFFE and U+10FFFF are F4 8F BF BE and F4 8F BF BF.
    pub(in crate::vocabulary) const START: &'static [u8] = b"\xF4\x8F\xBF";

    /// A marker for this text. It depends on a hash of the text, so no text can spell its own marker.
    pub(in crate::vocabulary) fn new(text: &[u8]) -> Self {
        Self { key: *blake3::hash(text).as_bytes() }
    }

    /// Whether a text has enough of the characters to spell any marker, whatever a normalizer takes away between
    /// them.
    pub(in crate::vocabulary) fn could_be_spelled_by(text: &str) -> bool {
        memchr::memmem::find_iter(text.as_bytes(), Self::START).nth(Self::CHARACTERS - 1).is_some()
    }

    /// The spelling of a token.
    pub(in crate::vocabulary) fn spell(&self, token: &str) -> String {
        let hash = blake3::keyed_hash(&self.key, token.as_bytes());
        let bit = |n: usize| hash.as_bytes()[n / 8] >> (n % 8) & 1 == 1;
        (0..Self::CHARACTERS).map(|n| if bit(n) { '\u{10FFFF}' } else { '\u{10FFFE}' }).collect()
    }
}

fn content(token: &Value) -> &str {
    token.get("content").and_then(Value::as_str).unwrap_or("")
}

fn merge_of(merge: &Value) -> Option<(&str, &str)> {
    Some((merge.get(0)?.as_str()?, merge.get(1)?.as_str()?))
}

/// The file is at fault.
pub(super) fn malformed(problem: &str) -> VocabularyError {
    VocabularyError::Malformed { problem: format!("not a usable `tokenizer.json`: {}", plain_words(problem)) }
}

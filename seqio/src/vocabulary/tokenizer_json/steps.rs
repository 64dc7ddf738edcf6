//! The crate's pipeline, step by step, for the texts and files that its own loop is not made for.
//!
//! **Long texts**, in memory that does not grow with the longest word and goes away with the text. The crate keeps
//! its scratch memory, and for one *word* of a byte-pair model that is tens of bytes for each of its bytes. Words
//! are short in text, but not in 20 MB of `aaaa…`, and a tokenizer without a pre-tokenizer takes the whole text for
//! one word. Long words are therefore encoded in stretches, with the ids that the whole would give:
//!
//! - *Byte-pair encoding is local.* Merges go by (rank, place), so what happens on either side of a border is the
//!   same with or without the other side until a merge crosses the border. Tokens are the encoding of a text
//!   exactly if each two neighbours, encoded together, stay those two.
//! - So a stretch is encoded, its last tokens are taken back, the next stretch begins where they began, and the two
//!   tokens at the joint are encoded together. If they do not stay, the joint moves back by a token.
//!
//! A unigram model's long words are cut by a search of our own, see `unigram.rs`.
//!
//! **Regular expressions** of a `Split` that the crate has no scanner of its own for: its reader leaves them
//! without an engine and encoding fails, so they are given one here.

use std::ops::Range;

use std::sync::{Mutex, OnceLock, PoisonError};

use tokenizers::pipeline::{
    Model, PipelineModel, PipelineModelScratch, PipelinePreTokenizer, PipelineToken, PipelineTokenizer,
    PreTokenizer, PreTokenizerScratch, Segment, Span, SpecialSegmentIterator, normalize_all,
};
use tokenizers::pre_tokenizers::sequence::PipelineSequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};

use super::config::Config;
use super::unigram::Pieces;

/// Texts up to this length are encoded by the crate's own loop.
pub(super) const LONG_TEXT: usize = 1 << 20;
/// Words up to this length are encoded whole.
const STRETCH: usize = 1 << 16;
/// How many tokens at the end of a stretch are taken back: what follows may change them.
const TAKEN_BACK: usize = 16;
/// How often a joint may move before the word is encoded whole after all.
const JOINTS: usize = 64;

/// The steps of a pipeline.
pub(in crate::vocabulary) struct Steps {
    /// In place of the pipeline's, where it has a regular expression without an engine.
    pre_tokenizer: Option<PipelinePreTokenizer>,
    pub(super) prefix: String,
    pub(super) suffix: String,
    has_byte_fallback: bool,
    size: usize,
    lengths: OnceLock<Vec<u16>>,
    pieces: OnceLock<Option<Pieces>>,
    stretch: usize,
    scratch: Mutex<Vec<Scratch>>,
}

/// Memory that is kept from one short text to the next.
pub(super) struct Scratch {
    pub(super) model: PipelineModelScratch,
    pub(super) pre_tokenizer: PreTokenizerScratch,
}

impl Steps {
    pub(super) fn new(config: &Config, pipeline: &PipelineTokenizer) -> tokenizers::Result<Self> {
        let [prefix, suffix] = config.affixes().map(str::to_owned);
        Ok(Self {
            pre_tokenizer: with_engines(pipeline.get_pre_tokenizer())?,
            prefix,
            suffix,
            has_byte_fallback: config.has_byte_fallback(),
            size: config.size(),
            lengths: OnceLock::new(),
            pieces: OnceLock::new(),
            stretch: STRETCH,
            scratch: Mutex::default(),
        })
    }

    /// The steps of a byte-pair pipeline over bytes with these ids, which splits by a scanner of the crate's own.
    pub(in crate::vocabulary) fn byte_level(size: usize) -> Self {
        Self {
            pre_tokenizer: None,
            prefix: String::new(),
            suffix: String::new(),
            has_byte_fallback: false,
            size,
            lengths: OnceLock::new(),
            pieces: OnceLock::new(),
            stretch: STRETCH,
            scratch: Mutex::default(),
        }
    }

    /// Whether the crate's own loop is not the one to encode `text`.
    pub(in crate::vocabulary) fn are_needed_for(&self, text: &str) -> bool {
        self.pre_tokenizer.is_some() || text.len() > LONG_TEXT
    }

    /// Appends the ids of `text`.
    pub(in crate::vocabulary) fn encode(
        &self,
        pipeline: &PipelineTokenizer,
        text: &str,
        tokens: &mut Vec<PipelineToken>,
    ) -> tokenizers::Result<()> {
        self.with_scratch(pipeline, text, |scratch| self.encode_in(scratch, pipeline, text, tokens))
    }

    /// Lends memory for encoding `text`, kept from an earlier text if both are short.
    pub(super) fn with_scratch(
        &self,
        pipeline: &PipelineTokenizer,
        text: &str,
        encode: impl FnOnce(&mut Scratch) -> tokenizers::Result<()>,
    ) -> tokenizers::Result<()> {
        let pooled = || self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let is_short = text.len() <= LONG_TEXT;
        let kept = is_short.then(|| pooled().pop()).flatten();
        let mut scratch = kept.unwrap_or_else(|| Scratch {
            model: pipeline.get_model().init_scratch(),
            pre_tokenizer: PreTokenizerScratch::default(),
        });
        encode(&mut scratch)?;
        if is_short {
            pooled().push(scratch);
        }
        Ok(())
    }

    /// Appends the ids of one word.
    pub(super) fn encode_one(
        &self,
        model: &PipelineModel,
        text: &str,
        word: &Span,
        scratch: &mut PipelineModelScratch,
        tokens: &mut Vec<PipelineToken>,
    ) -> tokenizers::Result<()> {
        match self.is_long(word.range()) {
            true => self.encode_word(model, &text[word.range()], scratch, tokens),
            false => model.tokenize_spans(text, std::slice::from_ref(word), scratch, tokens),
        }
    }

    /// What cuts text into words.
    pub(super) fn pre_tokenizer<'a>(&'a self, pipeline: &'a PipelineTokenizer) -> &'a PipelinePreTokenizer {
        self.pre_tokenizer.as_ref().unwrap_or(pipeline.get_pre_tokenizer())
    }

    /// What `PipelineTokenizer::encode_into` does.
    fn encode_in(
        &self,
        scratch: &mut Scratch,
        pipeline: &PipelineTokenizer,
        text: &str,
        tokens: &mut Vec<PipelineToken>,
    ) -> tokenizers::Result<()> {
        let added = pipeline.get_added_vocabulary();
        let pre_tokenizer = self.pre_tokenizer(pipeline);
        let model = pipeline.get_model();
        let mut words = Vec::new();
        for segment in SpecialSegmentIterator::new(text, added, false, false) {
            let (text, offset) = match segment {
                Segment::SpecialToken(id) => {
                    tokens.push(id.into());
                    continue;
                }
                Segment::Text { text, input_offset } => (text, input_offset),
            };
            let normalized = normalize_all(pipeline.get_normalizers(), text, offset)?;
            for segment in SpecialSegmentIterator::new(&normalized, added, true, false) {
                let text = match segment {
                    Segment::SpecialToken(id) => {
                        tokens.push(id.into());
                        continue;
                    }
                    Segment::Text { text, .. } => text,
                };
                if u32::try_from(text.len()).is_err() {
                    return Err("a text of 4 GiB or more does not fit".into());
                }
                words.clear();
                pre_tokenizer.pre_tokenize(text, &mut scratch.pre_tokenizer, &mut words)?;
                for words in words.chunk_by(|a, b| !self.is_long(a.range()) && !self.is_long(b.range())) {
                    match words {
                        [word] if self.is_long(word.range()) => {
                            self.encode_word(model, &text[word.range()], &mut scratch.model, tokens)?;
                        }
                        words => model.tokenize_spans(text, words, &mut scratch.model, tokens)?,
                    }
                }
            }
        }
        Ok(())
    }

    fn is_long(&self, word: Range<usize>) -> bool {
        word.len() > self.stretch
    }

    fn encode_word(
        &self,
        model: &PipelineModel,
        word: &str,
        scratch: &mut PipelineModelScratch,
        tokens: &mut Vec<PipelineToken>,
    ) -> tokenizers::Result<()> {
        let start = tokens.len();
        if let Some(lengths) = self.lengths(model) {
            let mut word = Word { model, word, lengths, stretch: self.stretch, scratch };
            if word.encode_in_stretches(tokens)?.is_some() {
                return Ok(());
            }
            tokens.truncate(start);
        }
        if let PipelineModel::Unigram(model) = model
            && let Some(pieces) = self.pieces.get_or_init(|| Pieces::new(model))
            && pieces.encode(model, word, tokens).is_some()
        {
            return Ok(());
        }
        model.tokenize_pipeline(word, scratch, tokens)
    }

    /// The bytes of a word that each id stands for; nothing for a model whose words cannot be cut.
    pub(super) fn lengths(&self, model: &PipelineModel) -> Option<&[u16]> {
        // Affixes make a character's first symbol depend on its place in the word.
        let is_byte_level = match model {
            PipelineModel::BPE(model) if self.prefix.is_empty() && self.suffix.is_empty() => {
                model.is_byte_level()
            }
            _ => return None,
        };
        let length = |id: usize| {
            let piece = model.id_to_token(id as u32).unwrap_or_default();
            match is_byte_level {
                // One character for each byte.
                true => piece.chars().count() as u16,
                false if self.is_byte(&piece) => 1,
                false => piece.len() as u16,
            }
        };
        Some(self.lengths.get_or_init(|| (0..self.size).map(length).collect()))
    }

    /// Whether a piece is a byte of a character that has no piece.
    pub(super) fn is_byte(&self, piece: &str) -> bool {
        self.has_byte_fallback && is_byte(piece)
    }

    /// With words cut shorter, so that a test need not be long.
    #[cfg(test)]
    pub(super) fn with_stretch(mut self, stretch: usize) -> Self {
        self.stretch = stretch;
        self
    }
}

/// `pre_tokenizer` with an engine for each regular expression, if one lacks it.
fn with_engines(pre_tokenizer: &PipelinePreTokenizer) -> tokenizers::Result<Option<PipelinePreTokenizer>> {
    match pre_tokenizer {
        PipelinePreTokenizer::Split(split) => match &split.pattern {
            SplitPattern::Regex(regex) if split.grammar().is_none() => {
                let split = Split::new(split.pattern.clone(), split.behavior, split.invert)
                    .map_err(|e| format!("the `Split` pre-tokenizer's regular expression `{regex}`: {e}"))?;
                Ok(Some(PipelinePreTokenizer::Split(split)))
            }
            _ => Ok(None),
        },
        PipelinePreTokenizer::Sequence(members) if !members.is_deepseek() => {
            let mut changed = false;
            let mut with = Vec::new();
            for member in members.pre_tokenizers() {
                let member_with = with_engines(member)?;
                changed |= member_with.is_some();
                with.push(member_with.unwrap_or_else(|| member.clone()));
            }
            Ok(changed.then(|| PipelinePreTokenizer::Sequence(PipelineSequence::new(with))))
        }
        _ => Ok(None),
    }
}

/// A long word of a byte-pair model.
struct Word<'a> {
    model: &'a PipelineModel,
    word: &'a str,
    lengths: &'a [u16],
    stretch: usize,
    scratch: &'a mut PipelineModelScratch,
}

impl Word<'_> {
    /// Nothing where tokens do not say how long they are (an unknown token), or no joint is found.
    fn encode_in_stretches(&mut self, tokens: &mut Vec<PipelineToken>) -> tokenizers::Result<Option<()>> {
        // The tokens after `tokens` in what has been encoded, and the place in the word where they begin.
        let Some((mut pending, mut end)) = self.encode_from(0)? else { return Ok(None) };
        let mut begin = 0;
        while end < self.word.len() {
            let Some(joined) = self.join(&pending, begin, end)? else { return Ok(None) };
            tokens.extend_from_slice(&pending[..joined.kept]);
            (pending, begin, end) = (joined.next, joined.begin, joined.end);
        }
        tokens.append(&mut pending);
        Ok(Some(()))
    }

    /// The stretch after `pending`, which covers `begin..end` of the word.
    fn join(
        &mut self,
        pending: &[PipelineToken],
        begin: usize,
        end: usize,
    ) -> tokenizers::Result<Option<Joined>> {
        let mut joint = end;
        for (moved, kept) in (1..pending.len()).rev().enumerate().take(TAKEN_BACK + JOINTS) {
            joint -= self.length(pending[kept]);
            // A token may end inside a character.
            if moved < TAKEN_BACK || joint <= begin || !self.word.is_char_boundary(joint) {
                continue;
            }
            let Some((next, next_end)) = self.encode_from(joint)? else { return Ok(None) };
            if next_end <= end && next_end < self.word.len() {
                return Ok(None);
            }
            if self.stays(&pending[..kept], joint, &next)? {
                return Ok(Some(Joined { kept, next, begin: joint, end: next_end }));
            }
        }
        Ok(None)
    }

    /// Whether the tokens on both sides of a joint, each up to the nearest end of a character, encode to themselves
    /// together.
    fn stays(
        &mut self,
        before: &[PipelineToken],
        joint: usize,
        after: &[PipelineToken],
    ) -> tokenizers::Result<bool> {
        let (mut start, mut first) = (joint, before.len());
        let (mut end, mut last) = (joint, 0);
        while first > 0 && (start == joint || !self.word.is_char_boundary(start)) {
            first -= 1;
            start -= self.length(before[first]);
        }
        while last < after.len() && (end == joint || !self.word.is_char_boundary(end)) {
            end += self.length(after[last]);
            last += 1;
        }
        let Some(around) = self.word.get(start..end) else { return Ok(false) };
        let mut together = Vec::new();
        self.model.tokenize_pipeline(around, self.scratch, &mut together)?;
        Ok(together == [&before[first..], &after[..last]].concat())
    }

    /// The tokens of one stretch from `begin` on, and where it ends.
    fn encode_from(&mut self, begin: usize) -> tokenizers::Result<Option<(Vec<PipelineToken>, usize)>> {
        let end = self.word.floor_char_boundary(begin.saturating_add(self.stretch));
        let mut tokens = Vec::new();
        self.model.tokenize_pipeline(&self.word[begin..end], self.scratch, &mut tokens)?;
        let covered: usize = tokens.iter().map(|token| self.length(*token)).sum();
        Ok((covered == end - begin).then_some((tokens, end)))
    }

    fn length(&self, token: PipelineToken) -> usize {
        self.lengths.get(token.id() as usize).copied().map_or(0, usize::from)
    }
}

/// A stretch and where it was joined to the one before, of which `kept` tokens stay.
struct Joined {
    kept: usize,
    next: Vec<PipelineToken>,
    begin: usize,
    end: usize,
}

/// Whether a piece is `<0x0A>`, a byte of a character that has no piece.
fn is_byte(piece: &str) -> bool {
    let digits = piece.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
    digits.is_some_and(|digits| digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

//! Where the tokens of a text begin in it: the crate's pipeline says ids alone.
//!
//! ```text
//! "a  b" -> "▁a▁▁b" -> [▁a, ▁▁b]     begin at 0 and 1
//! ```
//!
//! Special tokens are found at places of the text, normalizers are followed character by character, words are stretches
//! of the normal form, and in a word tokens lie one behind the other.

use std::borrow::Cow;
use std::iter::repeat_n;
use std::ops::Range;

use tokenizers::normalizers::metaspace::MetaspaceNormalizer;
use tokenizers::normalizers::replace::ReplacePattern;
use tokenizers::pipeline::{
    Normalizer, PipelineModel, PipelineNormalizer, PipelinePatternMatcher, PipelineToken, PipelineTokenizer,
    PreTokenizer,
};
use tokenizers::utils::SysRegex;

use super::steps::{Scratch, Steps};

impl Steps {
    /// Appends the ids of `text`, and the byte of it at which each begins.
    pub(in crate::vocabulary) fn encode_with_starts(
        &self,
        pipeline: &PipelineTokenizer,
        text: &str,
        tokens: &mut Vec<PipelineToken>,
        starts: &mut Vec<usize>,
    ) -> tokenizers::Result<()> {
        self.with_scratch(pipeline, text, |scratch| {
            for segment in segments(text, pipeline.get_added_vocabulary(), false) {
                match segment {
                    (place, Some(id)) => {
                        tokens.push(id.into());
                        starts.push(place.start);
                    }
                    (place, None) => {
                        let begin = place.start;
                        let normal = Normal::of(pipeline.get_normalizers(), &text[place], begin)?;
                        self.encode_normal(pipeline, &normal, scratch, tokens, |at| {
                            starts.push(text.floor_char_boundary(begin + normal.origin(at)));
                        })?;
                    }
                }
            }
            Ok(())
        })
    }

    /// Appends the ids of a normal form and tells where in it each begins.
    fn encode_normal(
        &self,
        pipeline: &PipelineTokenizer,
        normal: &Normal<'_>,
        scratch: &mut Scratch,
        tokens: &mut Vec<PipelineToken>,
        mut begins: impl FnMut(usize),
    ) -> tokenizers::Result<()> {
        let pre_tokenizer = self.pre_tokenizer(pipeline);
        let model = pipeline.get_model();
        let mut words = Vec::new();
        for (place, id) in segments(&normal.text, pipeline.get_added_vocabulary(), true) {
            if let Some(id) = id {
                tokens.push(id.into());
                begins(place.start);
                continue;
            }
            let begin = place.start;
            let text = &normal.text[place];
            if u32::try_from(text.len()).is_err() {
                return Err("a text of 4 GiB or more does not fit".into());
            }
            words.clear();
            pre_tokenizer.pre_tokenize(text, &mut scratch.pre_tokenizer, &mut words)?;
            for word in &words {
                let first = tokens.len();
                self.encode_one(model, text, word, &mut scratch.model, tokens)?;
                let at = begin + word.range().start;
                self.places(model, &text[word.range()], &tokens[first..], |place| begins(at + place));
            }
        }
        Ok(())
    }

    /// Tells where in a word its tokens begin.
    fn places(
        &self,
        model: &PipelineModel,
        word: &str,
        tokens: &[PipelineToken],
        mut begins: impl FnMut(usize),
    ) {
        if let [_] = tokens {
            return begins(0);
        }
        if let Some(lengths) = self.lengths(model) {
            let length = |token: &PipelineToken| {
                lengths.get(token.id() as usize).map_or(0, |length| usize::from(*length))
            };
            if tokens.iter().map(length).sum::<usize>() == word.len() {
                let mut at = 0;
                for token in tokens {
                    begins(at);
                    at += length(token);
                }
                return;
            }
        }
        let bytes = word.as_bytes();
        // After a token that does not say what it stands for, the next one is looked for.
        let (mut at, mut is_lost) = (0, false);
        for token in tokens {
            let piece = model.id_to_token(token.id()).unwrap_or_default();
            let spelled = self.without_affixes(&piece, at > 0).as_bytes();
            let rest = bytes.get(at..).unwrap_or_default();
            let found = match (self.is_byte(&piece), is_lost) {
                (true, _) => Some((0, 1)),
                (false, _) if spelled.is_empty() => None,
                (false, false) => rest.starts_with(spelled).then_some((0, spelled.len())),
                (false, true) => memchr::memmem::find(rest, spelled).map(|skipped| (skipped, spelled.len())),
            };
            is_lost = found.is_none();
            let character = word.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8);
            let (skipped, length) = found.unwrap_or((0, character));
            at = (at + skipped).min(word.len().saturating_sub(1));
            begins(at);
            at = (at + length).min(word.len());
        }
    }

    fn without_affixes<'a>(&self, piece: &'a str, goes_on: bool) -> &'a str {
        let piece = if goes_on { piece.strip_prefix(self.prefix.as_str()).unwrap_or(piece) } else { piece };
        piece.strip_suffix(self.suffix.as_str()).unwrap_or(piece)
    }
}

/// The added tokens of a text with their ids, and the stretches between them.
fn segments<'a>(
    text: &'a str,
    added: &'a impl PipelinePatternMatcher,
    is_normal: bool,
) -> impl Iterator<Item = (Range<usize>, Option<u32>)> + 'a {
    let mut at = 0;
    let mut pending = None;
    std::iter::from_fn(move || {
        if let Some(token) = pending.take() {
            return Some(token);
        }
        if at >= text.len() {
            return None;
        }
        let begin = at;
        match added.extract_next(text.as_bytes(), at, is_normal, false) {
            Some(((start, end), id)) => {
                at = end.max(start);
                let token = (start..at, Some(id));
                if start <= begin {
                    return Some(token);
                }
                pending = Some(token);
                Some((begin..start, None))
            }
            None => {
                at = text.len();
                Some((begin..at, None))
            }
        }
    })
}

/// A normal form, and where its bytes come from.
struct Normal<'a> {
    text: Cow<'a, str>,
    /// For each byte of `text` one of the input; nothing if they are the same.
    origins: Option<Vec<usize>>,
    /// Length of the input.
    end: usize,
}

impl<'a> Normal<'a> {
    /// What the normalizers make of `input`, which stands at `offset` in its text.
    fn of(normalizers: &[PipelineNormalizer], input: &'a str, offset: usize) -> tokenizers::Result<Self> {
        let mut normal = Self { text: Cow::Borrowed(input), origins: None, end: input.len() };
        for normalizer in normalizers {
            let next = normalizer.normalize(&normal.text, offset)?;
            if *next == *normal.text {
                continue;
            }
            let next = next.into_owned();
            let mut origins = origins(normalizer, &normal.text, &next, offset)?;
            if normal.origins.is_some() {
                origins.iter_mut().for_each(|at| *at = normal.origin(*at));
            }
            normal.origins = Some(origins);
            normal.text = Cow::Owned(next);
        }
        Ok(normal)
    }

    fn origin(&self, at: usize) -> usize {
        match &self.origins {
            None => at,
            Some(origins) => origins.get(at).copied().unwrap_or(self.end),
        }
    }
}

/// For each byte of `next`, which a normalizer made of `text`, the byte of `text` it comes from.
fn origins(
    normalizer: &PipelineNormalizer,
    text: &str,
    next: &str,
    offset: usize,
) -> tokenizers::Result<Vec<usize>> {
    let origins: Vec<usize> = match normalizer {
        PipelineNormalizer::Prepend(prepended) => {
            repeat_n(0, prepended.prepend.len()).chain(0..text.len()).collect()
        }
        PipelineNormalizer::Strip(strip) => {
            let skipped = if strip.strip_left { text.len() - text.trim_start().len() } else { 0 };
            (skipped..skipped + next.len()).collect()
        }
        PipelineNormalizer::Metaspace(metaspace) => of_metaspace(metaspace, text, next),
        PipelineNormalizer::Replace(replace) => {
            let found: Vec<(usize, usize)> = match replace.pattern() {
                ReplacePattern::String(pattern) => {
                    text.match_indices(pattern.as_str()).map(|(at, found)| (at, at + found.len())).collect()
                }
                ReplacePattern::Regex(regex) => SysRegex::new(regex)?.find_iter(text).collect(),
            };
            let mut origins = Vec::with_capacity(next.len());
            let mut at = 0;
            for (start, end) in found {
                origins.extend(at..start);
                origins.extend(repeat_n(start, replace.content.len()));
                at = end;
            }
            origins.extend(at..text.len());
            origins
        }
        _ => by_runs(normalizer, text, offset)?,
    };
    if origins.len() == next.len() {
        return Ok(origins);
    }
    let words = format!("{normalizer:?}");
    let kind = words.split(['(', ' ', '{']).next().unwrap_or_default();
    Err(format!("its normalizer `{kind}` cannot be followed from this text to its tokens").into())
}

fn of_metaspace(metaspace: &MetaspaceNormalizer, text: &str, next: &str) -> Vec<usize> {
    let mut origins = Vec::with_capacity(next.len());
    let mut at = 0;
    for character in next.chars() {
        let mut rest = text.get(at..).unwrap_or_default();
        if metaspace.drop_whitespace() {
            rest = rest.trim_start();
            at = text.len() - rest.len();
        }
        origins.extend(repeat_n(at, character.len_utf8()));
        if rest.starts_with(character) {
            at += character.len_utf8();
        } else if rest.starts_with(' ') {
            at += 1;
        }
    }
    origins
}

/// Follows a normalizer that looks no farther than from an ASCII character to the next one, which never combines with
/// what is before it; but for the two characters of a line end.
fn by_runs(normalizer: &PipelineNormalizer, text: &str, offset: usize) -> tokenizers::Result<Vec<usize>> {
    let mut origins = Vec::with_capacity(text.len());
    let mut start = 0;
    while start < text.len() {
        let begins = |(at, character): &(usize, char)| {
            character.is_ascii() && !(*character == '\n' && text[..start + at].ends_with('\r'))
        };
        let more = text[start..].char_indices().skip(1).find(begins);
        let end = more.map_or(text.len(), |(length, _)| start + length);
        let run = normalizer.normalize(&text[start..end], offset + start)?;
        let mut by_character = Vec::new();
        let mut joined = String::new();
        for (at, character) in text[start..end].char_indices() {
            let mut buffer = [0; 4];
            let one = normalizer.normalize(character.encode_utf8(&mut buffer), offset + start + at)?;
            joined.push_str(&one);
            by_character.resize(joined.len(), start + at);
        }
        match joined == *run {
            true => origins.append(&mut by_character),
            false => origins.extend(repeat_n(start, run.len())),
        }
        start = end;
    }
    Ok(origins)
}

//! What is done to text before it is cut into pieces.
//!
//! ```text
//! "  Ｈｅｌｌｏ   world "   ->   "▁Hello▁world"
//! ```

use crate::vocabulary::VocabularyError;
use crate::vocabulary::sentencepiece::charsmap::Charsmap;
use crate::vocabulary::sentencepiece::matcher::Matcher;
use crate::vocabulary::sentencepiece::pieces::SPACE;
use crate::vocabulary::sentencepiece::proto::NormalizerProto;
use crate::vocabulary::sentencepiece::utf8::char_len;

/// The normalizer of a model, or its denormalizer.
#[derive(Debug)]
pub(super) struct Normalizer {
    charsmap: Option<Charsmap>,
    pub(super) add_dummy_prefix: bool,
    pub(super) remove_extra_whitespaces: bool,
    escape_whitespaces: bool,
    whitespace_as_suffix: bool,
    /// A text that begins so gets no space before it.
    pub(super) stands_alone: Option<&'static [u8]>,
    /// What to do at a byte, by the byte.
    lead: [Lead; 256],
}

/// Is told from which byte of a text each byte of its normal form comes.
pub(super) trait Origins {
    /// The next `len` bytes are those of the text from `from` on.
    fn copied(&mut self, from: usize, len: usize);
    /// The next `len` bytes stand for what is at `from`.
    fn replaced(&mut self, from: usize, len: usize);
}

/// Nobody asks.
impl Origins for () {
    fn copied(&mut self, _: usize, _: usize) {}
    fn replaced(&mut self, _: usize, _: usize) {}
}

impl Origins for Vec<usize> {
    fn copied(&mut self, from: usize, len: usize) {
        self.extend(from..from + len);
    }

    fn replaced(&mut self, from: usize, len: usize) {
        self.extend(std::iter::repeat_n(from, len));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lead {
    /// Stays as it is.
    Plain,
    /// A space that nothing but the white-space options changes.
    Space,
    /// The character map or a user-defined piece may begin here.
    Look,
}

impl Normalizer {
    /// Reads the specification; `matcher` finds what is to be left alone.
    pub(super) fn open(
        spec: &NormalizerProto,
        whitespace_as_suffix: bool,
        matcher: Option<&Matcher>,
    ) -> Result<Self, VocabularyError> {
        let charsmap = Charsmap::open(spec.precompiled_charsmap.as_deref().unwrap_or_default())?;
        let lead = std::array::from_fn(|byte| {
            let byte = byte as u8;
            let mapped = charsmap.as_ref().is_some_and(|map| byte >= 0x80 || map.touches_ascii(byte));
            match byte {
                _ if mapped || matcher.is_some_and(|matcher| matcher.begins_with(byte)) => Lead::Look,
                b' ' => Lead::Space,
                _ => Lead::Plain,
            }
        });
        Ok(Self {
            charsmap,
            add_dummy_prefix: spec.add_dummy_prefix.unwrap_or(true),
            remove_extra_whitespaces: spec.remove_extra_whitespaces.unwrap_or(true),
            escape_whitespaces: spec.escape_whitespaces.unwrap_or(true),
            whitespace_as_suffix,
            stands_alone: None,
            lead,
        })
    }

    /// Writes the normal form of `text` to `out`, which is cleared first.
    pub(super) fn normalize(&self, text: &[u8], matcher: Option<&Matcher>, out: &mut Vec<u8>) {
        self.normalize_traced(text, matcher, out, &mut ());
    }

    /// [`Self::normalize`], which tells `origins` where bytes come from: perhaps of more bytes than there are in the end.
    pub(super) fn normalize_traced(
        &self,
        text: &[u8],
        matcher: Option<&Matcher>,
        out: &mut Vec<u8>,
        origins: &mut impl Origins,
    ) {
        out.clear();
        let mut rest = text;
        if self.remove_extra_whitespaces {
            while !rest.is_empty() {
                let (replacement, consumed) = self.prefix(rest, matcher);
                if replacement != b" " {
                    break;
                }
                rest = &rest[consumed..];
            }
        }
        if rest.is_empty() {
            return;
        }
        out.reserve(rest.len() + rest.len() / 2);
        let space = if self.escape_whitespaces { SPACE.as_bytes() } else { b" " };
        let skipped = text.len() - rest.len();
        let stands_alone = self.stands_alone.is_some_and(|start| rest.starts_with(start));
        if self.add_dummy_prefix && !self.whitespace_as_suffix && !stands_alone {
            out.extend_from_slice(space);
            origins.replaced(skipped, space.len());
        }
        self.body(text, skipped, matcher, space, out, origins);
        if self.remove_extra_whitespaces {
            while out.ends_with(space) {
                out.truncate(out.len() - space.len());
            }
        }
        if self.add_dummy_prefix && self.whitespace_as_suffix {
            out.extend_from_slice(space);
        }
    }

    fn body(
        &self,
        text: &[u8],
        start: usize,
        matcher: Option<&Matcher>,
        space: &[u8],
        out: &mut Vec<u8>,
        origins: &mut impl Origins,
    ) {
        let mut after_space = self.remove_extra_whitespaces;
        let mut at = start;
        while at < text.len() {
            match self.lead[usize::from(text[at])] {
                Lead::Plain => {
                    let run =
                        text[at..].iter().take_while(|byte| self.lead[usize::from(**byte)] == Lead::Plain);
                    let mut end = at + run.count();
                    // A key of the map may begin with an ASCII character and go on with a combining one.
                    if self.charsmap.is_some() && text.get(end).is_some_and(|next| *next >= 0x80) {
                        end -= 1;
                    }
                    if end > at {
                        out.extend_from_slice(&text[at..end]);
                        origins.copied(at, end - at);
                        after_space = false;
                        at = end;
                        continue;
                    }
                }
                Lead::Space
                    if text.get(at + 1).is_none_or(|next| *next < 0x80) || self.charsmap.is_none() =>
                {
                    if !after_space {
                        out.extend_from_slice(space);
                        origins.replaced(at, space.len());
                        after_space = self.remove_extra_whitespaces;
                    }
                    at += 1;
                    continue;
                }
                _ => {}
            }
            let (mut replacement, consumed) = self.prefix(&text[at..], matcher);
            let (from, before) = (at, out.len());
            at += consumed;
            if after_space {
                replacement = without_leading_spaces(replacement);
            }
            let Some(last) = replacement.last() else { continue };
            for part in replacement.split_inclusive(|byte| *byte == b' ') {
                match part.split_last() {
                    Some((b' ', before)) => {
                        out.extend_from_slice(before);
                        out.extend_from_slice(space);
                    }
                    _ => out.extend_from_slice(part),
                }
            }
            origins.replaced(from, out.len() - before);
            after_space = self.remove_extra_whitespaces && *last == b' ';
        }
    }

    /// What stands for the beginning of `text`, and how many bytes that is.
    fn prefix<'a>(&'a self, text: &'a [u8], matcher: Option<&Matcher>) -> (&'a [u8], usize) {
        if let Some((length, _)) = matcher.and_then(|matcher| matcher.longest_prefix(text)) {
            return (&text[..length], length);
        }
        if let Some((length, replacement)) = self.charsmap.as_ref().and_then(|map| map.longest_prefix(text)) {
            return (replacement, length);
        }
        match char_len(text) {
            Some(length) => (&text[..length], length),
            // Only after a map's key that ends inside a character.
            None => ("\u{fffd}".as_bytes(), 1),
        }
    }
}

fn without_leading_spaces(text: &[u8]) -> &[u8] {
    &text[text.iter().take_while(|byte| **byte == b' ').count()..]
}

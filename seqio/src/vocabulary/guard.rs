//! Special tokens by other spellings, so that the one who writes a text says which of its spellings are tokens.
//!
//! ```text
//! text       <s>hi, what is `</s>`?</s>     kept text: the first `</s>`
//! written    ◆◆hi, what is `</s>`?◇◇        with spellings ◆◆ and ◇◇ that no text has
//! ```
//!
//! A vocabulary whose special tokens are spelled so finds them where they were written and nowhere else, and all of a
//! text is encoded at once: what an encoder does at the start of a text or beside a special token it does as ever.

use std::fmt;
use std::ops::Range;

use crate::vocabulary::VocabularyError;
use crate::vocabulary::spellings::Spellings;
use crate::vocabulary::tokenizer_json::Marker;

/// Other spellings for special tokens.
pub(super) struct Guard {
    marker: Marker,
    spellings: Spellings,
}

impl Guard {
    /// For these tokens; one of a single byte is left as it is.
    pub(super) fn new(tokens: impl Iterator<Item = String>) -> Self {
        Self { marker: Marker::new(b""), spellings: Spellings::new(tokens) }
    }

    /// How a token is spelled in what [`Self::write`] gives.
    pub(super) fn marker(&self) -> &Marker {
        &self.marker
    }

    /// Where a text spells the tokens.
    pub(super) fn places(&self, text: &str) -> Vec<Range<usize>> {
        self.spellings.places(text).collect()
    }

    /// `text` with its special tokens by their other spellings, but for those that touch `kept`.
    pub(super) fn write(&self, text: &str, kept: &[Range<usize>]) -> Result<Guarded, VocabularyError> {
        if Marker::could_be_spelled_by(text) {
            let problem =
                "the text holds over a hundred of the noncharacters U+10FFFE and U+10FFFF".to_owned();
            return Err(VocabularyError::Encode { problem });
        }
        let mut written = Guarded::default();
        let mut at = 0;
        for place in self.spellings.places(text) {
            let next = kept.partition_point(|kept| kept.end <= place.start);
            if kept.get(next).is_some_and(|kept| kept.start < place.end) {
                continue;
            }
            written.copy(&text[at..place.start], at);
            written.put(&self.marker.spell(&text[place.clone()]), place.start);
            at = place.end;
        }
        written.copy(&text[at..], at);
        Ok(written)
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("spellings", &self.spellings).finish_non_exhaustive()
    }
}

/// A text as it was written, and where its bytes come from.
#[derive(Debug, Default)]
pub(super) struct Guarded {
    pub(super) text: String,
    /// Where stretches begin: in this text, in the one it was made from, and whether they are copied.
    stretches: Vec<(usize, usize, bool)>,
}

impl Guarded {
    /// The byte of the text it was made from that stands at `at`; for a special token its first.
    pub(super) fn origin(&self, at: usize) -> usize {
        let next = self.stretches.partition_point(|(start, ..)| *start <= at);
        match next.checked_sub(1).and_then(|place| self.stretches.get(place)) {
            Some((start, from, true)) => from + (at - start),
            Some((_, from, false)) => *from,
            None => 0,
        }
    }

    fn copy(&mut self, text: &str, from: usize) {
        if !text.is_empty() {
            self.stretches.push((self.text.len(), from, true));
            self.text.push_str(text);
        }
    }

    fn put(&mut self, token: &str, from: usize) {
        self.stretches.push((self.text.len(), from, false));
        self.text.push_str(token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_get_other_spellings_but_where_text_is_kept() {
        let guard = Guard::new(["<s>", "</s>"].into_iter().map(str::to_owned));
        let text = "<s>a</s>b</s>";
        assert_eq!(guard.places(text), [0..3, 4..8, 9..13]);
        let written = guard.write(text, std::slice::from_ref(&(4..8))).unwrap();
        let (bos, eos) = (guard.marker().spell("<s>"), guard.marker().spell("</s>"));
        assert_eq!(written.text, format!("{bos}a</s>b{eos}"));
        let places = [0, 1, bos.len(), bos.len() + 5, bos.len() + 6, written.text.len() - 1];
        assert_eq!(places.map(|at| written.origin(at)), [0, 0, 3, 8, 9, 9]);
        assert_eq!(guard.write("plain", &[]).unwrap().text, "plain");
        let spelled = bos.repeat(2);
        assert!(guard.write(&spelled, &[]).unwrap_err().to_string().contains("noncharacters"));
    }
}

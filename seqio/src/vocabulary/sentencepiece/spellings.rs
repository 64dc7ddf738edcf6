//! Counts the places where text spells a special piece (`<s>`, `<unk>`, `<extra_id_0>`), matched or not.

use std::collections::BTreeMap;

use crate::vocabulary::VocabularyError;
use crate::vocabulary::sentencepiece::matcher::Matcher;
use crate::vocabulary::sentencepiece::pieces::{Kind, Pieces, SPACE};

/// The spellings to look for.
#[derive(Debug)]
pub(super) struct Spellings {
    matcher: Option<Matcher>,
    /// The bytes that spellings begin with, if there are few enough to search for at once.
    begins: Vec<u8>,
}

impl Spellings {
    /// Collects the spellings of control, unknown and user-defined pieces: in text a space stands where a piece has
    /// U+2581, and one at its start belongs to the word before it.
    pub(super) fn of(pieces: &Pieces) -> Result<Self, VocabularyError> {
        let texts: Vec<String> = pieces
            .of(&[Kind::Control, Kind::Unknown, Kind::UserDefined])
            .map(|(_, piece)| piece.text.strip_prefix(SPACE).unwrap_or(&piece.text).replace(SPACE, " "))
            .filter(|text| !text.trim().is_empty())
            .collect();
        let strings: BTreeMap<&[u8], u32> = texts.iter().map(|text| (text.as_bytes(), 0)).collect();
        let matcher = Matcher::build(&strings)?;
        let mut begins: Vec<u8> = strings.keys().map(|text| text[0]).collect();
        begins.dedup();
        Ok(Self { matcher, begins })
    }

    /// How often they occur in `text`: the longest at each place, without overlaps.
    pub(super) fn count(&self, text: &[u8]) -> u64 {
        let Some(matcher) = &self.matcher else { return 0 };
        let (mut at, mut count) = (0, 0);
        while let Some(skipped) = self.next(&text[at..]) {
            at += skipped;
            match matcher.longest_prefix(&text[at..]) {
                Some((length, _)) => {
                    count += 1;
                    at += length;
                }
                None => at += 1,
            }
        }
        count
    }

    fn next(&self, text: &[u8]) -> Option<usize> {
        match *self.begins {
            [a] => memchr::memchr(a, text),
            [a, b] => memchr::memchr2(a, b, text),
            [a, b, c] => memchr::memchr3(a, b, c, text),
            _ => {
                let matcher = self.matcher.as_ref()?;
                text.iter().position(|byte| matcher.begins_with(*byte))
            }
        }
    }
}

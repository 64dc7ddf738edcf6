//! Characters that go through a template unseen and tell, in what comes out, where something began and ended.
//!
//! ```text
//! <|assistant|>⟦Hi, `⟨</s>⟩` ends it.</s>⟧   ->   the text without marks, turns [13..35], plain text [18..22]
//! ```
//!
//! They are noncharacters, which Unicode keeps out of texts; an example that holds one all the same is refused.

use std::ops::Range;

/// Before what a `{% generation %}` block writes.
pub(super) const TURN: char = '\u{FDD0}';
/// After it.
pub(super) const TURN_END: char = '\u{FDD1}';
/// Before what a message spells like a special token.
const PLAIN: char = '\u{FDD2}';
/// After it.
const PLAIN_END: char = '\u{FDD3}';

/// The first of the marks that a text holds already.
pub(super) fn held(text: &str) -> Option<char> {
    // All begin with the bytes EF B7.
    let found = memchr::memmem::find_iter(text.as_bytes(), b"\xEF\xB7");
    found.filter_map(|at| text.get(at..)?.chars().next()).find(|mark| (TURN..=PLAIN_END).contains(mark))
}

/// `text` with marks around some of it.
pub(super) fn mark_plain(text: &str, places: &[Range<usize>]) -> String {
    let mut marked = String::with_capacity(text.len() + 6 * places.len());
    let mut at = 0;
    for place in places {
        marked.push_str(&text[at..place.start]);
        marked.push(PLAIN);
        marked.push_str(&text[place.clone()]);
        marked.push(PLAIN_END);
        at = place.end;
    }
    marked.push_str(&text[at..]);
    marked
}

/// What a template wrote.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Written {
    /// Without marks.
    pub(super) text: String,
    /// Bytes of `text` that count, rising.
    pub(super) turns: Vec<Range<usize>>,
    /// Bytes of `text` that come from a message and spell a special token, rising.
    pub(super) plain: Vec<Range<usize>>,
}

impl Written {
    /// Takes the marks out.
    pub(super) fn read(marked: &str) -> Self {
        let mut written = Self { text: String::with_capacity(marked.len()), ..Self::default() };
        let (mut turn, mut plain) = (None, None);
        for piece in marked.split_inclusive(|c| (TURN..=PLAIN_END).contains(&c)) {
            let mark = piece.chars().next_back().filter(|mark| (TURN..=PLAIN_END).contains(mark));
            written.text.push_str(&piece[..piece.len() - mark.map_or(0, char::len_utf8)]);
            let at = written.text.len();
            match mark {
                Some(TURN) => turn = Some(at),
                Some(TURN_END) => written.turns.extend(turn.take().map(|start| start..at)),
                Some(PLAIN) => plain = Some(at),
                Some(PLAIN_END) => written.plain.extend(plain.take().map(|start| start..at)),
                _ => {}
            }
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_become_places_of_the_text_without_them() {
        let marked = mark_plain("a</s>é", std::slice::from_ref(&(1..5)));
        let written = Written::read(&format!("<x>{TURN}{marked}{TURN_END}.{TURN}{TURN_END}"));
        assert_eq!(written.text, "<x>a</s>é.");
        assert_eq!(written.turns, [3..10, 11..11]);
        assert_eq!(written.plain, std::slice::from_ref(&(4..8)));
    }

    #[test]
    fn a_mark_without_its_other_half_is_nothing() {
        let written = Written::read(&format!("a{PLAIN}b{TURN_END}{PLAIN_END}{TURN}c"));
        assert_eq!((written.text.as_str(), written.turns.len()), ("abc", 0));
        assert_eq!(written.plain, std::slice::from_ref(&(1..2)));
    }

    #[test]
    fn texts_that_hold_a_mark_are_known() {
        assert_eq!(held("a\u{FDD3}"), Some('\u{FDD3}'));
        assert_eq!(held("\u{FDCF}\u{FDD4}\u{FDFB}é"), None);
    }
}

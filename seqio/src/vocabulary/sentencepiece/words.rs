//! Where a normalized text can be cut into words that no piece reaches over.
//!
//! ```text
//! "▁hello▁▁big▁world"   ->   "▁hello", "▁▁big", "▁world"
//! ```

use crate::vocabulary::sentencepiece::pieces::SPACE;

/// Where words end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Boundary {
    /// Before a space that follows anything else: no piece has a space behind anything else.
    BeforeSpace,
    /// After a space, before anything else: no piece has anything else behind a space.
    AfterSpace,
    /// Nowhere.
    None,
}

impl Boundary {
    /// The boundary that all pieces keep.
    pub(super) fn of(pieces: &[&str]) -> Self {
        let spaces_first = |piece: &&str| !piece.trim_start_matches(SPACE).contains(SPACE);
        let spaces_last = |piece: &&str| !piece.trim_end_matches(SPACE).contains(SPACE);
        if pieces.iter().all(spaces_first) {
            Self::BeforeSpace
        } else if pieces.iter().all(spaces_last) {
            Self::AfterSpace
        } else {
            Self::None
        }
    }

    /// Length of the word that `text` begins with.
    #[inline]
    pub(super) fn word_len(self, text: &[u8]) -> usize {
        match self {
            Self::BeforeSpace => {
                let spaces = leading_spaces(text);
                spaces + until_space(&text[spaces..])
            }
            Self::AfterSpace => {
                let others = until_space(text);
                others + leading_spaces(&text[others..])
            }
            Self::None => text.len(),
        }
    }
}

fn leading_spaces(text: &[u8]) -> usize {
    let mut at = 0;
    while text[at..].starts_with(SPACE.as_bytes()) {
        at += SPACE.len();
    }
    at
}

#[inline]
fn until_space(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(lead) = text[at..].iter().position(|byte| *byte == SPACE.as_bytes()[0]) {
        at += lead;
        if text[at..].starts_with(SPACE.as_bytes()) {
            return at;
        }
        at += 1;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(boundary: Boundary, text: &str) -> Vec<&str> {
        let mut rest = text;
        let mut words = Vec::new();
        while !rest.is_empty() {
            let (word, after) = rest.split_at(boundary.word_len(rest.as_bytes()));
            words.push(word);
            rest = after;
        }
        words
    }

    #[test]
    fn the_pieces_decide_on_which_side_of_spaces_words_end() {
        assert_eq!(Boundary::of(&["▁a", "▁▁", "b"]), Boundary::BeforeSpace);
        assert_eq!(Boundary::of(&["a▁", "▁▁", "b"]), Boundary::AfterSpace);
        assert_eq!(Boundary::of(&["a▁", "▁b"]), Boundary::None);
        assert_eq!(Boundary::of(&["a▁b"]), Boundary::None);
    }

    #[test]
    fn words_are_cut_where_the_boundary_says() {
        let text = "▁he’llo▁▁big▁▁";
        assert_eq!(words(Boundary::BeforeSpace, text), ["▁he’llo", "▁▁big", "▁▁"]);
        assert_eq!(words(Boundary::AfterSpace, text), ["▁", "he’llo▁▁", "big▁▁"]);
        assert_eq!(words(Boundary::None, text), [text]);
    }
}

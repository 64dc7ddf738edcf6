//! Counts where text spells a special token, at a cost that encoding does not feel.
//!
//! ```text
//! <|endoftext|>, </s>      "a</s><|endoftext|><|end" -> 2
//! ```

use std::collections::BTreeMap;
use std::ops::Range;

/// Spellings of at least two bytes, grouped by their first two.
#[derive(Debug)]
pub(crate) struct Spellings {
    /// Distinct first bytes.
    firsts: Vec<u8>,
    groups: BTreeMap<[u8; 2], Group>,
}

#[derive(Debug)]
struct Group {
    /// What all of the group begin with.
    prefix: Vec<u8>,
    /// Longest first.
    spellings: Vec<Vec<u8>>,
}

impl Spellings {
    pub(crate) fn new(spellings: impl Iterator<Item = String>) -> Self {
        let mut groups: BTreeMap<[u8; 2], Group> = BTreeMap::new();
        for spelling in spellings.map(String::into_bytes) {
            let [first, second, ..] = spelling[..] else { continue };
            groups
                .entry([first, second])
                .or_insert_with(|| Group { prefix: spelling.clone(), spellings: Vec::new() })
                .spellings
                .push(spelling);
        }
        for Group { prefix, spellings } in groups.values_mut() {
            spellings.sort_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
            for spelling in spellings {
                let common = prefix.iter().zip(spelling).take_while(|(a, b)| *a == *b).count();
                prefix.truncate(common);
            }
        }
        let mut firsts: Vec<u8> = groups.keys().map(|[first, _]| *first).collect();
        firsts.dedup();
        Self { firsts, groups }
    }

    /// How many there are in `text`: from left to right, the longest at each place, none inside another.
    pub(crate) fn count(&self, text: &str) -> u64 {
        self.places(text).count() as u64
    }

    /// Where they are in `text`: from left to right, the longest at each place, none inside another.
    pub(crate) fn places(&self, text: &str) -> impl Iterator<Item = Range<usize>> {
        let text = text.as_bytes();
        let mut at = 0;
        std::iter::from_fn(move || {
            while let Some(found) = self.next_first_byte(&text[at..]) {
                at += found;
                if let Some(length) = self.longest_at(&text[at..]) {
                    at += length;
                    return Some(at - length..at);
                }
                at += 1;
            }
            None
        })
    }

    fn next_first_byte(&self, text: &[u8]) -> Option<usize> {
        match self.firsts[..] {
            [] => None,
            [a] => memchr::memchr(a, text),
            [a, b] => memchr::memchr2(a, b, text),
            [a, b, c] => memchr::memchr3(a, b, c, text),
            _ => text.iter().position(|byte| self.firsts.contains(byte)),
        }
    }

    fn longest_at(&self, text: &[u8]) -> Option<usize> {
        let group = self.groups.get(&[*text.first()?, *text.get(1)?])?;
        if !text.starts_with(&group.prefix) {
            return None;
        }
        group.spellings.iter().find(|spelling| text.starts_with(spelling)).map(Vec::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spellings(texts: &[&str]) -> Spellings {
        Spellings::new(texts.iter().map(|text| (*text).to_owned()))
    }

    #[test]
    fn counts_from_left_to_right_the_longest_at_each_place() {
        let some = spellings(&["<s>", "<s>>", "</s>", "[UNK]"]);
        for (text, count) in [
            ("", 0),
            ("<s>", 1),
            ("<s>>", 1),
            ("a<<s>b</s></s", 2),
            ("[UNK][UNK<s>", 2),
            ("é<s>é", 1),
            ("<", 0),
        ] {
            assert_eq!(some.count(text), count, "{text}");
        }
        assert_eq!(spellings(&[]).count("<s>"), 0);
    }

    proptest! {
        #[test]
        fn agrees_with_looking_at_every_place(
            texts in prop::collection::vec("[<>ab|]{2,4}", 0..6),
            text in "[<>ab|é]{0,40}",
        ) {
            let mut expected = 0;
            let mut rest = text.as_str();
            while !rest.is_empty() {
                let longest = texts.iter().filter(|spelling| rest.starts_with(*spelling)).map(String::len).max();
                expected += u64::from(longest.is_some());
                let step = longest.or_else(|| rest.chars().next().map(char::len_utf8)).unwrap();
                rest = &rest[step..];
            }
            prop_assert_eq!(Spellings::new(texts.into_iter()).count(&text), expected);
        }
    }
}

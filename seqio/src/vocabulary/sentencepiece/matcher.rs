//! Strings that are found in text before anything else is done to it, the longest first.

use std::collections::BTreeMap;

use crate::vocabulary::trie::Trie;

/// SentencePiece looks at no more matches than this.
const MAX_MATCHES: usize = 64;

/// A set of strings with ids, and the bytes they begin with.
#[derive(Debug)]
pub(super) struct Matcher {
    trie: Trie,
    begins: [bool; 256],
}

impl Matcher {
    /// `None` if there are no strings; the inner error if there are too many to index.
    pub(super) fn build(strings: &BTreeMap<&[u8], u32>) -> Result<Option<Self>, super::TooLarge> {
        if strings.is_empty() {
            return Ok(None);
        }
        let mut begins = [false; 256];
        for text in strings.keys() {
            begins[usize::from(text[0])] = true;
        }
        Ok(Some(Self { trie: Trie::build(strings).ok_or(super::TooLarge)?, begins }))
    }

    /// Whether some string begins with `byte`.
    #[inline]
    pub(super) fn begins_with(&self, byte: u8) -> bool {
        self.begins[usize::from(byte)]
    }

    /// Length and id of the longest string that `text` begins with.
    #[inline]
    pub(super) fn longest_prefix(&self, text: &[u8]) -> Option<(usize, u32)> {
        if !self.begins_with(*text.first()?) {
            return None;
        }
        self.trie.longest_prefix(text, MAX_MATCHES)
    }
}

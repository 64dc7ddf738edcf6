//! The precompiled character map of a model (`nmt_nfkc` and its like): which bytes are replaced by which.
//!
//! ```text
//! u32 length of the trie in bytes | the trie, a Darts double array of u32 | replacements, each ended by a NUL
//! ```
//!
//! The trie comes out of a file, so it is checked whole before it is used: every walk stays inside the array, none is
//! longer than `MAX_KEY`, and every value points at a replacement.

use crate::vocabulary::VocabularyError;
use crate::vocabulary::sentencepiece::malformed;

/// The longest text a map may replace, in bytes. Unicode's longest decomposed forms are far below.
const MAX_KEY: u32 = 1024;
/// The longest replacement, in bytes: bounds how much a text can grow.
const MAX_REPLACEMENT: usize = 1024;
/// SentencePiece looks at no more matches than this.
const MAX_MATCHES: usize = 32;

/// A checked character map.
#[derive(Debug)]
pub(super) struct Charsmap {
    units: Vec<u32>,
    replacements: Vec<u8>,
}

/// Bits 0 to 7 and bit 31: a byte for a node, above 255 for a value.
fn label(unit: u32) -> u32 {
    unit & (1 << 31 | 0xff)
}

fn has_leaf(unit: u32) -> bool {
    unit >> 8 & 1 == 1
}

fn offset(unit: u32) -> usize {
    ((unit >> 10) << ((unit & (1 << 9)) >> 6)) as usize
}

fn value(unit: u32) -> usize {
    (unit & !(1 << 31)) as usize
}

impl Charsmap {
    /// Reads and checks a map; `None` if there is none.
    pub(super) fn open(blob: &[u8]) -> Result<Option<Self>, VocabularyError> {
        if blob.is_empty() {
            return Ok(None);
        }
        let Some((length, rest)) = blob.split_first_chunk::<4>() else {
            return Err(broken(format!("it has {} bytes, too few for its header", blob.len())));
        };
        let length = u32::from_le_bytes(*length) as usize;
        if length >= rest.len() {
            return Err(broken(format!(
                "its trie should have {length} bytes, but only {} follow",
                rest.len()
            )));
        }
        if length < 1024 || !length.is_multiple_of(1024) {
            return Err(broken(format!("its trie has {length} bytes, which is no multiple of 1,024")));
        }
        let (trie, replacements) = rest.split_at(length);
        if replacements.last() != Some(&0) {
            return Err(broken("its last replacement is not ended by a NUL".to_owned()));
        }
        let units = trie.as_chunks::<4>().0.iter().map(|unit| u32::from_le_bytes(*unit)).collect();
        let map = Self { units, replacements: replacements.to_vec() };
        map.check_units()?;
        map.check_depth()?;
        Ok(Some(map))
    }

    /// Bytes of `text` to replace, and by what; the longest key wins.
    pub(super) fn longest_prefix(&self, text: &[u8]) -> Option<(usize, &[u8])> {
        let mut place = offset(self.units[0]);
        let (mut best, mut matches) = (None, 0);
        for (at, &byte) in text.iter().enumerate() {
            place ^= usize::from(byte);
            let unit = self.units[place];
            if label(unit) != u32::from(byte) {
                break;
            }
            place ^= offset(unit);
            if has_leaf(unit) && matches < MAX_MATCHES {
                matches += 1;
                best = Some((at + 1, value(self.units[place])));
            }
        }
        best.map(|(length, at)| (length, self.replacement(at)))
    }

    /// Whether some key is `byte` alone, or begins with `byte` and goes on with an ASCII byte.
    pub(super) fn touches_ascii(&self, byte: u8) -> bool {
        let place = offset(self.units[0]) ^ usize::from(byte);
        let unit = self.units[place];
        if label(unit) != u32::from(byte) {
            return false;
        }
        let place = place ^ offset(unit);
        has_leaf(unit) || (0..128).any(|next| label(self.units[place ^ next as usize]) == next)
    }

    fn replacement(&self, at: usize) -> &[u8] {
        let text = &self.replacements[at..];
        &text[..text.iter().position(|byte| *byte == 0).unwrap_or(text.len())]
    }

    /// Every unit's children lie inside the array, and every value is one.
    fn check_units(&self) -> Result<(), VocabularyError> {
        let root = self.units[0];
        let inside = |at: usize, unit: u32| (at ^ offset(unit)) | 0xff < self.units.len();
        if label(root) != 0 || has_leaf(root) || offset(root) == 0 || !inside(0, root) {
            return Err(broken("the root of its trie is no root".to_owned()));
        }
        for (at, &unit) in self.units.iter().enumerate().skip(1) {
            if label(unit) > 0xff {
                let value = value(unit);
                if value >= self.replacements.len() {
                    return Err(broken(format!("unit {at} of its trie points behind the replacements")));
                }
                if self.replacement(value).len() > MAX_REPLACEMENT {
                    return Err(broken(format!("it has a replacement of more than {MAX_REPLACEMENT} bytes")));
                }
            } else if !inside(at, unit) {
                return Err(broken(format!("unit {at} of its trie points out of the array")));
            } else if has_leaf(unit) && label(self.units[at ^ offset(unit)]) <= 0xff {
                return Err(broken(format!("unit {at} of its trie has no value where it should have one")));
            }
        }
        Ok(())
    }

    /// No walk is endless or longer than a key may be. Units may be shared (Darts joins equal ends), so this is a
    /// longest-path search: depth first, each unit once, a unit met again on its own path being a cycle.
    fn check_depth(&self) -> Result<(), VocabularyError> {
        const UNSEEN: u32 = u32::MAX;
        const OPEN: u32 = u32::MAX - 1;
        // Children by the place they are looked for from: `unit ^ its label`.
        let mut children: Vec<(usize, usize)> = (0..self.units.len())
            .filter(|at| label(self.units[*at]) <= 0xff)
            .map(|at| (at ^ label(self.units[at]) as usize, at))
            .collect();
        children.sort_unstable();
        let first_child = |place: usize| children.partition_point(|(from, _)| *from < place);
        let mut height = vec![UNSEEN; self.units.len()];
        height[0] = OPEN;
        let mut path = vec![(0, offset(self.units[0]), first_child(offset(self.units[0])), 0)];
        while let Some((at, place, next, tallest)) = path.last_mut() {
            match children.get(*next) {
                Some((from, child)) if from == place => match height[*child] {
                    UNSEEN => {
                        let child = *child;
                        height[child] = OPEN;
                        let place = child ^ offset(self.units[child]);
                        path.push((child, place, first_child(place), 0));
                    }
                    OPEN => return Err(broken("its trie goes round in a circle".to_owned())),
                    below => {
                        *tallest = (*tallest).max(below + 1);
                        *next += 1;
                    }
                },
                _ => {
                    if *tallest > MAX_KEY {
                        return Err(broken(format!("it replaces texts of more than {MAX_KEY} bytes")));
                    }
                    height[*at] = *tallest;
                    path.pop();
                }
            }
        }
        Ok(())
    }
}

fn broken(problem: String) -> VocabularyError {
    malformed(format!("the SentencePiece model's character map is broken: {problem}"))
}

//! BERT's word pieces, as SeqIO's `BertWordPieceVocabulary` has them of TensorFlow Text.
//!
//! ```text
//! vocab.txt     [UNK]   un   ##known   it   '   ##s
//! "it's unknown, Un" -> [3, 4, 0, 1, 2, 0, 0]     "s" alone and "," are no pieces, nor is "Un" unless lower_case = true
//! [1, 2, 3]          -> "unknown it"
//! ```
//!
//! Not the `tokenizers` crate's: control characters split words here, case is folded and compatibility forms are
//! replaced, and a word is too long by its bytes.

mod fold;
mod options;
mod words;

use std::collections::BTreeMap;
use std::fmt;

pub(crate) use self::options::{MAX_BYTES_PER_WORD, SUFFIX_INDICATOR};
pub use self::options::{NormalizationForm, WordPieceOptions};

use self::words::{Token, for_each_token};
use crate::example::EncodeCounts;
use crate::vocabulary::lines::{by_text, lines};
use crate::vocabulary::sentinels::Sentinels;
use crate::vocabulary::special_ids::{NamedIds, readable_ids, spelled_pieces};
use crate::vocabulary::spellings::Spellings;
use crate::vocabulary::trie::Trie;
use crate::vocabulary::{SpecialIds, Vocabulary, VocabularyError};

/// What an id without a line decodes to, and the line that unknown words have the id of.
const UNKNOWN: &str = "[UNK]";

/// A vocabulary read from a `vocab.txt`.
pub(crate) struct BertWordPiece {
    file: Vec<u8>,
    options: WordPieceOptions,
    /// The piece of each line.
    pieces: Vec<String>,
    /// Pieces that a word may begin with.
    first: Trie,
    /// Pieces that a word may go on with, without the indicator.
    later: Trie,
    sentinels: Sentinels,
    special: SpecialIds,
    /// The id of words that have no pieces.
    unknown: i32,
    /// The id of a character inside a word that no piece begins with.
    unknown_later: i32,
    spellings: Spellings,
}

impl BertWordPiece {
    /// Reads the file's bytes.
    pub(crate) fn open(
        file: Vec<u8>,
        options: &WordPieceOptions,
        extra_ids: usize,
        reverse_extra_ids: bool,
        named: &NamedIds,
    ) -> Result<Self, VocabularyError> {
        let lines = lines(&file)?;
        let ids = by_text(lines.iter().copied(), 0, |number| format!("line {}", number + 1))?;
        let id_of = |piece: &str| ids.get(piece).map(|id| *id as i32);
        // As TensorFlow Text has it, one id after the lines is that of every piece that is on none.
        let no_line = lines.len() as i32;
        let sentinels = Sentinels::new(lines.len() + 1, extra_ids, reverse_extra_ids)?;
        let own = SpecialIds {
            pad: id_of("[PAD]").unwrap_or(0),
            eos: id_of("[SEP]"),
            bos: id_of("[CLS]"),
            unk: Some(id_of(UNKNOWN).unwrap_or(no_line)),
        };
        let spelled = |id: i32| piece(&lines, &sentinels, id);
        let special = named.resolve(own, sentinels.end(), || spelled_pieces(sentinels.end(), spelled))?;
        let unknown = special.unk.unwrap_or(no_line);

        let indicator = options.suffix_indicator.as_str();
        let later =
            ids.iter().filter_map(|(piece, id)| Some((piece.strip_prefix(indicator)?.as_bytes(), *id)));
        let later = later.filter(|(rest, _)| !rest.is_empty()).collect();
        let first = ids.iter().map(|(piece, id)| (piece.as_bytes(), *id)).collect();
        let unknown_piece = spelled(unknown).unwrap_or_default();
        let unknown_later = id_of(&format!("{indicator}{unknown_piece}")).unwrap_or(no_line);
        let marks =
            ["[PAD]", UNKNOWN, "[CLS]", "[SEP]", "[MASK]"].into_iter().filter(|mark| ids.contains_key(mark));
        let spellings =
            Spellings::new(marks.map(str::to_owned).chain(sentinels.iter().map(|(_, text)| text)));
        let pieces = lines.iter().map(|line| (*line).to_owned()).collect();
        let (first, later) = (trie(&first)?, trie(&later)?);
        let options = options.clone();
        Ok(Self {
            file,
            options,
            pieces,
            first,
            later,
            sentinels,
            special,
            unknown,
            unknown_later,
            spellings,
        })
    }

    /// Appends the pieces of a word, or the id of unknown words.
    fn encode_word(&self, word: &str, ids: &mut Vec<i32>) {
        if word.len() > self.options.max_bytes_per_word {
            ids.push(self.unknown);
            return;
        }
        let start = ids.len();
        let mut at = 0;
        while at < word.len() {
            let rest = &word[at..];
            let pieces = if at == 0 { &self.first } else { &self.later };
            let searched = match self.options.max_chars_per_token {
                Some(chars) if chars < pieces.max_len() => {
                    rest.char_indices().nth(chars).map_or(rest, |(end, _)| &rest[..end])
                }
                _ => rest,
            };
            match (pieces.longest_prefix(searched.as_bytes(), usize::MAX), rest.chars().next()) {
                (Some((length, id)), _) => {
                    ids.push(id as i32);
                    at += length;
                }
                (None, Some(char)) if self.options.split_unknown_characters => {
                    ids.push(if at == 0 { self.unknown } else { self.unknown_later });
                    at += char.len_utf8();
                }
                (None, _) => {
                    ids.truncate(start);
                    ids.push(self.unknown);
                    return;
                }
            }
        }
    }

    fn encode_token(&self, token: Token<'_>, ids: &mut Vec<i32>) {
        match token {
            Token::Text(word) => self.encode_word(word, ids),
            Token::Spaces(count) if count > self.options.max_bytes_per_word => ids.push(self.unknown),
            Token::Spaces(count) => self.encode_word(&" ".repeat(count), ids),
        }
    }
}

fn trie(pieces: &BTreeMap<&[u8], u32>) -> Result<Trie, VocabularyError> {
    Trie::build(pieces).ok_or_else(|| VocabularyError::Malformed {
        problem: "its pieces are too many and too different for the encoder's table".to_owned(),
    })
}

/// How an id is spelled: as its line, or as an extra id.
fn piece(lines: &[impl AsRef<str>], sentinels: &Sentinels, id: i32) -> Option<String> {
    let place = usize::try_from(id).ok()?;
    match lines.get(place) {
        Some(line) => Some(line.as_ref().to_owned()),
        None if place == lines.len() => Some(UNKNOWN.to_owned()),
        None => sentinels.piece(id),
    }
}

impl fmt::Debug for BertWordPiece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BertWordPiece")
            .field("size", &self.vocab_size())
            .field("special", &self.special)
            .finish_non_exhaustive()
    }
}

impl Vocabulary for BertWordPiece {
    fn kind(&self) -> &'static str {
        "bert_wordpiece"
    }

    fn vocab_size(&self) -> usize {
        self.sentinels.end()
    }

    fn extra_ids(&self) -> usize {
        self.sentinels.len()
    }

    fn special_ids(&self) -> SpecialIds {
        self.special
    }

    fn encode_into(&self, text: &str, ids: &mut Vec<i32>) -> Result<EncodeCounts, VocabularyError> {
        let start = ids.len();
        let prepared = self.options.prepare(text);
        for_each_token(&prepared, &self.options, |token| self.encode_token(token, ids));
        let unknown =
            ids[start..].iter().filter(|id| [self.unknown, self.unknown_later].contains(id)).count();
        Ok(EncodeCounts { unknown: unknown as u64, special_spellings: self.spellings.count(text) })
    }

    fn decode(&self, ids: &[i32]) -> String {
        let SpecialIds { unk, eos, .. } = self.special;
        let indicator = self.options.suffix_indicator.as_str();
        let mut text = String::new();
        for (place, id) in readable_ids(ids, self.vocab_size(), unk, eos).enumerate() {
            let piece = self.piece(id).unwrap_or_else(|| UNKNOWN.to_owned());
            match piece.strip_prefix(indicator) {
                Some(rest) if place > 0 && !rest.is_empty() && !indicator.is_empty() => text.push_str(rest),
                _ => {
                    if place > 0 {
                        text.push(' ');
                    }
                    text.push_str(&piece);
                }
            }
        }
        text
    }

    fn piece(&self, id: i32) -> Option<String> {
        piece(&self.pieces, &self.sentinels, id)
    }

    fn file(&self) -> Option<&[u8]> {
        Some(&self.file)
    }
}

#[cfg(test)]
mod tests;

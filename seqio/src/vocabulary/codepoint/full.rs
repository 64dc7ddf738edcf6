//! Every code point is its own id: SeqIO's `FullCodepointVocabulary`.
//!
//! ```text
//! id      0 pad   0xE005 EOS   the others: the code point   1114111.. extra ids
//! "hé"    -> [104, 233]
//! [104, 57349, 105] -> "h"     nothing after the first EOS is read
//! ```

use super::{EOS, piece};
use crate::example::EncodeCounts;
use crate::vocabulary::sentinels::Sentinels;
use crate::vocabulary::special_ids::readable_ids;
use crate::vocabulary::{SpecialIds, SpecialPlaces, Vocabulary, VocabularyError};

/// SeqIO's size: one short of all code points, so that U+10FFFF has no id.
const BASE_SIZE: i32 = 0x10_FFFF;
const EOS_ID: i32 = EOS as i32;

/// Every code point of the text is one id. No file, and nothing is unknown.
#[derive(Clone, Debug)]
pub struct FullCodepointVocabulary {
    sentinels: Sentinels,
}

impl FullCodepointVocabulary {
    /// A vocabulary of all code points, with this many ids after them.
    pub fn new(extra_ids: usize, reverse_extra_ids: bool) -> Result<Self, VocabularyError> {
        Ok(Self { sentinels: Sentinels::new(BASE_SIZE as usize, extra_ids, reverse_extra_ids)? })
    }
}

impl Vocabulary for FullCodepointVocabulary {
    fn kind(&self) -> &'static str {
        "full_codepoint"
    }

    fn vocab_size(&self) -> usize {
        self.sentinels.end()
    }

    fn extra_ids(&self) -> usize {
        self.sentinels.len()
    }

    fn special_ids(&self) -> SpecialIds {
        SpecialIds { pad: 0, eos: Some(EOS_ID), bos: None, unk: None }
    }

    fn encode_into(&self, text: &str, ids: &mut Vec<i32>) -> Result<EncodeCounts, VocabularyError> {
        let mut counts = EncodeCounts::default();
        ids.extend(text.chars().map(|char| {
            counts.special_spellings += u64::from(matches!(char, '\0' | EOS));
            // The only code point without an id, which Unicode keeps from ever being a character.
            counts.unknown += u64::from(char == char::MAX);
            if char == char::MAX { char::REPLACEMENT_CHARACTER as i32 } else { char as i32 }
        }));
        Ok(counts)
    }

    fn has_offsets(&self) -> bool {
        true
    }

    fn encode_with_offsets_into(
        &self,
        text: &str,
        _special: SpecialPlaces<'_>,
        ids: &mut Vec<i32>,
        starts: &mut Vec<usize>,
    ) -> Result<EncodeCounts, VocabularyError> {
        starts.extend(text.char_indices().map(|(at, _)| at));
        self.encode_into(text, ids)
    }

    fn decode(&self, ids: &[i32]) -> String {
        let mut text = String::with_capacity(ids.len());
        for id in readable_ids(ids, usize::MAX, None, Some(EOS_ID)).filter(|id| *id != EOS_ID) {
            match self.sentinels.piece(id) {
                Some(sentinel) => text.push_str(&sentinel),
                None => {
                    let char = u32::try_from(id).ok().and_then(char::from_u32);
                    text.push(char.unwrap_or(char::REPLACEMENT_CHARACTER));
                }
            }
        }
        text
    }

    fn piece(&self, id: i32) -> Option<String> {
        match id {
            0..BASE_SIZE => Some(piece(u32::try_from(id).ok()?)),
            _ => self.sentinels.piece(id),
        }
    }

    fn file(&self) -> Option<&[u8]> {
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::vocabulary::golden;

    fn open() -> FullCodepointVocabulary {
        FullCodepointVocabulary::new(0, true).unwrap()
    }

    fn encoded(text: &str) -> Vec<i32> {
        let mut ids = Vec::new();
        open().encode_into(text, &mut ids).unwrap();
        ids
    }

    /// Text, our ids for it, and why they are not SeqIO's.
    const DIFFERENCES: [(&str, i32, &str); 1] = [(
        "\u{10FFFF}",
        0xFFFD,
        "SeqIO's id 1114111 is not below its size 1114111: a model has no row for it. Ours is that of U+FFFD",
    )];

    #[test]
    fn every_row_that_seqio_gave_is_ours_but_those_listed() {
        let (mut rows, mut differing) = (0, 0);
        for row in golden::rows("seqio/vocab_codepoint.jsonl").iter().filter(|row| row["vocab"] == "full") {
            rows += 1;
            match row["kind"].as_str().unwrap() {
                "layout" => {
                    let special = open().special_ids();
                    assert_eq!(open().vocab_size() as u64, row["vocab_size"]);
                    assert_eq!(i64::from(special.pad), row["pad_id"]);
                    assert_eq!(special.eos.map(i64::from), row["eos_id"].as_i64());
                    assert_eq!(special.unk.map(i64::from), row["unk_id"].as_i64());
                }
                "encode" => {
                    let text = row["text"].as_str().unwrap();
                    let ids = encoded(text);
                    if let Some((_, ours, _)) = DIFFERENCES.iter().find(|(differs, ..)| *differs == text) {
                        differing += 1;
                        assert_eq!(ids, [*ours], "{row}");
                        assert_ne!(ids, golden::ids(&row["ids"]), "{row}");
                        continue;
                    }
                    assert_eq!(ids, golden::ids(&row["ids"]), "{row}");
                    assert_eq!(Value::from(open().decode(&ids)), row["decode"], "{row}");
                }
                "decode" => {
                    let decoded = open().decode(&golden::ids(&row["ids"]));
                    assert_eq!(Value::from(decoded), row["decode"]["output"], "{row}");
                }
                other => panic!("unknown kind of row `{other}`"),
            }
        }
        assert_eq!((rows, differing), (208, DIFFERENCES.len()));
    }

    #[test]
    fn any_ids_decode_and_every_id_has_a_piece() {
        assert_eq!(
            open().decode(&[i32::MIN, -1, 0xD800, i32::MAX, 104]),
            "\u{FFFD}\u{FFFD}\u{FFFD}\u{FFFD}h"
        );
        let more = FullCodepointVocabulary::new(2, true).unwrap();
        let pieces: Vec<_> = [-1, 0, 10, 104, 0xE005, 0xD800, 0x10_FFFF, 0x11_0000, 0x11_0001]
            .iter()
            .map(|id| more.piece(*id).unwrap_or_default())
            .collect();
        assert_eq!(
            pieces,
            ["", "<pad>", "<U+000A>", "h", "</s>", "<U+D800>", "<extra_id_1>", "<extra_id_0>", ""]
        );
        assert_eq!(more.decode(&[104, 0x11_0000]), "h<extra_id_0>");
    }

    #[test]
    fn special_characters_in_text_are_counted() {
        let counts = open().encode_into("a\0b\u{E005}\u{10FFFF}", &mut Vec::new()).unwrap();
        assert_eq!(counts, EncodeCounts { unknown: 1, special_spellings: 2 });
    }

    proptest! {
        #[test]
        fn decoding_gives_the_text_back(text in any::<String>()) {
            prop_assume!(!text.contains(['\u{E005}', '\u{10FFFF}']));
            prop_assert_eq!(open().decode(&encoded(&text)), text);
        }
    }
}

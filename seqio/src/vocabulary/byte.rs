//! Bytes as tokens: SeqIO's `ByteVocabulary`, which ByT5 uses.
//!
//! ```text
//! id      0 pad   1 EOS   2 UNK   3..=258 the bytes 0..=255   259.. extra ids
//! "hé"    -> [107, 198, 172]
//! [107, 1, 172] -> "h"         nothing after the first EOS is read
//! [107, 172, 300] -> "h"       invalid UTF-8, specials and extra ids decode to nothing
//! ```

use crate::example::EncodeCounts;
use crate::vocabulary::sentinels::Sentinels;
use crate::vocabulary::special_ids::readable_ids;
use crate::vocabulary::{SpecialIds, SpecialPlaces, Vocabulary, VocabularyError};

const PAD: i32 = 0;
const EOS: i32 = 1;
const UNK: i32 = 2;
/// The id of byte 0.
const FIRST_BYTE: i32 = 3;
/// Specials and bytes: the size without extra ids.
const BASE_SIZE: i32 = FIRST_BYTE + 256;

/// Every byte of the UTF-8 text is one id. Text is never searched for special tokens.
#[derive(Clone, Debug)]
pub struct ByteVocabulary {
    sentinels: Sentinels,
}

impl ByteVocabulary {
    /// A byte vocabulary with this many ids after the bytes.
    pub fn new(extra_ids: usize, reverse_extra_ids: bool) -> Result<Self, VocabularyError> {
        Ok(Self { sentinels: Sentinels::new(BASE_SIZE as usize, extra_ids, reverse_extra_ids)? })
    }
}

impl Vocabulary for ByteVocabulary {
    fn kind(&self) -> &'static str {
        "byte"
    }

    fn vocab_size(&self) -> usize {
        self.sentinels.end()
    }

    fn extra_ids(&self) -> usize {
        self.sentinels.len()
    }

    fn special_ids(&self) -> SpecialIds {
        SpecialIds { pad: PAD, eos: Some(EOS), bos: None, unk: Some(UNK) }
    }

    fn encode_into(&self, text: &str, ids: &mut Vec<i32>) -> Result<EncodeCounts, VocabularyError> {
        ids.extend(text.bytes().map(|byte| FIRST_BYTE + i32::from(byte)));
        Ok(EncodeCounts::default())
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
        let chars = text.char_indices();
        starts.extend(chars.flat_map(|(at, char)| std::iter::repeat_n(at, char.len_utf8())));
        self.encode_into(text, ids)
    }

    fn decode(&self, ids: &[i32]) -> String {
        // SeqIO counts ids from 259 on as unknown here, extra ids too.
        let bytes: Vec<u8> = readable_ids(ids, BASE_SIZE as usize, Some(UNK), Some(EOS))
            .filter_map(|id| u8::try_from(id.checked_sub(FIRST_BYTE)?).ok())
            .collect();
        bytes.utf8_chunks().map(|chunk| chunk.valid()).collect()
    }

    fn piece(&self, id: i32) -> Option<String> {
        Some(match id {
            PAD => "<pad>".to_owned(),
            EOS => "</s>".to_owned(),
            UNK => "<unk>".to_owned(),
            FIRST_BYTE..BASE_SIZE => match u8::try_from(id - FIRST_BYTE).ok()? {
                byte @ b'!'..=b'~' => char::from(byte).to_string(),
                byte => format!("<0x{byte:02X}>"),
            },
            _ => return self.sentinels.piece(id),
        })
    }

    fn file(&self) -> Option<&[u8]> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::golden;
    use serde_json::Value;

    fn open(extra_ids: u64) -> ByteVocabulary {
        ByteVocabulary::new(extra_ids as usize, true).unwrap()
    }

    #[test]
    fn every_row_that_seqio_gave_is_ours() {
        let mut rows = 0;
        for row in golden::rows("seqio/vocab_byte.jsonl") {
            rows += 1;
            match row["kind"].as_str().unwrap() {
                "layout" => {
                    let vocabulary = open(row["extra_ids"].as_u64().unwrap());
                    let special = vocabulary.special_ids();
                    assert_eq!(vocabulary.vocab_size() as u64, row["vocab_size"]);
                    assert_eq!(i64::from(special.pad), row["pad_id"]);
                    assert_eq!(special.eos.map(i64::from), row["eos_id"].as_i64());
                    assert_eq!(special.unk.map(i64::from), row["unk_id"].as_i64());
                    assert_eq!(special.bos.map(i64::from), row["bos_id"].as_i64());
                }
                "encode" => {
                    let mut ids = Vec::new();
                    open(0).encode_into(row["text"].as_str().unwrap(), &mut ids).unwrap();
                    assert_eq!(ids, golden::ids(&row["ids"]), "{row}");
                }
                "decode" => {
                    let decoded = open(100).decode(&golden::ids(&row["ids"]));
                    assert_eq!(Value::from(decoded), row["decode"], "{row}");
                }
                other => panic!("unknown kind of row `{other}`"),
            }
        }
        assert_eq!(rows, 298);
    }

    #[test]
    fn any_ids_decode_and_every_id_has_a_piece() {
        let vocabulary = open(2);
        assert_eq!(vocabulary.decode(&[i32::MIN, i32::MAX, 107]), "h");
        let pieces: Vec<_> = [-1, 0, 3, 36, 258, 259, 260, 261].map(|id| vocabulary.piece(id)).into();
        let spelled = ["<pad>", "<0x00>", "!", "<0xFF>", "<extra_id_1>", "<extra_id_0>"];
        let spelled = spelled.map(|piece| Some(piece.to_owned()));
        assert_eq!(pieces, [&[None][..], &spelled, &[None]].concat());
    }
}

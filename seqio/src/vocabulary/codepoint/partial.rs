//! Some code points have an id: SeqIO's `PartialCodepointVocabulary`.
//!
//! ```text
//! partial_codepoint = [104, 233]      or a file, a decimal number a line
//! id      0 pad   1 EOS   2 UNK   3 'h'   4 'é'   5.. extra ids
//! "hé!"   -> [3, 4, 2]  -> "hé\u{E004}"
//! ```

use super::{CODE_POINTS, EOS, UNK, piece};
use crate::example::EncodeCounts;
use crate::vocabulary::lines::lines;
use crate::vocabulary::sentinels::Sentinels;
use crate::vocabulary::special_ids::readable_ids;
use crate::vocabulary::{Listed, SpecialIds, SpecialPlaces, Vocabulary, VocabularyError};

const PAD_ID: i32 = 0;
const EOS_ID: i32 = 1;
const UNK_ID: i32 = 2;

/// Every code point of the text is one id, the same for all that are not listed.
#[derive(Clone, Debug)]
pub struct PartialCodepointVocabulary {
    file: Option<Vec<u8>>,
    /// The code point of each id below the extra ids.
    codepoints: Vec<u32>,
    /// The id of each code point up to the largest listed.
    ids: Vec<i32>,
    sentinels: Sentinels,
}

impl PartialCodepointVocabulary {
    /// The listed code points in their order, from id 3 on. One that has an id already is passed over. `file` holds the
    /// bytes of the list's file, if it is in one.
    pub fn new(
        listed: &Listed<u32>,
        file: Option<Vec<u8>>,
        extra_ids: usize,
        reverse_extra_ids: bool,
    ) -> Result<Self, VocabularyError> {
        let listed = match listed {
            Listed::Here(listed) => listed.clone(),
            Listed::File(_) => numbers(file.as_deref().unwrap_or_default())?,
        };
        let mut codepoints = vec![0, u32::from(EOS), u32::from(UNK)];
        let mut ids = Vec::new();
        for (codepoint, id) in codepoints.iter().zip(0..) {
            set(&mut ids, *codepoint, id);
        }
        for codepoint in listed {
            if codepoint >= CODE_POINTS {
                let problem = format!("there is no code point {codepoint}: the last is {}", CODE_POINTS - 1);
                return Err(VocabularyError::Setting { setting: "partial_codepoint", problem });
            }
            if ids.get(codepoint as usize).is_none_or(|id| *id == UNK_ID && codepoint != u32::from(UNK)) {
                set(&mut ids, codepoint, codepoints.len() as i32);
                codepoints.push(codepoint);
            }
        }
        let sentinels = Sentinels::new(codepoints.len(), extra_ids, reverse_extra_ids)?;
        Ok(Self { file, codepoints, ids, sentinels })
    }

    fn codepoint(&self, id: i32) -> Option<u32> {
        self.codepoints.get(usize::try_from(id).ok()?).copied()
    }
}

fn set(ids: &mut Vec<i32>, codepoint: u32, id: i32) {
    let place = codepoint as usize;
    if ids.len() <= place {
        ids.resize(place + 1, UNK_ID);
    }
    ids[place] = id;
}

/// The numbers of a file, one a line.
fn numbers(file: &[u8]) -> Result<Vec<u32>, VocabularyError> {
    (1..)
        .zip(lines(file)?)
        .map(|(number, line)| {
            line.trim().parse().map_err(|_| VocabularyError::Malformed {
                problem: format!(
                    "line {number}: `{line}` is no code point: a decimal number, such as 233 for `é`"
                ),
            })
        })
        .collect()
}

impl Vocabulary for PartialCodepointVocabulary {
    fn kind(&self) -> &'static str {
        "partial_codepoint"
    }

    fn vocab_size(&self) -> usize {
        self.sentinels.end()
    }

    fn extra_ids(&self) -> usize {
        self.sentinels.len()
    }

    fn special_ids(&self) -> SpecialIds {
        SpecialIds { pad: PAD_ID, eos: Some(EOS_ID), bos: None, unk: Some(UNK_ID) }
    }

    fn encode_into(&self, text: &str, ids: &mut Vec<i32>) -> Result<EncodeCounts, VocabularyError> {
        let mut counts = EncodeCounts::default();
        ids.extend(text.chars().map(|char| {
            let id = self.ids.get(char as usize).copied().unwrap_or(UNK_ID);
            counts.unknown += u64::from(id == UNK_ID);
            counts.special_spellings += u64::from(matches!(char, '\0' | EOS | UNK));
            id
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
        // SeqIO counts extra ids as unknown here.
        readable_ids(ids, self.codepoints.len(), Some(UNK_ID), Some(EOS_ID))
            .filter(|id| *id != EOS_ID)
            .map(|id| match self.codepoint(id) {
                Some(codepoint) => char::from_u32(codepoint).unwrap_or(char::REPLACEMENT_CHARACTER),
                None => UNK,
            })
            .collect()
    }

    fn piece(&self, id: i32) -> Option<String> {
        match id {
            UNK_ID => Some("<unk>".to_owned()),
            _ => self.codepoint(id).map(piece).or_else(|| self.sentinels.piece(id)),
        }
    }

    fn file(&self) -> Option<&[u8]> {
        self.file.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::vocabulary::golden;

    fn here(codepoints: Vec<u32>, extra_ids: usize) -> PartialCodepointVocabulary {
        PartialCodepointVocabulary::new(&codepoints.into(), None, extra_ids, true).unwrap()
    }

    fn from_file(file: &[u8]) -> Result<PartialCodepointVocabulary, VocabularyError> {
        PartialCodepointVocabulary::new(&"codepoints.txt".into(), Some(file.to_vec()), 0, true)
    }

    fn encoded(vocabulary: &PartialCodepointVocabulary, text: &str) -> Vec<i32> {
        let mut ids = Vec::new();
        vocabulary.encode_into(text, &mut ids).unwrap();
        ids
    }

    #[test]
    fn every_row_that_seqio_gave_is_ours() {
        let rows = golden::rows("seqio/vocab_codepoint.jsonl");
        let rows: Vec<&Value> = rows.iter().filter(|row| row["vocab"] == "partial").collect();
        let listed = |row: &Value| golden::ids(&row["codepoints"]).iter().map(|id| *id as u32).collect();
        let layout = rows.iter().find(|row| row["extra_ids"] == 10).unwrap();
        let vocabulary = here(listed(layout), 10);
        for row in &rows {
            match row["kind"].as_str().unwrap() {
                "layout" => {
                    let vocabulary = here(listed(row), row["extra_ids"].as_u64().unwrap() as usize);
                    let special = vocabulary.special_ids();
                    assert_eq!(vocabulary.vocab_size() as u64, row["vocab_size"]);
                    assert_eq!(i64::from(special.pad), row["pad_id"]);
                    assert_eq!(special.eos.map(i64::from), row["eos_id"].as_i64());
                    assert_eq!(special.unk.map(i64::from), row["unk_id"].as_i64());
                }
                "encode" => {
                    let ids = encoded(&vocabulary, row["text"].as_str().unwrap());
                    assert_eq!(ids, golden::ids(&row["ids"]), "{row}");
                    assert_eq!(Value::from(vocabulary.decode(&ids)), row["decode"], "{row}");
                }
                "decode" => {
                    let decoded = vocabulary.decode(&golden::ids(&row["ids"]));
                    assert_eq!(Value::from(decoded), row["decode"]["output"], "{row}");
                }
                other => panic!("unknown kind of row `{other}`"),
            }
        }
        assert_eq!(rows.len(), 209);
    }

    #[test]
    fn a_file_lists_code_points_as_numbers_and_travels_with_the_vocabulary() {
        let file = b"104\n 233 \r\n104\n57349\n+33\n";
        let vocabulary = from_file(file).unwrap();
        assert_eq!(encoded(&vocabulary, "hé!x"), [3, 4, 5, 2]);
        assert_eq!(vocabulary.vocab_size(), 6);
        assert_eq!(vocabulary.file(), Some(&file[..]));
        assert_eq!(vocabulary.piece(4).as_deref(), Some("é"));
        assert_eq!(vocabulary.piece(6), None);
        let refused = |file: &[u8]| from_file(file).unwrap_err().to_string();
        insta::assert_snapshot!(refused(b"104\nx\n"), @"line 2: `x` is no code point: a decimal number, such as 233 for `é`");
        insta::assert_snapshot!(refused(b"1114112\n"), @"`partial_codepoint`: there is no code point 1114112: the last is 1114111");
    }

    #[test]
    fn code_points_that_no_text_has_keep_their_ids() {
        let vocabulary = here(vec![0xD800, 104], 0);
        assert_eq!(encoded(&vocabulary, "h"), [4]);
        assert_eq!(vocabulary.decode(&[3, 4, -1]), "\u{FFFD}h\u{E004}");
    }

    #[test]
    fn what_is_unknown_or_special_in_text_is_counted() {
        let counts = here(vec![104], 0).encode_into("h\0x\u{E004}\u{E005}", &mut Vec::new()).unwrap();
        assert_eq!(counts, EncodeCounts { unknown: 2, special_spellings: 3 });
    }

    proptest! {
        #[test]
        fn text_of_listed_characters_comes_back(text in any::<String>()) {
            prop_assume!(!text.contains('\u{E005}'));
            let vocabulary = here(text.chars().map(u32::from).collect(), 0);
            prop_assert_eq!(vocabulary.decode(&encoded(&vocabulary, &text)), text);
        }
    }
}

//! Words looked up in a list: SeqIO's `UnigramVocabulary`.
//!
//! ```text
//! unigram = ["this", "is"]        id   0 PAD   1 "this"   2 "is"   3 UNK
//! "this is" -> [3]                the whole text is one word
//! "this is" -> [1, 2]             split_on_space = true
//! [1, 0, 2] -> "this PAD is"
//! ```

use crate::example::EncodeCounts;
use crate::vocabulary::lines::{by_text, lines};
use crate::vocabulary::sentinels::Sentinels;
use crate::vocabulary::special_ids::readable_ids;
use crate::vocabulary::{Listed, SpecialIds, Vocabulary, VocabularyError};

/// The word of id 0, which fills rows. Text may hold it.
const PAD: &str = "PAD";
/// What the last id, that of words not listed, decodes to.
const UNK: &str = "UNK";

/// Each listed word is one id, and so are all other words.
#[derive(Clone, Debug)]
pub struct UnigramVocabulary {
    file: Option<Vec<u8>>,
    /// The word of each id: `PAD`, those listed, `UNK`.
    words: Vec<String>,
    /// The ids in the order of their words.
    sorted: Vec<u32>,
    split_on_space: bool,
    sentinels: Sentinels,
}

impl UnigramVocabulary {
    /// The listed words in their order, from id 1 on. `file` holds the bytes of the list's file, if it is in one.
    pub fn new(
        listed: &Listed<String>,
        file: Option<Vec<u8>>,
        split_on_space: bool,
        extra_ids: usize,
        reverse_extra_ids: bool,
    ) -> Result<Self, VocabularyError> {
        let (listed, unit): (Vec<&str>, _) = match listed {
            Listed::Here(listed) => (listed.iter().map(String::as_str).collect(), "word"),
            Listed::File(_) => (lines(file.as_deref().unwrap_or_default())?, "line"),
        };
        let sentinels = Sentinels::new(listed.len() + 2, extra_ids, reverse_extra_ids)?;
        let place = |number: u32| match number {
            0 => "id 0 of every list".to_owned(),
            _ => format!("{unit} {number}"),
        };
        let known = by_text(std::iter::once(PAD).chain(listed.iter().copied()), 0, place)?;
        if let Some(number) = known.get(UNK) {
            let problem =
                format!("{} is `{UNK}`, which stands for all words not listed: remove it", place(*number));
            return Err(VocabularyError::Malformed { problem });
        }
        let sorted = known.into_values().collect();
        let words = [PAD].into_iter().chain(listed).chain([UNK]).map(str::to_owned).collect();
        Ok(Self { file, words, sorted, split_on_space, sentinels })
    }

    fn unk(&self) -> i32 {
        self.words.len() as i32 - 1
    }

    fn id(&self, word: &str) -> i32 {
        let found = self.sorted.binary_search_by(|id| self.words[*id as usize].as_str().cmp(word));
        found.map_or(self.unk(), |place| self.sorted[place] as i32)
    }
}

impl Vocabulary for UnigramVocabulary {
    fn kind(&self) -> &'static str {
        "unigram"
    }

    fn vocab_size(&self) -> usize {
        self.sentinels.end()
    }

    fn extra_ids(&self) -> usize {
        self.sentinels.len()
    }

    fn special_ids(&self) -> SpecialIds {
        SpecialIds { pad: 0, eos: None, bos: None, unk: Some(self.unk()) }
    }

    fn encode_into(&self, text: &str, ids: &mut Vec<i32>) -> Result<EncodeCounts, VocabularyError> {
        let mut counts = EncodeCounts::default();
        let mut add = |word: &str| {
            let id = self.id(word);
            counts.unknown += u64::from(id == self.unk());
            counts.special_spellings += u64::from(word == PAD || word == UNK);
            ids.push(id);
        };
        match self.split_on_space {
            true => text.split(' ').for_each(add),
            false => add(text),
        }
        Ok(counts)
    }

    fn decode(&self, ids: &[i32]) -> String {
        let mut text = String::new();
        for (place, id) in readable_ids(ids, self.vocab_size(), Some(self.unk()), None).enumerate() {
            if place > 0 {
                text.push(' ');
            }
            text.push_str(&self.piece(id).unwrap_or_else(|| UNK.to_owned()));
        }
        text
    }

    fn piece(&self, id: i32) -> Option<String> {
        self.words.get(usize::try_from(id).ok()?).cloned().or_else(|| self.sentinels.piece(id))
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

    fn here(words: &[&str], split_on_space: bool) -> Result<UnigramVocabulary, VocabularyError> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        UnigramVocabulary::new(&words.into(), None, split_on_space, 0, true)
    }

    fn encoded(vocabulary: &UnigramVocabulary, text: &str) -> Vec<i32> {
        let mut ids = Vec::new();
        vocabulary.encode_into(text, &mut ids).unwrap();
        ids
    }

    #[test]
    fn every_row_that_seqio_gave_is_ours() {
        let mut texts = 0;
        for row in golden::rows("seqio/vocab_other.jsonl").iter().filter(|row| row["vocab"] == "unigram") {
            let words: Vec<&str> =
                row["unigrams"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
            let vocabulary = here(&words, row["split_on_space"].as_bool().unwrap()).unwrap();
            let special = vocabulary.special_ids();
            assert_eq!(vocabulary.vocab_size() as u64, row["vocab_size"]);
            assert_eq!(i64::from(special.pad), row["pad_id"]);
            assert_eq!(special.eos.map(i64::from), row["eos_id"].as_i64());
            assert_eq!(special.unk.map(i64::from), row["unk_id"].as_i64());
            for case in row["encode"].as_array().unwrap() {
                assert_eq!(
                    encoded(&vocabulary, case["text"].as_str().unwrap()),
                    golden::ids(&case["ids"]),
                    "{case}"
                );
                texts += 1;
            }
            for case in row["decode"].as_array().unwrap() {
                let decoded = vocabulary.decode(&golden::ids(&case["ids"]));
                assert_eq!(Value::from(decoded), case["decode"]["output"], "{case}");
                texts += 1;
            }
        }
        assert_eq!(texts, 34);
    }

    #[test]
    fn a_list_that_would_give_a_word_two_ids_is_refused() {
        let refused = |words: &[&str]| here(words, true).unwrap_err().to_string();
        insta::assert_snapshot!(refused(&["a", "b", "a"]), @"word 3 is `a`, as word 1 is: an entry has one id");
        insta::assert_snapshot!(refused(&["a", "PAD"]), @"word 2 is `PAD`, as id 0 of every list is: an entry has one id");
        insta::assert_snapshot!(refused(&["UNK"]), @"word 1 is `UNK`, which stands for all words not listed: remove it");
    }

    #[test]
    fn a_file_lists_a_word_a_line() {
        let file = b"two words\nb\r\n";
        let vocabulary =
            UnigramVocabulary::new(&"words.txt".into(), Some(file.to_vec()), false, 2, true).unwrap();
        assert_eq!(encoded(&vocabulary, "two words"), [1]);
        assert_eq!(vocabulary.file(), Some(&file[..]));
        assert_eq!((vocabulary.vocab_size(), vocabulary.sentinel_id()), (6, 5));
        assert_eq!(vocabulary.decode(&[2, 5, 6, -1, i32::MIN]), "b <extra_id_0> UNK UNK UNK");
    }

    #[test]
    fn unknown_and_special_words_are_counted() {
        let counts = here(&["a"], true).unwrap().encode_into("a b PAD UNK", &mut Vec::new()).unwrap();
        assert_eq!(counts, EncodeCounts { unknown: 2, special_spellings: 2 });
    }

    proptest! {
        #[test]
        fn text_of_listed_words_comes_back(words in prop::collection::btree_set("[a-zé]{0,3}", 1..20)) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let text = words.join(" ");
            let vocabulary = here(&words, true).unwrap();
            prop_assert_eq!(vocabulary.decode(&encoded(&vocabulary, &text)), text);
        }
    }
}

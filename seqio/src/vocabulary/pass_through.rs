//! Ids that are already there: SeqIO's `PassThroughVocabulary`.
//!
//! ```text
//! pass_through = 10, eos = 1
//! decode [3, 1, 4] -> "3 1"        nothing after the first EOS is read
//! ```

use crate::example::EncodeCounts;
use crate::vocabulary::sentinels::Sentinels;
use crate::vocabulary::special_ids::readable_ids;
use crate::vocabulary::{SpecialIds, Vocabulary, VocabularyError};

/// Promises a size for a column that holds ids. It has no text: encoding is refused, decoding shows the numbers.
#[derive(Clone, Debug)]
pub struct PassThroughVocabulary {
    sentinels: Sentinels,
    special: SpecialIds,
}

impl PassThroughVocabulary {
    /// Ids `0..size`, then the extra ids.
    pub fn new(
        size: usize,
        extra_ids: usize,
        reverse_extra_ids: bool,
        special: SpecialIds,
    ) -> Result<Self, VocabularyError> {
        let sentinels = Sentinels::new(size, extra_ids, reverse_extra_ids)?;
        Ok(Self { sentinels, special })
    }
}

impl Vocabulary for PassThroughVocabulary {
    fn kind(&self) -> &'static str {
        "pass_through"
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

    fn encode_into(&self, _text: &str, _ids: &mut Vec<i32>) -> Result<EncodeCounts, VocabularyError> {
        Err(VocabularyError::Encode {
            problem: "a `pass_through` vocabulary has no text: the column must already hold ids".to_owned(),
        })
    }

    fn decode(&self, ids: &[i32]) -> String {
        let shown: Vec<String> = readable_ids(ids, self.vocab_size(), self.special.unk, self.special.eos)
            .map(|id| id.to_string())
            .collect();
        shown.join(" ")
    }

    fn piece(&self, id: i32) -> Option<String> {
        let known = usize::try_from(id).is_ok_and(|id| id < self.vocab_size());
        known.then(|| self.sentinels.piece(id).unwrap_or_else(|| id.to_string()))
    }

    fn file(&self) -> Option<&[u8]> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ten() -> PassThroughVocabulary {
        let special = SpecialIds { pad: 0, eos: Some(1), bos: None, unk: None };
        PassThroughVocabulary::new(10, 0, true, special).unwrap()
    }

    #[test]
    fn ids_are_shown_as_seqio_returns_them() {
        // The rows of SeqIO's own `PassThroughVocabulary(10, eos_id=1)`.
        for (ids, shown) in [(&[][..], ""), (&[3, 4, 5], "3 4 5"), (&[3, 1, 4], "3 1"), (&[100, 3], "100 3")]
        {
            assert_eq!(ten().decode(ids), shown);
        }
    }

    #[test]
    fn text_is_refused_in_words() {
        let error = ten().encode_into("3 4", &mut Vec::new()).unwrap_err();
        insta::assert_snapshot!(error, @"cannot encode: a `pass_through` vocabulary has no text: the column must already hold ids");
    }

    #[test]
    fn extra_ids_come_after_the_size() {
        let special = SpecialIds { pad: 0, eos: None, bos: None, unk: None };
        let vocabulary = PassThroughVocabulary::new(10, 2, true, special).unwrap();
        assert_eq!((vocabulary.vocab_size(), vocabulary.sentinel_id()), (12, 11));
        assert_eq!(vocabulary.piece(11).as_deref(), Some("<extra_id_0>"));
        assert_eq!(vocabulary.piece(9).as_deref(), Some("9"));
        assert_eq!(vocabulary.piece(12), None);
    }
}

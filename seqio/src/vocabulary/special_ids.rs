//! Ids with a meaning of their own: naming them in a definition, and what decoding does with them.
//!
//! ```text
//! eos = "</s>"     the id of the piece spelled so
//! eos = 2          the id itself
//! ```

use std::cell::LazyCell;
use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::example::EncodeCounts;
use crate::text::nearest;
use crate::vocabulary::{SharedVocabulary, SpecialIds, SpecialPlaces, Vocabulary, VocabularyError};

/// A special id as a definition names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-type" = "text of a piece, or an id"))]
#[serde(untagged, expecting = "expected the text of a piece, or its id")]
pub enum SpecialId {
    /// By number.
    Id(i32),
    /// By the text of its piece.
    Piece(String),
}

impl From<i32> for SpecialId {
    fn from(id: i32) -> Self {
        Self::Id(id)
    }
}

impl From<&str> for SpecialId {
    fn from(piece: &str) -> Self {
        Self::Piece(piece.to_owned())
    }
}

/// The special ids a definition names; what it leaves out is the vocabulary's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NamedIds {
    pub(crate) pad: Option<SpecialId>,
    pub(crate) eos: Option<SpecialId>,
    pub(crate) bos: Option<SpecialId>,
    pub(crate) unk: Option<SpecialId>,
}

impl NamedIds {
    /// Each setting with its name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, &SpecialId)> {
        [("pad", &self.pad), ("eos", &self.eos), ("bos", &self.bos), ("unk", &self.unk)]
            .into_iter()
            .filter_map(|(setting, id)| Some((setting, id.as_ref()?)))
    }

    /// `own` with what is named here in its place. `size` bounds ids; `pieces` gives all spellings with their ids, and is
    /// asked only if a piece is named.
    pub(crate) fn resolve(
        &self,
        own: SpecialIds,
        size: usize,
        pieces: impl Fn() -> Vec<(String, i32)>,
    ) -> Result<SpecialIds, VocabularyError> {
        let pieces = LazyCell::new(pieces);
        let mut special = own;
        for (setting, id) in self.iter() {
            let id = match id {
                SpecialId::Id(id) if usize::try_from(*id).is_ok_and(|id| id < size) => *id,
                SpecialId::Id(id) => {
                    let problem =
                        format!("there is no id {id}; the vocabulary has ids 0 to {}", size as i64 - 1);
                    return Err(VocabularyError::Setting { setting, problem });
                }
                SpecialId::Piece(text) => match pieces.iter().find(|(piece, _)| piece == text) {
                    Some((_, id)) => *id,
                    None => {
                        let hint = nearest(text, pieces.iter().map(|(piece, _)| piece.as_str()))
                            .map_or(String::new(), |near| format!("; did you mean `{near}`?"));
                        let problem = format!("the vocabulary has no piece `{text}`{hint}");
                        return Err(VocabularyError::Setting { setting, problem });
                    }
                },
            };
            match setting {
                "pad" => special.pad = id,
                "eos" => special.eos = Some(id),
                "bos" => special.bos = Some(id),
                _ => special.unk = Some(id),
            }
        }
        Ok(special)
    }
}

/// The pieces that a vocabulary of `size` ids can spell, with their ids.
pub(crate) fn spelled_pieces(size: usize, piece: impl Fn(i32) -> Option<String>) -> Vec<(String, i32)> {
    (0..size as i32).filter_map(|id| Some((piece(id)?, id))).collect()
}

/// What SeqIO reads of `ids` before it decodes: ids at or above `size` as UNK if there is one, and nothing after
/// the first EOS, which is itself read.
pub(crate) fn readable_ids(
    ids: &[i32],
    size: usize,
    unk: Option<i32>,
    eos: Option<i32>,
) -> impl Iterator<Item = i32> {
    let known = move |id: i32| match unk {
        Some(unk) if i64::from(id) >= size as i64 => unk,
        _ => id,
    };
    let mut ended = false;
    ids.iter().map(move |id| known(*id)).take_while(move |id| {
        let read = !ended;
        ended |= Some(*id) == eos;
        read
    })
}

/// A vocabulary whose special ids the definition changed.
#[derive(Debug)]
pub(crate) struct WithSpecialIds {
    inner: SharedVocabulary,
    special: SpecialIds,
}

impl WithSpecialIds {
    /// `inner`, or `inner` under other special ids if `named` names any.
    pub(crate) fn wrap(
        inner: SharedVocabulary,
        named: &NamedIds,
    ) -> Result<SharedVocabulary, VocabularyError> {
        if named.iter().next().is_none() {
            return Ok(inner);
        }
        let size = inner.vocab_size();
        let pieces = || spelled_pieces(size, |id| inner.piece(id));
        let special = named.resolve(inner.special_ids(), size, pieces)?;
        Ok(std::sync::Arc::new(Self { inner, special }))
    }
}

impl Vocabulary for WithSpecialIds {
    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    fn vocab_size(&self) -> usize {
        self.inner.vocab_size()
    }

    fn extra_ids(&self) -> usize {
        self.inner.extra_ids()
    }

    fn special_ids(&self) -> SpecialIds {
        self.special
    }

    fn encode_into(&self, text: &str, ids: &mut Vec<i32>) -> Result<EncodeCounts, VocabularyError> {
        let start = ids.len();
        let mut counts = self.inner.encode_into(text, ids)?;
        if self.special.unk != self.inner.special_ids().unk {
            counts.unknown = ids[start..].iter().filter(|id| Some(**id) == self.special.unk).count() as u64;
        }
        Ok(counts)
    }

    fn has_offsets(&self) -> bool {
        self.inner.has_offsets()
    }

    fn encode_with_offsets_into(
        &self,
        text: &str,
        special: SpecialPlaces<'_>,
        ids: &mut Vec<i32>,
        starts: &mut Vec<usize>,
    ) -> Result<EncodeCounts, VocabularyError> {
        let start = ids.len();
        let mut counts = self.inner.encode_with_offsets_into(text, special, ids, starts)?;
        if self.special.unk != self.inner.special_ids().unk {
            counts.unknown = self.special.count_unknown(&ids[start..]);
        }
        Ok(counts)
    }

    fn special_places(&self, text: &str) -> Result<Vec<Range<usize>>, VocabularyError> {
        self.inner.special_places(text)
    }

    fn decode(&self, ids: &[i32]) -> String {
        let SpecialIds { unk, eos, .. } = self.special;
        let readable: Vec<i32> = readable_ids(ids, self.vocab_size(), unk, eos).collect();
        self.inner.decode(&readable)
    }

    fn piece(&self, id: i32) -> Option<String> {
        self.inner.piece(id)
    }

    fn file(&self) -> Option<&[u8]> {
        self.inner.file()
    }

    fn sentinel_id(&self) -> i32 {
        self.inner.sentinel_id()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::ByteVocabulary;
    use std::sync::Arc;

    #[test]
    fn reading_stops_behind_the_first_eos_and_maps_large_ids_to_unk() {
        let read = |ids: &[i32]| readable_ids(ids, 10, Some(2), Some(1)).collect::<Vec<_>>();
        assert_eq!(read(&[5, 10, i32::MAX, -1, 1, 7, 1]), [5, 2, 2, -1, 1]);
        assert_eq!(read(&[]), [0; 0]);
        assert_eq!(readable_ids(&[5, 10], 10, None, None).collect::<Vec<_>>(), [5, 10]);
    }

    #[test]
    fn an_eos_that_is_the_unk_of_large_ids_ends_the_text() {
        // SeqIO maps first and cuts then.
        assert_eq!(readable_ids(&[5, 99, 6], 10, Some(1), Some(1)).collect::<Vec<_>>(), [5, 1]);
    }

    #[test]
    fn a_definition_can_name_special_ids_by_piece_or_number() {
        let bytes: SharedVocabulary = Arc::new(ByteVocabulary::new(0, true).unwrap());
        let named = NamedIds { eos: Some("z".into()), bos: Some(7.into()), ..NamedIds::default() };
        let vocabulary = WithSpecialIds::wrap(bytes.clone(), &named).unwrap();
        assert_eq!(
            vocabulary.special_ids(),
            SpecialIds { pad: 0, eos: Some(125), bos: Some(7), unk: Some(2) }
        );
        let mut ids = Vec::new();
        vocabulary.encode_into("azb", &mut ids).unwrap();
        assert_eq!(vocabulary.decode(&ids), "az");

        let wrong = |eos: SpecialId| {
            let named = NamedIds { eos: Some(eos), ..NamedIds::default() };
            WithSpecialIds::wrap(bytes.clone(), &named).unwrap_err().to_string()
        };
        insta::assert_snapshot!(wrong("<pat>".into()), @"`eos`: the vocabulary has no piece `<pat>`; did you mean `<pad>`?");
        insta::assert_snapshot!(wrong(300.into()), @"`eos`: there is no id 300; the vocabulary has ids 0 to 258");
    }
}

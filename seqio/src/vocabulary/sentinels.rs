//! Extra ids (T5's sentinels) of the vocabularies that keep them after their own ids.
//!
//! ```text
//! size 50257, extra_ids = 2     reversed (default)          not reversed
//! id 50257                      <extra_id_1>                <extra_id_0>
//! id 50258                      <extra_id_0>                <extra_id_1>
//! T5's first sentinel           50258                       50258
//! ```

use crate::vocabulary::VocabularyError;

/// Far above any real vocabulary, and small enough that no sum overflows an id.
const MAX_SIZE: usize = 1 << 30;

/// The extra ids of one vocabulary: `len` ids from `first` on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sentinels {
    first: usize,
    len: usize,
    reversed: bool,
}

impl Sentinels {
    /// `extra_ids` ids after the `base_size` ids of the vocabulary itself.
    pub(crate) fn new(base_size: usize, extra_ids: usize, reversed: bool) -> Result<Self, VocabularyError> {
        for (setting, size) in [("pass_through", base_size), ("extra_ids", extra_ids)] {
            if size > MAX_SIZE / 2 {
                let problem = format!("a vocabulary of {size} ids does not fit; at most {} do", MAX_SIZE / 2);
                return Err(VocabularyError::Setting { setting, problem });
            }
        }
        Ok(Self { first: base_size, len: extra_ids, reversed })
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The size of the vocabulary with its extra ids.
    pub(crate) fn end(&self) -> usize {
        self.first + self.len
    }

    /// The spelling of an id, if it is an extra id.
    pub(crate) fn piece(&self, id: i32) -> Option<String> {
        let place = usize::try_from(id).ok()?.checked_sub(self.first).filter(|place| *place < self.len)?;
        Some(spelling(if self.reversed { self.len - 1 - place } else { place }))
    }

    /// Every id with its spelling, ids rising.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (i32, String)> {
        (self.first..self.end())
            .map(|id| i32::try_from(id).expect("sizes are at most 2^30"))
            .filter_map(|id| Some((id, self.piece(id)?)))
    }
}

/// How the k-th extra id is written in text.
pub(crate) fn spelling(k: usize) -> String {
    format!("<extra_id_{k}>")
}

/// The number in the spelling of an extra id, if it is one.
pub(crate) fn number(text: &str) -> Option<usize> {
    let k = text.strip_prefix("<extra_id_")?.strip_suffix('>')?.parse().ok()?;
    (spelling(k) == text).then_some(k)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sentinel_is_the_last_id_unless_they_are_not_reversed() {
        let pieces = |reversed| Sentinels::new(10, 3, reversed).unwrap().iter().collect::<Vec<_>>();
        let spelled = |rows: [(i32, usize); 3]| rows.map(|(id, k)| (id, spelling(k))).to_vec();
        assert_eq!(pieces(true), spelled([(10, 2), (11, 1), (12, 0)]));
        assert_eq!(pieces(false), spelled([(10, 0), (11, 1), (12, 2)]));
    }

    #[test]
    fn only_the_canonical_spelling_has_a_number() {
        assert_eq!(number("<extra_id_17>"), Some(17));
        for other in ["<extra_id_>", "<extra_id_01>", "<extra_id_+1>", "extra_id_1", "<extra_id_1> "] {
            assert_eq!(number(other), None, "{other}");
        }
    }

    #[test]
    fn sizes_that_no_id_can_hold_are_refused() {
        assert!(Sentinels::new(usize::MAX, 0, true).is_err());
        assert!(Sentinels::new(10, usize::MAX, true).is_err());
    }
}

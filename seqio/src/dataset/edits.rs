//! The steps below the cache boundary, applied to one feature's sequences as they are read.
//!
//! ```text
//! edits [Append 1, Trim 4]:   stored [5, 6, 7]    ->  [5, 6, 7, 1]
//!                             stored [5, 6, 7, 8] ->  [5, 6, 7, 8]
//! ```

use crate::dataset::{ExampleStore, StoreError};
use crate::preprocess::TokenEdit;

/// The edits of one feature: lengths are known without reading ids, and any stretch of the result can be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SequenceEdits {
    edits: Vec<TokenEdit>,
}

impl SequenceEdits {
    /// Edits to be made in this order.
    pub fn new(edits: Vec<TokenEdit>) -> Self {
        Self { edits }
    }

    /// Length after the edits of a sequence of `stored` ids.
    pub fn edited_length(&self, stored: u32) -> u32 {
        self.edits.iter().fold(stored, |length, edit| edit_length(length, *edit))
    }

    /// Turns stored lengths into lengths after the edits.
    pub fn edit_lengths(&self, lengths: &mut [u32]) {
        for edit in &self.edits {
            lengths.iter_mut().for_each(|length| *length = edit_length(*length, *edit));
        }
    }

    /// Writes the ids `from..from + out.len()` of the edited sequence to `out`. The range lies inside the sequence.
    pub fn read(
        &self,
        store: &dyn ExampleStore,
        feature: usize,
        example: u64,
        from: usize,
        out: &mut [i32],
    ) -> Result<(), StoreError> {
        let appends =
            self.edits.iter().any(|edit| matches!(edit, TokenEdit::Append { .. } | TokenEdit::RepeatLast));
        if !appends {
            return store.read_tokens(feature, example, from, out);
        }
        let mut stored = [0];
        store.lengths(feature, &[example], &mut stored);
        let kept = self.kept(stored[0]);
        let (head, tail) = out.split_at_mut(kept.saturating_sub(from).min(out.len()));
        if !head.is_empty() {
            store.read_tokens(feature, example, from, head)?;
        }
        if !tail.is_empty() {
            let skipped = from.saturating_sub(kept);
            let last = self.last_kept(store, (feature, example), kept)?;
            tail.iter_mut().zip(self.appended(stored[0], last).skip(skipped)).for_each(|(out, id)| *out = id);
        }
        Ok(())
    }

    /// How many of `stored` ids are left: an edited sequence is a head of the stored one and then appended ids.
    fn kept(&self, stored: u32) -> usize {
        self.edits.iter().fold(stored as usize, |kept, edit| match edit {
            TokenEdit::Trim { max_length } => kept.min(*max_length),
            TokenEdit::Append { .. } | TokenEdit::RepeatLast => kept,
        })
    }

    /// The last id that is left of the stored ones, if any edit needs it; 0 of none.
    fn last_kept(
        &self,
        store: &dyn ExampleStore,
        (feature, example): (usize, u64),
        kept: usize,
    ) -> Result<i32, StoreError> {
        let mut last = [0];
        if kept > 0 && self.edits.contains(&TokenEdit::RepeatLast) {
            store.read_tokens(feature, example, kept - 1, &mut last)?;
        }
        Ok(last[0])
    }

    /// The appended ids that are still there after all trims: an id stands behind all that was there when it was
    /// appended, and a later trim to no more than that takes it off. `last` is the last of the stored ids that stay.
    fn appended(&self, stored: u32, last: i32) -> impl Iterator<Item = i32> {
        let (mut length, mut last) = (stored, last);
        self.edits.iter().enumerate().filter_map(move |(index, edit)| {
            let before = length as usize;
            length = edit_length(length, *edit);
            let id = match edit {
                TokenEdit::Append { id } => *id,
                TokenEdit::RepeatLast => last,
                TokenEdit::Trim { .. } => return None,
            };
            let trims =
                |later: &TokenEdit| matches!(later, TokenEdit::Trim { max_length } if *max_length <= before);
            let stays = !self.edits[index + 1..].iter().any(trims);
            if stays {
                last = id;
            }
            stays.then_some(id)
        })
    }
}

fn edit_length(length: u32, edit: TokenEdit) -> u32 {
    match edit {
        TokenEdit::Trim { max_length } => length.min(u32::try_from(max_length).unwrap_or(u32::MAX)),
        TokenEdit::Append { .. } | TokenEdit::RepeatLast => length.saturating_add(1),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::dataset::InMemoryExamples;

    fn edit() -> impl Strategy<Value = TokenEdit> {
        prop_oneof![
            (0usize..12).prop_map(|max_length| TokenEdit::Trim { max_length }),
            (100i32..999).prop_map(|id| TokenEdit::Append { id }),
            Just(TokenEdit::RepeatLast),
        ]
    }

    fn read_all(edits: &SequenceEdits, ids: Vec<i32>) -> Vec<i32> {
        let mut out = vec![0; edits.edited_length(ids.len() as u32) as usize];
        let store = InMemoryExamples::of([("targets", vec![ids])]);
        edits.read(&store, 0, 0, 0, &mut out).unwrap();
        out
    }

    #[test]
    fn an_appended_id_may_be_trimmed_off_again() {
        let edits = SequenceEdits::new(vec![TokenEdit::Append { id: 1 }, TokenEdit::Trim { max_length: 4 }]);
        assert_eq!(read_all(&edits, vec![5, 6, 7]), [5, 6, 7, 1]);
        assert_eq!(read_all(&edits, vec![5, 6, 7, 8]), [5, 6, 7, 8]);
        assert_eq!(read_all(&edits, vec![]), [1]);
    }

    #[test]
    fn an_id_appended_after_trimming_stays() {
        let edits = SequenceEdits::new(vec![TokenEdit::Trim { max_length: 3 }, TokenEdit::Append { id: 1 }]);
        assert_eq!(read_all(&edits, vec![5, 6, 7, 8, 9]), [5, 6, 7, 1]);
    }

    proptest! {
        #[test]
        fn equals_editing_the_whole_sequence(
            ids in proptest::collection::vec(0i32..99, 0..15),
            edits in proptest::collection::vec(edit(), 0..6),
            cut in (0.0..1.0f64, 0.0..1.0f64),
        ) {
            let mut expected = ids.clone();
            for edit in &edits {
                match *edit {
                    TokenEdit::Trim { max_length } => expected.truncate(max_length),
                    TokenEdit::Append { id } => expected.push(id),
                    TokenEdit::RepeatLast => expected.push(expected.last().copied().unwrap_or(0)),
                }
            }
            let edits = SequenceEdits::new(edits);
            let mut lengths = [ids.len() as u32];
            edits.edit_lengths(&mut lengths);
            prop_assert_eq!(lengths[0] as usize, expected.len());

            let from = (expected.len() as f64 * cut.0) as usize;
            let to = from + ((expected.len() - from) as f64 * cut.1) as usize;
            let store = InMemoryExamples::of([("targets", vec![ids])]);
            let mut out = vec![-1; to - from];
            edits.read(&store, 0, 0, from, &mut out).unwrap();
            prop_assert_eq!(&out, &expected[from..to]);
        }
    }
}

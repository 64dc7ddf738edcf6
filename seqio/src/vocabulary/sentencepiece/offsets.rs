//! Where the tokens of a text begin in it.
//!
//! ```text
//! "Hello  world"   normal form "▁Hello▁world"   ->   ▁Hello at 0, ▁world at 5
//! ```
//!
//! Pieces lie one behind the other in the normal form, which knows where its bytes come from. An unknown id does not
//! say how much it stands for: there the next piece is looked for.

use std::borrow::Cow;

use super::pieces::{Kind, Piece, SPACE};
use super::{SentencePiece, utf8};
use crate::example::EncodeCounts;
use crate::vocabulary::VocabularyError;
use crate::vocabulary::guard::Guard;

/// A model that finds control pieces where a guard wrote them.
#[derive(Debug)]
pub(super) struct Guarded {
    pub(super) guard: Guard,
    pub(super) model: SentencePiece,
}

impl SentencePiece {
    /// Opened when it is first asked for.
    pub(super) fn guarded(&self) -> Result<&Guarded, VocabularyError> {
        if let Some(guarded) = self.guarded.get() {
            return Ok(guarded);
        }
        let control = self.pieces.of(&[Kind::Control]).map(|(_, piece)| piece.text.clone().into_string());
        let guard = Guard::new(control);
        let model = Self::open_with(self.file.clone(), &self.options, Some(&guard))?;
        Ok(self.guarded.get_or_init(|| Box::new(Guarded { guard, model })))
    }

    /// Appends the ids of `text`, which `guard` has written if there is one, and where each begins.
    pub(super) fn encode_with_starts(
        &self,
        text: &str,
        guard: Option<&Guard>,
        ids: &mut Vec<i32>,
        starts: &mut Vec<usize>,
    ) -> Result<EncodeCounts, VocabularyError> {
        let first = ids.len();
        let mut origins: Vec<usize> = Vec::with_capacity(text.len() + text.len() / 2);
        let mut normal = Vec::new();
        let counts = self.encode(text, ids, &mut origins, |seen| normal.extend_from_slice(seen))?;
        let origin = |at: usize| text.floor_char_boundary(origins.get(at).copied().unwrap_or(text.len()));
        self.places(&normal, &ids[first..], guard, |at| starts.push(origin(at)));
        Ok(counts)
    }

    /// Tells where in a normal form its pieces begin.
    fn places(&self, normal: &[u8], ids: &[i32], guard: Option<&Guard>, mut begins: impl FnMut(usize)) {
        let (mut at, mut is_lost) = (0, false);
        for id in ids {
            let piece = usize::try_from(*id).ok().and_then(|id| self.pieces.list.get(id));
            let rest = normal.get(at..).unwrap_or_default();
            let found = piece.and_then(|piece| find(piece, rest, is_lost, guard));
            is_lost = found.is_none();
            let (skipped, length) =
                found.unwrap_or((0, rest.first().map_or(1, |lead| utf8::lead_len(*lead))));
            begins(at + skipped);
            at += skipped + length;
        }
    }
}

/// How far into `rest` a piece begins, and its bytes there. Nothing for a piece that does not spell what it stands for.
fn find(piece: &Piece, rest: &[u8], is_lost: bool, guard: Option<&Guard>) -> Option<(usize, usize)> {
    let spelled = match (piece.kind, guard) {
        (Kind::Byte, _) => return Some((0, 1)),
        (Kind::Unknown, _) => return None,
        (Kind::Control, Some(guard)) => Cow::Owned(guard.marker().spell(&piece.text)),
        _ => Cow::Borrowed(&*piece.text),
    };
    let found = |spelled: &str| match is_lost {
        false => rest.starts_with(spelled.as_bytes()).then_some((0, spelled.len())),
        true => memchr::memmem::find(rest, spelled.as_bytes()).map(|skipped| (skipped, spelled.len())),
    };
    // A user-defined piece may be spelled with spaces, which the normal form has by another character.
    found(&spelled).or_else(|| found(&spelled.replace(' ', SPACE)))
}

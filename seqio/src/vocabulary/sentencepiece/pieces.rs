//! The checked vocabulary of a model: text, score and kind of every id.

use std::collections::BTreeMap;

use crate::vocabulary::VocabularyError;
use crate::vocabulary::sentencepiece::proto::{ModelProto, PieceProto};
use crate::vocabulary::sentencepiece::{Arithmetic, SentencePieceOptions, malformed};

/// The most ids a vocabulary may have.
const MAX_PIECES: usize = 1 << 24;
/// SentencePiece's own limit on a piece, in bytes.
const MAX_PIECE_BYTES: usize = 8_000;

/// U+2581, which stands for a space inside pieces.
pub(super) const SPACE: &str = "\u{2581}";

/// What a piece is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Found in text by its score.
    Normal,
    /// Stands for text that no piece spells.
    Unknown,
    /// Never comes out of text, decodes to nothing.
    Control,
    /// Found in text before anything else.
    UserDefined,
    /// Helps to merge, but is no result.
    Unused,
    /// One byte of a character that no piece spells.
    Byte,
}

/// One id.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) text: Box<str>,
    pub(super) score: f32,
    pub(super) kind: Kind,
}

/// All ids, and the ones with a meaning of their own.
#[derive(Debug)]
pub(super) struct Pieces {
    pub(super) list: Vec<Piece>,
    pub(super) unknown: Option<u32>,
    /// The ids of the 256 bytes, if unknown characters are spelled by their bytes.
    pub(super) bytes: Option<Box<[u32; 256]>>,
}

impl Pieces {
    /// Checks the pieces as SentencePiece does when it opens a file, and appends the extra ids.
    ///
    /// `one_namespace`: no control, unknown or byte piece may be spelled like one that text can become.
    pub(super) fn open(
        model: &mut ModelProto,
        options: &SentencePieceOptions,
        one_namespace: bool,
    ) -> Result<Self, VocabularyError> {
        let byte_fallback = model.trainer.as_ref().and_then(|trainer| trainer.byte_fallback).unwrap_or(false);
        let in_file = std::mem::take(&mut model.pieces);
        if in_file.is_empty() {
            return Err(malformed("the SentencePiece model has no pieces: is this a `.model` file?"));
        }
        if in_file.len().saturating_add(options.extra_ids) > MAX_PIECES {
            return Err(VocabularyError::Setting {
                setting: "extra_ids",
                problem: format!(
                    "{} pieces and {} extra ids are more than the {MAX_PIECES} ids that a vocabulary may have",
                    in_file.len(),
                    options.extra_ids
                ),
            });
        }
        let mut list = Vec::with_capacity(in_file.len() + options.extra_ids);
        for (id, piece) in in_file.into_iter().enumerate() {
            list.push(Piece::open(id, piece, byte_fallback)?);
        }
        let base = list.len();
        for place in 0..options.extra_ids {
            let number = if options.reverse_extra_ids { options.extra_ids - 1 - place } else { place };
            let text = format!("{SPACE}<extra_id_{number}>").into_boxed_str();
            list.push(Piece { text, score: 0.0, kind: Kind::UserDefined });
        }
        let mut pieces = Self { list, unknown: None, bytes: None };
        pieces.check_spellings(base, one_namespace)?;
        pieces.find_unknown(byte_fallback, options.arithmetic)?;
        if byte_fallback {
            pieces.find_bytes()?;
        }
        Ok(pieces)
    }

    /// Ids and pieces of some kinds.
    pub(super) fn of(&self, kinds: &[Kind]) -> impl Iterator<Item = (u32, &Piece)> {
        (0..).zip(&self.list).filter(move |(_, piece)| kinds.contains(&piece.kind) && &*piece.text != "\0")
    }

    /// The id of a control piece.
    pub(super) fn control(&self, text: &[u8]) -> Option<u32> {
        self.of(&[Kind::Control]).find(|(_, piece)| piece.text.as_bytes() == text).map(|(id, _)| id)
    }

    /// No two pieces that text can become, and no two that it cannot, are spelled alike.
    fn check_spellings(&self, base: usize, one_namespace: bool) -> Result<(), VocabularyError> {
        let mut seen: BTreeMap<(bool, &str), u32> = BTreeMap::new();
        for (id, piece) in (0..).zip(&self.list) {
            let in_text = matches!(piece.kind, Kind::Normal | Kind::UserDefined | Kind::Unused);
            let Some(first) = seen.insert((in_text || one_namespace, &piece.text), id) else { continue };
            if id as usize >= base {
                return Err(VocabularyError::Setting {
                    setting: "extra_ids",
                    problem: format!(
                        "the model has `{}` already (id {first}); set `extra_ids` to what it lacks, or to 0",
                        piece.text
                    ),
                });
            }
            return Err(malformed(format!(
                "the SentencePiece model has the piece `{}` twice, as ids {first} and {id}",
                piece.text.escape_debug()
            )));
        }
        Ok(())
    }

    fn find_unknown(&mut self, byte_fallback: bool, arithmetic: Arithmetic) -> Result<(), VocabularyError> {
        let mut unknown = self.of(&[Kind::Unknown]).map(|(id, _)| id);
        let (first, second) = (unknown.next(), unknown.next());
        if let (Some(first), Some(second)) = (first, second) {
            return Err(malformed(format!(
                "the SentencePiece model has two unknown pieces, ids {first} and {second}"
            )));
        }
        if first.is_none() && (!byte_fallback || arithmetic == Arithmetic::V0_2_0) {
            return Err(malformed("the SentencePiece model has no unknown piece"));
        }
        drop(unknown);
        self.unknown = first;
        Ok(())
    }

    fn find_bytes(&mut self) -> Result<(), VocabularyError> {
        let mut ids = Box::new([u32::MAX; 256]);
        for (id, piece) in self.of(&[Kind::Byte]) {
            ids[usize::from(piece.byte().expect("byte pieces were checked when they were read"))] = id;
        }
        if let Some(missing) = ids.iter().position(|id| *id == u32::MAX) {
            return Err(malformed(format!(
                "the SentencePiece model spells unknown characters by bytes, but has no piece `<0x{missing:02X}>`"
            )));
        }
        self.bytes = Some(ids);
        Ok(())
    }
}

impl Piece {
    fn open(id: usize, piece: PieceProto, byte_fallback: bool) -> Result<Self, VocabularyError> {
        let wrong =
            |problem: String| Err(malformed(format!("piece {id} of the SentencePiece model {problem}")));
        let text = match String::from_utf8(piece.piece.unwrap_or_default()) {
            Ok(text) => text.into_boxed_str(),
            Err(_) => return wrong("is not UTF-8".to_owned()),
        };
        let mut kind = match piece.kind.unwrap_or(1) {
            1 => Kind::Normal,
            2 => Kind::Unknown,
            3 => Kind::Control,
            4 => Kind::UserDefined,
            5 => Kind::Unused,
            6 => Kind::Byte,
            other => return wrong(format!("has the unknown type {other}")),
        };
        if &*text == "\0" && byte_fallback {
            // Converters from other formats put it beside `<0x00>`; SentencePiece leaves it out too.
            kind = Kind::Unused;
        }
        let score = piece.score.unwrap_or(0.0);
        if text.is_empty() {
            return wrong("is empty".to_owned());
        }
        if text.len() >= MAX_PIECE_BYTES {
            return wrong(format!("has {} bytes; fewer than {MAX_PIECE_BYTES} are allowed", text.len()));
        }
        if text.contains('\0') && !(&*text == "\0" && kind == Kind::Unused) {
            return wrong(format!("(`{}`) holds a NUL", text.escape_debug()));
        }
        if !score.is_finite() {
            return wrong(format!("(`{}`) has the score {score}", text.escape_debug()));
        }
        let piece = Self { text, score, kind };
        if kind == Kind::Byte && !byte_fallback {
            return wrong(format!("(`{}`) is a byte, but the model's `byte_fallback` is off", piece.text));
        }
        if kind == Kind::Byte && piece.byte().is_none() {
            let text = piece.text.escape_debug();
            return wrong(format!("(`{text}`) is of type byte, but not of the form `<0x00>` to `<0xFF>`"));
        }
        Ok(piece)
    }

    /// The byte that a byte piece spells: `<0x0A>` is 10.
    pub(super) fn byte(&self) -> Option<u8> {
        let digits = self.text.strip_prefix("<0x")?.strip_suffix('>')?;
        let upper = digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'A'..=b'F'));
        (digits.len() == 2 && upper).then(|| u8::from_str_radix(digits, 16).ok()).flatten()
    }
}

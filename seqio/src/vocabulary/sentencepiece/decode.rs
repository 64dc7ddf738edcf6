//! Ids back to text, as SeqIO's `decode` does it.
//!
//! ```text
//! [▁He, llo, ▁<extra_id_0>, </s>, ▁x]   ->   "Hello <extra_id_0>"
//! ```

use crate::vocabulary::sentencepiece::normalize::Normalizer;
use crate::vocabulary::sentencepiece::pieces::{Kind, Pieces, SPACE};
use crate::vocabulary::sentencepiece::utf8::char_len;

/// What decoding needs besides the pieces.
#[derive(Debug)]
pub(super) struct Decoder {
    /// How the unknown id is spelled.
    pub(super) unknown_surface: String,
    pub(super) eos: Option<u32>,
    /// Whether encoding put a space in front.
    pub(super) add_dummy_prefix: bool,
    pub(super) remove_extra_whitespaces: bool,
    pub(super) denormalizer: Option<Normalizer>,
}

impl Decoder {
    /// The text of `ids`: ids that do not exist count as unknown, and nothing after the first EOS is read.
    pub(super) fn decode(&self, ids: &[i32], pieces: &Pieces) -> String {
        let mut text = String::new();
        let mut bytes = Vec::new();
        let mut at_start = true;
        for &id in ids {
            let known = u32::try_from(id).ok().filter(|id| (*id as usize) < pieces.list.len());
            let Some(id) = known.or(pieces.unknown) else { continue };
            if Some(id) == self.eos {
                break;
            }
            let piece = &pieces.list[id as usize];
            if piece.kind == Kind::Byte {
                bytes.extend(piece.byte());
                continue;
            }
            append_bytes(&mut bytes, &mut text);
            at_start &= text.is_empty();
            match piece.kind {
                Kind::Control => continue,
                Kind::Unknown => text.push_str(&self.unknown_surface),
                _ => {
                    let mut spelled = &*piece.text;
                    if at_start
                        && (self.add_dummy_prefix || self.remove_extra_whitespaces)
                        && let Some(rest) = spelled.strip_prefix(SPACE)
                    {
                        spelled = rest;
                        at_start = self.remove_extra_whitespaces;
                    }
                    spelled.split(SPACE).enumerate().for_each(|(place, part)| {
                        if place > 0 {
                            text.push(' ');
                        }
                        text.push_str(part);
                    });
                }
            }
        }
        append_bytes(&mut bytes, &mut text);
        match &self.denormalizer {
            None => text,
            Some(denormalizer) => {
                let mut out = Vec::new();
                denormalizer.normalize(text.as_bytes(), None, &mut out);
                String::from_utf8_lossy(&out).into_owned()
            }
        }
    }
}

/// Moves bytes to the text, U+FFFD for each that belongs to no character.
fn append_bytes(bytes: &mut Vec<u8>, text: &mut String) {
    let mut at = 0;
    while at < bytes.len() {
        let len = char_len(&bytes[at..]);
        let known = len.and_then(|len| std::str::from_utf8(&bytes[at..at + len]).ok());
        text.push_str(known.unwrap_or("\u{fffd}"));
        at += len.unwrap_or(1);
    }
    bytes.clear();
}

//! Code points as tokens: SeqIO's `FullCodepointVocabulary` and `PartialCodepointVocabulary`.
//!
//! ```text
//! full_codepoint = true                    "hé" -> [104, 233]
//! partial_codepoint = [104, 233]           "hé" -> [3, 4]          "hé!" -> [3, 4, 2]
//! ```
//!
//! Three code points stand for something else, in both: 0 for padding, U+E005 for the end, U+E004 for what is unknown.

mod full;
mod partial;

pub use self::{full::FullCodepointVocabulary, partial::PartialCodepointVocabulary};

/// The private-use character that SeqIO ends a sequence with.
const EOS: char = '\u{E005}';
/// The private-use character that SeqIO decodes unknown ids to.
const UNK: char = '\u{E004}';
/// One more than the last code point.
const CODE_POINTS: u32 = 0x11_0000;

/// How a code point is shown as a token: itself if it can be seen, else by its number.
fn piece(codepoint: u32) -> String {
    match char::from_u32(codepoint) {
        Some('\0') => "<pad>".to_owned(),
        Some(EOS) => "</s>".to_owned(),
        Some(char) if !char.is_control() && !char.is_whitespace() => char.to_string(),
        _ => format!("<U+{codepoint:04X}>"),
    }
}

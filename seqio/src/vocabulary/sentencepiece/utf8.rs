//! Characters in bytes that are nearly always UTF-8.

/// Bytes of the character that begins with `lead`, by SentencePiece's table: a continuation byte counts as one.
#[inline]
pub(super) fn lead_len(lead: u8) -> usize {
    match lead {
        0xf0.. => 4,
        0xe0.. => 3,
        0xc0.. => 2,
        _ => 1,
    }
}

/// Bytes of the well-formed character that `bytes` begin with.
pub(super) fn char_len(bytes: &[u8]) -> Option<usize> {
    let len = lead_len(*bytes.first()?);
    std::str::from_utf8(bytes.get(..len)?).is_ok().then_some(len)
}

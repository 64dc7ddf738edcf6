//! Base64 as RFC 4648 has it: the standard alphabet, padded.
//!
//! ```text
//! "IQ=="  <->  [0x21]
//! ```

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// No letter of the alphabet.
const NONE: u8 = 0xFF;

/// The value of each byte that is a letter of the alphabet.
const VALUES: [u8; 256] = {
    let mut values = [NONE; 256];
    let mut value = 0;
    while value < 64 {
        values[ALPHABET[value] as usize] = value as u8;
        value += 1;
    }
    values
};

/// Appends the bytes that `text` stands for; `None` if it is not base64, and `bytes` may then hold some of them.
pub(crate) fn decode_into(text: &[u8], bytes: &mut Vec<u8>) -> Option<()> {
    let (groups, rest) = text.as_chunks::<4>();
    if !rest.is_empty() {
        return None;
    }
    for (number, group) in groups.iter().enumerate() {
        let is_last = number + 1 == groups.len();
        let padding = group.iter().rev().take_while(|byte| **byte == b'=').count();
        if padding > 2 || (padding > 0 && !is_last) {
            return None;
        }
        let mut bits = 0u32;
        for byte in &group[..4 - padding] {
            let value = VALUES[*byte as usize];
            if value == NONE {
                return None;
            }
            bits = bits << 6 | u32::from(value);
        }
        bits <<= 6 * padding;
        let [_, decoded @ ..] = bits.to_be_bytes();
        let (kept, dropped) = decoded.split_at(3 - padding);
        // Bits that no byte has would let two texts stand for the same bytes.
        if dropped.iter().any(|byte| *byte != 0) {
            return None;
        }
        bytes.extend_from_slice(kept);
    }
    Some(())
}

/// The text that stands for `bytes`.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let mut padded = [0; 4];
        padded[1..=group.len()].copy_from_slice(group);
        let bits = u32::from_be_bytes(padded);
        for place in 0..4 {
            let value = bits >> (18 - 6 * place) & 0x3F;
            let letter = if place <= group.len() { ALPHABET[value as usize] } else { b'=' };
            text.push(char::from(letter));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(text: &str) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        decode_into(text.as_bytes(), &mut bytes).map(|()| bytes)
    }

    #[test]
    fn the_vectors_of_rfc_4648() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).as_deref(), Some(bytes.as_bytes()));
        }
    }

    #[test]
    fn what_is_not_base64_is_refused() {
        for text in ["Z", "Zg", "Zg=", "Zh==", "Zm9=", "Z===", "====", "Zg==Zg==", "Zm-_", "Zm 9", "Zé="] {
            assert_eq!(decode(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_come_back(bytes in prop::collection::vec(any::<u8>(), 0..50)) {
            prop_assert_eq!(decode(&encode(&bytes)), Some(bytes));
        }
    }
}

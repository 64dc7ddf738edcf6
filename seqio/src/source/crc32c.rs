//! The cyclic redundancy check of Castagnoli (CRC-32C), as TFRecord files have it.
//!
//! ```text
//! "123456789"  ->  e3069283, stored as c78ab0e5: rotated by 15 bits, and a constant added
//! ```

/// `TABLES[k][b]`: the checksum of byte `b` with `k` zero bytes after it.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut zeros = 1;
    while zeros < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before: u32 = tables[zeros - 1][byte];
            tables[zeros][byte] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        zeros += 1;
    }
    tables
}

/// The checksum, eight bytes at a time.
fn crc32c(bytes: &[u8]) -> u32 {
    let of = |table: usize, word: u32, shift: u32| TABLES[table][((word >> shift) & 0xff) as usize];
    let (words, rest) = bytes.as_chunks::<8>();
    let crc = words.iter().fold(!0u32, |crc, &[a, b, c, d, e, f, g, h]| {
        let low = u32::from_le_bytes([a, b, c, d]) ^ crc;
        let high = u32::from_le_bytes([e, f, g, h]);
        of(7, low, 0)
            ^ of(6, low, 8)
            ^ of(5, low, 16)
            ^ of(4, low, 24)
            ^ of(3, high, 0)
            ^ of(2, high, 8)
            ^ of(1, high, 16)
            ^ of(0, high, 24)
    });
    !rest.iter().fold(crc, |crc, &byte| of(0, crc ^ u32::from(byte), 0) ^ (crc >> 8))
}

/// The checksum as it is stored: mixed, so that checksums of what holds checksums stay good.
pub(super) fn masked_crc32c(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_rfc_3720() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&(0..32).collect::<Vec<u8>>()), 0x46dd_794e);
        assert_eq!(crc32c(&(0..32).rev().collect::<Vec<u8>>()), 0x113f_db5c);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(b""), 0);
    }
}

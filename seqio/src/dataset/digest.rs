//! Digests of rows and batches, so that hosts, batch sizes and machines can be compared.
//!
//! ```text
//! row     blake3 of, for each feature by rising name:
//!             length of the name, u64    the name, UTF-8
//!             `i32` or `f32`
//!             rank, u64: 1, or 0 for one number a row    with rank 1 the row's length, u64
//!             the row's values, 4 bytes each
//! batch   blake3 of its rows' digests, 32 bytes each, in order
//! ```
//!
//! All numbers are little-endian. Rows that only fill up the last batch count like any other.

use std::fmt;
use std::str::FromStr;

use crate::batch::{Array, Batch, Values};

/// The blake3 hash of a row or batch, shown as 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of row `row` of these arrays.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn of_row(arrays: &[Array], row: usize) -> Self {
        let mut sorted: Vec<&Array> = arrays.iter().collect();
        sorted.sort_by(|a, b| a.name.cmp(&b.name));
        let mut hasher = blake3::Hasher::new();
        for array in sorted {
            hasher.update(&(array.name.len() as u64).to_le_bytes());
            hasher.update(array.name.as_bytes());
            let width = array.length.max(1);
            let row = row * width..(row + 1) * width;
            match &array.values {
                Values::I32(values) => {
                    hasher.update(b"i32");
                    update_shape(&mut hasher, array.length);
                    update_values(&mut hasher, &values[row], |value| value.to_le_bytes());
                }
                Values::F32(values) => {
                    hasher.update(b"f32");
                    update_shape(&mut hasher, array.length);
                    update_values(&mut hasher, &values[row], |value| value.to_le_bytes());
                }
            }
        }
        Self(*hasher.finalize().as_bytes())
    }

    /// The digest of a batch of rows with these digests.
    pub fn of_rows(rows: impl IntoIterator<Item = Self>) -> Self {
        let mut hasher = blake3::Hasher::new();
        for row in rows {
            hasher.update(&row.0);
        }
        Self(*hasher.finalize().as_bytes())
    }
}

impl Batch {
    /// The digest of each row held here.
    pub fn row_digests(&self) -> Vec<Digest> {
        (0..self.num_rows).map(|row| Digest::of_row(&self.arrays, row)).collect()
    }

    /// The digest of the rows held here; a batch that is spread over hosts is [`Digest::of_rows`] of all of them.
    pub fn digest(&self) -> Digest {
        Digest::of_rows(self.row_digests())
    }
}

fn update_shape(hasher: &mut blake3::Hasher, length: usize) {
    if length == 0 {
        hasher.update(&0u64.to_le_bytes());
    } else {
        hasher.update(&1u64.to_le_bytes());
        hasher.update(&(length as u64).to_le_bytes());
    }
}

fn update_values<T: Copy>(hasher: &mut blake3::Hasher, values: &[T], bytes_of: impl Fn(T) -> [u8; 4]) {
    let mut bytes = [0; 32_768];
    for values in values.chunks(bytes.len() / 4) {
        for (bytes, value) in bytes.chunks_exact_mut(4).zip(values) {
            bytes.copy_from_slice(&bytes_of(*value));
        }
        hasher.update(&bytes[..4 * values.len()]);
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = blake3::HexError;

    fn from_str(hex: &str) -> Result<Self, Self::Err> {
        blake3::Hash::from_hex(hex).map(|hash| Self(*hash.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrays(ids: Vec<i32>, weights: Vec<f32>, valid: Vec<i32>) -> Vec<Array> {
        let array = |name: &str, length, values| Array { name: name.to_owned(), length, values };
        vec![
            array("ids", 2, Values::I32(ids)),
            array("row_valid", 0, Values::I32(valid)),
            array("weights", 2, Values::F32(weights)),
        ]
    }

    #[test]
    fn a_row_is_hashed_as_documented() {
        let arrays = arrays(vec![9, 9, 1, -2], vec![0.0, 0.0, 1.0, 0.0], vec![0, 1]);
        let mut bytes = Vec::new();
        let u64s = |bytes: &mut Vec<u8>, number: u64| bytes.extend(number.to_le_bytes());
        u64s(&mut bytes, 3);
        bytes.extend(b"idsi32");
        u64s(&mut bytes, 1);
        u64s(&mut bytes, 2);
        bytes.extend([1, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff]);
        u64s(&mut bytes, 9);
        bytes.extend(b"row_validi32");
        u64s(&mut bytes, 0);
        bytes.extend([1, 0, 0, 0]);
        u64s(&mut bytes, 7);
        bytes.extend(b"weightsf32");
        u64s(&mut bytes, 1);
        u64s(&mut bytes, 2);
        bytes.extend([0, 0, 0x80, 0x3f, 0, 0, 0, 0]);
        assert_eq!(Digest::of_row(&arrays, 1), Digest(*blake3::hash(&bytes).as_bytes()));
    }

    #[test]
    fn the_order_of_the_arrays_does_not_matter() {
        let mut arrays = arrays(vec![9, 9], vec![0.0, 1.0], vec![1]);
        let digest = Digest::of_row(&arrays, 0);
        arrays.reverse();
        assert_eq!(Digest::of_row(&arrays, 0), digest);
    }

    #[test]
    fn rows_of_two_hosts_make_the_digest_of_the_batch() {
        let arrays = arrays(vec![1, 2, 3, 4], vec![0.0; 4], vec![1, 1]);
        let batch = Batch { step: 0, first_row: 0, num_rows: 2, arrays };
        let rows = batch.row_digests();
        assert_ne!(rows[0], rows[1]);
        assert_eq!(Digest::of_rows([rows[0], rows[1]]), batch.digest());
        assert_eq!(batch.digest().to_string().parse::<Digest>().unwrap(), batch.digest());
    }

    #[test]
    fn long_rows_are_hashed_whole() {
        let row = |last| {
            let mut ids = vec![7; 5000];
            ids[4999] = last;
            [Array { name: "ids".to_owned(), length: 5000, values: Values::I32(ids) }]
        };
        assert_ne!(Digest::of_row(&row(1), 0), Digest::of_row(&row(2), 0));
    }
}

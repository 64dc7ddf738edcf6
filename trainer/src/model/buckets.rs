//! Buckets of relative positions (T5X `layers.RelativePositionBiases`).
//!
//! ```text
//! key - query     … -3 -2 -1  0  1  2  3 …
//! bidirectional   …  3  2  1  0 17 18 19 …       causal: what lies ahead is bucket 0
//! ```

use crate::model::ModelConfig;

/// The bucket of `key - query`.
pub fn relative_position_bucket(
    relative_position: i64,
    bidirectional: bool,
    num_buckets: usize,
    max_distance: usize,
) -> usize {
    let (mut offset, mut buckets, mut n) = (0, num_buckets, -relative_position);
    if bidirectional {
        buckets /= 2;
        if n < 0 {
            offset = buckets;
        }
        n = n.abs();
    } else {
        n = n.max(0);
    }
    let (n, max_exact) = (n as usize, buckets / 2);
    if n < max_exact {
        return offset + n;
    }
    // In float64 the table is the same as T5X's in float32, whose small constant only keeps the logarithm of 0 finite.
    let position = (n as f64 / max_exact as f64).ln() / (max_distance as f64 / max_exact as f64).ln();
    let bucket = max_exact + (position * (buckets - max_exact) as f64) as usize;
    offset + bucket.min(buckets - 1)
}

/// The bucket of every `key - query` from `1 - length` to `length - 1`.
pub(super) fn bucket_table(config: &ModelConfig, length: usize, bidirectional: bool) -> Vec<i32> {
    let (buckets, distance) = (config.relpos_num_buckets, config.relpos_max_distance);
    let ends = 1 - length as i64..length as i64;
    ends.map(|d| relative_position_bucket(d, bidirectional, buckets, distance) as i32).collect()
}

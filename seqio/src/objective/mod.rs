//! What sequences of tokens become before a model sees them, as T5 does it: which tokens are noise, and what stands in
//! their place; which part of a long sequence is taken; where it is cut.
//!
//! ```text
//! tokens        10 11 12 13 14 15 16     mask  . . x x . . x     (random spans: 2 of noise, 2 between them)
//! inputs        10 11 99 14 15 98        noise_span_to_unique_sentinel, 100 ids
//! targets       99 12 13 98 16           nonnoise_span_to_unique_sentinel begins with 99 for `10 11`
//! ```
//!
//! Everything is a function of lengths, settings and a key. Lengths of results follow from lengths and keys alone, so
//! that rows are planned before any token is read: [`MaskRule::draw`] makes a mask for a length, [`NoiseMask::counts`]
//! what is in it, [`DenoiseFn::length`] how long a result is.

mod chunk;
mod composition;
mod denoise_fn;
mod error;
mod fill_in_the_middle;
#[cfg(test)]
mod golden;
mod mask_rule;
mod noise_mask;
mod random_spans;
mod segments;
mod span_lengths;
mod ul2;

pub(crate) use self::chunk::{Chunk, ChunkRule, split_point};
pub use self::denoise_fn::DenoiseFn;
pub(crate) use self::denoise_fn::{Replacements, random_id};
pub(crate) use self::error::ObjectiveError;
pub(crate) use self::fill_in_the_middle::{MiddleCut, MiddleRule};
pub(crate) use self::mask_rule::{MaskBuffer, MaskRule};
pub(crate) use self::noise_mask::{MaskCounts, NoiseMask};
pub(crate) use self::segments::SegmentRule;
pub(crate) use self::ul2::{Denoiser, Denoisers, spans_that_fit};

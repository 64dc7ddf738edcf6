//! Why an objective cannot be made of a sequence.

use crate::text::counted;

/// Why an objective cannot be made of a sequence of some length.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ObjectiveError {
    /// Spans of noise need a token between any two of them.
    #[error(
        "a sequence of {} would have {} of noise and only {} to stand between them; lower `noise_density` or raise \
         `mean_noise_span_length`",
        counted(u64::from(*length), "id"), counted(u64::from(*spans), "span"), counted(u64::from(*between), "id")
    )]
    TooManySpans {
        /// Length of the sequence.
        length: u32,
        /// Spans of noise.
        spans: u32,
        /// Tokens that are not noise.
        between: u32,
    },
    /// Every span has a sentinel of its own.
    #[error(
        "a sequence needs {}, one a span, but there are {sentinels}: give the vocabulary more `extra_ids`, make spans \
         longer or sequences shorter, or let more of the last ids of the vocabulary be sentinels with `num_sentinels`",
        counted(u64::from(*spans), "sentinel")
    )]
    TooFewSentinels {
        /// Spans that are replaced.
        spans: u32,
        /// Sentinels there are.
        sentinels: u32,
    },
}

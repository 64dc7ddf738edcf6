//! What Arrow and an engine say, as part of a sentence.
//!
//! ```text
//! Cast error: Cannot cast string 'many' to value of Int64 type.   ->   cannot cast string 'many' to value of Int64 type
//! ```

use arrow::error::ArrowError;

/// An error of Arrow's kernels as part of a sentence.
pub fn arrow_in_words(error: &ArrowError) -> String {
    match error {
        ArrowError::DivideByZero => "division by zero".to_owned(),
        ArrowError::ArithmeticOverflow(words) => format!("the number is too large: {}", sentence(words)),
        ArrowError::CastError(words)
        | ArrowError::ComputeError(words)
        | ArrowError::InvalidArgumentError(words)
        | ArrowError::ParseError(words) => sentence(words),
        ArrowError::ExternalError(inner) => inner.to_string(),
        other => sentence(&other.to_string()),
    }
}

/// The first line, without capital and full stop.
pub fn sentence(words: &str) -> String {
    let line = words.trim().lines().next().unwrap_or_default().trim().trim_end_matches('.');
    let mut chars = line.chars();
    match chars.next() {
        // `SQL` and `Utf8` keep their capitals.
        Some(first) if chars.clone().next().is_none_or(char::is_lowercase) && !line.starts_with("Utf8") => {
            first.to_lowercase().chain(chars).collect()
        }
        _ => line.to_owned(),
    }
}

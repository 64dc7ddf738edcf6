//! From token sequences to model features: which rows there are, and what stands in them.
//!
//! ```text
//! lengths of a window's items  ->  pack: rows of pieces  ->  row_writer: decoder_target_tokens, ...
//! ```
//!
//! Packing sees lengths alone, so every host can plan all rows and read the tokens of its own.

mod conversion;
mod converter;
#[cfg(test)]
mod laws;
mod layout;
mod pack;
mod prepacked;
mod row_writer;
mod sequences;
mod side;

pub use conversion::Conversion;
pub use converter::{Converter, ConverterEntry};
pub use layout::{Dtype, ModelFeature};
pub use pack::{
    DEFAULT_WINDOW, MAX_LENGTH, PackCounts, Packing, Piece, Row, Span, WindowPlan, WindowPlanner,
    default_window,
};
pub use row_writer::RowWriter;

use crate::text::{nearest, quoted};

/// Why rows cannot be made as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// A name that is none of the known ones.
    #[error("there is no {what} `{name}`; there are {}{}", quoted(*known), did_you_mean(name, known.iter().copied()))]
    Unknown {
        /// Kind of thing.
        what: &'static str,
        /// The name given.
        name: String,
        /// The names there are.
        known: &'static [&'static str],
    },
    /// A converter that does not exist.
    #[error("there is no converter `{name}`; there are {known}{hint}")]
    UnknownConverter {
        /// The name given.
        name: String,
        /// The names there are, in words.
        known: String,
        /// The nearest, in words.
        hint: String,
    },
    /// A setting of a converter that makes no sense.
    #[error("converter `{converter}`, `{setting}`: {problem}")]
    Setting {
        /// The converter's name.
        converter: &'static str,
        /// The setting.
        setting: String,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// A feature of the converter has no length.
    #[error(
        "converter `{converter}` needs a length for feature `{feature}`, but there are lengths only for {}",
        quoted(found)
    )]
    MissingLength {
        /// The converter.
        converter: Conversion,
        /// The feature.
        feature: String,
        /// The features with a length.
        found: Vec<String>,
    },
    /// A length names a feature that the converter does not read.
    #[error(
        "there is a length for feature `{feature}`, but converter `{converter}` reads only {}",
        quoted(reads)
    )]
    ExtraLength {
        /// The converter.
        converter: Conversion,
        /// The feature.
        feature: String,
        /// The features that it reads.
        reads: Vec<String>,
    },
    /// A length that no row can have.
    #[error("the length of feature `{feature}` is {length}; it must be from 1 to {MAX_LENGTH}")]
    LengthOutOfRange {
        /// The feature, or its number where names are not known.
        feature: String,
        /// The length.
        length: usize,
    },
    /// The examples lack a feature that the converter reads.
    #[error(
        "converter `{converter}` needs feature `{feature}`, but the examples have only {}",
        quoted(found)
    )]
    MissingFeature {
        /// The converter.
        converter: Conversion,
        /// The feature.
        feature: String,
        /// The features there are.
        found: Vec<String>,
    },
    /// Items do not fit into a row, and whoever asked wants no token dropped.
    #[error("{items} items are longer than their lengths: {tokens} tokens would be dropped")]
    Overlong {
        /// Items that are too long.
        items: u64,
        /// Tokens that do not fit.
        tokens: u64,
    },
}

impl ConvertError {
    pub(crate) fn unknown(what: &'static str, name: &str, known: &'static [&'static str]) -> Self {
        Self::Unknown { what, name: name.to_owned(), known }
    }
}

fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, known).map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}

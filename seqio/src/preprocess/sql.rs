//! SQL expressions as settings of steps: their canonical text, and their use once the columns are known.
//!
//! ```text
//! length(text)>200   AND lang='en' -- long   ->   length(text)>200 AND lang='en'     what a fingerprint hashes
//! ```
//!
//! A program built without the feature `sql` reads such settings and refuses to run them.

use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Schema, SchemaRef};

use crate::example::Examples;
use crate::preprocess::PreprocessError;
#[cfg(feature = "sql")]
use crate::sql::{Expression, Mistake, mistake_in_words};

/// An expression of a step, checked against the columns it will see.
#[derive(Debug)]
#[cfg_attr(not(feature = "sql"), allow(dead_code, reason = "without SQL none is ever made"))]
pub(crate) struct SqlSetting {
    step: &'static str,
    /// Where it stands in the step's settings, in words: `` `where` ``.
    place: String,
    #[cfg(feature = "sql")]
    expression: Expression,
    #[cfg(not(feature = "sql"))]
    never: std::convert::Infallible,
}

#[cfg(feature = "sql")]
impl SqlSetting {
    /// Reads and checks the text of a setting.
    pub(crate) fn check(
        step: &'static str,
        place: String,
        text: &str,
        columns: &Schema,
    ) -> Result<Self, PreprocessError> {
        match Expression::parse(text, columns) {
            Ok(expression) => Ok(Self { step, place, expression }),
            Err(Mistake::NoColumn { column, .. }) => {
                Err(PreprocessError::missing(step, "column", &column.whole, columns))
            }
            Err(mistake) => {
                let problem = format!("{place}: {}", mistake_in_words(&mistake));
                Err(PreprocessError::Setting { step, problem })
            }
        }
    }

    /// The type of its values.
    pub(crate) fn data_type(&self) -> &DataType {
        self.expression.data_type()
    }

    /// The name that `AS` gives it.
    pub(crate) fn name(&self) -> Option<&str> {
        self.expression.name()
    }

    /// Its value for each example.
    pub(crate) fn evaluate(&self, examples: &Examples) -> Result<ArrayRef, PreprocessError> {
        self.expression.evaluate(&examples.columns).map_err(|failure| {
            let row = &examples.rows[failure.row];
            PreprocessError::Expression {
                step: self.step,
                setting: self.place.clone(),
                problem: failure.problem,
                example: row.id,
                origins: row.origins.clone(),
            }
        })
    }
}

#[cfg(not(feature = "sql"))]
impl SqlSetting {
    pub(crate) fn check(
        step: &'static str,
        place: String,
        _text: &str,
        _columns: &Schema,
    ) -> Result<Self, PreprocessError> {
        let problem = format!("{place} is SQL, and this program was built without the feature `sql`");
        Err(PreprocessError::Setting { step, problem })
    }

    pub(crate) fn data_type(&self) -> &DataType {
        match self.never {}
    }

    pub(crate) fn name(&self) -> Option<&str> {
        match self.never {}
    }

    pub(crate) fn evaluate(&self, _examples: &Examples) -> Result<ArrayRef, PreprocessError> {
        match self.never {}
    }
}

/// What a step made of its settings for some columns, kept for the next chunk. It is no part of the step: steps with
/// the same settings are equal.
pub(crate) struct Prepared<T>(Mutex<Option<(SchemaRef, Arc<T>)>>);

impl<T> Prepared<T> {
    /// What was made for these columns, or what `make` makes now.
    pub(crate) fn get(
        &self,
        columns: &SchemaRef,
        make: impl FnOnce() -> Result<T, PreprocessError>,
    ) -> Result<Arc<T>, PreprocessError> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((schema, made)) = kept.as_ref()
            && (Arc::ptr_eq(schema, columns) || schema == columns)
        {
            return Ok(Arc::clone(made));
        }
        let made = Arc::new(make()?);
        *kept = Some((Arc::clone(columns), Arc::clone(&made)));
        Ok(made)
    }
}

impl<T> Default for Prepared<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> Clone for Prepared<T> {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl<T> PartialEq for Prepared<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<T> std::fmt::Debug for Prepared<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Prepared")
    }
}

/// An expression's text without what does not count: comments, line ends, and blanks that separate nothing. It is for
/// fingerprints alone, and the same with or without the feature `sql`.
pub(crate) fn canonical_sql(text: &str) -> String {
    let mut canonical = String::with_capacity(text.len());
    let mut rest = text;
    let mut blank = false;
    while let Some(first) = rest.chars().next() {
        if let Some(after) = skipped_comment(rest) {
            blank = true;
            rest = after;
        } else if first.is_whitespace() {
            blank = true;
            rest = &rest[first.len_utf8()..];
        } else {
            let token = token_length(rest, first);
            let last = canonical.chars().next_back();
            if blank && last.is_some_and(|last| is_separated(last, first)) {
                canonical.push(' ');
            }
            canonical.push_str(&rest[..token]);
            blank = false;
            rest = &rest[token..];
        }
    }
    canonical
}

/// Whether a blank between two characters may matter: between two words, or two signs that may make up one.
fn is_separated(left: char, right: char) -> bool {
    let stands_alone = |c: char| matches!(c, '(' | ')' | '[' | ']' | ',');
    !stands_alone(left) && !stands_alone(right) && is_wordy(left) == is_wordy(right)
}

/// Quotes count as parts of words: `E 'x'` and `E'x'` are two things.
fn is_wordy(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | '$' | '@' | '\'' | '"' | '`')
}

/// What follows a comment, if there is one.
fn skipped_comment(text: &str) -> Option<&str> {
    if text.starts_with("--") {
        return Some(text.find('\n').map_or("", |end| &text[end..]));
    }
    let inside = text.strip_prefix("/*")?;
    Some(inside.find("*/").map_or("", |end| &inside[end + 2..]))
}

/// Bytes of a quoted text, or of one character.
fn token_length(text: &str, first: char) -> usize {
    if !matches!(first, '\'' | '"' | '`') {
        return first.len_utf8();
    }
    // A doubled quote inside is the end of one text and the beginning of the next, which comes to the same.
    text[1..].find(first).map_or(text.len(), |end| end + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_and_comments_that_separate_nothing_do_not_count() {
        let written = canonical_sql("length(text)>200 AND lang='en'");
        for same in [
            "  length( text ) > 200\n  AND lang = 'en'  ",
            "length(text) > 200 -- long enough\n AND lang = 'en'",
            "length(text) > 200 /* long enough */ AND lang = 'en'",
        ] {
            assert_eq!(canonical_sql(same), written, "{same}");
        }
        assert_eq!(written, "length(text)>200 AND lang='en'");
    }

    #[test]
    fn what_means_something_else_stays_apart() {
        for (one, other) in [
            ("a - -1", "a"),
            ("a = 'x  y'", "a = 'x y'"),
            ("a = 'it''s'", "a = 'it' 's'"),
            ("a b", "ab"),
            ("E 'x'", "E'x'"),
            ("a < = b", "a <= b"),
            ("\"a  b\" = 1", "\"a b\" = 1"),
            ("'--' = a", "a"),
        ] {
            assert_ne!(canonical_sql(one), canonical_sql(other), "{one} | {other}");
        }
        assert_eq!(canonical_sql("a = 'open"), "a='open");
        assert_eq!(canonical_sql("/* open"), "");
    }
}

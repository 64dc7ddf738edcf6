//! Positions of keys and values in task files, for messages that point at what they speak of.
//!
//! ```text
//! tasks.toml:12:10
//!    |
//! 12 |   { op = "append_oes" },
//!    |          ^^^^^^^^^^^^
//! ```

mod decode;
mod document;
mod locator;
mod node;

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Serialize;

pub(crate) use self::decode::{Mistake, decode, decode_with};
pub use self::document::TomlDocument;
pub(crate) use self::locator::Locator;
pub(crate) use self::node::{Entry, Node, NodeValue, Part};

/// Excerpts of lines longer than this are cut around what they point at.
const MAX_EXCERPT_CHARS: usize = 100;

/// The text of a task file.
#[derive(Clone, Debug)]
pub(crate) struct TaskText {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// A stretch of a line of a task file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// The file, as it was named.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The line, or what of it is worth showing.
    pub excerpt: String,
    /// Characters of `excerpt` before the stretch.
    pub excerpt_start: usize,
    /// Length of the stretch in characters, at least 1.
    pub length: usize,
}

impl TaskText {
    /// The folder that relative paths in the file start from.
    pub(crate) fn folder(&self) -> &Path {
        match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        }
    }

    /// Where a range of bytes stands. Of a range over several lines the first is taken.
    pub(crate) fn place(&self, span: &Range<usize>) -> Place {
        let start = self.boundary_before(span.start);
        let line_start = self.text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = self.text[start..].find('\n').map_or(self.text.len(), |at| start + at);
        let end = self.boundary_before(span.end).clamp(start, line_end);

        let line: Vec<char> = self.text[line_start..line_end].trim_end_matches('\r').chars().collect();
        let before = self.text[line_start..start].chars().count();
        let length = self.text[start..end].trim_end().chars().count().max(1);
        let first =
            if line.len() <= MAX_EXCERPT_CHARS { 0 } else { before.saturating_sub(MAX_EXCERPT_CHARS / 4) };
        let last = line.len().min(first + MAX_EXCERPT_CHARS);
        let shown = line.get(first..last).unwrap_or_default();
        Place {
            path: self.path.clone(),
            line: self.text[..start].matches('\n').count() + 1,
            column: before + 1,
            // Tabs would put the carets in the wrong place.
            excerpt: shown.iter().map(|&c| if c == '\t' { ' ' } else { c }).collect(),
            excerpt_start: before - first,
            length: length.min(shown.len().saturating_sub(before - first)).max(1),
        }
    }

    fn boundary_before(&self, at: usize) -> usize {
        let mut at = at.min(self.text.len());
        while !self.text.is_char_boundary(at) {
            at -= 1;
        }
        at
    }
}

impl Place {
    /// The line with carets under the stretch.
    pub fn caret_lines(&self) -> String {
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        let indent = " ".repeat(self.excerpt_start);
        let carets = "^".repeat(self.length);
        format!("{margin} |\n{number} | {}\n{margin} | {indent}{carets}", self.excerpt.trim_end())
    }
}

/// `path:line:column`, as editors understand it.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.path.display(), self.line, self.column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> TaskText {
        TaskText { path: "tasks.toml".into(), text: text.to_owned() }
    }

    #[test]
    fn columns_count_characters_and_carets_stand_under_them() {
        let text = text("a = 1\r\n\tgrüße = \"x\"  # y\n");
        let start = text.text.find("\"x\"").unwrap();
        let place = text.place(&(start..start + 3));
        assert_eq!(place.to_string(), "tasks.toml:2:10");
        insta::assert_snapshot!(place.caret_lines(), @r#"
          |
        2 |  grüße = "x"  # y
          |          ^^^
        "#);
    }

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let text = text(&format!("{}here{}", "x".repeat(500), "y".repeat(500)));
        let place = text.place(&(500..504));
        assert_eq!((place.column, place.excerpt_start, place.excerpt.len()), (501, 25, 100));
        assert!(place.excerpt[25..].starts_with("here"));
    }

    #[test]
    fn a_place_behind_the_end_is_the_end() {
        let place = text("a").place(&(7..9));
        assert_eq!((place.line, place.column, place.length), (1, 2, 1));
        let place = text("").place(&(0..0));
        assert_eq!((place.line, place.column, place.length), (1, 1, 1));
    }
}

//! Vocabularies listed in text files, an entry a line.
//!
//! ```text
//! "the\ncat\r\n"      -> "the", "cat"
//! "the\n\ncat\n"      -> line 2 is empty
//! ```

use std::collections::BTreeMap;

use crate::vocabulary::VocabularyError;

/// The lines of a file, without their ends. There is one at least, and none is empty.
pub(super) fn lines(file: &[u8]) -> Result<Vec<&str>, VocabularyError> {
    let malformed = |problem: String| Err(VocabularyError::Malformed { problem });
    let content = file.strip_suffix(b"\n").unwrap_or(file);
    if content.is_empty() {
        return malformed("the file is empty: it has an entry on each line".to_owned());
    }
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(content.split(|byte| *byte == b'\n')) {
        let Ok(line) = std::str::from_utf8(line.strip_suffix(b"\r").unwrap_or(line)) else {
            return malformed(format!("line {number} is not UTF-8"));
        };
        if line.is_empty() {
            return malformed(format!(
                "line {number} is empty, and an entry has an id by its line: remove it"
            ));
        }
        lines.push(line);
    }
    Ok(lines)
}

/// Entries with the ids that count them, from `first` on. Refuses one that is there twice; `place` names an entry's
/// place from its number, 0 for the first.
pub(super) fn by_text<'a>(
    entries: impl Iterator<Item = &'a str>,
    first: u32,
    place: impl Fn(u32) -> String,
) -> Result<BTreeMap<&'a str, u32>, VocabularyError> {
    let mut ids = BTreeMap::new();
    for (number, entry) in (0..).zip(entries) {
        if let Some(other) = ids.insert(entry, first + number) {
            let (here, there) = (place(number), place(other - first));
            let problem = format!("{here} is `{entry}`, as {there} is: an entry has one id");
            return Err(VocabularyError::Malformed { problem });
        }
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(file: &[u8]) -> String {
        lines(file).unwrap_err().to_string()
    }

    #[test]
    fn ends_of_lines_are_no_part_of_them_and_spaces_are() {
        assert_eq!(lines(b"a\r\n b \nc").unwrap(), ["a", " b ", "c"]);
    }

    #[test]
    fn what_would_move_ids_unseen_is_refused() {
        insta::assert_snapshot!(refused(b""), @"the file is empty: it has an entry on each line");
        insta::assert_snapshot!(refused(b"a\n\nb\n"), @"line 2 is empty, and an entry has an id by its line: remove it");
        insta::assert_snapshot!(refused(b"a\nb\n\n"), @"line 3 is empty, and an entry has an id by its line: remove it");
        insta::assert_snapshot!(refused(b"a\n\xff\n"), @"line 2 is not UTF-8");
        let twice = by_text(["a", "b", "a"].into_iter(), 1, |number| format!("line {}", number + 1));
        insta::assert_snapshot!(twice.unwrap_err(), @"line 3 is `a`, as line 1 is: an entry has one id");
    }
}

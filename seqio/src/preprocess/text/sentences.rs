//! Texts cut into sentences at full stops, exclamation marks and question marks.

use crate::preprocess::text::clean::strip;

/// The sentences of each line of a text, without white space around them; none is empty. A sentence ends behind a run of
/// `.`, `!` and `?`, or with its line.
pub(super) fn sentences_by_line(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.split('\n').map(|line| {
        let mut sentences = Vec::new();
        let mut rest = line;
        while let Some(mark) = rest.find(is_mark) {
            let end = mark + rest[mark..].find(|c| !is_mark(c)).unwrap_or(rest.len() - mark);
            sentences.push(strip(&rest[..end]));
            rest = &rest[end..];
        }
        sentences.push(strip(rest));
        sentences.retain(|sentence| !sentence.is_empty());
        sentences
    })
}

fn is_mark(c: char) -> bool {
    matches!(c, '.' | '!' | '?')
}

/// Neighbouring sentences of one line: with `reuse` each but the ends is in two pairs, else in one.
pub(super) fn pairs<'a, 's>(
    sentences: &'s [&'a str],
    reuse: bool,
) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a, 's> {
    let step = if reuse { 1 } else { 2 };
    sentences.windows(2).step_by(step).map(|pair| (pair[0], pair[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_behind_marks_and_with_their_line() {
        let lines: Vec<Vec<&str>> = sentences_by_line("A. B?! C\n\n  D.E  \n...").collect();
        assert_eq!(lines, [vec!["A.", "B?!", "C"], vec![], vec!["D.", "E"], vec!["..."]]);
    }

    #[test]
    fn a_sentence_is_in_two_pairs_or_in_one() {
        let sentences = ["A", "B", "C", "D", "E"];
        let reused: Vec<_> = pairs(&sentences, true).collect();
        assert_eq!(reused, [("A", "B"), ("B", "C"), ("C", "D"), ("D", "E")]);
        let once: Vec<_> = pairs(&sentences, false).collect();
        assert_eq!(once, [("A", "B"), ("C", "D")]);
    }
}

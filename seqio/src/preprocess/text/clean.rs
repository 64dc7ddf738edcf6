//! What text steps do to texts, as T5 does it: words, white space, punctuation.

/// White space as TensorFlow cuts and strips: of ASCII, the vertical tab too.
pub(super) fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t'..='\r')
}

/// White space as `\s` in T5's patterns: without the vertical tab.
pub(super) fn is_pattern_space(c: char) -> bool {
    is_space(c) && c != '\x0b'
}

/// The words of a text: what stands between white space.
pub(super) fn words(text: &str) -> Vec<&str> {
    text.split(is_space).filter(|word| !word.is_empty()).collect()
}

/// A text without white space around it.
pub(super) fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// Puts one blank for each run of white space.
pub(super) fn collapse_spaces(text: &str) -> String {
    let mut collapsed = String::with_capacity(text.len());
    let mut in_space = false;
    for c in text.chars() {
        let is_space = is_pattern_space(c);
        match (is_space, in_space) {
            (true, false) => collapsed.push(' '),
            (true, true) => {}
            (false, _) => collapsed.push(c),
        }
        in_space = is_space;
    }
    collapsed
}

/// Puts blanks around every character for which `apart` is true, and one blank for each run of white space.
pub(super) fn pad(text: &str, apart: impl Fn(char) -> bool) -> String {
    let mut padded = String::with_capacity(text.len() + text.len() / 2);
    for c in text.chars() {
        if apart(c) {
            padded.extend([' ', c, ' ']);
        } else {
            padded.push(c);
        }
    }
    collapse_spaces(&padded)
}

/// Puts blanks around everything but ASCII letters, digits and `_`, as T5 does around punctuation.
pub(super) fn pad_punctuation(text: &str) -> String {
    pad(text, |c| !c.is_ascii_alphanumeric() && c != '_')
}

/// Joins texts by blanks, with one blank for each run of white space.
pub(super) fn join_collapsed(texts: &[&str]) -> String {
    collapse_spaces(&texts.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn punctuation_stands_alone() {
        assert_eq!(pad_punctuation("What's  it?"), "What ' s it ? ");
        assert_eq!(pad_punctuation("a_1 é"), "a_1 é ");
        assert_eq!(pad_punctuation(""), "");
    }

    #[test]
    fn words_stand_between_white_space_of_ascii() {
        assert_eq!(words(" a\tb\x0bc\u{a0}d\n"), ["a", "b", "c\u{a0}d"]);
        assert_eq!(strip("\x0b a b\r\n"), "a b");
        assert!(words(" ").is_empty());
    }
}

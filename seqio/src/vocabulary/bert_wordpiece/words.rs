//! Text into words, as TensorFlow Text's `BasicTokenizer` splits it.
//!
//! ```text
//! "Don't stop, 東京!" -> "Don"  "'"  "t"  "stop"  ","  "東"  "京"  "!"
//! ```
//!
//! Punctuation and ideographs are words by themselves. Spaces, and control and format characters, which it makes spaces
//! of, are between words; other white space, such as U+00A0, is part of them.

use icu_properties::CodePointMapData;
use icu_properties::props::{GeneralCategory, GeneralCategoryGroup};

use super::WordPieceOptions;

/// A word, or the spaces between two where they are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    Text(&'a str),
    Spaces(usize),
}

/// What a character does to the word that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// It is part of it.
    Within,
    /// It is a word by itself.
    Alone,
    /// It parts it from the next.
    Apart,
}

fn act(char: char) -> Act {
    match char {
        ' ' => Act::Apart,
        '!'..='~' if char.is_ascii_punctuation() => Act::Alone,
        '!'..='~' => Act::Within,
        '\u{4E00}'..='\u{9FFF}'
        | '\u{3400}'..='\u{4DBF}'
        | '\u{20000}'..='\u{2A6DF}'
        | '\u{2A700}'..='\u{2CEAF}'
        | '\u{F900}'..='\u{FAFF}'
        | '\u{2F800}'..='\u{2FA1F}' => Act::Alone,
        _ => match CodePointMapData::<GeneralCategory>::new().get(char) {
            GeneralCategory::Control | GeneralCategory::Format => Act::Apart,
            category if GeneralCategoryGroup::Punctuation.contains(category) => Act::Alone,
            _ => Act::Within,
        },
    }
}

/// Calls `each` for the words of a text in their order.
pub(super) fn for_each_token<'a>(text: &'a str, options: &WordPieceOptions, mut each: impl FnMut(Token<'a>)) {
    let mut word = 0;
    let mut at = 0;
    while let Some(char) = text[at..].chars().next() {
        let mut end = at + char.len_utf8();
        let act = act(char);
        if act != Act::Within {
            if word < at {
                each(Token::Text(&text[word..at]));
            }
            if act == Act::Alone {
                if options.preserve_unused_token {
                    end = unused_token(&text[at..]).map_or(end, |length| at + length);
                }
                each(Token::Text(&text[at..end]));
            } else if options.keep_whitespace {
                let mut count = 1;
                while let Some(next) =
                    text[end..].chars().next().filter(|next| self::act(*next) == Act::Apart)
                {
                    end += next.len_utf8();
                    count += 1;
                }
                each(Token::Spaces(count));
            }
            word = end;
        }
        at = end;
    }
    if word < at {
        each(Token::Text(&text[word..at]));
    }
}

/// Length of the `[unused12]` that a text begins with.
fn unused_token(text: &str) -> Option<usize> {
    const OPEN: &str = "[unused";
    let digits = text.strip_prefix(OPEN)?.bytes().take_while(u8::is_ascii_digit).count();
    let closed = text.as_bytes().get(OPEN.len() + digits) == Some(&b']');
    (digits > 0 && closed).then_some(OPEN.len() + digits + 1)
}

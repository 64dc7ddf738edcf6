//! Whom a pronoun means, worked out from the two sentences that WNLI has.
//!
//! ```text
//! sentence1: "The fish ate the worm. It was tasty."  sentence2: "The worm was tasty."
//!     ->   inputs: "wsc: The fish ate the worm. *It* was tasty."  targets: "The worm"
//! ```
//!
//! The pronoun of the first sentence is the one whose surroundings the second repeats best, and the answer is what stands
//! there in its place.

use arrow::datatypes::Schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::preprocess::PreprocessError;
use crate::preprocess::text::clean::strip;
use crate::preprocess::text::{Kind, Pieces, Plan, Row, TextStep, Value, wsc_label};

const PRONOUNS: [&str; 9] = ["he", "she", "they", "it", "her", "his", "their", "them", "him"];
const MARKS: [char; 4] = ['.', ',', '?', '!'];

/// Marks a pronoun of `sentence1`, and makes what `sentence2` has in its place the `targets`: for evaluation, as the noun
/// may be the right one or not. The sentences stay as `premise` and `hypothesis`, `label` and `idx` if they are there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::default())]
pub struct WnliSimple {
    /// What the inputs begin with.
    #[serde(default = "wsc_label")]
    pub label: String,
}

impl Default for WnliSimple {
    fn default() -> Self {
        Self { label: wsc_label() }
    }
}

impl TextStep for WnliSimple {
    const NAME: &'static str = "wnli_simple";

    type State = ();

    fn plan(&self, input: &Schema) -> Result<(Plan, ()), PreprocessError> {
        let reads = [("sentence1", Kind::Text), ("sentence2", Kind::Text)];
        let plan = Plan::reads(reads).texts(&["inputs", "targets", "premise", "hypothesis"]);
        Ok((plan.keeps_any(input, &["label", "idx"]), ()))
    }

    fn row(&self, (): &(), row: &Row<'_>, out: &mut Pieces) -> Result<(), PreprocessError> {
        let (premise, hypothesis) = (row.text(0), row.text(1));
        let words = cleaned(premise);
        let Some(found) = best_match(&words, &cleaned(hypothesis)) else {
            return Err(row.fail(0, format!("it has none of the pronouns {}", PRONOUNS.join(", "))));
        };
        let candidate = from_article(&found.candidate);
        let Some(targets) = as_written(candidate, hypothesis) else {
            return Err(row.fail(1, format!("`{candidate}` is not found in it again")));
        };
        let inputs = format!("{} {}", self.label, highlighted(premise, words[found.word].place));
        out.push(
            row,
            &[
                Value::Text(&inputs),
                Value::Text(without_possessive(targets)),
                Value::Text(premise),
                Value::Text(hypothesis),
            ],
        )
    }
}

/// A word in small letters without the punctuation mark behind it, and its place among the words of the sentence.
#[derive(Debug)]
struct Word {
    text: String,
    place: usize,
}

fn cleaned(sentence: &str) -> Vec<Word> {
    let words = sentence.split(' ').enumerate().map(|(place, word)| {
        let lower = strip(word).to_lowercase();
        Word { text: lower.strip_suffix(MARKS).unwrap_or(&lower).to_owned(), place }
    });
    words.filter(|word| !word.text.is_empty()).collect()
}

fn joined<'a>(words: impl IntoIterator<Item = &'a Word>) -> String {
    words.into_iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
}

/// A pronoun of the premise.
struct PronounMatch {
    /// How many words around it stand in the hypothesis too.
    score: usize,
    word: usize,
    /// What stands in its place there.
    candidate: String,
}

/// The first of the pronouns with the highest score; `None` if there is no pronoun.
fn best_match(premise: &[Word], hypothesis: &[Word]) -> Option<PronounMatch> {
    let pronouns = (0..premise.len()).filter(|word| PRONOUNS.contains(&premise[*word].text.as_str()));
    let matches = pronouns.map(|word| match_of(premise, hypothesis, word));
    matches.reduce(|best, next| if next.score > best.score { next } else { best })
}

fn match_of(premise: &[Word], hypothesis: &[Word], word: usize) -> PronounMatch {
    let (before, after) = (&premise[..word], &premise[word + 1..]);
    let (forward, backward) = (joined(hypothesis), joined(hypothesis.iter().rev()));
    let num_before =
        (1..=before.len()).take_while(|n| backward.contains(&joined(before.iter().rev().take(*n))));
    let num_after = (1..=after.len()).take_while(|n| forward.contains(&joined(&after[..*n])));
    let (num_before, num_after) = (num_before.count(), num_after.count());
    let score = num_before + num_after;
    let candidate = match score {
        0 => String::new(),
        _ => {
            let before = joined(&before[before.len() - num_before..]);
            let after = joined(&after[..num_after]);
            candidate_between(&forward, &before, &after).unwrap_or_default().to_owned()
        }
    };
    PronounMatch { score, word, candidate }
}

/// What stands between two stretches of words in `text`, as long as can be; else from the beginning to the second, else
/// from the first to the end.
fn candidate_between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let head = if before.is_empty() { String::new() } else { format!("{before} ") };
    let tail = if after.is_empty() { String::new() } else { format!(" {after}") };
    let up_to_tail = |from: usize| {
        let to = if tail.is_empty() { text.len() } else { from + text[from..].rfind(&tail)? };
        (to > from).then(|| &text[from..to])
    };
    let starts = || text.match_indices(&head).map(|(at, _)| at + head.len());
    let between = starts().find_map(up_to_tail);
    between
        .or_else(|| up_to_tail(0))
        .or_else(|| starts().map(|from| &text[from..]).find(|rest| !rest.is_empty()))
}

/// The words from the last article on.
fn from_article(candidate: &str) -> &str {
    let mut from = 0;
    for article in ["a", "an", "the"] {
        let mut at = 0;
        for word in candidate.split(' ') {
            if word == article {
                from = from.max(at);
                break;
            }
            at += word.len() + 1;
        }
    }
    &candidate[from..]
}

/// The candidate as `hypothesis` writes it, with punctuation behind words but not at its end; `None` if it is not there.
fn as_written<'a>(candidate: &str, hypothesis: &'a str) -> Option<&'a str> {
    let words: Vec<&str> = candidate.split(' ').collect();
    let mut starts = hypothesis.char_indices().map(|(at, _)| at).chain([hypothesis.len()]);
    let first =
        starts.find_map(|at| Some(&hypothesis[at..at + written_length(&hypothesis[at..], &words)?]))?;
    Some(first.strip_suffix(MARKS).unwrap_or(first))
}

/// How many bytes at the beginning of `text` are these words, case aside, each with at most one mark behind it.
fn written_length(text: &str, words: &[&str]) -> Option<usize> {
    let mut rest = text;
    for (place, word) in words.iter().enumerate() {
        if place > 0 {
            rest = rest.strip_prefix(' ')?;
        }
        for letter in word.chars() {
            let mut chars = rest.chars();
            let found = chars.next()?;
            if found != letter && !found.to_lowercase().eq(letter.to_lowercase()) {
                return None;
            }
            rest = chars.as_str();
        }
        rest = rest.strip_prefix(MARKS).unwrap_or(rest);
    }
    Some(text.len() - rest.len())
}

/// The answers of Winograd schemas are never possessive, even where the pronoun is.
fn without_possessive(noun: &str) -> &str {
    noun.strip_suffix('\'').or_else(|| noun.strip_suffix("'s")).unwrap_or(noun)
}

/// The sentence with one of its words between asterisks, and the mark behind it set off.
fn highlighted(sentence: &str, place: usize) -> String {
    let marked = |word: &str| match word.chars().next_back().filter(|last| MARKS.contains(last)) {
        Some(last) => format!("*{}* {last}", &word[..word.len() - last.len_utf8()]),
        None => format!("*{word}*"),
    };
    let words = sentence.split(' ').enumerate();
    let words = words.map(|(at, word)| if at == place { marked(word) } else { word.to_owned() });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(premise: &str, hypothesis: &str) -> (String, String) {
        let words = cleaned(premise);
        let found = best_match(&words, &cleaned(hypothesis)).unwrap();
        let targets = as_written(from_article(&found.candidate), hypothesis).unwrap();
        (highlighted(premise, words[found.word].place), without_possessive(targets).to_owned())
    }

    #[test]
    fn the_noun_is_what_stands_in_the_place_of_the_pronoun() {
        for (premise, hypothesis, inputs, targets) in [
            (
                "The fish ate the worm. It was tasty.",
                "The worm was tasty.",
                "The fish ate the worm. *It* was tasty.",
                "The worm",
            ),
            (
                "Mark told Pete many lies about himself, which Pete included in his book.",
                "Pete included in Mark's book.",
                "Mark told Pete many lies about himself, which Pete included in *his* book.",
                "Mark",
            ),
            (
                "The police arrested all of the gang members. They were trying to stop the drug trade.",
                "The police were trying to stop the drug trade.",
                "The police arrested all of the gang members. *They* were trying to stop the drug trade.",
                "The police",
            ),
            (
                "Jane knocked on Susan's door but there was no answer. She was out.",
                "Susan was out.",
                "Jane knocked on Susan's door but there was no answer. *She* was out.",
                "Susan",
            ),
            ("I saw  Ann and called her.", "I called Ann.", "I saw  Ann and called *her* .", "Ann"),
        ] {
            assert_eq!(answer(premise, hypothesis), (inputs.to_owned(), targets.to_owned()));
        }
    }

    #[test]
    fn a_sentence_without_a_pronoun_has_no_match() {
        assert!(best_match(&cleaned("Ann sleeps."), &cleaned("Ann sleeps.")).is_none());
    }
}

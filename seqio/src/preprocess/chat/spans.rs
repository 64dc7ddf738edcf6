//! Which stretches of a filled template count: what the model is to learn to say.
//!
//! ```text
//! <|user|>Hi<|assistant|>Ho</s><|user|>…     the template's own blocks, or what each turn adds
//!                        ^^^^^^               to the turns before it
//! ```

use std::ops::Range;

use super::LossOn;
use super::marks::Written;
use super::template::{Conversation, Template};

/// What to do where the template does not show what a turn adds.
const WHAT_TO_DO: &str = "mark in the template what counts, by `{% generation %}` … `{% endgeneration %}`";

/// The filled template with `turns` as they count.
pub(super) fn written(
    template: &Template,
    conversation: &Conversation,
    loss_on: LossOn,
    roles: &[String],
) -> Result<Written, String> {
    let count = conversation.messages.len();
    let mut written = template.fill(conversation, count, false)?;
    written.turns = match loss_on {
        LossOn::All => every(&written.text),
        _ if template.has_blocks => std::mem::take(&mut written.turns),
        LossOn::Assistant | LossOn::Last => {
            let spoken = |place: &usize| {
                let role = conversation.messages[*place].get_attr("role").ok();
                role.and_then(|role| role.to_str()).is_some_and(|role| roles.iter().any(|it| **it == *role))
            };
            let mut places: Vec<usize> = (0..count).filter(spoken).collect();
            if loss_on == LossOn::Last {
                places.drain(..places.len().saturating_sub(1));
            }
            places
                .into_iter()
                .map(|place| turn(template, conversation, place, &written.text))
                .collect::<Result<_, _>>()?
        }
    };
    if loss_on == LossOn::Last {
        written.turns.drain(..written.turns.len().saturating_sub(1));
    }
    Ok(written)
}

/// What of a conversation is written after its first `prompt` messages.
pub(super) fn completion(
    template: &Template,
    conversation: &Conversation,
    prompt: usize,
    loss_on: LossOn,
) -> Result<Written, String> {
    let count = conversation.messages.len();
    let mut written = template.fill(conversation, count, false)?;
    written.turns = match loss_on {
        LossOn::All => every(&written.text),
        LossOn::Assistant | LossOn::Last => {
            let before = template.fill(conversation, prompt, true)?.text;
            if !written.text.starts_with(&before) {
                return Err(format!(
                    "the template writes prompt and completion otherwise than the prompt alone with \
                     `add_generation_prompt` ({}); {WHAT_TO_DO} and give all messages in one column",
                    difference(&before, &written.text)
                ));
            }
            every_from(before.len(), &written.text)
        }
    };
    Ok(written)
}

/// All of a text.
fn every(text: &str) -> Vec<Range<usize>> {
    every_from(0, text)
}

fn every_from(start: usize, text: &str) -> Vec<Range<usize>> {
    std::iter::once(start..text.len()).collect()
}

/// What the message at `place` adds to those before it and to the words that prompt for it.
fn turn(
    template: &Template,
    conversation: &Conversation,
    place: usize,
    whole: &str,
) -> Result<Range<usize>, String> {
    let number = place + 1;
    let before = template
        .fill(conversation, place, true)
        .map_err(|problem| format!("the messages before message {number} alone: {problem}; {WHAT_TO_DO}"))?;
    let with = match number == conversation.messages.len() {
        true => whole.to_owned(),
        false => template.fill(conversation, number, false)?.text,
    };
    if !with.starts_with(&before.text) {
        return Err(format!(
            "the template does not write message {number} behind what it writes for those before it with \
             `add_generation_prompt` ({}), so it cannot be told where the turn begins; {WHAT_TO_DO}",
            difference(&before.text, &with)
        ));
    }
    if !whole.starts_with(&with) {
        return Err(format!(
            "the template writes the first {number} messages otherwise when more follow ({}), so it cannot be told \
             where the turn of message {number} is; {WHAT_TO_DO}, or let `loss_on = \"last\"` count the last turn alone",
            difference(&with, whole)
        ));
    }
    Ok(before.text.len()..with.len())
}

/// Where two texts part, in words.
fn difference(one: &str, other: &str) -> String {
    let same = one.chars().zip(other.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
    let excerpt = |text: &str| {
        let rest: String = text[same..].chars().take(24).collect();
        if rest.is_empty() { "its end".to_owned() } else { format!("{rest:?}") }
    };
    let shared: String = one[..same].chars().rev().take(16).collect::<Vec<_>>().into_iter().rev().collect();
    format!("after {shared:?} comes {} and not {}", excerpt(other), excerpt(one))
}

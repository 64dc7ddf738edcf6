//! Running the `tokenizers` crate's pipeline, for the kinds of vocabulary that stand on it.
//!
//! ```text
//! text  ->  the crate's own loop, or step by step where that is not the one for it  ->  ids
//! ```

use std::cell::RefCell;

use tokenizers::pipeline::{EncodeOptions, Override, PipelineToken, PipelineTokenizer};

use crate::caught::caught;
use crate::vocabulary::VocabularyError;
use crate::vocabulary::tokenizer_json::Steps;

/// Appends what `encode` gives, by a buffer that the thread keeps.
pub(super) fn append_ids(
    ids: &mut Vec<i32>,
    encode: impl FnOnce(&mut Vec<PipelineToken>) -> Result<(), VocabularyError>,
) -> Result<(), VocabularyError> {
    thread_local! {
        static TOKENS: RefCell<Vec<PipelineToken>> = const { RefCell::new(Vec::new()) };
    }
    // Longer buffers are not kept for the next text.
    const KEPT_TOKENS: usize = 1 << 20;

    let mut tokens = TOKENS.take();
    tokens.clear();
    encode(&mut tokens)?;
    // Every id is below 2^24, as was checked when the vocabulary was opened.
    ids.extend(PipelineToken::cast_slice(&tokens).iter().map(|id| *id as i32));
    if tokens.capacity() <= KEPT_TOKENS {
        TOKENS.set(tokens);
    }
    Ok(())
}

/// Runs the crate's encoder. A file with a damaged table can make it panic, which becomes the error `damaged` here.
pub(super) fn encode(
    pipeline: &PipelineTokenizer,
    steps: &Steps,
    damaged: &str,
    text: &str,
    tokens: &mut Vec<PipelineToken>,
) -> Result<(), VocabularyError> {
    const OPTIONS: EncodeOptions = EncodeOptions {
        add_special_tokens: false,
        encode_special_tokens: false,
        padding: Override::Off,
        truncation: Override::Off,
    };
    or_words(damaged, tokens, |tokens| match steps.are_needed_for(text) {
        false => pipeline.encode_into(text, &OPTIONS, tokens),
        true => steps.encode(pipeline, text, tokens),
    })
}

/// Runs the crate's steps one by one, and tells at which byte of the text each token begins.
pub(super) fn encode_with_starts(
    pipeline: &PipelineTokenizer,
    steps: &Steps,
    damaged: &str,
    text: &str,
    tokens: &mut Vec<PipelineToken>,
    starts: &mut Vec<usize>,
) -> Result<(), VocabularyError> {
    or_words(damaged, tokens, |tokens| steps.encode_with_starts(pipeline, text, tokens, starts))
}

/// Makes words of what the crate's encoder says, or of its panic.
fn or_words(
    damaged: &str,
    tokens: &mut Vec<PipelineToken>,
    encode: impl FnOnce(&mut Vec<PipelineToken>) -> tokenizers::Result<()>,
) -> Result<(), VocabularyError> {
    let encoded = caught(|| encode(tokens));
    let problem = match encoded {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => plain_words(&error.to_string()),
        Err(_) => damaged.to_owned(),
    };
    *tokens = Vec::new();
    Err(VocabularyError::Encode { problem })
}

/// The crate's message without its advice, which is for its own users.
pub(super) fn plain_words(message: &str) -> String {
    message
        .split(". Convert the config offline")
        .next()
        .unwrap_or(message)
        .replace("the slim JSON reader", "the reader")
}

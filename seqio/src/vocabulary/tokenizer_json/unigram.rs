//! Long words of a unigram model, with the ids and a tenth of the memory of the crate's own search.
//!
//! The best path is found as the crate finds it: scores are added from the left in double precision, a later path
//! replaces an equal one never, an unknown character costs 10 more than the worst piece, unknown characters in a row
//! are one token. What differs is that a place keeps six bytes instead of a hundred.

use std::collections::BTreeMap;

use tokenizers::models::unigram::Unigram;
use tokenizers::pipeline::PipelineToken;

use crate::vocabulary::trie::Trie;

/// How much worse than the worst piece an unknown character is.
const UNKNOWN_PENALTY: f64 = 10.0;

/// What is needed to cut words into the pieces of one model.
pub(super) struct Pieces {
    trie: Trie,
    /// By id.
    scores: Vec<f64>,
}

/// The best path so far to a place of the word.
#[derive(Clone, Copy)]
struct Best {
    score: f64,
    /// Of its last piece; 0 where no path has come yet.
    length: u16,
    id: u32,
}

const NONE: Best = Best { score: 0.0, length: 0, id: 0 };

impl Pieces {
    /// Nothing for a model that is too large for the trie.
    pub(super) fn new(model: &Unigram) -> Option<Self> {
        let mut ids: BTreeMap<&[u8], u32> = BTreeMap::new();
        for (piece, _) in model.vocab().iter().filter(|(piece, _)| !piece.is_empty()) {
            // Of two pieces that are spelled alike, the crate knows one.
            ids.insert(piece.as_bytes(), model.token_to_id(piece)?);
        }
        let scores = model.vocab().iter().map(|(_, score)| *score).collect();
        Some(Self { trie: Trie::build(&ids)?, scores })
    }

    /// Appends the ids of `word`; nothing where the model has no unknown id and needs one.
    pub(super) fn encode(&self, model: &Unigram, word: &str, tokens: &mut Vec<PipelineToken>) -> Option<()> {
        let unknown = model.unk_id().map(|id| id as u32);
        let mut steps: Vec<(u16, u32)> = Vec::with_capacity(word.len());
        self.search(model, word, unknown, &mut steps)?;

        // From the end to the start, and then turned round.
        let first = tokens.len();
        let mut end = word.len();
        let mut unknown_to = None;
        while end > 0 {
            let (length, id) = steps[end - 1];
            let start = end - usize::from(length);
            match Some(id) == unknown {
                true => unknown_to = unknown_to.or(Some(end)),
                false => {
                    if let Some(to) = unknown_to.take() {
                        push_unknown(model, &word[end..to], unknown?, tokens);
                    }
                    tokens.push(id.into());
                }
            }
            end = start;
        }
        if let Some(to) = unknown_to {
            push_unknown(model, &word[..to], unknown?, tokens);
        }
        tokens[first..].reverse();
        Some(())
    }

    /// For each place of the word but the first, the length and id of the last piece of the best path to it.
    fn search(
        &self,
        model: &Unigram,
        word: &str,
        unknown: Option<u32>,
        steps: &mut Vec<(u16, u32)>,
    ) -> Option<()> {
        let unknown_score = model.min_score - UNKNOWN_PENALTY;
        // The places that a piece can reach from where the search is, round and round.
        let mut reach = vec![NONE; self.trie.max_len().max(4) + 1];
        let places = reach.len();
        let bytes = word.as_bytes();
        for (at, character) in word.char_indices() {
            let here = reach[at % places].score;
            let mut offer = |length: usize, score: f64, id: u32| {
                let best = &mut reach[(at + length) % places];
                if best.length == 0 || here + score > best.score {
                    *best = Best { score: here + score, length: length as u16, id };
                }
            };
            let width = character.len_utf8();
            let mut is_known = false;
            let mut place = self.trie.root();
            for (before, &byte) in bytes[at..].iter().enumerate() {
                let Some((next, id)) = self.trie.step(place, byte) else { break };
                if let Some(id) = id {
                    offer(before + 1, self.scores[id as usize], id);
                    is_known |= before + 1 == width;
                }
                place = next;
            }
            if !is_known {
                offer(width, unknown_score, unknown?);
            }
            reach[at % places] = NONE;
            // Places inside the character are no ends of pieces.
            for passed in at + 1..=at + width {
                let Best { length, id, .. } = reach[passed % places];
                steps.push((length, id));
            }
        }
        Some(())
    }
}

/// A run of unknown characters, of which the end is pushed first.
fn push_unknown(model: &Unigram, run: &str, unknown: u32, tokens: &mut Vec<PipelineToken>) {
    if let Some(id) = model.token_to_id(run) {
        return tokens.push(id.into());
    }
    let bytes: Option<Vec<u32>> = match model.byte_fallback() {
        true => run.bytes().rev().map(|byte| model.token_to_id(&format!("<0x{byte:02X}>"))).collect(),
        false => None,
    };
    match bytes {
        Some(ids) => tokens.extend(ids.into_iter().map(PipelineToken::from)),
        None => tokens.push(unknown.into()),
    }
}

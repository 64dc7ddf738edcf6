//! The unigram model: of all ways to cut a text into pieces, the one with the best sum of scores.
//!
//! Sums are kept in 32-bit floats in the order SentencePiece adds them, because ties (`----`) are decided by rounding.
//! A place that no piece reaches over ends a *stretch*: every path goes through it, so the best path up to it is
//! written out and forgotten, and only the sum is carried on.
//!
//! ```text
//! "▁hello▁world"   stretches "▁hello", "▁world"
//! ```
//!
//! Words that were met before are not searched again. How a word is cut may depend on the sum before it, by rounding,
//! but only if another way is nearly as good; so each word is remembered with its *margin*, how much better its best
//! path is than any other, and searched again when rounding could make up for that.

use std::collections::BTreeMap;

use crate::vocabulary::VocabularyError;
use crate::vocabulary::sentencepiece::lattice::Lattice;
use crate::vocabulary::sentencepiece::pieces::{Kind, Pieces};
use crate::vocabulary::sentencepiece::sink::Sink;
use crate::vocabulary::sentencepiece::utf8::lead_len;
use crate::vocabulary::sentencepiece::word_cache::{MAX_WORD, WordCache};
use crate::vocabulary::sentencepiece::words::Boundary;
use crate::vocabulary::sentencepiece::{Arithmetic, TooLarge, malformed};
use crate::vocabulary::trie::Trie;

/// How much worse than the worst piece a character without a piece is.
const UNKNOWN_PENALTY: f32 = 10.0;
/// SentencePiece 0.2.3 moves sums back to zero when they leave this range.
const RESET_ABOVE: f32 = 100_000.0;
/// How far apart two ways to cut a word may drift by rounding, as a part of the largest sum: each of up to `MAX_WORD`
/// additions is off by up to half a unit in the last place, on both ways. One more for good measure.
const ROUNDING: f32 = (MAX_WORD + 1) as f32 * f32::EPSILON;

/// A unigram model.
#[derive(Debug)]
pub(super) struct Unigram {
    trie: Trie,
    scores: Scores,
    unknown_score: f32,
    /// The farthest that a word of `MAX_WORD` bytes can move a sum.
    word_range: f32,
    boundary: Boundary,
}

/// The score of every id.
#[derive(Debug)]
enum Scores {
    /// As 0.2.3 adds them.
    Single(Vec<f32>),
    /// As 0.2.0 does: the sum of a path and a piece is compared in double precision, and kept in single.
    Double(Vec<f64>),
}

impl Scores {
    fn get(&self, id: u32) -> f32 {
        match self {
            Self::Single(scores) => scores[id as usize],
            Self::Double(scores) => scores[id as usize] as f32,
        }
    }
}

/// Memory of one encoding, to be used again.
#[derive(Debug)]
pub(super) struct Search {
    lattice: Lattice,
    cache: WordCache,
}

impl Search {
    pub(super) fn new() -> Self {
        Self { lattice: Lattice::default(), cache: WordCache::new() }
    }

    /// Gives back what an unusually long text took.
    pub(super) fn trim(&mut self) {
        self.lattice.trim();
    }
}

/// How scores are added and compared.
trait Addition {
    type Score: Copy + Into<f64>;
    type Sum: Copy;
    const RESETS: bool;
    fn sum(path: f32, piece: Self::Score) -> Self::Sum;
    fn beats(sum: Self::Sum, best: f32) -> bool;
    fn keep(sum: Self::Sum) -> f32;
}

struct Single;

impl Addition for Single {
    type Score = f32;
    type Sum = f32;
    const RESETS: bool = true;

    fn sum(path: f32, piece: f32) -> f32 {
        piece + path
    }

    fn beats(sum: f32, best: f32) -> bool {
        sum > best
    }

    fn keep(sum: f32) -> f32 {
        sum
    }
}

struct Double;

impl Addition for Double {
    type Score = f64;
    type Sum = f64;
    const RESETS: bool = false;

    fn sum(path: f32, piece: f64) -> f64 {
        piece + f64::from(path)
    }

    fn beats(sum: f64, best: f32) -> bool {
        sum > f64::from(best)
    }

    fn keep(sum: f64) -> f32 {
        sum as f32
    }
}

impl Unigram {
    /// Indexes the pieces; those of `matched` are user-defined pieces or treated as such.
    pub(super) fn build(
        pieces: &Pieces,
        matched: &BTreeMap<&[u8], u32>,
        arithmetic: Arithmetic,
    ) -> Result<Self, VocabularyError> {
        if pieces.of(&[Kind::Normal, Kind::UserDefined, Kind::Unused]).next().is_none() {
            return Err(malformed("the SentencePiece model has no piece that text could become"));
        }
        let normal = || pieces.of(&[Kind::Normal]);
        let min_score = normal().map(|(_, piece)| piece.score).fold(f32::MAX, f32::min);
        let max_score = normal().map(|(_, piece)| piece.score).fold(f32::MIN_POSITIVE, f32::max);
        let unknown_score = min_score - UNKNOWN_PENALTY;
        let scores = match arithmetic {
            Arithmetic::V0_2_3 => {
                let mut scores: Vec<f32> = pieces.list.iter().map(|piece| piece.score).collect();
                for (text, id) in matched {
                    scores[*id as usize] = (0.1 * (text.len() as f64 - 1.0)) as f32;
                }
                Scores::Single(scores)
            }
            Arithmetic::V0_2_0 => {
                let mut scores: Vec<f64> = pieces.list.iter().map(|piece| f64::from(piece.score)).collect();
                for (text, id) in matched {
                    scores[*id as usize] = f64::from(text.len() as f32 * max_score) - 0.1;
                }
                Scores::Double(scores)
            }
        };
        let mut strings: BTreeMap<&[u8], u32> =
            normal().map(|(id, piece)| (piece.text.as_bytes(), id)).collect();
        strings.extend(matched.iter().map(|(text, id)| (*text, *id)));
        let texts: Vec<&str> = strings.values().map(|id| &*pieces.list[*id as usize].text).collect();
        let boundary = Boundary::of(&texts);
        let trie = Trie::build(&strings).ok_or(TooLarge)?;
        let largest = strings.values().map(|id| scores.get(*id).abs()).fold(unknown_score.abs(), f32::max);
        let word_range = MAX_WORD as f32 * largest;
        Ok(Self { trie, scores, unknown_score, word_range, boundary })
    }

    /// Cuts normalized text into pieces. Behind the text lie `PADDING` bytes.
    pub(super) fn encode(&self, padded: &[u8], search: &mut Search, sink: &mut Sink<'_>) {
        match &self.scores {
            Scores::Single(scores) => self.encode_by::<Single>(scores, padded, search, sink),
            Scores::Double(scores) => self.encode_by::<Double>(scores, padded, search, sink),
        }
    }

    fn encode_by<A: Addition>(
        &self,
        scores: &[A::Score],
        padded: &[u8],
        search: &mut Search,
        sink: &mut Sink<'_>,
    ) {
        let text = &padded[..padded.len() - super::PADDING];
        let (mut at, mut path) = (0, 0.0);
        while at < text.len() {
            let len = self.boundary.word_len(&text[at..]);
            let known = if len <= MAX_WORD {
                let window = padded[at..].first_chunk().expect("padding lies behind the text");
                self.encode_word::<A>(scores, window, len, path, &mut search.cache, sink)
            } else {
                None
            };
            path = match known {
                Some(path) => path,
                None => self.search::<A>(scores, &text[at..at + len], path, &mut search.lattice, sink),
            };
            at += len;
        }
    }

    /// Encodes a short word without a search from this sum on, if no rounding can change how it is cut; the new sum.
    #[inline]
    fn encode_word<A: Addition>(
        &self,
        scores: &[A::Score],
        window: &[u8; MAX_WORD],
        len: usize,
        path: f32,
        cache: &mut WordCache,
        sink: &mut Sink<'_>,
    ) -> Option<f32> {
        let largest = path.abs() + self.word_range;
        if A::RESETS && largest >= RESET_ABOVE {
            return None;
        }
        let slot = cache.slot(window, len);
        if cache.get(&slot).is_none() {
            let (ids, margin) = self.best_with_margin::<A>(scores, &window[..len])?;
            cache.put(&slot, &ids, margin);
        }
        let (ids, margin) = cache.get(&slot)?;
        if margin <= ROUNDING * largest {
            return None;
        }
        let mut path = path;
        for &id in ids {
            path = A::keep(A::sum(path, scores[id as usize]));
            sink.push(id);
        }
        Some(path)
    }

    /// The best way to cut a word by exact sums, and how much worse the best other one is; `None` if it has characters
    /// without a piece.
    fn best_with_margin<A: Addition>(&self, scores: &[A::Score], word: &[u8]) -> Option<(Vec<u32>, f32)> {
        #[derive(Clone, Copy)]
        struct Best {
            score: f64,
            second: f64,
            start: usize,
            id: Option<u32>,
        }
        const UNREACHED: Best =
            Best { score: f64::NEG_INFINITY, second: f64::NEG_INFINITY, start: 0, id: None };
        let mut best = [UNREACHED; MAX_WORD + 4];
        best[0].score = 0.0;
        let mut at = 0;
        while at < word.len() {
            let path = best[at].score;
            let mut reach = |end: usize, score: f64, id: Option<u32>| {
                let node = &mut best[end];
                if score > node.score {
                    *node = Best { score, second: node.score, start: at, id };
                } else {
                    node.second = node.second.max(score);
                }
            };
            let char_len = lead_len(word[at]).min(word.len() - at);
            let mut has_char = false;
            let mut place = self.trie.root();
            for (&byte, end) in word[at..].iter().zip(at + 1..) {
                let Some((next, value)) = self.trie.step(place, byte) else { break };
                place = next;
                if let Some(id) = value {
                    reach(end, path + scores[id as usize].into(), Some(id));
                    has_char |= end == at + char_len;
                }
            }
            if !has_char {
                reach(at + char_len, path + f64::from(self.unknown_score), None);
            }
            at += char_len;
        }
        let (mut ids, mut margin) = (Vec::new(), f64::INFINITY);
        let mut at = word.len();
        while at > 0 {
            let node = best[at];
            margin = margin.min(node.score - node.second);
            ids.push(node.id?);
            at = node.start;
        }
        ids.reverse();
        Some((ids, margin as f32))
    }

    /// Cuts a text that begins and ends where all paths meet, from a sum of scores on; the new sum.
    fn search<A: Addition>(
        &self,
        scores: &[A::Score],
        text: &[u8],
        score: f32,
        lattice: &mut Lattice,
        sink: &mut Sink<'_>,
    ) -> f32 {
        // Room for the longest piece, or a character, from any place.
        let reach = self.trie.max_len().max(4) + 1;
        // The stretch begins at `base`; `at` and `frontier`, the farthest place reached, count from there.
        let (mut base, mut at, mut frontier) = (0, 0, 0);
        lattice.begin(score);
        while base + at < text.len() {
            if at == frontier && at > 0 {
                let score = lattice.finish(&text[base..], at, frontier, &self.trie, sink);
                lattice.begin(score);
                (base, at, frontier) = (base + at, 0, 0);
            } else if lattice.is_long(at) {
                let forgotten = lattice.shrink(&text[base..], at, frontier, &self.trie, sink);
                (base, at, frontier) = (base + forgotten, at - forgotten, frontier - forgotten);
            }
            let nodes = lattice.from(at, reach);
            let mut path = nodes[0].score;
            if A::RESETS && path.abs() > RESET_ABOVE {
                nodes[0].score = 0.0;
                for node in nodes[1..=frontier - at].iter_mut().filter(|node| node.is_reached()) {
                    node.score -= path;
                }
                path = 0.0;
            }
            let rest = &text[base + at..];
            let char_len = lead_len(rest[0]).min(rest.len());
            let (mut has_char, mut farthest) = (false, 0);
            let mut place = self.trie.root();
            for (&byte, end) in rest.iter().zip(1..) {
                let Some((next, value)) = self.trie.step(place, byte) else { break };
                place = next;
                let Some(id) = value else { continue };
                let sum = A::sum(path, scores[id as usize]);
                let node = &mut nodes[end];
                if !node.is_reached() || A::beats(sum, node.score) {
                    node.reach(A::keep(sum), at as u32, Some(id));
                }
                has_char |= end == char_len;
                farthest = end;
            }
            if !has_char {
                let sum = self.unknown_score + path;
                let node = &mut nodes[char_len];
                if !node.is_reached() || sum > node.score {
                    node.reach(sum, at as u32, None);
                }
                farthest = farthest.max(char_len);
            }
            frontier = frontier.max(at + farthest);
            at += char_len;
        }
        lattice.finish(&text[base..], at, frontier.max(at), &self.trie, sink)
    }
}

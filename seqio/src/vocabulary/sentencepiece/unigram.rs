//! The unigram model: of all ways to cut a text into pieces, the one with the best sum of scores.
//!
//! Sums are kept in 32-bit floats in the order SentencePiece adds them, because ties (`----`) are decided by rounding.
//! A place that no piece reaches over ends a *stretch*: every path goes through it, so the best path up to it is
//! written out and forgotten, and only the sum is carried on. Where stretches get long (20 MB of `a`), the common
//! beginning of all paths still alive is written out instead, so memory follows the longest piece, not the text.
//!
//! ```text
//! "▁hello▁world"   stretches "▁hello", "▁world"
//! ```

use std::collections::BTreeMap;

use crate::vocabulary::VocabularyError;
use crate::vocabulary::sentencepiece::pieces::{Kind, Pieces};
use crate::vocabulary::sentencepiece::sink::Sink;
use crate::vocabulary::sentencepiece::utf8::lead_len;
use crate::vocabulary::sentencepiece::{Arithmetic, TooLarge, malformed};
use crate::vocabulary::trie::Trie;

/// How much worse than the worst piece a character without a piece is.
const UNKNOWN_PENALTY: f32 = 10.0;
/// SentencePiece 0.2.3 moves sums back to zero when they leave this range.
const RESET_ABOVE: f32 = 100_000.0;
/// A stretch of this many bytes is worth a look for what all its paths share.
const LONG_STRETCH: usize = 1 << 16;
/// `Node::start` where no path has arrived.
const NOWHERE: u32 = u32::MAX;
/// `Node::id` of a character without a piece.
const UNKNOWN: u32 = u32::MAX;

/// A unigram model.
#[derive(Debug)]
pub(super) struct Unigram {
    trie: Trie,
    scores: Scores,
    unknown_score: f32,
}

/// The score of every id.
#[derive(Debug)]
enum Scores {
    /// As 0.2.3 adds them.
    Single(Vec<f32>),
    /// As 0.2.0 does: the sum of a path and a piece is compared in double precision, and kept in single.
    Double(Vec<f64>),
}

/// The best path to a place in the stretch.
#[derive(Clone, Copy, Debug)]
struct Node {
    score: f32,
    /// Where its last piece begins, from the start of the stretch.
    start: u32,
    id: u32,
}

const UNREACHED: Node = Node { score: 0.0, start: NOWHERE, id: UNKNOWN };

/// Memory of one encoding, to be used again.
#[derive(Debug, Default)]
pub(super) struct Lattice {
    nodes: Vec<Node>,
    path: Vec<(u32, u32)>,
}

impl Lattice {
    /// Gives back what an unusually long text took.
    pub(super) fn trim(&mut self) {
        self.nodes.truncate(LONG_STRETCH);
        self.nodes.shrink_to(LONG_STRETCH);
        self.path = Vec::new();
    }
}

/// How scores are added and compared.
trait Addition {
    type Score: Copy;
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
        let normal = || pieces.of(&[Kind::Normal]);
        let mut strings: BTreeMap<&[u8], u32> =
            normal().map(|(id, piece)| (piece.text.as_bytes(), id)).collect();
        strings.extend(matched.iter().map(|(text, id)| (*text, *id)));
        if pieces.of(&[Kind::Normal, Kind::UserDefined, Kind::Unused]).next().is_none() {
            return Err(malformed("the SentencePiece model has no piece that text could become"));
        }
        let min_score = normal().map(|(_, piece)| piece.score).fold(f32::MAX, f32::min);
        let max_score = normal().map(|(_, piece)| piece.score).fold(f32::MIN_POSITIVE, f32::max);
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
        let trie = Trie::build(&strings).ok_or(TooLarge)?;
        Ok(Self { trie, scores, unknown_score: min_score - UNKNOWN_PENALTY })
    }

    /// Cuts normalized text into pieces.
    pub(super) fn encode(&self, text: &[u8], lattice: &mut Lattice, sink: &mut Sink<'_>) {
        match &self.scores {
            Scores::Single(scores) => self.run::<Single>(scores, text, lattice, sink),
            Scores::Double(scores) => self.run::<Double>(scores, text, lattice, sink),
        }
    }

    fn run<A: Addition>(&self, scores: &[A::Score], text: &[u8], lattice: &mut Lattice, sink: &mut Sink<'_>) {
        // Room for the longest piece, or a character, from any place.
        let reach = self.trie.max_len().max(4) + 1;
        let mut long = LONG_STRETCH;
        // The stretch begins at `base`; `at` and `frontier`, the farthest place reached, count from there.
        let (mut base, mut at, mut frontier) = (0, 0, 0);
        if lattice.nodes.len() < reach {
            lattice.nodes.resize(reach, UNREACHED);
        }
        lattice.nodes[0] = Node { score: 0.0, ..UNREACHED };
        while base + at < text.len() {
            if at == frontier && at > 0 {
                let score = lattice.nodes[at].score;
                lattice.write(&text[base..], at, sink);
                lattice.nodes[..=at].fill(UNREACHED);
                lattice.nodes[0].score = score;
                (base, at, frontier, long) = (base + at, 0, 0, LONG_STRETCH);
            } else if at >= long {
                let shared = lattice.shared_beginning(at, frontier);
                if shared > 0 {
                    lattice.write(&text[base..], shared, sink);
                    lattice.forget(shared, frontier);
                    (base, at, frontier) = (base + shared, at - shared, frontier - shared);
                }
                long = LONG_STRETCH.max(2 * at);
            }
            if lattice.nodes.len() < at + reach {
                lattice.nodes.resize(2 * (at + reach), UNREACHED);
            }
            let nodes = &mut lattice.nodes[at..at + reach];
            let mut path = nodes[0].score;
            if A::RESETS && path.abs() > RESET_ABOVE {
                nodes[0].score = 0.0;
                for node in &mut nodes[1..=frontier - at] {
                    if node.start != NOWHERE {
                        node.score -= path;
                    }
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
                if node.start == NOWHERE || A::beats(sum, node.score) {
                    *node = Node { score: A::keep(sum), start: at as u32, id };
                }
                has_char |= end == char_len;
                farthest = end;
            }
            if !has_char {
                let sum = self.unknown_score + path;
                let node = &mut nodes[char_len];
                if node.start == NOWHERE || sum > node.score {
                    *node = Node { score: sum, start: at as u32, id: UNKNOWN };
                }
                farthest = farthest.max(char_len);
            }
            frontier = frontier.max(at + farthest);
            at += char_len;
        }
        lattice.write(&text[base..], at, sink);
        let used = frontier.max(at);
        lattice.nodes[..=used].fill(UNREACHED);
    }
}

impl Lattice {
    /// Writes the best path from the start of the stretch, which is `text`'s start, to `end`.
    fn write(&mut self, text: &[u8], end: usize, sink: &mut Sink<'_>) {
        self.path.clear();
        let mut at = end;
        while at > 0 {
            let node = self.nodes[at];
            debug_assert!((node.start as usize) < at, "every place that is asked for was reached");
            self.path.push((node.start, node.id));
            at = (node.start as usize).min(at - 1);
        }
        let mut ends = self.path.iter().rev().skip(1).map(|(start, _)| *start as usize).chain([end]);
        for (start, id) in self.path.iter().rev() {
            let end = ends.next().unwrap_or(end);
            if *id == UNKNOWN {
                sink.push_unknown(&text[*start as usize..end]);
            } else {
                sink.push(*id);
            }
        }
    }

    /// The last place that all paths which are still alive go through: those to `at` and beyond.
    fn shared_beginning(&self, at: usize, frontier: usize) -> usize {
        let mut alive = vec![false; frontier + 1];
        let mut count = 0;
        for place in at..=frontier {
            if place == at || self.nodes[place].start != NOWHERE {
                alive[place] = true;
                count += 1;
            }
        }
        for place in (1..=frontier).rev() {
            if !alive[place] {
                continue;
            }
            if count == 1 {
                return place.min(at);
            }
            let start = self.nodes[place].start as usize;
            count -= 1;
            if !std::mem::replace(&mut alive[start], true) {
                count += 1;
            }
        }
        0
    }

    /// Moves the stretch's start to `shared`.
    fn forget(&mut self, shared: usize, frontier: usize) {
        self.nodes.copy_within(shared..=frontier, 0);
        let kept = frontier - shared;
        for node in &mut self.nodes[1..=kept] {
            if node.start != NOWHERE {
                // Paths that left the shared one earlier are dead: nobody will follow them.
                node.start = node.start.saturating_sub(shared as u32);
            }
        }
        self.nodes[0].start = NOWHERE;
        self.nodes[kept + 1..=frontier].fill(UNREACHED);
    }
}

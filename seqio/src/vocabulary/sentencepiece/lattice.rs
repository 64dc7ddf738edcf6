//! The best paths to every place of a stretch of text, as far as they are still needed.
//!
//! A stretch begins where all paths meet. Its last places are kept whole, in a *window*; of older ones only the length
//! of the best last piece is kept, two bytes each, until a place is found that all living paths go through. Then the
//! stretch up to there is written out and forgotten.

use crate::vocabulary::sentencepiece::sink::Sink;
use crate::vocabulary::trie::Trie;

/// The window is looked through for a meeting of all paths whenever it has grown by this many bytes.
const WINDOW: usize = 1 << 15;
/// `Node::start` where no path has arrived.
const NOWHERE: u32 = u32::MAX;

/// The best path to a place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) score: f32,
    /// Where its last piece begins, from the start of the stretch; `NOWHERE` if there is no path yet.
    start: u32,
    /// Its last piece; `None` is a character without a piece.
    id: Option<NonMaxId>,
}

/// An id, packed so that `Option` needs no room of its own.
type NonMaxId = std::num::NonZeroU32;

const UNREACHED: Node = Node { score: 0.0, start: NOWHERE, id: None };

impl Node {
    #[inline]
    pub(super) fn is_reached(&self) -> bool {
        self.start != NOWHERE
    }

    #[inline]
    pub(super) fn reach(&mut self, score: f32, start: u32, id: Option<u32>) {
        *self = Self { score, start, id: id.and_then(|id| NonMaxId::new(id + 1)) };
    }
}

/// Memory of one search, to be used again.
#[derive(Debug, Default)]
pub(super) struct Lattice {
    /// Lengths of the last pieces at the places before the window; 0 where no path arrived.
    old: Vec<u16>,
    /// Nodes of the places from `old.len()` on, and unreached ones behind them.
    window: Vec<Node>,
    /// Ends of a path's pieces, the last first.
    ends: Vec<u32>,
}

impl Lattice {
    /// Begins a stretch with a sum of scores.
    pub(super) fn begin(&mut self, score: f32) {
        if self.window.is_empty() {
            self.window.push(UNREACHED);
        }
        self.window[0].score = score;
    }

    /// The nodes from a place on, `reach` of them.
    #[inline]
    pub(super) fn from(&mut self, at: usize, reach: usize) -> &mut [Node] {
        let first = at - self.old.len();
        if self.window.len() < first + reach {
            self.window.resize(2 * (first + reach), UNREACHED);
        }
        &mut self.window[first..first + reach]
    }

    /// Whether it is time for `shrink`.
    #[inline]
    pub(super) fn is_long(&self, at: usize) -> bool {
        at - self.old.len() >= WINDOW
    }

    /// Writes the best path to `end` and begins a new stretch there; the sum of its scores.
    pub(super) fn finish(
        &mut self,
        text: &[u8],
        end: usize,
        frontier: usize,
        trie: &Trie,
        sink: &mut Sink<'_>,
    ) -> f32 {
        let score = self.window[end - self.old.len()].score;
        self.write(text, end, trie, sink);
        let used = frontier - self.old.len();
        self.window[..=used].fill(UNREACHED);
        self.old.clear();
        score
    }

    /// Makes the window small again, `at` being the place whose pieces are looked up next. Returns how much of the
    /// stretch was written out and forgotten.
    pub(super) fn shrink(
        &mut self,
        text: &[u8],
        at: usize,
        frontier: usize,
        trie: &Trie,
        sink: &mut Sink<'_>,
    ) -> usize {
        if let Some(meeting) = self.meeting(at, frontier) {
            self.write(text, meeting, trie, sink);
            let first = meeting - self.old.len();
            let used = frontier - self.old.len();
            self.window.copy_within(first..=used, 0);
            self.window[used - first + 1..=used].fill(UNREACHED);
            self.window[0].start = NOWHERE;
            for node in self.window[1..=used - first].iter_mut().filter(|node| node.is_reached()) {
                // A path that left the common one earlier is dead: nobody will follow it.
                node.start = node.start.saturating_sub(meeting as u32);
            }
            self.old.clear();
            return meeting;
        }
        let (done, used) = (at - self.old.len(), frontier - self.old.len());
        let before = self.old.len();
        let lengths = self.window[..done].iter().enumerate().map(|(place, node)| {
            if node.is_reached() { (before + place - node.start as usize) as u16 } else { 0 }
        });
        self.old.extend(lengths);
        self.window.copy_within(done..=used, 0);
        self.window[used - done + 1..=used].fill(UNREACHED);
        0
    }

    /// The last place in the window that all living paths, those to `at` and beyond, go through.
    fn meeting(&self, at: usize, frontier: usize) -> Option<usize> {
        let before = self.old.len();
        let mut alive = vec![false; frontier - before + 1];
        let mut count = 0;
        for (place, alive) in alive.iter_mut().enumerate().skip(at - before) {
            if place == at - before || self.window[place].is_reached() {
                *alive = true;
                count += 1;
            }
        }
        for place in (1..alive.len()).rev() {
            if !alive[place] {
                continue;
            }
            if count == 1 {
                return (place <= at - before).then_some(before + place);
            }
            let start = (self.window[place].start as usize).checked_sub(before)?;
            if std::mem::replace(&mut alive[start], true) {
                count -= 1;
            }
        }
        None
    }

    /// Writes the best path from the start of the stretch, which is `text`'s start, to `end`.
    fn write(&mut self, text: &[u8], end: usize, trie: &Trie, sink: &mut Sink<'_>) {
        self.ends.clear();
        let mut at = end;
        while at > 0 {
            self.ends.push(at as u32);
            let start = match self.old.get(at) {
                Some(length) => at - usize::from(*length),
                None => self.window[at - self.old.len()].start as usize,
            };
            debug_assert!(start < at, "a path was followed to a place it never came to");
            at = start.min(at - 1);
        }
        let mut start = 0;
        for &end in self.ends.iter().rev() {
            let end = end as usize;
            let id = match end.checked_sub(self.old.len()) {
                Some(place) => self.window[place].id.map(|id| id.get() - 1),
                None => trie.get(&text[start..end]),
            };
            match id {
                Some(id) => sink.push(id),
                None => sink.push_unknown(&text[start..end]),
            }
            start = end;
        }
    }

    /// Gives back what an unusually long text took.
    pub(super) fn trim(&mut self) {
        self.window.truncate(2 * WINDOW);
        self.window.shrink_to(2 * WINDOW);
        (self.old, self.ends) = Default::default();
    }
}

//! The byte-pair model: characters are merged into pieces, the pair with the best score first, the leftmost of equals.
//!
//! ```text
//! "▁low▁lower"   words "▁low", "▁lower"   ->   ▁low | ▁low er
//! ```
//!
//! No merge crosses a place that no piece crosses, so a text is cut there first and the parts are merged by
//! themselves: into words where pieces hold spaces only at one end (nearly every model), and long words into *chunks*
//! between places that no piece in this text reaches over. Short parts are remembered.

use std::collections::BTreeMap;

use crate::vocabulary::VocabularyError;
use crate::vocabulary::sentencepiece::agenda::{Agenda, Heap, Lists};
use crate::vocabulary::sentencepiece::matcher::Matcher;
use crate::vocabulary::sentencepiece::pieces::{Kind, Pieces, SPACE};
use crate::vocabulary::sentencepiece::sink::Sink;
use crate::vocabulary::sentencepiece::utf8::lead_len;
use crate::vocabulary::sentencepiece::word_cache::{MAX_WORD, WordCache};
use crate::vocabulary::sentencepiece::words::Boundary;
use crate::vocabulary::sentencepiece::{Arithmetic, TooLarge};
use crate::vocabulary::trie::Trie;

/// Parts longer than this are merged with `Lists`.
const LONG_PART: usize = 1 << 15;
/// `pair` where two symbols make no piece.
const NO_PAIR: u32 = u32::MAX;
/// How often 0.2.3 takes the parts of an unused piece apart again.
const MAX_DEPTH: usize = 100;

/// A byte-pair model.
#[derive(Debug)]
pub(super) struct Bpe {
    trie: Trie,
    /// By id: the place of its score among all different scores, the best being 0.
    classes: Vec<u32>,
    num_classes: usize,
    boundary: Boundary,
    unused: Option<Unused>,
    unknown: Option<u32>,
    bytes: Option<Box<[u32; 256]>>,
    /// Bytes at which a word may end or a user-defined piece begin.
    stops: [bool; 256],
}

/// Pieces that are merged but taken apart again in the end.
#[derive(Debug)]
struct Unused {
    is_unused: Vec<bool>,
    arithmetic: Arithmetic,
}

/// Memory of one encoding, to be used again.
#[derive(Debug)]
pub(super) struct Merger {
    cache: WordCache,
    heap: Heap,
    /// At the first byte of each symbol: its bytes, the bytes of the one before it, and the class of the piece that it
    /// makes with the one after it.
    len: Vec<u16>,
    before: Vec<u16>,
    pair: Vec<u32>,
    ids: Vec<u32>,
    /// Only for models with unused pieces: symbols that may not be merged, and how unused pieces came about.
    frozen: Vec<bool>,
    halves: BTreeMap<u32, u16>,
}

impl Merger {
    pub(super) fn new() -> Self {
        Self {
            cache: WordCache::new(),
            heap: Heap::default(),
            len: Vec::new(),
            before: Vec::new(),
            pair: Vec::new(),
            ids: Vec::new(),
            frozen: Vec::new(),
            halves: BTreeMap::new(),
        }
    }

    /// Gives back what an unusually long text took.
    pub(super) fn trim(&mut self) {
        if self.len.capacity() > 2 * LONG_PART || self.ids.capacity() > 2 * LONG_PART {
            (self.len, self.before, self.pair, self.ids) = Default::default();
            self.frozen = Vec::new();
        }
    }
}

impl Bpe {
    /// Indexes the pieces.
    pub(super) fn build(
        pieces: &Pieces,
        matcher: Option<&Matcher>,
        arithmetic: Arithmetic,
    ) -> Result<Self, VocabularyError> {
        let merged = || pieces.of(&[Kind::Normal, Kind::Unused]);
        let strings: BTreeMap<&[u8], u32> = merged().map(|(id, piece)| (piece.text.as_bytes(), id)).collect();
        let mut by_score: Vec<(f32, u32)> = merged().map(|(id, piece)| (piece.score, id)).collect();
        if arithmetic == Arithmetic::V0_2_0 {
            // 0.2.0 compares scores as numbers, 0.2.3 by their bits: only there 0 beats -0.
            by_score.iter_mut().for_each(|(score, _)| *score += 0.0);
        }
        by_score.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut classes = vec![NO_PAIR; pieces.list.len()];
        let mut class = 0;
        for (at, (score, id)) in by_score.iter().enumerate() {
            if at > 0 && by_score[at - 1].0.to_bits() != score.to_bits() {
                class += 1;
            }
            classes[*id as usize] = class;
        }
        let has_unused = pieces.of(&[Kind::Unused]).next().is_some();
        let unused = has_unused.then(|| Unused {
            is_unused: pieces.list.iter().map(|piece| piece.kind == Kind::Unused).collect(),
            arithmetic,
        });
        let boundary = if unused.is_some() {
            // How an unused piece is taken apart may depend on another word.
            Boundary::None
        } else {
            Boundary::of(&merged().map(|(_, piece)| &*piece.text).collect::<Vec<_>>())
        };
        let stops = std::array::from_fn(|byte| {
            let byte = byte as u8;
            byte == SPACE.as_bytes()[0] || matcher.is_some_and(|matcher| matcher.begins_with(byte))
        });
        let trie = Trie::build(&strings).ok_or(TooLarge)?;
        let (unknown, bytes) = (pieces.unknown, pieces.bytes.clone());
        Ok(Self { trie, classes, num_classes: class as usize + 1, boundary, unused, unknown, bytes, stops })
    }

    /// Cuts normalized text into pieces. Behind the text lie `PADDING` bytes.
    pub(super) fn encode(
        &self,
        padded: &[u8],
        matcher: Option<&Matcher>,
        merger: &mut Merger,
        sink: &mut Sink<'_>,
    ) {
        let text = &padded[..padded.len() - super::PADDING];
        if self.unused.is_some() {
            return self.encode_whole(text, matcher, merger, sink);
        }
        let (mut start, mut at) = (0, 0);
        // Whether the word so far can be followed by a boundary.
        let mut has_other = false;
        let mut has_space = false;
        while at < text.len() {
            let byte = text[at];
            let mut len = 1;
            let mut is_space = false;
            if self.stops[usize::from(byte)] {
                if let Some((len, id)) = matcher.and_then(|matcher| matcher.longest_prefix(&text[at..])) {
                    self.encode_word(padded, start, at, merger, sink);
                    sink.push(id);
                    at += len;
                    (start, has_other, has_space) = (at, false, false);
                    continue;
                }
                len = lead_len(byte).min(text.len() - at);
                is_space = text[at..].starts_with(SPACE.as_bytes());
            }
            let ends = match self.boundary {
                Boundary::BeforeSpace => is_space && has_other,
                Boundary::AfterSpace => !is_space && has_space,
                Boundary::None => false,
            };
            if ends {
                self.encode_word(padded, start, at, merger, sink);
                (start, has_other, has_space) = (at, false, false);
            }
            has_other |= !is_space;
            has_space |= is_space;
            at += len;
        }
        self.encode_word(padded, start, text.len(), merger, sink);
    }

    /// Encodes a word, which no merge leaves.
    #[inline]
    fn encode_word(&self, padded: &[u8], start: usize, end: usize, merger: &mut Merger, sink: &mut Sink<'_>) {
        if end - start <= MAX_WORD {
            self.encode_short(padded, start, end, merger, sink);
        } else {
            self.encode_long(padded, start, end, merger, sink);
        }
    }

    #[inline]
    fn encode_short(
        &self,
        padded: &[u8],
        start: usize,
        end: usize,
        merger: &mut Merger,
        sink: &mut Sink<'_>,
    ) {
        if start == end {
            return;
        }
        let window = padded[start..].first_chunk().expect("padding lies behind the text");
        let slot = merger.cache.slot(window, end - start);
        if let Some((ids, _)) = merger.cache.get(&slot) {
            ids.iter().for_each(|id| sink.push(*id));
            return;
        }
        merger.ids.clear();
        self.merge(&padded[start..end], None, merger);
        merger.cache.put(&slot, &merger.ids, f32::INFINITY);
        merger.ids.iter().for_each(|id| sink.push(*id));
    }

    /// Cuts a long word where no piece reaches over.
    fn encode_long(&self, padded: &[u8], start: usize, end: usize, merger: &mut Merger, sink: &mut Sink<'_>) {
        let (mut chunk, mut at, mut frontier) = (start, start, start);
        while at < end {
            if at == frontier && at > chunk {
                self.encode_chunk(padded, chunk, at, merger, sink);
                chunk = at;
            }
            let rest = &padded[at..end];
            let char_len = lead_len(rest[0]).min(rest.len());
            let longest = self.trie.longest_prefix(rest, usize::MAX).map_or(0, |(length, _)| length);
            frontier = frontier.max(at + longest.max(char_len));
            at += char_len;
        }
        self.encode_chunk(padded, chunk, end, merger, sink);
    }

    fn encode_chunk(
        &self,
        padded: &[u8],
        start: usize,
        end: usize,
        merger: &mut Merger,
        sink: &mut Sink<'_>,
    ) {
        if end - start <= MAX_WORD {
            return self.encode_short(padded, start, end, merger, sink);
        }
        merger.ids.clear();
        self.merge(&padded[start..end], None, merger);
        merger.ids.iter().for_each(|id| sink.push(*id));
    }

    /// Encodes a text in one go, for models with unused pieces.
    fn encode_whole(&self, text: &[u8], matcher: Option<&Matcher>, merger: &mut Merger, sink: &mut Sink<'_>) {
        merger.ids.clear();
        self.merge(text, matcher, merger);
        merger.ids.iter().for_each(|id| sink.push(*id));
    }

    /// Appends the ids of a part to `merger.ids`.
    fn merge(&self, part: &[u8], matcher: Option<&Matcher>, merger: &mut Merger) {
        if part.len() > LONG_PART {
            let mut lists = Lists::new(self.num_classes);
            Merge { bpe: self, part, merger, matcher }.run(&mut lists);
        } else {
            let mut heap = std::mem::take(&mut merger.heap);
            Merge { bpe: self, part, merger, matcher }.run(&mut heap);
            merger.heap = heap;
        }
    }

    fn is_unused(&self, id: u32) -> bool {
        self.unused.as_ref().is_some_and(|unused| unused.is_unused[id as usize])
    }
}

/// One part on its way from characters to pieces.
struct Merge<'a> {
    bpe: &'a Bpe,
    part: &'a [u8],
    merger: &'a mut Merger,
    matcher: Option<&'a Matcher>,
}

impl Merge<'_> {
    fn run(&mut self, agenda: &mut impl Agenda) {
        self.split();
        let mut at = 0;
        while at < self.part.len() {
            self.pair_up(at, agenda);
            at += self.len(at);
        }
        while let Some((class, place)) = agenda.pop() {
            let left = place as usize;
            if self.merger.pair[left] != class {
                continue;
            }
            let right = left + self.len(left);
            self.merger.len[left] += self.merger.len[right];
            self.merger.pair[right] = NO_PAIR;
            let next = left + self.len(left);
            if next < self.part.len() {
                self.merger.before[next] = self.merger.len[left];
            }
            let before = usize::from(self.merger.before[left]);
            if before > 0 {
                self.pair_up(left - before, agenda);
            }
            self.pair_up(left, agenda);
        }
        self.write();
    }

    fn len(&self, at: usize) -> usize {
        usize::from(self.merger.len[at])
    }

    /// Makes a symbol of every character, and of every user-defined piece.
    fn split(&mut self) {
        let Merger { len, before, pair, frozen, halves, .. } = &mut *self.merger;
        for list in [&mut *len, &mut *before] {
            list.clear();
            list.resize(self.part.len(), 0);
        }
        pair.clear();
        pair.resize(self.part.len(), NO_PAIR);
        if self.bpe.unused.is_some() {
            frozen.clear();
            frozen.resize(self.part.len(), false);
            halves.clear();
        }
        let (mut at, mut last) = (0, 0);
        while at < self.part.len() {
            let rest = &self.part[at..];
            let found = self.matcher.and_then(|matcher| matcher.longest_prefix(rest));
            let symbol = found.map_or_else(|| lead_len(rest[0]).min(rest.len()), |(length, _)| length);
            if found.is_some() {
                frozen[at] = true;
            }
            len[at] = symbol as u16;
            before[at] = last;
            last = symbol as u16;
            at += symbol;
        }
    }

    /// Looks up the piece that the symbol at `left` and the next one make, and queues it if there is one.
    fn pair_up(&mut self, left: usize, agenda: &mut impl Agenda) {
        let right = left + self.len(left);
        self.merger.pair[left] = NO_PAIR;
        if right >= self.part.len() {
            return;
        }
        let Some(id) = self.bpe.trie.get(&self.part[left..right + self.len(right)]) else { return };
        if self.bpe.unused.is_some() {
            if self.merger.frozen[left] || self.merger.frozen[right] {
                return;
            }
            if self.bpe.is_unused(id) {
                self.merger.halves.insert(id, self.merger.len[left]);
            }
        }
        let class = self.bpe.classes[id as usize];
        self.merger.pair[left] = class;
        agenda.push(class, left as u32);
    }

    fn write(&mut self) {
        let mut at = 0;
        while at < self.part.len() {
            let end = at + self.len(at);
            let symbol = &self.part[at..end];
            if self.bpe.unused.is_some() {
                self.write_parts(at, end);
            } else {
                self.write_symbol(symbol, self.bpe.trie.get(symbol));
            }
            at = end;
        }
    }

    fn write_symbol(&mut self, symbol: &[u8], id: Option<u32>) {
        match (id, &self.bpe.bytes, self.bpe.unknown) {
            (Some(id), _, _) => self.merger.ids.push(id),
            (None, Some(bytes), _) => {
                self.merger.ids.extend(symbol.iter().map(|byte| bytes[usize::from(*byte)]));
            }
            (None, None, Some(unknown)) => self.merger.ids.push(unknown),
            (None, None, None) => {}
        }
    }

    /// Takes unused pieces apart as they were last put together anywhere in the text.
    fn write_parts(&mut self, start: usize, end: usize) {
        let Some(unused) = &self.bpe.unused else { return };
        let mut open = vec![(start, end, 0)];
        while let Some((start, end, depth)) = open.pop() {
            let part = self.part;
            let symbol = &part[start..end];
            if self.merger.frozen[start] {
                let id = self.matcher.and_then(|matcher| matcher.longest_prefix(symbol)).map(|(_, id)| id);
                self.write_symbol(symbol, id);
                continue;
            }
            let id = self.bpe.trie.get(symbol);
            let Some(piece) = id.filter(|id| self.bpe.is_unused(*id)) else {
                self.write_symbol(symbol, id);
                continue;
            };
            match self.merger.halves.get(&piece) {
                _ if depth > MAX_DEPTH && unused.arithmetic == Arithmetic::V0_2_3 => {
                    self.merger.ids.push(piece)
                }
                Some(left) => {
                    let middle = start + usize::from(*left);
                    open.push((middle, end, depth + 1));
                    open.push((start, middle, depth + 1));
                }
                None if unused.arithmetic == Arithmetic::V0_2_3 => self.write_symbol(symbol, None),
                None => self.merger.ids.push(piece),
            }
        }
    }
}

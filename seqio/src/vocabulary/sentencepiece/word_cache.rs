//! Remembers how short words were encoded: most words of a text have been met before.

/// The longest word that is remembered, in bytes.
pub(super) const MAX_WORD: usize = 24;
/// The most ids that are remembered of a word. An entry fills a cache line with them.
const MAX_IDS: usize = 8;
/// Entries in the table, 2 MiB in all.
const ENTRIES_LOG2: u32 = 15;

/// A word as three integers, zeros behind its end.
type Key = [u64; 3];

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: Key,
    ids: [u32; MAX_IDS],
    margin: f32,
    word_len: u8,
    ids_len: u8,
}

/// A table of words in which a new word takes the place of an old one with the same hash.
#[derive(Debug)]
pub(super) struct WordCache {
    entries: Vec<Entry>,
}

/// Where a word is or may be put.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    key: Key,
    len: u8,
    at: usize,
}

impl WordCache {
    pub(super) fn new() -> Self {
        let entry = Entry { key: [0; 3], ids: [0; MAX_IDS], margin: 0.0, word_len: 0, ids_len: 0 };
        Self { entries: vec![entry; 1 << ENTRIES_LOG2] }
    }

    /// The slot of the `len` bytes from the start of `text`, which has at least `MAX_WORD` bytes; `len` is at most
    /// that, and not 0.
    #[inline]
    pub(super) fn slot(&self, text: &[u8; MAX_WORD], len: usize) -> Slot {
        let (words, _) = text.as_chunks::<8>();
        let mut key = [0; 3];
        for (part, (word, at)) in key.iter_mut().zip(words.iter().zip([0_usize, 8, 16])) {
            let kept = len.saturating_sub(at).min(8) as u32;
            let mask = u64::MAX.checked_shr(64 - 8 * kept).unwrap_or(0);
            *part = u64::from_le_bytes(*word) & mask;
        }
        Slot { key, len: len as u8, at: hash(&key, len) }
    }

    /// The ids of the slot's word and the margin by which they are its best ones, if it is there.
    #[inline]
    pub(super) fn get(&self, slot: &Slot) -> Option<(&[u32], f32)> {
        let entry = &self.entries[slot.at];
        let hit = entry.key == slot.key && entry.word_len == slot.len;
        hit.then(|| (&entry.ids[..usize::from(entry.ids_len)], entry.margin))
    }

    /// Remembers the ids of the slot's word, unless there are too many.
    pub(super) fn put(&mut self, slot: &Slot, ids: &[u32], margin: f32) {
        if ids.len() > MAX_IDS {
            return;
        }
        let entry = &mut self.entries[slot.at];
        entry.key = slot.key;
        entry.word_len = slot.len;
        entry.margin = margin;
        entry.ids_len = ids.len() as u8;
        entry.ids[..ids.len()].copy_from_slice(ids);
    }
}

#[inline]
fn hash(key: &Key, len: usize) -> usize {
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    };
    let first = fold(key[0] ^ 0x9e37_79b9_7f4a_7c15, key[1] ^ 0xd6e8_feb8_6659_fd93);
    (fold(first ^ key[2], 0xa076_1d64_78bd_642f ^ len as u64) >> (64 - ENTRIES_LOG2)) as usize
}

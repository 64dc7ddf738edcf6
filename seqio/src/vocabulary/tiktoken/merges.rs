//! From ranks to merges.
//!
//! ```text
//! a 0, b 1, c 2, bc 3, abc 4     ->  (b, c), (a, bc)
//! ```
//!
//! tiktoken joins, in a word, the two neighbours whose bytes together have the lowest rank, again and again. What
//! becomes of a stretch of a word that no token ever crosses the ends of depends on the stretch alone. So wherever a
//! token comes up, it was made by the same last join as in a word of nothing but the token: that join is its merge.
//! A token that its own bytes do not lead to is made by no merge, only by a word that it is.

use rayon::prelude::*;

use super::ranks::Ranks;

/// The two tokens that each token is made of, in the order of its rank.
pub(super) fn merges(ranks: &Ranks) -> Vec<(u32, u32)> {
    let pairs = BytePairs::new(ranks);
    let merge = |word: &mut Word, rank| word.last_merge(rank, ranks.token(rank)?, ranks, &pairs);
    let all = 0..ranks.end() as u32;
    all.into_par_iter().map_init(Word::default, merge).flatten_iter().collect()
}

/// The ranks of tokens of two bytes: the most of what is looked up.
struct BytePairs(Vec<u32>);

impl BytePairs {
    fn new(ranks: &Ranks) -> Self {
        let mut pairs = vec![u32::MAX; 1 << 16];
        for (rank, token) in ranks.iter() {
            if let [first, second] = *token {
                pairs[usize::from(u16::from_be_bytes([first, second]))] = rank;
            }
        }
        Self(pairs)
    }

    /// The rank of `token`, `u32::MAX` if it has none.
    fn rank(&self, token: &[u8], ranks: &Ranks) -> u32 {
        match *token {
            [first, second] => self.0[usize::from(u16::from_be_bytes([first, second]))],
            _ => ranks.get(token).unwrap_or(u32::MAX),
        }
    }
}

/// A word while its parts are joined.
#[derive(Default)]
struct Word {
    /// Where each part begins, and the rank of it together with the next; then the end.
    parts: Vec<(usize, u32)>,
}

impl Word {
    /// The last two parts of `token`, joined as tiktoken joins them.
    fn last_merge(
        &mut self,
        rank: u32,
        token: &[u8],
        ranks: &Ranks,
        pairs: &BytePairs,
    ) -> Option<(u32, u32)> {
        self.parts.clear();
        self.parts.extend((0..=token.len()).map(|at| match token.get(at..at + 2) {
            Some(pair) => (at, pairs.rank(pair, ranks)),
            None => (at, u32::MAX),
        }));
        while self.parts.len() > 3 {
            let (lowest, (_, found)) = self.parts.iter().enumerate().min_by_key(|(_, (_, rank))| *rank)?;
            if *found == u32::MAX {
                return None;
            }
            self.parts.remove(lowest + 1);
            let joined = |part: usize| {
                let end = self.parts.get(part + 2)?.0;
                Some(pairs.rank(token.get(self.parts[part].0..end)?, ranks))
            };
            let (here, before) = (joined(lowest), lowest.checked_sub(1).and_then(joined));
            self.parts[lowest].1 = here.unwrap_or(u32::MAX);
            if let (Some(before), Some(part)) = (before, lowest.checked_sub(1)) {
                self.parts[part].1 = before;
            }
        }
        let [(_, found), (middle, _), _] = self.parts[..] else { return None };
        let (left, right) = token.split_at(middle);
        let merge = Some((ranks.get(left)?, ranks.get(right)?));
        merge.filter(|_| found == rank)
    }
}

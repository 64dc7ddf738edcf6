//! The lines of a rank file: every token's bytes, and its rank, which is its id.
//!
//! ```text
//! IQ== 0          the token `!` is id 0
//! IGhlbGxv 24748  ` hello` is id 24748
//! ```

use std::ops::Range;

use crate::base64;
use crate::vocabulary::VocabularyError;

/// Ids are kept in tables with a place for each, so a stray rank must not ask for gigabytes.
const MAX_RANK: u32 = (1 << 24) - 1;
/// Far above any token that was ever learned. Finding a token's merge takes the square of its length.
const MAX_TOKEN_BYTES: usize = 1 << 10;
/// A slot that is free.
const FREE: Slot = Slot { rank: u32::MAX, tag: 0 };

/// The tokens of a rank file, found by rank and by bytes.
#[derive(Debug)]
pub(super) struct Ranks {
    bytes: Vec<u8>,
    /// Where the token of each rank stands in `bytes`; empty where there is no such rank.
    places: Vec<Range<u32>>,
    /// Number of tokens.
    len: usize,
    /// Ranks, each in the first free slot from its bytes' hash on; a power of two of them, at most half in use.
    slots: Vec<Slot>,
}

/// A place in a table of hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    rank: u32,
    /// More of the hash: bytes are compared only where it is the same.
    tag: u32,
}

impl Ranks {
    /// Reads a file. Ranks may only be missing where `is_taken` says that the id is another token's.
    pub(super) fn parse(file: &[u8], is_taken: impl Fn(u32) -> bool) -> Result<Self, VocabularyError> {
        let mut bytes = Vec::with_capacity(file.len() / 2);
        // Rank, line and place of each token.
        let mut tokens: Vec<(u32, u32, Range<u32>)> = Vec::new();
        for (line, number) in file.split(|byte| *byte == b'\n').zip(1..) {
            let line = line.trim_ascii();
            if line.is_empty() {
                continue;
            }
            let at = |problem: String| refused(number, &problem, file);
            let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            let (Some(token), Some(rank), None) = (words.next(), words.next(), words.next()) else {
                let problem = format!("`{}` is not a token in base64 and its rank, as `IQ== 0`", shown(line));
                return Err(at(problem));
            };
            let start = bytes.len();
            if base64::decode_into(token, &mut bytes).is_none() {
                return Err(at(format!("`{}` is not base64", shown(token))));
            }
            let length = bytes.len() - start;
            if length == 0 || length > MAX_TOKEN_BYTES {
                let problem = format!("a token is {length} bytes long; 1 to {MAX_TOKEN_BYTES} are possible");
                return Err(at(problem));
            }
            let parsed = str::from_utf8(rank).ok().and_then(|rank| rank.parse().ok());
            let rank = match parsed {
                Some(rank) if rank <= MAX_RANK => rank,
                _ => {
                    let problem = format!("`{}` is not a rank: 0 to {MAX_RANK} are possible", shown(rank));
                    return Err(at(problem));
                }
            };
            let place = |at: usize| u32::try_from(at).ok();
            let (Some(start), Some(end)) = (place(start), place(bytes.len())) else {
                return Err(at("the file's tokens are more than 4 GiB".to_owned()));
            };
            tokens.push((rank, number, start..end));
        }
        if tokens.is_empty() {
            return Err(malformed(
                "it has no tokens: each line is a token in base64 and its rank, as `IQ== 0`",
            ));
        }
        tokens.sort_by_key(|(rank, line, _)| (*rank, *line));
        check_ranks(&tokens, is_taken)?;
        let lines: Vec<(u32, u32)> = tokens.iter().map(|(rank, line, _)| (*rank, *line)).collect();
        let last = tokens.last().map_or(0, |(rank, ..)| *rank);
        let mut places = vec![0..0; last as usize + 1];
        let len = tokens.len();
        for (rank, _, place) in tokens {
            places[rank as usize] = place;
        }
        let slots = vec![FREE; (len * 2).next_power_of_two()];
        let mut this = Self { bytes, places, len, slots };
        for (rank, line) in &lines {
            if let Some(other) = this.insert(*rank) {
                let first = lines.binary_search_by_key(&other, |(rank, _)| *rank).map_or(0, |at| lines[at].1);
                let (first, second) = (first.min(*line), first.max(*line));
                let token = shown(this.token(*rank).unwrap_or_default());
                return Err(malformed(&format!(
                    "line {second}: the token `{token}` is on line {first} already"
                )));
            }
        }
        this.check_bytes()?;
        Ok(this)
    }

    /// Number of tokens.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// One more than the greatest rank.
    pub(super) fn end(&self) -> usize {
        self.places.len()
    }

    /// The bytes of a token.
    pub(super) fn token(&self, rank: u32) -> Option<&[u8]> {
        let place = self.places.get(rank as usize)?;
        let token = self.bytes.get(place.start as usize..place.end as usize)?;
        (!token.is_empty()).then_some(token)
    }

    /// Every token with its rank, ranks rising.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &[u8])> {
        (0..self.places.len() as u32).filter_map(|rank| Some((rank, self.token(rank)?)))
    }

    /// The rank of exactly these bytes.
    pub(super) fn get(&self, token: &[u8]) -> Option<u32> {
        match self.find(token).1 {
            FREE => None,
            Slot { rank, .. } => Some(rank),
        }
    }

    /// Adds a rank by its bytes, unless another has them.
    fn insert(&mut self, rank: u32) -> Option<u32> {
        let (at, slot, tag) = self.find(self.token(rank)?);
        match slot {
            FREE => {
                self.slots[at] = Slot { rank, tag };
                None
            }
            Slot { rank: other, .. } => Some(other),
        }
    }

    /// The slot with these bytes or the free one where they would be, and their tag.
    fn find(&self, token: &[u8]) -> (usize, Slot, u32) {
        let hash = hash(token);
        let tag = (hash >> 32) as u32;
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot == FREE || (slot.tag == tag && self.token(slot.rank) == Some(token)) {
                return (at, slot, tag);
            }
            at = (at + 1) & mask;
        }
    }

    /// Sees that every byte that text can have is a token: longer ones are made of these.
    fn check_bytes(&self) -> Result<(), VocabularyError> {
        // 0xC0, 0xC1 and 0xF5 and up are in no UTF-8.
        let missing: Vec<String> = (0..=0xBF)
            .chain(0xC2..=0xF4)
            .filter(|byte| self.get(&[*byte]).is_none())
            .map(|byte| format!("0x{byte:02X}"))
            .collect();
        match &missing[..] {
            [] => Ok(()),
            [first, rest @ ..] => {
                let others =
                    if rest.is_empty() { String::new() } else { format!(" (and {} more)", rest.len()) };
                Err(malformed(&format!(
                    "no line has the byte {first}{others} as a token, so text that holds it could not be encoded"
                )))
            }
        }
    }
}

/// Sees that no rank is there twice, and none is missing. `tokens` are in order.
fn check_ranks(
    tokens: &[(u32, u32, Range<u32>)],
    is_taken: impl Fn(u32) -> bool,
) -> Result<(), VocabularyError> {
    let mut next = 0;
    let mut before = None;
    for (rank, line, _) in tokens {
        if let Some((other, first)) = before
            && other == *rank
        {
            return Err(malformed(&format!("line {line}: the rank {rank} is on line {first} already")));
        }
        if let Some(missing) = (next..*rank).find(|missing| !is_taken(*missing)) {
            return Err(malformed(&format!(
                "line {line}: the rank is {rank}, but no line has the rank {missing}; if that is the id of a \
                 special token, name it in `special_tokens`"
            )));
        }
        (next, before) = (rank + 1, Some((*rank, *line)));
    }
    Ok(())
}

/// FNV-1a, its high half folded into the low one.
fn hash(bytes: &[u8]) -> u64 {
    let hash = bytes
        .iter()
        .fold(0xCBF2_9CE4_8422_2325u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3));
    hash ^ hash >> 32
}

/// A line that is at fault; the first one may show what the file is instead.
fn refused(line: u32, problem: &str, file: &[u8]) -> VocabularyError {
    let start = file.trim_ascii_start();
    let instead = match start.first() {
        Some(b'{') => "; this looks like JSON: a `tokenizer.json` is named by the key `tokenizer_json`",
        // A SentencePiece model is a protocol buffer whose field 1 are pieces.
        _ if file.starts_with(b"\n") && str::from_utf8(file).is_err() => {
            "; this looks like a SentencePiece model, which is named by the key `sentencepiece`"
        }
        _ => "",
    };
    malformed(&format!("line {line}: {problem}{instead}"))
}

/// The file is at fault.
pub(super) fn malformed(problem: &str) -> VocabularyError {
    VocabularyError::Malformed { problem: format!("not a usable rank file: {problem}") }
}

/// At most 40 characters of what was found.
fn shown(bytes: &[u8]) -> String {
    const LIMIT: usize = 40;
    let text = String::from_utf8_lossy(bytes);
    let mut shown = String::new();
    for c in text.chars().take(LIMIT) {
        match c {
            c if c.is_control() => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
    }
    if text.chars().nth(LIMIT).is_some() {
        shown.push('…');
    }
    shown
}

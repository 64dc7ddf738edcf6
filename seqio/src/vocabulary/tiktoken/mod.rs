//! Rank files as tiktoken has them, by the `tokenizers` crate.
//!
//! ```text
//! cl100k    "Hello world"      ->  [9906, 1917]
//! cl100k    "<|endoftext|>"    ->  [27, 91, 8862, 728, 428, 91, 29]    special_tokens_in_text = "plain" (default)
//! cl100k    "<|endoftext|>"    ->  [100257]                            special_tokens_in_text = "match"
//! cl100k    [57668, 243]       ->  "你"                                 each token is only some of its bytes
//! ```
//!
//! A rank file holds tokens alone. How text is split before, and which special tokens there are, a definition says.

mod merges;
mod pattern;
mod ranks;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::OnceLock;

use tokenizers::models::bpe::{BpeConfig, Merges, PipelineBPE, Vocab};
use tokenizers::pipeline::{
    NormalizerChain, PipelineModel, PipelinePostProcessor, PipelinePreTokenizer, PipelineTokenizer,
};
use tokenizers::pre_tokenizers::split::{Split, SplitPattern::Regex};
use tokenizers::tokenizer::SplitDelimiterBehavior;
use tokenizers::utils::byte_level::BYTES_CHAR_LOOKUP;
use tokenizers::vocab::bucket_added_vocabulary::{AddedToken, AddedVocabulary};

pub use self::pattern::SplitPattern;

use self::ranks::{Ranks, malformed};
use crate::caught::caught;
use crate::example::EncodeCounts;
use crate::vocabulary::guard::Guard;
use crate::vocabulary::pipeline::{append_ids, encode};
use crate::vocabulary::sentinels::Sentinels;
use crate::vocabulary::special_ids::{NamedIds, readable_ids, spelled_pieces};
use crate::vocabulary::spellings::Spellings;
use crate::vocabulary::tokenizer_json::Steps;
use crate::vocabulary::{SpecialIds, SpecialPlaces, SpecialTokensInText, Vocabulary, VocabularyError};

/// What is said where the crate's encoder fails.
const DAMAGED: &str = "the rank file does not fit the encoder's tables";

/// The token that ends a document in every tokenizer that a pattern is named after.
const END_OF_TEXT: &str = "<|endoftext|>";

/// Settings of a vocabulary read from a rank file.
#[derive(Clone, Debug)]
pub(crate) struct TiktokenOptions {
    /// How text is split into words.
    pub(crate) pattern: SplitPattern,
    /// Special tokens with their ids; `None`: those of the tokenizer that the pattern is named after.
    pub(crate) special_tokens: Option<BTreeMap<String, u32>>,
    /// Sentinels after all other ids.
    pub(crate) extra_ids: usize,
    /// Whether `<extra_id_0>` is the last of them.
    pub(crate) reverse_extra_ids: bool,
    /// What text that spells a special token becomes.
    pub(crate) special_tokens_in_text: SpecialTokensInText,
    /// Special ids that the definition names.
    pub(crate) named: NamedIds,
}

/// A vocabulary read from a rank file.
pub(crate) struct Tiktoken {
    file: Vec<u8>,
    ranks: Ranks,
    /// Special tokens by id.
    special_tokens: BTreeMap<i32, String>,
    sentinels: Sentinels,
    special: SpecialIds,
    /// Pad, EOS and BOS, where they are special tokens: they decode to nothing.
    silent: Vec<i32>,
    spellings: Spellings,
    pattern: SplitPattern,
    pipeline: PipelineTokenizer,
    steps: Steps,
    guarded: OnceLock<Guarded>,
}

/// Finds special tokens where a guard wrote them; made when it is first asked for.
struct Guarded {
    guard: Guard,
    pipeline: PipelineTokenizer,
    steps: Steps,
}

impl Tiktoken {
    /// Reads the file's bytes.
    pub(crate) fn open(file: Vec<u8>, options: &TiktokenOptions) -> Result<Self, VocabularyError> {
        let given = options.special_tokens.as_ref();
        let known = |ranks: usize| {
            let known = options.pattern.special_tokens(ranks).iter();
            known.map(|(text, id)| ((*text).to_owned(), *id)).collect::<BTreeMap<_, _>>()
        };
        let ranks =
            Ranks::parse(&file, |rank| given.is_some_and(|given| given.values().any(|id| *id == rank)))?;
        let given = given.cloned().unwrap_or_else(|| known(ranks.len()));
        let special_tokens = check_special_tokens(&ranks, given)?;

        let last_special = special_tokens.keys().next_back().map_or(0, |id| *id as usize + 1);
        let base_size = ranks.end().max(last_special);
        let sentinels = Sentinels::new(base_size, options.extra_ids, options.reverse_extra_ids)?;
        if let Some((_, text)) =
            sentinels.iter().find(|(_, text)| special_tokens.values().any(|it| it == text))
        {
            let problem = format!("`{text}` is one of `special_tokens` already: leave it or this key out");
            return Err(VocabularyError::Setting { setting: "extra_ids", problem });
        }

        let matched: Vec<(i32, String)> = match options.special_tokens_in_text {
            SpecialTokensInText::Plain => Vec::new(),
            SpecialTokensInText::Match => {
                special_tokens.iter().map(|(id, text)| (*id, text.clone())).chain(sentinels.iter()).collect()
            }
        };
        let pipeline = build(&ranks, options.pattern, &matched)?;
        let steps = Steps::byte_level(ranks.end());
        let spellings =
            Spellings::new(special_tokens.values().cloned().chain(sentinels.iter().map(|(_, text)| text)));
        let end_of_text = special_tokens.iter().find(|(_, text)| *text == END_OF_TEXT).map(|(id, _)| *id);
        let own = SpecialIds { pad: 0, eos: end_of_text, bos: None, unk: None };
        let silent = special_tokens.keys().copied().collect();
        let mut this = Self {
            file,
            ranks,
            special_tokens,
            sentinels,
            special: own,
            silent,
            spellings,
            pattern: options.pattern,
            pipeline,
            steps,
            guarded: OnceLock::new(),
        };

        let pieces = || spelled_pieces(this.vocab_size(), |id| this.piece(id));
        this.special = options.named.resolve(own, this.vocab_size(), pieces)?;
        let SpecialIds { pad, eos, bos, .. } = this.special;
        this.silent.retain(|id| [Some(pad), eos, bos].contains(&Some(*id)));
        Ok(this)
    }

    /// The bytes of one id; nothing for an id that there is not.
    fn bytes_of(&self, id: i32) -> Option<&[u8]> {
        match self.special_tokens.get(&id) {
            Some(text) => Some(text.as_bytes()),
            None => self.ranks.token(u32::try_from(id).ok()?),
        }
    }

    /// Special tokens and sentinels.
    fn all_special(&self) -> impl Iterator<Item = (i32, String)> {
        self.special_tokens.iter().map(|(id, text)| (*id, text.clone())).chain(self.sentinels.iter())
    }

    fn guarded(&self) -> Result<&Guarded, VocabularyError> {
        if let Some(guarded) = self.guarded.get() {
            return Ok(guarded);
        }
        let guard = Guard::new(self.all_special().map(|(_, text)| text));
        let renamed: Vec<(i32, String)> =
            self.all_special().map(|(id, text)| (id, guard.marker().spell(&text))).collect();
        let pipeline = build(&self.ranks, self.pattern, &renamed)?;
        let steps = Steps::byte_level(self.ranks.end());
        Ok(self.guarded.get_or_init(|| Guarded { guard, pipeline, steps }))
    }

    /// Appends where tokens begin that together are the bytes of `text`.
    fn add_starts(&self, text: &str, ids: &[i32], starts: &mut Vec<usize>) -> Result<(), VocabularyError> {
        let mut at = 0;
        for id in ids {
            starts.push(text.floor_char_boundary(at));
            at += match self.sentinels.piece(*id) {
                Some(sentinel) => sentinel.len(),
                None => self.bytes_of(*id).map_or(0, <[u8]>::len),
            };
        }
        match at == text.len() {
            true => Ok(()),
            false => Err(VocabularyError::Encode { problem: DAMAGED.to_owned() }),
        }
    }
}

/// Sees that special tokens take no other token's id or text. By id.
fn check_special_tokens(
    ranks: &Ranks,
    given: BTreeMap<String, u32>,
) -> Result<BTreeMap<i32, String>, VocabularyError> {
    /// As for ranks: tables have a place for each id.
    const MAX_ID: u32 = (1 << 24) - 1;
    const MAX_TEXT_BYTES: usize = 1 << 10;
    let refuse = |problem: String| Err(VocabularyError::Setting { setting: "special_tokens", problem });
    let mut by_id: BTreeMap<i32, String> = BTreeMap::new();
    for (text, id) in given {
        if text.is_empty() || text.len() > MAX_TEXT_BYTES {
            return refuse(format!("a special token has 1 to {MAX_TEXT_BYTES} bytes, not {}", text.len()));
        }
        if id > MAX_ID {
            return refuse(format!("the id {id} of `{text}` is above {MAX_ID}"));
        }
        if let Some(token) = ranks.token(id) {
            let token = String::from_utf8_lossy(token);
            return refuse(format!("the id {id} of `{text}` is the rank of `{token}` in the file"));
        }
        if let Some(rank) = ranks.get(text.as_bytes()) {
            return refuse(format!("`{text}` is in the file already, as rank {rank}: leave it out"));
        }
        let id = i32::try_from(id).expect("at most 2^24");
        if let Some(other) = by_id.get(&id) {
            return refuse(format!("`{other}` and `{text}` both have the id {id}"));
        }
        by_id.insert(id, text);
    }
    Ok(by_id)
}

/// The crate's pipeline for these tokens, with the special tokens that text matches.
fn build(
    ranks: &Ranks,
    pattern: SplitPattern,
    matched: &[(i32, String)],
) -> Result<PipelineTokenizer, VocabularyError> {
    let spell = |token: &[u8]| token.iter().map(|byte| BYTES_CHAR_LOOKUP[usize::from(*byte)]).collect();
    let spell_rank = |rank: u32| -> String { spell(ranks.token(rank).unwrap_or_default()) };
    let vocab: Vocab = ranks.iter().map(|(rank, token)| (spell(token), rank)).collect();
    let merges: Merges = merges::merges(ranks)
        .into_iter()
        .map(|(left, right)| (spell_rank(left), spell_rank(right)))
        .collect();
    // A word that is a token is that token, whatever its bytes would be joined to.
    let config = BpeConfig { vocab, merges, byte_level: true, ignore_merges: true, ..BpeConfig::default() };
    let built = caught(|| -> tokenizers::Result<PipelineTokenizer> {
        let mut added = AddedVocabulary::new();
        let tokens = matched.iter().map(|(_, text)| AddedToken::from(text.as_str(), true));
        let id_of = |text: &str| {
            let found = matched.iter().find(|(_, matched)| matched == text);
            found.and_then(|(id, _)| u32::try_from(*id).ok())
        };
        added.add_tokens(tokens, ranks.end(), id_of, None::<&NormalizerChain<'_>>)?;
        let split =
            Split::native(Regex(pattern.regex().to_owned()), SplitDelimiterBehavior::Isolated, false)?;
        Ok(PipelineTokenizer::from_parts(
            added,
            Vec::new(),
            PipelinePreTokenizer::Split(split),
            PipelineModel::BPE(PipelineBPE::from_config(config)?),
            PipelinePostProcessor::default(),
            None,
            BTreeMap::new(),
            None,
            None,
        ))
    });
    // Assertions guard some of the crate's tables.
    match built {
        Ok(Ok(pipeline)) => Ok(pipeline),
        Ok(Err(error)) => Err(malformed(&error.to_string())),
        Err(_) => Err(malformed("its tokens do not fit the encoder's tables")),
    }
}

impl fmt::Debug for Tiktoken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tiktoken")
            .field("size", &self.vocab_size())
            .field("special", &self.special)
            .finish_non_exhaustive()
    }
}

impl Vocabulary for Tiktoken {
    fn kind(&self) -> &'static str {
        "tiktoken"
    }

    fn vocab_size(&self) -> usize {
        self.sentinels.end()
    }

    fn extra_ids(&self) -> usize {
        self.sentinels.len()
    }

    fn special_ids(&self) -> SpecialIds {
        self.special
    }

    fn encode_into(&self, text: &str, ids: &mut Vec<i32>) -> Result<EncodeCounts, VocabularyError> {
        let start = ids.len();
        append_ids(ids, |tokens| encode(&self.pipeline, &self.steps, DAMAGED, text, tokens))?;
        let unknown = self.special.count_unknown(&ids[start..]);
        Ok(EncodeCounts { unknown, special_spellings: self.spellings.count(text) })
    }

    fn has_offsets(&self) -> bool {
        true
    }

    fn encode_with_offsets_into(
        &self,
        text: &str,
        special: SpecialPlaces<'_>,
        ids: &mut Vec<i32>,
        starts: &mut Vec<usize>,
    ) -> Result<EncodeCounts, VocabularyError> {
        let first = ids.len();
        match special {
            SpecialPlaces::AsUsual => {
                append_ids(ids, |tokens| encode(&self.pipeline, &self.steps, DAMAGED, text, tokens))?;
            }
            SpecialPlaces::AllBut(kept) => {
                let Guarded { guard, pipeline, steps } = self.guarded()?;
                let written = guard.write(text, kept)?;
                append_ids(ids, |tokens| encode(pipeline, steps, DAMAGED, &written.text, tokens))?;
            }
        }
        self.add_starts(text, &ids[first..], starts)?;
        let unknown = self.special.count_unknown(&ids[first..]);
        Ok(EncodeCounts { unknown, special_spellings: self.spellings.count(text) })
    }

    fn special_places(&self, text: &str) -> Result<Vec<Range<usize>>, VocabularyError> {
        Ok(self.guarded()?.guard.places(text))
    }

    fn decode(&self, ids: &[i32]) -> String {
        let SpecialIds { unk, eos, .. } = self.special;
        let mut bytes = Vec::new();
        for id in readable_ids(ids, self.vocab_size(), unk, eos).filter(|id| !self.silent.contains(id)) {
            match self.sentinels.piece(id) {
                Some(sentinel) => bytes.extend_from_slice(sentinel.as_bytes()),
                None => bytes.extend_from_slice(self.bytes_of(id).unwrap_or_default()),
            }
        }
        match String::from_utf8(bytes) {
            Ok(text) => text,
            // As tiktoken does: each stretch that is no text becomes U+FFFD.
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        }
    }

    fn piece(&self, id: i32) -> Option<String> {
        if let Some(sentinel) = self.sentinels.piece(id) {
            return Some(sentinel);
        }
        let mut piece = String::new();
        for chunk in self.bytes_of(id)?.utf8_chunks() {
            piece.push_str(chunk.valid());
            chunk.invalid().iter().for_each(|byte| piece.push_str(&format!("<0x{byte:02X}>")));
        }
        Some(piece)
    }

    fn file(&self) -> Option<&[u8]> {
        Some(&self.file)
    }
}

#[cfg(test)]
mod tests;

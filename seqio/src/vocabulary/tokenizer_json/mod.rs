//! Hugging Face `tokenizer.json` files, by the `tokenizers` crate.
//!
//! ```text
//! gpt2    "Hello world"            -> [15496, 995]
//! gpt2    "<|endoftext|>"          -> [50256]                               special_tokens_in_text = "match" (default)
//! gpt2    "<|endoftext|>"          -> [27, 91, 437, 1659, 5239, 91, 29]     special_tokens_in_text = "plain"
//! ```
//!
//! What the file says of padding, truncation and tokens put around a sequence is not done here: steps do that.

mod config;
mod guess;
mod offsets;
mod steps;
mod unigram;

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::OnceLock;

use tokenizers::pipeline::PipelineTokenizer;

pub(super) use self::config::Marker;
pub(super) use self::steps::Steps;

use self::config::Config;
use crate::caught::caught;
use crate::example::EncodeCounts;
use crate::vocabulary::guard::Guard;
use crate::vocabulary::pipeline::{append_ids, encode, encode_with_starts};
use crate::vocabulary::sentinels::{self, Sentinels};
use crate::vocabulary::special_ids::{NamedIds, readable_ids, spelled_pieces};
use crate::vocabulary::spellings::Spellings;
use crate::vocabulary::{SpecialIds, SpecialPlaces, SpecialTokensInText, Vocabulary, VocabularyError};

/// What is said where the crate's encoder fails.
const DAMAGED: &str = "the tables of the `tokenizer.json` are damaged";

/// Settings of a `tokenizer.json` vocabulary.
#[derive(Clone, Debug)]
pub(crate) struct TokenizerJsonOptions {
    /// Sentinels after the file's own ids.
    pub(crate) extra_ids: usize,
    /// Whether `<extra_id_0>` is the last of them.
    pub(crate) reverse_extra_ids: bool,
    /// What text that spells a special token becomes.
    pub(crate) special_tokens_in_text: SpecialTokensInText,
    /// Special ids that are not to be guessed from the file.
    pub(crate) named: NamedIds,
}

/// A vocabulary read from a `tokenizer.json`.
pub(crate) struct TokenizerJson {
    file: Vec<u8>,
    /// Knows every token by its name: decodes, and encodes where special tokens match.
    whole: PipelineTokenizer,
    /// Encodes where special tokens are plain text.
    plain: Option<PipelineTokenizer>,
    sentinels: Sentinels,
    /// How many `<extra_id_k>` the file brings itself.
    own_extra_ids: usize,
    special: SpecialIds,
    /// Pad, EOS and BOS, where they are special tokens: they decode to nothing.
    silent: Vec<i32>,
    spellings: Spellings,
    steps: Steps,
    guarded: OnceLock<Guarded>,
}

/// Finds special tokens where a guard wrote them; made when it is first asked for.
struct Guarded {
    guard: Guard,
    pipeline: PipelineTokenizer,
    steps: Steps,
}

impl TokenizerJson {
    /// Reads the file's bytes.
    pub(crate) fn open(file: Vec<u8>, options: &TokenizerJsonOptions) -> Result<Self, VocabularyError> {
        let config = Config::parse(&file)?;
        let base_size = config.size();
        let sentinels = Sentinels::new(base_size, options.extra_ids, options.reverse_extra_ids)?;
        let numbers: BTreeSet<usize> =
            config.tokens().filter_map(|(text, _)| sentinels::number(text)).collect();
        let own_extra_ids = numbers.len();
        if own_extra_ids > 0 && options.extra_ids > 0 {
            return Err(VocabularyError::Setting {
                setting: "extra_ids",
                problem: format!(
                    "the file brings {own_extra_ids} tokens `<extra_id_…>` itself: leave the key out"
                ),
            });
        }

        let spellings = Spellings::new(
            config
                .special_tokens()
                .map(|(text, _)| text.to_owned())
                .chain(sentinels.iter().map(|(_, text)| text)),
        );
        let guessed = guess::special_ids(&config);
        let silent: Vec<i32> = config.special_tokens().map(|(_, id)| id).collect();
        let plain = match options.special_tokens_in_text {
            SpecialTokensInText::Match => None,
            SpecialTokensInText::Plain => {
                Some(config.clone().without_special_tokens(&Marker::new(b"")).build()?)
            }
        };
        let whole = config.clone().with_sentinels(&sentinels).build()?;
        let steps = Steps::new(&config, &whole).map_err(|error| config::malformed(&error.to_string()))?;
        for (id, text) in sentinels.iter() {
            if whole.get_added_vocabulary().token_to_id(&text) != u32::try_from(id).ok() {
                return Err(VocabularyError::Setting {
                    setting: "extra_ids",
                    problem: format!("the ids of the file have holes, so that `{text}` cannot be {id}"),
                });
            }
        }

        let mut this = Self {
            file,
            whole,
            plain,
            sentinels,
            own_extra_ids,
            special: guessed,
            silent,
            spellings,
            steps,
            guarded: OnceLock::new(),
        };
        let pieces = || spelled_pieces(this.vocab_size(), |id| this.piece(id));
        this.special = options.named.resolve(guessed, this.vocab_size(), pieces)?;
        let SpecialIds { pad, eos, bos, .. } = this.special;
        this.silent.retain(|id| [Some(pad), eos, bos].contains(&Some(*id)));
        Ok(this)
    }

    /// Lends the pipeline that is right for `text`.
    fn with_pipeline(
        &self,
        text: &str,
        encode: impl FnOnce(&PipelineTokenizer) -> Result<(), VocabularyError>,
    ) -> Result<(), VocabularyError> {
        match &self.plain {
            None => encode(&self.whole),
            Some(_) if Marker::could_be_spelled_by(text) => {
                let config = Config::parse(&self.file)?.without_special_tokens(&Marker::new(text.as_bytes()));
                encode(&config.build()?)
            }
            Some(plain) => encode(plain),
        }
    }

    fn guarded(&self) -> Result<&Guarded, VocabularyError> {
        if let Some(guarded) = self.guarded.get() {
            return Ok(guarded);
        }
        let config = Config::parse(&self.file)?;
        let guard = Guard::new(config.renamable_tokens().map(str::to_owned));
        let renamed = config.without_special_tokens(guard.marker());
        let pipeline = renamed.clone().build()?;
        let steps = Steps::new(&renamed, &pipeline).map_err(|error| config::malformed(&error.to_string()))?;
        Ok(self.guarded.get_or_init(|| Guarded { guard, pipeline, steps }))
    }
}

impl fmt::Debug for TokenizerJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenizerJson")
            .field("size", &self.vocab_size())
            .field("special", &self.special)
            .finish_non_exhaustive()
    }
}

impl Vocabulary for TokenizerJson {
    fn kind(&self) -> &'static str {
        "tokenizer_json"
    }

    fn vocab_size(&self) -> usize {
        self.sentinels.end()
    }

    fn extra_ids(&self) -> usize {
        self.sentinels.len() + self.own_extra_ids
    }

    fn special_ids(&self) -> SpecialIds {
        self.special
    }

    fn encode_into(&self, text: &str, ids: &mut Vec<i32>) -> Result<EncodeCounts, VocabularyError> {
        let start = ids.len();
        append_ids(ids, |tokens| {
            self.with_pipeline(text, |pipeline| encode(pipeline, &self.steps, DAMAGED, text, tokens))
        })?;
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
            SpecialPlaces::AsUsual => append_ids(ids, |tokens| {
                self.with_pipeline(text, |pipeline| {
                    encode_with_starts(pipeline, &self.steps, DAMAGED, text, tokens, starts)
                })
            })?,
            SpecialPlaces::AllBut(kept) => {
                let Guarded { guard, pipeline, steps } = self.guarded()?;
                let written = guard.write(text, kept)?;
                let begun = starts.len();
                append_ids(ids, |tokens| {
                    encode_with_starts(pipeline, steps, DAMAGED, &written.text, tokens, starts)
                })?;
                starts[begun..].iter_mut().for_each(|start| *start = written.origin(*start));
            }
        }
        let unknown = self.special.count_unknown(&ids[first..]);
        Ok(EncodeCounts { unknown, special_spellings: self.spellings.count(text) })
    }

    fn special_places(&self, text: &str) -> Result<Vec<Range<usize>>, VocabularyError> {
        Ok(self.guarded()?.guard.places(text))
    }

    fn decode(&self, ids: &[i32]) -> String {
        let SpecialIds { unk, eos, .. } = self.special;
        let readable: Vec<u32> = readable_ids(ids, self.vocab_size(), unk, eos)
            .filter(|id| !self.silent.contains(id))
            .filter_map(|id| u32::try_from(id).ok())
            .collect();
        let decoded = caught(|| self.whole.decode(&readable, false));
        match decoded {
            Ok(Ok(text)) => text,
            // A decoder that refuses its input: the pieces as they are spelled say more than nothing.
            _ => self.whole.decode_tokens(&readable, false).concat(),
        }
    }

    fn piece(&self, id: i32) -> Option<String> {
        self.whole.decode_tokens(&[u32::try_from(id).ok()?], false).pop()
    }

    fn file(&self) -> Option<&[u8]> {
        Some(&self.file)
    }
}

#[cfg(test)]
mod tests;

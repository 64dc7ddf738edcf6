//! SentencePiece models, encoded and decoded exactly as the C++ library does it.
//!
//! ```text
//! "Hello world"   normalize ->   "▁Hello▁world"   cut ->   [▁He, llo, ▁world]   ->   [95, 41, 296]
//! ```
//!
//! SeqIO's extra ids are appended to the model as user-defined pieces `▁<extra_id_k>`: in text they match at the start
//! of a word, and `<extra_id_0>` has the last id unless `reverse_extra_ids` is off.

mod agenda;
mod bpe;
mod charsmap;
mod decode;
mod lattice;
mod matcher;
mod normalize;
mod offsets;
mod pieces;
mod proto;
mod sink;
mod spellings;
#[cfg(test)]
mod tests;
mod unigram;
mod utf8;
mod word_cache;
mod words;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, OnceLock, PoisonError};

use prost::Message;

use self::bpe::{Bpe, Merger};
use self::decode::Decoder;
use self::matcher::Matcher;
use self::normalize::{Normalizer, Origins};
use self::offsets::Guarded;
use self::pieces::{Kind, Piece, Pieces};
use self::proto::ModelProto;
use self::sink::Sink;
use self::spellings::Spellings;
use self::unigram::Unigram;
use self::word_cache::MAX_WORD;
use crate::example::EncodeCounts;
use crate::vocabulary::guard::Guard;
use crate::vocabulary::tokenizer_json::Marker;
use crate::vocabulary::{
    Arithmetic, SpecialIds, SpecialPlaces, SpecialTokensInText, Vocabulary, VocabularyError,
};

/// The longest normal form that is encoded, in bytes: places in it are counted by 32 bits.
const MAX_TEXT: usize = (u32::MAX - 1) as usize;
/// Bytes that lie behind a normal form, so that the cache can read whole words at its end.
const PADDING: usize = MAX_WORD;
/// Texts with a longer normal form give their memory back after encoding.
const KEPT_BYTES: usize = 1 << 20;

/// How a model is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentencePieceOptions {
    /// Sentinels to append to the model.
    pub extra_ids: usize,
    /// Whether `<extra_id_0>` is the last id (T5) or the first of them.
    pub reverse_extra_ids: bool,
    /// Which release's arithmetic to use.
    pub arithmetic: Arithmetic,
    /// Whether text becomes special ids; left out, user-defined pieces match and control pieces do not.
    pub special_tokens_in_text: Option<SpecialTokensInText>,
}

impl Default for SentencePieceOptions {
    fn default() -> Self {
        Self {
            extra_ids: 0,
            reverse_extra_ids: true,
            arithmetic: Arithmetic::default(),
            special_tokens_in_text: None,
        }
    }
}

/// A SentencePiece model.
pub struct SentencePiece {
    file: Vec<u8>,
    pieces: Pieces,
    extra_ids: usize,
    special_ids: SpecialIds,
    /// Finds user-defined pieces in text.
    matcher: Option<Matcher>,
    normalizer: Normalizer,
    algorithm: Algorithm,
    decoder: Decoder,
    spellings: Spellings,
    options: SentencePieceOptions,
    guarded: OnceLock<Box<Guarded>>,
    /// Memory of earlier encodings, one entry for each thread that was ever at work at once.
    pool: Mutex<Vec<Scratch>>,
}

#[derive(Debug)]
enum Algorithm {
    Unigram(Unigram),
    Bpe(Box<Bpe>),
}

/// Memory of one encoding.
#[derive(Debug)]
struct Scratch {
    normalized: Vec<u8>,
    search: Search,
}

#[derive(Debug)]
enum Search {
    Unigram(unigram::Search),
    Bpe(Merger),
}

impl SentencePiece {
    /// Opens the bytes of a `.model` file.
    pub fn open(file: Vec<u8>, options: &SentencePieceOptions) -> Result<Self, VocabularyError> {
        Self::open_with(file, options, None)
    }

    /// With a guard control pieces are found in text by its spellings.
    fn open_with(
        file: Vec<u8>,
        options: &SentencePieceOptions,
        guard: Option<&Guard>,
    ) -> Result<Self, VocabularyError> {
        let mut model = ModelProto::decode(&*file)
            .map_err(|error| malformed(format!("not a SentencePiece model, or a damaged one: {error}")))?;
        let trainer = model.trainer.clone().unwrap_or_default();
        let is_bpe = match trainer.model_type.unwrap_or(1) {
            1 => false,
            2 => true,
            3 => return Err(unsupported("word")),
            4 => return Err(unsupported("char")),
            other => {
                return Err(malformed(format!("the SentencePiece model is of the unknown type {other}")));
            }
        };
        let pieces = Pieces::open(&mut model, options, is_bpe)?;
        let spelled = matched(&pieces, options.special_tokens_in_text, guard);
        let matched: BTreeMap<&[u8], u32> = spelled.iter().map(|(text, id)| (text.as_bytes(), *id)).collect();
        let matcher = Matcher::build(&matched)?;
        let mut normalizer = Normalizer::open(
            model.normalizer.as_ref().unwrap_or(&Default::default()),
            trainer.treat_whitespace_as_suffix.unwrap_or(false),
            matcher.as_ref(),
        )?;
        normalizer.stands_alone = guard.map(|_| Marker::START);
        let algorithm = if is_bpe {
            Algorithm::Bpe(Box::new(Bpe::build(&pieces, matcher.as_ref(), options.arithmetic)?))
        } else {
            Algorithm::Unigram(Unigram::build(&pieces, &matched, options.arithmetic)?)
        };
        let named = |name: &Option<Vec<u8>>, default: &str| {
            let name = name.as_deref().filter(|name| !name.is_empty()).unwrap_or(default.as_bytes());
            pieces.control(name)
        };
        let special_ids = SpecialIds {
            pad: named(&trainer.pad_piece, "<pad>").map_or(0, |id| id as i32),
            eos: named(&trainer.eos_piece, "</s>").map(|id| id as i32),
            bos: named(&trainer.bos_piece, "<s>").map(|id| id as i32),
            unk: pieces.unknown.map(|id| id as i32),
        };
        let denormalizer = match &model.denormalizer {
            Some(spec) if spec.precompiled_charsmap.as_ref().is_some_and(|map| !map.is_empty()) => {
                Some(Normalizer::open(spec, false, None)?)
            }
            _ => None,
        };
        let surface = trainer.unk_surface.as_deref().map(String::from_utf8_lossy);
        let decoder = Decoder {
            unknown_surface: surface.map_or_else(|| " \u{2047} ".to_owned(), |text| text.into_owned()),
            eos: special_ids.eos.map(|id| id as u32),
            add_dummy_prefix: normalizer.add_dummy_prefix,
            remove_extra_whitespaces: normalizer.remove_extra_whitespaces,
            denormalizer,
        };
        let spellings = Spellings::of(&pieces)?;
        Ok(Self {
            file,
            extra_ids: options.extra_ids,
            special_ids,
            normalizer,
            algorithm,
            decoder,
            spellings,
            options: *options,
            guarded: OnceLock::new(),
            pool: Mutex::default(),
            matcher,
            pieces,
        })
    }

    /// Appends the ids of `text`. `origins` is told of its normal form, which is then shown to `see`.
    fn encode(
        &self,
        text: &str,
        ids: &mut Vec<i32>,
        origins: &mut impl Origins,
        see: impl FnOnce(&[u8]),
    ) -> Result<EncodeCounts, VocabularyError> {
        let mut scratch = self.scratch();
        let Scratch { normalized, search } = &mut scratch;
        let matcher = self.matcher.as_ref();
        self.normalizer.normalize_traced(text.as_bytes(), matcher, normalized, origins);
        if normalized.len() > MAX_TEXT {
            return Err(VocabularyError::Encode {
                problem: format!("a text of {} bytes; at most {MAX_TEXT} are read", normalized.len()),
            });
        }
        normalized.extend_from_slice(&[0; PADDING]);
        let mut sink = Sink::new(ids, self.pieces.unknown, self.pieces.bytes.as_deref());
        match (&self.algorithm, search) {
            (Algorithm::Unigram(unigram), Search::Unigram(search)) => {
                unigram.encode(normalized, search, &mut sink);
                if normalized.len() > KEPT_BYTES {
                    search.trim();
                }
            }
            (Algorithm::Bpe(bpe), Search::Bpe(merger)) => {
                bpe.encode(normalized, matcher, merger, &mut sink);
                if normalized.len() > KEPT_BYTES {
                    merger.trim();
                }
            }
            _ => unreachable!("scratch memory is made for the algorithm"),
        }
        let unknown = sink.unknowns;
        see(&normalized[..normalized.len() - PADDING]);
        if normalized.capacity() > KEPT_BYTES {
            *normalized = Vec::new();
        }
        self.pool.lock().unwrap_or_else(PoisonError::into_inner).push(scratch);
        Ok(EncodeCounts { unknown, special_spellings: self.spellings.count(text.as_bytes()) })
    }

    fn scratch(&self) -> Scratch {
        let kept = self.pool.lock().unwrap_or_else(PoisonError::into_inner).pop();
        kept.unwrap_or_else(|| Scratch {
            normalized: Vec::new(),
            search: match self.algorithm {
                Algorithm::Unigram(_) => Search::Unigram(unigram::Search::new()),
                Algorithm::Bpe(_) => Search::Bpe(Merger::new()),
            },
        })
    }
}

impl Vocabulary for SentencePiece {
    fn kind(&self) -> &'static str {
        "sentencepiece"
    }

    fn vocab_size(&self) -> usize {
        self.pieces.list.len()
    }

    fn extra_ids(&self) -> usize {
        self.extra_ids
    }

    fn special_ids(&self) -> SpecialIds {
        self.special_ids
    }

    fn encode_into(&self, text: &str, ids: &mut Vec<i32>) -> Result<EncodeCounts, VocabularyError> {
        self.encode(text, ids, &mut (), |_| ())
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
        match special {
            SpecialPlaces::AsUsual => self.encode_with_starts(text, None, ids, starts),
            SpecialPlaces::AllBut(kept) => {
                let Guarded { guard, model } = self.guarded()?;
                let written = guard.write(text, kept)?;
                let begun = starts.len();
                let counts = model.encode_with_starts(&written.text, Some(guard), ids, starts)?;
                starts[begun..].iter_mut().for_each(|start| *start = written.origin(*start));
                let special_spellings = self.spellings.count(text.as_bytes());
                Ok(EncodeCounts { special_spellings, ..counts })
            }
        }
    }

    fn special_places(&self, text: &str) -> Result<Vec<Range<usize>>, VocabularyError> {
        Ok(self.guarded()?.guard.places(text))
    }

    fn decode(&self, ids: &[i32]) -> String {
        self.decoder.decode(ids, &self.pieces)
    }

    fn piece(&self, id: i32) -> Option<String> {
        let piece = self.pieces.list.get(usize::try_from(id).ok()?)?;
        Some(piece.text.clone().into_string())
    }

    fn file(&self) -> Option<&[u8]> {
        Some(&self.file)
    }
}

impl fmt::Debug for SentencePiece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SentencePiece")
            .field("vocab_size", &self.vocab_size())
            .field("extra_ids", &self.extra_ids)
            .field("special_ids", &self.special_ids)
            .finish_non_exhaustive()
    }
}

/// What is found in text before anything else is done to it; with a guard control pieces by its spellings.
fn matched<'a>(
    pieces: &'a Pieces,
    in_text: Option<SpecialTokensInText>,
    guard: Option<&Guard>,
) -> Vec<(Cow<'a, str>, u32)> {
    let kinds: &[Kind] = match in_text {
        _ if guard.is_some() => &[Kind::UserDefined, Kind::Control],
        None => &[Kind::UserDefined],
        Some(SpecialTokensInText::Plain) => &[],
        Some(SpecialTokensInText::Match) => &[Kind::UserDefined, Kind::Control],
    };
    let spelled = |piece: &'a Piece| match guard {
        Some(guard) if piece.kind == Kind::Control => Cow::Owned(guard.marker().spell(&piece.text)),
        _ => Cow::Borrowed(&*piece.text),
    };
    pieces.of(kinds).map(|(id, piece)| (spelled(piece), id)).collect()
}

/// More strings than a trie can hold.
#[derive(Debug)]
struct TooLarge;

impl From<TooLarge> for VocabularyError {
    fn from(_: TooLarge) -> Self {
        malformed("the pieces of the SentencePiece model are too many or too long to be indexed")
    }
}

fn malformed(problem: impl Into<String>) -> VocabularyError {
    VocabularyError::Malformed { problem: problem.into() }
}

fn unsupported(model_type: &str) -> VocabularyError {
    malformed(format!("SentencePiece models of type {model_type} are not supported, only unigram and bpe"))
}

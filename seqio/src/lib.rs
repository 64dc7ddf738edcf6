//! seqio: tasks, vocabularies, preprocessing, order, packing and batches for language-model data.
//!
//! ```text
//! source → steps above the boundary → [cache] → order → steps below → windows of rows → converter → batch
//! ```
//!
//! Batch `s` is a pure function of (definition, data, seed, batch size, `s`): the same on any number of threads and
//! hosts, before and after a restart.
//!
//! A task is defined in a task file or by [`TaskSpec`]'s builder, checked and opened by a [`Registry`], and shown by
//! [`explain`]. The crate `seqio-cache` stores what its steps above the boundary give; a [`Dataset`] makes batches of it:
//!
//! ```
//! use std::sync::Arc;
//!
//! use seqio::{Converter, Dataset, DatasetConfig, InMemoryExamples, StreamTask};
//!
//! // What a cache holds, here in memory: three examples.
//! let examples = InMemoryExamples::of([("targets", vec![vec![3, 9, 1], vec![4, 1], vec![5, 6, 7, 1]])]);
//! let task = StreamTask::new("docs", "first");
//! let config = DatasetConfig::new("train", Converter::Lm, [("targets", 8)]).batch_size(1).epochs(1).seed(7);
//! let dataset = Dataset::new(task, Arc::new(examples), config)?;
//!
//! let batches: Vec<_> = dataset.iter()?.collect::<Result<_, _>>()?;
//! assert_eq!(batches.len(), 2, "nine ids, packed into rows of eight");
//! let again: Vec<_> = dataset.iter_from(1)?.collect::<Result<_, _>>()?;
//! assert_eq!(again, batches[1..], "any step can be visited");
//! # Ok::<(), seqio::DatasetError>(())
//! ```
//!
//! With the feature `sql` tasks may say SQL: sources of queries, filters, computed columns; and there is `Query`. What runs
//! it is an engine that the program installs before: `seqio_datafusion::install()`, first thing in `main`. Without one SQL
//! is an error that says so.

mod base64;
mod batch;
mod caught;
mod convert;
mod dataset;
mod error;
mod example;
mod explain;
mod feature;
mod fingerprint;
mod item;
mod key;
mod locate;
mod objective;
mod preprocess;
mod read;
pub mod reference;
mod registry;
mod rng;
mod source;
mod split;
#[cfg(feature = "sql")]
mod sql;
mod task;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod text;
mod vocabulary;
mod whole_split;

pub use crate::batch::{Array, Batch, Values};
pub use crate::caught::panics_are_caught;
pub use crate::convert::{
    Conversion, ConvertError, Converter, ConverterEntry, DEFAULT_WINDOW, Dtype, MAX_LENGTH, ModelFeature,
    PackCounts, Packing, Piece, Row, RowWriter, Span, WindowPlan, WindowPlanner, default_window,
};
pub use crate::dataset::{
    Anchor, BatchSizes, Counts, DEFAULT_BLOCK, Dataset, DatasetConfig, DatasetError, DatasetIterator,
    DatasetState, Digest, EpochOrder, ExampleReader, ExampleStore, Horizon, Host, InMemoryExamples,
    OpenExamples, OrderKind, PartTrace, PieceTrace, ReadError, RowTrace, SequenceEdits, SightedPiece,
    Sighting, SourceTrace, StepTrace, StoreError, StreamPlan, StreamTask, UncachedDataset,
};
pub use crate::error::{DefinitionError, DefinitionErrorKind, DefinitionErrors};
pub use crate::example::{EncodeCounts, ExampleId, ExampleRow, Examples, Origin};
pub use crate::explain::{
    Column, Explanation, FeatureExplanation, SourceExplanation, SplitExplanation, Stage, StagePlace,
    TableExplanation, explain,
};
pub use crate::feature::{Feature, FeatureLengths, Features, LOSS_SUFFIX};
pub use crate::fingerprint::{Fingerprint, NotAFingerprint, canonical_json};
pub use crate::item::{
    DEFAULT_GROUP, Draws, Item, ItemStep, ItemSteps, MadeItem, NamedItemStep, Rope, StoredSpan, TokenOp,
};
pub use crate::key::{KeyValue, WrittenKey};
pub use crate::locate::{Place, TomlDocument};
pub use crate::objective::DenoiseFn;
pub use crate::preprocess::{
    AppendEos, AppendEosAfterTrim, BertMasking, Chat, ChoiceFormats, ConcatenateAndSplitToFixedLength,
    CustomStep, CustomSteps, Deduplicate, DefinitePronounResolutionSimple, Denoise, Exemplar,
    ExemplarRequest, Exemplars, Fewshot, FillInTheBlank, FillInTheBlankSized, FillInTheMiddle, Filter,
    FilterByStringLength, Format, FullLm, Glue, IidDenoising, Lm, LossOn, MultiTranslate, NeighboringPairs,
    NextSentencePrediction, NoiseMaskFn, PRETOKENIZED_SUFFIX, PackPrefixLmDecoderOnly,
    PackPrefixLmEncoderDecoder, PadNonspacedLanguages, ParseTsv, PrefixLm, PreprocessError, PreprocessTsv,
    Preprocessor, RandomSplitText, RankClassification, RankClassificationFormatter, RankMode, Record,
    ReduceConcatTokens, Rekey, Select, SelectRandomChunk, SpanCorruption, SplitKey, SplitTextToWords,
    SplitTokens, SplitTokensToInputsLength, SplitTokensToRandomLength, SplitTokensToTargetsLength, Squad,
    Step, StepContext, StepSettings, Stsb, Summarize, TargetsForPrefixLmObjective, TokenEdit, Tokenize,
    Translate, Trim, TrimTokensAtFront, TriviaQa, TriviaQaTruncateInputs, TruncateInputsLeft, Ul2,
    Ul2Denoiser, WholeSplit, WnliSimple, Wsc, WscSimple, token_type, type_name,
};
pub use crate::read::{ReadChunk, ReadSplitError, SplitReader};
pub use crate::registry::Registry;
pub use crate::rng::{Draws as StepDraws, Key, StepRandom};
pub use crate::source::{
    BadRow, ColumnSpec, ColumnType, DataSource, Dialect, FileRanges, Header, Interleave, OnBadRow,
    ParsedChunk, ProgramError, ProgramSource, ProgramSources, RANGE_BYTES, RawChunk, RawChunks, RawRecords,
    ReadBudget, Reject, RejectedContent, ScalarType, SliceWindows, SourceError, SourceFile, SourceFormat,
    SourceRange, SourceSpec, TableSpec,
};
pub use crate::split::{Split, SplitError, slice_windows};
#[cfg(feature = "sql")]
pub use crate::sql::{Query, QueryError, QueryRows, QueryTable, QueryTableError, QueryTableRows};
pub use crate::task::{
    Boundary, ColumnDefinition, Definition, FeatureSpec, Task, TaskFile, TaskSpec, VocabularyDefinition,
};
pub use crate::text::{lines_in_words, nearest, quoted};
pub use crate::vocabulary::{
    Arithmetic, ByteVocabulary, FullCodepointVocabulary, Listed, NormalizationForm,
    PartialCodepointVocabulary, PassThroughVocabulary, SentencePiece, SentencePieceOptions, SharedVocabulary,
    SpecialId, SpecialIds, SpecialPlaces, SpecialTokensInText, SplitPattern, UnigramVocabulary, Vocabulary,
    VocabularyError, VocabularySpec, WordPieceOptions,
};
pub use crate::whole_split::{
    ChoiceReport, Dropped, Drops, DuplicateCounts, KeyRecord, Position, Repeated, Scratch, SplitChoices,
    SplitKeys, WholeSplitError, WholeSplitStep, find_duplicates,
};

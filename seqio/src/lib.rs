//! seqio: tasks, vocabularies, preprocessing, order, packing and batches for language-model data.

mod batch;
mod convert;
mod dataset;
mod error;
mod example;
mod explain;
mod feature;
mod fingerprint;
mod locate;
mod preprocess;
mod read;
mod registry;
mod rng;
mod source;
mod split;
mod task;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod text;
mod vocabulary;

pub use crate::batch::{Array, Batch, Values};
pub use crate::convert::{
    ConvertError, Converter, DEFAULT_WINDOW, Dtype, MAX_LENGTH, ModelFeature, PackCounts, Packing, Piece,
    Row, RowWriter, Span, WindowPlan, WindowPlanner, default_window,
};
pub use crate::dataset::{
    BatchSizes, Counts, DEFAULT_BLOCK, Dataset, DatasetConfig, DatasetError, DatasetIterator, DatasetState,
    Digest, EpochOrder, ExampleReader, ExampleStore, Horizon, Host, InMemoryExamples, OpenExamples,
    OrderKind, PartTrace, PieceTrace, ReadError, RowTrace, SequenceEdits, SightedPiece, Sighting, StepTrace,
    StoreError, StreamPlan, StreamTask, UncachedDataset,
};
pub use crate::error::{DefinitionError, DefinitionErrorKind, DefinitionErrors};
pub use crate::example::{EncodeCounts, ExampleId, ExampleRow, Examples, Origin};
pub use crate::explain::{
    Column, Explanation, FeatureExplanation, SourceExplanation, SplitExplanation, Stage, StagePlace, explain,
};
pub use crate::feature::{Feature, FeatureLengths, Features};
pub use crate::fingerprint::{Fingerprint, NotAFingerprint, canonical_json};
pub use crate::locate::Place;
pub use crate::preprocess::{
    AppendEos, AppendEosAfterTrim, CustomStep, CustomSteps, Format, PRETOKENIZED_SUFFIX, PreprocessError,
    Preprocessor, Rekey, Step, StepContext, StepSettings, TokenEdit, Tokenize, Trim, token_type, type_name,
};
pub use crate::read::{ReadChunk, ReadSplitError, SplitReader};
pub use crate::registry::Registry;
pub use crate::source::{
    BadRow, ColumnSpec, ColumnType, DataSource, FileRanges, OnBadRow, ParsedChunk, RANGE_BYTES, RawChunk,
    RawChunks, RawRecords, ScalarType, SourceError, SourceFile, SourceFormat, SourceRange, SourceSpec,
};
pub use crate::split::{Split, SplitError, slice_windows};
pub use crate::task::{
    Boundary, ColumnDefinition, Definition, FeatureSpec, Task, TaskFile, TaskSpec, VocabularyDefinition,
};
pub use crate::text::{nearest, quoted};
pub use crate::vocabulary::{
    Arithmetic, ByteVocabulary, PassThroughVocabulary, SentencePiece, SentencePieceOptions, SharedVocabulary,
    SpecialId, SpecialIds, SpecialTokensInText, Vocabulary, VocabularyError, VocabularySpec,
};

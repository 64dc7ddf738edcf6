//! Steps from examples to examples: the trait and the table.
//!
//! ```text
//! text: "a b"   --rekey-->   targets: "a b"   --tokenize-->   targets: [71, 72]   --append_eos-->   [71, 72, 1]
//! ```

mod append_eos;
mod append_eos_after_trim;
mod chat;
mod columns;
mod content;
mod custom;
mod deduplicate;
mod error;
mod exemplars;
mod filter;
mod format;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod laws;
mod rekey;
mod select;
mod sql;
mod template;
mod text;
mod tokenize;
mod tokens;
mod trim;

use std::borrow::Cow;
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{DeserializeOwned, Error as _};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

pub use self::append_eos::AppendEos;
pub use self::append_eos_after_trim::AppendEosAfterTrim;
pub use self::chat::{Chat, LossOn};
pub(crate) use self::columns::check_token_ids;
pub use self::columns::token_type;
pub use self::custom::{CustomStep, CustomSteps};
pub use self::deduplicate::Deduplicate;
pub(crate) use self::error::column_names;
pub use self::error::{PreprocessError, type_name};
pub use self::exemplars::{Exemplar, ExemplarRequest, Exemplars};
pub use self::filter::Filter;
pub use self::format::Format;
pub use self::rekey::Rekey;
pub use self::select::Select;
pub use self::text::{
    ChoiceFormats, DefinitePronounResolutionSimple, Fewshot, FillInTheBlank, FillInTheBlankSized,
    FilterByStringLength, Glue, Lm, MultiTranslate, NeighboringPairs, NextSentencePrediction,
    PadNonspacedLanguages, ParseTsv, PreprocessTsv, RandomSplitText, RankClassification,
    RankClassificationFormatter, RankMode, Record, SplitTextToWords, Squad, Stsb, Summarize, Translate,
    TriviaQa, WnliSimple, Wsc, WscSimple,
};
pub use self::tokenize::{PRETOKENIZED_SUFFIX, Tokenize};
pub use self::tokens::{
    BertMasking, ConcatenateAndSplitToFixedLength, Denoise, FillInTheMiddle, FullLm, IidDenoising,
    NoiseMaskFn, PackPrefixLmDecoderOnly, PackPrefixLmEncoderDecoder, PrefixLm, ReduceConcatTokens,
    SelectRandomChunk, SpanCorruption, SplitTokens, SplitTokensToInputsLength, SplitTokensToRandomLength,
    SplitTokensToTargetsLength, TargetsForPrefixLmObjective, TrimTokensAtFront, TriviaQaTruncateInputs,
    TruncateInputsLeft, Ul2, Ul2Denoiser,
};
pub use self::trim::Trim;
use crate::example::Examples;
use crate::feature::{FeatureLengths, Features};
use crate::item::ItemStep;
use crate::rng::StepRandom;

/// What a step may know besides its examples.
#[derive(Clone, Debug, Default)]
pub struct StepContext {
    /// The task's output features.
    pub output_features: Features,
    /// Lengths that hold at this place: the task's own above the boundary, the run's below; empty if none are set.
    pub lengths: FeatureLengths,
    /// Where a step above the boundary takes random numbers from: by its name and place, the task's `cache_seed`, and the
    /// example's id.
    pub random: StepRandom,
    /// The exemplars that the step asked for ([`Preprocessor::exemplars`]), above the boundary.
    pub exemplars: Option<Arc<Exemplars>>,
}

/// A change to one token sequence that needs no look at its ids, so that packing can be planned from lengths alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenEdit {
    /// Keeps the first ids.
    Trim {
        /// How many.
        max_length: usize,
    },
    /// Appends one id.
    Append {
        /// The id.
        id: i32,
    },
    /// Appends the last id once more; 0 to an empty sequence. So a loss mask follows its tokens when they get an EOS.
    RepeatLast,
}

/// One pure step from examples to examples.
///
/// Laws, checked for every step by `testing::assert_step_laws`: the result has exactly `output_schema`; it depends on
/// nothing but the examples, their ids and `ctx`; rows in another order or another cut give the same result for
/// each id; and where `token_edits` answers, `apply` makes just these edits. A step may drop examples, and make several
/// of one: they stand in its place, in an order that the example alone decides, with ids of their own
/// ([`Examples::parts`]).
pub trait Preprocessor: Debug + Send + Sync {
    /// The step's name in task files, plans and errors.
    fn name(&self) -> &'static str;

    /// Counts up when the step's results change, so that caches made before are not taken for new ones.
    fn version(&self) -> u32 {
        1
    }

    /// The output features whose result depends on `ctx.lengths`. A step that names some belongs below the cache
    /// boundary, unless the task fixes these lengths itself.
    fn length_dependent(&self, _ctx: &StepContext) -> Vec<String> {
        Vec::new()
    }

    /// The columns `apply` will return, or why it cannot run, before any data is read.
    fn output_schema(&self, input: &SchemaRef, ctx: &StepContext) -> Result<SchemaRef, PreprocessError>;

    /// Transforms one chunk of examples.
    fn apply(&self, examples: Examples, ctx: &StepContext) -> Result<Examples, PreprocessError>;

    /// The step as edits of the sequences of `feature`, in order, if that is all it does: only such steps and those that
    /// plan items may stand below the cache boundary. No edits mean that the step leaves the feature alone.
    fn token_edits(&self, _feature: &str, _ctx: &StepContext) -> Option<Vec<TokenEdit>> {
        None
    }

    /// The step as one that plans items by their lengths, if that is what it is: such a step stands below the cache
    /// boundary and runs every epoch. An error says what it lacks, as a length that the run has not given.
    fn item_step(&self, _ctx: &StepContext) -> Option<Result<Arc<dyn ItemStep>, PreprocessError>> {
        None
    }

    /// Output features that the step makes of others, so that nothing above it has to supply them.
    fn makes(&self, _ctx: &StepContext) -> Vec<String> {
        Vec::new()
    }

    /// The exemplars that the step wants to show beside each example: they are read when the task is opened, and are part
    /// of what a cache is named by.
    fn exemplars(&self) -> Option<ExemplarRequest<'_>> {
        None
    }

    /// The step as a choice among all examples of a split, if that is what it is.
    fn whole_split(&self) -> Option<&dyn WholeSplit> {
        None
    }
}

/// What a step compares examples by: a hash of their content.
pub type SplitKey = [u8; 32];

/// A step that needs a whole split to decide about one example: of those with equal keys it keeps the first in the
/// order of the source.
///
/// Laws, checked by `testing::assert_step_laws`: `keys` gives each id the same key in any order and any cut; and
/// `apply` to a whole split in its order, which is what the step means, keeps the first example of each key and all
/// that have none. `apply` is for that alone: a task never runs it on a part of a split, but takes the keys of all
/// examples first, finds out which ones go, and reads the split again.
pub trait WholeSplit: Preprocessor {
    /// The columns that decide about the keys, for reports.
    fn columns(&self) -> Vec<String>;

    /// The key of each example; one without a key is kept whatever the others are.
    fn keys(&self, examples: &Examples, ctx: &StepContext) -> Result<Vec<Option<SplitKey>>, PreprocessError>;
}

const CACHE_SUMMARY: &str =
    "marks where offline caching stops: steps above run once, steps below every epoch";

/// Declares [`Step`]: one line a step gives its variant, its name in task files and its conversions.
macro_rules! steps {
    ($($name:literal: $variant:ident, $summary:literal;)*) => {
        /// Every step a task file can name.
        ///
        /// In TOML a table with the step's name as `op` and its settings beside it: `{ op = "trim" }`.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Step {
            $(#[doc = concat!("`", $name, "`: ", $summary, ".")] $variant($variant),)*
            /// `cache`: where offline caching stops; steps above run once, steps below every epoch.
            Cache,
            /// A step that the program registers under a name of its own.
            Custom(CustomStep),
        }

        impl Step {
            /// Names of the steps known to every program, each with what it does.
            pub const TABLE: &[(&str, &str)] = &[
                $(($name, $summary),)*
                ("cache", CACHE_SUMMARY),
            ];

            /// The step's name in task files.
            pub fn op(&self) -> &str {
                match self {
                    $(Self::$variant(_) => $name,)*
                    Self::Cache => "cache",
                    Self::Custom(step) => &step.op,
                }
            }

            /// Reads the settings of the step `op`; `None` if no program knows a step of this name.
            pub(crate) fn decode<'de, D: Deserializer<'de>>(op: &str, settings: D) -> Option<Result<Self, D::Error>> {
                match op {
                    $($name => Some($variant::deserialize(settings).map(Self::$variant)),)*
                    "cache" => Some(NoSettings::deserialize(settings).map(|_| Self::Cache)),
                    _ => None,
                }
            }

            /// The step itself; `None` for `cache`, which is a place and not a step, and for steps of a program's own.
            fn built_in(&self) -> Option<Arc<dyn Preprocessor>> {
                match self {
                    $(Self::$variant(step) => Some(Arc::new(step.clone())),)*
                    Self::Cache | Self::Custom(_) => None,
                }
            }

            /// The settings of every step of the table, as JSON Schemas with `op`, a description and an example.
            fn schemas(generator: &mut SchemaGenerator) -> Vec<Value> {
                vec![
                    $(with_op($name, $summary, <$variant as JsonSchema>::json_schema(generator)),)*
                    with_op("cache", CACHE_SUMMARY, NoSettings::json_schema(generator)),
                ]
            }

            fn settings_value(&self) -> Result<Value, serde_json::Error> {
                match self {
                    $(Self::$variant(step) => serde_json::to_value(step),)*
                    Self::Cache => Ok(Value::Object(Map::new())),
                    Self::Custom(step) => Ok(Value::Object(step.settings.clone())),
                }
            }
        }

        $(impl From<$variant> for Step {
            fn from(step: $variant) -> Self {
                Self::$variant(step)
            }
        })*
    };
}

steps! {
    "filter": Filter, "drops the examples for which an SQL condition does not hold";
    "select": Select, "keeps some columns, in the order they are listed";
    "rekey": Rekey, "keeps the named columns under new names";
    "format": Format, "fills columns from templates or by SQL expressions over other columns";
    "deduplicate": Deduplicate, "of examples that are equal in some columns keeps the first";
    "translate": Translate, "asks to translate the text of one column into that of another";
    "multi_translate": MultiTranslate, "asks to translate one of many languages into another";
    "summarize": Summarize, "asks to summarize an article";
    "squad": Squad, "asks a question about a passage";
    "trivia_qa": TriviaQa, "asks a question about each passage that has an answer";
    "stsb": Stsb, "asks how much alike two sentences are";
    "glue": Glue, "asks for the label of some texts";
    "wnli_simple": WnliSimple, "asks what a pronoun means, from the two sentences of WNLI";
    "wsc": Wsc, "asks whether a pronoun means a noun";
    "wsc_simple": WscSimple, "asks what a pronoun means, from a text with the places of its words";
    "definite_pronoun_resolution_simple": DefinitePronounResolutionSimple, "asks which candidate a pronoun means";
    "record": Record, "asks what belongs in the gap of a sentence about a passage";
    "rank_classification": RankClassification, "makes an example of each choice of a question";
    "rank_classification_formatter": RankClassificationFormatter, "makes an example of each choice, written by templates";
    "fewshot": Fewshot, "puts exemplars before each example";
    "lm": Lm, "makes a text the targets of a language model";
    "parse_tsv": ParseTsv, "cuts a text at tabs into columns";
    "preprocess_tsv": PreprocessTsv, "cuts a text at tabs and fills templates with the fields";
    "split_text_to_words": SplitTextToWords, "adds the list of a text's words";
    "random_split_text": RandomSplitText, "cuts texts into pieces of random lengths";
    "fill_in_the_blank": FillInTheBlank, "makes two examples of a text with random gaps";
    "fill_in_the_blank_sized": FillInTheBlankSized, "takes a random stretch of words out of a text";
    "neighboring_pairs": NeighboringPairs, "makes an example of each two neighbouring sentences";
    "next_sentence_prediction": NextSentencePrediction, "asks whether a sentence follows another";
    "filter_by_string_length": FilterByStringLength, "drops examples whose text is too short or too long";
    "pad_nonspaced_languages": PadNonspacedLanguages, "puts blanks between characters of writings that have none";
    "chat": Chat, "turns conversations into token ids by a chat template, and says which of them count";
    "tokenize": Tokenize, "turns the text of every output feature into token ids";
    "append_eos": AppendEos, "ends sequences with EOS";
    "append_eos_after_trim": AppendEosAfterTrim, "cuts sequences to one less than their length and ends them with EOS";
    "trim": Trim, "keeps the first ids of sequences that are longer than their length";
    "trim_tokens_at_front": TrimTokensAtFront, "keeps the last ids of sequences, with room for an EOS";
    "truncate_inputs_left": TruncateInputsLeft, "keeps the last ids of inputs that are longer than their length";
    "trivia_qa_truncate_inputs": TriviaQaTruncateInputs, "cuts long inputs to a stretch that holds the targets";
    "select_random_chunk": SelectRandomChunk, "takes a random part of sequences that are too long";
    "reduce_concat_tokens": ReduceConcatTokens, "joins the sequences of several examples";
    "split_tokens": SplitTokens, "cuts sequences into segments";
    "split_tokens_to_inputs_length": SplitTokensToInputsLength, "cuts sequences into segments as long as inputs";
    "split_tokens_to_targets_length": SplitTokensToTargetsLength, "cuts sequences into segments as long as targets";
    "split_tokens_to_random_length": SplitTokensToRandomLength, "cuts each sequence into segments of a random length";
    "concatenate_and_split_to_fixed_length": ConcatenateAndSplitToFixedLength, "joins sequences and cuts them into full rows";
    "denoise": Denoise, "makes inputs and targets of a text under a noise mask";
    "span_corruption": SpanCorruption, "puts sentinels in the place of random spans of the inputs; targets are the spans";
    "iid_denoising": IidDenoising, "puts sentinels in the place of random tokens of the inputs; targets are the tokens";
    "bert_masking": BertMasking, "masks random tokens of the inputs; targets are the whole text";
    "prefix_lm": PrefixLm, "cuts texts in two at random places: inputs and targets";
    "full_lm": FullLm, "joins documents that end with EOS and cuts them into rows";
    "targets_for_prefix_lm_objective": TargetsForPrefixLmObjective, "joins documents that end with EOS and cuts them into rows that are filled up";
    "pack_prefix_lm_encoder_decoder": PackPrefixLmEncoderDecoder, "makes rows for encoder and decoder of two rows of targets";
    "pack_prefix_lm_decoder_only": PackPrefixLmDecoderOnly, "makes rows with a random prefix of rows of targets";
    "fill_in_the_middle": FillInTheMiddle, "puts the middle of some sequences last";
    "ul2": Ul2, "makes inputs and targets of segments by denoisers of several kinds";
}

/// Without a `cache` step the boundary is implied: before the first step that depends on a length that the task does not
/// fix, or at the end.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self {})]
struct NoSettings {}

/// The schema of a step's settings with its name and what it does in front.
fn with_op(op: &str, summary: &str, settings: Schema) -> Value {
    let mut step = settings.to_value();
    let more =
        step.get("description").and_then(Value::as_str).map_or(String::new(), |more| format!("\n\n{more}"));
    step["title"] = op.into();
    step["x-summary"] = summary.into();
    step["description"] = format!("{}.{more}", capitalised(summary)).into();
    step["properties"]["op"] = serde_json::json!({ "const": op, "description": summary });
    for example in step["examples"].as_array_mut().into_iter().flatten() {
        example["op"] = op.into();
    }
    match step["required"].as_array_mut() {
        Some(required) => required.insert(0, "op".into()),
        None => step["required"] = serde_json::json!(["op"]),
    }
    step
}

fn capitalised(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or(String::new(), |first| first.to_uppercase().chain(rest).collect())
}

impl JsonSchema for Step {
    fn schema_name() -> Cow<'static, str> {
        "Step".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "oneOf": Self::schemas(generator) })
    }
}

impl Step {
    /// The settings, without `op`.
    pub fn settings(&self) -> Map<String, Value> {
        match self.settings_value() {
            Ok(Value::Object(settings)) => settings,
            _ => Map::new(),
        }
    }

    /// The settings as they count for a fingerprint: SQL without what makes no difference.
    pub(crate) fn canonical_settings(&self) -> Map<String, Value> {
        match self {
            Self::Filter(step) => Self::Filter(Filter::new(sql::canonical_sql(&step.condition))).settings(),
            Self::Format(step) => Self::Format(step.canonical()).settings(),
            Self::Select(step) => Self::Select(step.canonical()).settings(),
            _ => self.settings(),
        }
    }

    /// The step with the files in it that its settings name, which start from `folder`; `None` if it names none. A
    /// mistake comes with the setting it is in.
    pub(crate) fn resolved(&self, folder: &Path) -> Option<Result<Self, (&'static str, String)>> {
        match self {
            Self::Chat(step) => Some(step.resolved(folder).map(Self::Chat)),
            _ => None,
        }
    }

    /// Whether the step can make values that no other step has checked.
    pub(crate) fn makes_values(&self) -> bool {
        match self {
            Self::Format(step) => !step.compute.is_empty(),
            Self::Select(step) => step.computes(),
            Self::Custom(_) => true,
            _ => false,
        }
    }

    /// Makes the step; `Ok(None)` for the `cache` boundary.
    pub(crate) fn preprocessor(&self, custom: &CustomSteps) -> Result<Option<Arc<dyn Preprocessor>>, String> {
        match self {
            Self::Cache => Ok(None),
            Self::Custom(step) => custom.create(step).map(Some),
            _ => Ok(self.built_in()),
        }
    }
}

impl Serialize for Step {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let settings = self.settings();
        let mut map = serializer.serialize_map(Some(settings.len() + 1))?;
        map.serialize_entry("op", self.op())?;
        for (key, value) in &settings {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Step {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut settings = Map::deserialize(deserializer)?;
        let op = match settings.remove("op") {
            Some(Value::String(op)) => op,
            Some(_) => return Err(D::Error::custom("`op` is not a string")),
            None => return Err(D::Error::missing_field("op")),
        };
        match Self::decode(&op, Value::Object(settings.clone())) {
            Some(step) => step.map_err(|error| D::Error::custom(format!("step `{op}`: {error}"))),
            None => Ok(Self::Custom(CustomStep { op, settings })),
        }
    }
}

/// What a type needs to be a registered step: to be read from its settings.
pub trait StepSettings: Preprocessor + DeserializeOwned + 'static {}

impl<T: Preprocessor + DeserializeOwned + 'static> StepSettings for T {}

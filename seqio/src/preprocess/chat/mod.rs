//! Conversations for fine-tuning: messages through a chat template, to ids and to which of them count.
//!
//! ```text
//! messages  [{role: user, content: Hi}, {role: assistant, content: Ho}]
//! text      <|user|>Hi<|assistant|>Ho</s>
//! targets       [ 5,  71,        6,  72, 2]
//! targets_loss  [ 0,   0,        0,   1, 1]
//! ```
//!
//! `settings.rs` is what a definition says, `template.rs` Jinja, `spans.rs` which stretches of the text count, `rows.rs`
//! the columns that conversations come from, and this file the step.

mod config;
mod date;
mod marks;
mod rows;
mod settings;
mod spans;
mod tags;
mod template;
#[cfg(test)]
mod tests;
mod value;

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringBuilder};
use arrow::datatypes::{DataType, Field, SchemaRef};

pub use self::settings::{Chat, LossOn};

use self::marks::Written;
use self::rows::Rows;
use crate::example::{EncodeCounts, Examples};
use crate::feature::Feature;
use crate::feature::LOSS_SUFFIX;
use crate::preprocess::columns::{token_column, token_field};
use crate::preprocess::tokenize::PRETOKENIZED_SUFFIX;
use crate::preprocess::{PreprocessError, Preprocessor, StepContext};
use crate::text::{nearest, quoted};
use crate::vocabulary::SpecialPlaces;

const STEP: &str = "chat";

impl Preprocessor for Chat {
    fn name(&self) -> &'static str {
        STEP
    }

    fn output_schema(&self, input: &SchemaRef, ctx: &StepContext) -> Result<SchemaRef, PreprocessError> {
        let feature = self.target(ctx)?;
        let template = self.compiled()?;
        self.check_specials(feature)?;
        let rows = Rows::new(self, template.as_ref(), input)?;
        let mut fields: Vec<_> = input.fields().iter().map(Arc::clone).collect();
        fields.retain(|field| !rows.takes(field.name()));
        for name in [&self.feature, &self.loss_name(), &self.kept_name()] {
            if fields.iter().any(|field| field.name() == name) {
                return Err(setting(format!("there is a column `{name}` already; drop or rename it before")));
            }
        }
        fields.push(Arc::new(token_field(&self.feature)));
        if self.gives_loss(ctx)? {
            fields.push(Arc::new(token_field(&self.loss_name())));
        }
        if self.keep_pretokenized {
            fields.push(Arc::new(Field::new(self.kept_name(), DataType::Utf8, false)));
        }
        Ok(Arc::new(arrow::datatypes::Schema::new(fields)))
    }

    fn apply(&self, examples: Examples, ctx: &StepContext) -> Result<Examples, PreprocessError> {
        let input = examples.columns.schema();
        let schema = self.output_schema(&input, ctx)?;
        let feature = self.target(ctx)?;
        let template = self.compiled()?;
        let rows = Rows::new(self, template.as_ref(), &input)?;
        let texts = rows.texts(&examples.columns)?;
        let mut tokens = Tokens::default();
        let mut kept = StringBuilder::new();
        for (number, row) in examples.rows.iter().enumerate() {
            let written = rows.write(&texts, number, feature.vocabulary.as_ref());
            let encoded = written.and_then(|written| {
                tokens.add(&written, feature, self.escape_content)?;
                Ok(written)
            });
            let written =
                encoded.map_err(|problem| PreprocessError::row(STEP, &self.feature, problem, row))?;
            if self.keep_pretokenized {
                kept.append_value(&written.text);
            }
        }
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(schema.fields().len());
        for (field, column) in input.fields().iter().zip(examples.columns.columns()) {
            if !rows.takes(field.name()) {
                columns.push(Arc::clone(column));
            }
        }
        let Tokens { ids, loss, ends, counts } = tokens;
        columns.push(Arc::new(token_column(ids, ends.clone())));
        if self.gives_loss(ctx)? {
            columns.push(Arc::new(token_column(loss, ends)));
        }
        if self.keep_pretokenized {
            columns.push(Arc::new(kept.finish()));
        }
        let columns = RecordBatch::try_new(schema, columns)?;
        let mut examples = examples.with_columns(columns);
        *examples.counts.entry(self.feature.clone()).or_default() += counts;
        Ok(examples)
    }
}

impl Chat {
    /// The feature that is filled.
    fn target<'a>(&self, ctx: &'a StepContext) -> Result<&'a Feature, PreprocessError> {
        let name = &self.feature;
        let Some(feature) = ctx.output_features.get(name) else {
            let known = ctx.output_features.keys().map(String::as_str);
            return Err(setting(match nearest(name, known.clone()) {
                Some(near) => format!("there is no feature `{name}` to fill; did you mean `{near}`?"),
                None => format!(
                    "there is no feature `{name}` to fill; the task's features are {}; name one, as `feature = \"…\"`",
                    quoted(known)
                ),
            }));
        };
        if !feature.vocabulary.has_offsets() {
            return Err(setting(format!(
                "vocabulary `{}` of feature `{name}` is of kind `{}`, which does not say where its tokens begin in a \
                 text; `tokenizer_json`, `sentencepiece`, `tiktoken`, `byte` and the codepoint kinds do",
                feature.vocabulary_name,
                feature.vocabulary.kind()
            )));
        }
        Ok(feature)
    }

    /// Whether the task has a feature for which tokens count.
    fn gives_loss(&self, ctx: &StepContext) -> Result<bool, PreprocessError> {
        let name = self.loss_name();
        let Some(feature) = ctx.output_features.get(&name) else {
            if self.loss_on == LossOn::All {
                return Ok(false);
            }
            return Err(setting(format!(
                "which tokens count goes to the feature `{name}`, which the task lacks; add it, as \
                 `{name} = {{ vocabulary = \"loss\" }}` with `[vocabulary.loss]` and \
                 `pass_through = 2`, or let all count, by `loss_on = \"all\"`"
            )));
        };
        if feature.vocabulary.kind() != "pass_through" || feature.vocabulary.vocab_size() < 2 {
            return Err(setting(format!(
                "feature `{name}` holds 0 and 1 for tokens that do not count and that do, so its vocabulary must be \
                 `pass_through = 2`, and not `{}`",
                feature.vocabulary_name
            )));
        }
        Ok(true)
    }

    /// Where only what matches by itself becomes special, what the template writes must.
    fn check_specials(&self, feature: &Feature) -> Result<(), PreprocessError> {
        if self.escape_content {
            return Ok(());
        }
        let vocabulary = feature.vocabulary.as_ref();
        for text in self.written_by_template() {
            let places = vocabulary.special_places(text).map_err(|error| setting(error.to_string()))?;
            for place in places {
                let mut ids = Vec::new();
                vocabulary
                    .encode_into(&text[place.clone()], &mut ids)
                    .map_err(|error| setting(error.to_string()))?;
                if ids.len() != 1 {
                    return Err(setting(format!(
                        "vocabulary `{name}` makes text of `{token}`, which the template writes as a special token; \
                         set `special_tokens_in_text = \"match\"` in `[vocabulary.{name}]`, or `escape_content = true` \
                         here",
                        name = feature.vocabulary_name,
                        token = &text[place],
                    )));
                }
            }
        }
        Ok(())
    }

    /// What the template writes that looks like a special token and is none of the vocabulary.
    pub(crate) fn unknown_specials(&self, feature: &Feature) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        let vocabulary = feature.vocabulary.as_ref();
        let is_known = |token: &str| {
            let places = vocabulary.special_places(token).unwrap_or_default();
            let mut ids = Vec::new();
            let one = vocabulary.encode_into(token, &mut ids).is_ok_and(|_| ids.len() == 1);
            places.first() == Some(&(0..token.len())) || one
        };
        for text in self.written_by_template() {
            for token in looking_special(text) {
                if !found.iter().any(|known| known == token) && !is_known(token) {
                    found.push(token.to_owned());
                }
            }
        }
        found
    }

    /// Name of the feature that says which tokens count.
    pub(crate) fn loss_name(&self) -> String {
        format!("{}{LOSS_SUFFIX}", self.feature)
    }

    fn kept_name(&self) -> String {
        format!("{}{PRETOKENIZED_SUFFIX}", self.feature)
    }
}

/// `<|im_start|>` and the like, which no text has by chance.
fn looking_special(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("<|") {
        rest = &rest[at..];
        let Some(end) = rest.find("|>") else { break };
        let token = &rest[..end + 2];
        if token.len() > 4 && token[2..end].chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-')) {
            found.push(token);
            rest = &rest[end + 2..];
        } else {
            rest = &rest[2..];
        }
    }
    found
}

/// The tokens of a chunk, one example behind the other.
#[derive(Debug)]
struct Tokens {
    ids: Vec<i32>,
    loss: Vec<i32>,
    ends: Vec<i32>,
    counts: EncodeCounts,
}

impl Default for Tokens {
    fn default() -> Self {
        Self { ids: Vec::new(), loss: Vec::new(), ends: vec![0], counts: EncodeCounts::default() }
    }
}

impl Tokens {
    /// Encodes a text. A token counts if it begins in a turn that does.
    fn add(&mut self, written: &Written, feature: &Feature, escape: bool) -> Result<(), String> {
        let special = match escape {
            true => SpecialPlaces::AllBut(&written.plain),
            false => SpecialPlaces::AsUsual,
        };
        let mut starts = Vec::new();
        let mut counts = feature
            .vocabulary
            .encode_with_offsets_into(&written.text, special, &mut self.ids, &mut starts)
            .map_err(|error| error.to_string())?;
        if escape {
            // Those that the template writes are meant.
            counts.special_spellings = written.plain.len() as u64;
        }
        self.counts += counts;
        self.loss.extend(counted(&starts, &written.turns));
        let end = i32::try_from(self.ids.len())
            .map_err(|_| "the chunk of examples holds over 2,147,483,647 ids".to_owned())?;
        self.ends.push(end);
        Ok(())
    }
}

/// 1 for each token that begins in one of the turns; both rise.
fn counted(starts: &[usize], turns: &[Range<usize>]) -> Vec<i32> {
    let mut turns = turns.iter().peekable();
    let counts = |start: &usize| {
        while turns.next_if(|turn| turn.end <= *start).is_some() {}
        i32::from(turns.peek().is_some_and(|turn| turn.start <= *start))
    };
    starts.iter().map(counts).collect()
}

fn setting(problem: String) -> PreprocessError {
    PreprocessError::Setting { step: STEP, problem }
}

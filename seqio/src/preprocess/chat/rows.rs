//! The columns that conversations come from, and what a template makes of each row.
//!
//! ```text
//! messages              [{"role": "user", …}]               JSON text, or a list of structs
//! prompt, completion    "2 + 2 = " and "4"                  texts, without a template one behind the other
//!                       [{"role": "user", …}] and [{…}]     messages, by a template
//! ```

use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::SchemaRef;
use minijinja::Value;
use minijinja::value::ValueKind;

use super::marks::{Written, held, mark_plain};
use super::settings::{Chat, LossOn};
use super::template::{Conversation, Template};
use super::{STEP, setting, spans, value};
use crate::preprocess::PreprocessError;
use crate::source::{is_json, json_texts};
use crate::text::quoted;
use crate::vocabulary::Vocabulary;

/// Columns that a template sees without being named.
const USUAL: [&str; 2] = ["tools", "documents"];

/// Where the conversations of a chunk are.
#[derive(Debug)]
pub(super) struct Rows<'a> {
    step: &'a Chat,
    template: Option<&'a Template>,
    main: Main<'a>,
    columns: Vec<&'a str>,
    roles: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
enum Main<'a> {
    Messages(&'a str),
    Pairs(&'a str, &'a str),
}

/// The columns of a chunk, in the order of [`Rows::names`], as texts.
pub(super) struct Texts(Vec<ArrayRef>);

impl Texts {
    fn get(&self, column: usize, row: usize) -> Option<&str> {
        let texts = self.0.get(column)?.as_string::<i32>();
        texts.is_valid(row).then(|| texts.value(row))
    }
}

impl<'a> Rows<'a> {
    /// Checks that the columns are there.
    pub(super) fn new(
        step: &'a Chat,
        template: Option<&'a Template>,
        input: &SchemaRef,
    ) -> Result<Self, PreprocessError> {
        let main = match (&step.messages, &step.prompt, &step.completion) {
            (messages, None, None) => Main::Messages(messages.as_deref().unwrap_or("messages")),
            (None, Some(prompt), Some(completion)) => Main::Pairs(prompt, completion),
            (Some(_), ..) => {
                let problem =
                    "conversations come from `messages`, or from `prompt` and `completion`: keep one";
                return Err(setting(problem.to_owned()));
            }
            _ => {
                let problem = "`prompt` and `completion` are two columns of one conversation: name both";
                return Err(setting(problem.to_owned()));
            }
        };
        if let (Main::Messages(_), None) = (main, template) {
            let problem = "messages need a template: `template_file = \"tokenizer_config.json\"`, \
                           `template_file = \"chat_template.jinja\"`, or `template = '''…'''`";
            return Err(setting(problem.to_owned()));
        }
        let columns: Vec<&str> = match (&step.columns, template) {
            (Some(columns), Some(_)) => columns.iter().map(String::as_str).collect(),
            (Some(_), None) => {
                return Err(setting("`columns` are for a template, and there is none".to_owned()));
            }
            (None, Some(_)) => {
                USUAL.into_iter().filter(|name| input.column_with_name(name).is_some()).collect()
            }
            (None, None) => Vec::new(),
        };
        let rows = Self { step, template, main, columns, roles: step.counted_roles() };
        for name in rows.names() {
            let Some((_, field)) = input.column_with_name(name) else {
                if step.messages.is_none() && name == "messages" {
                    let found = input.fields().iter().map(|field| field.name());
                    return Err(setting(format!(
                        "there is no column `messages`, only {}; name the one that holds them, as `messages = \"…\"`, \
                         and have the source read it as JSON text, as `columns = {{ messages = \"json\" }}`",
                        quoted(found)
                    )));
                }
                return Err(PreprocessError::missing(STEP, "column", name, input));
            };
            if !is_json(field.data_type()) {
                return Err(PreprocessError::WrongType {
                    step: STEP,
                    column: name.to_owned(),
                    expected: "text, JSON text or a list of structs",
                    found: field.data_type().clone(),
                });
            }
        }
        Ok(rows)
    }

    /// The columns that are read.
    fn names(&self) -> impl Iterator<Item = &'a str> + '_ {
        let (first, second) = match self.main {
            Main::Messages(messages) => (messages, None),
            Main::Pairs(prompt, completion) => (prompt, Some(completion)),
        };
        std::iter::once(first).chain(second).chain(self.columns.iter().copied())
    }

    /// Whether the column of this name is used up.
    pub(super) fn takes(&self, name: &str) -> bool {
        self.names().any(|taken| taken == name)
    }

    /// The columns of a chunk.
    pub(super) fn texts(&self, chunk: &RecordBatch) -> Result<Texts, PreprocessError> {
        let column = |name: &str| {
            let column = chunk.column_by_name(name);
            let column =
                column.ok_or_else(|| PreprocessError::missing(STEP, "column", name, chunk.schema_ref()))?;
            Ok(json_texts(column)?)
        };
        Ok(Texts(self.names().map(column).collect::<Result<_, PreprocessError>>()?))
    }

    /// The text of a row, and which of it counts.
    pub(super) fn write(
        &self,
        texts: &Texts,
        row: usize,
        vocabulary: &dyn Vocabulary,
    ) -> Result<Written, String> {
        let read = |text: &str| {
            check_marks(text)?;
            let places = self.plain_places(text, vocabulary)?;
            Ok(if places.is_empty() { text.to_owned() } else { mark_plain(text, &places) })
        };
        let given = |column: usize, name: &str| {
            texts.get(column, row).ok_or_else(|| format!("its `{name}` is null, and is needed"))
        };
        let (name, template) = match (self.main, self.template) {
            (Main::Pairs(prompt, completion), None) => {
                return self.join(given(0, prompt)?, given(1, completion)?, vocabulary);
            }
            (Main::Messages(_), None) => return Err("there is no template".to_owned()),
            (Main::Messages(name), Some(template)) => (name, template),
            (Main::Pairs(prompt, completion), Some(template)) => {
                let mut messages = one_side(given(0, prompt)?, prompt, "user", &read)?;
                let prompted = messages.len();
                messages.extend(one_side(given(1, completion)?, completion, "assistant", &read)?);
                let conversation = Conversation { messages, values: self.values(texts, 2, row, &read)? };
                return spans::completion(template, &conversation, prompted, self.step.loss_on);
            }
        };
        let messages = messages(given(0, name)?, name, &read)?;
        let conversation = Conversation { messages, values: self.values(texts, 1, row, &read)? };
        spans::written(template, &conversation, self.step.loss_on, &self.roles)
    }

    /// Prompt and completion as they are.
    fn join(&self, prompt: &str, completion: &str, vocabulary: &dyn Vocabulary) -> Result<Written, String> {
        let text = [prompt, completion].concat();
        let counts = match self.step.loss_on {
            LossOn::All => 0..text.len(),
            LossOn::Assistant | LossOn::Last => prompt.len()..text.len(),
        };
        let plain = self.plain_places(&text, vocabulary)?;
        Ok(Written { text, turns: std::iter::once(counts).collect(), plain })
    }

    /// Where a text of the data spells special tokens that must not become some.
    fn plain_places(&self, text: &str, vocabulary: &dyn Vocabulary) -> Result<Vec<Range<usize>>, String> {
        match self.step.escape_content {
            true => vocabulary.special_places(text).map_err(|error| error.to_string()),
            false => Ok(Vec::new()),
        }
    }

    /// The other columns of a row: JSON, or text where they are none.
    fn values(
        &self,
        texts: &Texts,
        first: usize,
        row: usize,
        read: &value::ReadString<'_>,
    ) -> Result<Vec<(String, Value)>, String> {
        let value = |(place, name): (usize, &&str)| {
            let value = match texts.get(first + place, row) {
                None => Value::from(()),
                Some(text) if serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() => {
                    Value::from(read(text)?)
                }
                Some(text) => parse(text, name, read)?,
            };
            Ok(((*name).to_owned(), value))
        };
        self.columns.iter().enumerate().map(value).collect()
    }
}

fn check_marks(text: &str) -> Result<(), String> {
    match held(text) {
        None => Ok(()),
        Some(mark) => Err(format!(
            "it holds the noncharacter U+{:04X}, which no text should and which marks places here; take it out",
            mark as u32
        )),
    }
}

/// A value from JSON text, which may itself be a string of JSON text.
fn parse(text: &str, name: &str, read: &value::ReadString<'_>) -> Result<Value, String> {
    let failed = |error: serde_json::Error| format!("its `{name}` cannot be read: {error}");
    if text.trim_start().starts_with('"') {
        let inner: String = serde_json::from_str(text).map_err(failed)?;
        return match inner.trim_start().starts_with(['[', '{']) {
            true => value::parse(&inner, read).map_err(failed),
            false => Ok(Value::from(read(&inner)?)),
        };
    }
    value::parse(text, read).map_err(failed)
}

/// The messages of a column.
fn messages(text: &str, name: &str, read: &value::ReadString<'_>) -> Result<Vec<Value>, String> {
    let value = parse(text, name, read)?;
    if value.kind() != ValueKind::Seq {
        return Err(format!("its `{name}` should be a list of messages, but is a {}", value.kind()));
    }
    let messages: Vec<Value> = value.try_iter().map_err(|error| error.to_string())?.collect();
    for (place, message) in messages.iter().enumerate() {
        let has = |key: &str| message.get_attr(key).is_ok_and(|value| value.kind() == ValueKind::String);
        if message.kind() == ValueKind::Map && has("role") {
            continue;
        }
        let number = place + 1;
        if message.kind() == ValueKind::Map && has("from") {
            return Err(format!(
                "message {number} of its `{name}` has `from` and `value`, where templates want `role` (`user`, \
                 `assistant`) and `content`; rename them in the data"
            ));
        }
        return Err(format!("message {number} of its `{name}` is no object with a `role` that is text"));
    }
    Ok(messages)
}

/// Prompt or completion: messages, or the text of one.
fn one_side(text: &str, name: &str, role: &str, read: &value::ReadString<'_>) -> Result<Vec<Value>, String> {
    let is_messages = text.trim_start().starts_with('[')
        && serde_json::from_str::<Vec<serde_json::Map<String, serde_json::Value>>>(text)
            .is_ok_and(|messages| messages.iter().all(|message| message.contains_key("role")));
    match is_messages {
        true => messages(text, name, read),
        false => {
            let message = [("role", Value::from(role)), ("content", Value::from(read(text)?))];
            Ok(vec![Value::from_pairs(message)])
        }
    }
}

//! What a definition says of a chat step, and how files that it names become part of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::config::{TokenizerConfig, read};
use super::date::Date;
use super::template::Template;
use super::{STEP, setting, value};
use crate::preprocess::PreprocessError;

/// Which tokens of a conversation count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LossOn {
    /// What the assistant says; of prompt and completion, the completion.
    #[default]
    Assistant,
    /// Everything.
    All,
    /// The assistant's last turn alone.
    Last,
}

/// Fills one feature with the ids of a conversation, and `<feature>_loss` with 1 for each token that the model is to
/// learn to say and 0 for the others. The columns that the conversation comes from are dropped, other columns stay.
///
/// Templates are those of Hugging Face. They are read when the task is opened, and are part of what a cache is named by.
/// What counts is what stands in `{% generation %}` blocks, if the template has some, or else what each turn of the
/// assistant adds to the turns before it. Messages are JSON text (`columns = { messages = "json" }`), nothing is put
/// before or behind what the template writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::from_file("tokenizer_config.json"))]
pub struct Chat {
    /// The column of messages: a list of objects with `role` and `content`, and whatever else the template reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"conversation", extend("default" = "messages", "x-type" = "column"))]
    pub messages: Option<String>,
    /// In place of `messages`: the column of what is given, as text or as messages; needs `completion`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"question", extend("x-default" = "none", "x-type" = "column"))]
    pub prompt: Option<String>,
    /// The column of what the model is to say to `prompt`, as text or as messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"answer", extend("x-default" = "none", "x-type" = "column"))]
    pub completion: Option<String>,
    /// Other columns that the template sees by their names: JSON, or text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        example = vec!["tools", "system"],
        extend("x-default" = "`tools` and `documents`, where there are such columns")
    )]
    pub columns: Option<Vec<String>>,
    /// The feature that is filled.
    #[serde(default = "targets", skip_serializing_if = "is_targets")]
    #[schemars(example = &"inputs", extend("default" = "targets"))]
    pub feature: String,
    /// The template itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        example = &"{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{{ eos_token }}{% endfor %}",
        extend("x-default" = "that of `template_file` or `tokenizer_config`", "x-type" = "Jinja template")
    )]
    pub template: Option<String>,
    /// The file of the template: `chat_template.jinja`, or a `tokenizer_config.json`, whose tokens are then taken too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"chat_template.jinja", extend("x-default" = "none", "x-type" = "path"))]
    pub template_file: Option<PathBuf>,
    /// A `tokenizer_config.json`: its `bos_token`, `eos_token` and so on, and its template if none is given otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"tokenizer_config.json", extend("x-default" = "none", "x-type" = "path"))]
    pub tokenizer_config: Option<PathBuf>,
    /// Which of several templates in a `tokenizer_config.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"tool_use", extend("default" = "default"))]
    pub template_name: Option<String>,
    /// Special tokens that the template sees by these names; they go before those of a `tokenizer_config.json`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(
        example = BTreeMap::from_iter(vec![("eos_token", "</s>")]),
        extend("x-default" = "those of the `tokenizer_config.json`", "x-type" = "table of name = text")
    )]
    pub tokens: BTreeMap<String, String>,
    /// What else the template sees, the same for all examples.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(
        example = BTreeMap::from_iter(vec![("enable_thinking", false)]),
        extend("x-default" = "none", "x-type" = "table of name = value")
    )]
    pub variables: BTreeMap<String, Value>,
    /// Which tokens count.
    #[serde(default)]
    #[schemars(example = LossOn::Last)]
    pub loss_on: LossOn,
    /// Whose turns count, for templates without `{% generation %}` blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = vec!["assistant", "tool"], extend("default" = vec!["assistant"]))]
    pub roles: Option<Vec<String>>,
    /// Whether what a message spells like a special token stays text, whatever the vocabulary's `special_tokens_in_text`;
    /// what the template itself writes becomes special tokens. With `false` both are as the vocabulary does.
    #[serde(default = "yes")]
    #[schemars(example = false)]
    pub escape_content: bool,
    /// The day that templates get which ask for today's date.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"2024-07-26", extend("x-default" = "none: such a template is refused", "x-type" = "YYYY-MM-DD"))]
    pub date: Option<String>,
    /// Keeps the text, as column `<feature>_pretokenized`.
    #[serde(default)]
    #[schemars(example = true)]
    pub keep_pretokenized: bool,
}

fn targets() -> String {
    "targets".to_owned()
}

fn is_targets(feature: &str) -> bool {
    feature == "targets"
}

fn yes() -> bool {
    true
}

impl Default for Chat {
    fn default() -> Self {
        Self {
            messages: None,
            prompt: None,
            completion: None,
            columns: None,
            feature: targets(),
            template: None,
            template_file: None,
            tokenizer_config: None,
            template_name: None,
            tokens: BTreeMap::new(),
            variables: BTreeMap::new(),
            loss_on: LossOn::default(),
            roles: None,
            escape_content: true,
            date: None,
            keep_pretokenized: false,
        }
    }
}

impl Chat {
    /// By this template.
    pub fn new(template: impl Into<String>) -> Self {
        Self { template: Some(template.into()), ..Self::default() }
    }

    /// By the template in a file.
    pub fn from_file(path: impl Into<PathBuf>) -> Self {
        Self { template_file: Some(path.into()), ..Self::default() }
    }

    /// Prompts and completions, by the columns of these names, without a template.
    pub fn of_pairs(prompt: impl Into<String>, completion: impl Into<String>) -> Self {
        Self { prompt: Some(prompt.into()), completion: Some(completion.into()), ..Self::default() }
    }

    /// Says which tokens count.
    #[must_use]
    pub fn loss_on(mut self, loss_on: LossOn) -> Self {
        self.loss_on = loss_on;
        self
    }

    /// Gives the template a special token.
    #[must_use]
    pub fn token(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.tokens.insert(name.into(), text.into());
        self
    }

    /// The step with the files in it that it names; or the setting that is wrong, and why.
    pub(crate) fn resolved(&self, folder: &Path) -> Result<Self, (&'static str, String)> {
        let mut step = self.clone();
        let is_config = |path: &Path| path.extension().is_some_and(|extension| extension == "json");
        if self.template.is_some() && self.template_file.is_some() {
            return Err((
                "template_file",
                "the template is given already, by `template`: keep one".to_owned(),
            ));
        }
        let template_config = step.template_file.take_if(|path| is_config(path));
        if template_config.is_some() && self.tokenizer_config.is_some() {
            let problem =
                "`template_file` is a `tokenizer_config.json` already: keep one of the two".to_owned();
            return Err(("tokenizer_config", problem));
        }
        if let Some(path) = step.template_file.take() {
            step.template = Some(read(&folder.join(path)).map_err(|problem| ("template_file", problem))?);
        }
        let wants_template = template_config.is_some();
        let key = if wants_template { "template_file" } else { "tokenizer_config" };
        if let Some(path) = template_config.or(step.tokenizer_config.take()) {
            let path = folder.join(path);
            let config = TokenizerConfig::open(&path).map_err(|problem| (key, problem))?;
            for (name, text) in config.tokens() {
                step.tokens.entry(name).or_insert(text);
            }
            if step.template.is_none() {
                let name = step.template_name.take();
                step.template =
                    config.template(name.as_deref()).map_err(|problem| ("template_name", problem))?;
                if step.template.is_none() && (wants_template || self.prompt.is_none()) {
                    let problem = format!(
                        "`{}` has no `chat_template`; newer models keep it beside, in `chat_template.jinja`: name that \
                         file as `template_file`, and this one as `tokenizer_config`",
                        path.display()
                    );
                    return Err((key, problem));
                }
            }
        }
        match step.template_name {
            Some(_) => {
                let problem =
                    "only a template from a `tokenizer_config.json` has a name: leave the key out".to_owned();
                Err(("template_name", problem))
            }
            None => Ok(step),
        }
    }

    /// The template, if there is one, ready to be filled.
    pub(super) fn compiled(&self) -> Result<Option<Template>, PreprocessError> {
        if let Some(path) = self.template_file.as_ref().or(self.tokenizer_config.as_ref()) {
            return Err(setting(format!("`{}` was not read; open the task with `Registry`", path.display())));
        }
        let date = match &self.date {
            None => None,
            Some(text) => Some(Date::parse(text).ok_or_else(|| {
                setting(format!("`date` is `{text}`, which is no day; write it as `2024-07-26`"))
            })?),
        };
        let Some(text) = &self.template else { return Ok(None) };
        let tokens = self.tokens.iter().map(|(name, text)| (name.clone(), text.as_str().into()));
        let variables = self.variables.iter().map(|(name, given)| (name.clone(), value::of_setting(given)));
        let template = Template::new(text, tokens.chain(variables).collect(), date).map_err(setting)?;
        if template.has_blocks && self.roles.is_some() {
            let problem = "`roles` says whose turns count, but the template says so itself, by `{% generation %}` blocks: \
                           leave `roles` out";
            return Err(PreprocessError::Setting { step: STEP, problem: problem.to_owned() });
        }
        Ok(Some(template))
    }

    /// Whose turns count.
    pub(super) fn counted_roles(&self) -> Vec<String> {
        self.roles.clone().unwrap_or_else(|| vec!["assistant".to_owned()])
    }

    /// All that the template may write of its own.
    pub(super) fn written_by_template(&self) -> impl Iterator<Item = &str> {
        let template = self.template.as_deref();
        // A token that the template does not write does not matter.
        let is_used = move |name: &str| template.is_some_and(|template| template.contains(name));
        let tokens = self.tokens.iter().filter(move |(name, _)| is_used(name)).map(|(_, text)| text.as_str());
        template.into_iter().chain(tokens)
    }
}

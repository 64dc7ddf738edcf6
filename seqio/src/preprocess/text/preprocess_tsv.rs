//! Lines cut into fields, and templates filled with them.
//!
//! ```text
//! { field_delim = ",", num_fields = 3, inputs_format = "numerator: {2} denominator: {1}", targets_format = "quotient: {0}" }
//! text: "3,2,6"   ->   inputs: "numerator: 6 denominator: 2"  targets: "quotient: 3"
//! ```

use std::collections::BTreeMap;

use arrow::datatypes::Schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::preprocess::PreprocessError;
use crate::preprocess::template::Template;
use crate::preprocess::text::parse_tsv::{check_delimiter, split_fields};
use crate::preprocess::text::{Kind, Pieces, Plan, Row, TextStep, Value, setting, tab, text_key};
use crate::text::{nearest, quoted};

/// Cuts a text at every delimiter, and fills the templates of `inputs` and `targets`: `{0}` is the first field, or `{name}`
/// the one of that name; `{{` and `}}` are braces. Quotes mean nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::default())]
pub struct PreprocessTsv {
    /// The column of the text.
    #[serde(default = "text_key")]
    pub text_key: String,
    /// What stands between fields.
    #[serde(default = "tab")]
    pub field_delim: String,
    /// How many fields a text has, if they have no names.
    #[serde(default = "two")]
    pub num_fields: usize,
    /// Names of the fields, in order, in place of their number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-default" = "none"))]
    pub field_names: Vec<String>,
    /// The template of `inputs`.
    #[serde(default = "first")]
    pub inputs_format: String,
    /// The template of `targets`.
    #[serde(default = "second")]
    pub targets_format: String,
}

fn two() -> usize {
    2
}

fn first() -> String {
    "{0}".to_owned()
}

fn second() -> String {
    "{1}".to_owned()
}

impl Default for PreprocessTsv {
    fn default() -> Self {
        Self {
            text_key: text_key(),
            field_delim: tab(),
            num_fields: two(),
            field_names: Vec::new(),
            inputs_format: first(),
            targets_format: second(),
        }
    }
}

/// The templates, and which field each of their names means.
pub(super) struct TsvTemplates {
    inputs: Template,
    targets: Template,
    places: BTreeMap<String, usize>,
}

impl PreprocessTsv {
    fn number(&self) -> usize {
        if self.field_names.is_empty() { self.num_fields } else { self.field_names.len() }
    }

    /// Which field a name means.
    fn place(&self, name: &str) -> Result<usize, PreprocessError> {
        let numbered = name.parse().ok().filter(|place| *place < self.number());
        let named = self.field_names.iter().position(|field| field == name);
        named.or(numbered).ok_or_else(|| {
            let number = self.number();
            let problem = match nearest(name, self.field_names.iter().map(String::as_str)) {
                Some(near) => format!("there is no field `{name}`; did you mean `{near}`?"),
                None if self.field_names.is_empty() => {
                    format!(
                        "there is no field `{name}`; the {number} fields are `0` to `{}`",
                        number.saturating_sub(1)
                    )
                }
                None => format!("there is no field `{name}`; the fields are {}", quoted(&self.field_names)),
            };
            setting(Self::NAME, problem)
        })
    }
}

impl TextStep for PreprocessTsv {
    const NAME: &'static str = "preprocess_tsv";

    type State = TsvTemplates;

    fn plan(&self, _input: &Schema) -> Result<(Plan, TsvTemplates), PreprocessError> {
        check_delimiter(Self::NAME, &self.field_delim)?;
        let inputs = Template::setting(Self::NAME, "inputs_format", &self.inputs_format)?;
        let targets = Template::setting(Self::NAME, "targets_format", &self.targets_format)?;
        let names = inputs.fields().chain(targets.fields());
        let place = |name: &str| -> Result<(String, usize), PreprocessError> {
            Ok((name.to_owned(), self.place(name)?))
        };
        let places = names.map(place).collect::<Result<_, _>>()?;
        let plan = Plan::reads([(&self.text_key, Kind::Text)]).texts(&["inputs", "targets"]);
        Ok((plan, TsvTemplates { inputs, targets, places }))
    }

    fn row(&self, templates: &TsvTemplates, row: &Row<'_>, out: &mut Pieces) -> Result<(), PreprocessError> {
        let says = if self.field_names.is_empty() { "`num_fields` is" } else { "`field_names` has" };
        let fields = split_fields(row, &self.field_delim, self.number(), says)?;
        let field = |name: &str| templates.places.get(name).and_then(|place| fields.get(*place)).copied();
        let (mut inputs, mut targets) = (String::new(), String::new());
        templates.inputs.write_with(&mut inputs, |name| field(name).unwrap_or_default());
        templates.targets.write_with(&mut targets, |name| field(name).unwrap_or_default());
        out.push(row, &[Value::Text(&inputs), Value::Text(&targets)])
    }
}

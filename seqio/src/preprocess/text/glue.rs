//! Classification of texts as GLUE and SuperGLUE have it.
//!
//! ```text
//! { benchmark_name = "rte", label_names = ["entailment", "not_entailment"] }
//! premise: "P"  hypothesis: "H"  label: 0  idx: 7
//!     ->   inputs: "rte hypothesis: H premise: P"  targets: "entailment"  idx: 7
//! ```

use arrow::datatypes::Schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::preprocess::PreprocessError;
use crate::preprocess::text::{Kind, Made, Pieces, Plan, Row, TextStep, Value, label_name, setting};

/// The parts of MultiRC's ids.
const PARTS: [&str; 3] = ["idx/paragraph", "idx/question", "idx/answer"];
const MULTIRC: &str = "multirc";

/// Writes the name of the benchmark and then each text with the name of its column in front as `inputs`; the name of the
/// label is the `targets`, `<unk>` where it is -1 or null. The benchmark `multirc` loses its markup, `<br>`, `<b>` and
/// `</b>`, and keeps `idx/paragraph`, `idx/question` and `idx/answer`, those that are there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Self::new("rte", vec!["entailment", "not_entailment"]))]
pub struct Glue {
    /// What the inputs begin with.
    pub benchmark_name: String,
    /// The names of labels 0, 1 and so on.
    pub label_names: Vec<String>,
    /// The columns of texts, in the order in which they are written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-default" = "all but `label` and ids, sorted by name"))]
    pub feature_names: Vec<String>,
    /// The column that is kept as `idx`; `""` keeps none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "`idx`, if it is there"))]
    pub id_key: Option<String>,
}

impl Glue {
    /// A benchmark with its labels.
    pub fn new<L: Into<String>>(
        benchmark_name: impl Into<String>,
        label_names: impl IntoIterator<Item = L>,
    ) -> Self {
        Self {
            benchmark_name: benchmark_name.into(),
            label_names: label_names.into_iter().map(Into::into).collect(),
            feature_names: Vec::new(),
            id_key: None,
        }
    }

    /// Writes these columns, in this order.
    #[must_use]
    pub fn feature_names<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.feature_names = names.into_iter().map(Into::into).collect();
        self
    }

    /// Keeps this column as `idx`; the empty name keeps none.
    #[must_use]
    pub fn id_key(mut self, name: impl Into<String>) -> Self {
        self.id_key = Some(name.into());
        self
    }
}

impl TextStep for Glue {
    const NAME: &'static str = "glue";

    type State = ();

    fn plan(&self, input: &Schema) -> Result<(Plan, ()), PreprocessError> {
        if self.label_names.is_empty() {
            return Err(setting(
                Self::NAME,
                "`label_names` names no label; write that of 0, then that of 1, …",
            ));
        }
        let id = self.id_key.as_deref().unwrap_or("idx");
        let is_text = |name: &&str| !PARTS.contains(name) && !["label", "idx", id].contains(name);
        let mut texts: Vec<&str> = match self.feature_names.is_empty() {
            false => self.feature_names.iter().map(String::as_str).collect(),
            true => input.fields().iter().map(|field| field.name().as_str()).filter(is_text).collect(),
        };
        if self.feature_names.is_empty() {
            texts.sort_unstable();
        }
        if texts.is_empty() {
            return Err(setting(Self::NAME, "there is no column of text beside `label` and ids"));
        }
        let texts = texts.into_iter().map(|name| (name, Kind::Text));
        let plan = Plan::reads([("label", Kind::Whole)].into_iter().chain(texts));
        let plan = match (&self.id_key, self.benchmark_name == MULTIRC) {
            (_, true) => plan.keeps_any(input, &PARTS),
            (None, false) => plan.keeps_any(input, &["idx"]),
            (Some(id), false) if id.is_empty() => plan,
            (Some(id), false) => plan.makes(Made::Kept { name: "idx".to_owned(), from: id.clone() }),
        };
        Ok((plan.texts(&["inputs", "targets"]), ()))
    }

    fn row(&self, (): &(), row: &Row<'_>, out: &mut Pieces) -> Result<(), PreprocessError> {
        let mut inputs = self.benchmark_name.clone();
        for column in 1..row.names.len() {
            for piece in [" ", &row.names[column].0, ": ", row.text(column)] {
                inputs.push_str(piece);
            }
        }
        if self.benchmark_name == MULTIRC {
            inputs = inputs.replace("<br>", " ").replace("<b>", "").replace("</b>", "");
        }
        let targets = label_name(row, 0, &self.label_names)?;
        out.push(row, &[Value::Text(&inputs), Value::Text(targets)])
    }
}

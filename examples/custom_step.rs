//! A step of one's own: written in Rust, registered under a name, used from a task file like any other.
//!
//! ```text
//! cargo run --example custom_step
//! ```

use std::error::Error;
use std::fs;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef};
use seqio::{
    CustomSteps, Examples, FeatureLengths, FileRanges, PreprocessError, Preprocessor, Registry, StepContext,
    explain,
};
use serde::Deserialize;

/// Lower-cases the text of one column. Its fields are its settings in task files.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Lowercase {
    column: String,
}

impl Preprocessor for Lowercase {
    fn name(&self) -> &'static str {
        "lowercase"
    }

    // Counted up whenever results change, so that old caches are not taken for new ones.
    fn version(&self) -> u32 {
        1
    }

    fn output_schema(&self, input: &SchemaRef, _: &StepContext) -> Result<SchemaRef, PreprocessError> {
        let Some((index, field)) = input.column_with_name(&self.column) else {
            return Err(PreprocessError::missing("lowercase", "column", &self.column, input));
        };
        if *field.data_type() != DataType::Utf8 {
            return Err(PreprocessError::WrongType {
                step: "lowercase",
                column: self.column.clone(),
                expected: "text",
                found: field.data_type().clone(),
            });
        }
        let mut fields: Vec<_> = input.fields().iter().cloned().collect();
        fields[index] = Arc::new(Field::new(&self.column, DataType::Utf8, field.is_nullable()));
        Ok(Arc::new(Schema::new(fields)))
    }

    fn apply(&self, examples: Examples, ctx: &StepContext) -> Result<Examples, PreprocessError> {
        let schema = self.output_schema(&examples.columns.schema(), ctx)?;
        let index = schema.index_of(&self.column)?;
        let mut columns = examples.columns.columns().to_vec();
        let texts = columns[index].as_string::<i32>().iter();
        columns[index] = Arc::new(texts.map(|text| text.map(str::to_lowercase)).collect::<StringArray>());
        let columns = RecordBatch::try_new(schema, columns)?;
        Ok(examples.with_columns(columns))
    }
}

const TASKS: &str = r#"
[vocabulary.bytes]
byte = true

[task.docs]
source   = { jsonl = { train = "train.jsonl" } }
features = { targets = { vocabulary = "bytes" } }
steps    = [
  { op = "rekey", to_from = { targets = "text" } },
  { op = "lowercase", column = "targets" },
  { op = "tokenize" },
  { op = "append_eos" },
]
"#;

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("seqio-custom-step-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("train.jsonl"), "{\"text\": \"HELLO\"}\n{\"text\": \"World\"}\n")?;
    fs::write(folder.join("seqio.toml"), TASKS)?;

    let steps = CustomSteps::new().register::<Lowercase>("lowercase");
    let registry = Registry::load_with(&[folder.join("seqio.toml")], steps)?;
    let task = registry.task("docs")?;
    println!("{}", explain(&task, &FeatureLengths::new()));

    let source = task.source();
    for (index, file) in (0..).zip(source.files("train")?) {
        let ranges = match source.ranges(&file, index)? {
            FileRanges::Known(ranges) => ranges.into_iter().map(Some).collect(),
            FileRanges::Streamed => vec![None],
        };
        for range in ranges {
            for chunk in source.read(&file, index, range, Box::new(|_| false))? {
                let examples = task.preprocess(source.parse(&file, &chunk?)?.examples)?;
                let vocabulary = &task.features()["targets"].vocabulary;
                let targets =
                    examples.columns.column_by_name("targets").ok_or("the task puts out `targets`")?;
                for ids in targets.as_list::<i32>().iter().flatten() {
                    let ids = ids.as_primitive::<Int32Type>().values();
                    println!("{:?} is {:?}", &ids[..], vocabulary.decode(ids));
                }
            }
        }
    }
    fs::remove_dir_all(&folder)?;
    Ok(())
}

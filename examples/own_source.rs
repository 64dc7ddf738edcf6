//! Examples that a program makes itself: registered under a name, used from a task file, cached and streamed like any
//! other.
//!
//! ```text
//! cargo run --example own_source
//! ```

use std::error::Error;
use std::fs;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use seqio::{
    Converter, Dataset, DatasetConfig, ProgramError, ProgramSource, ProgramSources, Registry, ScalarType,
    Split, StreamTask,
};
use seqio_cache::{BuildConfig, CacheDir, CachedSplit, Found, NoProgress};

const TASKS: &str = r#"
[vocabulary.bytes]
byte = true

[task.sums]
source   = { program = { train = "sums", validation = "sums" } }
features = { inputs = { vocabulary = "bytes" }, targets = { vocabulary = "bytes" } }
steps    = [{ op = "tokenize" }, { op = "cache" }, { op = "append_eos_after_trim" }]
"#;

/// A batch of sums: `17 + 25`, `42`.
fn sums(first: u32, rows: u32) -> Result<RecordBatch, ProgramError> {
    let numbers = (first..first + rows).map(|row| (row * 7919 % 100, row * 104_729 % 100));
    let (inputs, targets): (Vec<String>, Vec<String>) =
        numbers.map(|(a, b)| (format!("{a} + {b}"), (a + b).to_string())).unzip();
    let (inputs, targets): (ArrayRef, ArrayRef) =
        (Arc::new(StringArray::from(inputs)), Arc::new(StringArray::from(targets)));
    Ok(RecordBatch::try_from_iter([("inputs", inputs), ("targets", targets)])?)
}

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Box<dyn Error>> {
    // Another version when the function gives other rows: caches of this one are stale then.
    let source = ProgramSource::new("1")
        .column("inputs", ScalarType::String)
        .column("targets", ScalarType::String)
        .split("train", || Ok((0..10).map(|batch| sums(batch * 500, 500))))
        .examples("validation", [serde_json::json!({ "inputs": "1 + 1", "targets": "2" })])?;
    let registry = Registry::from_text("seqio.toml", TASKS)?
        .with_sources(ProgramSources::new().register("sums", source));
    let task = registry.task("sums")?;

    let folder = std::env::temp_dir().join(format!("seqio-own-source-{}", std::process::id()));
    let caches = CacheDir::new(&folder);
    let train = Split::whole("train")?;
    let report = caches.build(&task, std::slice::from_ref(&train), &BuildConfig::default(), &NoProgress)?;
    for split in &report.splits {
        println!("{} examples", split.statistics.examples);
    }
    let Found::Fresh { split, .. } = caches.find(&task, &train)? else {
        return Err("the cache that was just built is not there".into());
    };
    let store: Arc<CachedSplit> = Arc::from(split);
    let config = DatasetConfig::new("train", Converter::EncDec, [("inputs", 256), ("targets", 128)]);
    let config = config.batch_size(8).epochs(1);
    let digest = store.split_manifest().source_digest.clone();
    let stream = StreamTask::new("sums", digest).edits(task.token_edits(&config.lengths)?);
    let dataset = Dataset::new(stream, store, config)?;
    println!("{} batches an epoch", dataset.iter()?.count());
    fs::remove_dir_all(&folder)?;
    Ok(())
}

//! Data sets that Hugging Face's `datasets` saved to disk, through the program.

use std::path::Path;

use crate::support::{Project, files_below};

const TASKS: &str = r#"
[vocabulary.bytes]
byte = true

[task.two]
source   = { hf_dataset = { train = "two", test = "two" } }
features = { targets = { vocabulary = "bytes" } }
shuffle  = []
steps    = [{ op = "rekey", to_from = { targets = "text" } }, { op = "tokenize" }]

[task.flat]
source   = { hf_dataset = { train = "flat" }, columns = { text = "string", label = "int32" } }
features = { targets = { vocabulary = "bytes" } }
steps    = [{ op = "rekey", to_from = { targets = "text" } }, { op = "tokenize" }, { op = "append_eos" }]
"#;

fn project() -> Project {
    let project = Project::empty();
    project.write("seqio.toml", TASKS);
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/hf_dataset");
    for path in files_below(&golden) {
        let name = path.strip_prefix(&golden).unwrap().to_str().unwrap().to_owned();
        project.write(&name, std::fs::read(&path).unwrap());
    }
    project
}

#[test]
fn a_saved_data_set_is_explained_cached_and_streamed() {
    let project = project();
    let explained = project.seqio("explain two").ok().out();
    assert!(
        explained.contains("columns: ids: tokens or null, label: int64 or null, text: string or null"),
        "{explained}"
    );
    let built = project.seqio("cache build two").ok().out();
    assert!(built.contains("12 examples") && built.contains("3 examples"), "{built}");
    let shape = "--lengths 16 --batch-size 1 --pack none --order storage --epochs 1";
    let rows = project.seqio(&format!("stream two --split test {shape}")).ok().json_lines();
    assert_eq!(rows.len(), 3);
    let uncached = project.seqio(&format!("stream two --split test {shape} --no-cache")).ok().json_lines();
    assert_eq!(uncached, rows);
    let slice = project.seqio("cache build flat --split train[:25%]").ok().out();
    assert!(slice.contains("5 examples"), "{slice}");
    let found =
        project.seqio("find flat/data-00001-of-00002.arrow:3 flat --batch-size 4 --lengths 16 --pack none");
    assert!(found.ok().out().contains("is example"));
}

#[test]
fn what_is_no_saved_data_set_is_told_before_anything_is_read() {
    let project = project();
    project.write("two/train/state.json", r#"{"_data_files": [{"filename": "../x.arrow"}]}"#);
    let message = project.seqio("explain two").fails(3);
    assert!(message.contains("which is no name of a file in its folder"), "{message}");
}

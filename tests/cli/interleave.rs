//! Files that take turns, through the program.

use crate::support::Project;

const TASKS: &str = r#"[vocabulary.bytes]
byte = true

[task.turns]
source   = { text = { train = "part-*.txt" }, skip_header_lines = 1, interleave = {} }
features = { targets = { vocabulary = "bytes" } }
shuffle  = []
steps    = [{ op = "rekey", to_from = { targets = "text" } }, { op = "tokenize" }]

[task.plain]
source   = { text = { train = "part-*.txt" }, skip_header_lines = 1, name = "turns" }
features = { targets = { vocabulary = "bytes" } }
shuffle  = []
steps    = [{ op = "rekey", to_from = { targets = "text" } }, { op = "tokenize" }]
"#;

fn project() -> Project {
    let project = Project::empty();
    project.write("seqio.toml", TASKS);
    for (file, lines) in [40, 3, 20, 0, 17].into_iter().enumerate() {
        let lines: String = (0..lines).map(|line| format!("f{file} line {line}\n")).collect();
        project.write(&format!("part-{file}.txt"), format!("header\n{lines}"));
    }
    project
}

const SHAPE: &str = "--lengths 16 --batch-size 1 --pack none --order storage";

/// The texts of a stream's rows, one a batch.
fn texts(project: &Project, line: &str) -> Vec<String> {
    let decode = |batch: &serde_json::Value| {
        let ids = batch["decoder_target_tokens"].as_array().unwrap().iter();
        // Bytes are 3 and more.
        ids.filter_map(|id| u8::try_from(id.as_u64()?.checked_sub(3)?).ok())
            .map(char::from)
            .collect::<String>()
    };
    project.seqio(line).ok().json_lines().iter().map(decode).collect()
}

#[test]
fn files_take_turns_in_a_cache_and_without_one() {
    let project = project();
    let explained = project.seqio("explain turns").ok().out();
    assert!(
        explained.contains("files take turns: 16 are open at a time, and a turn is 16 records"),
        "{explained}"
    );
    let twice = texts(&project, &format!("stream turns {SHAPE} --epochs 2"));
    assert_eq!(twice.len(), 160, "two epochs of 80 lines");
    let (once, again) = twice.split_at(80);
    assert_eq!(once, again);
    let expected = ["f0 line 15", "f1 line 0", "f1 line 1", "f1 line 2", "f2 line 0"];
    assert_eq!(once[15..20], expected);
    assert_eq!(texts(&project, &format!("stream turns {SHAPE} --epochs 1 --no-cache")), once);
    let mut sorted = texts(&project, &format!("stream plain {SHAPE} --epochs 1"));
    assert_eq!(sorted[40..42], ["f1 line 0", "f1 line 1"]);
    let mut turned = once.to_vec();
    sorted.sort();
    turned.sort();
    assert_eq!(turned, sorted);
    let slice = texts(&project, &format!("stream turns --split train[16:19] {SHAPE} --epochs 1"));
    assert_eq!(slice, ["f1 line 0", "f1 line 1", "f1 line 2"]);
}

#[test]
fn lines_of_files_that_take_turns_are_found_by_file_and_line_or_by_key() {
    let project = project();
    project.seqio("cache build turns plain").ok();
    // The header is the first line.
    let by_line = project.seqio(&format!("find part-1.txt:2 turns {SHAPE} --epochs 1 --json")).ok().json();
    assert_eq!(by_line[0]["examples"][0]["example"], 16, "{by_line}");
    let mut find = project.command("find");
    find.arg(r#"file="part-1.txt", line=2"#).arg("turns").args(SHAPE.split(' '));
    let by_key = project.run(find.args(["--epochs", "1", "--json"])).ok().json();
    assert_eq!(by_key[0]["examples"], by_line[0]["examples"]);
    let message = project.seqio(&format!("find part-1.txt:1 turns {SHAPE}")).fails(1);
    assert!(message.contains("gave no example for line 1"), "{message}");
    // Example ids are of the files, and the order moves none.
    let ids = |task: &str| {
        let shown = project.seqio(&format!("inspect {task} --num 80 --json")).ok().json();
        let examples = shown.as_array().unwrap().iter();
        let mut ids: Vec<String> = examples.map(|example| example["id"].to_string()).collect();
        assert_eq!(ids.len(), 80);
        ids.sort();
        ids
    };
    assert_eq!(ids("turns"), ids("plain"));
}

#[test]
fn mistakes_about_turns_are_told_with_their_place() {
    let project = project();
    let tasks = TASKS.replace("interleave = {}", "interleave = { cycle_length = 0 }");
    project.write("seqio.toml", tasks);
    let message = project.seqio("explain turns").fails(3);
    assert!(
        message.contains("seqio.toml:5:") && message.contains("`cycle_length` is the number of files"),
        "{message}"
    );
}

//! `seqio init`.

use std::fs::File;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;

use crate::support::{Project, Ran, documents};

/// Runs the commands that the program says come next, in the folder it made.
fn run_next(project: &Project, said: &Ran) -> Vec<Ran> {
    let said = said.out();
    let (_, next) = said.split_once("\nnext:\n").unwrap();
    let mut folder = String::new();
    let mut ran = Vec::new();
    for line in next.lines().map(str::trim) {
        match line.split_once(' ').unwrap() {
            ("cd", to) => to.clone_into(&mut folder),
            ("seqio", words) => {
                let mut command = project.command(words);
                command.current_dir(project.path(&folder));
                ran.push(project.run(&mut command).ok());
            }
            (other, _) => panic!("{other}"),
        }
    }
    ran
}

#[test]
fn the_project_runs_as_it_stands() {
    let project = Project::empty();
    let made = project.seqio("init first").ok();
    insta::assert_snapshot!(made.out());
    let ran = run_next(&project, &made);
    assert_eq!(ran.len(), 3);
    assert!(ran[0].out().contains("The sea rises"), "{}", ran[0].out());
    assert!(ran[1].out().contains("docs train: built"), "{}", ran[1].out());
    assert_eq!(ran[2].json_lines().len(), 8);
    assert_eq!(
        String::from_utf8(project.read("first/.gitignore")).unwrap().lines().last(),
        Some("seqio-cache/")
    );
}

#[test]
fn the_readme_names_commands_that_run() {
    let project = Project::empty();
    project.seqio("init first --task books").ok();
    let readme = String::from_utf8(project.read("first/README.md")).unwrap();
    let commands: Vec<&str> = readme.lines().filter_map(|line| line.strip_prefix("    seqio ")).collect();
    assert_eq!(commands.len(), 3);
    for words in commands {
        let mut command = project.command(words);
        command.current_dir(project.path("first"));
        project.run(&mut command).ok();
    }
}

#[test]
fn a_file_that_is_there_is_never_written_over() {
    let project = Project::empty();
    project.write("seqio.toml", "mine");
    insta::assert_snapshot!(project.seqio("init .").fails(1), @"
    error: `seqio.toml` exists already in `.`; nothing was written

    hint: choose another folder, or move what is there out of the way
    ");
    assert_eq!(project.read("seqio.toml"), b"mine");
    assert!(!project.path("data").exists() && !project.path(".gitignore").exists());

    project.write("other/README.md", "mine too");
    project.write("other/notes.txt", "kept");
    let ran = project.seqio("init other").ok();
    assert!(ran.err().contains("README.md is there already and left as it is"), "{}", ran.err());
    assert_eq!(project.read("other/README.md"), b"mine too");

    project.write("file", "");
    let message = project.seqio("init file").fails(1);
    assert!(message.contains("`file` is not a folder"), "{message}");
}

#[test]
fn a_task_file_is_written_for_files_that_are_there() {
    let project = Project::empty();
    project.write(
        "corpus/part [1].jsonl",
        documents(0..20).replace("{\"text\"", "{\"id\":7,\"body\":\"b\",\"text\""),
    );
    project.write(
        "corpus/part-2.jsonl",
        documents(20..40).replace("{\"text\"", "{\"id\":8,\"body\":\"b\",\"text\""),
    );
    project.write(
        "corpus/valid.jsonl",
        documents(40..45).replace("{\"text\"", "{\"id\":9,\"body\":\"b\",\"text\""),
    );
    let mut command = project.command("init tasks/here --from");
    command.args(["corpus/part [1].jsonl", "corpus/part-2.jsonl", "corpus/valid.jsonl"]);
    let made = project.run(&mut command).ok();
    insta::assert_snapshot!("from_jsonl", made.out());
    insta::assert_snapshot!(
        "from_jsonl_task_file",
        String::from_utf8(project.read("tasks/here/seqio.toml")).unwrap()
    );
    let ran = run_next(&project, &made);
    assert!(ran[0].out().contains("part [1].jsonl:1"), "{}", ran[0].out());
    assert!(
        ran[1].out().contains("docs train: built") && ran[1].out().contains("40 examples"),
        "{}",
        ran[1].out()
    );
}

#[test]
fn the_column_with_the_longest_texts_is_taken_where_no_name_tells() {
    let project = Project::empty();
    let columns: [(&str, ArrayRef); 3] = [
        ("n", Arc::new(Int64Array::from(vec![1, 2]))),
        ("title", Arc::new(StringArray::from(vec!["a", "b"]))),
        ("words", Arc::new(StringArray::from(vec!["a long text", "another long text"]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer =
        ArrowWriter::try_new(File::create(project.path("t.parquet")).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let made = project.seqio("init . --from t.parquet --task talks").ok();
    let said = made.out();
    assert!(said.contains("the text is in `words`, which has the longest texts (14 characters"), "{said}");
    assert!(run_next(&project, &made)[0].out().contains("a long text"));

    let project = Project::empty();
    project.write("a.jsonl", "{\"n\":1,\"title\":\"x\",\"words\":\"y\"}\n");
    insta::assert_snapshot!(project.seqio("init p --from a.jsonl --text titel").fails(2), @"
    error: `a.jsonl` has no column `titel` of text, only `title`, `words`

    hint: did you mean `title`?
    ");
    project.seqio("init p --from a.jsonl --text title").ok();
    assert!(String::from_utf8(project.read("p/seqio.toml")).unwrap().contains("targets = \"title\""));
}

#[test]
fn a_table_of_comma_separated_values_is_a_source_too() {
    let project = Project::empty();
    project.write("t/reviews.csv", "stars,review\n5,\"good, and cheap\"\n1,bad\n");
    let made = project.seqio("init . --from t/reviews.csv").ok();
    assert!(made.out().contains("the text is in `review`"), "{}", made.out());
    assert!(run_next(&project, &made)[0].out().contains("good, and cheap"));
}

#[test]
fn files_that_cannot_be_a_source_are_refused_in_words() {
    let project = Project::empty();
    project.write("a.jsonl", "{\"n\":1}\n");
    project.write("b.txt", "x\n");
    project.write("c.doc", "x\n");
    project.write("bad.jsonl", "nonsense\n");
    let fails = |line: &str, code| project.seqio(line).fails(code);
    assert!(fails("init p --from a.jsonl", 1).contains("has no column of text; it has n (int64)"));
    assert!(fails("init p --from a.jsonl b.txt", 2).contains("`a.jsonl` is jsonl and `b.txt` is text"));
    assert!(fails("init p --from c.doc", 2).contains("`c.doc` does not say what it holds"));
    assert!(fails("init p --from absent.jsonl", 1).contains("absent.jsonl"));
    assert!(fails("init p --from bad.jsonl", 1).contains("bad.jsonl"));
    assert!(!project.path("p").exists());
}

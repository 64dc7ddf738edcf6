//! Sources named by URL.

use crate::cache::content;
use crate::support::{Project, documents};

/// A task `docs` over files that `pattern` names.
fn project(pattern: &str) -> Project {
    let project = Project::new();
    let text = String::from_utf8(project.read("seqio.toml")).unwrap();
    let pattern = pattern.replace("DIR", &project.path("").canonicalize().unwrap().to_string_lossy());
    project.write("seqio.toml", text.replace("data/train-*.jsonl", &pattern));
    project.write("data/a b-0.jsonl", documents(0..30));
    project.write("data/a b-1.jsonl", documents(30..50));
    project
}

#[test]
fn a_file_url_gives_the_cache_that_its_path_gives() {
    let caches =
        ["data/a b-*.jsonl", "DIR/data/a b-*.jsonl", "file://DIR/data/a%20b-*.jsonl"].map(|pattern| {
            let project = project(pattern);
            project.seqio("cache build docs --split train").ok();
            let mut files = content(&project.cache_of("docs"));
            // The manifest keeps the definition as it was written.
            files.remove("manifest.json").unwrap();
            files
        });
    assert!(caches[0].len() >= 4);
    assert!(caches[0] == caches[1] && caches[0] == caches[2]);
}

#[test]
fn what_cannot_be_read_from_is_refused_with_its_place_before_data() {
    insta::assert_snapshot!(project("s3://bucket/train-*.jsonl").seqio("explain docs").fails(3), @r#"
    error: seqio.toml:5:32: task `docs`, source: `s3://bucket/train-*.jsonl`: files are read from this machine's disks, not from `s3://`; copy them, as with `aws s3 sync`, or mount the store, and name the files there
      |
    5 |    = { jsonl = { train = "s3://bucket/train-*.jsonl", validation = "data/valid.jsonl" }, columns = {
      |                          ^^^^^^^^^^^^^^^^^^^^^^^^^^^
    "#);
    insta::assert_snapshot!(project("file:data/train.jsonl").seqio("list tasks").fails(3), @r#"
    error: seqio.toml:5:32: task `docs`, source: `file:data/train.jsonl`: this URL has no path from the root: a file has three slashes and its whole path, as `file:///data/train-*.jsonl`, or no `file:` at all
      |
    5 |    = { jsonl = { train = "file:data/train.jsonl", validation = "data/valid.jsonl" }, columns = { tex
      |                          ^^^^^^^^^^^^^^^^^^^^^^^
    "#);
    let absent = project("file://DIR/data/none-*.jsonl").seqio("explain docs").fails(1);
    assert!(
        absent.contains("seqio.toml:5:32: task `docs`, source: no file matches `[dir]/data/none-*.jsonl`"),
        "{absent}"
    );
    // What looks like a path of Windows is a name like any other.
    let windows = project("C:\\\\data\\\\*.jsonl").seqio("explain docs").fails(1);
    assert!(windows.contains("no file matches"), "{windows}");
}

//! Sources of other kinds than JSON Lines, through the program.

use crate::cache::content;
use crate::support::{Project, files_below, wait_until};

const CSV_TASK: &str = r#"[vocabulary.bytes]
byte = true

[task.reviews]
source   = { csv = { train = "data/*.csv" }, columns = { text = "string", stars = "int32?" } }
features = { targets = { vocabulary = "bytes" } }
steps    = [{ op = "rekey", to_from = { targets = "text" } }, { op = "tokenize" }, { op = "append_eos" }]
"#;

/// A project whose task reads two files of CSV: columns in different order, and records of several lines.
fn reviews(records: usize) -> Project {
    let project = Project::empty();
    project.write("seqio.toml", CSV_TASK);
    let mut first = "stars,text\n".to_owned();
    let mut second = "id,text\n".to_owned();
    for number in 0..records {
        let more = " and more".repeat(number % 7);
        first += &format!("{},\"review {number},\nof \"\"two\"\" lines{more}\"\n", number % 5);
        second += &format!("{number},short {number}{more}\r\n");
    }
    project.write("data/a.csv", first);
    project.write("data/b.csv", second);
    project
}

#[test]
fn csv_is_explained_inspected_cached_and_traced_to_the_first_line_of_a_record() {
    let project = reviews(5);
    let explained = project.seqio("explain reviews").ok().out();
    assert!(explained.contains("source `reviews`: CSV; a bad record stops the run"), "{explained}");
    let shown = project.seqio("inspect reviews --num 2 --stage raw").ok().out();
    assert!(shown.contains("data/a.csv:2") && shown.contains("data/a.csv:4"), "{shown}");
    assert_eq!(project.seqio("cache build reviews").ok().code, Some(0));
    project.seqio("cache verify reviews").ok();
    let shape = "--batch-size 20 --lengths 128 --pack none";
    let found = project.seqio(&format!("find data/a.csv:6 {shape} --json")).ok().json();
    assert_eq!(found[0]["examples"].as_array().unwrap().len(), 1, "{found}");
    let batch = project.seqio(&format!("batch reviews {shape} --step 0 --json")).ok().out();
    for place in ["a.csv:2\"", "a.csv:10\"", "b.csv:2\"", "b.csv:6\""] {
        assert!(batch.contains(place), "{place}: {batch}");
    }
    let within = project.seqio(&format!("find data/a.csv:7 {shape}")).fails(1);
    assert!(within.contains("within a record that begins in a line before"), "{within}");
}

#[test]
fn a_bad_record_of_csv_stops_with_its_first_line() {
    let project = reviews(3);
    project.write("data/c.csv", "text\n\"a\nb\"\n\nc,d\n");
    let message = project.seqio("cache build reviews").fails(1);
    assert!(message.contains("c.csv, line 5: has 2 fields instead of 1"), "{message}");
}

#[test]
fn a_killed_build_of_csv_goes_on_and_the_result_is_the_same() {
    let whole = reviews(40_000);
    whole.seqio("cache build reviews").ok();
    let project = reviews(40_000);
    let building = project.path("seqio-cache/reviews");
    for files in [2, 4] {
        let mut child = project.command("cache build reviews --memory 1MiB").spawn().unwrap();
        wait_until("some work is committed", || {
            files_below(&building).len() >= files || child.try_wait().unwrap().is_some()
        });
        child.kill().unwrap();
        child.wait().unwrap();
    }
    project.seqio("cache build reviews --threads 3").ok();
    assert!(content(&project.cache_of("reviews")) == content(&whole.cache_of("reviews")));
}

#[test]
fn arrow_files_and_streams_give_the_same_cache_and_are_traced_to_their_rows() {
    let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/arrow");
    let mut caches = Vec::new();
    for kind in ["arrow", "arrows"] {
        let project = Project::empty();
        project.write(
            "seqio.toml",
            CSV_TASK.replace("csv = { train = \"data/*.csv\" }", "arrow = { train = \"data/*\" }").replace(
                r#"columns = { text = "string", stars = "int32?" }"#,
                r#"columns = { utf8_view = "string", dictionary = "string", int8 = "int32", none = "string?" }"#,
            )
            .replace(r#"targets = "text""#, r#"targets = "utf8_view""#),
        );
        project.write("data/all.x", std::fs::read(golden.join(format!("all.{kind}"))).unwrap());
        let explained = project.seqio("explain reviews").ok().out();
        assert!(explained.contains("source `reviews`: Arrow; a bad record stops the run"), "{explained}");
        let shown = project.seqio("inspect reviews --num 12 --stage raw").ok().out();
        assert!(shown.contains("data/all.x:12") && shown.contains("a longer word than fits"), "{shown}");
        project.seqio("cache build reviews --threads 2").ok();
        assert!(project.seqio("cache build reviews").ok().out().contains("is up to date"));
        let shape = "--batch-size 30 --lengths 128 --pack none";
        let batch = project.seqio(&format!("batch reviews {shape} --step 0 --json")).ok().out();
        assert!(batch.contains("all.x:1\"") && batch.contains("all.x:24\""), "{batch}");
        project.seqio(&format!("find data/all.x:24 {shape}")).ok();
        let folder = project.cache_of("reviews");
        let shard =
            files_below(&folder).into_iter().find(|path| path.extension().is_some_and(|end| end == "arrow"));
        caches.push(std::fs::read(shard.unwrap()).unwrap());
    }
    assert!(caches[0] == caches[1]);
}

#[test]
fn a_stream_of_arrow_that_breaks_off_is_read_up_to_there_where_the_task_says_so() {
    let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/arrow/all.arrows");
    let bytes = std::fs::read(golden).unwrap();
    let project = Project::empty();
    let task = CSV_TASK.replace("csv = { train = \"data/*.csv\" }", "arrow = { train = \"data/*\" }");
    let task = task
        .replace(r#"text = "string""#, r#"utf8 = "string""#)
        .replace(r#"targets = "text""#, r#"targets = "utf8""#);
    project.write("seqio.toml", &task);
    project.write("data/all.arrows", &bytes[..bytes.len() - 1000]);
    let message = project.seqio("cache build reviews").fails(1);
    assert!(message.contains("all.arrows, line 21: the stream ends early"), "{message}");
    project.write(
        "seqio.toml",
        task.replace("} }\nfeatures", "}, on_bad_row = \"skip\" }\nfeatures")
            .replace("\"int32?\" } }", "\"int32?\" }, on_bad_row = \"skip\" }"),
    );
    let built = project.seqio("cache build reviews").ok();
    assert!(built.out().contains("20 examples"), "{}", built.out());
}

#[test]
fn a_bad_record_of_csv_is_set_aside_with_all_of_its_lines() {
    let project = reviews(2);
    let task = CSV_TASK.replace("\"int32?\" } }", "\"int32?\" }, on_bad_row = \"set_aside\" }");
    project.write("seqio.toml", task);
    project.write("data/c.csv", "text,stars\n\"a\nb\",many\nfine,1\n\"open\nto the end\n");
    project.seqio("cache build reviews").ok();
    let rejects = project.cache_of("reviews").join("train.rejects.jsonl");
    let rejects = std::fs::read_to_string(rejects).unwrap();
    let rejects: Vec<serde_json::Value> =
        rejects.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rejects.len(), 2, "{rejects:?}");
    assert_eq!((&rejects[0]["file"], &rejects[0]["line"]), (&"c.csv".into(), &2.into()), "{rejects:?}");
    assert_eq!(rejects[0]["row"], "\"a\nb\",many", "{rejects:?}");
    assert_eq!(rejects[0]["reason"], "`stars` should be an int32, but is `many`", "{rejects:?}");
    assert_eq!(
        (&rejects[1]["line"], &rejects[1]["row"]),
        (&5.into(), &"\"open\nto the end".into()),
        "{rejects:?}"
    );
}

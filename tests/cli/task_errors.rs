//! What SeqIO refuses, and what it gives, row by row: refused here with task, step and place, given as there, or listed with a
//! reason.

use serde_json::{Value, json};

use crate::support::Project;

/// What becomes of a row.
enum Here {
    /// The command is refused with this exit code and these words.
    Refused { task: Task, command: &'static str, code: i32, words: &'static [&'static str] },
    /// Ids of `targets` that the command gives.
    Gives { task: Task, command: &'static str, targets: Value },
    /// The same name is taken.
    Taken { name: &'static str },
    /// There is no such thing here, and why.
    Absent(&'static str),
}

/// A task file over `[5, 6, 7]`.
struct Task {
    name: &'static str,
    source: &'static str,
    features: &'static str,
    columns: &'static str,
    steps: &'static str,
}

const TARGETS: &str = r#"targets = { vocabulary = "ids", add_eos = false }"#;
const INPUTS: &str =
    r#"targets = { vocabulary = "ids", add_eos = false }, inputs = { vocabulary = "ids", required = false }"#;
const ONE: &str = "--batch-size 1 --epochs 1 --pack none";

impl Task {
    fn named(name: &'static str) -> Self {
        let tokenize = r#"{ op = "tokenize" }"#;
        Self {
            name,
            source: "d.jsonl",
            features: TARGETS,
            columns: r#"targets = "list<int32>""#,
            steps: tokenize,
        }
    }

    fn with_steps(steps: &'static str) -> Self {
        Self { steps, ..Self::named("a") }
    }

    fn file(&self) -> String {
        format!(
            "[vocabulary.ids]\npass_through = 100\n\n[task.\"{}\"]\nsource   = {{ jsonl = {{ train = \"{}\" }}, columns = {{ {} }} }}\nfeatures = {{ {} }}\nsteps    = [{}]\n",
            self.name, self.source, self.columns, self.features, self.steps
        )
    }
}

fn here(case: &str) -> Here {
    use Here::{Absent, Gives, Refused, Taken};
    let refused = |task, command, words| Refused { task, command, code: 3, words };
    let gives = |command, targets| Gives { task: Task::named("a"), command, targets };
    match case {
        "bad name" => refused(Task::named("bad name!"), "list", &["task `bad name!`", "has ` `"]),
        "good odd name" => Taken { name: "ok:_name.1#x" },
        "two cache placeholders" => refused(
            Task::with_steps(r#"{ op = "tokenize" }, { op = "cache" }, { op = "cache" }"#),
            "explain a",
            &["task `a`, step 3 of 3 (`cache`)", "a second `cache`; the first is step 2"],
        ),
        "sequence_length before cache" => refused(
            Task::with_steps(r#"{ op = "tokenize" }, { op = "trim" }, { op = "cache" }"#),
            "explain a",
            &["task `a`, step 2 of 3 (`trim`)", "depends on the length of `targets`", "below `cache`"],
        ),
        "missing feature" => refused(
            Task {
                features: r#"targets = { vocabulary = "ids" }, inputs = { vocabulary = "ids" }"#,
                ..Task::named("a")
            },
            "explain a",
            &["task `a`, step 1 of 1 (`tokenize`)", "needs feature `inputs`", "have only `targets`"],
        ),
        "missing optional feature" => Gives {
            task: Task { features: INPUTS, ..Task::named("a") },
            command: "stream a --lengths targets=2 --converter lm",
            targets: json!([5, 6]),
        },
        "wrong dtype" => refused(
            Task {
                features: r#"f = { vocabulary = "ids" }"#,
                columns: r#"f = "list<float32>""#,
                ..Task::named("a")
            },
            "explain a",
            &[
                "step 1 of 1 (`tokenize`)",
                "needs `f` to be a list of whole numbers",
                "it is `list of float32`",
            ],
        ),
        "wrong rank" => refused(
            Task {
                features: r#"m = { vocabulary = "ids" }"#,
                columns: r#"m = "list<list<int32>>""#,
                ..Task::named("a")
            },
            "explain a",
            &["task `a`", "`m`: unknown column type `list<list<int32>>`"],
        ),
        "trim to 2" => gives("stream a --lengths 2", json!([5, 6])),
        "no trim" | "sequence_length None" => gives("stream a --lengths 3", json!([5, 6, 7])),
        "use_cached, task has no placeholder: falls back" => gives("stream a --lengths 2", json!([5, 6])),
        "get_dataset" => gives("stream a --lengths 2", json!([5, 6])),
        "overlong without trimming reaches the converter" => gives("stream a --lengths 2", json!([5, 6])),
        "unknown split (FunctionDataSource ignores it)" | "text line no such split" => Refused {
            task: Task::named("a"),
            command: "stream a --split x --lengths 3",
            code: 1,
            words: &["task `a` has no split `x`", "it has `train`"],
        },
        "text line no such file" => Refused {
            task: Task { source: "none-*.jsonl", ..Task::named("a") },
            command: "stream a --lengths 3",
            code: 1,
            words: &["task `a`, source: no file matches", "none-*.jsonl`", "the folder that the file is in"],
        },
        "registry get unknown" => Refused {
            task: Task::named("a"),
            command: "stream nope --lengths 3",
            code: 3,
            words: &["there is no task `nope`", "the tasks are `a`"],
        },
        "get_dataset bad converter" => Refused {
            task: Task::named("a"),
            command: "stream a --lengths 3 --converter no",
            code: 2,
            words: &["there is no converter `no`; there are `lm`, `enc_dec`"],
        },
        "duplicate task" => Refused {
            task: Task { steps: "]\n[task.a]\nsteps = [", ..Task::named("a") },
            command: "explain a",
            code: 3,
            words: &["duplicate key", "[task.a]"],
        },
        "shuffle disallowed" => Refused {
            task: Task::named("a"),
            command: "stream a --lengths 3 --no-cache",
            code: 1,
            words: &["without a cache only `storage` is possible", "build a cache to shuffle"],
        },
        "cache not permitted" => Absent("every source can be cached"),
        "requires caching, not cached" | "use_cached but absent" => {
            Absent("what is not cached yet is built, with a word")
        }
        "dataset_fn bad args" | "seed given but dataset_fn takes none" | "bad metric fn args" => {
            Absent("the compiler checks a program's own functions")
        }
        "tfds without version" => Absent("there are no TensorFlow Datasets"),
        "placeholder called" => Absent("`cache` is a place and cannot be called"),
        "replace bad key" => Absent("definitions are data: an unknown key is refused when they are read"),
        "get_dataset batch drop_remainder" => gives("stream a --lengths 2", json!([5, 6])),
        _ => panic!("there is no answer for the row `{case}`"),
    }
}

#[test]
fn every_row_of_seqio_s_is_refused_given_or_listed() {
    let golden =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/seqio/task_errors.jsonl");
    let rows = std::fs::read_to_string(golden).unwrap();
    let (mut refused, mut given, mut absent) = (0, 0, 0);
    for row in rows.lines() {
        let row: Value = serde_json::from_str(row).unwrap();
        let case = row["case"].as_str().unwrap();
        let project = Project::empty();
        project.write("d.jsonl", "{\"targets\": [5, 6, 7], \"f\": [1.5], \"m\": [[1, 2], [3, 4]]}\n");
        match here(case) {
            Here::Refused { task, command, code, words } => {
                project.write("seqio.toml", task.file());
                let run = if command.starts_with("stream") {
                    format!("{command} {ONE}")
                } else {
                    command.to_owned()
                };
                let message = project.seqio(&run).fails(code);
                for words in words {
                    assert!(message.contains(words), "{case}: {message}");
                }
                refused += 1;
            }
            Here::Gives { task, command, targets } => {
                project.write("seqio.toml", task.file());
                let rows = project.seqio(&format!("{command} {ONE}")).ok().json_lines();
                assert_eq!(rows[0]["decoder_target_tokens"], targets, "{case}");
                given += 1;
            }
            Here::Taken { name } => {
                project.write("seqio.toml", Task::named(name).file());
                assert!(project.seqio("list").ok().out().contains(name));
                given += 1;
            }
            Here::Absent(reason) => {
                assert!(!reason.is_empty());
                absent += 1;
            }
        }
    }
    assert_eq!((refused, given, absent), (13, 9, 9));
}

//! `seqio reference | schema | completions | man`.

use std::path::Path;
use std::process::Command;

use crate::support::{Project, files_below};

#[test]
fn the_reference_in_the_documentation_is_what_the_code_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference.md");
    let now = Project::empty().seqio("reference").ok();
    let is_same = std::fs::read(path).unwrap() == now.stdout;
    assert!(
        is_same,
        "docs/reference.md is out of date; run `target/debug/seqio reference > docs/reference.md`"
    );
}

#[test]
fn one_entry_of_the_reference_is_printed_by_its_name() {
    let project = Project::empty();
    insta::assert_snapshot!(project.seqio("reference trim").ok().out());
    insta::assert_snapshot!("reference_on_bad_row", project.seqio("reference on_bad_row").ok().out());
    insta::assert_snapshot!(project.seqio("reference tokenise").fails(2), @"
    error: task files have nothing called `tokenise`

    hint: did you mean `tokenize`?
    ");
    let topics = project.seqio("reference tokenize --json").ok().json();
    assert_eq!(topics[0]["keys"][0]["name"], "keep_pretokenized");
}

#[test]
fn every_step_and_kind_that_the_program_lists_is_in_the_reference() {
    let project = Project::empty();
    let topics = project.seqio("reference --json").ok().json();
    let known = |part: &str, name: &serde_json::Value| {
        topics.as_array().unwrap().iter().any(|topic| topic["part"] == part && topic["name"] == *name)
    };
    for step in project.seqio("list steps --json").ok().json().as_array().unwrap() {
        assert!(known("step", &step["name"]), "{step}");
    }
}

#[test]
fn the_schema_is_a_json_schema_of_task_files() {
    let schema = Project::empty().seqio("schema").ok().json();
    assert_eq!(schema["$schema"], "http://json-schema.org/draft-07/schema#");
    assert!(schema["properties"]["task"]["additionalProperties"]["properties"]["source"].is_object());
}

/// What bash offers for a line, its last word being completed.
fn bash_offers(project: &Project, line: &[&str]) -> Vec<String> {
    let program = Path::new(env!("CARGO_BIN_EXE_seqio")).parent().unwrap();
    let script = r#"
        PATH=$1:$PATH; shift
        source <(seqio completions bash)
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        _seqio_and_tasks seqio "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let mut bash = Command::new("bash");
    bash.args(["-c", script, "bash"]).arg(program).args(line).current_dir(project.path(""));
    bash.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let ran = project.run(&mut bash).ok();
    assert_eq!(ran.err(), "");
    ran.out().lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_names_of_tasks() {
    let project = Project::new();
    project.write("more.toml", "[vocabulary.b]\nbyte = true\n[task.extra]\nsource = { text = { train = \"x\" } }\nfeatures = { text = { vocabulary = \"b\" } }\n");
    assert_eq!(bash_offers(&project, &["seqio", "strea"]), ["stream"]);
    assert_eq!(bash_offers(&project, &["seqio", "explain", "d"]), ["docs"]);
    assert_eq!(bash_offers(&project, &["seqio", "cache", "build", "docs", "p"]), ["pairs"]);
    assert_eq!(bash_offers(&project, &["seqio", "-f", "more.toml", "cache", "verify", "e"]), ["extra"]);
    assert_eq!(bash_offers(&project, &["seqio", "inspect", "docs", "--stage", "r"]), ["raw"]);
    assert!(
        bash_offers(&project, &["seqio", "stream", "docs", "--batch"]).contains(&"--batch-size".to_owned())
    );
    assert!(!bash_offers(&project, &["seqio", "list", ""]).contains(&"docs".to_owned()));
}

#[test]
fn every_shell_gets_a_script() {
    let project = Project::empty();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = project.seqio(&format!("completions {shell}")).ok().out();
        assert!(script.contains("seqio") && script.len() > 1000, "{shell}");
    }
    project.seqio("completions tcsh").fails(2);
}

#[test]
fn each_command_has_a_manual_page() {
    let project = Project::empty();
    let page = project.seqio("man cache build").ok().out();
    for part in [".TH seqio-cache-build 1", ".SH NAME", ".SH OPTIONS", ".SH \"EXAMPLES\"", "\\-\\-memory"] {
        assert!(page.contains(part), "{part} is not in\n{page}");
    }
    let root = project.seqio("man").ok().out();
    for part in [".SH \"EXIT CODES\"", ".SH \"ENVIRONMENT\"", "NO_COLOR"] {
        assert!(root.contains(part), "{part} is not in\n{root}");
    }
    project.seqio("man --dir pages").ok();
    let pages = files_below(&project.path("pages"));
    assert!(pages.iter().any(|page| page.ends_with("seqio.1")));
    assert!(pages.iter().any(|page| page.ends_with("seqio-bench-infeed.1")));
    assert!(pages.iter().all(|page| !std::fs::read(page).unwrap().is_empty()));
    let message = project.seqio("man strem").fails(2);
    assert_eq!(message, "error: there is no command `strem`; did you mean `stream`?\n");
}

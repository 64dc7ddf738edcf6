//! Kinds of vocabulary through the program: what a task file says of them, and what a cache keeps.

use std::path::Path;

use crate::support::Project;

/// A folder with a tiny rank file (the bytes, ` t`, `he`, ` the`, `th`) and a task over it.
fn rank_file(settings: &str) -> Project {
    let project = Project::empty();
    let mut ranks = String::new();
    for (rank, token) in (0..=255u8)
        .map(|byte| vec![byte])
        .chain([b" t".to_vec(), b"he".to_vec(), b" the".to_vec(), b"th".to_vec()])
        .enumerate()
    {
        ranks.push_str(&format!("{} {rank}\n", base64(&token)));
    }
    project.write("vocab/tiny.tiktoken", ranks);
    project.write("a.jsonl", "{\"text\":\"the then <|end|> é\"}\n{\"text\":\"\"}\n");
    project.write(
        "seqio.toml",
        format!(
            "[vocabulary.tiny]\ntiktoken = \"vocab/tiny.tiktoken\"\n{settings}\n\n[task.docs]\n\
             source   = {{ jsonl = {{ validation = \"a.jsonl\" }} }}\n\
             features = {{ targets = {{ vocabulary = \"tiny\" }} }}\n\
             steps    = [{{ op = \"rekey\", to_from = {{ targets = \"text\" }} }}, {{ op = \"tokenize\" }}, {{ op = \"append_eos\" }}]\n"
        ),
    );
    project
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = (0..3).fold(0u32, |bits, at| bits << 8 | u32::from(group.get(at).copied().unwrap_or(0)));
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place) & 63) as usize] as char;
            text.push(if place <= group.len() { letter } else { '=' });
        }
    }
    text
}

const SPECIAL: &str = "pattern = \"cl100k\"\nspecial_tokens = { \"<|end|>\" = 300 }\neos = \"<|end|>\"";

#[test]
fn a_rank_file_is_a_vocabulary_and_travels_with_its_cache() {
    let project = rank_file(SPECIAL);
    let inspect = |project: &Project, command: &str| project.seqio(command).ok().out();
    let shown = inspect(&project, "inspect docs --split validation -n 1 --json");
    let ids = |text: &str| {
        let value: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        value[0]["columns"]["targets"]["ids"].clone()
    };
    // `th` is made before ` the` could be: a lower rank goes first, and ` t` is the lowest.
    let mut expected = vec![116, 257, 258, 110];
    expected.extend(" <|end|> ".bytes().map(u32::from));
    expected.extend([0xC3, 0xA9, 300]);
    assert_eq!(ids(&shown), serde_json::json!(expected), "{shown}");

    project.seqio("cache build docs --split validation").ok();
    let cache = project.cache_of("docs");
    let stored: Vec<_> =
        std::fs::read_dir(cache.join("vocabulary")).unwrap().map(|it| it.unwrap().path()).collect();
    assert!(stored.len() == 1 && stored[0].extension() == Some("tiktoken".as_ref()), "{stored:?}");
    // With neither task file nor rank file.
    let kept = Path::new("kept");
    std::fs::rename(&cache, project.path("kept")).unwrap();
    std::fs::remove_dir_all(project.path("vocab")).unwrap();
    std::fs::remove_file(project.path("seqio.toml")).unwrap();
    let stream = format!(
        "stream --cache {} --split validation --batch-size 1 --lengths 20 --epochs 1 --order storage",
        kept.display()
    );
    let rows = project.seqio(&stream).ok().json_lines();
    assert_eq!(rows[0]["decoder_target_tokens"][0], 116);
}

#[test]
fn mistakes_in_a_rank_file_vocabulary_are_told_with_their_place() {
    let told = |settings: &str| rank_file(settings).seqio("explain docs").fails(3);
    insta::assert_snapshot!(told("pattern = \"cl100\""), @r#"
    error: seqio.toml:3:11: vocabulary `tiny`: `pattern` cannot be `cl100`
      |
    3 | pattern = "cl100"
      |           ^^^^^^^

    hint: did you mean `cl100k`?
    "#);
    insta::assert_snapshot!(told(""), @r"
    error: seqio.toml:1:13: vocabulary `tiny`: `pattern`: a `tiktoken` vocabulary needs it, one of `gpt2`, `cl100k`, `o200k`, `qwen`
      |
    1 | [vocabulary.tiny]
      |             ^^^^
    ");
    insta::assert_snapshot!(told("pattern = \"gpt2\"\neos = \"<|ned|>\"\nspecial_tokens = { \"<|end|>\" = 300 }"), @r#"
    error: seqio.toml:4:7: vocabulary `tiny`: `eos`: the vocabulary has no piece `<|ned|>`; did you mean `<|end|>`?
      |
    4 | eos = "<|ned|>"
      |       ^^^^^^^^^
    "#);
    let project = rank_file(SPECIAL);
    project.write("vocab/tiny.tiktoken", "IQ== 0\nIQ= 1\n");
    insta::assert_snapshot!(project.seqio("explain docs").fails(3), @r#"
    error: seqio.toml:2:12: vocabulary `tiny`: `./vocab/tiny.tiktoken`: not a usable rank file: line 2: `IQ=` is not base64
      |
    2 | tiktoken = "vocab/tiny.tiktoken"
      |            ^^^^^^^^^^^^^^^^^^^^^
    "#);
}

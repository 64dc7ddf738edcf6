//! Exit codes, as `seqio --help` and `docs/output.md` list them. 130 is tested where builds and streams are stopped.

use std::path::Path;

use crate::support::{Project, files_below};

#[test]
fn the_documentation_lists_the_codes_that_help_lists() {
    let help = Project::empty().seqio("--help").ok().out();
    let codes = |text: &str, start: &str| -> Vec<String> {
        let (_, list) = text.split_once(start).unwrap();
        let lines = list.lines().skip(1).skip_while(|line| line.is_empty() || line.starts_with("|--"));
        let first_word =
            |line: &str| line.trim_start_matches(['|', ' ']).split_whitespace().next().map(str::to_owned);
        lines.take_while(|line| !line.is_empty()).filter_map(first_word).collect()
    };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/output.md");
    let document = std::fs::read_to_string(path).unwrap();
    let listed = codes(&help, "Exit codes:");
    assert_eq!(listed, ["0", "1", "2", "3", "4", "130"]);
    assert_eq!(codes(&document, "| code | meaning |"), listed);
}

#[test]
fn a_senseless_command_line_is_2() {
    let project = Project::new();
    project.seqio("").fails(2);
    project.seqio("inspect docs --nonsense").fails(2);
    project.seqio("inspect docs --stage model").fails(2);
    project.seqio("--color sometimes list").fails(2);
}

#[test]
fn a_mistake_in_a_definition_is_3_and_so_is_none() {
    let project = Project::new();
    project.seqio("explain dosc").fails(3);
    project.seqio("-f absent.toml list").fails(3);
    project.write("seqio.toml", "[task.docs]\nsource = 7\n");
    project.seqio("list").fails(3);
    project.seqio("cache build docs").fails(3);
    Project::empty().seqio("list").fails(3);
}

#[test]
fn data_that_is_absent_or_bad_is_1() {
    let project = Project::new();
    project.write("data/train-0.jsonl", "nonsense\n{\"text\":\"x\"}\n");
    project.seqio("cache build docs").fails(1);
    std::fs::remove_file(project.path("data/pairs.jsonl")).unwrap();
    project.seqio("cache build pairs").fails(1);
    project.seqio("inspect docs --split trian").fails(1);
    project.seqio("cache verify --cache absent").fails(4);
}

#[test]
fn a_damaged_cache_is_4_wherever_it_is_met() {
    let project = Project::new();
    project.seqio("cache build docs --split train").ok();
    let shard = files_below(&project.cache_of("docs"))
        .into_iter()
        .find(|path| path.extension().is_some_and(|end| end == "arrow"))
        .unwrap();
    let mut bytes = std::fs::read(&shard).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&shard, bytes).unwrap();
    project.seqio("cache verify").fails(4);
    project.seqio("cache verify --json").fails(4);
    let stream = "stream docs --batch-size 60 --lengths 4096 --epochs 1 --pack none --format none";
    project.seqio(stream).fails(4);
    let mut cut = std::fs::read(&shard).unwrap();
    cut.truncate(100);
    std::fs::write(&shard, cut).unwrap();
    project.seqio(stream).fails(4);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let project = Project::new();
    let mut child = project.command("stream docs --batch-size 2 --lengths 64").spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(project.ended(child).code, Some(0));
}

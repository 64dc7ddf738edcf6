//! What goes wrong in the world: damage, changes, full disks, readers that sleep or go away. Each ends in a clear
//! message or the documented result.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::{Project, Ran, documents, files_below};

const SHAPE: &str = "docs --batch-size 4 --lengths 96";

fn built() -> (Project, PathBuf) {
    let project = Project::new();
    project.seqio("cache build docs").ok();
    let folder = project.cache_of("docs");
    (project, folder)
}

fn file_ending_in(folder: &Path, ending: &str) -> PathBuf {
    files_below(folder).into_iter().find(|path| path.to_string_lossy().ends_with(ending)).unwrap()
}

fn stream(project: &Project) -> Ran {
    project.seqio(&format!("stream {SHAPE} --digest --epochs 1"))
}

#[test]
fn a_flipped_byte_is_found_by_the_reader_and_by_verify() {
    let (project, folder) = built();
    let shard = file_ending_in(&folder, ".arrow");
    let name = shard.file_name().unwrap().to_str().unwrap().to_owned();
    let mut bytes = std::fs::read(&shard).unwrap();
    // Somewhere in the ids: the text of the last document.
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&shard, bytes).unwrap();
    let message = project.seqio("cache verify").fails(4);
    assert!(
        message.contains("hint: remove a damaged cache with `seqio cache remove --cache FOLDER`"),
        "{message}"
    );
    let shown = project.seqio("cache verify").out();
    assert!(shown.contains("DAMAGED") && shown.contains(&name), "{shown}");
    let message = stream(&project).fails(4);
    assert!(message.contains("damaged") && message.contains(&name), "{message}");
}

#[test]
fn a_cut_shard_is_found_when_it_is_opened() {
    let (project, folder) = built();
    let shard = file_ending_in(&folder, ".arrow");
    let bytes = std::fs::read(&shard).unwrap();
    std::fs::write(&shard, &bytes[..bytes.len() - 100]).unwrap();
    let message = stream(&project).fails(4);
    assert!(message.contains(shard.file_name().unwrap().to_str().unwrap()), "{message}");
    assert!(message.contains("damaged"), "{message}");
}

#[test]
fn a_folder_without_a_manifest_is_no_cache() {
    let (project, folder) = built();
    std::fs::remove_file(folder.join("manifest.json")).unwrap();
    let line = format!("stream --cache {} --batch-size 4 --lengths 96 --steps 1", folder.display());
    let message = project.seqio(&line).fails(1);
    assert!(message.contains("is not a cache") && message.contains("manifest.json"), "{message}");
    // With the task file at hand a new one is built.
    let ran = stream(&project).ok();
    assert!(ran.err().contains("has no cache yet; building it"), "{}", ran.err());
}

#[test]
fn a_changed_source_is_never_read_silently() {
    let (project, folder) = built();
    let before = stream(&project).ok();
    assert_eq!(before.err(), "");
    project.write("data/train-1.jsonl", documents(40..70));
    let line = format!("stream --cache {} --batch-size 4 --lengths 96 --steps 1", folder.display());
    let message = project.seqio(&line).fails(1);
    assert!(message.contains("train-1.jsonl"), "{message}");
    let after = stream(&project).ok();
    assert!(after.err().contains("out of date: the source changed: "), "{}", after.err());
    assert!(after.err().contains("building a new one"), "{}", after.err());
    assert_eq!(after.err().lines().count(), 1, "{}", after.err());
    assert_ne!(before.out(), after.out());
    assert_eq!(stream(&project).ok().err(), "");
}

#[test]
fn a_touched_source_of_the_same_content_is_the_same() {
    let (project, folder) = built();
    project.write("data/train-1.jsonl", documents(40..60));
    assert_eq!(stream(&project).ok().err(), "");
    let line = format!("stream --cache {} --batch-size 4 --lengths 96 --steps 1 --digest", folder.display());
    assert_eq!(project.seqio(&line).ok().err(), "");
}

#[test]
fn a_changed_definition_is_told_in_words() {
    let (project, _) = built();
    let text = String::from_utf8(project.read("seqio.toml")).unwrap();
    project.write("seqio.toml", text.replacen("{ op = \"append_eos\" },", "", 1));
    let ran = stream(&project).ok();
    assert!(ran.err().contains("out of date: the definition changed: "), "{}", ran.err());
}

#[test]
fn a_source_that_is_gone_is_said_once_and_the_cache_is_used() {
    let (project, _) = built();
    let before = stream(&project).ok().out();
    std::fs::rename(project.path("data"), project.path("elsewhere")).unwrap();
    let ran = stream(&project).ok();
    assert_eq!(ran.out(), before);
    assert_eq!(ran.err().lines().count(), 1, "{}", ran.err());
    assert!(ran.err().contains("the sources of `docs`"), "{}", ran.err());
    let message = project.seqio("stream pairs --batch-size 2 --lengths 32 --steps 1").fails(1);
    assert!(message.contains("no file matches"), "{message}");
}

#[test]
fn an_unreadable_file_is_named() {
    let project = Project::new();
    // Root may read everything, so that the program runs as somebody else where the test is run by root.
    let program = project.path("seqio");
    std::fs::copy(env!("CARGO_BIN_EXE_seqio"), &program).unwrap();
    let allow = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap()
    };
    allow(project.path("").as_path(), 0o777);
    allow(&project.path("data/train-0.jsonl"), 0o000);
    let mut command = project.command("cache build docs");
    let mut other = Command::new(&program);
    other.args(command.get_args()).current_dir(project.path(""));
    other.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    if rustix::process::geteuid().is_root() {
        other.uid(65534).gid(65534);
    }
    let message = project.run(&mut other).fails(1);
    assert!(message.contains("train-0.jsonl") && message.contains("ermission denied"), "{message}");
    command.env_clear();
}

#[test]
fn an_empty_file_is_a_file_without_examples() {
    let project = Project::new();
    project.write("data/train-0.jsonl", "");
    assert!(project.seqio("cache build docs --split train").ok().out().contains("20 examples"));
    project.write("data/train-1.jsonl", "");
    assert!(project.seqio("cache build docs --split train").ok().out().contains("0 examples"));
    project.seqio("cache verify").ok();
    let message = stream(&project).fails(1);
    assert!(message.contains("has no examples"), "{message}");
    assert!(project.seqio("stats docs --split train").ok().out().contains("0 examples"));
    assert_eq!(project.seqio("inspect docs").ok().out(), "split `train` has no examples\n");
}

#[test]
fn a_split_whose_pattern_matches_nothing_is_refused_before_data_is_read() {
    let project = Project::new();
    std::fs::remove_file(project.path("data/valid.jsonl")).unwrap();
    let message = project.seqio("cache build docs").fails(1);
    assert!(message.contains("no file matches") && message.contains("seqio.toml:5"), "{message}");
    assert!(!project.path("seqio-cache").exists());
}

#[test]
fn bad_rows_stop_with_file_and_line_or_are_skipped_and_counted() {
    let bad: [(&str, &[u8]); 4] = [
        ("json", b"{\"text\":\n"),
        ("utf-8", b"{\"text\":\"\xff\xfe\"}\n"),
        ("type", b"{\"text\":7}\n"),
        ("missing", b"{\"other\":\"x\"}\n"),
    ];
    for (kind, line) in bad {
        let project = Project::new();
        project.write(
            "data/train-1.jsonl",
            [documents(0..2).as_bytes(), line, documents(2..4).as_bytes()].concat(),
        );
        let message = project.seqio("cache build docs --split train").fails(1);
        assert!(message.contains("train-1.jsonl, line 3"), "{kind}: {message}");
        assert!(
            message.contains("hint: mend the file") && message.contains("`on_bad_row = \"skip\"`"),
            "{kind}: {message}"
        );
        let message = project.seqio("inspect docs --split train -n 50").fails(1);
        assert!(message.contains("train-1.jsonl, line 3"), "{kind}: {message}");
        assert!(
            message.contains("hint: mend the file") && message.contains("`\"set_aside\"`"),
            "{kind}: {message}"
        );
        let text = String::from_utf8(project.read("seqio.toml")).unwrap();
        project
            .write("seqio.toml", text.replace("columns = { text", "on_bad_row = \"skip\", columns = { text"));
        let ran = project.seqio("cache build docs --split train").ok();
        assert!(ran.out().contains("44 examples"), "{kind}: {}", ran.out());
        assert!(ran.err().contains("skipped 1 bad record"), "{kind}: {}", ran.err());
    }
}

#[test]
fn bad_rows_and_damage_are_set_aside_with_file_line_reason_and_the_row() {
    let project = Project::new();
    project.write(
        "data/train-1.jsonl",
        b"{\"text\":\"good\"}\n{\"text\":7}\n\n{\"text\":\"\xff\xfe\"}\r\n{\"text\": \"last".as_slice(),
    );
    let packed = pack_gzip(documents(0..30).as_bytes());
    project.write("data/train-2.jsonl.gz", &packed[..packed.len() - 9]);
    let text = String::from_utf8(project.read("seqio.toml")).unwrap();
    let text = text.replace("data/train-*.jsonl", "data/train-*");
    project.write(
        "seqio.toml",
        text.replace("columns = { text", "on_bad_row = \"set_aside\", columns = { text"),
    );

    let inspected = project.seqio("inspect docs -n 1000").ok();
    insta::assert_snapshot!(inspected.err(), @"note: `docs`, split `train`: set aside 4 bad records; `seqio cache build docs` puts them in `train.rejects.jsonl` of the cache");
    let streamed =
        project.seqio("stream docs --no-cache --order storage --batch-size 9 --lengths 64 --epochs 1").ok();
    insta::assert_snapshot!(streamed.err(), @"note: `docs`, split `train`: set aside 4 bad records; `seqio cache build docs` puts them in `train.rejects.jsonl` of the cache");
    let built = project.seqio("cache build docs --split train --json").ok();
    insta::assert_snapshot!(built.err(), @r"
    note: `docs`, split `train`: set aside 4 bad records; the first is train-1.jsonl:2: `text` should be a string, but is the number 7
    note: `train-2.jsonl.gz` could not be read to its end: the gzip stream ends early
    ");
    let cache = project.cache_of("docs");
    let rejects = std::fs::read_to_string(cache.join("train.rejects.jsonl")).unwrap();
    insta::assert_snapshot!(rejects, @r#"
    {"file":"train-1.jsonl","line":2,"reason":"`text` should be a string, but is the number 7","row":"{\"text\":7}"}
    {"file":"train-1.jsonl","line":4,"reason":"is not valid UTF-8 at byte 10 of the line","row_base64":"eyJ0ZXh0Ijoi//4ifQ=="}
    {"file":"train-1.jsonl","line":5,"reason":"is not valid JSON: EOF while parsing a string at byte 14 of the line","row":"{\"text\": \"last"}
    {"file":"train-2.jsonl.gz","line":31,"reason":"the gzip stream ends early"}
    "#);
    let built = built.json();
    assert_eq!(project.path(built["rejects"].as_str().unwrap()), cache.join("train.rejects.jsonl"));
    assert_eq!(built["bad_rows"], rejects.lines().count());

    let again = project.seqio("cache build docs --split train").ok().out();
    assert!(again.contains("4 bad records set aside in seqio-cache/docs/"), "{again}");
    let stats = project.seqio("stats docs --split train").ok().out();
    assert!(stats.contains("4 bad records of 76 set aside in seqio-cache/docs/"), "{stats}");
    project.seqio("cache verify").ok();
    std::fs::write(cache.join("train.rejects.jsonl"), rejects.replace('7', "8")).unwrap();
    let verified = project.seqio("cache verify");
    assert!(
        verified.out().contains("train.rejects.jsonl: its hash is not that in the manifest"),
        "{verified:?}"
    );
    verified.fails(4);
}

/// Gzip, as `gzip` makes it.
fn pack_gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

#[test]
fn windows_line_ends_a_byte_order_mark_and_nul_bytes_are_read_as_documented() {
    let project = Project::new();
    let windows = documents(40..60).replace('\n', "\r\n");
    project.write("data/train-1.jsonl", [b"\xef\xbb\xbf".as_slice(), windows.as_bytes()].concat());
    assert!(project.seqio("cache build docs --split train").ok().out().contains("60 examples"));
    project.write("data/train-1.jsonl", "{\"text\":\"a\\u0000b\"}\n");
    let examples = project.seqio("inspect docs --split train[40:] -n 1 --json").ok().json();
    assert_eq!(examples[0]["columns"]["targets"]["text"], "a\u{0}b");
}

#[test]
fn a_full_disk_ends_with_a_message_and_the_same_command_goes_on_when_there_is_room() {
    let project = too_large_for_a_small_disk();
    let disk = SmallDisk::make(project.path("disk"));
    fills_up_and_goes_on(&project, &disk);
}

#[test]
fn a_file_that_cannot_grow_ends_with_a_message_and_the_same_command_goes_on() {
    // No estimate sees this coming: the first write past the limit fails in the middle of the work.
    let project = too_large_for_a_small_disk();
    let disk = SmallDisk { folder: project.path("disk"), mounted: false };
    fills_up_and_goes_on(&project, &disk);
}

fn too_large_for_a_small_disk() -> Project {
    let project = Project::new();
    for file in 0..4 {
        project.write(&format!("data/train-{file}.jsonl"), documents(0..2000).repeat(8));
    }
    project
}

fn fills_up_and_goes_on(project: &Project, disk: &SmallDisk) {
    let line = "cache build docs --split train --cache-dir disk";
    if disk.mounted {
        let message = project.seqio(&format!("{line} --dry-run")).fails(1);
        assert!(
            message.contains("the cache needs about") && message.contains("hint: make room"),
            "{message}"
        );
    }
    let message = disk.run(project, line).fails(1);
    let full = ["No space left", "File too large", "free"].iter().any(|words| message.contains(words));
    assert!(full && message.contains("disk"), "{message}");
    disk.grow();
    project.seqio(line).ok();
    project.seqio("cache verify --cache-dir disk").ok();
}

/// A folder in which files cannot grow: a small file system where the test may mount one, else a limit on the size
/// of files.
struct SmallDisk {
    folder: PathBuf,
    mounted: bool,
}

impl SmallDisk {
    fn make(folder: PathBuf) -> Self {
        std::fs::create_dir_all(&folder).unwrap();
        let mounted = Self::mount(&folder, "size=1m");
        Self { folder, mounted }
    }

    fn mount(folder: &Path, options: &str) -> bool {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(folder);
        mount.output().is_ok_and(|output| output.status.success())
    }

    fn run(&self, project: &Project, line: &str) -> Ran {
        if self.mounted {
            return project.seqio(line);
        }
        let mut shell = Command::new("sh");
        shell
            .arg("-c")
            .arg(format!("trap '' XFSZ; ulimit -f 64; exec {} {line}", env!("CARGO_BIN_EXE_seqio")));
        shell.current_dir(project.path(""));
        shell.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        project.run(&mut shell)
    }

    fn grow(&self) {
        if self.mounted {
            assert!(Self::mount(&self.folder, "remount,size=200m"));
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if self.mounted {
            let _ = Command::new("umount").arg(&self.folder).output();
        }
    }
}

fn anonymous_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_consumer_that_sleeps_does_not_grow_memory() {
    let (project, _) = built();
    let mut command =
        project.command("stream docs --batch-size 64 --lengths 2048 --format arrow --read-ahead 4");
    let mut child = command.spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut first = vec![0; 1 << 20];
    stdout.read_exact(&mut first).unwrap();
    std::thread::sleep(Duration::from_millis(1000));
    let before = anonymous_kib(child.id());
    std::thread::sleep(Duration::from_secs(10));
    let after = anonymous_kib(child.id());
    assert!(after <= before + 4096, "{before} KiB grew to {after} KiB");
    drop(stdout);
    assert_eq!(project.ended(child).code, Some(0));
}

#[test]
fn a_consumer_that_goes_away_ends_the_program_within_a_second() {
    let (project, _) = built();
    for format in ["jsonl", "arrow"] {
        let mut command = project.command(&format!("stream {SHAPE} --read-ahead 64 --format {format}"));
        let mut child = command.spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let mut first = vec![0; 4096];
        stdout.read_exact(&mut first).unwrap();
        let left = Instant::now();
        drop(stdout);
        let ran = project.ended(child);
        assert!(left.elapsed() < Duration::from_secs(1), "{format}: {:?}", left.elapsed());
        assert_eq!((ran.code, ran.err().as_str()), (Some(0), ""), "{format}");
    }
}

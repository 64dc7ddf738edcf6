//! The built program, run in the folder of a case.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::case::{Case, Random};

/// A line of `--digest=rows`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowDigest {
    pub(crate) step: u64,
    pub(crate) row: u64,
    pub(crate) digest: String,
}

/// A piece of a row, as `seqio batch --json` traces it.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) file: String,
    pub(crate) row: u64,
    pub(crate) offset: u64,
    pub(crate) from: u64,
    pub(crate) length: u64,
}

/// Runs `seqio` in one folder.
pub(crate) struct Program {
    folder: PathBuf,
}

impl Program {
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// A path in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seqio"));
        command
            .args(arguments)
            .current_dir(&self.folder)
            .env_remove("SEQIO_CACHE_DIR")
            .env("XDG_CACHE_HOME", self.folder.join("user-cache"));
        command
    }

    /// Standard output of a run that has to succeed.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        assert!(
            output.status.success(),
            "seqio {}\n{}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    fn run_on(&self, command: &[&str], case: &Case, extra: &[&str]) -> String {
        let options = case.options();
        let arguments: Vec<&str> = command
            .iter()
            .copied()
            .chain(options.iter().map(String::as_str))
            .chain(extra.iter().copied())
            .collect();
        self.run(&arguments)
    }

    /// `seqio stream`, writing nothing but what `extra` asks for.
    pub(crate) fn stream(&self, case: &Case, extra: &[&str]) -> String {
        self.run_on(&["stream", "t", "--format", "none"], case, extra)
    }

    /// The digest of every row.
    pub(crate) fn rows(&self, case: &Case, extra: &[&str]) -> Vec<RowDigest> {
        let lines = self.run_on(&["stream", "t", "--format", "none", "--digest=rows"], case, extra);
        let row = |line: &str| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let number = |at: usize| fields[at].parse().expect("`step row digest`");
            RowDigest { step: number(0), row: number(1), digest: fields[2].to_owned() }
        };
        lines.lines().map(row).collect()
    }

    /// Builds a cache below `name`.
    pub(crate) fn build(&self, _case: &Case, name: &str, extra: &[&str]) -> PathBuf {
        let arguments: Vec<&str> = ["cache", "build", "t", "--cache-dir", name]
            .iter()
            .copied()
            .chain(extra.iter().copied())
            .collect();
        self.run(&arguments);
        self.folder.join(name)
    }

    /// Starts a worker on its share of the cache below `name`, with threads and memory of its own.
    pub(crate) fn start_worker(&self, name: &str, share: &str, random: &mut Random) -> Child {
        let options = work_options(random);
        let mut command = self.command(&["cache", "build", "t", "--cache-dir", name, "--worker", share]);
        command.args(options).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// The one finished cache below `name`.
    pub(crate) fn cache_below(&self, name: &str) -> String {
        let folders = std::fs::read_dir(self.folder.join(name).join("t")).unwrap();
        let mut folders = folders.map(|entry| entry.unwrap().path());
        let folder = folders.find(|path| path.join("manifest.json").exists());
        folder.expect("a finished cache").to_string_lossy().into_owned()
    }

    /// Brings the cache below `name` into another form.
    pub(crate) fn convert(&self, name: &str, form: &str) {
        self.run(&["cache", "convert", "t", "--cache-dir", name, "--compress", form]);
    }

    /// Steps of the whole stream.
    pub(crate) fn steps(&self, case: &Case) -> u64 {
        self.plan(case)["steps"].as_u64().expect("a number of steps")
    }

    /// Examples without a token.
    pub(crate) fn empty_items(&self, case: &Case) -> u64 {
        self.plan(case)["empty_items"].as_u64().expect("a number of empty items")
    }

    fn plan(&self, case: &Case) -> serde_json::Value {
        serde_json::from_str(&self.run_on(&["plan", "t", "--json"], case, &[])).unwrap()
    }

    /// The pieces of the rows of a step, in order.
    pub(crate) fn pieces(&self, case: &Case, step: u64) -> Vec<Piece> {
        let text = self.run_on(&["batch", "t", "--json", "--step", &step.to_string()], case, &[]);
        let batch: serde_json::Value = serde_json::from_str(&text).unwrap();
        let mut pieces = Vec::new();
        for row in batch["rows"].as_array().expect("rows") {
            for piece in row["pieces"].as_array().expect("pieces") {
                let origins = piece["origins"].as_array().expect("origins");
                assert_eq!(origins.len(), 1, "nothing here merges records");
                let number = |value: &serde_json::Value| value.as_u64().expect("a number");
                let part = &piece["parts"][0];
                pieces.push(Piece {
                    file: origins[0]["file"].as_str().expect("a file").to_owned(),
                    row: number(&origins[0]["line"]) - 1,
                    offset: number(&origins[0]["offset"]),
                    from: number(&part["from"]),
                    length: number(&part["tokens"]),
                });
            }
        }
        pieces
    }

    /// (file, row, offset) of every record, by a script that shares no code with the program.
    pub(crate) fn source_rows(&self, case: &Case) -> BTreeSet<(String, u64, u64)> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools/source_rows.py");
        // Python's standard library does not read Zstandard: the script gets such files decompressed, below the same
        // names.
        let plain = self.folder.join("plain");
        std::fs::create_dir_all(&plain).unwrap();
        let files = case.files().into_iter().map(|path| {
            let copy = plain.join(path.file_name().unwrap());
            let bytes = std::fs::read(&path).unwrap();
            let zst = case.compression == ".zst";
            std::fs::write(&copy, if zst { zstd::decode_all(&*bytes).unwrap() } else { bytes }).unwrap();
            copy
        });
        let output =
            Command::new("python3").arg(script).arg(case.source).arg(&plain).args(files).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let place = |line: &str| {
            let fields: Vec<&str> = line.split('\t').collect();
            (fields[0].to_owned(), fields[1].parse().unwrap(), fields[2].parse().unwrap())
        };
        text.lines().map(place).collect()
    }
}

/// The digests of `--digest`, in order of steps.
pub(crate) fn digests(text: &str) -> Vec<String> {
    text.lines().map(|line| line.split_whitespace().nth(1).expect("`step digest`").to_owned()).collect()
}

/// Threads and memory that change nothing.
pub(crate) fn work_options(random: &mut Random) -> Vec<String> {
    let (threads, memory) = (random.pick(&["1", "2", "8"]), random.pick(&["1MiB", "16MiB", "2GiB"]));
    ["--threads", threads, "--memory", memory].map(str::to_owned).to_vec()
}

/// Files below a folder that others change at the same time.
pub(crate) fn num_files(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| if entry.path().is_dir() { num_files(&entry.path()) } else { 1 }).sum()
}

/// Asserts that two folders hold the same files with the same bytes, but for what may vary.
pub(crate) fn same_tree(one: &Path, other: &Path) {
    let (one, other) = (tree(one), tree(other));
    assert_eq!(one.keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>());
    for (name, bytes) in &one {
        assert!(*bytes == other[name], "{} differs", name.display());
    }
}

fn tree(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_some_and(|name| name != "build.log.json") {
                files.insert(path.strip_prefix(root).unwrap().to_owned(), std::fs::read(&path).unwrap());
            }
        }
    }
    files
}

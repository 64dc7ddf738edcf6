//! A folder with a small task, and the program run in it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// What a run of the program left behind.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
    pub(crate) code: Option<i32>,
    folder: PathBuf,
}

impl Ran {
    /// Standard output as text, the folder's name taken out.
    pub(crate) fn out(&self) -> String {
        self.shown(&String::from_utf8_lossy(&self.stdout))
    }

    /// Standard error, the folder's name taken out.
    pub(crate) fn err(&self) -> String {
        self.shown(&self.stderr)
    }

    /// Standard output as one JSON value.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Standard output as JSON values, one a line.
    pub(crate) fn json_lines(&self) -> Vec<serde_json::Value> {
        self.out().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Panics unless the program was content.
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, Some(0), "{}\n{}", self.out(), self.err());
        self
    }

    /// Panics unless the program ended with this exit code; gives its message.
    pub(crate) fn fails(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{}\n{}", self.out(), self.err());
        self.err()
    }

    fn shown(&self, text: &str) -> String {
        let real = self.folder.canonicalize().unwrap_or_else(|_| self.folder.clone());
        let text = text.replace(&*real.to_string_lossy(), "[dir]");
        text.replace(&*self.folder.to_string_lossy(), "[dir]")
    }
}

/// A folder with `seqio.toml` and its sources.
pub(crate) struct Project {
    folder: TempDir,
}

/// Tasks over bytes: `docs` (features `targets`) and `pairs` (`inputs` and `targets`).
const TASKS: &str = r#"[vocabulary.bytes]
byte = true

[task.docs]
source   = { jsonl = { train = "data/train-*.jsonl", validation = "data/valid.jsonl" }, columns = { text = "string" } }
features = { targets = { vocabulary = "bytes" } }
steps    = [
  { op = "rekey", to_from = { targets = "text" } },
  { op = "tokenize" },
  { op = "append_eos" },
]

[task.pairs]
source   = { jsonl = { train = "data/pairs.jsonl" }, columns = { en = "string", fr = "string" } }
features = { inputs = { vocabulary = "bytes" }, targets = { vocabulary = "bytes" } }
steps    = [
  { op = "format", set = { inputs = "translate: {en}", targets = "{fr}" } },
  { op = "tokenize" },
  { op = "append_eos" },
]
"#;

impl Project {
    /// A folder with nothing in it.
    pub(crate) fn empty() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// A folder with the tasks `docs` (60 examples in two files, 5 for validation) and `pairs` (4 examples).
    pub(crate) fn new() -> Self {
        let project = Self::empty();
        project.write("seqio.toml", TASKS);
        project.write("data/train-0.jsonl", documents(0..40));
        project.write("data/train-1.jsonl", documents(40..60));
        project.write("data/valid.jsonl", documents(60..65));
        let pairs = [("one", "un"), ("two", "deux"), ("three", "trois"), ("four", "quatre")];
        let lines = pairs.map(|(en, fr)| format!("{{\"en\":\"{en}\",\"fr\":\"{fr}\"}}\n"));
        project.write("data/pairs.jsonl", lines.concat());
        project
    }

    /// The path of a file in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file, making its folders.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// Reads a file.
    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// The program, with the words of `line` as its arguments, not yet started.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seqio"));
        command.args(line.split_whitespace()).current_dir(self.folder.path());
        for name in ["SEQIO_CACHE_DIR", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "RUST_BACKTRACE"]
        {
            command.env_remove(name);
        }
        // Without it the GL driver complains on standard error.
        command.env("XDG_RUNTIME_DIR", self.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the program to its end.
    pub(crate) fn seqio(&self, line: &str) -> Ran {
        self.run(&mut self.command(line))
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, command: &mut Command) -> Ran {
        self.ended(command.spawn().unwrap())
    }

    /// Waits for a started program.
    pub(crate) fn ended(&self, child: Child) -> Ran {
        let output = child.wait_with_output().unwrap();
        Ran {
            stdout: output.stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            code: output.status.code(),
            folder: self.folder.path().to_owned(),
        }
    }

    /// The folder of the only finished cache of a task.
    pub(crate) fn cache_of(&self, task: &str) -> PathBuf {
        let mut found: Vec<PathBuf> = files_below(&self.path("seqio-cache").join(task))
            .into_iter()
            .filter(|path| path.ends_with("manifest.json") && !path.to_string_lossy().contains("/.building-"))
            .collect();
        assert_eq!(found.len(), 1, "{found:?}");
        found.pop().unwrap().parent().unwrap().to_owned()
    }
}

/// Lines of JSON, each with a text of its own length.
pub(crate) fn documents(numbers: std::ops::Range<usize>) -> String {
    numbers
        .map(|number| format!("{{\"text\":\"document {number}{}\"}}\n", " and more".repeat(number * 7 % 11)))
        .collect()
}

/// All files below a folder, sorted.
pub(crate) fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() { folders.push(entry) } else { files.push(entry) }
        }
    }
    files.sort();
    files
}

/// Waits until `what` is so, at most for a time that no working machine needs.
pub(crate) fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < Duration::from_secs(60), "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

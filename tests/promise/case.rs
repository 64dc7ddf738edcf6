//! One random case: files, a task over them, and how it is streamed.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::files::{self, Record};

/// A small generator with its own arithmetic, so that a case number means the same everywhere (splitmix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// One of several that are not copied.
    pub(crate) fn pick_from<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

/// What is streamed, and how.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) folder: PathBuf,
    pub(crate) source: &'static str,
    pub(crate) compression: &'static str,
    /// A query over the files as the table `r`; without it they are the source.
    pub(crate) query: Option<&'static str>,
    /// What bad records do; without it there are none.
    pub(crate) on_bad_row: Option<&'static str>,
    pub(crate) converter: &'static str,
    pub(crate) vocabulary: &'static str,
    /// Steps on raw records.
    pub(crate) first_steps: Vec<&'static str>,
    /// Steps between `tokenize` and the last ones.
    pub(crate) token_steps: Vec<&'static str>,
    pub(crate) last_steps: &'static str,
    pub(crate) shuffled: bool,
    pub(crate) examples: u64,
    pub(crate) lengths: (u64, u64),
    pub(crate) pack: &'static str,
    pub(crate) window: Option<u64>,
    pub(crate) order: &'static str,
    pub(crate) block: u64,
    pub(crate) batch_size: u64,
    pub(crate) epochs: u64,
    pub(crate) seed: u64,
}

const WORDS: &[&str] = &[
    "the",
    "and",
    "of",
    "Lord",
    "beginning",
    "earth",
    "without",
    "form,",
    "void;",
    "été",
    "光",
    "🙂",
    "<extra_id_0>",
    "0",
    "1611",
    "unto",
    "them:",
    "\u{a0}",
    "</s>",
    "e\u{301}",
    "\"word\"",
];

/// Queries whose rows have a key `k`, and always that of the first record.
const QUERIES: &[&str] = &[
    "SELECT more AS k, a, b, n FROM r WHERE n < 8",
    "SELECT r.more AS k, r.a, s.b, r.n FROM r JOIN r AS s ON r.n = s.n AND r.more = s.more",
    "SELECT min(more) AS k, a, max(b) AS b, CAST(0 AS BIGINT) AS n FROM r GROUP BY a",
    "SELECT more AS k, a, b, n FROM (SELECT *, row_number() OVER (PARTITION BY n ORDER BY b, more) AS p FROM r) \
     WHERE p <= 20 OR more = 0",
];
/// Steps on the columns `a`, `b` and `n`.
const RECORD_STEPS: &[&str] = &[
    r#"{ op = "deduplicate", by = "a" }"#,
    r#"{ op = "filter", where = "n < 6" }"#,
    r#"{ op = "deduplicate", by = ["n", "b"] }"#,
    r#"{ op = "filter", where = "length(a) > 3 AND (n <> 2 OR b LIKE '%the%')" }"#,
    r#"{ op = "format", compute = { a = "upper(a)" } }"#,
    r#"{ op = "select", columns = ["a", "b", "n * 2 AS n"] }"#,
];
/// Steps on the column `text`.
const TEXT_STEPS: &[&str] = &[
    r#"{ op = "filter", where = "length(text) > 3" }"#,
    r#"{ op = "deduplicate", by = "text" }"#,
    r#"{ op = "format", compute = { text = "concat(text, ' ', length(text))" } }"#,
];
/// Steps on token ids.
const TOKEN_STEPS: &[&str] = &[
    r#"{ op = "deduplicate", by = "targets" }"#,
    r#"{ op = "filter", where = "cardinality(targets) > 2" }"#,
    r#"{ op = "filter", where = "cardinality(targets) < 40" }"#,
];

/// None, one or several, in their order; mostly none.
fn some_of(random: &mut Random, steps: &[&'static str]) -> Vec<&'static str> {
    if random.below(2) == 0 {
        return Vec::new();
    }
    steps.iter().copied().filter(|_| random.below(3) == 0).collect()
}

/// Steps at the boundary that look at one example at a time.
const LAST_STEPS: &[&str] = &[
    r#"{ op = "cache" }, { op = "append_eos" }"#,
    r#"{ op = "append_eos" }, { op = "cache" }"#,
    r#"{ op = "append_eos_after_trim" }"#,
    r#"{ op = "append_eos" }, { op = "trim" }"#,
    r#"{ op = "cache" }"#,
];

/// Steps below the boundary that merge, split, drop or reorder.
const ITEM_STEPS: &[&str] = &[
    r#"{ op = "cache" }, { op = "reduce_concat_tokens", batch_size = 3 }, { op = "split_tokens", max_tokens_per_segment = 9, min_tokens_per_segment = 2 }, { op = "append_eos" }"#,
    r#"{ op = "cache" }, { op = "select_random_chunk", max_length = 7, uniform_random_start = true }, { op = "append_eos_after_trim" }"#,
    r#"{ op = "split_tokens", max_tokens_per_segment = 5 }, { op = "reduce_concat_tokens", batch_size = 2 }"#,
];

impl Record {
    /// A record that every step lets pass.
    fn kept_by_all_steps() -> Self {
        let text = "the beginning of the earth".to_owned();
        Self { a: text.clone(), b: text, n: 0, more: 0, is_bad: false }
    }
}

impl Case {
    /// Writes the files of case `number` into `folder`.
    pub(crate) fn random(number: u64, folder: &Path, scale: u64) -> Self {
        let mut random = Random::new(number + 1);
        let converter = random.pick(&["lm", "lm", "enc_dec"]);
        let source = random.pick(match converter {
            "lm" => &["jsonl", "jsonl", "text", "csv", "tsv", "parquet"][..],
            _ => &["jsonl", "csv", "parquet"],
        });
        let is_columnar = matches!(source, "parquet" | "arrow");
        let compression =
            if is_columnar { "" } else { random.pick(&["", "", "", ".gz", ".zst", ".bz2", ".xz"]) };
        let query = if source == "text" || random.below(4) > 0 { None } else { Some(random.pick(QUERIES)) };
        let on_bad_row = if is_columnar || query.is_some() {
            None
        } else {
            random.pick(&[None, None, Some("skip"), Some("set_aside")])
        };
        let steps: &[&str] = if source == "text" { TEXT_STEPS } else { RECORD_STEPS };
        let first_steps = some_of(&mut random, steps);
        let token_steps = some_of(&mut random, TOKEN_STEPS);
        let has_items = converter == "lm" && random.below(3) == 0;
        let last_steps = random.pick(if has_items { ITEM_STEPS } else { LAST_STEPS });
        let examples = random.pick(&[1, 2, 5, 17, 64, 150]);
        let pack = random.pick(&["best_fit", "best_fit", "greedy", "none"]);
        let case = Self {
            folder: folder.to_owned(),
            source,
            compression,
            query,
            on_bad_row,
            converter,
            vocabulary: random.pick(&["byte", "sentencepiece", "sentencepiece"]),
            first_steps,
            token_steps,
            last_steps,
            shuffled: random.below(4) > 0,
            examples: if examples > 2 { examples * scale } else { examples },
            lengths: (random.pick(&[6, 16, 40]), random.pick(&[5, 16, 33, 64])),
            pack,
            // Windows that do and do not divide an epoch; greedy takes whole groups of its own.
            window: if pack == "best_fit" {
                random.pick(&[Some(7), Some(32), Some(100), None])
            } else {
                None
            },
            order: random.pick(&["blocks", "blocks", "full", "storage"]),
            block: random.pick(&[1, 8, 13, 4096]),
            batch_size: random.pick(&[1, 2, 3, 8]),
            epochs: random.pick(&[1, 2, 3]),
            seed: random.below(1000),
        };
        case.write_files(&mut random);
        case.write_task_file();
        case
    }

    /// Whether each token of an epoch has its place: nothing trims or drops.
    pub(crate) fn keeps_every_token(&self) -> bool {
        let mut steps = self.first_steps.iter().chain(&self.token_steps);
        self.converter == "lm"
            && self.pack == "best_fit"
            && !self.last_steps.contains("trim")
            && !ITEM_STEPS.contains(&self.last_steps)
            && !steps.any(|step| step.contains("filter") || step.contains("deduplicate"))
    }

    /// How many steps compare all examples of a split.
    pub(crate) fn num_comparisons(&self) -> usize {
        let steps = self.first_steps.iter().chain(&self.token_steps);
        steps.filter(|step| step.contains("deduplicate")).count()
    }

    /// The same without what looks at all records for one: steps that compare, and queries.
    pub(crate) fn without_comparisons(&self) -> Self {
        let mut case = Self { query: None, ..self.clone() };
        for steps in [&mut case.first_steps, &mut case.token_steps] {
            steps.retain(|step| !step.contains("deduplicate"));
        }
        case.write_task_file();
        case
    }

    /// Whether the script that lists the records of files can read these.
    pub(crate) fn can_be_listed(&self) -> bool {
        !matches!(self.source, "parquet" | "arrow") && self.query.is_none()
    }

    /// The options that say what is streamed.
    pub(crate) fn options(&self) -> Vec<String> {
        let lengths = match self.converter {
            "lm" => format!("targets={}", self.lengths.1),
            _ => format!("inputs={},targets={}", self.lengths.0, self.lengths.1),
        };
        let mut options: Vec<String> = [
            "--batch-size",
            &self.batch_size.to_string(),
            "--lengths",
            &lengths,
            "--converter",
            self.converter,
            "--pack",
            self.pack,
            "--order",
            self.order,
            "--seed",
            &self.seed.to_string(),
            "--epochs",
            &self.epochs.to_string(),
        ]
        .iter()
        .map(|option| (*option).to_owned())
        .collect();
        if self.order == "blocks" {
            options.extend(["--block".to_owned(), self.block.to_string()]);
        }
        if let Some(window) = self.window {
            options.extend(["--window".to_owned(), window.to_string()]);
        }
        options
    }

    /// The files of the split, with the names that example ids see.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let count = self.examples.min(3);
        (0..count)
            .map(|number| {
                self.folder.join(format!("data/train-{number}.{}{}", self.source, self.compression))
            })
            .collect()
    }

    fn write_files(&self, random: &mut Random) {
        std::fs::create_dir_all(self.folder.join("data")).unwrap();
        let files = self.files();
        for (number, path) in files.iter().enumerate() {
            let count = self.examples / files.len() as u64
                + u64::from((number as u64) < self.examples % files.len() as u64);
            let mut records: Vec<Record> = Vec::new();
            for record in 0..count {
                records.push(match (number, record) {
                    (_, 1..) if random.below(5) == 0 => Record {
                        more: number as u64 * 1_000_000 + record,
                        ..random.pick_from(&records).clone()
                    },
                    // Never only empty or dropped examples: a stream without a row is another test's matter.
                    (0, 0) => Record::kept_by_all_steps(),
                    _ => Record {
                        a: text(random),
                        b: text(random),
                        n: random.below(9),
                        more: number as u64 * 1_000_000 + record,
                        is_bad: self.on_bad_row.is_some() && random.below(5) == 0,
                    },
                });
            }
            files::write(path, self.source, self.compression, &records, random);
        }
    }

    /// Writes `seqio.toml` as the case now stands.
    pub(crate) fn write_task_file(&self) {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/seqio/models");
        let model = zstd::decode_all(&*std::fs::read(golden.join("seqio_test.model.zst")).unwrap()).unwrap();
        std::fs::write(self.folder.join("small.model"), model).unwrap();
        let vocabulary = match self.vocabulary {
            "byte" => "byte = true".to_owned(),
            _ => "sentencepiece = \"small.model\"\nextra_ids = 10".to_owned(),
        };
        let (features, rekey) = match (self.converter, self.source) {
            ("lm", "text") => ("targets", r#"targets = "text""#),
            ("lm", _) => ("targets", r#"targets = "a""#),
            _ => ("inputs targets", r#"inputs = "a", targets = "b""#),
        };
        let features: Vec<String> =
            features.split(' ').map(|name| format!("{name} = {{ vocabulary = \"v\" }}")).collect();
        let columns = match self.source {
            "text" | "parquet" | "arrow" => "",
            _ => r#", columns = { a = "string", b = "string", n = "int64", more = "int64" }"#,
        };
        let on_bad_row = self.on_bad_row.map_or(String::new(), |does| format!(", on_bad_row = \"{does}\""));
        let files = |files: &str| format!("{} = {files}{columns}", self.source);
        let source = match self.query {
            None => files(r#"{ train = "data/train-*" }"#),
            Some(query) => {
                let table = files(r#""data/train-*""#);
                format!("sql = {{ train = \"{query}\" }}, key = [\"k\"], tables = {{ r = {{ {table} }} }}")
            }
        };
        let mut task = format!(
            "[vocabulary.v]\n{vocabulary}\n\n[task.t]\n\
             source = {{ {source}{on_bad_row} }}\n\
             features = {{ {features} }}\nshuffle = [{shuffle}]\nsteps = [\n",
            features = features.join(", "),
            shuffle = if self.shuffled { "\"train\"" } else { "" },
        );
        let rekey = format!("{{ op = \"rekey\", to_from = {{ {rekey} }} }}");
        let middle = [rekey.as_str(), r#"{ op = "tokenize" }"#];
        for step in self.first_steps.iter().chain(&middle).chain(&self.token_steps) {
            writeln!(task, "  {step},").unwrap();
        }
        for step in self.last_steps.split_inclusive("},") {
            writeln!(task, "  {},", step.trim().trim_end_matches(',')).unwrap();
        }
        task += "]\n";
        std::fs::write(self.folder.join("seqio.toml"), task).unwrap();
    }
}

/// None to many words; a few texts are much longer than any row.
fn text(random: &mut Random) -> String {
    let words = match random.below(10) {
        0 => 0,
        1 => random.below(120),
        _ => random.below(14),
    };
    (0..words).map(|_| random.pick(WORDS)).collect::<Vec<_>>().join(" ")
}

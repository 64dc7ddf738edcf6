#!/usr/bin/env python3
"""Runs the program over public hostile files: nothing may panic or hang, and what other readers read must be read alike.

    git clone https://github.com/nst/JSONTestSuite                              FOLDER/JSONTestSuite
    git clone https://github.com/minimaxir/big-list-of-naughty-strings          FOLDER/big-list-of-naughty-strings
    git clone https://github.com/apache/arrow-testing                           FOLDER/arrow-testing
    git clone https://github.com/apache/parquet-testing                         FOLDER/parquet-testing
    python3 tests/tools/hostile.py FOLDER --program target/release/seqio [--suite json blns csv arrow parquet cut]

Needs pyarrow; tiktoken, sentencepiece and tokenizers for the ids of the naughty strings, whose vocabularies are those of
tests/golden. Each run of the program is one of:

    right      it read the file, and gives what the other reader gives (or no other reader reads the file)
    wrong      it read the file and gives something else
    refused    it ended with an exit code of its own and a message in words
    panic      it panicked, was killed by a signal, or ended without a message
    hang       it did not end in time

Prints a table of counts and every file that is not right or refused; the exit code is 1 if there is any such file.
"""

import argparse
import base64
import bz2
import collections
import decimal
import gzip
import json
import lzma
import math
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet

TIMEOUT = 120
ROOT = pathlib.Path(__file__).resolve().parents[2]
BYTES = "[vocabulary.bytes]\nbyte = true\n\n"


class Run:
    """The program, run in a folder of its own."""

    def __init__(self, program):
        self.program = program
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="hostile-"))

    def seqio(self, toml, *args):
        """Outcome, standard output and standard error of a run with this task file."""
        (self.folder / "seqio.toml").write_text(toml)
        command = [self.program, *args]
        try:
            done = subprocess.run(command, cwd=self.folder, capture_output=True, timeout=TIMEOUT, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return "hang", b"", f"no end after {TIMEOUT} s"
        words = done.stderr.decode("utf-8", "replace")
        if "panicked" in words or not 0 <= done.returncode < 100:
            return "panic", done.stdout, f"exit code {done.returncode}: {words[-2000:]}"
        if done.returncode == 0:
            return "read", done.stdout, words
        return ("refused" if "error: " in words else "panic"), done.stdout, words

    def cache(self, toml, task="t", split="validation"):
        """Outcome of a build, what the cache holds (None unless it was read) and what was said."""
        shutil.rmtree(self.folder / "seqio-cache", ignore_errors=True)
        outcome, _, words = self.seqio(toml, "cache", "build", task, "--split", split)
        if outcome != "read":
            return outcome, None, words
        tables = []
        for shard in sorted((self.folder / "seqio-cache" / task).glob("*/*.arrow")):
            tables.append(pa.ipc.open_file(shard).read_all())
        return outcome, pa.concat_tables(tables), words

    def rejects(self, task="t", split="validation"):
        (path,) = (self.folder / "seqio-cache" / task).glob(f"*/{split}.rejects.jsonl")
        return [json.loads(line) for line in path.read_text().splitlines()]

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)


class Tally:
    """Counts of outcomes by suite."""

    def __init__(self):
        self.counts = collections.OrderedDict()
        self.bad = []

    def add(self, suite, name, outcome, words=""):
        self.counts.setdefault(suite, collections.Counter())[outcome] += 1
        if outcome not in ("right", "refused"):
            self.bad.append((suite, name, outcome, words.strip().replace("\n", " | ")[:600]))

    def print(self):
        print("| suite | files or rows | read right | refused in words | read wrong | panics | hangs |")
        print("|---|---|---|---|---|---|---|")
        for suite, count in self.counts.items():
            row = [sum(count.values())] + [count[key] for key in ("right", "refused", "wrong", "panic", "hang")]
            print(f"| {suite} | " + " | ".join(f"{number:,}" for number in row) + " |")
        for suite, name, outcome, words in self.bad:
            print(f"\n{outcome}: {suite}: {name}\n  {words}")
        return 1 if self.bad else 0


def task(source, columns="", on_bad_row="set_aside", steps='{ op = "tokenize" }', vocabulary="bytes", optional=False):
    """A task over one split whose only feature is `text`; other columns go into the cache as they are."""
    columns = f", columns = {columns}" if columns else ""
    feature = f'{{ vocabulary = "{vocabulary}"{", required = false" if optional else ""} }}'
    return (
        f'[task.t]\nsource = {{ {source}{columns}, on_bad_row = "{on_bad_row}" }}\n'
        f"features = {{ text = {feature} }}\nsteps = [{steps}]\n"
    )


# ---------------------------------------------------------------------------------------------------------------------
# JSONTestSuite: each file as the value of a row, alone and all together.


def json_files(folder):
    for path in sorted((folder / "JSONTestSuite" / "test_parsing").glob("*.json")):
        yield path.name, path.read_bytes()
    for path in sorted((folder / "JSONTestSuite" / "test_transform").glob("*.json")):
        yield "i_" + path.name, path.read_bytes()


def column_type(value):
    """The type of a column that holds `value`, if there is one."""
    kinds = {str: "string", bool: "bool", int: "int64", float: "float64"}
    if isinstance(value, list):
        inner = {type(item) for item in value}
        if len(inner) == 1 and (kind := kinds.get(inner.pop())) and all(fits(item) for item in value):
            return f"list<{kind}>"
        return None
    return kinds.get(type(value)) if fits(value) else None


def fits(value):
    if isinstance(value, str):
        return not any(0xD800 <= ord(c) < 0xE000 for c in value)
    return not isinstance(value, int) or -(2**63) <= value < 2**63


def json_suite(folder, run, tally):
    together, expected, typed = [], [], []
    for name, content in json_files(folder):
        # A row is a line: white space between values may as well be spaces.
        one_line = content.strip(b"\r\n").replace(b"\r", b" ").replace(b"\n", b" ") if name[0] != "n" else content
        row = b'{"text": "row", "v": ' + one_line + b"}"
        (run.folder / "a.jsonl").write_bytes(row + b"\n")
        outcome, table, words = run.cache(BYTES + task('jsonl = { validation = "a.jsonl" }', '{ text = "string" }'))
        rows = None if table is None else table.num_rows
        if outcome == "read":
            # A file of several lines is several rows, none of which is whole.
            outcome = "right" if rows == 1 else "refused"
            if (name[0] == "y" and rows != 1) or (name[0] == "n" and rows != 0):
                outcome, words = "wrong", f"{rows} rows of {row[:100]}"
        tally.add("JSONTestSuite, a row each", name, outcome, words)
        together.append(row)
        expected.append(rows == 1)
        try:
            value = json.loads(one_line)
        except (ValueError, RecursionError):
            continue
        if rows == 1 and (kind := column_type(value)):
            typed.append((name, kind, one_line, value))

    (run.folder / "a.jsonl").write_bytes(b"\n".join(together) + b"\n")
    outcome, table, words = run.cache(BYTES + task('jsonl = { validation = "a.jsonl" }', '{ text = "string" }'))
    if outcome == "read":
        lines = sum(row.count(b"\n") + 1 for row in together)
        counted = table.num_rows + len(run.rejects())
        outcome = "right" if table.num_rows == sum(expected) and counted == lines else "wrong"
        words = f"{table.num_rows} rows, {counted} with rejects, of {lines} lines; alone {sum(expected)}"
    tally.add("JSONTestSuite, one file of all rows", "all", outcome, words)

    for kind in sorted({kind for _, kind, _, _ in typed}):
        rows = [row for row in typed if row[1] == kind]
        lines = [b'{"text": "row", "v": ' + text + b"}\n" for _, _, text, _ in rows]
        (run.folder / "a.jsonl").write_bytes(b"".join(lines))
        columns = f'{{ text = "string", v = "{kind}" }}'
        outcome, table, words = run.cache(BYTES + task('jsonl = { validation = "a.jsonl" }', columns))
        found, lost = [], {}
        if outcome == "read":
            found = table.column("v").to_pylist()
            lost = {reject["line"]: reject["reason"] for reject in run.rejects()}
        left = iter(found)
        for line, (name, _, _, value) in enumerate(rows, 1):
            if outcome != "read":
                tally.add("JSONTestSuite, values", name, outcome, words)
            elif line in lost:
                # What no column of the type holds (1e400) may be refused, but only that.
                tally.add("JSONTestSuite, values", name, "wrong" if name[0] == "y" else "refused", lost[line])
            else:
                ours = next(left, "nothing")
                tally.add("JSONTestSuite, values", name, "right" if same(ours, value) else "wrong", f"{ours!r} for {value!r}")


def same(a, b):
    """Equality in which a number that is none equals itself."""
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, decimal.Decimal) and isinstance(b, decimal.Decimal):
        return a == b
    return type(a) is type(b) and a == b


# ---------------------------------------------------------------------------------------------------------------------
# The Big List of Naughty Strings, as text and as JSON lines, through every kind of vocabulary.


def vocabularies(run):
    """Name to (its table in a task file, a function from text to ids)."""
    import sentencepiece
    import tiktoken
    import tokenizers
    import zstandard

    golden = ROOT / "tests" / "golden" / "tokenizers"

    def unpack(name):
        target = run.folder / pathlib.Path(name).name
        packed = (golden / f"{name}.zst").read_bytes()
        target.write_bytes(zstandard.ZstdDecompressor().decompressobj().decompress(packed))
        return target

    cl100k = unpack("cl100k_base/cl100k_base.tiktoken")
    ranks = {base64.b64decode(a): int(b) for a, b in (line.split() for line in cl100k.read_bytes().splitlines())}
    pattern = r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
    openai = tiktoken.Encoding("cl100k", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    t5 = sentencepiece.SentencePieceProcessor(model_file=str(unpack("t5-spiece/spiece.model")))
    mistral = sentencepiece.SentencePieceProcessor(model_file=str(unpack("mistral-v1/tokenizer.model")))
    gpt2 = tokenizers.Tokenizer.from_file(str(unpack("gpt2/tokenizer.json")))
    return {
        "byte": ("byte = true", lambda text: [byte + 3 for byte in text.encode()]),
        "tiktoken": ('tiktoken = "cl100k_base.tiktoken"\npattern = "cl100k"', openai.encode_ordinary),
        "unigram": ('sentencepiece = "spiece.model"', t5.encode),
        "bpe": ('sentencepiece = "tokenizer.model"', mistral.encode),
        "tokenizer_json": (
            'tokenizer_json = "tokenizer.json"',
            lambda text: gpt2.encode(text, add_special_tokens=False).ids,
        ),
    }


def blns_suite(folder, run, tally):
    blns = folder / "big-list-of-naughty-strings"
    strings = json.loads((blns / "blns.json").read_text())
    (run.folder / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in strings))
    (run.folder / "b.jsonl").write_text(
        "".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in strings)
    )
    shutil.copy(blns / "blns.txt", run.folder / "a.txt")
    # Lines as the program counts them: a `\r` before the end belongs to it, other separators are text.
    lines = [line.removesuffix("\r") for line in (blns / "blns.txt").read_bytes().decode().split("\n")]
    lines = lines[:-1] if lines[-1] == "" else lines
    for name, (table, encode) in vocabularies(run).items():
        head = f"[vocabulary.v]\n{table}\n\n"
        for source, texts in [("jsonl", strings), ("text", lines)]:
            for file in ["a.jsonl", "b.jsonl"] if source == "jsonl" else ["a.txt"]:
                toml = head + task(f'{source} = {{ validation = "{file}" }}', vocabulary="v", on_bad_row="fail")
                if source == "text":
                    toml = toml.replace(', on_bad_row = "fail"', "")
                outcome, found, words = run.cache(toml)
                ids = found.column("text").to_pylist() if outcome == "read" else []
                shown, decoded = None, []
                if outcome == "read":
                    shown, out, words = run.seqio(toml, "inspect", "t", "--split", "validation", "-n", "100000", "--json")
                    if shown == "read":
                        decoded = [row["columns"]["text"]["text"] for row in json.loads(out)]
                for index, text in enumerate(texts):
                    if outcome != "read":
                        tally.add(f"naughty strings, {source}, {name}", text, outcome, words)
                        continue
                    right = len(ids) == len(texts) and ids[index] == encode(text)
                    if name in ("byte", "tiktoken", "tokenizer_json"):
                        right = right and decoded[index] == text
                    problem = f"{ids[index:index+1]} for {encode(text)}, decoded {decoded[index:index+1]}"
                    tally.add(f"naughty strings, {source}, {name}", repr(text), "right" if right else "wrong", problem)


# ---------------------------------------------------------------------------------------------------------------------
# Columnar files: what the cache holds of each column against what pyarrow reads.


def columnar(run, tally, suite, key, path, read):
    name = path.name
    target = run.folder / f"input.{key}"
    shutil.copy(path, target)
    toml = BYTES + task(f'{key} = {{ validation = "{target.name}" }}', on_bad_row="fail", optional=True)
    toml = toml.replace("features = { text", "features = { no_such_column")
    outcome, found, words = run.cache(toml)
    if outcome == "read":
        try:
            table = read(path)
            wanted = table.to_pydict()
            problem = difference(found, wanted, table.num_rows)
        except Exception as error:  # Another reader's refusal says nothing of ours.
            problem = None if not isinstance(error, MemoryError) else "memory"
        outcome = "wrong" if problem else "right"
        words = problem or ""
    target.unlink()
    tally.add(suite, name, outcome, words)
    return outcome, words


def difference(found, wanted, rows):
    if found.num_rows != rows:
        return f"{found.num_rows} rows for {rows}"
    for column in found.column_names:
        if column in ("_id", "_origin") or column not in wanted:
            continue
        ours = [plain(value) for value in found.column(column).to_pylist()]
        theirs = [plain(value) for value in wanted[column]]
        for row, (a, b) in enumerate(zip(ours, theirs)):
            if not same(a, b):
                return f"column {column}, row {row}: {a!r} for {b!r}"
    return None


def plain(value):
    """Values that two readers may give in two forms, in one."""
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def parquet_suite(folder, run, tally):
    read = pa.parquet.ParquetFile
    groups = [
        ("parquet-testing/data", folder / "parquet-testing" / "data"),
        ("parquet-testing/bad_data", folder / "parquet-testing" / "bad_data"),
        ("parquet-testing/shredded_variant", folder / "parquet-testing" / "shredded_variant"),
        ("arrow-testing/parquet", folder / "arrow-testing" / "data" / "parquet"),
    ]
    for suite, below in groups:
        for path in sorted(below.rglob("*")):
            if path.is_file() and path.suffix not in (".md", ".csv", ".json", ".bin", ".py", ".yaml", ".txt"):
                columnar(run, tally, suite, "parquet", path, lambda path: read(path).read())


def read_ipc(path):
    data = path.read_bytes()
    if data.startswith(b"ARROW1"):
        return pa.ipc.open_file(pa.BufferReader(data)).read_all()
    return pa.ipc.open_stream(pa.BufferReader(data)).read_all()


def arrow_suite(folder, run, tally):
    below = folder / "arrow-testing" / "data"
    for suite, part in [("arrow-testing/arrow-ipc-file", "arrow-ipc-file"), ("arrow-testing/arrow-ipc-stream", "arrow-ipc-stream")]:
        for path in sorted((below / part).rglob("*")):
            if path.is_file() and path.suffix not in (".md", ".gz", ".json"):
                columnar(run, tally, suite, "arrow", path, read_ipc)


def csv_suite(folder, run, tally):
    for path in sorted((folder / "arrow-testing" / "data" / "csv").rglob("*")):
        if not path.is_file() or path.suffix == ".md":
            continue
        for key in ("csv", "tsv"):
            delimiter = "\t" if key == "tsv" else ","
            target = run.folder / ("input.csv.gz" if path.suffix == ".gz" else "input.csv")
            shutil.copy(path, target)
            source = f'{key} = {{ validation = "{target.name}" }}'
            toml = BYTES + task(source, optional=True).replace("features = { text", "features = { no_such_column")
            outcome, found, words = run.cache(toml)
            if outcome == "read":
                problem = None
                try:
                    options = pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
                    wanted = pa.csv.read_csv(target, parse_options=options)
                    if wanted.num_rows != found.num_rows + len(run.rejects()):
                        problem = f"{found.num_rows} rows and {len(run.rejects())} rejects for {wanted.num_rows}"
                except Exception:
                    pass
                outcome = "wrong" if problem and "fuzz" not in path.name else "right"
                words = problem or ""
            target.unlink()
            tally.add("arrow-testing/csv", f"{path.name} as {key}", outcome, words)


# ---------------------------------------------------------------------------------------------------------------------
# Compressed files cut off at many places: what came before the cut is read, and the cut is told.


def cut_suite(folder, run, tally):
    import zstandard

    rng = random.Random(7)
    words = [rng.choice(["alpha", "beta", "gamma", "漢字", "é", "x" * 30]) for _ in range(40)]
    rows = [{"text": f"{number} " + " ".join(rng.choices(words, k=rng.randint(0, 60)))} for number in range(3000)]
    plain_bytes = "".join(json.dumps(row) + "\n" for row in rows).encode()
    packed = {
        "gz": gzip.compress(plain_bytes),
        "bz2": bz2.compress(plain_bytes, 1),
        "xz": lzma.compress(plain_bytes),
        "zst": zstandard.ZstdCompressor().compress(plain_bytes),
    }
    columns = '{ text = "string" }'
    for suffix, data in packed.items():
        cuts = sorted({0, 1, 2, 5, 11, len(data) - 1, len(data) - 4, len(data) - 9, len(data)} | {rng.randrange(len(data)) for _ in range(31)})
        for cut in cuts:
            file = run.folder / f"a.jsonl.{suffix}"
            file.write_bytes(data[:cut])
            toml = BYTES + task(f'jsonl = {{ validation = "{file.name}" }}', columns, steps='{ op = "tokenize", keep_pretokenized = true }')
            outcome, found, said = run.cache(toml)
            if outcome == "read":
                texts = found.column("text_pretokenized").to_pylist()
                rejects = run.rejects()
                prefix = texts == [row["text"] for row in rows[: len(texts)]]
                whole = cut == len(data) and len(texts) == len(rows) and not rejects
                # xz and gzip end in sums that say nothing of the text: it may be whole and the end of the stream damaged.
                broken = cut < len(data) and len(rejects) == 1 and "row" not in rejects[0]
                outcome = "right" if prefix and (whole or broken) else "wrong"
                said = f"{len(texts)} rows, rejects {rejects}"
            tally.add(f"JSON lines cut off, .{suffix}", f"{cut} of {len(data)} bytes", outcome, said)
            file.unlink()


SUITES = {
    "json": json_suite,
    "blns": blns_suite,
    "csv": csv_suite,
    "arrow": arrow_suite,
    "parquet": parquet_suite,
    "cut": cut_suite,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, help="the folder of the repositories")
    parser.add_argument("--program", default=str(ROOT / "target" / "release" / "seqio"))
    parser.add_argument("--suite", nargs="+", choices=SUITES, default=list(SUITES))
    args = parser.parse_args()
    run, tally = Run(str(pathlib.Path(args.program).resolve())), Tally()
    try:
        for suite in args.suite:
            SUITES[suite](args.folder.resolve(), run, tally)
    finally:
        run.close()
    sys.exit(tally.print())


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes tests/golden/csv/: what Python's `csv` and pyarrow read from CSV texts made here.

    make_csv_golden.py FOLDER

records.jsonl   {dialect, text, rows: [{line, fields}], open}: by `csv.reader`; `line` is the record's first line from 1,
                blank lines are left out, `open`: the last record's quote is never closed (it is left out too).
values.jsonl    {type, text, value}: the value that pyarrow gives a field of that type.

Texts have no `\\r` but in `\\r\\n`, since `csv` splits lines there.
"""

import csv
import io
import json
import random
import sys

import pyarrow as pa
import pyarrow.csv

DIALECTS = [
    {},
    {"delimiter": ";", "quote": "'"},
    {"delimiter": "|", "quote": ""},
    {"delimiter": " "},
    {"escape": "\\", "double_quote": False},
]
WORDS = ["", "a", "text", "with, comma", "with; other", "it's", 'say "hi"', "two\nlines", "crlf\r\nin quotes", "'", '"', '""',
         " space ", "été 光 🙂", "tab\there", "back\\slash", "x|y", "\n", "0", "NA"]
TOKENS = ['"', '""', ",", ",", "\n", "\r\n", "a", "b c", "'", "é", ";"]


def reader(text, dialect):
    options = {"delimiter": dialect.get("delimiter", ","), "doublequote": dialect.get("double_quote", True)}
    quote = dialect.get("quote", '"')
    if quote:
        options["quotechar"] = quote
    else:
        options["quoting"] = csv.QUOTE_NONE
    if "escape" in dialect:
        options["escapechar"] = dialect["escape"]
    return csv.reader(io.StringIO(text, newline=""), **options)


def rows(text, dialect):
    read = reader(text, dialect)
    before = 0
    for fields in read:
        if fields:
            yield {"line": before + 1, "fields": fields}
        before = read.line_num


def case(text, dialect):
    found = list(rows(text, dialect))
    end = text if text.endswith("\n") or not text else text + "\n"
    last = list(reader(end + "the end\n", dialect))[-1]
    is_open = last != (["the", "end"] if dialect.get("delimiter") == " " else ["the end"])
    return {"dialect": dialect, "text": text, "rows": found[:-1] if is_open else found, "open": is_open}


def written(rng, dialect):
    out = io.StringIO()
    quote = dialect.get("quote", '"')
    options = {"delimiter": dialect.get("delimiter", ","), "lineterminator": rng.choice(["\n", "\r\n"])}
    words = WORDS
    if quote:
        options["quotechar"] = quote
        options["quoting"] = rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
    else:
        options["quoting"] = csv.QUOTE_NONE
        options["quotechar"] = None
        words = [word for word in WORDS if not any(char in word for char in "\r\n|")]
    if "escape" in dialect:
        # Outside of quotes `csv` takes an escape for one, and we take it for text.
        options |= {"escapechar": dialect["escape"], "doublequote": False, "quoting": csv.QUOTE_ALL}
    writer = csv.writer(out, **options)
    width = rng.randint(1, 5)
    for _ in range(rng.randint(0, 8)):
        row = [rng.choice(words) for _ in range(width)]
        if not quote and not any(row):
            row[0] = "x"
        writer.writerow(row)
        if rng.random() < 0.1:
            out.write("\n")
    text = out.getvalue()
    if text.endswith(options["lineterminator"]) and rng.random() < 0.2:
        text = text[: -len(options["lineterminator"])]
    return text


def values():
    fields = {
        "int32": ["0", "-1", "2147483647", "-2147483648", "007"],
        "int64": ["9223372036854775807", "-9223372036854775808", "12"],
        "float32": ["0.1", "1e-45", "3.4028234e38", "16777217", "-0.0", "1.00000017881393432617187499", "7"],
        "float64": ["0.1", "1e308", "5e-324", "-0.0", "123456789012345678", "1E5", "2.5e-3",
                    "0.30000000000000004", "9007199254740993"],
        "bool": ["true", "false", "True", "FALSE", "1", "0"],
    }
    types = {"int32": pa.int32(), "int64": pa.int64(), "float32": pa.float32(), "float64": pa.float64(), "bool": pa.bool_()}
    for name, texts in fields.items():
        for text in texts:
            table = pa.csv.read_csv(
                io.BytesIO(f"x\n{text}\n".encode()),
                convert_options=pa.csv.ConvertOptions(column_types={"x": types[name]}),
            )
            yield {"type": name, "text": text, "value": table["x"][0].as_py()}


def main():
    folder = sys.argv[1]
    rng = random.Random(20)
    cases = []
    for number in range(250):
        dialect = DIALECTS[number % len(DIALECTS)]
        cases.append(case(written(rng, dialect), dialect))
    for number in range(250):
        dialect = DIALECTS[number % 3]
        cases.append(case("".join(rng.choice(TOKENS) for _ in range(rng.randint(0, 25))), dialect))
    with open(f"{folder}/records.jsonl", "w") as out:
        out.writelines(json.dumps(case, ensure_ascii=False) + "\n" for case in cases)
    with open(f"{folder}/values.jsonl", "w") as out:
        out.writelines(json.dumps(value) + "\n" for value in values())


if __name__ == "__main__":
    main()

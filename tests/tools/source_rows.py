#!/usr/bin/env python3
"""Prints the examples that text, JSONL, CSV or TSV files hold: a line `file<TAB>row<TAB>offset` for each, in order.

    source_rows.py text|jsonl|csv|tsv PREFIX FILE...

FILE may end in .gz, .bz2 or .xz. `file` is its name below the folder PREFIX, `row` counts lines from 0 (blank and bad
ones too; of a CSV record its first) and `offset` is the line's first byte in the decompressed file. Bad rows give no
example: text that is not UTF-8, JSON that is not an object, or lacks a field that `--field NAME` asks for, CSV with more
or fewer fields than the header. Blank lines of JSONL and CSV give none either.

It shares nothing with the Rust sources, so that end-to-end tests can compare the two.
"""

import argparse
import bz2
import csv
import gzip
import io
import json
import lzma
import os
import sys


def is_example(kind, line, fields):
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    if kind == "text":
        return True
    if not text.strip(" \t\r"):
        return False
    try:
        value = json.loads(text, parse_constant=refuse)
    except ValueError:
        return False
    return isinstance(value, dict) and all(field in value for field in fields)


def refuse(constant):
    raise ValueError(f"{constant} is no JSON")


OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


def table_rows(kind, path):
    """Rows of CSV and TSV with a header: the line of each, from 0, and its offset."""
    opened = OPENERS.get(os.path.splitext(path)[1], open)
    with opened(path, "rb") as file:
        content = file.read()
    offsets = [0]
    for line in content.split(b"\n"):
        offsets.append(offsets[-1] + len(line) + 1)
    options = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if kind == "tsv" else {}
    reader = csv.reader(io.StringIO(content.decode(), newline=""), **options)
    before, header = 0, None
    for fields in reader:
        if header and len(fields) == len(header):
            yield before, offsets[before]
        header = header or fields
        before = reader.line_num


def rows(kind, path, fields):
    if kind in ("csv", "tsv"):
        yield from table_rows(kind, path)
        return
    opened = OPENERS.get(os.path.splitext(path)[1], open)
    with opened(path, "rb") as file:
        offset = 0
        for row, line in enumerate(file):
            content = line[:-2] if line.endswith(b"\r\n") else line.rstrip(b"\n")
            if row == 0 and content.startswith(b"\xef\xbb\xbf"):
                content = content[3:]
            if is_example(kind, content, fields):
                yield row, offset
            offset += len(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=["text", "jsonl", "csv", "tsv"])
    parser.add_argument("prefix")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--field", action="append", default=[], help="a field that every example has")
    arguments = parser.parse_args()
    named = [(os.path.relpath(path, arguments.prefix), path) for path in arguments.files]
    for name, path in sorted(named):
        for row, offset in rows(arguments.kind, path, arguments.field):
            sys.stdout.write(f"{name}\t{row}\t{offset}\n")


if __name__ == "__main__":
    main()

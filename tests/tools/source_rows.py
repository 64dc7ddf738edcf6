#!/usr/bin/env python3
"""Prints the examples that text or JSONL files hold: a line `file<TAB>row<TAB>offset` for each, in order.

    source_rows.py text|jsonl PREFIX FILE...

FILE may end in .gz. `file` is its name below the folder PREFIX, `row` counts lines from 0 (blank and bad ones too) and
`offset` is the line's first byte in the decompressed file. Bad rows give no example: text that is not UTF-8, JSON that
is not an object, or lacks a field that `--field NAME` asks for. Blank lines of JSONL give none either.

It shares nothing with the Rust sources, so that end-to-end tests can compare the two.
"""

import argparse
import gzip
import json
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


def rows(kind, path, fields):
    opened = gzip.open if path.endswith(".gz") else open
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
    parser.add_argument("kind", choices=["text", "jsonl"])
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

#!/usr/bin/env python3
"""Writes tests/golden/arrow/: Arrow IPC files and streams by pyarrow, and in expected.jsonl what they hold.

    make_arrow_golden.py FOLDER

expected.jsonl has a line for each file: {file, batches: [rows], rows: [{column: value}]}.
"""

import json
import sys

import pyarrow as pa

N = 24


def columns():
    texts = [None if i % 7 == 3 else f"text {i} " + "é光🙂" * (i % 5) for i in range(N)]
    words = [["red", "green", None, "a longer word than fits into a view"][i % 4] for i in range(N)]
    lists = [None if i % 5 == 4 else list(range(i % 4)) for i in range(N)]
    return {
        "utf8": pa.array(texts, pa.string()),
        "large_utf8": pa.array(texts, pa.large_string()),
        "utf8_view": pa.array(texts, pa.string_view()),
        "dictionary": pa.array(words).dictionary_encode(),
        "int8": pa.array([i - 12 for i in range(N)], pa.int8()),
        "uint16": pa.array([i * 2000 for i in range(N)], pa.uint16()),
        "int64": pa.array([None if i == 5 else i << 40 for i in range(N)], pa.int64()),
        "float32": pa.array([i / 8 for i in range(N)], pa.float32()),
        "float64": pa.array([i / 3 for i in range(N)], pa.float64()),
        "bool": pa.array([None if i == 9 else i % 3 == 0 for i in range(N)], pa.bool_()),
        "list": pa.array(lists, pa.list_(pa.int32())),
        "large_list": pa.array(lists, pa.large_list(pa.int64())),
        "list_view": pa.array(lists, pa.list_view(pa.int32())),
        "fixed_list": pa.array([[i, i + 1] for i in range(N)], pa.list_(pa.int16(), 2)),
        "list_of_words": pa.array([[word or "none"] * (i % 3) for i, word in enumerate(words)], pa.list_(pa.string())),
        # Not read, and stepped over:
        "nested": pa.array([[[i], []] for i in range(N)], pa.list_(pa.list_(pa.int32()))),
        "struct": pa.array([{"a": i, "b": str(i)} for i in range(N)]),
        "map": pa.array([[("k", i)] for i in range(N)], pa.map_(pa.string(), pa.int32())),
        "time": pa.array([i * 1000 for i in range(N)], pa.timestamp("ms")),
        "nothing": pa.nulls(N),
        "bytes": pa.array([bytes([i, 255]) for i in range(N)], pa.binary()),
        "decimal": pa.array([i for i in range(N)], pa.decimal128(10, 2)),
    }


UNREAD = {"nested", "struct", "map", "time", "nothing", "bytes", "decimal"}


def write(folder, name, table, batch_rows, compression=None, stream=False):
    options = pa.ipc.IpcWriteOptions(compression=compression, emit_dictionary_deltas=True)
    with pa.OSFile(f"{folder}/{name}", "wb") as sink:
        opened = (pa.ipc.new_stream if stream else pa.ipc.new_file)(sink, table.schema, options=options)
        with opened as writer:
            writer.write_table(table, max_chunksize=batch_rows)
    reader = pa.ipc.open_stream if stream else pa.ipc.open_file
    with pa.OSFile(f"{folder}/{name}", "rb") as file:
        opened = reader(file)
        batches = list(opened) if stream else [opened.get_batch(i) for i in range(opened.num_record_batches)]
    rows = [row for batch in batches for row in batch.to_pylist()]
    rows = [{key: value for key, value in row.items() if key not in UNREAD} for row in rows]
    return {"file": name, "batches": [batch.num_rows for batch in batches], "rows": rows}


def main():
    folder = sys.argv[1]
    table = pa.table(columns())
    small = table.select(["utf8", "dictionary", "list"])
    growing = pa.concat_tables([
        pa.table({"word": pa.array(["a", "b", "a"]).dictionary_encode()}),
        pa.table({"word": pa.array(["a", "b", "c", "c"]).dictionary_encode()}),
        pa.table({"word": pa.array([None, "a"]).dictionary_encode()}),
    ])
    deltas = pa.concat_tables([
        pa.table({"word": pa.DictionaryArray.from_arrays([0, 1, 0], ["a", "b"])}),
        pa.table({"word": pa.DictionaryArray.from_arrays([0, 2, 2], ["a", "b", "c"])}),
    ])
    expected = [
        write(folder, "all.arrow", table, 10),
        write(folder, "all.arrows", table, 10, stream=True),
        write(folder, "zstd.arrow", table, 24, "zstd"),
        write(folder, "lz4.arrow", table, 7, "lz4"),
        write(folder, "lz4.arrows", small, 5, "lz4", stream=True),
        write(folder, "growing.arrows", growing, 10, stream=True),
        write(folder, "deltas.arrow", deltas, 10),
        write(folder, "empty.arrow", small.slice(0, 0), 5),
        write(folder, "empty.arrows", small.slice(0, 0), 5, stream=True),
    ]
    with open(f"{folder}/expected.jsonl", "w") as out:
        out.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in expected)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Reads and checks a cache with pyarrow alone, as cache/FORMAT.md says.

    pip install pyarrow            (blake3 is optional: with it checksums are checked too)
    python3 read_cache.py CACHE_FOLDER SPLIT [-n N]

Prints one JSON line an example, in storage order: id, origins with file names, and all columns. Without -n all of them.
"""

import argparse
import json
import pathlib
import struct
import sys

import pyarrow as pa

try:
    from blake3 import blake3
except ImportError:
    blake3 = None


def check(what, data, expected):
    if blake3 is not None and blake3(data).digest()[: len(expected)] != expected:
        sys.exit(f"{what}: checksum is wrong")


def read_manifest(folder):
    data = (folder / "manifest.json").read_bytes()
    at = data.rindex(b'  "checksum": "')
    manifest = json.loads(data)
    check("manifest.json", data[:at], bytes.fromhex(manifest["checksum"]))
    if manifest["format"] != "seqio-cache" or manifest["format_version"] not in (1, 2):
        sys.exit("another format, or another version of it")
    return manifest


def read_sums(folder, shard):
    data = (folder / (shard["name"] + ".sums")).read_bytes()
    check(shard["name"] + ".sums", data, bytes.fromhex(shard["sums_blake3"]))
    batches = [struct.unpack_from("<QII16s", data, 32 * number) for number in range(shard["batches"])]
    head, tail, lengths = struct.unpack_from("<16s16s16s", data, 32 * shard["batches"])
    return batches, head, tail, lengths


def read_shard(folder, manifest, shard):
    """Yields the shard's record batches."""
    name = shard["name"]
    batches, head, tail, lengths_sum = read_sums(folder, shard)
    mapped = pa.memory_map(str(folder / (name + ".arrow")))
    data = memoryview(mapped.read_buffer())
    first = batches[0][0] if batches else len(data)
    last = batches[-1][0] + batches[-1][1] if batches else len(data)
    check(f"{name}.arrow, head", data[:first], head)
    check(f"{name}.arrow, footer", data[last:], tail)

    lengths = (folder / (name + ".lengths")).read_bytes()
    check(f"{name}.lengths", lengths, lengths_sum)
    examples = shard["examples"]
    reader = pa.ipc.open_file(mapped)
    assert reader.num_record_batches == shard["batches"]
    row = 0
    for number, (offset, length, rows, checksum) in enumerate(batches):
        check(f"{name}.arrow, batch {number}", data[offset : offset + length], checksum)
        batch = reader.get_batch(number)
        assert batch.num_rows == rows
        for index, feature in enumerate(sorted(manifest["features"])):
            start = 4 * (examples * index + row)
            expected = list(struct.unpack_from(f"<{rows}I", lengths, start))
            assert [len(ids) for ids in batch[feature]] == expected, "lengths file and column differ"
        row += rows
        yield batch
    assert row == examples


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("folder", type=pathlib.Path)
    arguments.add_argument("split")
    arguments.add_argument("-n", type=int, default=None, help="number of examples")
    arguments = arguments.parse_args()
    manifest = read_manifest(arguments.folder)
    split = manifest["splits"][arguments.split]
    left = arguments.n
    for shard in split["shards"]:
        for batch in read_shard(arguments.folder, manifest, shard):
            for example in batch.to_pylist():
                if left == 0:
                    return
                left = None if left is None else left - 1
                example["_id"] = example["_id"].hex()
                for origin in example["_origin"]:
                    origin["file"] = split["files"][origin["file"]]["name"]
                print(json.dumps(example, ensure_ascii=False, default=str))


if __name__ == "__main__":
    main()

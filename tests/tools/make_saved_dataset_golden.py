#!/usr/bin/env python3
"""Saves small data sets with Hugging Face's `datasets`: `two` has two splits, `flat` is one in two files.

    make_saved_dataset_golden.py FOLDER
"""

import pathlib
import sys

import datasets

folder = pathlib.Path(sys.argv[1])
features = datasets.Features(
    {
        "text": datasets.Value("string"),
        "label": datasets.ClassLabel(names=["bad", "good"]),
        "ids": datasets.Sequence(datasets.Value("int32")),
    }
)


def rows(numbers):
    columns = {"text": [], "label": [], "ids": []}
    for number in numbers:
        columns["text"].append(f"row {number} é")
        columns["label"].append(number % 2)
        columns["ids"].append(list(range(number % 4)))
    return datasets.Dataset.from_dict(columns, features=features)


datasets.disable_progress_bars()
# Rows that are picked are written as they are picked.
rows(range(40)).select(range(39, -1, -2)).save_to_disk(folder / "flat", num_shards=2)
two = datasets.DatasetDict({"train": rows(range(12)), "test": rows(range(12, 15))})
two.save_to_disk(folder / "two")

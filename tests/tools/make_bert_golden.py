"""Writes tests/golden/seqio/vocab_bert.jsonl.zst and bert_characters.jsonl.zst.

Runs tensorflow_text's `BertTokenizer`, which SeqIO's `BertWordPieceVocabulary` wraps, on the texts of
tests/golden/tokenizers/vectors/bert-uncased.jsonl with the vocabulary of tests/golden/tokenizers/bert-uncased, and its
`BasicTokenizer` on every assigned character between two letters.

pip install tensorflow-cpu==2.21.0 tensorflow-text==2.21.1 zstandard
python tests/tools/make_bert_golden.py       (Python 3.11: its Unicode 14 decides which characters are assigned)
"""

import json
import os
import pathlib
import tempfile
import unicodedata

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
import tensorflow_text as tf_text
import zstandard
from tensorflow_text.python.ops.bert_tokenizer import BasicTokenizer

GOLDEN = pathlib.Path(__file__).parent.parent / "golden"

SETTINGS = [
    {},
    {"lower_case": True},
    {"lower_case": True, "split_unknown_characters": True},
    {"keep_whitespace": True, "max_bytes_per_word": 10},
    {"normalization_form": "NFKC", "max_chars_per_token": 3},
    {"normalization_form": "NFD", "preserve_unused_token": True},
    {"suffix_indicator": "", "unknown_token": "unknown", "lower_case": True, "preserve_unused_token": True},
]

MORE_TEXTS = [
    "[unused1] [unused 1] [unused12] a[unused7]b [unused] [unusedx] [UNK] [unused99999] [Unused3]",
    "\u1f80 \u1f88 \u0130 \ufb01n \u00df \u1e9e \u2126 \u212b \u0149 \u03c2 \u0391\u0345\u0301 \u13a0\uab70",
    "a\u00a0b a\u3000b a\u2028b a\u200bb a\u00adb a\u0085b a\x0bb \r\n\t x",
    "e\u0301\u0327 \u0344 \ud55c\uae00 \u1112\u1161\u11ab \u4e2d\u6587\u5b57 \uf900 \U0002f800",
    "x" * 100 + " " + "x" * 101 + " " + "\u00e9" * 50 + " " + "\u00e9" * 51,
    "a\u1b05\u1b44\u302e\u0301 \U0001d158\U0001d165\U0001d16d\U0001d17b z",
    "\u0000", "  ", "",
]


def write(name, rows):
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (GOLDEN / "seqio" / name).write_bytes(zstandard.compress(text.encode(), 19))


def texts():
    packed = (GOLDEN / "tokenizers/bert-uncased/tokenizer.json.zst").read_bytes()
    pieces = json.loads(zstandard.ZstdDecompressor().decompressobj().decompress(packed))["model"]["vocab"]
    vocabulary = pathlib.Path(tempfile.mkdtemp()) / "vocab.txt"
    vocabulary.write_text("".join(piece + "\n" for piece in sorted(pieces, key=pieces.get)))
    lines = (GOLDEN / "tokenizers/vectors/bert-uncased.jsonl").read_text().splitlines()
    everything = [json.loads(line)["text"] for line in lines] + MORE_TEXTS
    for settings in SETTINGS:
        tokenizer = tf_text.BertTokenizer(str(vocabulary), **settings)
        for text in everything:
            ids = tokenizer.tokenize(text).flat_values.numpy().tolist()
            yield {"settings": settings, "text": text, "ids": ids}


def characters():
    """Ranges of characters that all act alike, and one row for each character that acts in a way of its own."""
    lower, plain = BasicTokenizer(lower_case=True), BasicTokenizer()
    points = [c for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]
    run = None
    for start in range(0, len(points), 4096):
        some = points[start : start + 4096]
        between = tf.constant([f"a{chr(c)}b".encode() for c in some])
        words = [tokenizer.tokenize(between).to_list() for tokenizer in (lower, plain)]
        for c, *both in zip(some, *words):
            lowered, as_is = ([word.decode() for word in words] for words in both)
            alike = [[f"a{chr(c)}b"], ["a", chr(c), "b"], ["a", "b"]]
            acts = ["within", "alone", "apart"][alike.index(as_is)] if lowered == as_is else None
            if run and acts and (run["to"], run["acts"]) == (c - 1, acts):
                run["to"] = c
                continue
            if run:
                yield run
            run = {"from": c, "to": c, "acts": acts} if acts else None
            if not acts:
                yield {"at": c, "lower": lowered, "plain": as_is}
    if run:
        yield run


write("bert_characters.jsonl.zst", characters())
write("vocab_bert.jsonl.zst", texts())

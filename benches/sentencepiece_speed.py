"""The C++ library's speed on the text of `benches/vocabulary.rs`: MB of text a CPU second, one thread.

    pip install sentencepiece==0.2.3
    zstd -d tests/golden/tokenizers/t5-spiece/spiece.model.zst -o /tmp/t5.model
    python benches/sentencepiece_speed.py /tmp/t5.model
"""

import json
import sys
import time

import sentencepiece

processor = sentencepiece.SentencePieceProcessor(model_file=sys.argv[1])
for name, path in [
    ("documents", "examples/quickstart/data/docs-train.jsonl"),
    ("many languages", "tests/golden/tokenizers/vectors/t5-spiece.jsonl"),
]:
    with open(path, encoding="utf-8") as rows:
        texts = [json.loads(row)["text"] for row in rows]
    size = sum(len(text.encode()) for text in texts)
    rounds, best = 5, 0.0
    for _ in range(rounds):
        start = time.process_time()
        for text in texts:
            processor.encode(text)
        best = max(best, size / 1e6 / (time.process_time() - start))
    print(f"{name}: {best:.1f} MB/s of CPU time, best of {rounds}")

"""Kills `seqio train` at random moments, goes on each time, and compares every loss with those of a run never killed.

    python tests/tools/kill_training.py target/release/seqio examples/train/decoder.toml --kills 20 [--set KEY=VALUE]…

Checkpoints are written every step, so that many kills fall into their writing; how many did is told.
"""

import argparse
import json
import random
import shutil
import subprocess
import tempfile
import time
from pathlib import Path


def losses(folder):
    found = {}
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        if "train/loss" in record:
            # The shortest text of a float gives it back exactly.
            found[record["step"]] = (record["train/loss"], record["train/gradient_norm"])
    return found


def aside(folder):
    """Whether a checkpoint is there that has not got its name yet."""
    return any((folder / "checkpoints").glob("*.tmp-*"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("run_file")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", action="append", default=[])
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    work = Path(tempfile.mkdtemp(prefix="seqio-kill-training-"))

    def start(folder, threads):
        command = [arguments.program, "train", arguments.run_file, "--cache-dir", str(work / "cache"), "--quiet"]
        command += ["--threads", str(threads)]
        settings = [f"train.steps={arguments.steps}", "train.log_every=1", "checkpoint.every=1", "checkpoint.keep=2",
                    "eval.every=1000000", f"run.dir={folder}", *arguments.set]
        for setting in settings:
            command += ["--set", setting]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    began = time.monotonic()
    whole = start(work / "whole", 2)
    _, errors = whole.communicate()
    assert whole.returncode == 0, errors
    duration = time.monotonic() - began
    expected = losses(work / "whole")
    assert len(expected) == arguments.steps, sorted(expected)

    kills, in_writing, runs = 0, 0, 0
    folder = work / "killed"
    while True:
        runs += 1
        process = start(folder, 1 + runs % 2)
        if kills < arguments.kills:
            time.sleep(random.uniform(0.05, 1.2) * duration / 8)
            # Every other kill waits for a checkpoint that is being written.
            while kills % 2 == 1 and process.poll() is None and not aside(folder):
                pass
            if process.poll() is None:
                process.kill()
                process.wait()
                kills += 1
                in_writing += aside(folder)
                continue
        _, errors = process.communicate()
        assert process.returncode == 0, errors
        if kills >= arguments.kills:
            break
        # It came to its end before enough kills: begin again, beside it.
        compare(expected, losses(folder))
        shutil.rmtree(folder)
    compare(expected, losses(folder))
    print(f"{kills} kills, {in_writing} of them while a checkpoint was written: all {len(expected)} losses equal to the bit")
    shutil.rmtree(work)


def compare(expected, found):
    different = [step for step in expected if found.get(step) != expected[step]]
    assert not different and len(found) == len(expected), f"steps {different[:5]} differ: {[(expected[s], found.get(s)) for s in different[:2]]}"


main()

"""Kills `seqio cache build` with SIGKILL at random moments, lets it go on, and compares bytes and CPU seconds.

    python3 tests/tools/kill_and_resume.py target/release/seqio TASKFILE TASK [KILLS] [extra options of cache build]

Plain Python, standard library only. Prints a line a kill; exits with 1 if a byte differs from an uninterrupted build.
"""

import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time


def build(seqio, task_file, task, root, extra, kill_after=None):
    """Runs a build; returns (wall seconds, CPU seconds, exit status, standard error)."""
    command = [seqio, "-f", task_file, "cache", "build", task, "--cache-dir", root, *extra]
    with tempfile.TemporaryFile() as log:
        start = time.monotonic()
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        if kill_after is not None:
            time.sleep(kill_after)
            os.kill(process.pid, signal.SIGKILL)  # not send_signal, which reaps a child that has ended
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        log.seek(0)
        text = log.read().decode(errors="replace")
    return time.monotonic() - start, usage.ru_utime + usage.ru_stime, process.returncode, text


def digest(root):
    """One hash over every file but the build logs and the lock."""
    total = hashlib.sha256()
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            if name == "build.log.json":
                continue
            path = os.path.join(folder, name)
            total.update(os.path.relpath(path, root).encode())
            with open(path, "rb") as file:
                while block := file.read(1 << 20):
                    total.update(block)
    return total.hexdigest()


def main():
    seqio, task_file, task = sys.argv[1:4]
    kills = int(sys.argv[4]) if len(sys.argv) > 4 else 10
    extra = sys.argv[5:]
    folder = tempfile.mkdtemp(dir=".")
    root = os.path.join(folder, "cache")
    wall, cpu, status, text = build(seqio, task_file, task, root, extra)
    assert status == 0, text
    expected = digest(root)
    print(f"uninterrupted: {wall:.1f} s wall, {cpu:.1f} CPU s, sha256 {expected[:16]}")
    generator = random.Random(os.environ.get("SEED", "1"))
    failures = 0
    for number in range(kills):
        shutil.rmtree(root)
        at = wall * (number + generator.random()) / kills
        _, killed_cpu, status, _ = build(seqio, task_file, task, root, extra, kill_after=at)
        _, rest_cpu, rest_status, text = build(seqio, task_file, task, root, extra)
        assert rest_status == 0, text
        same = digest(root) == expected
        failures += not same
        reused = " ".join(line for line in text.splitlines() if "reus" in line)
        print(
            f"killed at {at:5.1f} s ({100 * at / wall:3.0f} %): {killed_cpu:.1f} + {rest_cpu:.1f} CPU s = "
            f"{(killed_cpu + rest_cpu) / cpu:.2f} x, {'same bytes' if same else 'OTHER BYTES'}; {reused}",
            flush=True,
        )
    shutil.rmtree(folder)
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()

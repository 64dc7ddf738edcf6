"""Runs the commands of a guide, word for word and in order, in a new folder, and compares what they print.

    python3 tests/tools/run_guide.py docs/guide.md --path target/debug            all but what needs PyTorch
    python3 tests/tools/run_guide.py docs/guide.md --path target/debug --with torch

A block ```sh is run by bash, in the folder that the one before ended in. A block ```text right after it is what it
prints: `…` in it stands for anything, on a line of its own for any lines. A block after `<!-- needs: NAME -->` is run
only with `--with NAME`. The python3 of the commands is the one that runs this script.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile


def blocks(text):
    """(language, needs, line, content) of each fenced block."""
    needs = None
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        comment = re.fullmatch(r"<!-- needs: (\w+) -->", line)
        if comment:
            needs = comment.group(1)
        elif line.startswith("```"):
            end = lines.index("```", at + 1)
            yield line[3:], needs, at + 1, "\n".join(lines[at + 1 : end])
            at, needs = end, None
        elif line.strip():
            needs = None
        at += 1


def fits(shown, printed):
    """Whether `printed` is what is shown, `…` standing for anything."""
    pattern = ""
    for line in shown.split("\n"):
        if line.strip() == "…":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*".join(re.escape(part) for part in line.split("…")) + "\n"
    lines = [line.rstrip() for line in printed.rstrip().split("\n")]
    return re.fullmatch(pattern, "\n".join(lines) + "\n") is not None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("guide")
    parser.add_argument("--path", help="folder of the program `seqio`")
    parser.add_argument("--with", dest="have", action="append", default=[], help="what is there, as `torch`")
    args = parser.parse_args()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SEQIO_", "CLICOLOR"))}
    first = [os.path.abspath(args.path)] if args.path else []
    environment["PATH"] = os.pathsep.join(first + [os.path.dirname(sys.executable), environment["PATH"]])
    environment["NO_COLOR"] = "1"

    with open(args.guide, encoding="utf-8") as file:
        text = file.read()
    ran, skipped, failed = 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        here, printed = folder, None
        for language, needs, line, content in blocks(text):
            if language == "sh":
                if needs and needs not in args.have:
                    printed, skipped = None, skipped + 1
                    continue
                where = os.path.join(folder, ".where")
                script = f"set -e\n{content}\npwd > {where}\n"
                done = subprocess.run(
                    ["bash", "-c", script], cwd=here, env=environment, stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8",
                )
                ran += 1
                printed = done.stdout
                if done.returncode != 0:
                    sys.exit(f"{args.guide}:{line}: ended with {done.returncode}\n{content}\n---\n{printed}")
                with open(where, encoding="utf-8") as file:
                    here = file.read().rstrip("\n")
            elif language == "text" and printed is not None:
                if not fits(content, printed):
                    failed += 1
                    print(f"{args.guide}:{line}: shown\n{content}\n--- printed\n{printed}", file=sys.stderr)
                printed = None
    print(f"{ran} blocks run, {skipped} left out, {failed} print something else")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

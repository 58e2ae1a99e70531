"""`make subjects`: commit subjects are one line of at most 72 characters, so that `git log --oneline` can be read."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
LONGEST = 72
MAIN = "origin/main"
"""A repository that was not cloned has none: its subjects are checked where the commits come from."""


def problems(message: str) -> list[str]:
    """What is wrong with a commit's message. Merges and reverts name what others wrote."""
    subject, _, rest = message.partition("\n")
    if subject.startswith(("Merge ", "Revert ")):
        return []
    found = []
    if len(subject) > LONGEST:
        found.append(f"has {len(subject)} characters, and {LONGEST} are allowed: the reason belongs into the body")
    if not re.match(r"[A-Z0-9`]", subject):
        found.append("begins with a small letter")
    if subject.endswith("."):
        found.append("ends with a full stop")
    if rest and not rest.startswith("\n"):
        found.append("has no empty line after it")
    return found


def messages(since: str) -> list[tuple[str, str]]:
    """Commit and message of what is not in `since`."""
    argv = ("git", "log", "--format=%h%x00%B%x00%x00", f"{since}..HEAD")
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    entries = (entry.strip("\n").partition("\0") for entry in done.stdout.split("\0\0"))
    return [(commit, message.strip("\n")) for commit, _, message in entries if commit]


def _exists(commit: str) -> bool:
    argv = ("git", "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
    return subprocess.run(argv, cwd=ROOT, capture_output=True, check=False, timeout=60).returncode == 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what is wrong. Returns 1 if anything is."""
    about = (__doc__ or "").partition(": ")[2].partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m bench.subjects", description=about)
    parser.add_argument("--since", default=MAIN, metavar="COMMIT")
    since = parser.parse_args(arguments).since
    if not _exists(since):
        print(f"make subjects: there is no {since} here to count from: name another commit by SINCE=")
        return int(since != MAIN)
    found = [
        f"{commit} {message.partition(chr(10))[0]!r} {problem}"
        for commit, message in messages(since)
        for problem in problems(message)
    ]
    print("\n".join(found) or f"all subjects since {since} are fine")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())

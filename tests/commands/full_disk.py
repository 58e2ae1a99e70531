"""Runs command lines in a mount namespace of their own, with a directory that is a full file system. Called as a
program: `full_disk.py DIRECTORY BYTES LINES`. The files of an empty state are written first (`prepare`), then the rest
of the space is filled.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path


def main(directory: Path, lines: list[list[str]]) -> None:
    """The first line runs while there is room, the others on the full disk."""
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=2m", "none", str(directory)), check=True, timeout=60)
    results = [run(lines[0])]
    fill(directory)
    results += [run(line) for line in lines[1:]]
    print(json.dumps(results))


def fill(directory: Path) -> None:
    with contextlib.suppress(OSError), (directory / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(b"x" * 4096)
    with contextlib.suppress(OSError), (directory / "rest").open("wb", buffering=0) as filler:
        while True:
            filler.write(b"x")


def run(words: list[str]) -> tuple[int, str]:
    """Exit code and output."""
    argv = (sys.executable, "-m", "autoscaler.commands.main", *words)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False, env=os.environ)
    return done.returncode, done.stdout + done.stderr


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))

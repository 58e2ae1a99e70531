"""A case as a whole record: the files of the cell that all cases share, `tests/cases/cell/`, with its own over them.

`python -m tests.cases.whole SUBJECT/CASE DIRECTORY` writes one, for `sge-autoscaler plan --from`.
"""

from __future__ import annotations

import atexit
import shutil
import sys
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

HERE = Path(__file__).parent
CELL = HERE / "cell"


def write_whole(case: Path, directory: Path) -> Path:
    """Write the record of a case into a directory, made if need be; returns it."""
    shutil.copytree(CELL, directory, dirs_exist_ok=True)
    shutil.copytree(case, directory, dirs_exist_ok=True)
    return directory


@cache
def whole(name: str) -> Path:
    """The record of the case `SUBJECT/CASE`, made once for all tests of a process; they do not change it."""
    return write_whole(HERE / name, Path(_place()) / name)


@cache
def _place() -> str:
    place = mkdtemp(prefix="sge-autoscaler-cases-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place


if __name__ == "__main__":
    print(write_whole(HERE / sys.argv[1], Path(sys.argv[2])))

"""A pytest plugin that logs every plan that tests make, so that two versions of the code can be compared: a change that
only makes plans faster must not change one of them.

    PYTHONHASHSEED=0 pytest -p tests.plan_log --plan-log before.txt --hypothesis-seed 1 tests/core tests/cases
    (the same with the changed code: after.txt)
    python -m tests.plan_log before.txt after.txt

A line has the digests of a snapshot and of its plan. Snapshots that only one of the two runs had are left out.
"""

from __future__ import annotations

import hashlib
import os
import sys
from functools import wraps
from pathlib import Path

import pytest

from autoscaler.core import plan as plan_module
from autoscaler.core.snapshot import Plan, Snapshot

_decide_plan = plan_module.plan


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--plan-log", help="file for the digests of all snapshots and plans")


def pytest_configure(config: pytest.Config) -> None:
    given = config.getoption("--plan-log")
    if given is None:
        return
    file = Path(f"{given}.{os.getpid()}").open("w", encoding="ascii")  # noqa: SIM115 # open until the process ends

    @wraps(_decide_plan)
    def logged(snapshot: Snapshot) -> Plan:
        made = _decide_plan(snapshot)
        file.write(f"{_digest(snapshot)} {_digest(made)}\n")
        return made

    plan_module.plan = logged


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode("utf-8", "backslashreplace")).hexdigest()[:32]


def compared(before: Path, after: Path) -> tuple[int, list[str]]:
    """How many snapshots both runs had, and those whose plans differ."""
    one, other = _read(before), _read(after)
    both = one.keys() & other.keys()
    return len(both), sorted(snapshot for snapshot in both if one[snapshot] != other[snapshot])


def _read(log: Path) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for file in log.parent.glob(f"{log.name}.*"):
        for line in file.read_text("ascii").splitlines():
            snapshot, made = line.split()
            found.setdefault(snapshot, set()).add(made)
    return found


if __name__ == "__main__":
    same, different = compared(Path(sys.argv[1]), Path(sys.argv[2]))
    print(f"{same} snapshots in both, {len(different)} with different plans")
    sys.exit(1 if different or not same else 0)

"""`autoscaler/core/` decides from values alone: no clock, log, uuid, randomness, environment, I/O or process.

The modules it may import are listed, not those it may not: what is new has to be argued for here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

CORE = Path(__file__).parents[2] / "autoscaler" / "core"

PURE_MODULES = {
    *("__future__", "abc", "bisect", "collections", "contextlib", "copy", "dataclasses", "datetime", "decimal", "enum"),
    *(
        "fnmatch",
        "fractions",
        "functools",
        "hashlib",
        "heapq",
        "itertools",
        "json",
        "math",
        "numbers",
        "operator",
        "re",
    ),
    *("array", "statistics", "string", "textwrap", "types", "typing"),
}
"""Standard library modules whose functions give the same answer to the same arguments, `CLOCK` apart."""

CLOCK = frozenset({"now", "utcnow", "today"})
DATES = frozenset({"datetime", "date"})
"""What has a clock: `now` of anything else is a value, as `snapshot.now` is."""
IMPURE_BUILTINS = frozenset(
    {"open", "print", "input", "exec", "eval", "compile", "__import__", "breakpoint", "globals"}
)
IDENTITY = frozenset({"id", "hash"})
"""Differ from run to run, so a decision that rests on them cannot be replayed."""


def impurities(source: str) -> list[str]:
    """Every impure import, call or attribute in a module's source, as `line: what`."""
    return [f"{line}: {what}" for line, what in _impurities(ast.parse(source))]


def _impurities(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, f"import {alias.name}") for alias in names if not _may_import(alias.name))
            case ast.ImportFrom(module=module, level=level) if level or not _may_import(module or ""):
                yield node.lineno, f"from {'.' * level}{module or ''} import"
            case ast.ImportFrom(module="json", names=names):
                yield from ((node.lineno, f"json.{alias.name}") for alias in names if alias.name in {"load", "dump"})
            case ast.Attribute(value=ast.Name(id="json"), attr="load" | "dump" as attr):
                yield node.lineno, f"json.{attr}"
            case ast.Attribute(value=ast.Name(id=owner) | ast.Attribute(attr=owner), attr=attr) if (
                attr in CLOCK and owner in DATES
            ):
                yield node.lineno, f".{attr}"
            case ast.Name(id=name) if name in IMPURE_BUILTINS:
                yield node.lineno, name
            case ast.Call(func=ast.Name(id=name)) if name in IDENTITY:
                yield node.lineno, f"{name}()"
            case ast.Global(names=globals_):
                yield node.lineno, f"global {', '.join(globals_)}"
            case _:
                pass


def _may_import(module: str) -> bool:
    return module.split(".")[0] in PURE_MODULES or module == "autoscaler.core" or module.startswith("autoscaler.core.")


@pytest.mark.parametrize("path", sorted(CORE.rglob("*.py")), ids=lambda path: str(path.relative_to(CORE)))
def test_core_uses_no_clock_log_randomness_environment_or_io(path: Path) -> None:
    assert impurities(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "planted",
    (
        "import time",
        "import logging",
        "import uuid",
        "import random",
        "import os",
        "import os.path as p",
        "from os import environ",
        "from pathlib import Path",
        "import sqlite3",
        "import subprocess",
        "import requests",
        "from autoscaler import errors",
        "from autoscaler.settings import table",
        "from autoscaler.corex import y",
        "from . import model",
        "from ..errors import NotFound",
        "from datetime import datetime\nnow = datetime.now()",
        "import datetime\nclock = datetime.datetime.utcnow",
        "from datetime import date\nday = date.today()",
        "def text():\n    import io",
        "def read():\n    return open('f').read()",
        "print('launching')",
        "say = print",
        "__import__('time')",
        "from json import load",
        "import json\njson.dump({}, f)",
        "key = hash('w1')",
        "def count():\n    global n",
    ),
)
def test_a_planted_impurity_is_found(planted: str) -> None:
    assert len(impurities(planted)) == 1


@pytest.mark.parametrize(
    "pure",
    (
        "from datetime import datetime, timedelta",
        "from collections.abc import Mapping",
        "from autoscaler.core.snapshot import Shape",
        "from autoscaler.core import demand",
        "class Order:\n    id: str",
        "def age(snapshot):\n    return snapshot.at - snapshot.started",
    ),
)
def test_permitted_code_is_not_reported_as_impure(pure: str) -> None:
    assert impurities(pure) == []

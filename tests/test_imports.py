"""Imports respect the contracts, and one module starts processes."""

from __future__ import annotations

import ast
import configparser
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("autoscaler", "providers", "sge")
MAY_START_PROCESSES = {"autoscaler/process.py", "autoscaler/namespaces.py", "autoscaler/first_process.py"}

STARTS_PROCESSES = frozenset({"subprocess", "multiprocessing", "pty", "concurrent.futures.process", "_posixsubprocess"})
STARTERS = {
    "os": ("system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp", "spawn", "exec"),
    "asyncio": ("create_subprocess_exec", "create_subprocess_shell", "subprocess"),
    "concurrent.futures": ("ProcessPoolExecutor",),
}
"""Module → names in it that start a process; `spawn` and `exec` stand for their families."""


def test_imports_respect_the_contracts() -> None:
    """In a process of its own: import-linter configures logging, and so silences all existing loggers."""
    lint = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(sys.argv[1], no_cache=True))"
    argv = (sys.executable, "-c", lint, str(ROOT / "setup.cfg"))
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_module_of_the_autoscaler_is_in_a_layer() -> None:
    names = {f"autoscaler.{path.stem}" for path in (ROOT / "autoscaler").iterdir() if _is_module(path)}
    assert names <= _placed_in_layers()


def _is_module(path: Path) -> bool:
    return (path.suffix == ".py" and path.stem != "__init__") or (path / "__init__.py").exists()


def _placed_in_layers() -> set[str]:
    config = configparser.ConfigParser(interpolation=None)
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    layers = config["importlinter:contract:layers"]["layers"]
    return set(layers.translate(str.maketrans("()|:", "    ")).split())


def process_starters(source: str) -> list[str]:
    """Every import or call in a module's source that can start a process, as `line: what`."""
    return [f"{line}: {what}" for line, what in _process_starters(ast.parse(source))]


def _process_starters(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names if alias.name in STARTS_PROCESSES)
            case ast.ImportFrom(module=str(module)) if module in STARTS_PROCESSES:
                yield node.lineno, module
            case ast.ImportFrom(module=str(module), names=names):
                found = (f"{module}.{alias.name}" for alias in names if _starts(module, alias.name))
                yield from ((node.lineno, name) for name in found)
            case ast.Attribute() if _starts(ast.unparse(node.value), node.attr):
                yield node.lineno, ast.unparse(node)
            case _:
                pass


def _starts(module: str, name: str) -> bool:
    families = tuple(starter for starter in STARTERS.get(module, ()) if starter in {"spawn", "exec"})
    return name in STARTERS.get(module, ()) or (bool(families) and name.startswith(families))


MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_allowed_modules_start_processes(path: Path) -> None:
    allowed = path.relative_to(ROOT).as_posix() in MAY_START_PROCESSES
    assert allowed or process_starters(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "planted",
    (
        "import subprocess",
        "from subprocess import run",
        "import os\nos.system('qstat')",
        "import os\npid = os.fork()",
        "import os\nos.execvp('qstat', ['qstat'])",
        "from os import posix_spawn",
        "from os import spawnlp",
        "import asyncio\nasyncio.create_subprocess_exec('qstat')",
        "from concurrent.futures import ProcessPoolExecutor",
        "def later():\n    import multiprocessing",
    ),
)
def test_a_planted_process_starter_is_found(planted: str) -> None:
    assert len(process_starters(planted)) == 1


@pytest.mark.parametrize("harmless", ("import os\nos.getpid()", "from concurrent.futures import ThreadPoolExecutor"))
def test_harmless_code_is_not_reported_as_a_process_starter(harmless: str) -> None:
    assert process_starters(harmless) == []

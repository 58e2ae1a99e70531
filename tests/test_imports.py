"""Imports respect the contracts, and one module starts processes."""

from __future__ import annotations

import ast
import configparser
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("autoscaler", "providers", "sge")
LINKED = frozenset({"providers", "sge"})
"""Folders that are linked into `autoscaler` (docs/decisions/0078)."""
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


def test_linked_folders_are_imported_by_their_name_in_an_installation() -> None:
    """A module that is imported by two names exists twice, and one of them is not there where it is installed."""
    sources = {
        path: path.read_text(encoding="utf-8") for top in (*PACKAGES, "bench", "tests") for path in files_of(top)
    }
    assert [str(path.relative_to(ROOT)) for path, source in sources.items() if names_a_folder(source)] == []


def files_of(top: str) -> list[Path]:
    return sorted((ROOT / top).rglob("*.py"))


def names_a_folder(source: str) -> bool:
    """Whether it imports `sge` or `providers`."""
    if not re.search(rf"import.*\b({'|'.join(LINKED)})\b|from ({'|'.join(LINKED)})\b", source):
        return False
    names = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=aliases):
                names |= {alias.name for alias in aliases}
            case ast.ImportFrom(module=str(module), level=0):
                names.add(module)
            case _:
                pass
    return not LINKED.isdisjoint(name.partition(".")[0] for name in names)


@pytest.mark.parametrize("planted", ("import sge", "import sge.qstat", "from providers.fake import FakeProvider"))
def test_a_planted_import_by_the_folders_name_is_found(planted: str) -> None:
    assert names_a_folder(planted)


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


MODULES = [path for package in PACKAGES for path in files_of(package)]


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

"""The packages of the core have no cycle, and none of them is too large."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

CORE = Path(__file__).parents[2] / "autoscaler" / "core"
MOST_LINES, MOST_MODULES = 2400, 16


def package_of(module: str) -> str:
    """`autoscaler.core.limits.backoff` lies in the package `limits`."""
    return module.split(".")[2]


def imports_between_packages(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Package → packages that it imports from. `sources`: by module name, its text."""
    found: dict[str, set[str]] = defaultdict(set)
    for module, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("autoscaler.core."):
                found[package_of(module)].add(package_of(str(node.module)))
    return {package: others - {package} for package, others in found.items()}


def cycle_of(packages: Mapping[str, set[str]]) -> Sequence[str]:
    """Packages that import each other in a circle; empty: there are none."""
    try:
        TopologicalSorter(packages).prepare()
    except CycleError as error:
        return list(error.args[1])
    return ()


def modules_of_the_core() -> dict[str, str]:
    files = (path for path in CORE.rglob("*.py") if path != CORE / "__init__.py")
    return {
        ".".join(("autoscaler", "core", *path.relative_to(CORE).with_suffix("").parts)): path.read_text("utf-8")
        for path in files
    }


def test_core_packages_have_no_import_cycle() -> None:
    packages = imports_between_packages(modules_of_the_core())
    assert ("model" in packages["placement"], cycle_of(packages)) == (True, ())


def test_a_planted_cycle_is_found() -> None:
    planted = {
        "autoscaler.core.limits.backoff": "from autoscaler.core.sizing.sizing import size_launch",
        "autoscaler.core.sizing.sizing": "from autoscaler.core.limits.limits import Usage",
    }
    assert set(cycle_of(imports_between_packages(planted))) == {"limits", "sizing"}


@pytest.mark.parametrize("package", sorted(path.name for path in CORE.iterdir() if (path / "__init__.py").exists()))
def test_no_package_is_too_large(package: str) -> None:
    files = [path for path in (CORE / package).rglob("*.py") if path.name != "__init__.py"]
    lines = sum(len(path.read_text("utf-8").splitlines()) for path in files)
    assert lines <= MOST_LINES
    modules = [path for path in files if path.parent == CORE / package]
    assert len(modules) <= MOST_MODULES  # a list of motives is a folder of its own

"""`make shape` measures lines, cycles and parameters, and fails if there is a cycle."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import shape

LIMITS = "from autoscaler.core.sizing.sizing import size\n"
SIZING = (
    "from autoscaler.core.limits import backoff\n\n\ndef size(self, one, /, *rest, two=2, **more):\n    return one\n"
)


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A project with a cycle of two packages of the core."""
    for name, source in (("limits/backoff", LIMITS), ("sizing/sizing", SIZING), ("plan", "import os\n")):
        file = tmp_path / "autoscaler" / "core" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)
    return tmp_path


def test_a_planted_cycle_of_packages_and_of_modules_is_found(planted: Path) -> None:
    modules = shape.measure(planted, ("autoscaler",))
    assert shape.cycles_of_packages(modules) == [["autoscaler.core.limits", "autoscaler.core.sizing"]]
    assert shape.cycles_of_modules(modules) == [["autoscaler.core.limits.backoff", "autoscaler.core.sizing.sizing"]]


def test_a_cycle_fails_the_command(planted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shape, "ROOT", planted)
    assert shape.main([]) == 1
    (planted / "autoscaler" / "core" / "limits" / "backoff.py").write_text("import os\n")
    assert shape.main([]) == 0


def test_packages_that_a_third_one_imports_are_no_cycle() -> None:
    assert shape.cycles({"plan": {"limits", "sizing"}, "sizing": {"limits"}, "limits": set()}) == []


def test_a_cycle_of_three_is_one_group() -> None:
    assert shape.cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]


def test_parameters_are_counted_without_self() -> None:
    module = shape.read_module(Path("autoscaler/core/sizing/sizing.py"), SIZING)
    assert [(one.name, one.lines, one.parameters) for one in module.functions] == [("size", 2, 4)]


def test_files_and_lines_are_counted(planted: Path) -> None:
    assert shape.report(shape.measure(planted, ("autoscaler",)))[0] == (
        "3 files, 7 lines, 2 of them code (no docstrings, comments, imports, empty lines)"
    )


def test_code_lines_exclude_docstrings_comments_imports_and_empty_lines() -> None:
    source = '"""A docstring\nof two lines."""\nimport os\n\nLIMIT = 3\n"""Of a value."""\n\n\n# Why.\n'
    source += 'def text():\n    """What it does."""\n    return """two\nlines"""  # two lines of a value count\n'
    assert shape.read_module(Path("autoscaler/text.py"), source).code == 4


@pytest.mark.thorough
def test_no_module_of_the_product_is_in_a_cycle() -> None:
    assert shape.cycles_of_modules(shape.measure(shape.ROOT)) == []


def test_a_module_belongs_to_the_part_whose_package_is_nearest() -> None:
    titles = [
        shape.part_of(name).title.partition(":")[0]
        for name in (
            *("autoscaler.core.plan", "autoscaler.core.cost.shares", "autoscaler.report.cost", "autoscaler.report.log"),
            *("autoscaler.providers.cyclecloud.provider", "autoscaler.providers.aws.provider", "autoscaler.errors"),
        )
    ]
    kernel, cost, service = "kernel", "cost and history", "service and page"
    assert titles == [kernel, cost, cost, service, "CycleCloud", "providers", service]


def test_each_part_has_modules_and_every_name_of_a_part_exists() -> None:
    names = {module.name for module in shape.measure(shape.ROOT)}
    assert [package for part in shape.PARTS for package in part.packages if package not in names] == []


def test_a_part_beyond_its_budget_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shape, "PARTS", (shape.Part("all", 2, ("autoscaler",)),))
    module = shape.read_module(Path("autoscaler/core/sizing/sizing.py"), SIZING + "\n\nA = 1\n")
    assert "      3 of      2  all, 1 beyond it" in shape.report([module])

"""`make quick` runs the tests of the changed files."""

from __future__ import annotations

import pytest

from bench.changed import CORE, imports_of_tests, select_tests

IMPORTS = {
    "tests/sge/test_qstat.py": {"autoscaler.sge.qstat"},
    "tests/web/test_serve.py": {"autoscaler.store", "autoscaler.sge.qstat"},
}


@pytest.mark.parametrize(
    ("changed", "tests"),
    (
        (["autoscaler/core/limits/limits.py"], sorted(CORE)),
        (["autoscaler/core/plan.py", "tests/core/test_plan.py"], sorted(CORE)),
        (["sge/qstat.py"], ["tests/sge/test_qstat.py", "tests/web/test_serve.py"]),
        (["autoscaler/store/__init__.py"], ["tests/web/test_serve.py"]),
        (["sge/units.py"], ["tests/sge/test_qstat.py", "tests/web/test_serve.py"]),
        (["tests/sge/test_qhost.py"], ["tests/sge/test_qhost.py"]),
        (["tests/properties/test_placement.py"], ["tests/properties/test_placement.py"]),
        (["tests/dist/test_packages.py"], sorted(CORE)),
        (["docs/operate/install.md", "README.md"], ["tests/test_docs.py"]),
        (["tests/cases/limits/a-pause-launches-nothing/expect.toml"], ["tests/cases"]),
    ),
)
def test_a_change_selects_its_tests(changed: list[str], tests: list[str]) -> None:
    assert select_tests(changed, IMPORTS) == tests


@pytest.mark.parametrize("changed", ([], ["LICENSE"], ["tests/grid_engine/test_cell.py"], ["providers/nowhere.py"]))
def test_a_change_without_tests_selects_the_core_tests(changed: list[str]) -> None:
    assert select_tests(changed, IMPORTS) == sorted(CORE)


def test_a_deleted_test_is_not_selected() -> None:
    assert select_tests(["tests/sge/test_nowhere.py"], IMPORTS) == []


def test_imports_of_tests_are_found() -> None:
    found = imports_of_tests()
    assert "bench.changed" in found["tests/test_changed.py"]
    assert "autoscaler.engine.actor" in found["tests/act/test_actor.py"], "by way of tests/simulated"
    assert not any(name.startswith(("tests/grid_engine/", "tests/dist/")) for name in found)

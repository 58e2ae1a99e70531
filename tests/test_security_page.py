"""Every promise of SECURITY.md is held by a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoscaler.api import logins
from autoscaler.api.gate import HOSTS_SETTING
from autoscaler.api.principal import Role
from autoscaler.strict_modes import GROUP_ENV
from tests.test_docs import is_defined, named_tests

PAGE = Path(__file__).parents[1] / "SECURITY.md"
ACTORS = {"job owner", "worker", "caller", "other local user", "network", "cloud account"}
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| who |")
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[1][:40])
def test_every_threat_has_a_defence_and_tests_that_exist(row: list[str]) -> None:
    who, threat, defence, tests = row
    assert all((who, threat, defence))
    assert named_tests(tests)
    assert [each for each in named_tests(tests) if not is_defined(*each.split("::"))] == []


def test_every_actor_has_a_threat() -> None:
    assert {actor for row in ROWS for actor in row[0].split(", ")} >= ACTORS


def test_the_page_has_all_its_sections() -> None:
    heads = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("## ")]
    assert heads == ["## How to report", "## Supported versions", "## What is trusted", "## Threats"]


def test_a_missing_test_is_detected() -> None:
    assert not is_defined("tests/test_security_page.py", "test_that_was_renamed")
    assert not is_defined("tests/test_gone.py", "test_that_was_renamed")


# -- docs/operate/security.md: its numbers are those of the code ----------------------------------------------------

OPERATE = " ".join((PAGE.parent / "docs" / "operate" / "security.md").read_text(encoding="utf-8").split())


@pytest.mark.parametrize(
    "message",
    (
        f"has {logins.BURST} wrong logins, and one more every {logins.EVERY:g} s; then it gets 429",
        f"{['', '', '', '', 'Four'][logins.AT_ONCE]} logins are judged at once; further ones get 503",
        f"(`{HOSTS_SETTING}` adds names",
        f"`{GROUP_ENV}` names a group",
        f"sge-autoscaler serve passwd anna --role {Role.CALLER.name.lower()}",
        f"sge-autoscaler serve token create ci --role {Role.READER.name.lower()}",
    ),
)
def test_numbers_on_the_page_for_operators_match_the_code(message: str) -> None:
    assert message in OPERATE

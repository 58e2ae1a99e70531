"""Every promise of SECURITY.md is held by a test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from autoscaler.api import logins
from autoscaler.api.gate import HOSTS_SETTING
from autoscaler.api.principal import Role
from autoscaler.strict_modes import GROUP_ENV
from tests.test_docs import is_defined, named_tests

PAGE = Path(__file__).parents[1] / "SECURITY.md"
ACTORS = {"job owner", "worker", "caller", "other local user", "network", "cloud account"}
THREATS, AIMS = PAGE.read_text(encoding="utf-8").partition("## Threats")[2].split("## Attackers and aims")


def rows(text: str) -> list[list[str]]:
    """Of each item: whose heading it stands under, what they try or are after, what stands against it, its tests."""
    found, who = [], ""
    for line in text.splitlines():
        if line.startswith("**"):
            who = line.strip("*")
        elif who and (item := re.fullmatch(r"- (.*?) → (.*?)(?: \((`[^()]*`)\))?", line)):
            found.append([who, item[1].strip("*"), item[2], item[3] or ""])
        elif who and line.startswith("- "):
            raise ValueError(f"no arrow: {line}")
    return found


ROWS, MATRIX = rows(THREATS), rows(AIMS)
ATTACKERS = (
    *("job owner", "other local user", "submit host", "worker's job"),
    *("page's visitor", "cloud's answers", "package source"),
)
GOALS = ("code as us", "money", "others' data", "others' service", "lasting traces")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[1][:40])
def test_every_threat_has_a_defence_and_tests_that_exist(row: list[str]) -> None:
    who, threat, defence, tests = row
    assert all((who, threat, defence))
    assert named_tests(tests)
    assert [each for each in named_tests(tests) if not is_defined(*each.split("::"))] == []


def test_every_actor_has_a_threat() -> None:
    assert {actor for row in ROWS for actor in row[0].split(", ")} >= ACTORS


def test_the_table_has_every_attacker_with_every_aim() -> None:
    assert [tuple(row[:2]) for row in MATRIX] == [(who, aim) for who in ATTACKERS for aim in GOALS]


@pytest.mark.parametrize("row", MATRIX, ids=lambda row: f"{row[0]}: {row[1]}")
def test_each_aim_has_a_test_or_what_to_do_instead(row: list[str]) -> None:
    _, _, defence, tests = row
    assert [each for each in named_tests(tests) if not is_defined(*each.split("::"))] == []
    assert named_tests(tests) or ("not defended" in defence.lower() and "Do this instead" in defence)


def test_the_page_has_all_its_sections() -> None:
    heads = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("## ")]
    assert heads == [
        *("## How to report", "## Supported versions", "## What is trusted"),
        *("## Threats", "## Attackers and aims"),
    ]


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

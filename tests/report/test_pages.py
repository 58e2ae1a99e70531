"""Pages made from declarations are up to date, and no code is without a sentence and a remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoscaler.core.reasons import Code
from autoscaler.report.pages import generated, main
from autoscaler.report.remedies import GROUPS, REMEDIES

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", sorted(generated(ROOT)), ids=lambda path: path.name)
def test_a_page_is_up_to_date(page: Path) -> None:
    assert page.read_text() == generated(ROOT)[page], "run `python -m autoscaler.report.pages`"


@pytest.mark.parametrize("code", Code)
def test_every_code_says_what_can_be_done(code: Code) -> None:
    assert code in REMEDIES


def test_every_code_is_in_the_table_once() -> None:
    page = generated(ROOT)[ROOT / "docs" / "reasons.md"]
    assert [page.count(f"| `{code.value}` |") for code in Code] == [1] * len(Code)


def test_the_table_begins_with_a_heading() -> None:
    assert next(iter(Code)) is GROUPS[0][1]


def test_check_fails_on_a_stale_page_and_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "conf").mkdir()
    main([str(tmp_path)])
    (tmp_path / "docs" / "json.md").write_text("old")
    assert (main(["--check", str(tmp_path)]), (tmp_path / "docs" / "json.md").read_text()) == (1, "old")


def test_check_passes_on_what_was_written(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "conf").mkdir()
    main([str(tmp_path)])
    assert main(["--check", str(tmp_path)]) == 0

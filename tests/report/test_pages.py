"""Pages made from declarations are up to date and name every reason."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from autoscaler.core.model.reasons import Code
from autoscaler.report.fleet import worker_rows
from autoscaler.report.pages import generated, main
from autoscaler.report.reasons.table import SUBJECTS
from autoscaler.report.schema import WorkerPart
from autoscaler.report.status import Now, status
from autoscaler.store.store import Store
from tests.core.building import a_host, a_snapshot, a_worker

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pages() -> dict[Path, str]:
    return generated(ROOT)


def test_all_pages_are_up_to_date(pages: dict[Path, str]) -> None:
    stale = [page.name for page, text in pages.items() if page.read_text() != text]
    assert stale == [], "run `python -m autoscaler.report.pages`"


def test_every_code_is_listed_once(pages: dict[Path, str]) -> None:
    page = pages[ROOT / "docs" / "reasons.md"]
    assert [page.count(f"- **`{code.value}`** ") for code in Code] == [1] * len(Code)


def test_nobody_is_named_who_can_do_nothing(pages: dict[Path, str]) -> None:
    page = pages[ROOT / "docs" / "reasons.md"]
    assert re.findall(r"(?:Administrators|administrator): *$|→ *$", page, re.MULTILINE) == []
    assert "→ Administrators: Sooner: lower" in page
    assert "Nothing needs to be done" not in page
    assert "→ Ask an administrator: Set `CP_CAP_AUTOSCALE_INSTANCE_TYPE`" in page


def test_a_long_remedy_is_said_once_and_named_after_that(pages: dict[Path, str]) -> None:
    page = pages[ROOT / "docs" / "reasons.md"]
    assert page.count("`qmod -cq` for queue instances in alarm or error") == 1
    assert set(re.findall(r"as for `(\w+)`\.", page)) <= set(re.findall(r"^- \*\*`(\w+)`", page, re.MULTILINE))


def test_every_subject_is_a_heading(pages: dict[Path, str]) -> None:
    page = pages[ROOT / "docs" / "reasons.md"]
    assert [line.removeprefix("## ") for line in page.splitlines() if line.startswith("## ")] == [
        heading for heading, _ in SUBJECTS
    ]


def test_the_json_schema_lists_every_code(pages: dict[Path, str]) -> None:
    schema = json.loads(pages[ROOT / "conf" / "plan.schema.json"])
    assert sorted(schema["$defs"]["ReasonPart"]["properties"]["code"]["enum"]) == sorted(Code)


def test_check_fails_on_a_stale_page_and_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "conf").mkdir()
    main([str(tmp_path)])
    (tmp_path / "docs" / "json.md").write_text("old")
    assert (main(["--check", str(tmp_path)]), (tmp_path / "docs" / "json.md").read_text()) == (1, "old")


def test_check_passes_on_fresh_pages(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "conf").mkdir()
    main([str(tmp_path)])
    assert main(["--check", str(tmp_path)]) == 0


def test_the_json_page_names_every_field_of_workers_and_status(pages: dict[Path, str]) -> None:
    page = pages[ROOT / "docs" / "json.md"]
    named = {
        command: set(re.findall(r"`(\w+)`", row))
        for command, row in re.findall(r"^\| `(\w+) --json` \|(.*)$", page, re.M)
    }
    snapshot = a_snapshot(a_worker("w1", host=a_host("w1")))
    (worker,) = worker_rows(snapshot, [{"id": "i-w1", "name": "w1"}], None)
    assert worker.keys() - WorkerPart.model_fields.keys() - named["workers"] == set()
    assert status(Store.open(None), Now(1.0, "cell", "local", True, None)).keys() - named["status"] == set()

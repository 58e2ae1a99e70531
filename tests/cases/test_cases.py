"""Runs every case: a record folder with an `expect.toml` that defines what the plan made of it must be, and why."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest

from autoscaler.core.actions import Action, AskGridEngine
from autoscaler.core.plan import plan
from autoscaler.engine.record import read_record
from autoscaler.report.document import document
from autoscaler.report.schema import PlanDocument
from tests.cases.whole import CELL, whole

HERE = Path(__file__).parent
CASES = sorted(path.parent for path in HERE.glob("*/*/expect.toml"))
IN_NO_CASE = frozenset({AskGridEngine.kind})
"""Before it asks, the memory needs the fingerprint of the question, which a file cannot hold for long: it changes with
the catalogue. tests/core/test_deadlock.py shows when this is planned.
"""
KNOWN = frozenset({"why", "sentence", "actions", "never", "jobs", "workers", "notes"})


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.relative_to(HERE)))
def test_case(case: Path) -> None:
    record = whole(str(case.relative_to(HERE)))
    snapshot = read_record(record)
    shown = document(snapshot, plan(snapshot), {}, by_job=True, zone=snapshot.cluster.zone)
    PlanDocument.model_validate(json.loads(json.dumps(shown)))
    differences = list(contradictions(tomllib.loads((case / "expect.toml").read_text()), shown))
    assert not differences, "\n".join((*differences, "", json.dumps(shown, indent=1)))


@pytest.mark.parametrize(
    ("expected", "said"),
    (
        ({"why": "w"}, []),
        ({"jobs": [{"job": "7", "reason": "CAPPED", "says": "up to 4", "slots": 2}], "why": "w"}, []),
        ({}, ["expect.toml: why is this so?"]),
        ({"why": "w", "job": []}, ["expect.toml: unknown job"]),
        ({"why": "w", "sentence": "other"}, ["sentence: 'one' is not 'other'"]),
        ({"why": "w", "actions": []}, ["actions: ['launch'] are not []"]),
        ({"why": "w", "actions": [{"kind": "launch", "count": 2}]}, ["actions[0].count: 1 is not 2"]),
        ({"why": "w", "never": ["launch"]}, ["actions: never launch"]),
        ({"why": "w", "jobs": [{"job": "8"}]}, ["job 8: is not there"]),
        ({"why": "w", "jobs": [{"job": "7", "reason": "HELD"}]}, ["job 7: reason: WAITS CAPPED has no HELD"]),
        ({"why": "w", "jobs": [{"job": "7", "says": "9"}]}, ["job 7: reason: 'waits; up to 4' does not contain '9'"]),
        ({"why": "w", "workers": [{"name": "w1"}]}, ["worker w1: is not there"]),
        ({"why": "w", "notes": ["HELD"]}, ["notes: no HELD"]),
    ),
)
def test_each_field_of_a_case_is_compared(expected: Mapping[str, Any], said: list[str]) -> None:
    capped = {"code": "CAPPED", "text": "up to 4", "trail": []}
    category = {"jobs": ["7.1-3"], "slots": 2, "reason": {"code": "WAITS", "text": "waits", "trail": [capped]}}
    action = {"kind": "launch", "count": 1}
    shown = {"sentence": "one", "actions": [action], "job_categories": [category], "workers": [], "notes": [capped]}
    assert list(contradictions(expected, shown)) == said


def test_every_folder_of_files_is_a_case() -> None:
    folders = {path.parent for path in HERE.glob("*/*/qstat.xml")}
    assert folders == set(CASES)


def test_no_case_repeats_a_file_of_the_shared_cell() -> None:
    shared = [path.relative_to(CELL) for path in CELL.rglob("*") if path.is_file()]
    own = [(case, name) for case in CASES for name in shared if (case / name).exists()]
    assert [case / name for case, name in own if (case / name).read_bytes() == (CELL / name).read_bytes()] == []


def test_every_kind_of_action_is_planned_in_a_case() -> None:
    expected = [tomllib.loads((case / "expect.toml").read_text()).get("actions", ()) for case in CASES]
    kinds = {action["kind"] for actions in expected for action in actions}
    assert {kind.kind for kind in get_args(Action)} - kinds == IN_NO_CASE


def contradictions(expected: Mapping[str, Any], shown: Mapping[str, Any]) -> Iterator[str]:
    """Where the document differs from what is expected. tests/cases/README.md explains each field."""
    if unknown := expected.keys() - KNOWN:
        yield f"expect.toml: unknown {', '.join(sorted(unknown))}"
    if not expected.get("why"):
        yield "expect.toml: why is this so?"
    if "sentence" in expected and expected["sentence"] != shown["sentence"]:
        yield f"sentence: {shown['sentence']!r} is not {expected['sentence']!r}"
    if "actions" in expected:
        required, planned = expected["actions"], shown["actions"]
        if len(required) != len(planned):
            yield f"actions: {[action['kind'] for action in planned]} are not {[action['kind'] for action in required]}"
        for index, (want, action) in enumerate(zip(required, planned, strict=False)):
            yield from (f"actions[{index}].{difference}" for difference in mismatches(want, action))
    yield from (
        f"actions: never {action['kind']}" for action in shown["actions"] if action["kind"] in expected.get("never", ())
    )
    for want in expected.get("jobs", ()):
        rows = [row for row in shown["job_categories"] if row["jobs"][0].partition(".")[0] == want["job"]]
        yield from absent(f"job {want['job']}", {key: want[key] for key in want.keys() - {"job"}}, rows)
    for want in expected.get("workers", ()):
        yield from absent(
            f"worker {want['name']}", want, [row for row in shown["workers"] if row["name"] == want["name"]]
        )
    for code in expected.get("notes", ()):
        if not any(code in codes(note) for note in shown["notes"]):
            yield f"notes: no {code}"


def absent(subject: str, want: Mapping[str, Any], rows: list[Any]) -> Iterator[str]:
    """Nothing where one row agrees in everything, else how each row differs."""
    found = [list(mismatches(want, row)) for row in rows]
    if not any(not differences for differences in found):
        yield f"{subject}: " + ("; or ".join(", ".join(differences) for differences in found) or "is not there")


def mismatches(want: Mapping[str, Any], got: Mapping[str, Any]) -> Iterator[str]:
    """`reason` is a code anywhere in the reason's trail, `says` a part of its sentences; the rest must be equal."""
    for field, value in want.items():
        if field == "reason":
            if value not in codes(got["reason"]):
                yield f"reason: {' '.join(codes(got['reason']))} has no {value}"
        elif field == "says":
            if not any(value in sentence for sentence in sentences(got["reason"])):
                yield f"reason: {'; '.join(sentences(got['reason']))!r} does not contain {value!r}"
        elif got.get(field) != value:
            yield f"{field}: {got.get(field)!r} is not {value!r}"


def codes(reason: Mapping[str, Any]) -> list[str]:
    return [reason["code"], *(code for link in reason["trail"] for code in codes(link))]


def sentences(reason: Mapping[str, Any]) -> list[str]:
    return [reason["text"], *(text for link in reason["trail"] for text in sentences(link))]

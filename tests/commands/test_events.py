"""`events`: what is in the store, for people and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from autoscaler.commands.context import Invocation
from autoscaler.commands.events import command
from autoscaler.core.events.event import EventKind, JobEvent
from autoscaler.core.events.events import PassEvents
from autoscaler.core.events.known import Known
from autoscaler.store.store import Store

NOW = 1_700_000_000.0


@pytest.fixture
def invocation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Invocation:
    file = tmp_path / "store.sqlite"
    store = Store.open(file)
    found = (
        JobEvent(EventKind.SUBMITTED, NOW, NOW + 9, NOW + 9, "4-7", count=4, owner="ann", project="wind"),
        JobEvent(EventKind.NOT_COUNTED, NOW, NOW, NOW, "9", count=1, owner="bob", code="HELD"),
        JobEvent(EventKind.COUNTED, NOW, NOW, NOW, "4-7", count=4, owner="ann", code="FITS"),
        JobEvent(EventKind.ORDERED, NOW, NOW, NOW, "4-7", count=4, order_id="o-1", message="2 m5.large of execute"),
        JobEvent(EventKind.JOINED, NOW, NOW, NOW, hosts=("w1",), worker_id="i-1", order_id="o-1", message="m5 of x"),
        JobEvent(EventKind.STARTED, NOW, NOW, NOW, "5", "1-3", 3, "ann", hosts=("w1", "w2"), queue="main.q"),
        JobEvent(EventKind.ENDED, NOW, NOW, NOW, "5", "1-3", 3, "ann", hosts=("w1",), queue="main.q", message="well"),
    )
    store.events.keep(PassEvents(Known(), found))
    store.close()
    made = Invocation({"SGE_ROOT": str(tmp_path)})
    monkeypatch.setattr(Invocation, "running", None)
    monkeypatch.setattr(Invocation, "store_file", file)
    return made


def shown(invocation: Invocation, *words: str) -> str:
    done = CliRunner().invoke(command, words, obj=invocation, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_each_kind_is_a_line_that_says_who_what_and_where(invocation: Invocation) -> None:
    lines = [line.partition("UTC ")[2] for line in shown(invocation).splitlines()]
    assert lines == [
        "to 2023-11-14 22:13:29 UTC jobs 4-7 of ann in project wind submitted",
        "job 9 of bob does not count as demand [HELD]",
        "jobs 4-7 of ann count as demand [FITS]",
        "launch of 2 m5.large of execute was ordered for 4 tasks of jobs 4-7 (order o-1)",
        "worker w1 joined: m5 of x, i-1 (order o-1)",
        "job 5.1-3 of ann started on main.q@w1, main.q@w2",
        "job 5.1-3 of ann ended on main.q@w1: well",
    ]


def test_of_a_job_all_is_told_as_json_with_the_zone_of_its_times(invocation: Invocation) -> None:
    document = json.loads(shown(invocation, "--job", "5.2", "--json"))
    kinds = [event["kind"] for event in document["events"]]
    assert sorted(kinds) == sorted(["submitted", "counted", "ordered", "joined", "started", "ended"])
    first = document["events"][0]
    assert (first["owner"], first["project"], first["jobs"], first["tasks"]) == ("ann", "wind", "4-7", None)
    assert first["at"][-6] in "+-"


def test_a_host_has_what_happened_on_it(invocation: Invocation) -> None:
    events = json.loads(shown(invocation, "--host", "w2", "--json"))["events"]
    assert [event["kind"] for event in events] == ["started"]


def test_what_is_no_job_is_a_usage_error(invocation: Invocation) -> None:
    done = CliRunner().invoke(command, ["--job", "x"], obj=invocation)
    assert (done.exit_code, "not a job" in done.output) == (2, True)

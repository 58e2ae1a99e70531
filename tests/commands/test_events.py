"""`events`: the events in the store, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from autoscaler.answer_client import SOCKET_ENV
from autoscaler.commands.context import Invocation
from autoscaler.commands.events import command
from autoscaler.core.events.event import EventKind, JobEvent
from autoscaler.core.events.events import PassEvents
from autoscaler.core.events.known import KnownEvents
from autoscaler.store.store import Store
from tests.cell_files import cell_files
from tests.deadlines import replace_sleep
from tests.web.test_answers import answering_service

Step = Callable[[], object]

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
    store.events.keep(PassEvents(KnownEvents(), found))
    store.close()
    made = Invocation(cell_files(tmp_path) | {"CP_CAP_AUTOSCALE_WORKDIR": str(tmp_path)})
    monkeypatch.setattr(Invocation, "running", None)
    monkeypatch.setattr(Invocation, "store_file", file)
    return made


def shown(invocation: Invocation, *words: str) -> str:
    done = CliRunner().invoke(command, words, obj=invocation, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_each_kind_of_event_is_a_line_with_job_owner_and_host(invocation: Invocation) -> None:
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


def test_events_of_a_job_are_shown_as_json_with_time_zone(invocation: Invocation) -> None:
    document = json.loads(shown(invocation, "--job", "5.2", "--json"))
    kinds = [event["kind"] for event in document["events"]]
    assert sorted(kinds) == sorted(["submitted", "counted", "ordered", "joined", "started", "ended"])
    first = document["events"][0]
    assert (first["owner"], first["project"], first["jobs"], first["tasks"]) == ("ann", "wind", "4-7", None)
    assert first["at"][-6] in "+-"


def test_events_of_a_host_are_shown(invocation: Invocation) -> None:
    events = json.loads(shown(invocation, "--host", "w2", "--json"))["events"]
    assert [event["kind"] for event in events] == ["started"]


def test_an_invalid_job_is_a_usage_error(invocation: Invocation) -> None:
    done = CliRunner().invoke(command, ["--job", "x"], obj=invocation)
    assert (done.exit_code, "not a job" in done.output) == (2, True)


# -- following ---------------------------------------------------------------------------------------------------------


class Enough(Exception):
    """Ends the loop of `--follow`."""


def followed(
    invocation: Invocation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *steps: Step
) -> tuple[list[str], str]:
    """Prints what `--follow` shows while these things happen between two readings: events and other messages."""
    left = list(steps)

    def sleep(_: float) -> None:
        if not left:
            raise Enough
        left.pop(0)()

    replace_sleep(monkeypatch, "autoscaler.commands.events", sleep)
    with pytest.raises(Enough):
        command.main(["--follow", "--last", "2"], obj=invocation, standalone_mode=False)
    printed = capsys.readouterr()
    return [line.partition("UTC ")[2] for line in printed.out.splitlines()], printed.err


def later(store: Store, job: int) -> None:
    store.events.keep(PassEvents(KnownEvents(), (JobEvent(EventKind.SUBMITTED, NOW, NOW, NOW, str(job), count=1),)))


def test_following_the_state_shows_each_event_once_and_new_ones(
    invocation: Invocation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with invocation.store() as store:
        lines, _ = followed(
            invocation, monkeypatch, capsys, lambda: later(store, 70), lambda: None, lambda: later(store, 71)
        )
    assert lines == [
        "job 5.1-3 of ann started on main.q@w1, main.q@w2",
        "job 5.1-3 of ann ended on main.q@w1: well",
        "job 70 submitted",
        "job 71 submitted",
    ]


def test_following_the_service_continues_when_it_comes_back(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with answering_service() as made:
        later(made.store, 1)
        away = made.path.with_name("away.sock")
        steps = (
            lambda: made.path.rename(away),
            lambda: later(made.store, 2),
            lambda: away.rename(made.path),
            lambda: later(made.store, 3),
        )
        invocation = Invocation({SOCKET_ENV: str(made.path)})
        lines, besides = followed(invocation, monkeypatch, capsys, *steps)
        name = f"the autoscaler at {made.path}"
    assert lines == ["job 1 submitted", "job 2 submitted", "job 3 submitted"]
    assert besides.splitlines() == [
        f"{name} does not answer: No such file or directory: waiting for it",
        f"{name} answers again",
    ]

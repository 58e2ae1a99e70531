"""`events` shows the life of a job in a real cell: every step once, in order, and none again after a restart."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.evidence import Shown, log_and_journal
from tests.grid_engine.gate import Gate
from tests.grid_engine.waiting import Until


def life(scaling: Autoscaling, job: str) -> list[dict[str, Any]]:
    """Every event of a job, by the time when it happened."""
    done = scaling.command("events", "--job", job, "--json")
    assert done.returncode == 0, done.stderr.decode()
    events: list[dict[str, Any]] = json.loads(done.stdout)["events"]
    return sorted(events, key=lambda event: datetime.fromisoformat(event["at"]))


def kinds(scaling: Autoscaling, job: str) -> set[str]:
    return {event["kind"] for event in life(scaling, job)}


def test_every_event_of_a_job_is_reported_once_from_submission_to_end(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling = Autoscaling(empty_cell)
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    gate = Gate(empty_cell)
    with scaling.running():
        job = gate.submit()
        until(lambda: len(scaling.running_on(job)) > 0, 40)
        until(lambda: "started" in kinds(scaling, job), 40)
    gate.open()
    until(lambda: len(scaling.ends(job)) == 1, 60)
    with scaling.running():  # another process, which knows of the first one only what the store has
        until(lambda: "ended" in kinds(scaling, job), 60)
        events = life(scaling, job)
        explained = json.loads(scaling.command("explain", job, "--json").stdout)
        ordered = next(event for event in events if event["kind"] == "ordered")
        launch = json.loads(scaling.command("explain", ordered["order_id"], "--json").stdout)
    assert sorted(event["id"] for event in explained["events"]) == sorted(event["id"] for event in events)
    came = {worker for each in launch["attempts"] for worker in each["workers"]}
    assert {event["worker_id"] for event in events} - {None} == came
    by_kind = {event["kind"]: event for event in events}
    assert sorted(event["kind"] for event in events) == sorted(
        ["submitted", "counted", "ordered", "joined", "started", "ended"]
    )
    assert {event["jobs"] for event in events if event["kind"] != "joined"} == {job}
    assert by_kind["joined"]["order_id"] == by_kind["ordered"]["order_id"]
    assert by_kind["started"]["hosts"] == by_kind["joined"]["hosts"] == by_kind["ended"]["hosts"]
    assert (by_kind["ended"]["code"], by_kind["ended"]["message"]) == ("ended", "exit status 0")
    assert all(datetime.fromisoformat(event["at"]).tzinfo is not None for event in events)
    order = [event["kind"] for event in events if event["kind"] in ("ordered", "joined", "started", "ended")]
    assert (events[0]["kind"], order[0], order[-1]) == ("submitted", "ordered", "ended")

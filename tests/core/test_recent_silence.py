"""A qmaster that has just started has no load reports yet: silence for a moment is no reason to launch."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from autoscaler.core.actions import Launch
from autoscaler.core.model.memory import Disabling
from autoscaler.core.plan import plan
from autoscaler.core.snapshot import Plan, Snapshot
from tests.core.building import NOW, a_host, a_job, a_snapshot, a_worker


def with_silent_since(snapshot: Snapshot, silent_since: Mapping[str, float | None]) -> Snapshot:
    return replace(snapshot, memory=replace(snapshot.memory, silent_since=silent_since))


def launched(found: Plan) -> bool:
    return any(isinstance(action, Launch) for action in found.actions)


def test_a_host_that_fell_silent_a_moment_ago_is_not_replaced() -> None:
    silent = a_host("h1", states="au", heard=False)

    assert not launched(plan(with_silent_since(a_snapshot(a_job(), silent), {"h1": NOW - 30})))
    assert launched(plan(with_silent_since(a_snapshot(a_job(), silent), {"h1": NOW - 3000})))


def test_a_worker_that_fell_silent_a_moment_ago_counts_as_coming() -> None:
    silent = a_worker("w1", states="au", heard=False)

    found = plan(with_silent_since(a_snapshot(a_job(), silent), {"w1": None}))

    assert (launched(found), found.fitting) == (False, 1)


@pytest.mark.parametrize("mark", (Disabling.SILENT, Disabling.LOST, Disabling.INTERRUPTED))
def test_a_worker_enabled_again_in_the_same_pass_is_not_replaced(mark: Disabling) -> None:
    found = plan(a_snapshot(a_job(), a_worker("w1", mark=mark)))

    assert ([action.kind for action in found.actions], found.fitting) == (["enable"], 1)
    shown = a_worker("w1", mark=mark)
    again = plan(replace(a_snapshot(a_job(), shown, now=NOW + 5), memory=found.memory))
    assert not again.actions


def test_a_host_that_stays_silent_is_not_supply() -> None:
    silent = a_host("h1", states="au", heard=False)

    assert launched(plan(with_silent_since(a_snapshot(a_job(), silent), {"h1": NOW - 600})))


def test_a_host_that_never_reported_is_not_supply() -> None:
    assert launched(plan(a_snapshot(a_job(), a_host("h1", states="au", heard=False))))


def test_the_time_at_which_a_host_fell_silent_is_remembered_until_it_reports() -> None:
    silent = plan(with_silent_since(a_snapshot(a_host("h1", states="au", heard=False)), {"h1": None}))
    again = plan(with_silent_since(a_snapshot(a_host("h1")), {"h1": NOW - 30}))

    assert (silent.memory.silent_since, again.memory.silent_since) == ({"h1": NOW}, {"h1": None})

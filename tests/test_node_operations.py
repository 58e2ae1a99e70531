"""Restarting and reimaging machines for callers: planned, journalled and paused like every action, only where no job
can run, once, and reported truthfully.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from autoscaler.core.policy import CircuitBreaker
from autoscaler.engine.loop import Loop
from autoscaler.providers.fake import FakeProvider, FakeSettings
from autoscaler.providers.interface import ProviderError, Refused, Unreachable
from autoscaler.report.explain import explain_host
from autoscaler.report.explain_lines import host_lines
from autoscaler.store.overrides import Verb
from tests.simulated.autoscaler import POLICY, TAG, World, start
from tests.simulated.cluster import SCHEDULE_INTERVAL


class Operating(FakeProvider):
    """A provider with further verbs."""

    fails: ProviderError | None = None

    def __init__(self, world: World) -> None:
        super().__init__(FakeSettings(), cell=TAG, cloud=world.cloud)
        self.operated: list[tuple[str, str]] = []

    def operate(self, worker_id: str, verb: str) -> None:
        self.operated.append((worker_id, verb))
        if self.fails is not None:
            raise self.fails


@dataclass
class Case:
    """A worker that a person has disabled, and a request to restart it."""

    world: World
    provider: Operating = field(init=False)
    loop: Loop = field(init=False)
    worker: str = ""
    host: str = ""

    def __post_init__(self) -> None:
        self.provider = Operating(self.world)
        self.again()
        self.world.cluster.submit()
        self.until(lambda: bool(self.world.cluster.jobs[0].starts))
        self.host = self.world.cluster.jobs[0].starts[0]
        (self.worker,) = (machine.id for machine in self.world.cloud.living(TAG))
        self.until(lambda: self.world.cluster.jobs[0].ended)
        self.disable()
        self.ask()

    def again(self) -> None:
        """Replace the process by another one."""
        self.loop = start(self.world, provider=self.provider)

    def disable(self) -> None:
        self.world.cluster.disabled.add(self.host)

    def enable(self) -> None:
        self.world.cluster.disabled.discard(self.host)

    def ask(self, verb: str = "restart") -> bool:
        return self.loop.store.node_operations.ask(verb, self.worker, at=self.world.clock.now, who="anna")

    def until(self, seen: Callable[[], bool]) -> None:
        for _ in range(60):
            if seen():
                return
            self.passes(1)
        raise AssertionError("it did not come to that")

    def passes(self, count: int, apart: float = SCHEDULE_INTERVAL) -> str:
        """Make this many passes; returns the result of the operation so far."""
        for _ in range(count):
            self.last = self.loop.pass_once()
            self.world.cluster.advance(apart)
        return self.loop.store.node_operations.last(self.worker)

    def journal(self) -> list[tuple[str, str]]:
        rows = self.loop.store.database.rows(
            "SELECT kind, result FROM actions WHERE kind IN ('restart', 'reimage') ORDER BY id"
        )
        return [(row["kind"], row["result"]) for row in rows]


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(World(tmp_path / "store.sqlite", boot_delay=0.0))


def test_a_machine_is_restarted_after_two_observations_show_it_disabled_and_empty(case: Case) -> None:
    assert (case.passes(4), case.provider.operated) == ("done", [(case.worker, "restart")])


def test_a_paused_autoscaler_restarts_nothing_until_resumed(case: Case) -> None:
    case.loop.store.overrides.ask(Verb.PAUSE, who="ben", at=case.world.clock.now)
    case.passes(5)
    paused = list(case.provider.operated)
    case.loop.store.overrides.end(Verb.PAUSE, who="ben", at=case.world.clock.now)
    case.passes(1)
    assert (paused, case.provider.operated) == ([], [(case.worker, "restart")])


def test_the_circuit_breaker_prevents_a_restart(case: Case) -> None:
    memory = case.loop.store.memory.load()
    removals = tuple(replace(event, at=case.world.clock.now) for event in memory.launches) * 5
    case.loop.store.memory.save(replace(memory, removals=removals), case.world.clock.now)
    case.loop.observer.policy = replace(POLICY, circuit_breaker=CircuitBreaker(max_removals=1))
    case.passes(5)
    assert case.provider.operated == []


@pytest.mark.parametrize("seen", ("one observation", "enabled again", "a job came"))
def test_nothing_is_restarted_where_a_job_may_run(case: Case, seen: str) -> None:
    if seen == "one observation":
        case.passes(1)
    elif seen == "enabled again":
        case.passes(1)
        case.enable()
        case.passes(3)
    else:
        case.enable()
        case.world.cluster.submit()
        case.world.cluster.advance(SCHEDULE_INTERVAL)
        case.disable()
        case.passes(3)
    assert case.provider.operated == []


def test_two_observations_close_together_count_as_one(case: Case) -> None:
    case.passes(2, apart=0.5)
    assert case.provider.operated == []


def test_the_second_observation_does_not_wait_for_the_poll(case: Case) -> None:
    at = case.world.clock.now
    case.passes(1)
    assert case.last.plan.due == at + SCHEDULE_INTERVAL


def test_a_machine_enabled_again_is_reported_and_not_restarted_later(case: Case) -> None:
    case.passes(1)
    case.enable()
    case.passes(1)
    case.disable()
    assert (case.passes(3), case.provider.operated) == ("not done: it is not disabled and empty any more", [])


def test_an_operation_on_a_machine_that_is_gone_is_refused(case: Case) -> None:
    case.loop.store.node_operations.ask("restart", "i-gone", at=0.0, who="anna")
    case.passes(1)
    assert case.loop.store.node_operations.last("i-gone") == "not done: it is not disabled and empty any more"


@pytest.mark.parametrize(
    ("error", "result"), ((Refused("no such node"), "refused"), (Unreachable("no answer"), "failed")), ids=repr
)
def test_a_refusal_is_reported_in_the_words_of_the_provider(case: Case, error: ProviderError, result: str) -> None:
    case.provider.fails = error
    assert (case.passes(4), case.journal()) == (f"not done: {error}", [("restart", result)])


def test_a_provider_without_the_verb_is_asked_once(case: Case) -> None:
    case.loop = start(case.world)
    assert (case.passes(5), case.journal()) == ("not done: fake has no restart", [("restart", "refused")])


def test_the_operation_is_journalled_and_its_result_logged(case: Case, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "autoscaler.engine.loop")
    case.passes(4)
    assert (case.journal(), caplog.messages) == ([("restart", "done")], [f"restart {case.host}: done"])


def explained(case: Case) -> dict[str, Any]:
    explanation = explain_host(case.last.observation.snapshot, case.last.plan, case.host, UTC)
    assert explanation is not None
    return explanation


def test_explain_shows_who_requested_it_and_what_prevents_it(case: Case) -> None:
    case.loop.store.overrides.ask(Verb.PAUSE, who="ben", at=case.world.clock.now)
    case.passes(3)
    explanation = explained(case)
    lines = "\n".join(host_lines(explanation))
    assert (explanation["verdict"], "anna asked to restart it" in lines, "paused by ben" in lines) == (
        "wait",
        True,
        True,
    )


def test_explain_shows_the_restart_of_this_pass(case: Case) -> None:
    case.passes(2)
    explanation = explained(case)
    assert (explanation["verdict"], [action["kind"] for action in explanation["actions"]]) == ("restart", ["restart"])


def test_an_operation_begun_before_a_crash_is_not_repeated(case: Case) -> None:
    case.loop.store.node_operations.begin("restart", case.worker, case.world.clock.now)
    case.again()
    assert (case.passes(4), case.provider.operated) == ("interrupted: it may have been done, or not", [])


def test_an_operation_planned_but_not_begun_before_a_crash_is_carried_out(case: Case) -> None:
    case.passes(1)
    planned = case.loop.decide(case.loop.observer.observe().snapshot)
    case.loop.store.accept(planned, pass_number=99, at=case.world.clock.now)
    case.again()
    case.passes(3)
    assert (case.provider.operated, case.journal()) == (
        [(case.worker, "restart")],
        [("restart", "interrupted"), ("restart", "done")],
    )


def test_an_operation_in_progress_is_not_repeated(case: Case) -> None:
    case.passes(1)
    case.loop.store.node_operations.begin("restart", case.worker, case.world.clock.now)
    case.passes(3)
    assert (case.provider.operated, case.journal()) == ([], [])


def test_a_machine_takes_one_operation_at_a_time(case: Case) -> None:
    before = case.ask("reimage")
    case.passes(4)
    assert (before, case.ask("reimage")) == (False, True)
    case.passes(4)
    assert [verb for _, verb in case.provider.operated] == ["restart", "reimage"]

"""Asking autoscale policies: their answers become request sets, and the loop continues whatever they do."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pytest

from autoscaler.background import Value
from autoscaler.core.model.request_sets import RequestSet, Target
from autoscaler.core.snapshot import Snapshot
from autoscaler.policies.interface import Arrays, Past
from autoscaler.policies.policy_requests import RENEWED, VALID, Policies
from autoscaler.providers.settings import ExtensionSettings
from autoscaler.store.store import Store
from tests.core.building import NOW, a_snapshot
from tests.deadlines import Deadline, stretched
from tests.simulated.executor import at_once

HANGS = 120.0
"""Seconds that a policy hangs which nobody lets go."""
TWO = [{"Name": "execute", "TargetCount": 2}]
THREE = [{"Name": "execute", "TargetCount": 3}]


@dataclass
class Scripted:
    """A policy that gives these answers; an exception is raised."""

    answers: Iterator[Any]
    name: ClassVar[str] = "scripted"
    Settings: ClassVar[type[ExtensionSettings]] = ExtensionSettings

    def requests(self, snapshot: Snapshot, past: Past) -> Arrays:
        answer = next(self.answers)
        if isinstance(answer, BaseException):
            raise answer
        return answer  # type: ignore[no-any-return]


@dataclass
class Later:
    """An executor whose calls end when a test ends them."""

    calls: list[Callable[[], None]] = field(default_factory=list)

    def __call__(self, call: Callable[[], Value], name: str) -> Future[Value]:
        future: Future[Value] = Future()
        self.calls.append(lambda: future.set_result(call()))
        return future


@dataclass
class Bench:
    """A store, a policy and a clock."""

    answers: list[Any]
    executor: Any = at_once
    now: float = NOW
    rung: int = 0
    store: Store = field(default_factory=lambda: Store.open(None))

    def __post_init__(self) -> None:
        policy = Scripted(iter(self.answers))
        self.policies = Policies({"scripted": policy}, self.store, deadline=10.0, on_late=self._ring, patience=0.0)
        self.policies.executor, self.policies.stopwatch = self.executor, lambda: self.now

    def _ring(self) -> None:
        self.rung += 1

    def snapshot(self) -> Snapshot:
        return replace(a_snapshot(now=self.now), requests=self.store.requests.load(self.now))

    def ask(self, after: float = 0.0) -> Snapshot:
        self.now += after
        snapshot = self.snapshot()
        return self.policies.ask(snapshot, snapshot.policy)

    def wanted(self, after: float = 0.0) -> int | None:
        """The target of the policy's set in the snapshot; None: no set."""
        sets = [one for one in self.ask(after).requests.sets if one.name == "policy:scripted"]
        return sum(target.count or 0 for one in sets for target in one.targets) if sets else None


def test_the_request_of_a_policy_is_in_the_snapshot_of_the_same_pass() -> None:
    (one,) = Bench([TWO]).ask().requests.sets
    assert one == RequestSet("policy:scripted", "policy", NOW, NOW + VALID, (Target("execute", 2),), ("execute",))


def test_a_node_array_defined_by_a_policy_is_in_force_at_once() -> None:
    own = [{"Name": "buffer", "Dynamic": True, "Extends": "execute", "TargetCount": 1}]
    assert [array.name for array in Bench([own]).ask().policy.node_arrays] == ["execute", "buffer"]


def test_the_newest_answer_replaces_the_previous_one() -> None:
    bench = Bench([TWO, THREE, []])
    assert [bench.wanted(10), bench.wanted(10), bench.wanted(10)] == [2, 3, None]


def test_an_unchanged_answer_is_renewed_before_it_lapses() -> None:
    bench = Bench([TWO] * 100)
    assert {bench.wanted(20) for _ in range(100)} == {2}


def test_an_unchanged_answer_is_not_written_in_every_pass() -> None:
    bench = Bench([TWO] * 7)
    written = {bench.ask(10).requests.sets[0].at for _ in range(7)}
    assert len(written) == 70 // RENEWED + 1


def test_an_empty_answer_writes_nothing() -> None:
    bench = Bench([[]] * 3)
    before = bench.store.database.rows("SELECT total_changes()")[0][0]
    assert ([bench.ask(10).requests.sets for _ in range(3)], before) == (
        [()] * 3,
        bench.store.database.rows("SELECT total_changes()")[0][0],
    )


@pytest.mark.parametrize(
    "broken",
    (
        ZeroDivisionError("division by zero"),
        NotImplementedError(),
        None,
        {"Name": "execute"},
        [{"Name": "execute", "TargetCount": -1}],
        [{"Name": "unknown", "TargetCount": 1}],
        [{"Name": "execute", "TargetCount": 1, "Configuration": {"a": object()}}],
    ),
)
def test_a_failing_policy_is_logged_once_and_its_request_lapses(broken: Any, caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench([TWO, *[broken] * 40, THREE])
    results = [bench.wanted(10) for _ in range(41)]
    held = results.index(None)
    assert (results, len(caplog.records)) == ([2] * held + [None] * (41 - held), 1)
    assert 10 * (held - 1) < VALID <= 10 * held
    assert bench.wanted() == 3


def test_a_policy_that_answers_again_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    bench = Bench([OSError("no\nbroker"), OSError("still none"), TWO])
    for _ in range(3):
        bench.ask(10)
    assert caplog.messages == [
        "the autoscale policy scripted fails; its last request lapses soon: OSError: no broker",
        "the autoscale policy scripted answers again",
    ]


def test_a_late_answer_wakes_the_loop_and_counts_in_the_next_pass() -> None:
    later = Later()
    bench = Bench([TWO], later)
    first = bench.wanted()
    later.calls[0]()
    assert (first, bench.rung, bench.wanted(2)) == (None, 1, 2)


def test_an_unchanged_late_answer_does_not_wake_the_loop() -> None:
    later = Later()
    bench = Bench([TWO, TWO], later)
    bench.ask()
    later.calls[0]()
    bench.ask(2)
    bench.ask(2)
    later.calls[1]()
    assert (bench.rung, bench.wanted(2)) == (1, 2)


def test_a_hanging_policy_is_logged_once_gets_no_second_thread_and_its_request_lapses(
    caplog: pytest.LogCaptureFixture,
) -> None:
    later = Later()
    bench = Bench([TWO, THREE], later)
    bench.ask()
    later.calls[0]()
    results = [bench.wanted(10) for _ in range(50)]
    assert (results[0], results[-1], len(later.calls), len(caplog.records)) == (2, None, 2, 1)


def test_an_outdated_answer_is_ignored() -> None:
    later = Later()
    bench = Bench([TWO, THREE], later)
    bench.ask()
    bench.ask(60)
    later.calls[0]()
    stale = bench.wanted(1)
    bench.ask(1)
    later.calls[1]()
    assert (stale, bench.wanted(1)) == (None, 3)


def test_a_real_hang_delays_a_pass_only_briefly() -> None:
    class Hanging(Scripted):
        def requests(self, snapshot: Snapshot, past: Past) -> Arrays:
            ended.wait(HANGS)
            return []

    ended, bench = threading.Event(), Bench([])
    policies = Policies({"hanging": Hanging(iter(()))}, bench.store, patience=0.05)
    began = policies.stopwatch()
    policies.ask(bench.snapshot(), bench.snapshot().policy)
    ended.set()
    assert policies.stopwatch() - began < HANGS / 2


def test_a_slow_policy_delays_only_one_pass() -> None:
    class Slow(Scripted):
        def requests(self, snapshot: Snapshot, past: Past) -> Arrays:
            slow.wait(HANGS)
            return THREE

    slow, bench = threading.Event(), Bench([])
    policies = Policies({"slow": Slow(iter(()))}, bench.store, patience=(patience := stretched(1.0)))
    spent = []
    for _ in range(4):
        began = policies.stopwatch()
        policies.ask(bench.snapshot(), bench.snapshot().policy)
        spent.append(policies.stopwatch() - began)
    slow.set()
    assert (spent[0] >= patience, sum(spent[1:]) < patience) == (True, True)


def test_a_policy_that_becomes_fast_is_waited_for_again() -> None:
    class Waking(Scripted):
        def requests(self, snapshot: Snapshot, past: Past) -> Arrays:
            slow.wait(HANGS)
            return THREE

    slow, bench = threading.Event(), Bench([])
    policies = Policies({"waking": Waking(iter(()))}, bench.store, patience=0.3)
    for _ in range(2):
        policies.ask(bench.snapshot(), bench.snapshot().policy)
    slow.set()
    limit = Deadline(10)
    while policies._slow and not limit.over():
        policies.ask(bench.snapshot(), bench.snapshot().policy)
    assert policies._slow == set()


def test_a_failing_policy_does_not_disturb_another() -> None:
    bench = Bench([])
    good, bad = Scripted(iter([TWO])), Scripted(iter([ValueError("no")]))
    policies = Policies({"bad": bad, "good": good}, bench.store, executor=at_once, patience=0.0)
    snapshot = bench.snapshot()
    assert [one.name for one in policies.ask(snapshot, snapshot.policy).requests.sets] == ["policy:good"]


def test_the_request_of_a_removed_policy_ends_and_other_sets_stay() -> None:
    bench = Bench([[]])
    for name in ("policy:old", "ours"):
        bench.store.requests.update(name, "ann", NOW, None, (Target("execute", 1),), ())
    assert [one.name for one in bench.ask().requests.sets] == ["ours"]


def test_a_policy_sees_the_history() -> None:
    class Looking(Scripted):
        def requests(self, snapshot: Snapshot, past: Past) -> Arrays:
            seen = past.samples(snapshot.now - 3600)
            return [{"Name": "execute", "TargetCount": round(max(one.waiting for one in seen))}]

    bench = Bench([])
    bench.store.samples.add(replace(_sample(), waiting=7), NOW - 10)
    policies = Policies({"looking": Looking(iter(()))}, bench.store, executor=at_once)
    snapshot = bench.snapshot()
    (one,) = policies.ask(snapshot, snapshot.policy).requests.sets
    assert one.targets == (Target("execute", 7),)


def _sample() -> Any:
    from autoscaler.core.outcome.sample import Sample

    return Sample(NOW - 100)


def test_a_policy_that_names_another_cluster_requests_nothing(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench([[{**TWO[0], "ClusterName": "other"}], [{**TWO[0], "ClusterName": "ours"}]])
    bench.policies.cluster = "ours"
    found = []
    for _ in range(2):
        bench.policies.ask(bench.snapshot(), bench.snapshot().policy)
        found.append(len(bench.store.requests.load(bench.now).sets))
        bench.now += 1
    assert found == [0, 1]
    assert "this is cluster ours" in caplog.text

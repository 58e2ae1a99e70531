"""Workers of groups are enrolled with their group, and its objects in Grid Engine are removed with its last host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from autoscaler.core.actions import Disable, Remove
from autoscaler.engine.actor import SWEEP_ANYWAY, SWEEP_EVERY
from autoscaler.errors import GridEngineNotObservable, GridEngineRefused
from autoscaler.store.journal import Result
from tests.act.test_actor import REASON, enrol
from tests.act.test_launch import Bench, launch

REFUSAL = 'denied: Parallel environment "mpi_execute_4-1" is still referenced in job 6.'


@dataclass
class FakeGroups:
    """Records the calls of `autoscaler.sge.groups`, and gives a prepared answer."""

    calls: list[tuple[object, ...]] = field(default_factory=list)
    left: tuple[str, ...] = ()
    error: Exception | None = None
    swept: bool = False

    def prepare(self, group: str, *, queue: str, host_group: str, pes: Sequence[str]) -> str:
        self.calls.append(("prepare", group, queue, host_group, tuple(pes)))
        if self.error is not None:
            raise self.error
        return "@sge-autoscaler-execute_4-1"

    def clear(self, group: str) -> tuple[str, ...]:
        self.calls.append(("clear", group))
        if self.error is not None:
            raise self.error
        return self.left

    def sweep(self) -> tuple[str, ...]:
        self.calls.append(("sweep",))
        if self.error is not None:
            raise self.error
        self.swept = not self.left
        return self.left


@pytest.fixture
def groups() -> FakeGroups:
    return FakeGroups(swept=True)


@pytest.fixture
def bench(tmp_path: Path, groups: FakeGroups) -> Bench:
    """Two workers of one group, none enrolled."""
    bench = Bench(tmp_path)
    bench.groups = groups
    bench.restart()
    bench.act(replace(launch("m5.large"), node_array="execute:4", group_id="execute:4-1"))
    return bench


MEMBER = replace(enrol("fake-000001", "fake-1"), group_id="execute:4-1", group_pes=("mpi",))


def test_a_worker_of_a_group_joins_its_host_group_and_gets_the_complex_group_id(
    bench: Bench, groups: FakeGroups
) -> None:
    bench.act(MEMBER)

    joined = [call[-2:] for call in bench.grid_engine.calls if call[1:4] == ("-aattr", "hostgroup", "hostlist")]
    assert groups.calls == [("prepare", "execute:4-1", "main.q", "@allhosts", ("mpi",))]
    assert joined == [("fake-1", "@sge-autoscaler-execute_4-1"), ("fake-1", "@allhosts")]
    assert bench.grid_engine.hosts["fake-1"] == "slots=2,group_id=execute:4-1"


def test_a_worker_enrolled_by_its_image_gets_its_group_and_is_disabled(bench: Bench, groups: FakeGroups) -> None:
    bench.act(enrol("fake-000001", "fake-1"))

    (outcome,) = bench.act(replace(MEMBER, joined=True, slots=4))

    assert (outcome.result, groups.calls[-1][:2]) == (Result.DONE, ("prepare", "execute:4-1"))
    assert bench.grid_engine.hosts["fake-1"] == "slots=2,group_id=execute:4-1"
    assert "fake-1" in bench.grid_engine.disabled


def test_a_worker_whose_group_cannot_be_created_does_not_join(bench: Bench, groups: FakeGroups) -> None:
    groups.error = GridEngineRefused("denied: no such PE")

    (outcome,) = bench.act(MEMBER)

    assert (outcome.result, outcome.message) == (Result.REFUSED, "denied: no such PE")
    assert not bench.grid_engine.hosts


def test_a_worker_without_a_group_joins_without_group_objects(bench: Bench, groups: FakeGroups) -> None:
    bench.act(enrol("fake-000001", "fake-1"))

    assert groups.calls == []
    assert bench.grid_engine.hosts["fake-1"] == "slots=2"


@pytest.mark.parametrize("grouped", (True, False))
def test_workers_that_are_enrolled_at_once_have_the_objects_of_their_group_or_none(
    bench: Bench, groups: FakeGroups, grouped: bool
) -> None:
    one, other = MEMBER if grouped else enrol("fake-000001", "fake-1"), enrol("fake-000002", "fake-2")
    bench.act(one, replace(one, worker_id=other.worker_id, host=other.host))

    wanted = "slots=2,group_id=execute:4-1" if grouped else "slots=2"
    assert bench.grid_engine.hosts == {"fake-1": wanted, "fake-2": wanted}
    assert groups.calls == ([("prepare", "execute:4-1", "main.q", "@allhosts", ("mpi",))] if grouped else [])


def test_removing_a_worker_of_a_group_clears_the_group_objects(bench: Bench, groups: FakeGroups) -> None:
    groups.left = (REFUSAL,)
    bench.act(MEMBER)

    (outcome,) = bench.act(Remove("fake-000001", "fake-1", REASON))

    assert (outcome.result, outcome.message) == (Result.DONE, REFUSAL)
    assert groups.calls[-1] == ("clear", "execute:4-1")


def test_a_removal_is_done_even_if_its_group_cannot_be_cleared(bench: Bench, groups: FakeGroups) -> None:
    bench.act(MEMBER)
    groups.error = GridEngineNotObservable("no answer")

    (outcome,) = bench.act(Remove("fake-000001", "fake-1", REASON))

    assert outcome.result is Result.DONE


def test_leftover_group_objects_are_swept_again_after_the_interval(bench: Bench, groups: FakeGroups) -> None:
    groups.swept, groups.left = False, (REFUSAL,)
    for wait in (0.0, 1.0, SWEEP_EVERY, 1.0):
        bench.now += wait
        bench.act(Disable("fake-000001", "fake-1", REASON))

    assert groups.calls == [("sweep",)] * 2


def test_a_new_process_sweeps_once(bench: Bench, groups: FakeGroups) -> None:
    groups.swept = False
    for _ in range(3):
        bench.now += SWEEP_EVERY
        bench.act(Disable("fake-000001", "fake-1", REASON))

    assert groups.calls == [("sweep",)]


def test_group_objects_are_swept_every_ten_minutes_anyway(bench: Bench, groups: FakeGroups) -> None:
    for wait in (SWEEP_ANYWAY - 1, 1.0, 1.0):
        bench.now += wait
        bench.act(Disable("fake-000001", "fake-1", REASON))

    assert groups.calls == [("sweep",)]

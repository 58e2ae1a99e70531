"""Workers of groups join Grid Engine as such, and what Grid Engine has of a group goes with its last host."""

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
class Kept:
    """What is asked of `sge.groups`, and the answer that it gives."""

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
def kept() -> Kept:
    return Kept(swept=True)


@pytest.fixture
def bench(tmp_path: Path, kept: Kept) -> Bench:
    """Two workers of one group, none enrolled."""
    bench = Bench(tmp_path)
    bench.groups = kept
    bench.restart()
    bench.act(replace(launch("m5.large"), node_array="execute:4", group_id="execute:4-1"))
    return bench


MEMBER = replace(enrol("fake-000001", "fake-1"), group_id="execute:4-1", group_pes=("mpi",))


def test_a_worker_of_a_group_joins_its_host_group_and_says_so_to_jobs(bench: Bench, kept: Kept) -> None:
    bench.act(MEMBER)

    joined = [call[-2:] for call in bench.grid_engine.calls if call[1:4] == ("-aattr", "hostgroup", "hostlist")]
    assert kept.calls == [("prepare", "execute:4-1", "main.q", "@allhosts", ("mpi",))]
    assert joined == [("fake-1", "@sge-autoscaler-execute_4-1"), ("fake-1", "@allhosts")]
    assert bench.grid_engine.hosts["fake-1"] == "slots=2,group_id=execute:4-1"


def test_a_worker_whose_image_made_it_a_host_gets_its_group_besides_what_it_has(bench: Bench, kept: Kept) -> None:
    bench.act(enrol("fake-000001", "fake-1"))

    (outcome,) = bench.act(replace(MEMBER, joined=True, slots=4))

    assert (outcome.result, kept.calls[-1][:2]) == (Result.DONE, ("prepare", "execute:4-1"))
    assert bench.grid_engine.hosts["fake-1"] == "slots=2,group_id=execute:4-1"
    assert "fake-1" in bench.grid_engine.disabled


def test_a_worker_whose_group_cannot_be_made_does_not_join(bench: Bench, kept: Kept) -> None:
    kept.error = GridEngineRefused("denied: no such PE")

    (outcome,) = bench.act(MEMBER)

    assert (outcome.result, outcome.message) == (Result.REFUSED, "denied: no such PE")
    assert not bench.grid_engine.hosts


def test_a_worker_of_no_group_joins_as_ever(bench: Bench, kept: Kept) -> None:
    bench.act(enrol("fake-000001", "fake-1"))

    assert kept.calls == []
    assert bench.grid_engine.hosts["fake-1"] == "slots=2"


def test_what_grid_engine_has_of_a_group_is_cleared_when_a_host_of_it_went(bench: Bench, kept: Kept) -> None:
    kept.left = (REFUSAL,)
    bench.act(MEMBER)

    (outcome,) = bench.act(Remove("fake-000001", "fake-1", REASON))

    assert (outcome.result, outcome.message) == (Result.DONE, REFUSAL)
    assert kept.calls[-1] == ("clear", "execute:4-1")


def test_a_removal_is_done_though_its_group_could_not_be_cleared(bench: Bench, kept: Kept) -> None:
    bench.act(MEMBER)
    kept.error = GridEngineNotObservable("no answer")

    (outcome,) = bench.act(Remove("fake-000001", "fake-1", REASON))

    assert outcome.result is Result.DONE


def test_what_is_left_of_groups_is_tried_again_now_and_then(bench: Bench, kept: Kept) -> None:
    kept.swept, kept.left = False, (REFUSAL,)
    for wait in (0.0, 1.0, SWEEP_EVERY, 1.0):
        bench.now += wait
        bench.act(Disable("fake-000001", "fake-1", REASON))

    assert kept.calls == [("sweep",)] * 2


def test_a_new_process_sweeps_once(bench: Bench, kept: Kept) -> None:
    kept.swept = False
    for _ in range(3):
        bench.now += SWEEP_EVERY
        bench.act(Disable("fake-000001", "fake-1", REASON))

    assert kept.calls == [("sweep",)]


def test_what_a_person_may_have_left_of_groups_is_looked_for_every_ten_minutes(bench: Bench, kept: Kept) -> None:
    for wait in (SWEEP_ANYWAY - 1, 1.0, 1.0):
        bench.now += wait
        bench.act(Disable("fake-000001", "fake-1", REASON))

    assert kept.calls == [("sweep",)]

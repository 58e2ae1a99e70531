"""An orphan is terminated only if Grid Engine removes its host, and every refusal leaves it as it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.core.model.reasons import Code, because
from autoscaler.core.recovery.orphans import Orphan
from autoscaler.engine.end_orphan import EndOrphanContext, end_orphan
from autoscaler.errors import GridEngineRefused
from autoscaler.sge.admin import Administrator
from tests.act.test_actor import enrol
from tests.act.test_launch import Bench, launch

WHY = because(Code.UNKNOWN_NODE_ARRAY, node_array="former")
ID = "fake-000001"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """One worker, enrolled and enabled."""
    bench = Bench(tmp_path)
    bench.act(launch("m5.large", count=1))
    bench.act(enrol(ID, "fake-1"))
    Administrator(bench.grid_engine).enable("fake-1")
    return bench


def the_orphan(bench: Bench, **changes: object) -> Orphan:
    orphan = Orphan(bench.listing()[0], "fake-1", busy=False, enabled=("main.q",), reason=WHY)
    return replace(orphan, **changes)  # type: ignore[arg-type]


def end(bench: Bench, orphan: Orphan, later: Orphan | None) -> None:
    def observe_again() -> Orphan | None:
        assert not bench.grid_engine.can_start_jobs("fake-1"), "it is disabled before it is observed again"
        return later

    end_orphan(orphan, EndOrphanContext(Administrator(bench.grid_engine), bench.provider, observe_again))


def living(bench: Bench) -> list[str]:
    return [machine.id for machine in bench.cloud.living("tag")]


def test_an_orphan_is_removed_from_grid_engine_and_terminated(bench: Bench) -> None:
    orphan = the_orphan(bench)
    assert (len(bench.grid_engine.hosts), len(living(bench))) == (1, 1)
    end(bench, orphan, orphan)
    assert (list(bench.grid_engine.hosts), living(bench)) == ([], [])


def test_an_orphan_without_a_host_is_only_terminated(bench: Bench) -> None:
    before = list(bench.grid_engine.hosts)
    end(bench, the_orphan(bench, host=None), None)
    assert (list(bench.grid_engine.hosts), living(bench)) == (before, [])


def test_an_orphan_that_runs_jobs_is_not_changed(bench: Bench) -> None:
    with pytest.raises(GridEngineRefused, match="runs jobs"):
        end(bench, the_orphan(bench, busy=True), None)
    assert (bench.grid_engine.can_start_jobs("fake-1"), living(bench)) == (True, [ID])


@pytest.mark.parametrize("later", ("busy", "elsewhere", "gone"))
def test_an_orphan_that_changed_at_the_second_observation_is_enabled_again(bench: Bench, later: str) -> None:
    orphan = the_orphan(bench)
    seen = {"busy": replace(orphan, busy=True), "elsewhere": replace(orphan, host="fake-2"), "gone": None}[later]
    with pytest.raises(GridEngineRefused):
        end(bench, orphan, seen)
    assert (bench.grid_engine.can_start_jobs("fake-1"), living(bench)) == (True, [ID])


def test_an_orphan_whose_removal_is_refused_is_restored_and_enabled(bench: Bench) -> None:
    bench.grid_engine.busy.add("fake-1")
    orphan = the_orphan(bench)
    with pytest.raises(GridEngineRefused, match="still referenced"):
        end(bench, orphan, orphan)
    assert (bench.grid_engine.can_start_jobs("fake-1"), bench.grid_engine.slots, living(bench)) == (
        True,
        {"fake-1": 2},
        [ID],
    )


def test_an_orphan_that_a_person_had_disabled_stays_disabled(bench: Bench) -> None:
    bench.grid_engine.busy.add("fake-1")
    orphan = the_orphan(bench, enabled=())
    with pytest.raises(GridEngineRefused):
        end(bench, orphan, orphan)
    assert not bench.grid_engine.can_start_jobs("fake-1")

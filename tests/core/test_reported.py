"""What workers of a type report corrects what launches expect of the type, for a day or until a person retries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.actions import Launch
from autoscaler.core.capacity.reported_values import FORGOTTEN_AFTER
from autoscaler.core.model.fleet import MachineState
from autoscaler.core.model.memory import Memory, ReportedType
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.plan import plan
from autoscaler.report.wording import text
from autoscaler.store import encoding
from tests.core.building import NOW, AWorker, a_host, a_job, a_machine, a_snapshot, a_worker, an_order, category_of

LOAD = {"arch": "lx-amd64", "num_proc": "2", "mem_total": "7.5G", "mem_free": "7.2G"}


def a_joined_worker(used: int = 0, heard: bool = True, **load: str) -> AWorker:
    """An m5.large, which is sold with 8 GB."""
    return a_worker("w1", host=a_host("w1", slots=2, used=used, heard=heard, load={**LOAD, **load}))


def learnt(*things: Any) -> dict[str, str | None]:
    made = plan(a_snapshot(*things))
    return dict(made.memory.reported[0].values) if made.memory.reported else {}


def known(at: float = NOW - 60, **values: str | None) -> Memory:
    return Memory(passes=7, reported=(ReportedType("m5.large", "execute", tuple(values.items()), at),))


def types(*things: Any) -> list[str]:
    made = plan(a_snapshot(*things, hybrid=True))
    launches = [action for action in made.actions if isinstance(action, Launch)]
    return [launch.candidates[0].buckets[0].type.name for launch in launches]


NEEDS = a_job(2, hard={"mem_total": "7.8G"})


def test_a_job_too_large_for_what_a_types_worker_reported_gets_a_larger_type() -> None:
    assert types(NEEDS) == ["m5.large"]
    assert types(NEEDS, a_joined_worker()) == ["m5.xlarge"]


def test_reported_values_are_remembered_when_the_worker_is_gone() -> None:
    kept = plan(a_snapshot(NEEDS, a_joined_worker())).memory
    (reported,) = encoding.read(encoding.write(kept), Memory).reported
    assert types(NEEDS, Memory(passes=7, reported=(reported,))) == ["m5.xlarge"]


def test_a_value_that_a_types_hosts_lack_is_not_expected_again() -> None:
    lacking = {name: text for name, text in LOAD.items() if name != "mem_total"}
    shown = replace(a_joined_worker(), host=a_host("w1", slots=2, load=lacking))
    assert learnt(shown)["mem_total"] is None
    assert types(NEEDS, known(mem_total=None)) == ["m5.xlarge"]


@pytest.mark.parametrize("overrides", (Overrides(resumed_at=NOW - 30), Overrides(retried_at=NOW - 30)))
def test_reported_values_are_forgotten_after_a_day_or_a_retry_or_resume(overrides: Overrides) -> None:
    assert types(NEEDS, known(mem_total="7.5G")) == ["m5.xlarge"]
    assert types(NEEDS, known(mem_total="7.5G"), overrides) == ["m5.large"]
    assert types(NEEDS, known(NOW - FORGOTTEN_AFTER, mem_total="7.5G")) == ["m5.large"]


def test_reported_values_of_another_array_do_not_apply() -> None:
    elsewhere = replace(known().reported[0], node_array="burst", values=(("mem_total", "1G"),))
    assert types(NEEDS, Memory(passes=7, reported=(elsewhere,))) == ["m5.large"]


@pytest.mark.parametrize("worker", (a_joined_worker(used=1), a_joined_worker(heard=False)))
def test_values_are_learnt_only_from_an_empty_reporting_worker(worker: AWorker) -> None:
    assert not learnt(worker)


def test_no_values_are_learnt_from_a_host_without_load_values() -> None:
    assert not learnt(a_worker("w1"))


def test_the_highest_free_memory_reported_is_remembered() -> None:
    assert learnt(a_joined_worker(mem_free="6G"), known(mem_free="7.2G"))["mem_free"] == "7.2G"
    assert learnt(a_joined_worker(mem_free="7.4G"), known(mem_free="7.2G"))["mem_free"] == "7.4G"


def test_reported_values_as_good_as_predicted_are_not_remembered() -> None:
    assert "mem_free" not in learnt(a_joined_worker(mem_free="8G"))
    assert "num_proc" not in learnt(a_joined_worker())


def test_the_reason_names_what_a_types_hosts_report_if_no_other_is_allowed() -> None:
    made = plan(a_snapshot(NEEDS, known(mem_total="7.5G", arch="odd")))
    shown = text(category_of(made, 2).reason)
    assert "m5.large could run no pending job: its hosts report mem_total=7.5G" in shown
    assert "odd" not in shown


# -- workers that are coming ---------------------------------------------------------------------------------------

SOON = a_machine("w9", state=MachineState.PENDING, age=5.0)


@pytest.mark.parametrize(
    ("asked", "reported"),
    (
        ({"mem_total": "8.5G"}, {"mem_total": "9G"}),
        ({"mem_free": "8.5G"}, {"mem_free": "9G"}),
    ),
)
@pytest.mark.parametrize("coming", (SOON, an_order(1)), ids=("booting", "ordered"))
def test_a_worker_launched_for_what_its_type_reported_is_not_launched_again(
    asked: dict[str, str], reported: dict[str, str], coming: Any
) -> None:
    job = a_job(2, hard=asked)
    learnt_before = known(NOW - 60, **reported)
    assert types(job, learnt_before) == ["m5.large"]
    assert types(job, learnt_before, coming) == []


@pytest.mark.parametrize("coming", (SOON, an_order(1)), ids=("booting", "ordered"))
def test_a_coming_worker_that_will_be_too_small_is_not_supply(coming: Any) -> None:
    assert types(NEEDS, coming) == []
    assert types(NEEDS, known(mem_total="7.5G"), coming) == ["m5.xlarge"]


@pytest.mark.parametrize("reported", ({"mem_free": "7G"}, {"mem_total": None}))
def test_values_learnt_after_a_launch_cause_no_second_launch(reported: dict[str, str | None]) -> None:
    job = a_job(2, hard=dict.fromkeys(reported, "7.8G"))
    learnt_before = known(NOW - 60, **reported)
    assert types(job, learnt_before) == ["m5.xlarge"]
    assert types(job, learnt_before, SOON) == []

"""Resource maps (RSMAP): consumables whose units have ids. The amount decides, and a host gets an id for each unit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.actions import Enrol
from autoscaler.core.model.cluster import Complex, Consumable
from autoscaler.core.model.complexes import amount, canonical
from autoscaler.core.model.fleet import InstanceType
from autoscaler.core.model.reasons import Code
from autoscaler.core.placement.amounts import configured
from autoscaler.core.plan import plan
from tests.core.building import (
    COMPLEXES,
    GIB,
    a_bucket,
    a_host,
    a_job,
    a_machine,
    a_snapshot,
    category_of,
    codes,
    jobs,
    launched,
    reason_code,
)

GPU = InstanceType("g4dn.12xlarge", "g4dn", 48, 192 * GIB, gpus=4)
MAPPED = {**COMPLEXES, "gpus": Complex("gpus", "gpu", "RSMAP", "<=", "YES", Consumable.PER_JOB, "NONE")}
WORLD: dict[str, Any] = {"instance_type": GPU.name, "gpu_complex": "gpus", "complexes": MAPPED}


@pytest.mark.parametrize(
    ("text", "value"),
    (
        ("2(0 1)", 2),
        ("2", 2),
        ("2.000000", 2),
        ("2 (gpu0 gpu1)", 2),
        ("4(0-3)", 4),
        ("2(gpu0[devices=/dev/nvidia0:rw;/dev/ctl:r,memory=80G] gpu1[memory=40G])", 2),
        ("2[same=id]", 2),
        ("0", 0),
        ("NONE", None),
        ("2(0 1", None),
        ("2)0 1(", None),
        ("(0 1)", None),
        ("two(0 1)", None),
        ("2(0 1)(2)x", None),
        ("1e400(0 1)", None),
    ),
)
def test_the_amount_of_a_resource_map_is_read(text: str, value: float | None) -> None:
    assert amount(text, "RSMAP") == value


def test_ids_do_not_change_the_amount_of_a_resource_map() -> None:
    assert {canonical(text, "RSMAP") for text in ("2", "2(0 1)", "2.000000", "2[same=id]")} == {"2"}


def test_ids_are_not_accepted_for_other_types() -> None:
    assert amount("2(0 1)", "INT") is None


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    (
        (2.0, "RSMAP", "2(0 1)"),
        (1, "RSMAP", "1(0)"),
        (0, "RSMAP", ""),
        (100, "RSMAP", "100(0-99)"),
        (float("inf"), "RSMAP", f"{10**18}(0-{10**18 - 1})"),
        (2, "INT", "2"),
    ),
)
def test_a_host_is_given_an_id_for_each_unit(value: float, kind: str, text: str) -> None:
    assert configured(value, kind) == text


def test_jobs_that_request_units_get_workers_that_have_them() -> None:
    made = plan(a_snapshot(jobs(3, hard={"gpu": "2"}), a_bucket(GPU), **WORLD))
    assert launched(made) == {GPU.name: 2}


@pytest.mark.parametrize(("pe", "workers"), (("mpi4", 4), ("mpi", 1)))
def test_per_host_units_are_taken_on_every_host_of_a_job(pe: str, workers: int) -> None:
    """`consumable HOST`. Two jobs of eight slots: `mpi4` puts each on two hosts, `mpi` each on one."""
    world = WORLD | {"complexes": {**MAPPED, "gpus": replace(MAPPED["gpus"], consumable=Consumable.PER_HOST)}}
    asked = {"mpi4": "4", "mpi": "2"}[pe]
    waiting = jobs(2, slots=8, pe=pe, hard={"gpu": asked})
    assert launched(plan(a_snapshot(waiting, a_bucket(GPU), **world))) == {GPU.name: workers}


def test_a_per_host_consumable_of_the_global_host_is_taken_once_a_job() -> None:
    """As Open Cluster Scheduler books it on the global host."""
    complexes = {**COMPLEXES, "lic": replace(COMPLEXES["lic"], consumable=Consumable.PER_HOST)}
    waiting = jobs(3, slots=8, pe="mpi4", hard={"lic": "1"})
    world = WORLD | {"complexes": complexes, "global_consumables": {"lic": "2"}}
    made = plan(a_snapshot(waiting, a_bucket(GPU), **world))
    assert (made.counted, made.waiting) == (2, 3)


def test_a_job_that_requests_more_a_host_than_any_type_has_gets_that_reason() -> None:
    world = WORLD | {"complexes": {**MAPPED, "gpus": replace(MAPPED["gpus"], consumable=Consumable.PER_HOST)}}
    made = plan(a_snapshot(a_job(slots=8, pe="mpi4", hard={"gpu": "5"}), a_bucket(GPU), **world))
    assert Code.TOO_MUCH_ON_ONE_HOST in codes(category_of(made).reason)


def test_free_units_on_a_host_are_used_before_a_launch() -> None:
    host = a_host(slots=8, consumables={"gpus": "3(1 2 3)"})
    made = plan(a_snapshot(jobs(2, hard={"gpu": "2"}), host, a_bucket(GPU), **WORLD))
    assert launched(made) == {GPU.name: 1}


@pytest.mark.parametrize("asked", ("2(gpu0 gpu1)", "2[same=id]"))
def test_ids_in_a_request_are_ignored_by_placement(asked: str) -> None:
    assert (
        reason_code(plan(a_snapshot(a_job(hard={"gpu": asked}), a_host(consumables={"gpus": "2"}), **WORLD)))
        is Code.FITS
    )


def test_an_unreadable_request_affects_only_its_job() -> None:
    odd, good = a_job(1, hard={"gpu": "2(0"}), a_job(2, hard={"gpu": "1"})
    made = plan(a_snapshot(odd, good, a_bucket(GPU), **WORLD))
    assert (reason_code(made, 1), launched(made)) == (Code.CANNOT_BE_READ, {GPU.name: 1})


@pytest.mark.parametrize(("gpus", "value"), ((4, {"gpus": "4(0 1 2 3)"}), (0, {})))
def test_a_worker_is_enrolled_with_ids_only_if_it_has_units(gpus: int, value: dict[str, str]) -> None:
    made = plan(a_snapshot(a_machine("w1", type_=replace(GPU, gpus=gpus)), **WORLD))
    (enrol,) = made.actions
    assert isinstance(enrol, Enrol)
    assert {name: text for name, text in enrol.complex_values if name == "gpus"} == value

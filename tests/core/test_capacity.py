"""What a machine offers: before it exists, when it is enrolled, and when it has joined."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoscaler.core.capacity.forecast import Forecast, PlacementResult
from autoscaler.core.model.cluster import Complex, Consumable, QueueInstance
from autoscaler.core.model.demand_vector import CategoryDemand, Demand
from autoscaler.core.model.fleet import InstanceType
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.placement.hosts import emptied_host, host_values_of, joined_host, slots_of
from autoscaler.core.placement.placement import OpenPlacement
from autoscaler.core.plan import plan
from autoscaler.core.policy import NodeArrayPolicy
from tests.core.building import COMPLEXES, GIB, LARGE, NOW, a_host, a_job, a_snapshot, launched, reason_code

ARRAY = NodeArrayPolicy("execute", "main.q", "@allhosts", "m5.large")
GPU = InstanceType("g4dn.xlarge", "g4dn", 4, 16 * GIB, gpus=1)
RAM = {**COMPLEXES, "ram": Complex("ram", "ram", "MEMORY", "<=", "YES", Consumable.PER_SLOT, "0")}


def in_host(name: str, *names: str, **host: object) -> object:
    found = joined_host(a_host(name, **host), COMPLEXES, frozenset(names))  # type: ignore[arg-type]
    return None if found is None else (dict(found.slots), dict(found.free), dict(found.properties), found.empty)


@pytest.mark.parametrize(("free_cores", "slots"), ((0, 2), (1, 1), (2, 2), (9, 2)))
def test_free_cores_are_kept_back_unless_none_would_be_left(free_cores: int, slots: int) -> None:
    assert slots_of(LARGE, replace(ARRAY, free_cores=free_cores)) == slots


def test_memory_is_offered_as_every_complex_that_means_memory() -> None:
    assert host_values_of(LARGE, ARRAY, RAM).consumables == (("h_vmem", 8 * GIB), ("ram", 8 * GIB))


def test_scratch_space_is_not_memory() -> None:
    assert "scratch" not in dict(host_values_of(LARGE, ARRAY, COMPLEXES).complex_values)


def test_the_memory_complex_is_configurable() -> None:
    offer = host_values_of(LARGE, replace(ARRAY, memory_complex="scratch"), COMPLEXES)
    assert dict(offer.complex_values)["scratch"] == "8G"


def test_gpus_are_offered_if_a_complex_is_set_for_them() -> None:
    offers = [
        dict(host_values_of(GPU, replace(ARRAY, gpu_complex=name), COMPLEXES).consumables) for name in ("gpus", None)
    ]
    assert [offer.get("gpus") for offer in offers] == [1, None]


def test_a_memory_size_that_is_not_a_round_number_stays_exact() -> None:
    odd = InstanceType("odd", "odd", 2, 7680 * 1024 * 1024)
    assert dict(host_values_of(odd, ARRAY, COMPLEXES).complex_values)["h_vmem"] == "7680M"


def test_load_values_of_a_future_worker_are_predicted() -> None:
    properties = host_values_of(LARGE, ARRAY, COMPLEXES).properties
    assert (properties["arch"], properties["num_proc"], properties["mem_total"]) == ("lx-amd64", "2", str(8 * GIB))


def test_unpredictable_load_values_are_not_offered() -> None:
    assert "m_topology" not in host_values_of(LARGE, ARRAY, COMPLEXES).properties


@pytest.mark.parametrize("letter", "aAudDEsSCco")
def test_a_queue_instance_with_any_state_letter_offers_nothing(letter: str) -> None:
    assert in_host("h1", states=letter) is None


def test_used_and_reserved_slots_are_not_free() -> None:
    assert in_host("h1", slots=8, used=2, reserved=3) == ({"main.q": 3}, {}, {}, False)


def test_each_enabled_queue_instance_offers_its_own_slots() -> None:
    more = (QueueInstance("big.q", "h1", 4, 1, 0), QueueInstance("shut.q", "h1", 4, 0, 0, "d"))
    assert in_host("h1", more=more) == ({"main.q": 2, "big.q": 3}, {}, {}, False)


def test_only_requested_complexes_are_read() -> None:
    values = {"consumables": {"h_vmem": "3G", "gpus": "1"}, "load": {"arch": "lx-amd64", "num_proc": "2.000000"}}
    assert in_host("h1", "h_vmem", "num_proc", **values) == (
        {"main.q": 2},
        {"h_vmem": 3 * GIB},
        {"num_proc": "2"},
        True,
    )


def test_the_rest_of_a_consumable_overrides_a_load_value() -> None:
    values = {"consumables": {"h_vmem": "3G"}, "load": {"h_vmem": "7G"}}
    assert in_host("h1", "h_vmem", **values) == ({"main.q": 2}, {"h_vmem": 3 * GIB}, {}, True)


def test_an_overdrawn_consumable_counts_as_0() -> None:
    assert in_host("h1", "h_vmem", consumables={"h_vmem": "-2G"}) == ({"main.q": 2}, {"h_vmem": 0}, {}, True)


def test_a_host_limits_its_slots_over_all_queues() -> None:
    assert in_host("h1", slots=8, consumables={"slots": "3.000000"}) == ({"main.q": 8}, {"slots": 3}, {}, True)


def test_an_emptied_host_has_the_consumables_of_its_jobs_again() -> None:
    host = a_host("h1", slots=4, used=3, hard={"h_vmem": "2G"}, consumables={"h_vmem": "1G"})
    found = emptied_host(host, COMPLEXES, frozenset({"h_vmem"}))
    assert (dict(found.slots), dict(found.free)) == ({"main.q": 4}, {"h_vmem": 7 * GIB})


def test_unsatisfiable_tasks_have_no_unmet_demand() -> None:
    wanted = [CategoryDemand(Demand(frozenset({"main.q"})), 5, NOW, expired=True)] * 2
    results = PlacementResult(1, 1, because(Code.NO_TYPE_FITS)), PlacementResult(1, 1)
    assert Forecast(results, frozenset(), (), OpenPlacement()).unmet(wanted) == (0, 3)


def test_a_request_of_0_is_launched_for_only_if_workers_have_the_consumable() -> None:
    """`-l gpu=0`: Grid Engine starts it where gpu has a value, be it 0, and nowhere else."""
    none_of_it = a_job(hard={"gpu": "0"})
    assert launched(plan(a_snapshot(none_of_it, gpu_complex="gpus"))) == {"m5.large": 1}
    without = plan(a_snapshot(none_of_it))
    assert (launched(without), reason_code(without)) == ({}, Code.NOT_GIVEN_TO_WORKERS)


def test_a_request_of_0_for_a_queue_limit_fits_everywhere() -> None:
    """Where h_vmem is consumable and a host has none of it, the queue's INFINITY serves."""
    bare = a_host("w1", slots=2)
    assert launched(plan(a_snapshot(bare, a_job(hard={"h_vmem": "0"})))) == {}

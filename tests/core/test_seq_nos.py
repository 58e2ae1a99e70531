"""Which sequence number a worker gets, so that the scheduler fills workers one after the other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.actions import Enrol
from autoscaler.core.joining.seq_nos import BAND, SCARCE
from autoscaler.core.model.cluster import Queue
from autoscaler.core.model.fleet import Bucket, InstanceType, MachineState
from autoscaler.core.plan import plan
from autoscaler.core.policy import PACK_FIXED, PACK_OFF
from tests.core.building import GIB, LARGE, MAIN, NOW, X4LARGE, AWorker, a_bucket, a_machine, a_snapshot

TWO = 2 * BAND
"""Below all numbers of workers of two cores."""


def queue(default: int = 0, **numbers: int) -> dict[str, Queue]:
    return {"main.q": replace(MAIN, seq_no=default, seq_no_by_host={**numbers})}


def machine(number: int, **values: Any) -> AWorker:
    made = a_machine(f"i-{number}")
    values = {"name": f"w{number}", "created_at": NOW - 100 + number, "state": MachineState.RUNNING, **values}
    return replace(made, worker=replace(made.worker, **values))


def numbers(*machines: AWorker, pack: str = PACK_FIXED, of: dict[str, Queue] | None = None) -> dict[str, int | None]:
    """By name, the number with which each of these is enrolled."""
    snapshot = a_snapshot(*machines, pack=pack, queues=of or queue())
    return {each.host: each.seq_no for each in plan(snapshot).actions if isinstance(each, Enrol)}


def test_workers_get_rising_numbers_in_the_order_in_which_they_were_created() -> None:
    later = machine(1, created_at=NOW - 50)
    assert numbers(later, machine(2), machine(3)) == {"w1": TWO + 3, "w2": TWO + 1, "w3": TWO + 2}


def test_smaller_workers_come_before_larger_ones() -> None:
    found = numbers(machine(1, type=X4LARGE), machine(2), machine(3, type=X4LARGE))
    assert found == {"w1": 16 * BAND + 1, "w2": TWO + 1, "w3": 16 * BAND + 2}


def test_without_the_setting_no_worker_gets_one() -> None:
    assert numbers(machine(1), pack=PACK_OFF) == {"w1": None}


def test_a_number_that_a_worker_has_already_stays() -> None:
    assert numbers(machine(1), machine(2), of=queue(w1=TWO + 7)) == {"w1": None, "w2": TWO + 8}


def test_a_name_with_its_domain_is_the_same_worker() -> None:
    assert numbers(machine(1, name="w1.cluster"), machine(2), of=queue(w1=TWO + 7)) == {
        "w1.cluster": None,
        "w2": TWO + 8,
    }


@pytest.mark.parametrize(
    ("of", "number"),
    (
        (queue(5), TWO + 6),
        (queue(p1=0), TWO + 1),
        (queue(5, p1=2), TWO + 6),
        (queue(p1=9), 1),
        (queue(**{"@big": 1}), None),
        (queue(9_999_999), None),
    ),
    ids=("the queue's", "a host before", "one before the queue's", "one behind", "no room before it", "the last"),
)
def test_other_hosts_stay_before_or_behind_all_workers_as_they_were(of: dict[str, Queue], number: int | None) -> None:
    assert numbers(machine(1), of=of) == {"w1": number}


def test_the_numbers_of_workers_that_left_are_given_again() -> None:
    assert numbers(machine(3), of=queue()) == {"w3": TWO + 1}


def test_without_room_for_bands_all_sizes_are_numbered_in_one_order() -> None:
    found = numbers(machine(1, type=X4LARGE), machine(2), machine(3), of=queue(p1=9, w3=4))
    assert found == {"w1": 5, "w2": 6, "w3": None}


WITH_GPU = InstanceType("g4dn.large", "g4dn", 2, 8 * GIB, gpus=1)
BOTH = (a_bucket(LARGE), a_bucket(WITH_GPU))


def hybrid(*machines: AWorker, buckets: tuple[Bucket, ...] = BOTH, of: dict[str, Queue] | None = None) -> list[str]:
    """Names of these in the order of the numbers with which they are enrolled."""
    array: dict[str, Any] = {"pack": PACK_FIXED, "hybrid": True, "family": "m5,g4dn", "gpu_complex": "gpus"}
    made = plan(a_snapshot(*machines, *buckets, queues=of or queue(), **array))
    found = {each.host: each.seq_no or 0 for each in made.actions if isinstance(each, Enrol)}
    return sorted(found, key=lambda name: found[name])


@pytest.mark.parametrize("of", (queue(), queue(p1=100)), ids=("a band each", "one band"))
def test_workers_with_gpus_come_after_all_that_have_none(of: dict[str, Queue]) -> None:
    machines = (machine(1, type=WITH_GPU), machine(2, type=X4LARGE), machine(3), machine(4, type=WITH_GPU))
    assert hybrid(*machines, of=of)[2:] == ["w1", "w4"]


def test_a_worker_with_gpus_has_its_place_before_one_without_has_come() -> None:
    (name,) = numbers(machine(1, type=WITH_GPU))
    made = plan(
        a_snapshot(
            machine(1, type=WITH_GPU), *BOTH, pack=PACK_FIXED, hybrid=True, family="m5,g4dn", gpu_complex="gpus",
            queues=queue(),
        )
    )  # fmt: skip
    (enrolled,) = (each for each in made.actions if isinstance(each, Enrol))
    assert (name, enrolled.seq_no) == ("w1", (SCARCE + 2) * BAND + 1)


def test_where_all_may_only_have_gpus_none_is_scarce() -> None:
    machines = (machine(1, type=WITH_GPU), machine(2, type=replace(WITH_GPU, name="g4dn.xlarge", vcpus=4)))
    assert hybrid(*reversed(machines), buckets=(a_bucket(WITH_GPU),)) == ["w1", "w2"]
    made = plan(a_snapshot(*machines, a_bucket(WITH_GPU), pack=PACK_FIXED, gpu_complex="gpus", queues=queue()))
    assert {each.seq_no for each in made.actions if isinstance(each, Enrol)} == {TWO + 1, 2 * TWO + 1}

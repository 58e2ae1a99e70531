"""Digests of the plans for random snapshots, and for the recorded ones of all cases, so that two commits can be
compared: a change that only arranges code anew must not change a plan.

    python -m tests.plan_digests 10000 7 > after.txt          # so many random snapshots, from this seed
    (the same in a clone of the older commit, with this file copied there, > before.txt)
    cmp before.txt after.txt

A line has a snapshot's number or case, and the digest of its plan and of the one after it. The snapshots favour what
launches depend on: strategies, offers, price types, limits, workers, orders, failures and jobs of many kinds.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from autoscaler.core.model.fleet import Bucket, FailureKind, InstanceType, PriceType
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits
from autoscaler.core.snapshot import Snapshot
from autoscaler.engine.record import read_record
from tests.cases.whole import HERE, whole
from tests.core.building import (
    GIB,
    M5,
    Thing,
    a_bucket,
    a_failure,
    a_host,
    a_job,
    a_machine,
    a_snapshot,
    a_worker,
    an_order,
    jobs,
)

C5 = tuple(InstanceType(f"c5.{size}", "c5", cpus, cpus * 2 * GIB) for size, cpus in (("large", 2), ("2xlarge", 8)))
STEP = 45.0
"""Seconds to the second pass."""


def snapshots(count: int, seed: int) -> Iterator[Snapshot]:
    random = Random(seed)
    for _ in range(count):
        yield _snapshot(random)


def _snapshot(random: Random) -> Snapshot:
    array: dict[str, Any] = {
        "hybrid": random.random() < 0.8,
        "strategy": random.choice(("cpu-capacity", "naive-cpu-capacity", "default")),
        "family": random.choice((None, None, "m5", "c5")),
        "scale_up_batch": random.choice((1, 2, 5, 20)),
        "descending": random.random() < 0.3,
        "max_cores_per_worker": random.choice((None, None, 8, 16)),
        "price_types": random.choice(
            ((PriceType.ON_DEMAND,), (PriceType.SPOT, PriceType.ON_DEMAND), (PriceType.ON_DEMAND, PriceType.SPOT))
        ),
        "price_type_deadline": random.choice((0.0, 300.0)),
        "free_cores": random.choice((0, 0, 1)),
        "memory_complex": random.choice((None, "h_vmem")),
    }
    things = [*_jobs(random), *_buckets(random), *_fleet(random)]
    return a_snapshot(*things, limits=_limits(random), instance_type=random.choice(M5).name, **array)


def _jobs(random: Random) -> Iterator[Thing]:
    for number in range(random.randrange(1, 7)):
        slots = random.choice((1, 1, 2, 4, 8, 16, 40))
        pe = random.choice((None, "local", "mpi", "mpi4")) if slots % 4 == 0 else None
        hard = random.choice(({}, {}, {"h_vmem": f"{random.choice((1, 4, 30))}G"}, {"exclusive": "1"}))
        waited, owner = random.choice((5.0, 60.0, 900.0)), random.choice(("ann", "ben"))
        if random.random() < 0.5:
            yield jobs(random.choice((1, 3, 30)), 100 * number + 1, slots=slots, pe=pe, hard=hard, waited=waited)
        else:
            yield a_job(100 * number + 1, slots=slots, pe=pe, hard=hard, waited=waited, owner=owner)


def _buckets(random: Random) -> Iterator[Bucket]:
    for type_ in random.sample((*M5, *C5), random.randrange(1, 8)):
        for zone in random.choice(((), ("a",), ("a", "b"))) or ("",):
            for price_type in random.choice(((PriceType.ON_DEMAND,), tuple(PriceType))):
                price = random.choice((None, None, 0.1, type_.vcpus * 0.03, -1.0))
                available, problem = (
                    random.choice((None, None, None, 0, 1, 3)),
                    random.choice((None,) * 9 + ("no quota",)),
                )
                yield a_bucket(
                    type_, price=price, available=available, problem=problem, zone=zone, price_type=price_type
                )


def _fleet(random: Random) -> Iterator[Thing]:
    for number in range(random.randrange(5)):
        name, type_ = f"w{number}", random.choice(M5)
        match random.randrange(4):
            case 0:
                yield a_machine(name, type_=type_, age=random.choice((5.0, 100.0)))
            case 1:
                yield a_worker(name, type_=type_, idle=random.choice((3.0, 90.0)))
            case _:
                yield a_worker(name, type_=type_, used=random.randrange(1, type_.vcpus + 1))
    if random.random() < 0.3:
        yield a_host("h1", slots=4, used=random.randrange(5))
    if random.random() < 0.2:
        yield an_order(random.choice((1, 3)), type_=random.choice(M5))
    if random.random() < 0.3:
        yield a_failure(random.choice(M5), age=random.choice((10.0, 500.0)), kind=random.choice(list(FailureKind)))


def _limits(random: Random) -> Limits:
    def sometimes(*values: float) -> float | None:
        return random.choice((None, *values)) if random.random() < 0.4 else None

    cores, total_cores = sometimes(8, 40), sometimes(10, 60)
    workers, launches = sometimes(2, 8), sometimes(2, 10)
    return Limits(
        max_workers=random.choice((2, 6, 20, 100)),
        min_workers=random.choice((0, 0, 0, 2)),
        max_cores=None if cores is None else int(cores),
        max_price_per_hour=sometimes(0.3, 2.0),
        max_launches_per_hour=None if launches is None else int(launches),
        total_workers=None if workers is None else int(workers),
        total_cores=None if total_cores is None else int(total_cores),
        total_price_per_hour=sometimes(0.5, 3.0),
    )


def digest(snapshot: Snapshot) -> str:
    """Of the plan, and of the plan for the same snapshot some time later."""
    first = plan(snapshot)
    second = plan(replace(snapshot, memory=first.memory, now=snapshot.now + STEP))
    return hashlib.sha256(f"{first!r}\n{second!r}".encode("utf-8", "backslashreplace")).hexdigest()[:32]


def recorded() -> Iterator[tuple[str, Snapshot]]:
    for expectation in sorted(HERE.glob("*/*/expect.toml")):
        name = str(expectation.parent.relative_to(HERE))
        yield name, read_record(Path(whole(name)))


if __name__ == "__main__":
    for number, snapshot in enumerate(snapshots(int(sys.argv[1]), int(sys.argv[2]))):
        print(number, digest(snapshot))
    for name, snapshot in recorded():
        print(name, digest(snapshot))

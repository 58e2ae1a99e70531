"""Builders of small workloads, cells and policies for the tests of the simulation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from autoscaler.core.model.fleet import Bucket, PriceType
from autoscaler.core.policy import Limits, NodeArrayPolicy, Policy, QueuePolicy
from autoscaler.providers.catalog import load_catalog
from autoscaler.simulation.baselines import rule_of
from autoscaler.simulation.candidates import allowed_offers, simulated
from autoscaler.simulation.cell import CellConfiguration
from autoscaler.simulation.cloud import Billing, Cloud, Delays
from autoscaler.simulation.generated import Generated, generate
from autoscaler.simulation.market import STILL, Market
from autoscaler.simulation.planned import PlanDecider
from autoscaler.simulation.rules import Rule
from autoscaler.simulation.run import EPOCH, Decider, PassDurations, Simulation
from autoscaler.simulation.workload import Workload, WorkloadJob


def buckets() -> Sequence[Bucket]:
    """On-demand offers at list prices."""
    return load_catalog().buckets((PriceType.ON_DEMAND,))


def a_policy(*, max_workers: int = 20, **array: Any) -> Policy:
    """One queue, workers of m5.large unless said otherwise."""
    settings = {"name": "execute", "queue": "main.q", "host_group": "@allhosts", "instance_type": "m5.large"}
    one = NodeArrayPolicy(**settings | {"limits": Limits(max_workers=max_workers)} | array)
    return Policy(queues=(QueuePolicy("main.q", "execute"),), node_arrays=(one,), master="master")


def numbered(*jobs: Sequence[WorkloadJob]) -> list[WorkloadJob]:
    """All of them, with numbers of their own."""
    every = [job for some in jobs for job in some]
    return [replace(job, number=number) for number, job in enumerate(every, start=1)]


def jobs_of(count: int, **job: Any) -> list[WorkloadJob]:
    """So many jobs alike, all submitted in the first second unless said otherwise."""
    one = WorkloadJob(**{"number": 1, "submitted": 0.0, "seconds": 600.0} | job)
    return [replace(one, number=number) for number in range(1, count + 1)]


def a_simulation(
    jobs: Iterable[WorkloadJob] | Workload,
    policy: Policy,
    *,
    cell: CellConfiguration | None = None,
    delays: Delays | None = None,
    durations: PassDurations | None = None,
    decider: Decider | None = None,
    market: Market = STILL,
    price_type: PriceType = PriceType.ON_DEMAND,
    seed: int = 1,
) -> Simulation:
    """A simulation that has not begun."""
    import random

    workload = jobs if isinstance(jobs, Workload) else Workload("test", list(jobs))
    used = simulated(policy)
    offers = allowed_offers(used, load_catalog().buckets((price_type,)))
    cloud = Cloud(offers, delays or Delays(), Billing(), EPOCH, random.Random(seed), market)
    return Simulation(
        workload, cell or CellConfiguration(), cloud, decider or PlanDecider(used), durations or PassDurations()
    )


def a_rule(name: str, policy: Policy, max_workers: int = 20, *, offers: Sequence[Bucket] | None = None) -> Rule:
    """A rule in place of this policy. `offers`: on-demand ones at list prices unless said otherwise."""
    allowed = allowed_offers(policy, buckets() if offers is None else offers)
    return rule_of(name, allowed, max_workers, policy.node_arrays[0])


def a_workload(jobs: int = 40, seed: int = 1, *, days: float = 0.25, largest_host: int = 16) -> Workload:
    return generate(Generated(jobs, seed, largest_host, days=days, median_run=900.0))

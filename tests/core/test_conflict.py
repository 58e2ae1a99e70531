"""What is said to stand in a job's way: the one request that is too much, and what would let it run."""

from __future__ import annotations

from typing import Any

import pytest

from autoscaler.core.cluster import Shape
from autoscaler.core.impossible.allowed import allowed_by
from autoscaler.core.impossible.conflict import conflict
from autoscaler.core.model import Host
from autoscaler.core.policy import Limits
from autoscaler.core.requests import Reader, Served
from autoscaler.report.wording import text
from tests.core.building import GIB, LARGE, M5, X2LARGE, a_bucket, a_job, a_snapshot

HYBRID: dict[str, Any] = {"hybrid": True, "family": "m5"}


def said(job: Shape, *things: Any, persistent: tuple[Host, ...] = (), **array: Any) -> str:
    snapshot = a_snapshot(job, *things, **array)
    served = Reader(snapshot.cluster, snapshot.policy, frozenset()).read(job.ask)
    assert isinstance(served, Served)
    allowed = allowed_by(snapshot.policy, snapshot.fleet.buckets, snapshot.cluster, persistent)
    assert not allowed.serves(served.demand)
    return text(conflict(served.demand, allowed))


@pytest.mark.parametrize(
    ("job", "array", "sentence"),
    (
        (
            a_job(slots=16),
            {**HYBRID, "max_cores_per_worker": 8},
            "it asks 16 slots on one host; the largest allowed is m5.2xlarge with 8; "
            "ask `-pe mpi 16` or set CP_CAP_AUTOSCALE_HYBRID_MAX_CORE_PER_NODE to 16",
        ),
        (
            a_job(slots=100),
            HYBRID,
            "it asks 100 slots on one host; the largest allowed is m5.8xlarge with 32; ask `-pe mpi 100`",
        ),
        (
            a_job(slots=500),
            HYBRID,
            "it asks 500 slots on one host; the largest allowed is m5.8xlarge with 32",
        ),
        (
            a_job(slots=4),
            {},
            "it asks 4 slots on one host; the largest allowed is m5.large with 2; "
            "ask `-pe mpi 4` or set CP_CAP_AUTOSCALE_INSTANCE_TYPE to m5.xlarge",
        ),
        (
            a_job(slots=400, pe="mpi"),
            HYBRID,
            "it asks 400 slots; all that is allowed together has 320 (10 workers, the largest m5.8xlarge); "
            "set CP_CAP_AUTOSCALE_WORKERS",
        ),
        (
            a_job(slots=64, pe="mpi"),
            {**HYBRID, "limits": Limits(max_workers=10, max_cores=48)},
            "it asks 64 slots; all that is allowed together has 48 (10 workers, the largest m5.8xlarge); "
            "set CP_CAP_AUTOSCALE_MAX_CORES",
        ),
        (
            a_job(slots=48, pe="mpi4"),
            HYBRID,
            "it asks 12 hosts with 4 slots on each; at most 10 are allowed; "
            "ask `-pe mpi 48` or set CP_CAP_AUTOSCALE_WORKERS",
        ),
        (
            a_job(slots=16, hard={"h_vmem": "16G"}),
            {**HYBRID, "memory_complex": "h_vmem"},
            "it asks h_vmem=16G for each of 16 slots, 256G together, on one host; "
            "the most allowed is m5.8xlarge with 128G; ask `-pe mpi 16`",
        ),
        (
            a_job(hard={"h_vmem": "1T"}),
            {**HYBRID, "memory_complex": "h_vmem"},
            "it asks h_vmem=1T on one host; the most allowed is m5.8xlarge with 128G",
        ),
        (
            a_job(hard={"gpus": "1"}),
            {**HYBRID, "gpu_complex": "gpus"},
            "it asks gpus=1, which no allowed worker has",
        ),
        (
            a_job(hard={"arch": "sol-sparc"}),
            HYBRID,
            "it asks for a host with arch=sol-sparc; no allowed worker is one (they have lx-amd64)",
        ),
        (
            a_job(hard={"mem_total": "500G"}),
            {"instance_type": "m5.large"},
            "it asks for a host with mem_total=500G; no allowed worker is one (they have 8G)",
        ),
        (
            a_job(hard={"mem_free": "30G"}),
            {"instance_type": "m5.large"},
            "it asks for a host with mem_free=30G; no allowed worker is one (they have 8G); "
            "set CP_CAP_AUTOSCALE_INSTANCE_TYPE to m5.2xlarge",
        ),
        (
            a_job(slots=8, hard={"num_proc": "4"}),
            HYBRID,
            "it asks for a host with num_proc=4; no allowed worker is one (they have 2, 4, 8, 16, 32); ask `-pe mpi 8`",
        ),
    ),
)
def test_the_smallest_conflict_and_the_way_out_are_named(job: Shape, array: dict[str, Any], sentence: str) -> None:
    assert said(job, **array) == sentence


def test_a_price_cap_that_bars_a_type_is_named() -> None:
    buckets = [a_bucket(LARGE, price=0.1), a_bucket(X2LARGE, price=4.0)]
    told = said(a_job(slots=8), *buckets, **HYBRID, limits=Limits(max_workers=2, max_price_per_hour=1.0))
    assert told.endswith("with 2; set CP_CAP_AUTOSCALE_MAX_PRICE_PER_HOUR")


def test_a_persistent_host_may_be_the_largest() -> None:
    master = Host("big", {"main.q": 48})
    assert "the largest allowed is big with 48" in said(a_job(slots=64), persistent=(master,), **HYBRID)


def test_what_a_mix_of_types_could_run_is_not_called_impossible() -> None:
    snapshot = a_snapshot(
        a_job(slots=20, pe="mpi"), **HYBRID, max_cores_per_worker=16, limits=Limits(max_workers=3, max_cores=20)
    )
    served = Reader(snapshot.cluster, snapshot.policy, frozenset()).read(snapshot.cluster.shapes[0].ask)
    assert isinstance(served, Served)
    assert allowed_by(snapshot.policy, snapshot.fleet.buckets, snapshot.cluster).serves(served.demand)


def test_a_type_that_cannot_be_had_now_is_not_called_impossible() -> None:
    buckets = [a_bucket(type_, problem="no quota" if type_ is X2LARGE else None) for type_ in M5[:3]]
    snapshot = a_snapshot(a_job(slots=8), *buckets, **HYBRID)
    served = Reader(snapshot.cluster, snapshot.policy, frozenset()).read(snapshot.cluster.shapes[0].ask)
    assert isinstance(served, Served)
    allowed = allowed_by(snapshot.policy, snapshot.fleet.buckets, snapshot.cluster)
    assert (allowed.serves(served.demand), allowed.serves(served.demand, only_to_be_had=True)) == (True, False)


def test_persistent_hosts_add_to_what_spreads() -> None:
    master = Host("big", {"main.q": 80}, (("h_vmem", 80 * GIB),))
    snapshot = a_snapshot(a_job(slots=400, pe="mpi"), **HYBRID)
    served = Reader(snapshot.cluster, snapshot.policy, frozenset()).read(snapshot.cluster.shapes[0].ask)
    assert isinstance(served, Served)
    assert allowed_by(snapshot.policy, snapshot.fleet.buckets, snapshot.cluster, (master,)).serves(served.demand)

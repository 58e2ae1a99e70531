"""The conflict of a job: the one request that is too much, and what would let it run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.demand.job_requests import ReadRequest, RequestReader
from autoscaler.core.model.cluster import JobCategory
from autoscaler.core.model.fleet import Bucket, InstanceType
from autoscaler.core.model.offered_host import Host
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits
from autoscaler.core.snapshot import Snapshot
from autoscaler.core.unsatisfiable.best_cluster import Change, allowed_by
from autoscaler.core.unsatisfiable.conflict import conflict
from autoscaler.report.wording import text
from tests.core.building import GIB, LARGE, M5, X2LARGE, XLARGE, a_bucket, a_job, a_snapshot, launched

HYBRID: dict[str, Any] = {"hybrid": True, "family": "m5"}


def conflict_text(job: JobCategory, *things: Any, persistent: tuple[Host, ...] = (), **array: Any) -> str:
    snapshot = a_snapshot(job, *things, **array)
    served = RequestReader(snapshot.cluster, snapshot.policy, frozenset()).read(job.ask)
    assert isinstance(served, ReadRequest)
    allowed = allowed_by(snapshot.policy, snapshot.fleet.buckets, snapshot.cluster, persistent)
    assert not allowed.serves(served.demand)
    return text(conflict(served.demand, allowed))


@pytest.mark.parametrize(
    ("job", "array", "sentence"),
    (
        (
            a_job(slots=16),
            {**HYBRID, "max_cores_per_worker": 8},
            "it requests 16 slots on one host; the largest allowed is m5.2xlarge with 8; request `-pe mpi 16` or set "
            "CP_CAP_AUTOSCALE_HYBRID_MAX_CORE_PER_NODE to 16",
        ),
        (
            a_job(slots=100),
            HYBRID,
            "it requests 100 slots on one host; the largest allowed is m5.8xlarge with 32; request `-pe mpi 100`",
        ),
        (
            a_job(slots=500),
            HYBRID,
            "it requests 500 slots on one host; the largest allowed is m5.8xlarge with 32",
        ),
        (
            a_job(slots=4),
            {},
            "it requests 4 slots on one host; the largest allowed is m5.large with 2; request `-pe mpi 4` or set "
            "CP_CAP_AUTOSCALE_INSTANCE_TYPE to m5.xlarge",
        ),
        (
            a_job(slots=400, pe="mpi"),
            HYBRID,
            "it requests 400 slots; all allowed hosts together have 320 (10 workers, the largest m5.8xlarge); set "
            "CP_CAP_AUTOSCALE_WORKERS to 13",
        ),
        (
            a_job(slots=64, pe="mpi"),
            {**HYBRID, "limits": Limits(max_workers=10, max_cores=48)},
            "it requests 64 slots; all allowed hosts together have 48 (10 workers, the largest m5.8xlarge); set "
            "CP_CAP_AUTOSCALE_MAX_CORES to 64",
        ),
        (
            a_job(slots=48, pe="mpi4"),
            HYBRID,
            "it requests 12 hosts with 4 slots on each; at most 10 are allowed; request `-pe mpi 48` or set "
            "CP_CAP_AUTOSCALE_WORKERS to 12",
        ),
        (
            a_job(slots=16, hard={"h_vmem": "16G"}),
            {**HYBRID, "memory_complex": "h_vmem"},
            "it requests h_vmem=16G for each of 16 slots, 256G together, on one host; the most allowed is m5.8xlarge "
            "with 128G; request `-pe mpi 16`",
        ),
        (
            a_job(hard={"h_vmem": "1T"}),
            {**HYBRID, "memory_complex": "h_vmem"},
            "it requests h_vmem=1T on one host; the most allowed is m5.8xlarge with 128G",
        ),
        (
            a_job(hard={"scratch": "1T"}),
            {**HYBRID, "memory_complex": "scratch"},
            "it requests scratch=1T on one host; the most allowed is m5.8xlarge with 128G",
        ),
        (
            a_job(hard={"arch": "sol-sparc", "h_vmem": "1T"}),
            {**HYBRID, "memory_complex": "h_vmem"},
            "it requests 1 slot on one host; the largest worker allowed has 32, and at most 10 are allowed; it also "
            "requests h_vmem=1T, arch=sol-sparc",
        ),
        (
            a_job(hard={"gpus": "1"}),
            {**HYBRID, "gpu_complex": "gpus"},
            "it requests gpus=1, which no allowed worker has",
        ),
        (
            a_job(hard={"arch": "sol-sparc"}),
            HYBRID,
            "it requests a host with arch=sol-sparc; no allowed worker is such a host (they have lx-amd64)",
        ),
        (
            a_job(hard={"mem_total": "500G"}),
            {"instance_type": "m5.large"},
            "it requests a host with mem_total=500G; no allowed worker is such a host (they have 8G)",
        ),
        (
            a_job(hard={"mem_free": "30G"}),
            {"instance_type": "m5.large"},
            "it requests a host with mem_free=30G; no allowed worker is such a host (they have 8G); set "
            "CP_CAP_AUTOSCALE_INSTANCE_TYPE to m5.2xlarge",
        ),
        (
            a_job(slots=8, hard={"num_proc": "4"}),
            HYBRID,
            (
                "it requests 8 slots on one host; the largest worker allowed has 32, and at most 10 are allowed; it "
                "also requests num_proc=4; request `-pe mpi 8`"
            ),
        ),
    ),
)
def test_the_conflict_and_its_remedy_are_named(job: JobCategory, array: dict[str, Any], sentence: str) -> None:
    assert conflict_text(job, **array) == sentence


def test_a_price_cap_that_excludes_a_type_is_named() -> None:
    buckets = [a_bucket(LARGE, price=0.1), a_bucket(X2LARGE, price=4.0)]
    sentence = conflict_text(a_job(slots=8), *buckets, **HYBRID, limits=Limits(max_workers=2, max_price_per_hour=1.0))
    assert sentence.endswith("with 2; set CP_CAP_AUTOSCALE_MAX_PRICE_PER_HOUR to 4")


C5 = InstanceType("c5.xlarge", "c5", 4, 8 * GIB)
AZURE = InstanceType("Standard_NC4", "NCv5", 4, 8 * GIB)


@pytest.mark.parametrize(
    ("buckets", "proposed"),
    (
        ((a_bucket(XLARGE, price=0.2), a_bucket(C5, price=0.17), a_bucket(AZURE, price=-1)), "c5.xlarge"),
        ((a_bucket(XLARGE, price=0.2), a_bucket(C5, price=0.17, problem="no quota")), "m5.xlarge"),
        ((a_bucket(AZURE, price=-1),), None),
    ),
)
def test_the_cheapest_available_type_is_proposed(buckets: tuple[Bucket, ...], proposed: str | None) -> None:
    sentence = conflict_text(a_job(slots=4), a_bucket(LARGE, price=0.1), *buckets)
    assert sentence.partition("TYPE to ")[2] == (proposed or "")


def test_a_type_is_proposed_even_if_no_price_is_known() -> None:
    sentence = conflict_text(a_job(slots=4), a_bucket(LARGE, price=-1), a_bucket(XLARGE, price=-1))
    assert sentence.endswith("CP_CAP_AUTOSCALE_INSTANCE_TYPE to m5.xlarge")


def test_the_proposed_price_cap_allows_enough_workers() -> None:
    array = {**HYBRID, "max_cores_per_worker": 4, "limits": Limits(max_workers=10, max_price_per_hour=0.4)}
    sentence = conflict_text(
        a_job(slots=20, pe="mpi"), a_bucket(LARGE, price=0.1), a_bucket(XLARGE, price=0.2), **array
    )
    assert sentence.endswith("set CP_CAP_AUTOSCALE_MAX_PRICE_PER_HOUR to 1")


@pytest.mark.parametrize(
    ("job", "array", "settings"),
    (
        (
            a_job(slots=16),
            {**HYBRID, "max_cores_per_worker": 8, "limits": Limits(max_workers=10, max_cores=8)},
            "CP_CAP_AUTOSCALE_HYBRID_MAX_CORE_PER_NODE to 16; and CP_CAP_AUTOSCALE_MAX_CORES to 16 as well",
        ),
        (
            a_job(slots=64, pe="mpi"),
            {**HYBRID, "limits": Limits(max_workers=1, max_cores=32)},
            "CP_CAP_AUTOSCALE_WORKERS to 2; and CP_CAP_AUTOSCALE_MAX_CORES to 64 as well",
        ),
        (
            a_job(slots=8),
            {"limits": Limits(max_workers=3, max_price_per_hour=0.2)},
            "CP_CAP_AUTOSCALE_INSTANCE_TYPE to m5.2xlarge; and CP_CAP_AUTOSCALE_MAX_PRICE_PER_HOUR to 0.4 as well",
        ),
        (
            a_job(slots=64, pe="mpi"),
            {**HYBRID, "limits": Limits(max_workers=1, total_workers=1, max_cores=32)},
            "CP_CAP_AUTOSCALE_WORKERS to 2; and CP_CAP_AUTOSCALE_MAX_CORES to 64 as well; and "
            "CP_CAP_AUTOSCALE_TOTAL_WORKERS to 2 as well",
        ),
    ),
)
def test_all_settings_to_change_are_named_and_only_together_allow_a_launch(
    job: JobCategory, array: dict[str, Any], settings: str
) -> None:
    assert conflict_text(job, **array).endswith(f"set {settings}")
    snapshot = a_snapshot(job, **array)
    served = RequestReader(snapshot.cluster, snapshot.policy, frozenset()).read(job.ask)
    assert isinstance(served, ReadRequest)
    changes = allowed_by(snapshot.policy, snapshot.fleet.buckets, snapshot.cluster).changes(served.demand)
    for left_out in (None, *changes):
        made = plan(under(snapshot, [change for change in changes if change is not left_out]))
        assert bool(launched(made)) is (left_out is None), left_out


def under(snapshot: Snapshot, changes: Sequence[Change]) -> Snapshot:
    """The same with these settings."""
    (array,) = snapshot.policy.node_arrays
    for change in changes:
        value: Any = change.to
        if change.limit not in ("family", "instance_type"):
            value = float(change.to) if "price" in change.limit else int(change.to)
        new: Any = {change.limit: value}
        of_limits = hasattr(array.limits, change.limit)
        array = replace(array, limits=replace(array.limits, **new)) if of_limits else replace(array, **new)
    return replace(snapshot, policy=replace(snapshot.policy, node_arrays=(array,)))


def test_a_persistent_host_may_be_the_largest() -> None:
    master = Host("big", {"main.q": 48})
    assert "the largest allowed is big with 48" in conflict_text(a_job(slots=64), persistent=(master,), **HYBRID)


def test_a_job_that_a_mix_of_types_could_run_is_satisfiable() -> None:
    snapshot = a_snapshot(
        a_job(slots=20, pe="mpi"), **HYBRID, max_cores_per_worker=16, limits=Limits(max_workers=3, max_cores=20)
    )
    served = RequestReader(snapshot.cluster, snapshot.policy, frozenset()).read(snapshot.cluster.job_categories[0].ask)
    assert isinstance(served, ReadRequest)
    assert allowed_by(snapshot.policy, snapshot.fleet.buckets, snapshot.cluster).serves(served.demand)


def test_a_job_for_a_currently_unavailable_type_is_satisfiable() -> None:
    buckets = [a_bucket(type_, problem="no quota" if type_ is X2LARGE else None) for type_ in M5[:3]]
    snapshot = a_snapshot(a_job(slots=8), *buckets, **HYBRID)
    served = RequestReader(snapshot.cluster, snapshot.policy, frozenset()).read(snapshot.cluster.job_categories[0].ask)
    assert isinstance(served, ReadRequest)
    allowed = allowed_by(snapshot.policy, snapshot.fleet.buckets, snapshot.cluster)
    assert (allowed.serves(served.demand), allowed.serves(served.demand, only_to_be_had=True)) == (True, False)


def test_persistent_hosts_count_for_jobs_over_several_hosts() -> None:
    master = Host("big", {"main.q": 80}, (("h_vmem", 80 * GIB),))
    snapshot = a_snapshot(a_job(slots=400, pe="mpi"), **HYBRID)
    served = RequestReader(snapshot.cluster, snapshot.policy, frozenset()).read(snapshot.cluster.job_categories[0].ask)
    assert isinstance(served, ReadRequest)
    assert allowed_by(snapshot.policy, snapshot.fleet.buckets, snapshot.cluster, (master,)).serves(served.demand)

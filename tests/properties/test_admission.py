"""Nothing is refused at submission that plan would serve, or that could be placed on any mix of what is allowed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from autoscaler.core.capacity.max_capacity import MaxCapacity
from autoscaler.core.demand.job_requests import ReadRequest, RequestReader
from autoscaler.core.model.cluster import JobRequest, Queue
from autoscaler.core.model.demand_vector import CategoryDemand
from autoscaler.core.model.fleet import InstanceType
from autoscaler.core.model.offered_host import Host
from autoscaler.core.model.reasons import Reason
from autoscaler.core.placement.hosts import emptied_host, host_values_of
from autoscaler.core.placement.placement import place
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits
from autoscaler.core.snapshot import Snapshot
from autoscaler.core.unsatisfiable.admission import Judge, admission_of
from autoscaler.report.wording import text
from tests.core.building import COMPLEXES, M5, MAIN, a_bucket, a_host, a_job, a_snapshot, a_worker
from tests.samples import examples

NAMES = frozenset(COMPLEXES)
asks = st.fixed_dictionaries(
    {
        "slots": st.sampled_from((1, 2, 4, 8, 12, 16, 24, 32, 33, 64, 100, (2, 64), (8, 9))),
        "pe": st.sampled_from(("local", "mpi", "mpi4", "m*", "*", "nosuch")),
        "hard": st.dictionaries(
            st.sampled_from(("h_vmem", "gpu", "scr", "mf", "arch", "excl", "lic", "p", "nosuch")),
            st.sampled_from(("1", "2G", "9G", "30G", "200G", "TRUE", "lx-amd64")),
            max_size=2,
        ),
        "queues": st.sampled_from(((), (), ("main.q",), ("*",), ("other.q",), ("main.q@h0",))),
    }
)
large_asks = st.fixed_dictionaries(
    {
        "slots": st.sampled_from((24, 64, 100, (50, 64), 400)),
        "pe": st.sampled_from(("local", "mpi", "mpi4")),
        "hard": st.dictionaries(st.sampled_from(("h_vmem", "gpu", "mf")), st.sampled_from(("2G", "200G")), max_size=1),
        "queues": st.sampled_from(((), ("main.q",))),
    }
)
hosts = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 2), st.sampled_from(("", "4G", "64G"))), max_size=3)
limits = st.builds(
    Limits,
    max_workers=st.integers(0, 6),
    max_cores=st.none() | st.integers(1, 64),
    max_price_per_hour=st.none() | st.floats(0.05, 4),
)


@st.composite
def snapshots(draw: st.DrawFn, asks: st.SearchStrategy[dict[str, Any]] = asks) -> Snapshot:
    ask: dict[str, Any] = draw(asks)
    things: list[Any] = [a_job(**({**ask, "pe": None} if ask["slots"] == 1 else ask))]
    for number, (slots, used, memory) in enumerate(draw(hosts)):
        values: dict[str, Any] = {"consumables": {"h_vmem": memory}} if memory else {}
        things.append(a_host(f"h{number}", slots=slots, used=min(used, slots), **values))
    things += [a_worker(f"w{number}", used=draw(st.integers(0, 2))) for number in range(draw(st.integers(0, 2)))]
    for type_ in draw(st.lists(st.sampled_from(M5), min_size=1, max_size=4, unique=True)):
        problem = draw(st.sampled_from((None, None, "no quota")))
        things.append(a_bucket(type_, price=draw(st.sampled_from((None, -1.0))), problem=problem))
    other = Queue("other.q", ("@allhosts",), 1, pe_list=draw(st.sampled_from(((), ("local",)))))
    queues = {"main.q": MAIN} | ({"other.q": other} if draw(st.booleans()) else {})
    return a_snapshot(*things, queues=queues, limits=draw(limits), hybrid=draw(st.booleans()), family="m5")


def ask_of(snapshot: Snapshot) -> JobRequest:
    return snapshot.cluster.job_categories[0].ask


def refusal(snapshot: Snapshot) -> Reason | None:
    return Judge(admission_of(snapshot.cluster, snapshot.fleet, snapshot.policy)).refusal(ask_of(snapshot))


def refused(snapshot: Snapshot) -> bool:
    return refusal(snapshot) is not None


def persistent(snapshot: Snapshot) -> list[Host]:
    cluster = snapshot.cluster
    return [emptied_host(host, cluster.complexes, NAMES) for host in cluster.hosts if host.name.startswith("h")]


@settings(max_examples=examples(150))
@given(snapshots(large_asks) | snapshots())
def test_a_refused_job_is_beyond_the_max_capacity_of_plan(snapshot: Snapshot) -> None:
    if not refused(snapshot):
        return
    event("refused")
    served = RequestReader(snapshot.cluster, snapshot.policy, frozenset()).read(ask_of(snapshot))
    assert isinstance(served, ReadRequest)
    most = MaxCapacity(snapshot.policy, snapshot.fleet.buckets, persistent(snapshot), snapshot.cluster.complexes)
    demand = CategoryDemand(served.demand, 1, 0.0, expired=True, launches=served.launches)
    assert most.refusal(demand) is not None
    assert plan(snapshot).fitting == 0


@settings(max_examples=examples(150))
@given(snapshots(large_asks))
def test_a_refusal_has_the_reason_that_plan_would_report(snapshot: Snapshot) -> None:
    """What plan adds is how far its own proof has got."""
    reason = refusal(snapshot)
    assume(reason is not None)
    assert reason is not None
    planned = text(plan(snapshot).job_categories[0].reason)
    assert planned.startswith(text(reason) + "; ")


@settings(max_examples=examples(150))
@given(snapshots(), st.lists(st.sampled_from(M5), max_size=6))
def test_a_job_that_fits_on_any_allowed_mix_is_accepted(snapshot: Snapshot, mix: list[InstanceType]) -> None:
    array = snapshot.policy.node_arrays[0]
    allowed, cap = array.limits, array.limits.max_price_per_hour
    known = {bucket.type: bucket.price_per_hour for bucket in snapshot.fleet.buckets}
    usable = {type_ for type_ in known if array.hybrid or type_.name == array.instance_type}
    mix = [type_ for type_ in mix if type_ in usable][: allowed.max_workers]
    assume(allowed.max_cores is None or sum(type_.vcpus for type_ in mix) <= allowed.max_cores)
    assume(cap is None or sum(known[type_] or 0.0 for type_ in mix) <= cap)
    served = RequestReader(snapshot.cluster, snapshot.policy, frozenset()).read(ask_of(snapshot))
    assume(isinstance(served, ReadRequest))
    assert isinstance(served, ReadRequest)
    workers = [
        host_values_of(type_, array, snapshot.cluster.complexes).host(f"new{number}", array.queue)
        for number, type_ in enumerate(mix)
    ]
    fits = place(((served.demand, 1),), (*persistent(snapshot), *workers)).complete
    assert not (fits and refused(snapshot))


@settings(max_examples=examples(100))
@given(snapshots())
def test_a_higher_worker_limit_never_refuses_an_accepted_job(snapshot: Snapshot) -> None:
    assume(not refused(snapshot))
    (array,) = snapshot.policy.node_arrays
    assume(array.limits.max_workers > 0)
    more = replace(array, limits=replace(array.limits, max_workers=array.limits.max_workers + 1))
    assert not refused(replace(snapshot, policy=replace(snapshot.policy, node_arrays=(more,))))

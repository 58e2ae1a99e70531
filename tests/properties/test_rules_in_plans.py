"""Under any rules: only what they allow is launched, and the job that it was launched for fits on it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from autoscaler.constraints.library import NodeUse, node_of, properties_of_bucket, put_one, read_constraint, read_rules
from autoscaler.core.actions import AskGridEngine, Enrol, Hold, Kill, Launch
from autoscaler.core.model.cluster import ExecutionHost
from autoscaler.core.model.fleet import Bucket, MachineState, PriceType, Worker
from autoscaler.core.model.memory import WorkerNote
from autoscaler.core.model.reasons import Code, Reason
from autoscaler.core.plan import plan
from autoscaler.core.requests.array_timeouts import under
from autoscaler.core.snapshot import Plan, Snapshot
from tests.core.building import LARGE, LONG_AGO, NOW, X2LARGE, XLARGE, a_bucket, a_host, a_job, a_snapshot, reason_code
from tests.samples import examples

BUCKETS: tuple[Bucket, ...] = tuple(
    a_bucket(type_, zone=zone, price_type=price_type, placement_group=group)
    for type_ in (LARGE, XLARGE, X2LARGE)
    for zone, price_type, group in (
        ("a", PriceType.ON_DEMAND, ""),
        ("b", PriceType.ON_DEMAND, "pg"),
        ("b", PriceType.SPOT, ""),
    )
)
DEFAULTS = [
    {"select": {"node.vm_size": "m5.xlarge"}, "name": "ngpus", "value": 2},
    {"select": {"node.location": "b"}, "name": "ngpus", "value": 1},
    {"name": "ncpus", "value": "node.vcpu_count"},
    {"name": "disk", "value": "size::20g"},
]
LEAVES = st.sampled_from(
    [
        *({"node.vm_size": [size]} for size in ("m5.large", "m5.xlarge", "m5.2xlarge")),
        *({"node.vcpu_count": n} for n in (2, 4)),
        *({"node.location": zone} for zone in ("a", "b")),
        *({"node.spot": yes} for yes in (True, False)),
        *({"in-a-placement-group": yes} for yes in (True, False)),
        *({"ncpus": n} for n in (1, 3, 8)),
        *({"ngpus": n} for n in (1, 2)),
        {"h_vmem": "size::9g"},
        {"disk": "size::12g"},
        {"exclusive": True},
        {"never": "closed"},
    ]
)
CONSTRAINTS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda parts: {"and": parts}, st.lists(inner, max_size=2)),
        st.builds(lambda parts: {"or": parts}, st.lists(inner, min_size=1, max_size=2)),
        st.builds(lambda parts: {"xor": parts}, st.lists(inner, min_size=1, max_size=2)),
        st.builds(lambda part: {"not": part}, inner),
    ),
    max_leaves=4,
)
RULES = st.builds(
    lambda everybody, ann: {
        "constraints": everybody,
        "apply": [{"user": "ann", "constraints": part} for part in ann],
        "default_resources": DEFAULTS,
        "complexes": {"gpus": "ngpus"},
    },
    st.lists(CONSTRAINTS, max_size=2),
    st.lists(CONSTRAINTS, max_size=2),
)
ASKS = st.sampled_from(({}, {"gpus": "1"}, {"gpus": "4"}, {"h_vmem": "9G"}))


def world(rules: dict[str, Any], ask: dict[str, str], *things: Any) -> Snapshot:
    price_types = (PriceType.SPOT, PriceType.ON_DEMAND)
    snapshot = a_snapshot(
        a_job(owner="ann", hard=ask), *BUCKETS, *things, hybrid=True, family="m5", price_types=price_types
    )
    return replace(snapshot, policy=under(read_rules(json.dumps(rules)), snapshot.policy))


def chosen(found: Plan) -> list[Bucket]:
    return [
        bucket
        for action in found.actions
        if isinstance(action, Launch)
        for candidate in action.candidates
        for bucket in candidate.buckets
    ]


@pytest.mark.parametrize("launches", (True, False))
def test_among_these_rules_are_some_under_which_workers_are_launched_and_some_that_forbid_it(launches: bool) -> None:
    """Else the properties below would hold of nothing."""
    rules, ask = find(st.tuples(RULES, ASKS), lambda case: bool(chosen(plan(world(*case)))) is launches)
    assert bool(chosen(plan(world(rules, ask)))) is launches


@settings(max_examples=examples(50))
@given(RULES, ASKS)
def test_only_what_rules_allow_is_launched(rules: dict[str, Any], ask: dict[str, str]) -> None:
    defaults = read_rules(json.dumps(rules)).default_resources
    asked = [read_constraint(json.dumps(part)) for part in rules["constraints"]]
    asked += [read_constraint(json.dumps(entry["constraints"])) for entry in rules["apply"]]
    for bucket in chosen(plan(world(rules, ask))):
        bucket = replace(bucket, key=replace(bucket.key, node_array="execute"))
        node = node_of(properties_of_bucket(bucket), defaults)
        node = replace(node, resources={"h_vmem": bucket.type.memory, **node.resources})
        for constraint in asked:
            assert not isinstance(put_one("1", [constraint], NodeUse(node)), Reason)


@settings(max_examples=examples(50))
@given(RULES, ASKS)
def test_a_worker_launched_for_a_job_is_supply_for_it_while_coming_and_when_joined(
    rules: dict[str, Any], ask: dict[str, str]
) -> None:
    for bucket in chosen(plan(world(rules, ask)))[:1]:
        coming = worker_of(bucket)
        enrolling = plan(with_worker(world(rules, ask), coming))
        assert (reason_code(enrolling), chosen(enrolling)) == (Code.WAITS_FOR_COMING, [])
        enrol = next(action for action in enrolling.actions if isinstance(action, Enrol))
        host = a_host("w1", slots=enrol.slots, consumables=dict(enrol.complex_values))
        there = plan(with_worker(world(rules, ask), coming, host))
        assert (reason_code(there), chosen(there)) == (Code.FITS, [])


@settings(max_examples=examples(50))
@given(RULES, ASKS)
def test_grid_engine_is_not_asked_about_a_job_that_rules_forbid(rules: dict[str, Any], ask: dict[str, str]) -> None:
    snapshot = world(rules, ask)
    for _ in range(3):
        found = plan(snapshot)
        assert not any(isinstance(action, AskGridEngine | Hold | Kill) for action in found.actions)
        snapshot = replace(snapshot, memory=found.memory, now=snapshot.now + 60)


def worker_of(bucket: Bucket) -> Worker:
    key = bucket.key
    return Worker(
        "i-w1", bucket.type, "execute", MachineState.RUNNING, NOW - 60, "w1", None, key.zone, key.price_type,
        key.placement_group,
    )  # fmt: skip


def with_worker(snapshot: Snapshot, worker: Worker, host: ExecutionHost | None = None) -> Snapshot:
    """With that machine, and its execution host once it has joined."""
    fleet = replace(snapshot.fleet, workers=(worker,))
    if host is None:
        return replace(snapshot, fleet=fleet)
    note = WorkerNote(first_seen=LONG_AGO, joined_at=LONG_AGO, host="w1")
    cluster = replace(snapshot.cluster, hosts=(host,), execution_hosts=frozenset({"w1"}))
    return replace(snapshot, fleet=fleet, cluster=cluster, memory=replace(snapshot.memory, workers={"i-w1": note}))

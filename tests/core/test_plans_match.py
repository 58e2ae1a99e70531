"""A plan launches as many workers as the library's matching opens nodes for the same jobs under the same rules."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from autoscaler.constraints.library import (
    DefaultResource,
    JobDemand,
    MinimumResource,
    OfNode,
    candidates_of,
    match,
    read_rules,
)
from autoscaler.core.model.fleet import Bucket, BucketKey, InstanceType
from tests.core.building import GIB, Thing, a_host, a_worker, jobs, launched
from tests.core.test_rules_in_plans import planned

TYPE = InstanceType("m5.2xlarge", "m5", 8, 32 * GIB)
SLOTS = DefaultResource("of-its-slots", OfNode("vcpu_count"))
A_SLOT = MinimumResource("of-its-slots", 1)
GIVEN = [{"name": "disk", "value": "size::20g"}, {"name": "share", "value": 4}, {"name": "os", "value": "linux"}]


LEAVES = st.lists(
    st.sampled_from(
        (
            *(("disk", f"size::{size}") for size in ("3g", "5g", "10g", "21g")),
            *(("share", share) for share in (0.5, 1, 2, 3)),
            *(("ncpus", 3), ("memgb", "memory::12g"), ("ngpus", 1)),
            *(("os", "lin*"), ("os", "bsd"), ("node.spot", True), ("never", "no")),
        )
    ),
    min_size=1,
    max_size=2,
).map(lambda pairs: dict[str, Any](pairs))


def above(children: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    several = st.lists(children, min_size=1, max_size=3)
    return st.one_of(
        st.dictionaries(st.sampled_from(("and", "or", "xor")), several, min_size=1, max_size=1),
        st.dictionaries(st.just("not"), children, min_size=1, max_size=1),
    )


def has_nested_not(constraint: Any, below: bool = False) -> bool:
    """Below a second `not` an amount is required again: a plan compares it with the whole node (docs/rules.md), and
    matching with what is left.
    """
    if isinstance(constraint, list):
        return any(has_nested_not(one, below) for one in constraint)
    if not isinstance(constraint, dict):
        return False
    return any(
        (name == "not" and below) or has_nested_not(one, below or name == "not") for name, one in constraint.items()
    )


@given(st.recursive(LEAVES, above, max_leaves=5), st.integers(1, 8), st.booleans())
def test_a_plan_launches_as_many_workers_as_matching_creates_nodes(
    constraint: dict[str, Any], count: int, with_one: bool
) -> None:
    assume(not has_nested_not(constraint))
    document = {"default_resources": GIVEN, "constraints": [constraint]}
    rules = read_rules(json.dumps(document))
    bucket = Bucket(BucketKey(TYPE.name, node_array="execute"), TYPE)
    (candidate,) = candidates_of([bucket], (*rules.default_resources, SLOTS))
    there = [candidate.node("w1")] if with_one else []
    found = match([JobDemand("j", (*rules.constraints, A_SLOT), count)], there, [candidate])
    worker: list[Thing] = [a_worker("w1", type_=TYPE, host=a_host("w1", slots=8))] if with_one else []
    plan = planned(document, jobs(count), *worker, instance_type=TYPE.name)
    assert launched(plan) == ({TYPE.name: len(found.new)} if found.new else {})

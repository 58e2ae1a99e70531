"""Demand on nodes: which nodes get which tasks, which are created, and why the others are rejected."""

from __future__ import annotations

import pytest

from autoscaler.constraints.matching import Candidate, JobDemand, Matched, match
from autoscaler.core.constraints.constraint import (
    And,
    Constraint,
    Exclusive,
    MinimumResource,
    Never,
    NodePropertyConstraint,
    NodeResourceConstraint,
    Or,
    XOr,
)
from autoscaler.core.constraints.default_resources import DefaultResource, OfNode, node_of
from autoscaler.core.constraints.node import Node, NodeProperties
from autoscaler.core.constraints.shared import SharedConsumableConstraint, SharedConsumableResource
from autoscaler.core.constraints.values import Value
from autoscaler.report.wording import text

ONE = MinimumResource("ncpus", 1)
CPUS = (DefaultResource("ncpus", OfNode("vcpu_count")),)
SMALL = Candidate(NodeProperties("execute", "small", vcpu_count=2), CPUS)
LARGE = Candidate(NodeProperties("execute", "large", vcpu_count=8, spot=True), CPUS)


def a_node(name: str, ncpus: int) -> Node:
    return Node(NodeProperties("execute", "small", name=name), {"ncpus": ncpus})


def a_job(name: str = "j", count: int = 1, *constraints: object) -> JobDemand:
    return JobDemand(name, constraints or (ONE,), count)  # type: ignore[arg-type]


def test_existing_nodes_are_used_before_new_ones() -> None:
    found = match([a_job("j", 4)], [a_node("n1", 1)], [SMALL])
    assert found.matched == (Matched("j", "n1", 1), Matched("j", "execute-1", 2), Matched("j", "execute-2", 1))


def test_a_later_job_uses_what_an_earlier_one_left_on_a_new_node() -> None:
    found = match([a_job("a"), a_job("b")], [], [SMALL])
    assert found.new == ("execute-1",)


def test_a_new_node_takes_no_name_that_is_in_use() -> None:
    assert match([a_job("j", 2)], [a_node("execute-1", 1)], [SMALL]).new == ("execute-2",)


def test_nodes_of_a_bucket_without_a_node_array_get_names_too() -> None:
    anywhere = Candidate(NodeProperties("", "small", vcpu_count=2), CPUS, 1)
    found = match([a_job("j", 3)], [], [anywhere])
    assert (found.new, [part.node for part in found.rejected]) == (("node-1",), ["small"])


def test_the_next_candidate_is_used_when_the_first_is_exhausted() -> None:
    found = match([a_job("j", 5)], [], [Candidate(SMALL.properties, CPUS, 1), LARGE])
    assert (len(found.new), found.unmatched, [(r.node, text(r.reason)) for r in found.rejected]) == (
        2, {}, [("execute/small", "no more of it is available")],
    )  # fmt: skip


GPU = Candidate(NodeProperties("gpuarray", "gpu", vcpu_count=6, gpu_count=1, spot=True), CPUS, 1)
GPU_ELSE_LARGE = Or(
    (
        And((NodePropertyConstraint("gpu_count", (1,)), ONE)),
        And((NodePropertyConstraint("vm_size", ("large", "small")), ONE)),
    )
)


@pytest.mark.parametrize(
    ("constraint", "new"),
    (
        (GPU_ELSE_LARGE, ["gpuarray/gpu", "execute/large"]),
        (And((GPU_ELSE_LARGE,)), ["gpuarray/gpu", "execute/large"]),
        (XOr((GPU_ELSE_LARGE, Never("no"))), ["gpuarray/gpu", "execute/large"]),
        (And((NodePropertyConstraint("vm_size", ("la*", "gpu")), ONE)), ["execute/large"]),
        (And((NodeResourceConstraint("nodearray", ("gpuarray", "execute")), ONE)), ["gpuarray/gpu", "execute/small"]),
        (ONE, ["execute/small"] * 4),
    ),
)
def test_an_earlier_alternative_is_used_first(constraint: Constraint, new: list[str]) -> None:
    found = match([a_job("j", 8, constraint)], [], [SMALL, LARGE, GPU])
    assert [f"{node.properties.nodearray}/{node.properties.vm_size}" for node in found.nodes] == new


def test_an_earlier_alternative_is_used_first_among_existing_nodes() -> None:
    nodes = [a_node("n1", 1), a_node("n2", 4), a_node("n3", 4)]
    four = Or((MinimumResource("ncpus", 4), MinimumResource("ncpus", 1)))
    found = match([a_job("j", 3, four)], nodes)
    assert [part.node for part in found.matched] == ["n2", "n3", "n1"]


def test_a_candidate_used_up_by_one_job_is_not_available_to_the_next() -> None:
    only = Candidate(SMALL.properties, CPUS, 1)
    assert match([a_job("a", 2), a_job("b", 1)], [], [only]).unmatched == {"b": 1}


def test_an_unmatched_job_lists_the_reason_of_every_node() -> None:
    found = match([a_job("j", 2, MinimumResource("ncpus", 9))], [a_node("n1", 1)], [SMALL, LARGE])
    assert (found.unmatched, [(r.node, text(r.reason)) for r in found.rejected]) == (
        {"j": 2},
        [
            ("n1", "of ncpus it has 1 left of 1, and 9 is requested"),
            ("execute/small", "of ncpus it has 2 left of 2, and 9 is requested"),
            ("execute/large (spot)", "of ncpus it has 8 left of 8, and 9 is requested"),
        ],
    )


def test_a_shared_resource_is_used_up_across_jobs() -> None:
    licences = SharedConsumableConstraint([SharedConsumableResource("lic", "", 3, 3)], 1)
    found = match([a_job("a", 2, licences, ONE), a_job("b", 2, licences, ONE)], [], [SMALL])
    assert (found.unmatched, dict(found.spent)) == ({"b": 1}, {("lic", ""): 3})


def test_every_task_of_an_exclusive_job_gets_its_own_node() -> None:
    assert len(match([a_job("a", 3, ONE, Exclusive())], [], [LARGE]).new) == 3


def test_tasks_of_an_exclusive_task_job_share_nodes_only_with_each_other() -> None:
    found = match([a_job("a", 3, ONE, Exclusive(tasks=True)), a_job("b")], [], [LARGE])
    assert [(m.job, m.node, m.tasks) for m in found.matched] == [("a", "execute-1", 3), ("b", "execute-2", 1)]


def test_resources_derived_from_a_nodes_name_are_computed_for_each_new_node() -> None:
    named = Candidate(SMALL.properties, (*CPUS, DefaultResource("host", OfNode("name"))))
    hosts: list[Value] = [node.resources["host"] for node in match([a_job("j", 3)], [], [named]).nodes]
    assert hosts == ["execute-1", "execute-2"]


def test_a_demand_that_takes_nothing_needs_one_node() -> None:
    found = match([a_job("j", 1000, NodePropertyConstraint("spot", (True,)))], [], [SMALL, LARGE])
    assert found.matched == (Matched("j", "execute-1", 1000),)


def test_matched_and_unmatched_tasks_add_up_to_the_demand() -> None:
    jobs = [a_job("a", 7), a_job("b", 3, MinimumResource("ncpus", 2)), a_job("c", 4, MinimumResource("ncpus", 5))]
    found = match(jobs, [a_node("n1", 3)], [Candidate(SMALL.properties, CPUS, 2), Candidate(LARGE.properties, CPUS, 2)])
    placed = {job.name: sum(m.tasks for m in found.matched if m.job == job.name) for job in jobs}
    assert {name: placed[name] + found.unmatched.get(name, 0) for name in placed} == {"a": 7, "b": 3, "c": 4}


def test_an_exclusive_job_takes_no_node_where_others_run() -> None:
    busy = node_of(SMALL.properties, CPUS, jobs=["4711"])
    found = match([a_job("a", 1, Exclusive())], [busy])
    assert [text(part.reason) for part in found.rejected] == ["it is requested exclusively, but 4711 runs on it"]


def test_a_job_has_no_negative_number_of_tasks() -> None:
    with pytest.raises(ValueError, match="a cannot have -1 tasks"):
        a_job("a", -1)


def test_jobs_of_the_same_name_are_rejected() -> None:
    with pytest.raises(ValueError, match="name of its own"):
        match([a_job("a"), a_job("a")], [])

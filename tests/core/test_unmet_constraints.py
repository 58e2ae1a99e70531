"""The reason of a job that rules forbid names the nearest workers first, at a cost that does not grow with the jobs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from autoscaler.constraints.library import read_rules
from autoscaler.core.capacity.unmet_constraints import Misses
from autoscaler.core.constraints.constraint import Document, Never, NodeUse
from autoscaler.core.constraints.ruleset import Entry, Rules
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.plan import plan
from autoscaler.core.requests.array_timeouts import under
from autoscaler.core.snapshot import Snapshot
from autoscaler.report.wording import text
from tests.core.building import M5, Thing, a_bucket, a_job, a_snapshot, category_of

SMALL = {"node.vm_size": ["m5.large"]}
CLOSED = (Entry("constraints[0]", Never("closed")),)
KINDS = [(a_snapshot(hybrid=True, family="m5").policy.node_arrays[0], a_bucket(type_)) for type_ in M5]
NOT_THE_LARGEST = {"not": {"node.vm_size": "m5.8xlarge"}}


def ruled(entries: list[Any], *things: Thing) -> Snapshot:
    """A snapshot with all of M5 under these constraints."""
    snapshot = a_snapshot(*things, hybrid=True, family="m5")
    return replace(snapshot, policy=under(read_rules(json.dumps({"constraints": entries})), snapshot.policy))


def reported(*entries: Any, **job: Any) -> list[str]:
    """Each worker that is reported, and why not."""
    reason = category_of(plan(ruled(list(entries), a_job(**job)))).reason
    forbidden = next(one for one in (reason, *reason.trail) if one.code is Code.RULES_FORBID)
    return [text(link) for link in forbidden.trail if link.code is Code.AGAINST_RULES]


def test_the_worker_that_misses_the_fewest_entries_is_reported_first() -> None:
    assert reported(SMALL, {"project": "open"})[0] == "not execute/m5.large; it has no project"


def test_of_workers_that_miss_as_many_entries_the_nearest_is_reported_first() -> None:
    assert reported([SMALL, {"project": "open"}])[0] == "not execute/m5.large; it has no project"


def test_a_never_constraint_is_reported_on_the_worker_that_meets_the_rest() -> None:
    assert reported([SMALL, {"never": "closed for repair"}])[0] == "not execute/m5.large; closed for repair"


def test_a_never_constraint_is_reported_before_a_workers_other_misses() -> None:
    first = reported({"project": "open"}, {"rack": "a"}, {"zone": "b"}, {"never": "closed for repair"})[0]
    assert first.partition("; ")[2].startswith("closed for repair; ")


def test_a_never_constraint_on_a_distant_worker_is_reported_too() -> None:
    far = {"or": [NOT_THE_LARGEST, {"never": "the largest are booked"}]}
    others = reported({"project": "open"}, far)
    assert ("booked" in others[0], [line.partition(";")[0] for line in others if "booked" in line]) == (
        False,
        ["not execute/m5.8xlarge"],
    )


def test_at_most_three_workers_are_reported() -> None:
    assert len(reported({"project": "open"}, {"never": "closed for repair"})) == 3


def test_a_worker_that_could_not_run_the_job_anyway_is_not_reported_first() -> None:
    near = reported({"or": [SMALL, {"node.vm_size": "m5.4xlarge"}]}, {"project": "open"}, slots=16, pe="local")
    assert near[0] == "not execute/m5.4xlarge; it has no project"


def test_a_job_that_no_worker_could_run_is_not_reported_as_forbidden_by_rules() -> None:
    assert Misses(Rules(), {}).reason(CLOSED, KINDS, "these", lambda _: False) is None


@dataclass
class Counted:
    """A constraint that no node meets, and how often it was checked."""

    nodes: list[str] = field(default_factory=list)

    def take(self, standing: NodeUse) -> NodeUse | Reason:
        self.nodes.append(standing.node.properties.vm_size)
        return because(Code.NEVER, message="no")

    def document(self) -> Document:
        return {}


@pytest.mark.parametrize("job_categories", (1, 50))
def test_constraints_are_checked_once_a_kind_of_worker_however_many_job_categories(job_categories: int) -> None:
    counted = Counted()
    misses = Misses(Rules(), {})
    for number in range(job_categories):
        misses.reason((Entry("constraints[0]", counted),), KINDS, ("main.q", number), lambda _: True)
    assert len(counted.nodes) <= 2 * len(M5)

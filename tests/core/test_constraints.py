"""What each constraint uses up of a node, and its reason if it rejects the node."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.constraints.constraint import (
    And,
    Constraint,
    Exclusive,
    InAPlacementGroup,
    MinimumResource,
    Never,
    NodePropertyConstraint,
    NodeResourceConstraint,
    NodeUse,
    Not,
    Or,
    XOr,
    put_one,
)
from autoscaler.core.constraints.node import Node, NodeProperties
from autoscaler.core.constraints.shared import (
    SharedConstraint,
    SharedConsumableConstraint,
    SharedConsumableResource,
    SharedNonConsumableResource,
)
from autoscaler.core.constraints.values import Size, Value
from autoscaler.core.model.reasons import Reason
from autoscaler.report.wording import text

GIB = 1024**3
F2 = NodeProperties("execute", "Standard_F2", name="execute-1", vcpu_count=4, spot=True, location="westus2")
HAS: Mapping[str, Value] = {"ncpus": 4, "mem": Size(8 * GIB), "os": "linux", "told": "true", "level": 16, "share": 1}
LICENSES = SharedConsumableResource("licenses", "/etc/licences", 1000, 3)
VERSION = SharedNonConsumableResource("prodversion", "/etc/version", "1.2.3")
ONE, FIVE = MinimumResource("ncpus", 1), MinimumResource("ncpus", 5)


def apply_to(*constraints: Constraint, job: str = "j", node: Node | None = None) -> NodeUse | str:
    """A task with these constraints on one node: the use after it, or why not."""
    after = put_one(job, constraints, NodeUse(node or Node(F2, HAS)))
    return text(after) if isinstance(after, Reason) else after


def left(name: str, *constraints: Constraint) -> Value:
    """What is left of a resource after one task."""
    after = apply_to(*constraints)
    assert isinstance(after, NodeUse), after
    return after.node.remaining(name)


@pytest.mark.parametrize(
    ("constraint", "name", "remains"),
    (
        (ONE, "ncpus", 3),
        (MinimumResource("ncpus", 4), "ncpus", 0),
        (MinimumResource("mem", Size(3 * GIB)), "mem", 5 * GIB),
        (MinimumResource("mem", 1024), "mem", 8 * GIB - 1024),
        (MinimumResource("ncpus", 0.5), "ncpus", 3.5),
        (And((ONE, MinimumResource("ncpus", 2))), "ncpus", 1),
        (Or((FIVE, MinimumResource("ncpus", 2), ONE)), "ncpus", 2),
        (XOr((FIVE, MinimumResource("ncpus", 2))), "ncpus", 2),
        (Not(FIVE), "ncpus", 4),
        (NodeResourceConstraint("level", 16), "level", 16),
        (Exclusive(), "ncpus", 4),
    ),
)
def test_a_constraint_uses_up_the_amount_that_it_requests(constraint: Constraint, name: str, remains: Value) -> None:
    assert left(name, constraint) == remains


def test_a_size_stays_a_size_when_part_of_it_is_used() -> None:
    assert str(left("mem", MinimumResource("mem", Size(3 * GIB)))) == "5g"


@pytest.mark.parametrize("shares", ((0.1,) * 10, (0.1 + 0.2, 0.7), (0.7, 0.1 + 0.2)))
def test_fractions_that_sum_to_one_use_up_the_whole_resource(shares: tuple[float, ...]) -> None:
    assert left("share", *(MinimumResource("share", share) for share in shares)) == 0


@pytest.mark.parametrize(
    ("constraint", "why"),
    (
        (FIVE, "of ncpus it has 4 left of 4, and 5 is requested"),
        (And((ONE, MinimumResource("ncpus", 4))), "of ncpus it has 3 left of 4, and 4 is requested"),
        (MinimumResource("mem", Size(9 * GIB)), "of mem it has 8g left of 8g, and 9g is requested"),
        (MinimumResource("ngpus", 1), "it has no ngpus"),
        (MinimumResource("os", 1), 'its os is "linux", and 1 is requested'),
        (NodeResourceConstraint("told", (True,)), 'its told is "true", and true is requested'),
        (NodeResourceConstraint("os", ("windows", "macos")), "its os is linux, and windows or macos is requested"),
        (NodeResourceConstraint("level", "16"), 'its level is 16, and "16" is requested'),
        (NodeResourceConstraint("mem", "4g"), 'its mem is 8g, and "4g" is requested'),
        (NodeResourceConstraint("absent", "x"), "it has no absent"),
        (NodePropertyConstraint("vcpu_count", (44,)), "its node.vcpu_count is 4, and 44 is requested"),
        (NodePropertyConstraint("spot", (False,)), "its node.spot is true, and false is requested"),
        (Or((FIVE, Never("no"))), "it meets no alternative of 2; of ncpus it has 4 left of 4, and 5 is requested; no"),
        (Or((MinimumResource("x", 1), MinimumResource("x", 2))), "it meets no alternative of 2; it has no x"),
        (XOr((FIVE,)), "it meets no alternative of 1; of ncpus it has 4 left of 4, and 5 is requested"),
        (XOr((ONE, FIVE, Not(FIVE))), 'it meets several alternatives where only one may be met: {"ncpus": 1}, '
         '{"not": {"ncpus": 5}}'),
        (Not(ONE), 'it meets a constraint that must not hold: {"ncpus": 1}'),
        (InAPlacementGroup(True), "it is in no placement group, and must be in one"),
        (Never("User is denied access to this project"), "User is denied access to this project"),
        (SharedConsumableConstraint([LICENSES], 4), ("of licenses, which all share, 3 of 1000 are left, and 4 is "
        "requested")),
        (SharedConstraint([VERSION], "2.0"),
         "the shared resource prodversion is 1.2.3, and the constraint requires 2.0"),
        (SharedConstraint([VERSION], (2, "2.0")),
         'the shared resource prodversion is "1.2.3", and the constraint requires 2 or 2.0'),
    ),
)  # fmt: skip
def test_a_constraint_reports_why_it_rejects_a_node(constraint: Constraint, why: str) -> None:
    assert apply_to(constraint) == why


@pytest.mark.parametrize(
    ("constraint", "met"),
    (
        (NodePropertyConstraint("vm_size", ("Standard_F*",)), True),
        (NodePropertyConstraint("vm_size", ("Standard_E*", "*_F?")), True),
        (NodePropertyConstraint("vm_size", ("Standard_[DE]2",)), False),
        (NodePropertyConstraint("vm_size", ("standard_f*",)), False),
        (NodeResourceConstraint("os", "lin*"), True),
        (NodeResourceConstraint("level", "*"), False),
        (NodeResourceConstraint("rack", "r[1]"), True),
        (SharedConstraint([VERSION], "1.2.*"), True),
    ),
)
def test_a_text_constraint_may_have_wildcards(constraint: Constraint, met: bool) -> None:
    assert isinstance(apply_to(constraint, node=Node(F2, {**HAS, "rack": "r[1]"})), NodeUse) is met


def test_a_node_in_a_placement_group_is_rejected_if_none_is_allowed() -> None:
    grouped = Node(NodeProperties("execute", "Standard_F2", placement_group="pg1"))
    assert apply_to(InAPlacementGroup(False), node=grouped) == "it is in the placement group pg1, and must be in none"


def test_a_rejected_task_uses_nothing_up() -> None:
    use = NodeUse(Node(F2, HAS))
    put_one("j", [ONE, Never("no")], use)
    assert use == NodeUse(Node(F2, HAS))


@pytest.mark.parametrize("constraint", (NodePropertyConstraint("spot", (1,)), NodeResourceConstraint("ncpus", True)))
def test_a_boolean_does_not_match_a_number(constraint: Constraint) -> None:
    assert isinstance(apply_to(constraint), str)


def test_a_shared_consumable_is_used_up_across_nodes() -> None:
    first = apply_to(SharedConsumableConstraint([LICENSES], 2))
    assert isinstance(first, NodeUse)
    after = put_one("k", [SharedConsumableConstraint([LICENSES], 2)], NodeUse(Node(F2), "k", first.spent))
    assert isinstance(after, Reason)


def test_of_several_shared_resources_each_must_have_enough() -> None:
    site = SharedConsumableResource("site", "", 10, 1)
    assert isinstance(apply_to(SharedConsumableConstraint([LICENSES, site], 2)), str)


def test_a_shared_non_consumable_resource_is_only_read() -> None:
    after = apply_to(SharedConstraint([VERSION], "1.2.3"))
    assert isinstance(after, NodeUse)
    assert not after.spent


# -- exclusive ---------------------------------------------------------------------------------------------------


def on(jobs: Mapping[str, Constraint]) -> str:
    """A task of each of these jobs in turn on one node: the last one's answer."""
    use: NodeUse = NodeUse(Node(F2, HAS))
    answer = "taken"
    for job, constraint in jobs.items():
        after = apply_to(constraint, ONE, job=job.rstrip("'"), node=use.node)
        if isinstance(after, NodeUse):
            use, answer = after, "taken"
        else:
            answer = after
    return answer


@pytest.mark.parametrize(
    ("jobs", "answer"),
    (
        ({"a": Exclusive(), "b": And()}, "a uses it exclusively"),
        ({"a": Exclusive(), "a'": Exclusive()}, "a uses it exclusively"),
        ({"a": And(), "b": Exclusive()}, "it is requested exclusively, but a runs on it"),
        ({"a": And(), "a'": Exclusive()}, "it is requested exclusively, but a runs on it"),
        ({"a": Exclusive(tasks=True), "a'": Exclusive(tasks=True)}, "taken"),
        ({"a": Exclusive(tasks=True), "b": And()}, "a uses it exclusively"),
        ({"a": And(), "b": Exclusive(tasks=True)}, "it is requested exclusively, but a runs on it"),
        ({"a": And(), "b": And()}, "taken"),
    ),
)
def test_an_exclusive_node_runs_one_job(jobs: Mapping[str, Constraint], answer: str) -> None:
    assert on(jobs) == answer


# -- what a program may set -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("amount", (-1, "4", True, float("nan")))
def test_an_amount_must_be_a_number_of_at_least_0(amount: object) -> None:
    with pytest.raises(ValueError, match="at least 0"):
        MinimumResource("ncpus", amount)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 0"):
        SharedConsumableConstraint([LICENSES], amount)  # type: ignore[arg-type]


CONSTRAINTS = st.recursive(
    st.builds(MinimumResource, st.sampled_from(("ncpus", "share")), st.integers(0, 6))
    | st.builds(NodeResourceConstraint, st.just("level"), st.lists(st.integers(15, 17), min_size=1).map(tuple))
    | st.builds(InAPlacementGroup, st.booleans())
    | st.builds(Exclusive, st.booleans()),
    lambda children: (
        st.builds(Not, children)
        | st.lists(children, max_size=3).map(tuple).map(And)
        | st.lists(children, min_size=1, max_size=3).map(tuple).flatmap(
            lambda parts: st.sampled_from((Or(parts), XOr(parts)))
        )
    ),
    max_leaves=8,
)  # fmt: skip


@given(CONSTRAINTS)
def test_no_constraint_takes_more_than_is_left_or_gives_anything_back(constraint: Constraint) -> None:
    after = apply_to(constraint)
    if isinstance(after, NodeUse):
        assert all(0 <= amount <= HAS[name] for name, amount in after.node.left.items())  # type: ignore[operator]


@given(CONSTRAINTS)
def test_exactly_one_of_a_constraint_and_its_negation_accepts_a_node(constraint: Constraint) -> None:
    assert isinstance(apply_to(constraint), NodeUse) is not isinstance(apply_to(Not(constraint)), NodeUse)

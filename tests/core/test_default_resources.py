"""What a node has before it exists: rules in order, the first for a name wins, a host's own value overrides all."""

from __future__ import annotations

import pytest

from autoscaler.core.constraints.constraint import NodePropertyConstraint, NodeResourceConstraint
from autoscaler.core.constraints.default_resources import (
    DefaultResource,
    OfNode,
    OfResource,
    Operator,
    changed,
    node_of,
    resources_of,
)
from autoscaler.core.constraints.node import NodeProperties
from autoscaler.core.constraints.values import Size, Value

GIB = 1024**3
F2 = NodeProperties("execute", "Standard_F2", vcpu_count=4, pcpu_count=2, memory=Size(8 * GIB))
SPECIAL = NodePropertyConstraint("nodearray", ("special",))


@pytest.mark.parametrize(
    ("default", "value"),
    (
        (DefaultResource("ncpus", OfNode("vcpu_count")), 4),
        (DefaultResource("ncpus", 42), 42),
        (DefaultResource("disk", Size(20 * GIB)), 20 * GIB),
        (DefaultResource("os", "linux"), "linux"),
        (DefaultResource("mem", OfNode("memory"), changes=((Operator.SUBTRACT, Size(GIB)),)), 7 * GIB),
        (DefaultResource("mem", OfNode("memory"), changes=((Operator.DIVIDE, OfNode("vcpu_count")),)), 2 * GIB),
        (DefaultResource("n", 10, changes=((Operator.ADD, 2), (Operator.MULTIPLY, 3))), 36),
        (DefaultResource("n", 10, changes=((Operator.MULTIPLY, 3), (Operator.ADD, 2))), 32),
        (DefaultResource("n", 2, changes=((Operator.SUBTRACT, 3),)), 0),
        (DefaultResource("host", OfNode("hostname")), None),
        (DefaultResource("n", OfNode("vm_size"), changes=((Operator.ADD, 1),)), None),
        (DefaultResource("n", 1, changes=((Operator.DIVIDE, OfNode("gpu_count")),)), None),
        (DefaultResource("n", 1, SPECIAL), None),
    ),
)
def test_a_default_resource_has_its_value_if_there_is_one(default: DefaultResource, value: Value) -> None:
    assert resources_of(F2, [default]) == ({} if value is None else {default.name: value})


@pytest.mark.parametrize(
    ("value", "operator", "by", "result"),
    (
        (Size(8), Operator.DIVIDE, Size(2), "4"),
        (Size(8), Operator.DIVIDE, 3, "2b"),
        (Size(1024), Operator.MULTIPLY, 0.5, "512b"),
        (2, Operator.MULTIPLY, Size(1024), "2k"),
        (7, Operator.DIVIDE, 2, "3.5"),
        (7, Operator.DIVIDE_FLOOR, 2, "3"),
        (Size(7), Operator.DIVIDE_FLOOR, 2, "3b"),
        (Size(7), Operator.DIVIDE_FLOOR, Size(2), "3"),
        (7, Operator.DIVIDE_FLOOR, 0, "None"),
        (8, Operator.DIVIDE, 2, "4"),
        (1e308, Operator.MULTIPLY, 10, "None"),
    ),
)
def test_arithmetic_keeps_bytes_and_whole_numbers(value: float, operator: Operator, by: float, result: str) -> None:
    assert str(changed(value, operator, by)) == result


def test_the_first_rule_that_selects_a_node_wins() -> None:
    rules = [DefaultResource("ncpus", 42, SPECIAL), DefaultResource("ncpus", OfNode("pcpu_count"))]
    given = [resources_of(NodeProperties(array, "F2", pcpu_count=2), rules) for array in ("special", "other")]
    assert given == [{"ncpus": 42}, {"ncpus": 2}]


def test_a_rule_after_one_without_a_selection_is_never_reached() -> None:
    rules = [DefaultResource("ncpus", OfNode("pcpu_count")), DefaultResource("ncpus", 42, SPECIAL)]
    assert resources_of(NodeProperties("special", "F2", pcpu_count=2), rules) == {"ncpus": 2}


def test_a_joined_hosts_own_values_override() -> None:
    assert resources_of(F2, [DefaultResource("ncpus", 42)], {"ncpus": 3}) == {"ncpus": 3}


def test_the_next_rule_applies_if_a_value_is_not_known_yet() -> None:
    rules = [DefaultResource("host", OfNode("hostname")), DefaultResource("host", "none-yet")]
    assert resources_of(F2, rules) == {"host": "none-yet"}


def test_a_rule_may_select_by_an_earlier_rules_resource() -> None:
    rules = [DefaultResource("os", "linux"), DefaultResource("n", 1, NodeResourceConstraint("os", "linux"))]
    assert resources_of(F2, rules) == {"os": "linux", "n": 1}


def test_a_rule_may_use_an_earlier_rules_resource() -> None:
    rules = [DefaultResource("free", OfResource("memgb"), changes=((Operator.SUBTRACT, Size(GIB)),))]
    rules += [DefaultResource("mfree", OfResource("free")), DefaultResource("other", OfResource("later"))]
    assert resources_of(F2, rules) == {"free": Size(7 * GIB), "mfree": Size(7 * GIB)}


@pytest.mark.parametrize(
    ("name", "value"),
    (("ncpus", 4), ("pcpus", 2), ("ngpus", 0), ("memb", 8 * GIB), ("memtb", 8 * GIB), ("nodearray", "execute")),
)
def test_every_node_has_built_in_resources(name: str, value: Value) -> None:
    assert node_of(F2, ()).resources[name] == value


def test_a_rule_overrides_a_built_in_resource() -> None:
    assert node_of(F2, [DefaultResource("ngpus", 2)]).resources["ngpus"] == 2


def test_a_rule_may_select_by_a_built_in_resource() -> None:
    rules = [DefaultResource("n", 1, NodeResourceConstraint("nodearray", "execute"))]
    assert resources_of(F2, rules) == {"n": 1}

"""A policy under rules: timeouts that rules give for a node array replace those of the settings."""

from __future__ import annotations

from dataclasses import replace

from autoscaler.core.constraints.per_array import PerNodeArray
from autoscaler.core.constraints.ruleset import Rules
from autoscaler.core.policy import NodeArrayPolicy, Policy


def under(rules: Rules | None, policy: Policy) -> Policy:
    """The policy with these rules in force, for the node arrays of the settings and all that stem from them."""
    if rules is None and policy.rules is None:
        return policy
    return replace(policy, rules=rules, node_arrays=tuple(_array(array, rules) for array in policy.node_arrays))


def _array(array: NodeArrayPolicy, rules: Rules | None) -> NodeArrayPolicy:
    if rules is None:
        return replace(array, rules=None)
    return replace(
        array,
        rules=rules,
        idle_timeout=_seconds(rules.idle_timeout, array.name, array.idle_timeout),
        boot_timeout=_seconds(rules.boot_timeout, array.name, array.boot_timeout),
    )


def _seconds(given: PerNodeArray[float] | None, node_array: str, otherwise: float) -> float:
    return otherwise if given is None else given.of(node_array)

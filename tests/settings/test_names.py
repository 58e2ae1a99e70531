"""Settings and the policy agree by name: every value that an operator sets reaches the code that uses it."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from autoscaler.core.policy import Limits, NodeArrayPolicy, Policy, QueuePolicy
from autoscaler.settings import Process, QueueSettings
from autoscaler.settings.rows import Section, extra

ROOT = Path(__file__).parents[2]
TABLES = ("autoscaler/settings/process_settings.py", "autoscaler/settings/queue_settings.py")


# -- from settings to the policy -------------------------------------------------------------------------------------

REQUEST = "a request sets it"
DERIVED = "`settings/policies.py` and `Settings.policy()` make it of settings of other names"
WITHOUT_SETTING: Mapping[type[Any], Mapping[str, str]] = MappingProxyType(
    {
        QueuePolicy: {"name": DERIVED, "node_array": DERIVED},
        NodeArrayPolicy: {
            **dict.fromkeys(("name", "family", "max_cores_per_worker", "limits", "proposes", "of_profile"), DERIVED),
            **dict.fromkeys(("keep_alive", "machine_types", "unknown_types", "extends"), REQUEST),
            **dict.fromkeys(("group_cores", "group_count", "requested"), REQUEST),
            "host_limits": "quotas for each host set it (core/rights/host_quotas.py)",
            "queue_values": "the queue itself sets it (core/placement/queue_instances.py)",
            "rules": "the file of rules sets it",
        },
        Limits: {
            **dict.fromkeys(("max_workers", "of", "switched_off"), DERIVED),
            **dict.fromkeys(("max_own_workers", "max_own_cores"), REQUEST),
        },
        Policy: {
            **dict.fromkeys(("queues", "node_arrays", "circuit_breaker", "host_names"), DERIVED),
            "master": "Grid Engine's name of the host",
            "detail_age": "it is the same everywhere",
            "assigns": "`plan --assignment` sets it",
        },
    }
)
"""By kind of policy: fields that no setting of their name fills, and why."""
FILLED_BY: Mapping[type[Any], tuple[type[Section], ...]] = MappingProxyType(
    {
        QueuePolicy: (QueueSettings,),
        NodeArrayPolicy: (QueueSettings,),
        Limits: (QueueSettings, Process),
        Policy: (Process,),
    }
)


@pytest.mark.parametrize("kind", FILLED_BY)
def test_every_field_of_the_policy_is_a_setting_or_a_stated_exception(kind: type[Any]) -> None:
    settings = {name for section in FILLED_BY[kind] for name in section.model_fields}
    assert {field.name for field in fields(kind)} - settings == set(WITHOUT_SETTING[kind])


# -- from settings to the code ---------------------------------------------------------------------------------------

READ_BY_ENVIRONMENT_NAME = frozenset({"autoscale", "disable_default_queue"})
"""`settings/queues.py` reads these before there is a table: they say which queues there are."""


@cache
def attributes_read() -> frozenset[str]:
    """Names of attributes that the product reads outside the tables of settings."""
    files = {path for folder in ("autoscaler", "providers", "sge") for path in (ROOT / folder).rglob("*.py")}
    trees = (ast.parse(path.read_text("utf-8")) for path in files - {ROOT / table for table in TABLES})
    return frozenset(
        node.attr
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    )


@pytest.mark.parametrize("section", (Process, QueueSettings))
def test_every_setting_with_an_effect_is_read(section: type[Section]) -> None:
    effective = {name for name in section.model_fields if not extra(section, name, "no_effect")}
    assert effective - attributes_read() - READ_BY_ENVIRONMENT_NAME == set()


def test_settings_that_are_read_by_environment_name_are_not_read_otherwise() -> None:
    assert READ_BY_ENVIRONMENT_NAME.isdisjoint(attributes_read())
    assert set(Process.model_fields) >= READ_BY_ENVIRONMENT_NAME

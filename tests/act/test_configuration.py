"""The configuration that a worker of a node array gets."""

from __future__ import annotations

import json

import pytest

from autoscaler.core.model.request_sets import ArrayDefinition
from autoscaler.engine.worker_values import configuration_of


def defined(name: str, extends: str | None = None, **configuration: object) -> ArrayDefinition:
    return ArrayDefinition(name, extends=extends, configuration=json.dumps(configuration))


CHAIN = (
    defined("execute", app={"version": "1", "home": "/opt/app"}),
    defined("dynamic", "execute", app={"version": "2"}),
    defined("dynamic:64", "dynamic", mpi="yes"),
    defined("lost", "nobody", own="1"),
    defined("around", "back", a="1"),
    defined("back", "around", b="2"),
)


@pytest.mark.parametrize(
    ("node_array", "values"),
    (
        ("execute", {"app.version": "1", "app.home": "/opt/app"}),
        ("dynamic:64", {"app.version": "2", "app.home": "/opt/app", "mpi": "yes"}),
        ("execute:8", {"app.version": "1", "app.home": "/opt/app"}),
        ("lost", {"own": "1"}),
        ("around", {"a": "1", "b": "2"}),
        ("unknown", {}),
        ("unknown:8", {}),
    ),
)
def test_the_configuration_of_an_array_overrides_the_array_that_it_extends(
    node_array: str, values: dict[str, str]
) -> None:
    assert configuration_of(node_array, CHAIN) == values

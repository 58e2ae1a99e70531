"""Parts of a rules document: the jobs to which rules apply (by queue, parallel environment, project, user or context),
and the complexes of Grid Engine that correspond to resources of the rules.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from autoscaler.constraints.documents import (
    NO_SHARED,
    Names,
    Shared,
    constraint_from,
    entries,
    known,
    listed,
    words,
    wrong,
)
from autoscaler.constraints.json_text import below
from autoscaler.constraints.vm_sizes import facts_from, record_of
from autoscaler.core.constraints.node import SizeFacts
from autoscaler.core.constraints.ruleset import Entry, Rules, Who
from autoscaler.core.constraints.shared import SharedConsumableResource, SharedResource
from autoscaler.core.constraints.values import written

_WHO = ("queue", "pe", "project", "user")
_NAMES = (*_WHO, "context", "constraints")


def apply_from(
    value: Any, *, at: str = "apply", shared: Shared = NO_SHARED, resources: Names = ()
) -> tuple[Entry, ...]:
    """The entries of a list, each with its place."""
    return tuple(
        _entry(entries(part, f"{at}[{number}]"), f"{at}[{number}]", shared, resources)
        for number, part in enumerate(listed(value, at))
    )


def _entry(given: Mapping[str, Any], at: str, shared: Shared, resources: Names) -> Entry:
    for name in given:
        known(name, _NAMES, below(at, name))
    if "constraints" not in given:
        wrong(below(at, "constraints"), "it is missing: the constraints of these jobs on a node")
    if given.keys() == {"constraints"}:
        wrong(at, f"name {', '.join(_NAMES[:-2])} or context; rules for every job belong in constraints")
    queues, pes, projects, users = (_several(given, name, below(at, name)) for name in _WHO)
    context = entries(given.get("context", {}), below(at, "context"))
    return Entry(
        at,
        constraint_from(given["constraints"], at=below(at, "constraints"), shared=shared, resources=resources),
        Who(
            queues,
            pes,
            projects,
            users,
            tuple((name, words(text, below(below(at, "context"), name))) for name, text in sorted(context.items())),
        ),
    )


def _several(given: Mapping[str, Any], name: str, at: str) -> tuple[str, ...]:
    if name not in given:
        return ()
    if not isinstance(given[name], list):
        return (words(given[name], at),)
    if not given[name]:
        wrong(at, "name at least one")
    return tuple(words(part, f"{at}[{number}]") for number, part in enumerate(given[name]))


def complexes_from(value: Any, *, at: str = "complexes") -> dict[str, str]:
    """Complexes by name with the resource that each is."""
    return {name: words(resource, below(at, name)) for name, resource in entries(value, at).items()}


def sizes_from(value: Any, *, at: str = "vm_sizes") -> dict[str, SizeFacts]:
    """The document's own facts on VM sizes."""
    return {name: facts_from(record, below(at, name)) for name, record in entries(value, at).items()}


# -- a document that stands alone -------------------------------------------------------------------------------------


def stand_alone(rules: Rules, value: Mapping[str, Any]) -> Rules:
    """The rules with a document that needs no other file: values of shared resources are written into it."""
    whole = dict(value)
    if rules.shared:
        whole.pop("shared-resources", None)
        whole["shared_resources"] = [_shared(resource) for resource in rules.shared.values()]
    if rules.location:
        whole["location"] = rules.location
    if rules.facts:
        whole.pop("vm-sizes", None)
        whole["vm_sizes"] = {name: record_of(facts) for name, facts in sorted(rules.facts.items())}
    return replace(rules, document=json.dumps(whole, indent=2, ensure_ascii=False, default=_iso))


def _shared(resource: SharedResource) -> dict[str, Any]:
    counted = isinstance(resource, SharedConsumableResource)
    document: dict[str, Any] = {"name": resource.resource_name, "consumable": counted}
    if resource.source:
        document["source"] = resource.source
    if isinstance(resource, SharedConsumableResource):
        document["initial_value"] = written(resource.initial_value)
    return document | {"current_value": written(resource.current_value)}


def _iso(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"not JSON: {value!r}")

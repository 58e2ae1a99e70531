"""What CycleCloud's published REST reference allows in a request: anything else is refused, as a typing mistake of
ours must not pass only because the server that we test with shares it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

Check = Callable[[Any], bool]


class Invalid(Exception):
    """A request that does not fit the reference."""


def _text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(_text(item) for item in value)


def _record(value: Any) -> bool:
    return isinstance(value, dict)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _group(value: Any) -> bool:
    return _text(value) and re.fullmatch(r"[a-zA-Z0-9_-]+", value) is not None


CREATION: Mapping[str, Check] = {"requestId": _text, "sets": lambda sets: isinstance(sets, list) and sets != []}
SET: Mapping[str, Check] = {
    "count": _count,
    "definition": _record,
    "nameFormat": lambda value: _text(value) and "%d" in value,
    "nameOffset": _count,
    "nodeAttributes": _record,
    "nodearray": _text,
    "placementGroupId": _group,
}
DEFINITION: Mapping[str, Check] = {"machineType": _text}
ATTRIBUTES: Mapping[str, Check] = {
    "CloudInit": _text,
    "ComputerName": _text,
    "Configuration": _record,
    "Interruptible": _flag,
    "KeepAlive": _flag,
    "MaxPrice": lambda value: isinstance(value, int | float),
    "Tags": _record,
}
"""Of the attributes of a node those that an autoscaler may set."""
MANAGEMENT: Mapping[str, Check] = {
    "filter": _text,
    "hostnames": _texts,
    "ids": _texts,
    "ip_addresses": _texts,
    "names": _texts,
    "requestId": _text,
}
QUERIES: Mapping[str, Mapping[str, Check]] = {
    "status": {"nodes": lambda value: value in ("true", "false")},
    "nodes": {"operation": _text, "request_id": _text},
    "operations": {"request_id": _text},
}
VERBS = ("deallocate", "reimage", "remove", "restart", "shutdown", "start", "terminate")


def check_query(call: str, query: Mapping[str, str]) -> None:
    _fits(query, QUERIES.get(call, {}), (), f"the query of {call}")


def check_creation(body: Any) -> None:
    _fits(body, CREATION, ("sets",), "NodeCreationRequest")
    for each in body["sets"]:
        _fits(each, SET, ("count", "nodearray"), "a set")
        _fits(each.get("definition", {}), DEFINITION, (), "a definition")
        _fits(each.get("nodeAttributes", {}), ATTRIBUTES, (), "nodeAttributes")


def check_management(body: Any) -> None:
    _fits(body, MANAGEMENT, (), "NodeManagementRequest")
    if not any(body.get(name) for name in MANAGEMENT if name != "requestId"):
        raise Invalid("no node is named")


def _fits(given: Any, known: Mapping[str, Check], required: tuple[str, ...], where: str) -> None:
    if not isinstance(given, dict):
        raise Invalid(f"{where} is no record")
    for name in required:
        if name not in given:
            raise Invalid(f"{where} lacks {name}")
    for name, value in given.items():
        if name not in known:
            raise Invalid(f"{where} has no {name}")
        if not known[name](value):
            raise Invalid(f"{where}: {name} = {value!r} is not allowed")

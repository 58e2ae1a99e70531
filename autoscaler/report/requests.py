"""Live requests for people and programs: every set with its caller and expiry, and the sum of targets of each node
array.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, tzinfo
from types import MappingProxyType
from typing import Any

from autoscaler.core.model.request_sets import ArrayDefinition, CreatedNode, Requests, RequestSet, Target
from autoscaler.plain_text import plain
from autoscaler.report.wording import count

NO_WORKERS: Mapping[str, int] = MappingProxyType({})


def requests_document(
    requests: Requests,
    now: float,
    living: Mapping[str, int] = NO_WORKERS,
    *,
    offered: frozenset[str] = frozenset(),
) -> dict[str, Any]:
    """As JSON values; `expires_at` and `left_s` are null for a set that never lapses. `living`: machines by node array.
    `offered`: all instance types of the provider, if known.
    """
    definitions = {array.name: array for array in requests.arrays}
    sets = {one.name: _set(one, now) for one in requests.sets}
    return {
        "schema": 1,
        "now": _time(now),
        "request_sets": list(sets.values()),
        "node_arrays": [
            {
                "name": name,
                **total,
                "workers": living.get(name, 0),
                **_definition(definitions.get(name), offered),
                "keep_alive": list(_keepers(name, definitions)),
                "defined_by": _defined_by(definitions.get(name), sets),
            }
            for name, total in sorted(_totals(requests).items())
        ],
        "nodes": [_node(node) for node in requests.nodes],
    }


def requests_text(document: Mapping[str, Any], zone: tzinfo | None = None) -> str:
    """A document of `requests_document` for people, a line a target."""
    lines = [line for one in document["request_sets"] for line in _set_lines(one, zone or UTC)]
    if document["nodes"]:
        lines.append("nodes created one by one:")
        lines += [
            f"  {node['name']} of {node['node_array']}: {node['worker_id'] or 'no machine yet'}"
            for node in document["nodes"]
        ]
    if not lines and not document["node_arrays"]:
        return "there are no live requests"
    lines.append("in sum:" if document["node_arrays"] else "in sum: nothing")
    for array in document["node_arrays"]:
        flagged = "" if array["requested"] else "; no set names it: the autoscaler removes it with its last worker"
        there = f"; {count(array['workers'], 'worker')} there" if array["workers"] else ""
        types = f" of {', '.join(array['machine_types'])}" if array["machine_types"] and _target_line(array) else ""
        strange = ", ".join(array.get("unknown_types", ()))
        types += f" (the provider does not offer {strange})" if strange and types else ""
        kept = f"; its workers stay (KeepAlive of {', '.join(array['keep_alive'])})" if array["keep_alive"] else ""
        capped = _capped(array, zone or UTC)
        lines.append(f"  {array['name']}: {_target_line(array) or 'nothing'}{types}{capped}{there}{kept}{flagged}")
    return "\n".join(map(plain, lines))


_CAPS = (("max_count", "workers", "MaxCount"), ("max_core_count", "vCPUs", "MaxCoreCount"))


def caps_of(requests: Requests, now: float) -> list[dict[str, Any]]:
    """The limits that requests set, a row each: of which node array, by whom and until when."""
    return [
        {"node_array": array["name"], "cap": attribute, "limit": array[name], **_whose(array, name)}
        for array in requests_document(requests, now)["node_arrays"]
        for name, _, attribute in _CAPS
        if array.get(name) is not None
    ]


def cap_lines(rows: Iterable[Mapping[str, Any]], zone: tzinfo | None = None) -> Iterator[str]:
    """The same for people."""
    for row in rows:
        yield f"{row['node_array']} is limited to {row['limit']} ({row['cap']}), set by {_author(row, zone or UTC)}"


def _capped(array: Mapping[str, Any], zone: tzinfo) -> str:
    """The limits that requests set for it, each with who set it and until when."""
    given = [
        f"{array[name]} {of} ({attribute}), set by {_author(_whose(array, name), zone)}"
        for name, of, attribute in _CAPS
        if array.get(name) is not None
    ]
    return f"; at most {' and '.join(given)}" if given else ""


def _whose(array: Mapping[str, Any], name: str) -> dict[str, Any]:
    return array["defined_by"].get(name) or {"request_set": None, "by": None, "expires_at": None}


def _author(whose: Mapping[str, Any], zone: tzinfo) -> str:
    if whose["request_set"] is None:
        return "the definition of the array"
    until = "" if whose["expires_at"] is None else f" until {_moment(whose['expires_at'], zone)}"
    return f"{whose['by']} in {whose['request_set']}{until}"


def _defined_by(array: ArrayDefinition | None, sets: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """By field of the array's row: the set that defined it."""
    names = {"max_cores": "max_core_count"}
    return {
        names.get(name, name): {"request_set": set_name, "by": one["by"], "expires_at": one["expires_at"]}
        for name, set_name in (array.defined_by if array is not None and array.requested else ())
        if (one := sets.get(set_name)) is not None
    }


def requests_line(document: Mapping[str, Any]) -> str:
    """A document of `requests_document` in one line: `execute: 2 workers (policy:warm_buffer, standard)`."""
    by: dict[str, list[str]] = {}
    for one in document["request_sets"]:
        for target in one["targets"]:
            by.setdefault(target["node_array"], []).append(one["name"])
    return "; ".join(
        f"{array['name']}: {line}" + (f" ({', '.join(by[array['name']])})" if array["name"] in by else "")
        for array in document["node_arrays"]
        if (line := _target_line(array))
    )


def _set(one: RequestSet, now: float) -> dict[str, Any]:
    return {
        "name": one.name,
        "by": one.by,
        "at": _time(one.at),
        "expires_at": None if one.expires_at is None else _time(one.expires_at),
        "left_s": None if one.expires_at is None else round(one.expires_at - now, 1),
        "targets": [{"node_array": target.node_array, **_amounts(target)} for target in one.targets],
        "arrays": list(one.arrays),
    }


def _amounts(target: Target) -> dict[str, Any]:
    given = {
        "count": target.count,
        "cores": target.cores,
        "groups": target.groups,
        "group_cores": target.group_cores,
        "group_count": target.group_count,
    }
    return {name: amount for name, amount in given.items() if amount is not None}


def _totals(requests: Requests) -> dict[str, dict[str, Any]]:
    """The sums of all sets' targets by array; sizes of groups are the array's own."""
    totals: dict[str, dict[str, Any]] = {array.name: {} for array in requests.arrays}
    for target in _targets(requests.sets):
        total = totals.setdefault(target.node_array, {})
        for name, amount in _amounts(target).items():
            total[name] = amount if name.startswith("group_") else total.get(name, 0) + amount
        if target.groups and target.group_count is not None:
            total["groups_of_workers"] = total.get("groups_of_workers", 0) + target.groups
    for node in requests.nodes:
        total = totals.setdefault(node.node_array, {})
        total["nodes"] = total.get("nodes", 0) + 1
    return totals


def _targets(sets: Iterable[RequestSet]) -> Iterable[Target]:
    return (target for one in sets for target in one.targets)


def _definition(array: ArrayDefinition | None, offered: frozenset[str]) -> dict[str, Any]:
    if array is None:
        array = ArrayDefinition("")
    return {
        "dynamic": array.dynamic,
        "extends": array.extends,
        "machine_types": list(array.machine_types),
        "unknown_types": [name for name in array.machine_types if offered and name not in offered],
        "requested": array.requested,
        "max_count": array.max_count,
        "max_core_count": array.max_cores,
    }


def _keepers(name: str, definitions: Mapping[str, ArrayDefinition]) -> tuple[str, ...]:
    """The sets that keep an array's workers alive: those that say so of the array, else of the nearest array that it
    extends of which any set says so.
    """
    array, seen = definitions.get(name), {name}
    if array is None or not array.requested:
        return ()
    while array is not None and not (array.keep_alive and array.requested):
        named = array.extends or ""
        array = None if named in seen else definitions.get(named)
        seen.add(named)
    return () if array is None else array.kept_by


def _node(node: CreatedNode) -> dict[str, Any]:
    return {
        "id": node.id,
        "name": node.name,
        "node_array": node.node_array,
        "created_at": _time(node.created_at),
        "request_id": node.request_id,
        "worker_id": node.worker_id,
    }


def _set_lines(one: Mapping[str, Any], zone: tzinfo) -> list[str]:
    until = "until it is ended"
    if one["expires_at"] is not None:
        until = f"until {_moment(one['expires_at'], zone)} ({one['left_s']:.0f} s left)"
    head = f"{one['name']}: requested by {one['by']}, {until}"
    targeted = {target["node_array"] for target in one["targets"]}
    # A set that requests groups of an array names that array, too.
    named = [name for name in one["arrays"] if not any(f"{each}:".startswith(f"{name}:") for each in targeted)]
    lines = [f"  {target['node_array']}: {_target_line(target)}" for target in one["targets"]]
    lines += [f"  {name}: named without a target" for name in named]
    return [head, *lines] if lines else [f"{head}, for nothing"]


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _moment(stamp: str, zone: tzinfo) -> str:
    return datetime.fromisoformat(stamp).astimezone(zone).strftime("%Y-%m-%d %H:%M:%S")


def _target_line(amounts: Mapping[str, Any]) -> str:
    """`3 workers + 128 vCPUs`."""
    parts = []
    for name, one, many in (("count", "worker", "workers"), ("cores", "vCPU", "vCPUs"), ("nodes", "node", "nodes")):
        if name in amounts:
            parts.append(f"{amounts[name]} {one if amounts[name] == 1 else many}")
    if "groups" in amounts:
        of_workers = amounts.get("groups_of_workers", 0 if "group_cores" in amounts else amounts["groups"])
        kinds = [("group_cores", "vCPUs", amounts["groups"] - of_workers), ("group_count", "workers", of_workers)]
        parts += [
            f"{count(groups, 'group')} of {amounts[size]} {unit}"
            for size, unit, groups in kinds
            if groups or (size in amounts and not amounts["groups"])
        ]
    return " + ".join(parts)

"""Translates default resources of an `autoscale.json`, where node arrays have the cluster's names, to the names that
they have here. Job requests that use the cluster's names keep their meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autoscaler.constraints.documents import listed, table
from autoscaler.constraints.json_text import below
from autoscaler.constraints.rules import default_resources_from

NODE_ARRAY, NODE_ARRAY_RESOURCE = "node.nodearray", "nodearray"
_CONFIGURATION = "node.software_configuration."
Renamed = Mapping[str, Sequence[str]]
"""Our node arrays by the cluster's name."""
Note = Callable[[str, str], None]
"""Takes a place in the document and a note on it."""


def defaults_in_our_names(value: Any, at: str, renamed: Renamed, note: Note) -> list[dict[str, Any]]:
    """Default resources for rules, without those whose value only CycleCloud knows. Raises SettingsError."""
    given = [table(part, f"{at}[{number}]") for number, part in enumerate(listed(value, at))]
    default_resources_from([{**part, "value": ""} if _is_unknown(part) else part for part in given], at=at)
    made: list[dict[str, Any]] = []
    for number, part in enumerate(given):
        place = f"{at}[{number}]"
        if _is_unknown(part):
            note(
                below(place, "value"),
                "CycleCloud's configuration is not known here: give the value itself",
            )
            continue
        entry = in_our_names(part, place, renamed, note)
        if part["value"] == NODE_ARRAY:
            made += _of_each_array(entry, place, renamed, note)
        made.append(entry)
    return made


def in_our_names(value: Any, at: str, renamed: Renamed, note: Note) -> Any:
    """The same, with our names for the cluster's node arrays in constraints."""
    if isinstance(value, list):
        return [in_our_names(part, f"{at}[{number}]", renamed, note) for number, part in enumerate(value)]
    if not isinstance(value, dict):
        return value
    renamed_value = {}
    for key, part in value.items():
        place = below(at, key)
        if key != NODE_ARRAY:
            renamed_value[key] = in_our_names(part, place, renamed, note)
            continue
        named = part if isinstance(part, list) else [part]
        ours = list(dict.fromkeys(each for name in named for each in ours_of(name, place, renamed, note)))
        renamed_value[key] = ours if isinstance(part, list) or len(ours) > 1 else ours[0]
    return renamed_value


def ours_of(name: Any, at: str, renamed: Renamed, note: Note) -> Sequence[Any]:
    """Our node arrays for one of the cluster's. If no queue of the file has it: its own name, with a note."""
    if name in renamed:
        return renamed[name]
    note(at, "no queue of the file has this node array: give it the name that it has here (execute, execute_1 …)")
    return [name]


def names_of_arrays(renamed: Renamed, note: Note) -> list[dict[str, Any]]:
    """Default resources that keep the cluster's names as values of the resource `nodearray`."""
    entry = {"name": NODE_ARRAY_RESOURCE, "value": NODE_ARRAY}
    return _of_each_array(entry, f"the resource {NODE_ARRAY_RESOURCE}", renamed, note)


def _is_unknown(entry: Mapping[str, Any]) -> bool:
    value = entry.get("value")
    return isinstance(value, str) and value.startswith(_CONFIGURATION)


def _of_each_array(entry: Mapping[str, Any], at: str, renamed: Renamed, note: Note) -> list[dict[str, Any]]:
    """An entry for each of our node arrays, with the cluster's name as value."""
    theirs: dict[str, list[str]] = {}
    for name, ours in renamed.items():
        for each in ours:
            theirs.setdefault(each, []).append(name)
    made = []
    for ours_, names in theirs.items():
        if len(names) > 1:
            note(at, f"{ours_} stands for {', '.join(names)}: the value of its workers is {ours_}")
            continue
        only = {NODE_ARRAY: ours_}
        select = {"and": [entry["select"], only]} if entry.get("select") else only
        made.append({**entry, "select": select, "value": names[0]})
    return made

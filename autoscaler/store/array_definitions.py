"""What request sets say of node arrays, and what of it holds: pure, but for JSON.

What a set says of an array is that set's, merged over its earlier updates, and ends with it; of several sets the newest
word holds. A dynamic array is what the set said that named it while no other did: that stays when the set is gone. So
does, whoever said it, what makes a dynamic array the array that it is: its workers carry it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from autoscaler.core.model.request_sets import ArrayDefinition
from autoscaler.errors import SettingsError

_DEFINITION = ArrayDefinition("")
_OBJECTS = ("configuration", "attributes")
_APART = (*_OBJECTS, "keep_alive", "said_by")
"""Fields whose newest value does not take the place of the one before as a whole."""
_STRUCTURE = ("name", "dynamic", "extends", "group_cores", "group_count")
MOST_CONFIGURATION = 8192
"""Bytes of an array's whole configuration: it travels with what a machine is booted with; clouds take little there."""
MOST_ATTRIBUTES = 65536


class DefinitionRefused(SettingsError):
    """What is said of a node array cannot be kept beside what was said of it before."""

    def __init__(self, node_array: str, attribute: str, problem: str) -> None:
        super().__init__(f"{node_array}: {attribute}: {problem}" if attribute else f"{node_array}: {problem}")
        self.node_array = node_array
        self.attribute = attribute
        """By its name in an update; '' for all that have no meaning here."""
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Said:
    """What one set says of one array."""

    set_name: str
    number: int
    """Grows: the highest is the newest."""
    makes: bool
    """Whether the array is what this set says: it named the array while no other set did."""
    definition: ArrayDefinition


@dataclass(frozen=True, slots=True)
class Definitions:
    """All that is known of arrays."""

    lasting: Mapping[str, ArrayDefinition]
    """By array: what holds whichever sets live. Of arrays of the settings: what an older version kept, which did not
    know who said it.
    """
    said: tuple[Said, ...] = ()

    def in_force(self) -> dict[str, ArrayDefinition]:
        """By name, sorted."""
        found = dict(self.lasting)
        for each in sorted(self.said, key=lambda one: one.number):
            name = each.definition.name
            found[name] = merged(found.get(name, ArrayDefinition(name)), each.definition, by=each.set_name)
        return dict(sorted(found.items()))

    def of(self, name: str) -> list[Said]:
        return [each for each in self.said if each.definition.name == name]

    def with_said(self, set_name: str, given: ArrayDefinition, named_by: Collection[str]) -> Definitions:
        """`given` was said by a set. `named_by`: the other live sets that name this array."""
        of_it = self.of(given.name)
        before = next((each for each in of_it if each.set_name == set_name), None)
        others = [self.lasting.get(given.name, _DEFINITION), *(e.definition for e in of_it if e is not before)]
        definition = _joined(before.definition if before else ArrayDefinition(given.name), given, others)
        makes = not named_by or (before is not None and before.makes)
        number = max((each.number for each in self.said), default=0) + 1
        kept = tuple(each for each in self.said if each is not before)
        lasting = dict(self.lasting)
        of_this = {name: each for name, each in lasting.items() if name == given.name}
        known = Definitions(of_this, tuple(of_it)).in_force().get(given.name)
        if given.dynamic or (known is not None and known.dynamic):
            lasting[given.name] = merged(lasting.get(given.name, ArrayDefinition(given.name)), _structure(given))
        return Definitions(lasting, (*kept, Said(set_name, number, makes, definition)))

    def while_named(self, names: Mapping[str, Collection[str]]) -> Definitions:
        """What is left of it with these live sets, each with the arrays that it names."""
        lasting, said = dict(self.lasting), []
        for each in sorted(self.said, key=lambda one: one.number):
            name = each.definition.name
            if name in names.get(each.set_name, ()):
                said.append(each)
            elif each.makes and name in lasting:
                lasting[name] = merged(lasting[name], replace(each.definition, keep_alive=()))
        named = {name for arrays in names.values() for name in arrays}
        kept = {name: _held(each, names) for name, each in lasting.items() if each.dynamic or name in named}
        return Definitions(kept, tuple(said))


_Merge = Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]


def merged(existing: ArrayDefinition, given: ArrayDefinition, *, by: str = "") -> ArrayDefinition:
    """What is known of an array once `given` was said of it: what it does not say stays as it was. `by`: the set that
    says it, where that is to be told.

    Objects are merged key by key, to any depth; a key given as null is taken out.
    """
    return _merged(existing, given, by, _merged_objects)


def _merged(existing: ArrayDefinition, given: ArrayDefinition, by: str, merge: _Merge) -> ArrayDefinition:
    said = {
        field.name: getattr(given, field.name)
        for field in fields(ArrayDefinition)
        if field.name not in _APART and getattr(given, field.name) != getattr(_DEFINITION, field.name)
    }
    objects: dict[str, Any] = {
        name: json.dumps(merge(json.loads(getattr(existing, name)), json.loads(getattr(given, name))))
        for name in _OBJECTS
    }
    kept = tuple(sorted({**dict(existing.keep_alive), **dict(given.keep_alive)}.items()))
    said_by = dict(existing.said_by) | {name: by for name in said if by and name not in _STRUCTURE}
    return replace(existing, **said, **objects, keep_alive=kept, said_by=tuple(sorted(said_by.items())))


def _joined(before: ArrayDefinition, given: ArrayDefinition, others: Sequence[ArrayDefinition]) -> ArrayDefinition:
    """What a set says with what it said before, and with nulls that take out what others say."""
    joined = _merged(before, given, "", _joined_objects)
    objects: dict[str, Any] = {
        name: json.dumps(
            _without_idle_nulls(json.loads(getattr(joined, name)), [json.loads(getattr(o, name)) for o in others])
        )
        for name in _OBJECTS
    }
    return replace(joined, **objects)


def _merged_objects(existing: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    result = dict(existing)
    for key, value in given.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            before = result.get(key)
            result[key] = _merged_objects(before if isinstance(before, dict) else {}, value)
        else:
            result[key] = value
    return result


def _joined_objects(existing: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """As `_merged_objects`, and a null stays."""
    result = dict(existing)
    for key, value in given.items():
        before = result.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            value = _joined_objects(before, value)
        result[key] = value
    return result


def _without_idle_nulls(given: dict[str, Any], others: Sequence[Any]) -> dict[str, Any]:
    """Without nulls that take out nothing, which would only grow."""
    found = [other for other in others if isinstance(other, dict)]
    return {
        key: _without_idle_nulls(value, [other.get(key) for other in found]) if isinstance(value, dict) else value
        for key, value in given.items()
        if value is not None or any(key in other for other in found)
    }


def _structure(given: ArrayDefinition) -> ArrayDefinition:
    return ArrayDefinition(**{name: getattr(given, name) for name in _STRUCTURE})


def _held(definition: ArrayDefinition, names: Mapping[str, Collection[str]]) -> ArrayDefinition:
    """Without what sets said of keeping its workers that no longer live or no longer name it."""
    kept = tuple((name, kept) for name, kept in definition.keep_alive if definition.name in names.get(name, ()))
    return replace(definition, keep_alive=kept)


def refuse_too_long(definitions: Iterable[ArrayDefinition]) -> None:
    """Raise DefinitionRefused where more is said of an array than can travel with its workers."""
    for definition in definitions:
        for name, attribute, most in (
            ("configuration", "Configuration", MOST_CONFIGURATION),
            ("attributes", "", MOST_ATTRIBUTES),
        ):
            if (size := len(getattr(definition, name).encode())) > most:
                what = "it" if attribute else "all other attributes"
                problem = f"{what} would have {size} bytes, more than {most}; null removes a key"
                raise DefinitionRefused(definition.name, attribute, problem)

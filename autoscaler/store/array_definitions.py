"""Request sets' definitions of node arrays, and which of them are in force: pure, except for JSON.

A set's definition of an array belongs to that set, is merged over its earlier updates, and ends with it. Of several
sets the newest definition wins. A dynamic array is defined by the set that named it while no other did: that definition
stays when the set is gone. Attributes that make up a dynamic array stay, too, whichever set gave them: its workers
carry them.
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
_APART = (*_OBJECTS, "keep_alive", "defined_by")
"""Fields whose newest value is merged into the earlier one instead of replacing it."""
_STRUCTURE = ("name", "dynamic", "extends", "group_cores", "group_count")
MOST_CONFIGURATION = 8192
"""Bytes of an array's whole configuration: it is part of a machine's boot data, and clouds take little there."""
MOST_ATTRIBUTES = 65536


class DefinitionRefused(SettingsError):
    """A definition of a node array cannot be kept beside earlier ones."""

    def __init__(self, node_array: str, attribute: str, problem: str) -> None:
        super().__init__(f"{node_array}: {attribute}: {problem}" if attribute else f"{node_array}: {problem}")
        self.node_array = node_array
        self.attribute = attribute
        """The attribute's name in an update; '' for all that have no meaning here."""
        self.problem = problem


@dataclass(frozen=True, slots=True)
class SetDefinition:
    """One set's definition of one array."""

    set_name: str
    number: int
    """Grows: the highest is the newest."""
    makes: bool
    """Whether this definition makes the array: the set named the array while no other set did."""
    definition: ArrayDefinition


@dataclass(frozen=True, slots=True)
class Definitions:
    """All definitions of arrays."""

    lasting: Mapping[str, ArrayDefinition]
    """Definitions that hold whichever sets live, by array."""
    by_set: tuple[SetDefinition, ...] = ()

    def in_force(self) -> dict[str, ArrayDefinition]:
        """By name, sorted."""
        found = dict(self.lasting)
        for each in sorted(self.by_set, key=lambda one: one.number):
            name = each.definition.name
            found[name] = merged(found.get(name, ArrayDefinition(name)), each.definition, by=each.set_name)
        return dict(sorted(found.items()))

    def of(self, name: str) -> list[SetDefinition]:
        return [each for each in self.by_set if each.definition.name == name]

    def with_definition(self, set_name: str, given: ArrayDefinition, named_by: Collection[str]) -> Definitions:
        """These with `given` from a set. `named_by`: the other live sets that name this array."""
        of_it = self.of(given.name)
        before = next((each for each in of_it if each.set_name == set_name), None)
        others = [self.lasting.get(given.name, _DEFINITION), *(e.definition for e in of_it if e is not before)]
        definition = _joined(before.definition if before else ArrayDefinition(given.name), given, others)
        makes = not named_by or (before is not None and before.makes)
        number = max((each.number for each in self.by_set), default=0) + 1
        kept = tuple(each for each in self.by_set if each is not before)
        lasting = dict(self.lasting)
        of_this = {name: each for name, each in lasting.items() if name == given.name}
        known = Definitions(of_this, tuple(of_it)).in_force().get(given.name)
        if given.dynamic or (known is not None and known.dynamic):
            lasting[given.name] = merged(lasting.get(given.name, ArrayDefinition(given.name)), _structure(given))
        return Definitions(lasting, (*kept, SetDefinition(set_name, number, makes, definition)))

    def while_named(self, names: Mapping[str, Collection[str]]) -> Definitions:
        """The definitions that remain with these live sets, each with the arrays that it names."""
        lasting, by_set = dict(self.lasting), []
        for each in sorted(self.by_set, key=lambda one: one.number):
            name = each.definition.name
            if name in names.get(each.set_name, ()):
                by_set.append(each)
            elif each.makes and name in lasting:
                lasting[name] = merged(lasting[name], replace(each.definition, keep_alive=()))
        named = {name for arrays in names.values() for name in arrays}
        kept = {name: _held(each, names) for name, each in lasting.items() if each.dynamic or name in named}
        return Definitions(kept, tuple(by_set))


_Merge = Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]


def merged(existing: ArrayDefinition, given: ArrayDefinition, *, by: str = "") -> ArrayDefinition:
    """An array's definition with `given` added: attributes that it does not contain stay. `by`: the set, if messages
    are to name it.

    Objects are merged key by key, to any depth; a key given as null is removed.
    """
    return _merged(existing, given, by, _merged_objects)


def _merged(existing: ArrayDefinition, given: ArrayDefinition, by: str, merge: _Merge) -> ArrayDefinition:
    values = {
        field.name: getattr(given, field.name)
        for field in fields(ArrayDefinition)
        if field.name not in _APART and getattr(given, field.name) != getattr(_DEFINITION, field.name)
    }
    objects: dict[str, Any] = {
        name: json.dumps(merge(json.loads(getattr(existing, name)), json.loads(getattr(given, name))))
        for name in _OBJECTS
    }
    kept = tuple(sorted({**dict(existing.keep_alive), **dict(given.keep_alive)}.items()))
    defined_by = dict(existing.defined_by) | {name: by for name in values if by and name not in _STRUCTURE}
    return replace(existing, **values, **objects, keep_alive=kept, defined_by=tuple(sorted(defined_by.items())))


def _joined(before: ArrayDefinition, given: ArrayDefinition, others: Sequence[ArrayDefinition]) -> ArrayDefinition:
    """A set's new definition joined with its earlier one, and with nulls that remove other sets' values."""
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
    """As `_merged_objects`, except that a null stays."""
    result = dict(existing)
    for key, value in given.items():
        before = result.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            value = _joined_objects(before, value)
        result[key] = value
    return result


def _without_idle_nulls(given: dict[str, Any], others: Sequence[Any]) -> dict[str, Any]:
    """Without nulls that remove nothing, which would only grow."""
    found = [other for other in others if isinstance(other, dict)]
    return {
        key: _without_idle_nulls(value, [other.get(key) for other in found]) if isinstance(value, dict) else value
        for key, value in given.items()
        if value is not None or any(key in other for other in found)
    }


def _structure(given: ArrayDefinition) -> ArrayDefinition:
    return ArrayDefinition(**{name: getattr(given, name) for name in _STRUCTURE})


def _held(definition: ArrayDefinition, names: Mapping[str, Collection[str]]) -> ArrayDefinition:
    """Without the requests to keep its workers of sets that no longer live or no longer name it."""
    kept = tuple((name, kept) for name, kept in definition.keep_alive if definition.name in names.get(name, ()))
    return replace(definition, keep_alive=kept)


def refuse_too_long(definitions: Iterable[ArrayDefinition]) -> None:
    """Raise DefinitionRefused if the definition of an array is too long for its workers' boot data."""
    for definition in definitions:
        for name, attribute, most in (
            ("configuration", "Configuration", MOST_CONFIGURATION),
            ("attributes", "", MOST_ATTRIBUTES),
        ):
            if (size := len(getattr(definition, name).encode())) > most:
                what = "it" if attribute else "all other attributes"
                problem = f"{what} would have {size} bytes, more than {most}; null removes a key"
                raise DefinitionRefused(definition.name, attribute, problem)

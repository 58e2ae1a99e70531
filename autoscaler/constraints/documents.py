"""Rules as documents: constraints, default resources, timeouts and what is kept alive, from JSON or TOML values.

Every error is a SettingsError that begins with the place inside the document: `constraints[1].or[0].ngpus: …`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, NoReturn

from autoscaler.constraints.json_text import MAX_DEPTH, below, read_json
from autoscaler.constraints.rule_words import NODE, RESOURCES, meant_by
from autoscaler.core.constraints.constraint import (
    And,
    Constraint,
    Exclusive,
    InAPlacementGroup,
    MinimumResource,
    Never,
    NodePropertyConstraint,
    NodeResourceConstraint,
    Not,
    Or,
    XOr,
)
from autoscaler.core.constraints.node import PROPERTIES
from autoscaler.core.constraints.shared import (
    SharedConstraint,
    SharedConsumableConstraint,
    SharedConsumableResource,
    SharedResource,
)
from autoscaler.core.constraints.values import SIZE_PREFIXES, TOO_MUCH, Scalar, Value, is_number, read_size
from autoscaler.errors import SettingsError, suggestion
from autoscaler.outside_files import read_toml

Shared = Mapping[str, SharedResource]
NO_SHARED: Shared = MappingProxyType({})
Names = Collection[str]
COMMENT = "_comment"
LARGEST_DOCUMENT = 16 << 20
"""Bytes of a file of rules, or of VM sizes."""
_TRUTHS: Mapping[str, bool] = MappingProxyType({"true": True, "1": True, "false": False, "0": False})


def read_document(text: str, *, toml: bool = False, where: str = "") -> Any:
    """The values of a JSON or TOML text. Raises SettingsError."""
    if not toml:
        return read_json(text, where)
    try:
        return read_toml(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{where or 'the document'}: {error}") from error


def constraint_from(
    value: Any, *, at: str = "constraint", shared: Shared = NO_SHARED, resources: Names = ()
) -> Constraint:
    """The constraint in a value of a document: an object, or a list of objects that must all hold.

    `shared`: resources that all nodes share, by name; a constraint on such a name is one on that resource.
    `resources`: names of resources, even if they are close to a word of the language.
    """
    return _Reader(shared, resources).constraint(value, at, MAX_DEPTH)


def constraints_from(
    value: Any, *, at: str = "constraints", shared: Shared = NO_SHARED, resources: Names = ()
) -> tuple[Constraint, ...]:
    """The constraints of a list of them, each a constraint of its own."""
    return tuple(
        constraint_from(part, at=f"{at}[{number}]", shared=shared, resources=resources)
        for number, part in enumerate(listed(value, at))
    )


@dataclass(frozen=True, slots=True)
class _Reader:
    shared: Shared
    resources: Names

    def constraint(self, value: Any, at: str, depth: int) -> Constraint:
        if depth < 0:
            wrong(at, "it is nested too deeply")
        if isinstance(value, list):
            return _together(tuple(self._each(value, at, depth)))
        return _together(
            tuple(self._one(name, part, below(at, name), depth - 1) for name, part in entries(value, at).items())
        )

    def _each(self, value: Any, at: str, depth: int) -> Iterable[Constraint]:
        for number, part in enumerate(listed(value, at)):
            yield self.constraint(part, f"{at}[{number}]", depth - 1)

    def _one(self, name: str, value: Any, at: str, depth: int) -> Constraint:
        match name.replace("_", "-"):
            case "and":
                return And(tuple(self._each(value, at, depth)))
            case "or" | "xor" as operator:
                children = tuple(self._each(value, at, depth))
                if not children:
                    wrong(at, "name at least one alternative")
                return Or(children) if operator == "or" else XOr(children)
            case "not":
                return Not(
                    self.constraint(
                        entries(value, at) or wrong(at, "name the constraint that must not be met"), at, depth
                    )
                )
            case "exclusive" | "exclusive-task" as operator:
                return Exclusive(tasks=operator == "exclusive-task") if truth(value, at) else And()
            case "in-a-placement-group":
                return InAPlacementGroup(truth(value, at))
            case "never":
                return Never(words(value, at))
            case "shared-consumable-constraint" | "shared-non-consumable-constraint":
                return wrong(at, 'declare it in shared_resources, and request it by its name: {"licenses": 2}')
            case _ if name.startswith(NODE):
                return _on_property(name.removeprefix(NODE), value, at)
            case _ if name in self.shared:
                return _on_shared(self.shared[name], value, at)
            case _:
                meant = meant_by(name, value, self.resources)
                if meant is not None:
                    wrong(at, f"did you mean {meant}? Else name it in default_resources or complexes")
                return _on_resource(name, value, at)


def _together(parts: tuple[Constraint, ...]) -> Constraint:
    return parts[0] if len(parts) == 1 else And(parts)


def _on_resource(name: str, value: Any, at: str) -> Constraint:
    if not name:
        wrong(at, "a resource needs a name")
    if isinstance(value, list):
        return NodeResourceConstraint(name, _scalars(value, at))
    found = scalar(value, at)
    if not is_number(found):
        return NodeResourceConstraint(name, (found,))
    return MinimumResource(name, _not_negative(found, at))


def _on_shared(resource: SharedResource, value: Any, at: str) -> Constraint:
    if isinstance(resource, SharedConsumableResource):
        return SharedConsumableConstraint((resource,), _not_negative(number(value, at), at))
    return SharedConstraint((resource,), _scalars(value if isinstance(value, list) else [value], at))


def _on_property(name: str, value: Any, at: str) -> Constraint:
    if name.startswith(RESOURCES):
        wrong(at, f"request a resource by its own name, {name.removeprefix(RESOURCES)}")
    known_property(name, at)
    several = isinstance(value, list)
    parts = listed(value, at) if several else [value]
    if not parts:
        wrong(at, "name at least one value")
    return NodePropertyConstraint(
        name, tuple(_property_value(name, part, f"{at}[{n}]" if several else at) for n, part in enumerate(parts))
    )


def _property_value(name: str, value: Any, at: str) -> Value:
    """A value of the type that the property has."""
    kind = PROPERTIES[name]
    if value is None and kind.optional:
        return None
    match kind.type:
        case "bool":
            return truth(value, at)
        case "str" if isinstance(value, str):
            return value
        case "int" if is_number(value) and value == int(value):
            return int(value)
        case "float" | "size":
            return number(value, at)
        case "time":
            return _time(value, at)
        case _:
            meant = "text" if kind.type == "str" else "a whole number"
            return wrong(at, f"node.{name} is {meant}, not {_named(value)}")


def _time(value: Any, at: str) -> datetime:
    try:
        found = value if isinstance(value, datetime) else datetime.fromisoformat(words(value, at))
    except ValueError:
        wrong(at, f"{value!r} is not a time: write 2026-01-31T08:00:00+00:00")
    if found.tzinfo is None:
        wrong(at, f"{value!r} has no offset: write {found.isoformat()}+00:00")
    return found


# -- single values: each function returns its type, or raises with the place ----------------------------------------


def wrong(at: str, why: str) -> NoReturn:
    raise SettingsError(f"{at}: {why}")


def table(value: Any, at: str) -> dict[str, Any]:
    """An object."""
    if not isinstance(value, dict):
        wrong(at, f"an object is expected, not {_named(value)}")
    return value


def entries(value: Any, at: str) -> dict[str, Any]:
    """An object without comments, whose names begin with `_comment`."""
    return {name: part for name, part in table(value, at).items() if not name.startswith(COMMENT)}


def listed(value: Any, at: str) -> list[Any]:
    """A list."""
    if not isinstance(value, list):
        wrong(at, f"a list is expected, not {_named(value)}")
    return value


def truth(value: Any, at: str) -> bool:
    """True or false, also as text in any case (`"true"`) or as 1 or 0, as other tools write them."""
    meant = str(int(value)) if is_number(value) and value in (0, 1) else str(value).lower()
    if isinstance(value, dict | list) or meant not in _TRUTHS:
        wrong(at, f"true or false is expected, not {_named(value)}")
    return _TRUTHS[meant]


def words(value: Any, at: str) -> str:
    """Text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        wrong(at, f"text is expected, not {_named(value)}")
    return value


def number(value: Any, at: str) -> int | float:
    """A number or a size."""
    found = scalar(value, at)
    if not is_number(found):
        wrong(at, f"a number or a size is expected, not {_named(value)}")
    return found


def scalar(value: Any, at: str) -> Scalar:
    """Text, a number, true or false; `size::20g` and `memory::4g` are bytes."""
    if is_number(value) and not -TOO_MUCH < value < TOO_MUCH:
        wrong(at, "a number must be below 10 to the power of 18")
    if not isinstance(value, str | int | float):
        wrong(at, f"a number, text, true or false is expected, not {_named(value)}")
    for prefix in SIZE_PREFIXES:
        if isinstance(value, str) and value.startswith(prefix):
            try:
                return read_size(value.removeprefix(prefix))
            except ValueError as error:
                wrong(at, str(error))
    return value


def _scalars(value: list[Any], at: str) -> tuple[Scalar, ...]:
    if not value:
        wrong(at, "name at least one value")
    return tuple(scalar(part, f"{at}[{n}]" if len(value) > 1 else at) for n, part in enumerate(value))


def _not_negative(found: int | float, at: str) -> int | float:
    if found < 0:
        wrong(at, f"an amount cannot be below 0: {found}")
    return found


def known_property(name: str, at: str) -> str:
    """The name, if it is a property of nodes."""
    return known(name, PROPERTIES, at, "node.")


def known(name: str, names: Iterable[str], at: str, prefix: str = "") -> str:
    """The name, if it is one of these."""
    possible = tuple(names)
    if name not in possible:
        wrong(at, f"{prefix}{name} is not known; {suggestion(name, possible, prefix)}")
    return name


def _named(value: Any) -> str:
    match value:
        case None:
            return "null"
        case dict():
            return "an object"
        case list():
            return "a list"
        case bool():
            return str(value).lower()
        case _:
            return repr(value)

"""A document of rules as one value: default resources, constraints, shared resources, timeouts, `keep_alive`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from autoscaler.constraints.applying import apply_from, complexes_from, sizes_from, stand_alone
from autoscaler.constraints.back_quoted import is_back_quoted, read_back_quoted
from autoscaler.constraints.documents import (
    LARGEST_DOCUMENT,
    NO_SHARED,
    Names,
    Shared,
    constraint_from,
    constraints_from,
    entries,
    known,
    known_property,
    listed,
    number,
    read_document,
    scalar,
    table,
    truth,
    words,
    wrong,
)
from autoscaler.constraints.json_text import below
from autoscaler.constraints.rule_words import NODE, RESOURCES, resources_named
from autoscaler.core.constraints.default_resources import (
    BY_ITSELF,
    DefaultResource,
    OfNode,
    OfResource,
    Operand,
    Operator,
)
from autoscaler.core.constraints.per_array import KeepAlive, PerNodeArray
from autoscaler.core.constraints.ruleset import Rules
from autoscaler.core.constraints.shared import SharedConsumableResource, SharedNonConsumableResource, SharedResource
from autoscaler.core.constraints.values import TOO_MUCH, is_number, read_size
from autoscaler.errors import SettingsError
from autoscaler.outside_files import read_regular

T = TypeVar("T")
_HEADS = (
    *("default_resources", "constraints", "apply", "complexes", "shared_resources"),
    *("boot_timeout", "idle_timeout", "keep_alive", "location", "vm_sizes"),
)
_OPERATORS = tuple(operator.value for operator in Operator)
MOST_OF_A_SOURCE = 65536
"""Bytes read of a file that holds one value."""


def load_rules(path: Path) -> Rules:
    """The rules of a file, TOML or JSON by its suffix. It also reads the files of shared resources, so call
    it at each observation. Raises SettingsError naming file and place.
    """
    try:
        text = read_regular(path, LARGEST_DOCUMENT).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot read the rules {path}: {error}") from error
    try:
        return rules_from(read_document(text, toml=path.suffix == ".toml"))
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from error


def rules_from(value: Any, *, shared: Shared = NO_SHARED) -> Rules:
    """The rules of a document. `shared`: further shared resources, declared by a program."""
    given = {_spelt(name): part for name, part in entries(value, "the document").items()}
    for name in given:
        known(name, _HEADS, name)
    resources = resources_named(given)
    everywhere = {**shared, **shared_resources_from(given.get("shared_resources", []))}
    rules = Rules(
        default_resources=default_resources_from(given.get("default_resources", []), resources=resources),
        constraints=constraints_from(given.get("constraints", []), shared=everywhere, resources=resources),
        shared=everywhere,
        boot_timeout=timeout_from(given["boot_timeout"], at="boot_timeout") if "boot_timeout" in given else None,
        idle_timeout=timeout_from(given["idle_timeout"], at="idle_timeout") if "idle_timeout" in given else None,
        keep_alive=keep_alive_from(given.get("keep_alive", False)),
        apply=apply_from(given.get("apply", []), shared=everywhere, resources=resources),
        complexes=complexes_from(given.get("complexes", {})),
        location=words(given["location"], "location") if "location" in given else "",
        facts=sizes_from(given.get("vm_sizes", {})),
    )
    return stand_alone(rules, given)


def _spelt(name: str) -> str:
    return name.replace("-", "_")


# -- default resources -----------------------------------------------------------------------------------------


def default_resources_from(
    value: Any, *, at: str = "default_resources", resources: Names = ()
) -> tuple[DefaultResource, ...]:
    """Default resources in the order of the document, which matters."""
    found: list[DefaultResource] = []
    for n, part in enumerate(listed(value, at)):
        before = {*BY_ITSELF, *(default.name for default in found)}
        found.append(_default_resource(part, f"{at}[{n}]", resources, before))
    return tuple(found)


def _default_resource(value: Any, at: str, resources: Names, before: Names) -> DefaultResource:
    """`before`: resources that a node may have from earlier entries."""
    given = entries(value, at)
    for name in given:
        known(name, ("select", "name", "value", *_OPERATORS), below(at, name))
    for name in ("name", "value"):
        if name not in given:
            wrong(below(at, name), "it is missing")
    changes = tuple(
        (Operator(name), _change(part, below(at, name), name, before))
        for name, part in given.items()
        if name in _OPERATORS
    )
    if is_back_quoted(given["value"]):
        read = lambda part, place: _operand(part, place, before)  # noqa: E731
        found, first = read_back_quoted(given["value"], below(at, "value"), read)
        changes = (*first, *changes)
    else:
        found = _operand(given["value"], below(at, "value"), before)
    if changes and not (is_number(found) or isinstance(found, OfNode | OfResource)):
        wrong(below(at, changes[0][0].value), f"{given['value']!r} is not a number")
    return DefaultResource(
        name=words(given["name"], below(at, "name")),
        value=found,
        select=constraint_from(given.get("select", {}), at=below(at, "select"), resources=resources),
        changes=changes,
    )


def _operand(value: Any, at: str, before: Names) -> Operand:
    if not isinstance(value, str) or not value.startswith(NODE):
        return scalar(value, at)
    name = value.removeprefix(NODE)
    if not name.startswith(RESOURCES):
        return OfNode(known_property(name, at))
    name = name.removeprefix(RESOURCES)
    if name not in before:
        wrong(at, f"no default resource before this one gives {name}; it may be one of {', '.join(sorted(before))}")
    return OfResource(name)


def _change(value: Any, at: str, operator: str, before: Names) -> Operand:
    found = _operand(value, at, before)
    if isinstance(found, OfNode | OfResource):
        return found
    if operator in (Operator.DIVIDE, Operator.DIVIDE_FLOOR) and found == 0:
        wrong(at, "division by 0")
    if isinstance(found, str) and found[-1:].isalpha():
        with suppress(ValueError):
            return read_size(found)
    return number(value, at)


# -- shared resources ------------------------------------------------------------------------------------------


def shared_resources_from(value: Any, *, at: str = "shared_resources") -> dict[str, SharedResource]:
    """Resources that all nodes share, by name. Those with an `initial_value`, or `consumable`, are counted. Without a
    `current_value`, the value is read from the file `source`: a number if it is counted, else text, or an object with
    `current_value` and perhaps `initial_value`.
    """
    found: dict[str, SharedResource] = {}
    for number_, part in enumerate(listed(value, at)):
        place = f"{at}[{number_}]"
        resource = _shared_resource(entries(part, place), place)
        if resource.resource_name in found:
            wrong(below(place, "name"), f"{resource.resource_name} is given twice")
        found[resource.resource_name] = resource
    return found


def _shared_resource(given: Mapping[str, Any], at: str) -> SharedResource:
    for name in given:
        known(name, ("name", "source", "initial_value", "current_value", "consumable"), below(at, name))
    name = words(given.get("name"), below(at, "name"))
    source = words(given["source"], below(at, "source")) if "source" in given else ""
    values: dict[str, Any] = {}
    if "current_value" not in given:
        if not source:
            wrong(below(at, "source"), "name a file that contains its value, or give a current_value")
        counted = "initial_value" in given or _consumable(given, at)
        values = _held(Path(source), below(at, "source"), counted)
    values |= {key: given[key] for key in ("initial_value", "current_value") if key in given}
    current = scalar(values["current_value"], below(at, "current_value"))
    counted = _consumable(given, at) if "consumable" in given else "initial_value" in values
    if not counted:
        return SharedNonConsumableResource(name, source, current)
    initial = values.get("initial_value", current)
    return SharedConsumableResource(
        name, source, number(initial, below(at, "initial_value")), number(current, below(at, "current_value"))
    )


def _consumable(given: Mapping[str, Any], at: str) -> bool:
    return "consumable" in given and truth(given["consumable"], below(at, "consumable"))


def _held(path: Path, at: str, counted: bool) -> dict[str, Any]:
    try:
        text = read_regular(path, MOST_OF_A_SOURCE).decode("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        wrong(at, f"cannot read {path}: {error}")
    if not text:
        wrong(at, f"{path} does not contain exactly one value")
    if text.startswith("{"):
        values = table(read_document(text, where=at), at)
        if "current_value" not in values:
            wrong(at, f"{path} contains no current_value")
        return {key: values[key] for key in ("initial_value", "current_value") if key in values}
    return {"current_value": _number(text, path, at) if counted else text}


def _number(text: str, path: Path, at: str) -> float:
    try:
        return int(text) if text.isdecimal() else float(text)
    except ValueError:
        wrong(at, f"{path} contains {text!r}, which is not a number")


# -- timeouts and keep_alive --------------------------------------------------------------------------------------


def timeout_from(value: Any, *, at: str) -> PerNodeArray[float]:
    """Seconds, for all node arrays, or by node array with a `default` for the others."""
    return _per_array(value, at, _seconds)


def _seconds(value: Any, at: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < TOO_MUCH:
        wrong(at, f"a number of seconds above 0 is expected, not {value!r}")
    return float(value)


def keep_alive_from(value: Any, *, at: str = "keep_alive") -> KeepAlive:
    """True or false for all, by node array with a `default`, or a list of names of workers."""
    if isinstance(value, list):
        return KeepAlive(names=frozenset(words(name, f"{at}[{n}]") for n, name in enumerate(value)))
    if isinstance(value, dict):
        value = {"default": False, **entries(value, at)}
    return KeepAlive(_per_array(value, at, truth))


def _per_array(value: Any, at: str, read: Callable[[Any, str], T]) -> PerNodeArray[T]:
    if not isinstance(value, dict):
        return PerNodeArray(read(value, at))
    value = entries(value, at)
    if "default" not in value:
        wrong(below(at, "default"), "it is missing: the value for node arrays that are not named")
    found = {name: read(part, below(at, name)) for name, part in value.items()}
    return PerNodeArray(found.pop("default"), found)

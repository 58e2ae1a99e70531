"""Whether a request's body is one that Azure takes: by the SDK's own models, field by field, and by Azure's rules for a
machine. What a model does not name, may not be written, or is of another type is refused.
"""

from __future__ import annotations

import enum
import typing
from collections.abc import Iterator, Mapping
from functools import cache
from types import NoneType
from typing import Any

from azure.mgmt.compute import models
from azure.mgmt.compute.models import _models

_STALE = (models.VirtualMachineSizeTypes,)
"""The SDK says of it that it is out of date: the region tells which sizes there are."""


def problems(model: Any, value: object, path: str = "") -> Iterator[str]:
    """What is wrong with `value` as a request's `model`."""
    if not isinstance(value, Mapping):
        yield f"{path or 'the body'} is no object"
        return
    fields = _fields(model)
    for name in value:
        if name not in fields:
            yield f"{path}{name} is no field of {model.__name__}"
    for name, (kind, writable) in fields.items():
        if name not in value:
            if not _optional(kind) and writable:
                yield f"{path}{name} is missing"
        elif not writable:
            yield f"{path}{name} may only be read"
        else:
            yield from _wrong(kind, value[name], f"{path}{name}")


def machine_problems(body: Mapping[str, Any]) -> Iterator[str]:
    """Rules of Azure for a new machine that no model holds."""
    properties = body.get("properties") or {}
    zones, spot = body.get("zones") or (), properties.get("priority") == "Spot"
    if len(zones) > 1:
        yield "a machine is in one zone"
    if properties.get("availabilitySet") and (zones or spot or properties.get("virtualMachineScaleSet")):
        yield "an availability set allows neither zones, nor spot, nor a scale set"
    if ("evictionPolicy" in properties or "billingProfile" in properties) and not spot:
        yield "evictionPolicy and billingProfile are for spot machines"
    price = (properties.get("billingProfile") or {}).get("maxPrice", -1)
    if price != -1 and price <= 0:
        yield "maxPrice is -1 or above 0"
    network = properties.get("networkProfile") or {}
    cards = network.get("networkInterfaceConfigurations") or ()
    if not cards or not network.get("networkApiVersion"):
        yield "a card described with the machine needs networkApiVersion"
    for card in cards:
        for each in card["properties"]["ipConfigurations"]:
            if "subnet" not in (each.get("properties") or {}):
                yield f"the card {card['name']} has no subnet"
    system = properties.get("osProfile")
    if system is not None:
        linux = system.get("linuxConfiguration") or {}
        if linux.get("disablePasswordAuthentication") and not (linux.get("ssh") or {}).get("publicKeys"):
            yield "without a password a public key is needed"
        if not system.get("computerName") or len(system["computerName"]) > 64 or not system.get("adminUsername"):
            yield "osProfile needs computerName of at most 64 characters, and adminUsername"


def _wrong(kind: object, value: object, path: str) -> Iterator[str]:
    kinds = _members(kind)
    for each in kinds:
        origin = typing.get_origin(each)
        if origin is list and isinstance(value, list):
            (item,) = typing.get_args(each)
            for number, element in enumerate(value):
                yield from _wrong(item, element, f"{path}[{number}]")
            return
        if origin is dict and isinstance(value, dict):
            _, item = typing.get_args(each)
            for name, element in value.items():
                yield from _wrong(item, element, f"{path}.{name}")
            return
        if isinstance(each, type) and hasattr(each, "as_dict"):
            yield from problems(each, value, f"{path}.")
            return
    choices = [each for each in kinds if isinstance(each, type) and issubclass(each, enum.Enum) and each not in _STALE]
    if choices:
        if value not in [choice.value for each in choices for choice in each]:
            yield f"{path} = {value!r} is none of {', '.join(choice.value for each in choices for choice in each)}"
    elif not any(_is(value, each) for each in kinds):
        yield f"{path} = {value!r} is no {' or '.join(str(each) for each in kinds)}"


def _is(value: object, kind: object) -> bool:
    if kind is Any:
        return True
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(kind, type) and isinstance(value, kind)


def _members(kind: object) -> tuple[object, ...]:
    if typing.get_origin(kind) is typing.Union:
        return tuple(each for each in typing.get_args(kind) if each is not NoneType)
    return (kind,)


def _optional(kind: object) -> bool:
    return typing.get_origin(kind) is typing.Union and NoneType in typing.get_args(kind)


@cache
def _fields(model: Any) -> Mapping[str, tuple[object, bool]]:
    """Type and whether it may be written, of every field by its name on the wire."""
    model({})  # the SDK finds out its fields when the first of a kind is made
    hints: dict[str, object] = {}
    for each in reversed(model.__mro__):
        if each.__module__ == _models.__name__:
            hints |= typing.get_type_hints(each, {**vars(_models), "_models": models})
    found: dict[str, tuple[object, bool]] = {}
    for name, rest in model._attr_to_rest_field.items():
        found[rest._rest_name] = (hints[name], rest._visibility != ["read"])
    return found


MACHINE = models.VirtualMachine

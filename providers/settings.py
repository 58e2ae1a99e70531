"""A provider's own settings, or a policy's: it declares them as a pydantic model, and they are read here from given
values, never directly from the process's environment.

Unknown names under a provider's prefix are errors with a suggestion, as everywhere in this project. A secret is given
as it is, or by reference (`env:NAME`, `file:PATH`), and is hidden in all output.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, SecretStr, ValidationError
from pydantic.fields import FieldInfo

from autoscaler.errors import SettingsError, suggestion
from autoscaler.outside_files import read_text


class ExtensionSettings(BaseModel):
    """Settings of a provider or a policy. A field's environment name is prefix and field (`…_BOOT_DELAY`), or its
    `validation_alias`; its value is text.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, populate_by_name=True, validate_default=True
    )

    env_prefix: ClassVar[str]
    """`CP_CAP_AUTOSCALE_MINE_`."""


Model = TypeVar("Model", bound=ExtensionSettings)


def _split(value: Any) -> Any:
    return tuple(word for word in value.replace(",", " ").split()) if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_split)]
"""A list of names, written with commas or spaces in between."""


def _by_array(value: object) -> object:
    """`mpi=group-a, tight=group-b`, or `group` for every node array."""
    if not isinstance(value, str):
        return value
    pairs = [word.rpartition("=") for word in value.replace(",", " ").split()]
    return {array: name for array, _, name in pairs}


ByArray = Annotated[Mapping[str, str], BeforeValidator(_by_array)]
"""A name for each node array; under '' that of all others."""


def prefix_of(model: type[ExtensionSettings]) -> str:
    """The model's prefix, `CP_CAP_AUTOSCALE_LOCAL_`. Raises SettingsError for a model without one of its own."""
    prefix = getattr(model, "env_prefix", "").upper()
    if not prefix.endswith("_") or prefix in ("CP_CAP_", "CP_CAP_AUTOSCALE_"):
        raise SettingsError(
            f"{model.__module__}.{model.__qualname__} needs its own env_prefix that ends in _, "
            f"such as CP_CAP_AUTOSCALE_MINE_; it has {prefix!r}"
        )
    return prefix


def read_settings(model: type[Model], values: Mapping[str, str], *, of: str = "the provider") -> Model:
    """Make the settings from `values` (environment names to text); names without its prefix that it does not declare
    are ignored.

    `of`: the owner, for the error. Empty text counts as not given. Raises SettingsError that names every unknown and
    every wrong value at once.
    """
    prefix, names = prefix_of(model), _names(model)
    given = {name.upper(): text for name, text in values.items() if text != ""}
    problems = [_unknown(name, names) for name in given if name.startswith(prefix) and name not in names]
    try:
        settings = model.model_validate(_by_field(model, given))
    except ValidationError as error:
        problems += [_wrong(model, prefix, dict(detail)) for detail in error.errors()]
    if problems:
        raise SettingsError(f"settings of {of} are wrong:\n" + "\n".join(f"  - {line}" for line in problems))
    return settings


def main_names(model: type[ExtensionSettings]) -> dict[str, str]:
    """The name to show for each field, in the order of the model: environment name → field."""
    prefix = prefix_of(model)
    return {names[0]: field for field, info in model.model_fields.items() if (names := _names_of(prefix, field, info))}


def _names(model: type[ExtensionSettings]) -> dict[str, str]:
    """Every name that the model accepts, with its field."""
    prefix = prefix_of(model)
    return {name: field for field, info in model.model_fields.items() for name in _names_of(prefix, field, info)}


def _names_of(prefix: str, field: str, info: FieldInfo) -> tuple[str, ...]:
    match info.validation_alias:
        case None:
            return (f"{prefix}{field}".upper(),)
        case str(alias):
            return (alias.upper(),)
        case AliasChoices(choices=choices):
            return tuple(choice.upper() for choice in choices if isinstance(choice, str))
        case _:
            return ()


def _by_field(model: type[ExtensionSettings], given: Mapping[str, str]) -> dict[str, str]:
    """Each field's value, by the first of its names that is given."""
    names = {field: _names_of(model.env_prefix, field, info) for field, info in model.model_fields.items()}
    found = {field: [given[name] for name in listened if name in given] for field, listened in names.items()}
    return {field: texts[0] for field, texts in found.items() if texts}


def _unknown(name: str, names: Mapping[str, str]) -> str:
    return f"{name} is not a setting; {suggestion(name, names)}"


def _wrong(model: type[ExtensionSettings], prefix: str, detail: Mapping[str, Any]) -> str:
    field = str(detail["loc"][0]) if detail["loc"] else ""
    info = model.model_fields.get(field)
    name = next(iter(_names_of(prefix, field, info)), field) if info else field.upper()
    given = "" if detail["type"] == "missing" else f" = {detail['input']!r}"
    return f"{name}{given}: {detail['msg']}"


def _resolved(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    kind, separator, name = value.partition(":")
    if kind == "env" and separator:
        if not os.environ.get(name):
            raise ValueError(f"the environment variable {name} is not set")
        return os.environ[name]
    if kind == "file" and separator:
        try:
            text = read_text(Path(name)).strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}") from error
        if not text:
            raise ValueError(f"{name} is empty")
        return text
    return value


Secret = Annotated[SecretStr, BeforeValidator(_resolved)]
"""Declare it as a field of a provider's settings; the reference is followed when the settings are read."""

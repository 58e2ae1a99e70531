"""Finds a provider by name and makes it: entry points of the group `sge_autoscaler.providers`, or an import path
`package.module:Class` for one that is installed nowhere.

Its settings come from values under its own prefix. Nothing of a cloud is imported for a provider that was not chosen.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import inspect
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast

from pydantic_settings import BaseSettings

from autoscaler.errors import AutoscalerError, SettingsError
from providers.interface import Provider
from providers.settings import prefix_of, read_settings

GROUP = "sge_autoscaler.providers"
_MEMBERS = ("buckets", "workers", "launch", "terminate", "check")
_ATTRIBUTES = ("name", "enrols_itself", "Settings")


def load(name: str, values: Mapping[str, str], cell: str) -> Provider:
    """The provider `name`, with settings from `values` (environment names to text), for machines tagged `cell`.

    Raises SettingsError: unknown name, what is no provider, wrong or unknown settings.
    """
    found = provider_class(name)
    settings = read_settings(found.Settings, values)
    return cast("Provider", cast("Any", found)(settings, cell=cell))


def platform_defaults(name: str, values: Mapping[str, str]) -> Mapping[str, str]:
    """What the platform behind the provider `name` says for settings that nobody set; nothing where it has no word.

    Raises ProviderError, and SettingsError where the provider's own settings are wrong.
    """
    found = provider_class(name)
    defaults = getattr(found, "defaults", None)
    if defaults is None:
        return {}
    return cast("Mapping[str, str]", defaults(read_settings(found.Settings, values)))


def provider_class(name: str) -> type[Provider]:
    """The class behind a name or import path. Raises SettingsError that lists what is known and what is close."""
    if ":" in name:
        return _checked(name, _imported(name))
    points = _points()
    if name not in points:
        close = difflib.get_close_matches(name, points, n=1)
        meant = f"did you mean {close[0]}? " if close else ""
        raise SettingsError(
            f"no provider is called {name!r}: {meant}Known are {', '.join(points) or 'none'}; "
            "one that is not installed is given as package.module:Class"
        )
    return _checked(name, _loaded(points[name]))


def known() -> tuple[str, ...]:
    """Names of all installed providers, sorted."""
    return tuple(_points())


def known_prefixes(chosen: str | None = None) -> tuple[str, ...]:
    """Environment prefixes under which providers declare settings of their own, sorted.

    Of an installed one by its name, so that no cloud's library is imported in vain; of the `chosen` one as it says
    itself, unless it cannot be imported: making it then says what to install.
    """
    prefixes = {f"CP_CAP_AUTOSCALE_{name.upper()}_" for name in known()}
    if chosen is not None:
        with contextlib.suppress(AutoscalerError):
            prefixes.add(prefix_of(provider_class(chosen).Settings))
    return tuple(sorted(prefixes))


def settings_of(name: str) -> type[BaseSettings]:
    """The settings model of a provider: for the reference page and `config show`."""
    return cast("type[BaseSettings]", provider_class(name).Settings)


def _points() -> dict[str, EntryPoint]:
    return {point.name: point for point in sorted(entry_points(group=GROUP), key=lambda point: point.name)}


def _loaded(point: EntryPoint) -> object:
    try:
        return point.load()
    except (ImportError, AttributeError) as error:
        raise SettingsError(
            f"the provider {point.name} ({point.value}) cannot be imported: {error}; "
            f"install what it needs, perhaps sge-autoscaler[{point.name}]"
        ) from error


def _imported(path: str) -> object:
    module, _, attribute = path.partition(":")
    if not module or not attribute:
        raise SettingsError(f"{path!r} is no import path: write package.module:Class")
    try:
        found: object = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise SettingsError(f"the provider {path} cannot be imported: {error}; is it on PYTHONPATH?") from error
    return found


def _checked(name: str, found: object) -> type[Provider]:
    if not inspect.isclass(found):
        raise SettingsError(f"{name} is no class: a provider is made as Class(settings, cell=...)")
    missing = [member for member in (*_ATTRIBUTES, *_MEMBERS) if not hasattr(found, member)]
    if missing:
        raise SettingsError(f"{name} is no provider: it lacks {', '.join(missing)} (see providers/interface.py)")
    model = cast("Any", found).Settings
    if not (inspect.isclass(model) and issubclass(model, BaseSettings)):
        raise SettingsError(f"{name}.Settings is no pydantic-settings model")
    prefix_of(model)
    return cast("type[Provider]", found)

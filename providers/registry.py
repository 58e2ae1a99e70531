"""Finds a provider by name and makes it: entry points of the group `sge_autoscaler.providers`, or an import path
`package.module:Class` for one that is not installed.

Its settings come from values under its own prefix. Libraries of other clouds are not imported.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from datetime import date
from typing import Any, cast

from autoscaler.errors import SettingsError
from autoscaler.extensions import Extensions
from autoscaler.providers.catalog import currency_of
from autoscaler.providers.interface import Provider
from autoscaler.providers.settings import ExtensionSettings, prefix_of, read_settings

GROUP = "sge_autoscaler.providers"
_PROVIDERS = Extensions(
    GROUP,
    "provider",
    "install what it needs, perhaps the package sge-autoscaler-{name}, or the wheel's file with [{name}]",
)
_MEMBERS = ("buckets", "workers", "launch", "terminate", "check")
_ATTRIBUTES = ("name", "enrols_itself", "Settings")


def load(name: str, values: Mapping[str, str], cell: str) -> Provider:
    """The provider `name`, with settings from `values` (environment names to text), for machines tagged `cell`.

    Raises SettingsError: unknown name, an object that is no provider, wrong or unknown settings.
    """
    found = provider_class(name)
    settings = read_settings(found.Settings, values)
    return cast("Provider", cast("Any", found)(settings, cell=cell))


def platform_defaults(name: str, values: Mapping[str, str]) -> Mapping[str, str]:
    """The defaults of the platform behind the provider `name` for settings that nobody set; empty if it has none.

    Raises ProviderError, and SettingsError if the provider's own settings are wrong.
    """
    found = provider_class(name)
    defaults = getattr(found, "defaults", None)
    if defaults is None:
        return {}
    return cast("Mapping[str, str]", defaults(read_settings(found.Settings, values)))


def oldest_price(name: str, values: Mapping[str, str]) -> date | None:
    """The date of the oldest price that the provider `name` uses; None if it asks its cloud, or knows none.

    Raises SettingsError if the provider's own settings are wrong.
    """
    found = provider_class(name)
    oldest = getattr(found, "oldest_price", None)
    return None if oldest is None else cast("date | None", oldest(read_settings(found.Settings, values)))


def currency(name: str, values: Mapping[str, str]) -> str:
    """The currency of the provider's prices: that of the operator's own catalogue, else dollars, the currency of clouds
    and of the included catalogue. Raises SettingsError if the provider's own settings are wrong.
    """
    settings = read_settings(provider_class(name).Settings, values)
    return currency_of(getattr(settings, "catalog", None))


def provider_class(name: str) -> type[Provider]:
    """The class behind a name or import path. Raises SettingsError that lists the known ones and a close one."""
    return _checked(name, _PROVIDERS.find(name))


def known() -> tuple[str, ...]:
    """Names of all installed providers, sorted."""
    return _PROVIDERS.known()


def offered() -> str:
    """The names that an operator chooses from, with commas; `fake` is for tests."""
    return ", ".join(name for name in known() if name != "fake")


def none_chosen() -> SettingsError:
    """The error of a command that needs a provider."""
    return SettingsError(
        f"no provider: set CP_CAP_AUTOSCALE_PROVIDER to one of {offered()}, or to package.module:Class"
    )


def known_prefixes(chosen: str | None = None) -> tuple[str, ...]:
    """Environment prefixes under which providers declare settings of their own, sorted.

    An installed one's follows from its name, so that no cloud's library is imported in vain; the `chosen` one's from
    its class. Raises SettingsError if that cannot be imported.
    """
    prefixes = {f"CP_CAP_AUTOSCALE_{name.upper()}_" for name in known()}
    if chosen is not None:
        prefixes.add(prefix_of(provider_class(chosen).Settings))
    return tuple(sorted(prefixes))


def settings_of(name: str) -> type[ExtensionSettings]:
    """The settings model of a provider: for the reference page and `config show`."""
    return cast("type[ExtensionSettings]", provider_class(name).Settings)


def _checked(name: str, found: object) -> type[Provider]:
    if not inspect.isclass(found):
        raise SettingsError(f"{name} is not a class: the autoscaler makes a provider as Class(settings, cell=...)")
    missing = [member for member in (*_ATTRIBUTES, *_MEMBERS) if not hasattr(found, member)]
    if missing:
        raise SettingsError(f"{name} is not a provider: it has no {', '.join(missing)} (see providers/interface.py)")
    model = cast("Any", found).Settings
    if not (inspect.isclass(model) and issubclass(model, ExtensionSettings)):
        raise SettingsError(f"{name}.Settings is no ExtensionSettings of autoscaler.providers.settings")
    prefix_of(model)
    return cast("type[Provider]", found)

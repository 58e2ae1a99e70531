"""The catalogue file that settings name: each provider with a catalogue has a setting of its own for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from autoscaler.errors import SettingsError

if TYPE_CHECKING:
    from autoscaler.settings import Settings


def catalog_setting(provider: str | None) -> str | None:
    """The name of a provider's setting for a catalogue file; None: there is no provider, or it has no such setting.
    Raises SettingsError if the provider cannot be imported.
    """
    from autoscaler.providers.registry import provider_class
    from autoscaler.providers.settings import prefix_of

    if provider is None:
        return None
    model = provider_class(provider).Settings
    return f"{prefix_of(model)}CATALOG" if "catalog" in model.model_fields else None


def own_catalog(settings: Settings, environ: Mapping[str, str]) -> tuple[str, Path] | None:
    """The setting and the file that it names. None: the included catalogue counts alone, also where the provider's
    library is not there.
    """
    from autoscaler.providers.registry import known

    provider = settings.process.provider
    if provider is None:
        return None
    if provider in known():  # no cloud's library is imported in vain
        setting: str | None = f"CP_CAP_AUTOSCALE_{provider.upper()}_CATALOG"
    else:
        try:
            setting = catalog_setting(provider)
        except SettingsError:
            return None
    value = settings.for_provider(environ).get(setting or "", "")
    return (setting, Path(value)) if setting and value else None

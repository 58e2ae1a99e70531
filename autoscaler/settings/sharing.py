"""The settings that one process shares with others of its cell: as they were set, without secrets.

Commands that only read use the settings of the running autoscaler, not those of their shell.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from autoscaler import CONFIG_ENV
from autoscaler.settings.loading import PROVIDER_ENV, default_provider, is_secret, read_file
from autoscaler.settings.process_settings import Process
from autoscaler.settings.queue_settings import QueueSettings
from autoscaler.settings.rows import extra, rows
from autoscaler.strict_modes import GROUP_ENV

PREFIX = "CP_CAP_"
_OF_LAUNCHER = frozenset(
    ("RUN_ID", *(extra(model, name, "also") for model in (Process, QueueSettings) for name in rows(model).values()))
) - {""}
"""Variables of a master's container from which settings are read, besides those with the prefix."""


def given(environ: Mapping[str, str]) -> dict[str, str]:
    """All settings as text: from the environment, else from the settings file. Raises SettingsError."""
    file = read_file(Path(environ[CONFIG_ENV]), environ.get(GROUP_ENV) or None) if environ.get(CONFIG_ENV) else {}
    named = {name: value for name, value in environ.items() if _is_read(name) and value != ""}
    chosen = default_provider(environ)
    default = {} if chosen is None else {PROVIDER_ENV: chosen}
    return {name: value for name, value in {**default, **file, **named}.items() if not is_secret(name)}


def with_settings(environ: Mapping[str, str], shared: Mapping[str, str]) -> dict[str, str]:
    """The environment with these settings in place of its own; its own secrets stay."""
    kept = {name: value for name, value in environ.items() if is_secret(name) or not _is_read(name)}
    return {name: value for name, value in kept.items() if name != CONFIG_ENV} | dict(shared)


def differing(environ: Mapping[str, str], shared: Mapping[str, str]) -> dict[str, tuple[str, str | None]]:
    """Settings that differ: (here, there)."""
    own = given(environ)
    return {name: (value, shared.get(name)) for name, value in sorted(own.items()) if shared.get(name) != value}


def _is_read(name: str) -> bool:
    return (name.startswith(PREFIX) or name in _OF_LAUNCHER) and name != CONFIG_ENV

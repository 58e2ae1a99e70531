"""Finds the pass listeners of others that the settings name: an entry point of the group `sge_autoscaler.listeners`, or
an import path `package.module:Class`. Only those are imported.
"""

from __future__ import annotations

from collections.abc import Sequence

from autoscaler.engine.pass_listener import PassListener
from autoscaler.errors import SettingsError
from autoscaler.extensions import Extensions

GROUP = "sge_autoscaler.listeners"
_LISTENERS = Extensions(GROUP, "pass listener")


def load(names: Sequence[str]) -> tuple[PassListener, ...]:
    """New listeners, in this order. Raises SettingsError with all errors at once."""
    made: list[PassListener] = []
    wrong: list[str] = []
    for name in dict.fromkeys(names):
        try:
            made.append(_made(name, _LISTENERS.find(name)))
        except SettingsError as error:
            wrong.append(str(error))
    if wrong:
        raise SettingsError("\n".join(wrong))
    return tuple(made)


def _made(name: str, found: object) -> PassListener:
    if not (isinstance(found, type) and issubclass(found, PassListener)):
        raise SettingsError(f"{name} is no pass listener: it has to be a subclass of PassListener")
    try:
        return found()
    except Exception as error:  # its code is not ours
        raise SettingsError(f"the pass listener {name} cannot be made: {type(error).__name__}: {error}") from error

"""Finds autoscale policies and makes them: by name (entry points of the group `sge_autoscaler.policies`), or by an
import path `package.module:Class`.

It imports only chosen policies.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from autoscaler.errors import SettingsError
from autoscaler.extensions import Extensions
from autoscaler.policies.interface import AutoscalePolicy
from autoscaler.providers.settings import ExtensionSettings, prefix_of, read_settings
from autoscaler.settings import POLICY_PREFIX

GROUP = "sge_autoscaler.policies"
_POLICIES = Extensions(GROUP, "autoscale policy")
_NAME = re.compile(r"[a-z][a-z0-9_]*")


def load(names: Sequence[str], values: Mapping[str, str]) -> Mapping[str, AutoscalePolicy]:
    """The chosen policies by name, with options from `values` (environment names to text).

    Raises SettingsError with all errors at once: unknown names, classes that are no policy, two policies of one name,
    wrong or unknown options.
    """
    classes, wrong = _classes(names)
    made: dict[str, AutoscalePolicy] = {}
    for name, found in classes.items():
        try:
            options = read_settings(found.Settings, values, of=f"the autoscale policy {name}")
            made[name] = cast("Any", found)(options)
        except SettingsError as error:
            wrong.append(str(error))
    if wrong:
        raise SettingsError("\n".join(wrong))
    return made


def problems(names: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """All errors in the chosen policies, and options of other policies; for `config check`."""
    found: list[str] = []
    try:
        load(names, values)
    except SettingsError as error:
        found.append(str(error))
    classes, unknown = _classes(names)
    strange = None if unknown else unclaimed(classes, values)
    return found if strange is None else [*found, strange]


def unclaimed(policies: Mapping[str, AutoscalePolicy | type[AutoscalePolicy]], values: Mapping[str, str]) -> str | None:
    """A sentence about options of policies that are not chosen; None if there are none."""
    prefixes = tuple(prefix_of(policy.Settings) for policy in policies.values())
    found = sorted(
        name
        for name, text in values.items()
        if text and name.startswith(POLICY_PREFIX) and not name.startswith(prefixes)
    )
    if not found:
        return None
    chosen = ", ".join(policies) or "none"
    return f"{', '.join(found)}: no autoscale policy in CP_CAP_AUTOSCALE_POLICIES ({chosen}) has this setting"


def _classes(names: Sequence[str]) -> tuple[dict[str, type[AutoscalePolicy]], list[str]]:
    """The classes of the chosen policies by name, and the errors."""
    classes: dict[str, type[AutoscalePolicy]] = {}
    wrong: list[str] = []
    for name in names:
        try:
            found = policy_class(name)
        except SettingsError as error:
            wrong.append(str(error))
            continue
        if found.name in classes:
            wrong.append(f"the autoscale policy {found.name} is chosen twice: name it once")
        classes[found.name] = found
    return classes, wrong


def policy_class(name: str) -> type[AutoscalePolicy]:
    """The class behind a name or import path. Raises SettingsError with known and similar names."""
    return _checked(name, _POLICIES.find(name))


def known() -> tuple[str, ...]:
    """Names of all installed policies, sorted."""
    return _POLICIES.known()


def settings_of(name: str) -> type[ExtensionSettings]:
    """The options of a policy, for the reference page."""
    return policy_class(name).Settings


def _checked(name: str, found: object) -> type[AutoscalePolicy]:
    if not isinstance(found, type):
        raise SettingsError(f"{name} is not a class: the autoscaler makes an autoscale policy as Class(settings)")
    missing = [member for member in ("name", "Settings", "requests") if not hasattr(found, member)]
    if missing:
        raise SettingsError(f"{name} is not an autoscale policy: it has no {', '.join(missing)}")
    policy = cast("Any", found)
    if not (isinstance(policy.name, str) and _NAME.fullmatch(policy.name)):
        raise SettingsError(f"{name}.name is {policy.name!r}: use lower-case letters, digits and _ only")
    if not (isinstance(policy.Settings, type) and issubclass(policy.Settings, ExtensionSettings)):
        raise SettingsError(f"{name}.Settings is no ExtensionSettings of autoscaler.providers.settings")
    wanted = f"{POLICY_PREFIX}{policy.name.upper()}_"
    if prefix_of(policy.Settings) != wanted:
        raise SettingsError(f"{name}.Settings needs the env_prefix {wanted}")
    return cast("type[AutoscalePolicy]", found)

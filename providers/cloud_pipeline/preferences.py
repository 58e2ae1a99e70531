"""The platform's preferences as defaults of settings that neither environment nor file gives."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from providers.cloud_pipeline.api import Api
from providers.interface import Refused, Unreachable
from providers.rest import Deadline, segment

PREFERENCES: Mapping[str, str] = MappingProxyType(
    {
        "CP_CAP_AUTOSCALE_SCALE_UP_TIMEOUT": "ge.autoscaling.scale.up.timeout",
        "CP_CAP_AUTOSCALE_SCALE_DOWN_TIMEOUT": "ge.autoscaling.scale.down.timeout",
        "CP_CAP_AUTOSCALE_SCALE_UP_POLLING_TIMEOUT": "ge.autoscaling.scale.up.polling.timeout",
    }
)
"""Setting → the preference that stands in for it; both in seconds."""
PATIENCE = 8.0


def defaults(api: Api) -> dict[str, str]:
    """What the platform says, by setting; what it does not say is left out. Raises Unreachable."""
    deadline = Deadline(PATIENCE)
    said = {setting: preference(api, name, deadline) for setting, name in PREFERENCES.items()}
    return {setting: str(value) for setting, value in said.items() if value not in (None, "")}


def preference(api: Api, name: str, deadline: Deadline) -> Any:
    """The value of one preference; None where the platform has none, or shows it to nobody. Raises Unreachable."""
    try:
        payload = api.get(f"preferences/{segment(name)}", deadline=deadline)
    except Unreachable:
        raise
    except Refused:
        return None
    return payload.get("value") if isinstance(payload, dict) else None

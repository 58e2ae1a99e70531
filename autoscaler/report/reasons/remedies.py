"""What an administrator can do about a reason: its row's sentence, or of a cap the setting that it is."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from autoscaler.core.model.reasons import Code
from autoscaler.report.reasons.table import REASONS

SETTINGS_OF_CAPS: Mapping[str, str] = MappingProxyType(
    {
        "max_workers": "CP_CAP_AUTOSCALE_WORKERS",
        "max_cores": "CP_CAP_AUTOSCALE_MAX_CORES",
        "max_price_per_hour": "CP_CAP_AUTOSCALE_MAX_PRICE_PER_HOUR",
        "total_workers": "CP_CAP_AUTOSCALE_TOTAL_WORKERS",
        "total_cores": "CP_CAP_AUTOSCALE_TOTAL_CORES",
        "total_price_per_hour": "CP_CAP_AUTOSCALE_TOTAL_PRICE_PER_HOUR",
    }
)
"""By the name of a cap that is a setting."""
_OTHERS: Mapping[str, str] = MappingProxyType(
    {
        "MaxCount": "Raise `MaxCount` of the node array.",
        "MaxCoreCount": "Raise `MaxCoreCount` of the node array.",
        "availability": "The provider has no more of them: allow other types, or raise its quota.",
    }
)


def remedy_for(code: Code, facts: Mapping[str, Any]) -> str:
    """The sentence for administrators; '': there is none."""
    cap = str(facts.get("cap", "")) if code is Code.CAPPED else ""
    if cap in SETTINGS_OF_CAPS:
        of = f" of the node array {facts['node_array']}" if facts.get("node_array") else ""
        return f"Raise `{SETTINGS_OF_CAPS[cap]}`{of}."
    return _OTHERS.get(cap) or REASONS[code].remedy

"""What the played region has left: machines by kind, the account's quota, placement groups, what things cost."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field


@dataclass(slots=True)
class Stock:
    """Set through the control path; None and absence mean plenty."""

    left: dict[str, int] = field(default_factory=dict)
    """By `type/zone/lifecycle`, any part of which may be `*`; the first that fits, most special first, is drawn on."""
    vcpus: int | None = None
    """The account's quota for running machines."""
    groups: dict[str, str] = field(default_factory=dict)
    """Placement groups with their strategies."""
    on_demand_prices: dict[str, float] = field(default_factory=dict)
    """Prices of the price list, by type."""
    spot_prices: dict[str, float] = field(default_factory=dict)
    """What spot machines cost now, by type; in some zones, by `type/zone`, another price."""

    def most(self, instance_type: str, zone: str, lifecycle: str) -> int | None:
        key = self._drawer(instance_type, zone, lifecycle)
        return None if key is None else self.left[key]

    def take(self, count: int, instance_type: str, zone: str, lifecycle: str) -> None:
        key = self._drawer(instance_type, zone, lifecycle)
        if key is not None:
            self.left[key] -= count

    def _drawer(self, instance_type: str, zone: str, lifecycle: str) -> str | None:
        keys: Collection[str] = (
            f"{instance_type}/{zone}/{lifecycle}",
            f"{instance_type}/{zone}/*",
            f"{instance_type}/*/{lifecycle}",
            f"{instance_type}/*/*",
            f"*/{zone}/*",
            "*/*/*",
        )
        return next((key for key in keys if key in self.left), None)

"""Values of `/metrics` that passes do not measure: how calls to the provider's cloud are paced, and how notifications
go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from autoscaler.providers.interface import CallBudget, HasCallBudget, Provider
from autoscaler.store.measures import Measures
from autoscaler.store.notifications import Delivery

COUNTED = (
    ("provider_calls_total", "calls"),
    ("provider_throttled_calls_total", "throttled"),
    ("provider_call_wait_seconds_total", "waited_s"),
)
"""Counters of `/metrics`, with the field of a budget that has grown since the process began."""


@dataclass(slots=True)
class MeasuredElsewhere:
    """One for the life of a process."""

    provider: Provider
    delivery: Callable[[], Delivery]
    """How sending of notifications goes. Raises StateNotKept."""
    _last: CallBudget = field(default_factory=CallBudget)
    _dropped: int | None = None

    def add(self, measures: Measures) -> None:
        """Add them. A provider that paces no calls has no series."""
        if isinstance(self.provider, HasCallBudget):
            last, self._last = self._last, self.provider.call_budget()
            for metric, name in COUNTED:
                grown = max(getattr(self._last, name) - getattr(last, name), 0)
                measures.count(metric, self.provider.name, by=float(grown))
            measures.set_all("provider_calls_available", {(self.provider.name,): float(self._last.left)})
            measures.set_all("provider_calls_waiting", {(self.provider.name,): float(self._last.waiting)})
        delivery = self.delivery()
        measures.set("notifications_waiting", float(delivery.waiting))
        measures.set("notification_failures_in_a_row", float(delivery.attempts))
        before = delivery.dropped if self._dropped is None else self._dropped
        measures.count("dropped_notifications_total", by=float(max(delivery.dropped - before, 0)))
        self._dropped = delivery.dropped

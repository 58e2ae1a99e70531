"""Maintenance that EC2 has announced for machines, as they are retired, stopped or rebooted by their host's.

EC2 announces most of it days ahead, and workers seldom live as long. So it is an advice to move away at first: nothing
new is kept on such a worker, and its jobs end. Shortly before it begins, it is a notice like that of a spot machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from autoscaler.core.model.fleet import MAINTENANCE
from autoscaler.providers.advice import Advice
from autoscaler.providers.aws.calls import Calls
from autoscaler.providers.interface import Interruption

ENDS: Mapping[str, str] = MappingProxyType(
    {
        "instance-retirement": "terminate",
        "instance-stop": "stop",
        "instance-reboot": "reboot",
        "system-reboot": "reboot",
        "system-maintenance": "reboot",
    }
)
"""What happens to a machine, by the code of the event (reference of EC2's API, `InstanceStatusEvent`)."""
OVER = ("[Completed]", "[Canceled]")
"""Beginnings of the description of an event that holds no more; EC2 lists it for a week."""
EVERY = 300.0
"""Seconds between two readings: nothing is announced later than minutes before it begins."""
SOON = 900.0
"""Seconds before its begin from which maintenance is a notice."""
SOURCE = "scheduled maintenance"


@dataclass(slots=True)
class Maintenance:
    """What was announced when it was read last."""

    calls: Calls
    advice: Advice
    stopwatch: Callable[[], float] = time.monotonic
    clock: Callable[[], float] = time.time
    _read_at: float | None = None
    _announced: Sequence[Interruption] = ()
    """Each with what happens then as its kind."""

    def of_workers(self, living: Collection[str]) -> Iterator[Interruption]:
        """Advice and notices that hold for these workers."""
        now = self.stopwatch()
        if living and (self._read_at is None or now - self._read_at >= EVERY):
            self._read_at = now
            self._announced = self.advice.read(SOURCE, lambda: tuple(self._read()), self._announced)
        for one in self._announced:
            if one.worker_id in living:
                soon = one.at - self.clock() <= SOON
                yield one if soon else Interruption(one.worker_id, one.at, MAINTENANCE)

    def _read(self) -> Iterator[Interruption]:
        statuses = self.calls.pages(
            "describe_instance_status",
            "InstanceStatuses",
            Filters=[{"Name": "event.code", "Values": sorted(ENDS)}],
            MaxResults=1000,
        )
        for status in statuses:
            for event in status.get("Events", ()):
                kind, begins = ENDS.get(event.get("Code", "")), event.get("NotBefore")
                if kind and begins and not str(event.get("Description", "")).startswith(OVER):
                    yield Interruption(status["InstanceId"], begins.timestamp(), kind)

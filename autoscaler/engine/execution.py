"""The values that executors need: Grid Engine's administrator and scheduler, the provider, the journal, the boot
script.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from autoscaler.background import Executor
from autoscaler.core.model.fleet import Worker
from autoscaler.engine.job_owners import Owners
from autoscaler.providers.interface import Provider
from autoscaler.sge.admin import Administrator
from autoscaler.sge.batches import Batches
from autoscaler.sge.lookup import JobsNow
from autoscaler.sge.probe_hosts import ProbeHosts
from autoscaler.store.journal import OrderRecord
from autoscaler.store.store import Store


class Groups(Protocol):
    """The part of `autoscaler.sge.groups.Groups` that actions need. Every method may raise AutoscalerError."""

    @property
    def swept(self) -> bool: ...

    def prepare(self, group: str, *, queue: str, host_group: str, pes: Sequence[str]) -> str: ...

    def clear(self, group: str) -> tuple[str, ...]: ...

    def sweep(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class ExecutionContext:
    """One for the life of a process."""

    grid_engine: Administrator
    provider: Provider
    store: Store
    tag: str
    """The cell's tag, on each of its machines."""
    boot_script: Callable[[OrderRecord], str]
    """Order → boot script of its machines. May raise SettingsError."""
    clock: Callable[[], float]
    executor: Executor
    """For calls to the provider, which may hang."""
    scheduler: ProbeHosts
    """Grid Engine's scheduler, which can be asked about hosts that do not exist."""
    jobs: Callable[[], JobsNow]
    """Reads the present state of jobs; may raise GridEngineNotObservable."""
    owners: Owners
    """Notifies owners of jobs."""
    array_settings: Callable[[str], Mapping[str, str]] = lambda _: {}
    """Node array → the operator's settings for it, for providers whose machines join by themselves."""
    load_sensor: str = ""
    """Load sensor on every worker that reports interruption notices; '' if there is none."""
    order_key: Callable[[OrderRecord], str] = lambda _: ""
    """Order → its secret, if its machines read it in their metadata; '' if the boot script contains it."""
    groups: Groups | None = None
    """Grid Engine's objects of groups; None: workers of groups join as any other."""
    may_act: Callable[[], None] = lambda: None
    """Called before each action. Raises AutoscalerError while another autoscaler may serve this cell."""
    batches: Batches | None = None
    """Changes several hosts at once; None: one after the other."""


Seen = Mapping[str, Worker]
"""The workers of the plan's snapshot, by id."""

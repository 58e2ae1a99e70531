"""What act works with: Grid Engine's administrator, the provider, the journal, the boot script for new machines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from autoscaler.core.fleet import Worker
from autoscaler.errand import Executor
from autoscaler.store.store import Store
from providers.interface import Provider
from sge.admin import Change, RemovalOutcome
from sge.membership import Membership


class GridEngine(Protocol):
    """The part of `sge.admin.Administrator` that actions need. Every method may raise AutoscalerError."""

    def enrol(
        self, host: str, queue: str, host_group: str, slots: int, complex_values: Iterable[tuple[str, str]] = ()
    ) -> Change: ...

    def enable(self, host: str) -> Change: ...

    def disable(self, host: str) -> Change: ...

    def remove(self, host: str, known: Membership | None = None) -> RemovalOutcome: ...


@dataclass(frozen=True, slots=True)
class Means:
    """One for the life of a process."""

    grid_engine: GridEngine
    provider: Provider
    store: Store
    tag: str
    """This cell's own, on every machine of ours."""
    boot_script: Callable[[str], str]
    """Node array → what its machines run at their first boot."""
    clock: Callable[[], float]
    executor: Executor
    """For calls to the provider, which may hang."""


Seen = Mapping[str, Worker]
"""The workers that the plan saw, by id."""

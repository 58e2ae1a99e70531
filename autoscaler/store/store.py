"""The store as the loop and the commands use it: one file, opened and migrated, with a table owner for each concern."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from autoscaler.core.model.evidence import Evidence
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Reason
from autoscaler.core.model.time_steps import moved
from autoscaler.core.snapshot import Plan
from autoscaler.store import (
    auto_stops,
    clock,
    events,
    evidence,
    history,
    journal,
    measures,
    memory,
    node_operations,
    nodes,
    notifications,
    observations,
    overrides,
    requests,
    samples,
    service_settings,
    usages,
)
from autoscaler.store.database import Database, Migration
from autoscaler.store.journal import Journalled

SCHEMA_1: Migration = (
    *memory.TABLE,
    *journal.TABLES,
    *history.TABLES,
    *overrides.TABLE,
    *evidence.TABLES,
    *auto_stops.TABLE,
    *requests.TABLES,
    *nodes.TABLES,
    *samples.TABLES,
    *observations.TABLE,
    *node_operations.TABLE,
    *service_settings.TABLE,
    *events.TABLES,
    *measures.TABLE,
    *notifications.TABLES,
    *usages.TABLES,
    *clock.TABLE,
)
MIGRATIONS: tuple[Migration, ...] = (SCHEMA_1,)
"""In order; the file's `user_version` is the number of those that were applied. They count from the first package: once
it is released, they are only ever appended to.
"""


def _code(reason: Reason) -> str:
    return reason.code.value


def _new_id() -> str:
    return uuid.uuid4().hex


class Store:
    """All data that outlive a pass."""

    def __init__(self, database: Database, new_id: Callable[[], str] = _new_id) -> None:
        self.database = database
        self.memory = memory.MemoryTable(database)
        self.clock = clock.ClockTable(database)
        self.journal = journal.Journal(database)
        self.history = history.History(database)
        self.service_settings = service_settings.ServiceSettings(database)
        self.overrides = overrides.OverrideTable(database)
        self.evidence = evidence.EvidenceTable(database)
        self.starts = evidence.StartTable(database)
        self.health = evidence.HealthTable(database)
        self.measures = measures.MeasureTable(database)
        self.samples = samples.SampleTable(database)
        self.events = events.EventTable(database)
        self.notifications = notifications.NotificationTable(database)
        self.usages = usages.UsageTable(database)
        self.nodes = nodes.NodeTable(database)
        self.observations = observations.ObservationTable(database)
        self.node_operations = node_operations.NodeOperationTable(database)
        self.auto_stops = auto_stops.AutoStopTable(database)
        self.requests = requests.RequestTable(
            database, nodes=self.nodes.live, auto_stops=self.auto_stops.open, operations=self.node_operations.open
        )
        self._new_id = new_id

    @classmethod
    def open(cls, path: Path | None, *, migrate: bool = True) -> Store:
        """None: in memory, for a dry run. `migrate`: bring a file of an earlier version up to date.

        Raises SettingsError if the file cannot be used.
        """
        return cls(Database.open(path, MIGRATIONS, migrate=migrate))

    def accept(
        self,
        plan: Plan,
        *,
        pass_number: int,
        at: float,
        overrides: Overrides | None = None,
        worded: Callable[[Reason], str] = _code,
    ) -> tuple[Journalled, ...]:
        """Make a plan's memory, answers, actions and orders durable in one transaction: only what this returns may
        begin. `overrides`: those that it was made with, which take effect. `worded`: what people read of a
        reason.
        """
        with self.database.transaction():
            self.memory.save(plan.memory, at)
            if overrides is not None:
                self.overrides.took_effect(overrides)
            self.auto_stops.answer_all(plan.auto_stops, at)
            self.node_operations.refuse({each: worded(reason) for each, reason in plan.refused_operations.items()}, at)
            for failure in plan.failures:
                self.journal.fail(failure, worker_id=failure.worker_id or None)
            return self.journal.begin(plan.actions, pass_number=pass_number, at=at, new_id=self._new_id)

    def move_times(self, step: float, now: clock.Reading) -> None:
        """Move every time of our own clock by so many seconds, because that clock was set by them."""
        with self.database.transaction():
            known, saved_at = self.memory.load(), self.memory.saved_at
            if saved_at:
                self.memory.save(moved(known, step), saved_at)
            self.clock.move_times(step)
            self.clock.keep(now)

    def sweep(self, at: float) -> None:
        """At start, by the only process that acts: end the actions that an earlier one left begun and whose result is
        unknown.
        """
        self.journal.sweep(at)
        self.node_operations.sweep(at)

    def retry(self, *, who: str, at: float) -> tuple[str, ...]:
        """A person or a caller asks to retry all that failed before this: the names of created nodes that are."""
        with self.database.transaction():
            self.overrides.retry(who=who, at=at)
            return self.nodes.retry()

    def findings(self, now: float) -> Evidence:
        """All evidence that is not too old to matter."""
        since = now - evidence.KEPT_FOR
        return replace(
            self.evidence.load(since),
            failures=self.starts.failures(since),
            successes=self.starts.successes(since),
            health=self.health.load(since),
        )

    def forget_old(self, now: float, cost_kept: float = history.COST_KEPT) -> None:
        """Drop what is older than the history is kept for, and costs of workers after `cost_kept` seconds."""
        with self.database.transaction():
            self.history.forget(now - history.KEPT_FOR)
            self.history.forget_lifetimes(now - max(cost_kept, history.KEPT_FOR))
            self.usages.forget(now - cost_kept)
            self.samples.forget(now)
            self.events.forget(now)
            self.requests.lapse(now)
            self.journal.forget(now - history.KEPT_FOR)
            self.nodes.forget(now - history.KEPT_FOR)
            self.overrides.forget(now - history.KEPT_FOR)
            self.node_operations.forget(now - history.KEPT_FOR)
            self.auto_stops.forget(now - history.KEPT_FOR)
            for findings in (self.evidence, self.starts, self.health):
                findings.forget(now - evidence.KEPT_FOR)

    def close(self) -> None:
        self.database.close()

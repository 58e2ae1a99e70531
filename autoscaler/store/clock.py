"""What our clock and the machine's time since boot were at the last pass; and all our times, moved when the clock was
set.
"""

from __future__ import annotations

from dataclasses import dataclass

from autoscaler.store.database import Migration, Table

TABLE: Migration = (
    """
    CREATE TABLE clock (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        at REAL NOT NULL,
        since_boot REAL NOT NULL,
        boot TEXT NOT NULL
    ) STRICT
    """,
)
OWN_TIMES = {
    "plans": ("at",),
    "actions": ("ended_at",),
    "orders": ("ordered_at", "closed_at"),
    "attempts": ("sent_at", "answered_at", "again_at"),
    "failures": ("at", "retry_at"),
    "request_sets": ("at", "expires_at"),
    "auto_stops": ("asked_at", "answered_at"),
    "node_operations": ("at", "begun_at", "ended_at"),
    "nodes": ("created_at", "ended_at", "failed_at"),
    "overrides": ("at", "ended_at", "effective_at"),
    "answers": ("at",),
    "health": ("at", "sick_since"),
    "notification_state": ("failing_since", "next_at", "sent_at"),
    "memory": ("at",),
}
"""By table, the times that waits, limits and deadlines count from. Histories keep what was recorded. Accounting, jobs
and listings have times of other clocks.
"""


@dataclass(frozen=True, slots=True)
class Reading:
    """Two clocks at one instant."""

    at: float
    """Unix seconds."""
    since_boot: float
    boot: str
    """Which boot of which machine that was."""


class ClockTable(Table):
    """Where the last reading is kept."""

    def load(self) -> Reading | None:
        row = self._database.row("SELECT at, since_boot, boot FROM clock")
        return None if row is None else Reading(row["at"], row["since_boot"], row["boot"])

    def keep(self, reading: Reading) -> None:
        self._database.keep_only("clock", at=reading.at, since_boot=reading.since_boot, boot=reading.boot)

    def move_times(self, step: float) -> None:
        for table, columns in OWN_TIMES.items():
            changes = ", ".join(f"{column} = {column} + ?" for column in columns)
            self._database.execute(f"UPDATE {table} SET {changes}", [step] * len(columns))

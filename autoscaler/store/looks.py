"""What the loop last saw of workers, buckets and limits, for those who show it elsewhere: the REST API.

One row, written only when it says something new; how fresh it is tells the memory's own time, which each pass writes.
"""

from __future__ import annotations

from dataclasses import dataclass

from autoscaler.core.fleet import Bucket, Order, OrderState, Worker
from autoscaler.core.growth.options import allowed_types
from autoscaler.core.life import Life, look
from autoscaler.core.model import Plan, Snapshot
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.store import notation
from autoscaler.store.database import Database, Migration

TABLE: Migration = (
    """
    CREATE TABLE looks (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        number INTEGER NOT NULL,
        at REAL NOT NULL,
        look TEXT NOT NULL
    ) STRICT
    """,
)


@dataclass(frozen=True, slots=True)
class SeenWorker:
    """A machine and where it stood."""

    worker: Worker
    life: Life
    host: str | None = None
    """Its execution host's name."""
    message: str = ""
    """Its verdict of that pass, as a code."""


@dataclass(frozen=True, slots=True)
class LastLook:
    """One pass's view, as far as others show it."""

    provider: str = ""
    operates: bool = False
    """Whether the provider knows further verbs than to launch and to end."""
    workers: tuple[SeenWorker, ...] = ()
    """All that exist."""
    orders: tuple[Order, ...] = ()
    """Those that may still bring workers which the listing lacks."""
    arrays: tuple[NodeArrayPolicy, ...] = ()
    """As in force, those of callers included."""
    buckets: tuple[Bucket, ...] = ()
    """Of the types that some array may use."""
    stopping: bool = False
    """A person gives everything back."""


def last_look(snapshot: Snapshot, plan: Plan, *, provider: str, operates: bool = False) -> LastLook:
    """What of a pass is shown elsewhere."""
    seen = look(snapshot.cluster, snapshot.fleet, snapshot.memory, snapshot.policy, snapshot.now)
    said = {verdict.id: verdict.reason.code.value for verdict in plan.workers}
    fleet, arrays = snapshot.fleet, snapshot.policy.node_arrays
    used = {name for array in arrays for name in allowed_types(array, fleet.buckets)}
    used |= {worker.type.name for worker in fleet.workers if worker.exists}
    return LastLook(
        provider=provider,
        operates=operates,
        workers=tuple(
            SeenWorker(
                machine.worker,
                machine.life,
                machine.host.name if machine.host else None,
                said.get(machine.worker.id, ""),
            )
            for machine in seen.machines
            if machine.life is not Life.GONE
        ),
        orders=tuple(order for order in fleet.orders if order.state is not OrderState.FAILED),
        arrays=arrays,
        buckets=tuple(bucket for bucket in fleet.buckets if bucket.type.name in used),
        stopping=snapshot.wishes.stop is not None,
    )


class LookTable:
    """The table above. A look is read from its text once, however often it is asked for."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._written = ""
        self._read: tuple[int, LastLook] = (0, LastLook())

    def keep(self, seen: LastLook, at: float) -> None:
        """Write it down unless it says what was last written."""
        text = notation.write(seen)
        if text == self._written:
            return
        self._database.execute(
            "INSERT INTO looks VALUES (1, 1, ?, ?) ON CONFLICT DO UPDATE"
            " SET number = number + 1, at = excluded.at, look = excluded.look",
            (at, text),
        )
        self._written = text

    def load(self) -> LastLook | None:
        """None: no loop has ever looked here. Raises notation.Unreadable for one that another version wrote."""
        row = self._database.row("SELECT number FROM looks")
        if row is None:
            return None
        if row["number"] != self._read[0]:
            row = self._database.row("SELECT number, look FROM looks")
            if row is not None:
                self._read = row["number"], notation.read(row["look"], LastLook)
        return self._read[1]

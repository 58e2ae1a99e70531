"""The loop's last observation of workers, buckets and limits, for those who show it elsewhere: the REST API.

One row, written only when it changes. Its age follows from the memory's own time, which each pass writes.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from autoscaler.core.model.fleet import Bucket, InstanceType, Order, PriceType, Worker
from autoscaler.core.model.memory import Backoff
from autoscaler.core.model.reasons import Code, Reason
from autoscaler.core.model.request_sets import ArrayDefinition
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.core.requests.instance_types import allowed_types
from autoscaler.core.requests.orders import outstanding
from autoscaler.core.scale_down.node_operations import closed
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.core.workers.observed import ObservedWorkers
from autoscaler.core.workers.phases import Condition, Phase
from autoscaler.store import encoding
from autoscaler.store.database import Database, Migration

log = logging.getLogger("autoscaler.store")

TABLE: Migration = (
    """
    CREATE TABLE observations (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        number INTEGER NOT NULL,
        at REAL NOT NULL,
        observation TEXT NOT NULL
    ) STRICT
    """,
)


@dataclass(frozen=True, slots=True)
class SeenWorker:
    """A machine and its state."""

    worker: Worker
    phase: Phase
    host: str | None = None
    """Its execution host's name."""
    closed: bool = False
    """Whether no job is on it and none can come: a person has disabled all of it, and it is empty."""
    decisive: Condition | None = None
    """The condition that outweighs its phase."""


@dataclass(frozen=True, slots=True)
class SeenArray:
    """A node array as in force, one of a caller included."""

    name: str
    queue: str
    max_workers: int
    max_cores: int | None = None
    max_own_workers: int | None = None
    max_own_cores: int | None = None
    total_workers: int | None = None
    """The same value in each node array: of all together."""
    total_cores: int | None = None
    extends: str | None = None
    """The array of the settings with which it shares that one's limits."""
    buckets: tuple[Bucket, ...] = ()
    """Of the instance types and price types that it may use, the preferred ones first."""
    price_types: tuple[PriceType, ...] = (PriceType.ON_DEMAND,)
    requested: bool = True
    keep_alive: tuple[str, ...] = ()
    """Request sets for which its workers stay."""
    configuration: str = "{}"
    """`Configuration` of requests, as JSON."""
    attributes: str = "{}"
    """All other attributes in requests, as JSON."""

    @property
    def types(self) -> dict[str, InstanceType]:
        """Its instance types by name, the preferred ones first."""
        return {bucket.type.name: bucket.type for bucket in self.buckets}


@dataclass(frozen=True, slots=True)
class LastObservation:
    """One pass's observation, as far as others show it."""

    provider: str = ""
    operates: bool = False
    """Whether the provider supports more than launching and ending machines."""
    workers: tuple[SeenWorker, ...] = ()
    """All that exist."""
    orders: tuple[Order, ...] = ()
    """Those that may still bring workers which are not in the listing."""
    arrays: tuple[SeenArray, ...] = ()
    stopping: bool = False
    """Whether a person gives everything back."""
    withheld: Mapping[str, Reason] = field(default_factory=lambda: MappingProxyType({}))
    """Why nothing was launched for a created node, by its id."""
    backoffs: tuple[Backoff, ...] = ()
    """Of buckets that failed too often."""
    refused: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Node array → why its provider refuses all launches for it until a person corrects that."""
    region: str = ""
    subnet: str = ""
    """The place of machines in the provider's settings; '': not set."""
    lost_jobs: Mapping[str, Reason] = field(default_factory=lambda: MappingProxyType({}))
    """Execution host whose machine is gone → the jobs that are listed there as running until a person deletes them."""
    troubles: tuple[str, ...] = ()
    """Why the loop polls Grid Engine, or polls it less often than it is set to."""


def last_observation(
    snapshot: Snapshot, observed: ObservedWorkers, plan: Plan, *, provider: str, operates: bool = False
) -> LastObservation:
    """The part of a pass that is shown elsewhere. `observed`: the states of the snapshot's machines."""
    fleet = snapshot.fleet
    arrays = seen_arrays(snapshot.policy.node_arrays, snapshot.requests.arrays, fleet.buckets)
    return LastObservation(
        provider=provider,
        operates=operates,
        workers=tuple(
            SeenWorker(
                machine.worker,
                machine.phase,
                machine.host.name if machine.host else None,
                closed(machine),
                machine.decisive,
            )
            for machine in observed.workers
            if not machine.gone
        ),
        orders=_awaited(snapshot),
        arrays=arrays,
        stopping=snapshot.overrides.stop is not None,
        withheld=plan.withheld,
        backoffs=plan.memory.backoffs,
        refused=plan.memory.stopped,
        lost_jobs={each.name: each.reason for each in plan.workers if each.reason.code is Code.LOST_JOBS_STAY},
    )


def _awaited(snapshot: Snapshot) -> tuple[Order, ...]:
    """Orders with only the workers that they may still bring: a machine that came and is gone, listed or not, reserves
    nothing.
    """
    fleet = snapshot.fleet
    listed = {worker.id for worker in fleet.workers}
    return tuple(
        replace(order, count=count, ids=tuple(worker_id for worker_id in order.ids if worker_id not in listed))
        for order, count in outstanding(fleet, snapshot.policy, snapshot.now)
    )


def seen_arrays(
    arrays: Sequence[NodeArrayPolicy], definitions: Sequence[ArrayDefinition], buckets: Sequence[Bucket]
) -> tuple[SeenArray, ...]:
    """Node arrays with what requests define besides their targets."""
    by_name = {definition.name: definition for definition in definitions}
    return tuple(_seen_array(array, by_name.get(array.name, ArrayDefinition(array.name)), buckets) for array in arrays)


def _seen_array(array: NodeArrayPolicy, definition: ArrayDefinition, buckets: Sequence[Bucket]) -> SeenArray:
    types = allowed_types(array, buckets)
    preference: Mapping[str, int] = {name: n for n, name in enumerate((*array.machine_types, array.instance_type))}

    def preferred(bucket: Bucket) -> tuple[int, int, str, int]:
        kind = bucket.type
        return (
            preference.get(kind.name, len(preference)),
            kind.vcpus,
            kind.name,
            array.price_types.index(bucket.key.price_type),
        )

    mine = (each for each in buckets if array.takes(each.key) and each.key.price_type in array.price_types)
    return SeenArray(
        name=array.name,
        queue=array.queue,
        max_workers=array.limits.max_workers,
        max_cores=array.limits.max_cores,
        max_own_workers=array.limits.max_own_workers,
        max_own_cores=array.limits.max_own_cores,
        total_workers=array.limits.total_workers,
        total_cores=array.limits.total_cores,
        extends=array.extends,
        buckets=tuple(sorted((each for each in mine if each.type.name in types), key=preferred)),
        price_types=array.price_types,
        requested=array.requested,
        keep_alive=array.keep_alive,
        configuration=definition.configuration,
        attributes=definition.attributes,
    )


class ObservationTable:
    """The table above. It parses the text of an observation only once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._written = ""
        self._read: tuple[int, LastObservation | None] = (0, None)

    def keep(self, seen: LastObservation, at: float) -> None:
        """Store it unless it equals the last one."""
        text = encoding.write(seen)
        if text == self._written:
            return
        self._database.execute(
            "INSERT INTO observations VALUES (1, 1, ?, ?) ON CONFLICT DO UPDATE"
            " SET number = number + 1, at = excluded.at, observation = excluded.observation",
            (at, text),
        )
        self._written = text

    def load(self) -> LastObservation | None:
        """None: no loop has observed here, or another version wrote an unreadable observation."""
        row = self._database.row("SELECT number FROM observations")
        if row is None:
            return None
        if row["number"] != self._read[0]:
            row = self._database.row("SELECT number, observation FROM observations")
            if row is not None:
                self._read = row["number"], _read(row["observation"])
        return self._read[1]

    def troubles(self) -> tuple[str, ...]:
        """Those of the last observation, without reading the rest of it."""
        row = self._database.row("SELECT json_extract(observation, '$.troubles') AS troubles FROM observations")
        return () if row is None or row["troubles"] is None else tuple(map(str, json.loads(row["troubles"])))


def _read(text: str) -> LastObservation | None:
    try:
        return encoding.read(text, LastObservation)
    except ValueError as error:
        log.warning("the loop's last observation cannot be read until the next one: %s", error)
        return None

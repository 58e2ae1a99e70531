"""What a terminal shows of a cluster at one moment, gathered from Grid Engine and the store. Decides nothing.

`read_screen` is called about once a second beside a running autoscaler: it only reads, and what it cannot read just now
stays as it was on the screen before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from autoscaler.core.model.cluster import QueueInstance
from autoscaler.store.history import Lifetime, PassRecord
from autoscaler.store.store import Store

SENTENCES = 200
"""So many passes are looked back at."""


@dataclass(frozen=True, slots=True)
class HostRow:
    """One execution host or worker."""

    name: str
    type: str
    state: str
    used: int | None = None
    slots: int | None = None
    price_per_hour: float | None = None
    cost: float | None = None
    since: float | None = None


@dataclass(frozen=True, slots=True)
class Screen:
    """One moment."""

    at: float
    waiting: int = 0
    running: int = 0
    done: int = 0
    hosts: tuple[HostRow, ...] = ()
    sentences: tuple[PassRecord, ...] = ()
    """Oldest first."""
    lifetimes: tuple[Lifetime, ...] = ()

    @property
    def currency(self) -> str:
        """Of their prices."""
        return next((one.currency for one in self.lifetimes if one.currency), "USD")

    @property
    def workers_there(self) -> int:
        return sum(lifetime.ended_at is None for lifetime in self.lifetimes)

    @property
    def price_per_hour(self) -> float:
        """Of the workers that exist and whose price is known."""
        return sum(one.price_per_hour or 0.0 for one in self.lifetimes if one.ended_at is None)

    @property
    def cost(self) -> float:
        """Of all workers so far, as far as their price is known."""
        return sum(one.cost(self.at) or 0.0 for one in self.lifetimes)


@dataclass(frozen=True, slots=True)
class Queueing:
    """What Grid Engine shows, however it was read."""

    waiting: int
    running: int
    instances: Sequence[QueueInstance] = field(default_factory=tuple)


def read_screen(
    store: Store, queueing: Queueing, *, before: Screen, now: float, done: int, types: Mapping[str, str]
) -> Screen:
    """One moment later than `before`. `types` names the instance types of hosts that no worker of ours is."""
    lifetimes = store.history.lifetimes()
    return replace(
        before,
        at=now,
        waiting=queueing.waiting,
        running=queueing.running,
        done=done,
        hosts=_host_rows(queueing.instances, lifetimes, types, now),
        sentences=tuple(reversed(store.history.passes(SENTENCES))),
        lifetimes=lifetimes,
    )


def _host_rows(
    instances: Sequence[QueueInstance], lifetimes: Sequence[Lifetime], types: Mapping[str, str], now: float
) -> tuple[HostRow, ...]:
    living = {one.name or one.worker_id: one for one in lifetimes if one.ended_at is None}
    by_host: dict[str, list[QueueInstance]] = {}
    for instance in instances:
        by_host.setdefault(instance.host, []).append(instance)
    rows = [_host_row(name, parts, living.pop(name, None), types, now) for name, parts in by_host.items()]
    rows += [
        HostRow(
            name=name,
            type=one.instance_type,
            state="ending" if one.removed_at else "booting",
            price_per_hour=one.price_per_hour,
            cost=one.cost(now),
            since=one.created_at,
        )
        for name, one in living.items()
    ]
    return tuple(rows)


def _host_row(
    name: str, parts: Sequence[QueueInstance], worker: Lifetime | None, types: Mapping[str, str], now: float
) -> HostRow:
    return HostRow(
        name=name,
        type=worker.instance_type if worker else types.get(name, "persistent"),
        state=_state(parts, worker),
        used=sum(part.used for part in parts),
        slots=sum(part.slots for part in parts),
        price_per_hour=worker.price_per_hour if worker else None,
        cost=worker.cost(now) if worker else None,
        since=worker.created_at if worker else None,
    )


def _state(parts: Sequence[QueueInstance], worker: Lifetime | None) -> str:
    states = "".join(part.states for part in parts)
    if worker is not None and not worker.joined_at:
        return "joining"
    if "d" in states:
        return "disabled" if worker is None else "draining"
    if "u" in states:
        return "silent"
    return "busy" if any(part.jobs for part in parts) else "idle"

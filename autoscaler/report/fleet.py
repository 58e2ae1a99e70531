"""Workers as rows: a plan's verdict on each, with what the provider and Grid Engine report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import tzinfo
from math import isfinite, isinf
from typing import Any

from autoscaler.core.model.cluster import ExecutionHost
from autoscaler.core.model.complexes import amount
from autoscaler.core.model.fleet import Worker
from autoscaler.core.readable.screening import readable
from autoscaler.core.snapshot import Snapshot
from autoscaler.core.workers.settled import SettledObservation
from autoscaler.core.workers.worker_observation import observe_workers
from autoscaler.core.workers.worker_state import WorkerState
from autoscaler.report.events import at_zone

_SETTLED = SettledObservation()
"""That of the last answer: one is made at a time, while the loop, on its own thread, uses that of its plan."""


def worker_rows(snapshot: Snapshot, workers: Iterable[Mapping[str, Any]], zone: tzinfo | None) -> list[dict[str, Any]]:
    """A document's `workers` with machine and slots added; null: not known, or there is none."""
    machines = {worker.id: worker for worker in snapshot.fleet.workers}
    hosts = {host.name.lower(): host for host in snapshot.cluster.hosts}
    states, rows = _states(snapshot), []
    for row in workers:
        host = hosts.get(row["name"].lower()) or hosts.get(row["name"].lower().partition(".")[0])
        machine = _machine(machines.get(row["id"] or ""), zone, snapshot.policy.currency)
        rows.append({**row, **machine, **_slots(host), **_load(host), **_state(states.get(row["id"] or ""), zone)})
    return rows


def phase_and_conditions(snapshot: Snapshot, worker_id: str | None, zone: tzinfo | None) -> dict[str, Any]:
    """Those of one worker; of a persistent host none."""
    return _state(_states(snapshot).get(worker_id or ""), zone)


def _states(snapshot: Snapshot) -> dict[str, WorkerState]:
    read = readable(snapshot)
    known = observe_workers(read.cluster, read.fleet, read.memory, read.policy, read.now, _SETTLED).known
    return {state.worker.id: state for state in known}


def _state(state: WorkerState | None, zone: tzinfo | None) -> dict[str, Any]:
    if state is None:
        return {"phase": None, "conditions": []}
    conditions = [
        {"name": name.value, "since": None if since is None else at_zone(since, zone)}
        for name, since in state.conditions.items()
    ]
    return {"phase": state.phase.value, "conditions": conditions}


def _load(host: ExecutionHost | None) -> dict[str, Any]:
    """The load average that its execd reported last."""
    try:
        value = float(host.load.get("load_avg", "")) if host is not None and host.heard else float("nan")
    except ValueError:
        value = float("nan")
    return {"load": round(value, 2) if isfinite(value) else None}


def _machine(worker: Worker | None, zone: tzinfo | None, currency: str) -> dict[str, Any]:
    if worker is None:
        names = ("instance_type", "node_array", "group_id", "state", "price_type", "price_per_hour", "currency")
        return dict.fromkeys((*names, "created_at"))
    return {
        "instance_type": worker.type.name,
        "node_array": worker.node_array,
        "group_id": worker.group_id,
        "state": worker.state.value,
        "price_type": worker.price_type.value,
        "price_per_hour": worker.price_per_hour,
        "currency": currency,
        "created_at": at_zone(worker.created_at, zone),
    }


def _slots(host: ExecutionHost | None) -> dict[str, Any]:
    if host is None:
        return {"slots": None, "used": None}
    slots, used = (sum(getattr(instance, name) for instance in host.instances) for name in ("slots", "used"))
    left = amount(host.consumables.get("slots", ""), "INT")
    # Several queues may have instances on one host: the host's own number limits their sum.
    return {"slots": slots if left is None or isinf(left) else min(slots, int(left) + used), "used": used}

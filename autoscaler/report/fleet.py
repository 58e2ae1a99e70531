"""Workers as rows: a plan's verdict on each, with what the provider and Grid Engine tell of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, tzinfo
from math import isinf
from typing import Any

from autoscaler.core.model.cluster import ExecutionHost
from autoscaler.core.model.complexes import amount
from autoscaler.core.model.fleet import Worker
from autoscaler.core.snapshot import Snapshot


def worker_rows(snapshot: Snapshot, workers: Iterable[Mapping[str, Any]], zone: tzinfo | None) -> list[dict[str, Any]]:
    """A document's `workers` with machine and slots besides; null: not known, or not there."""
    machines = {worker.id: worker for worker in snapshot.fleet.workers}
    hosts = {host.name.lower(): host for host in snapshot.cluster.hosts}
    return [
        {
            **row,
            **_machine(machines.get(row["id"] or ""), zone, snapshot.policy.currency),
            **_slots(hosts.get(row["name"].lower()) or hosts.get(row["name"].lower().partition(".")[0])),
        }
        for row in workers
    ]


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
        "created_at": datetime.fromtimestamp(worker.created_at, UTC).astimezone(zone).isoformat(),
    }


def _slots(host: ExecutionHost | None) -> dict[str, Any]:
    if host is None:
        return {"slots": None, "used": None}
    slots, used = (sum(getattr(instance, name) for instance in host.instances) for name in ("slots", "used"))
    left = amount(host.consumables.get("slots", ""), "INT")
    # Several queues may stand on one host: what they share of it is the host's own number.
    return {"slots": slots if left is None or isinf(left) else min(slots, int(left) + used), "used": used}

"""The cost of a job or task: its shares of the workers that it ran on, as `cost --by job` counts them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from autoscaler.core.cost.amounts import HOUR_MS, MICROS
from autoscaler.core.cost.shares import CostKind, Window, parts_of
from autoscaler.report.cost import rental_of
from autoscaler.report.wording import count
from autoscaler.store.store import Store


def job_cost(store: Store, job: int, task: int | None, now: float) -> dict[str, Any] | None:
    """`estimate` (always true), `currencies` (objects with `currency`, `cost` and `slot_h`), `workers` (how many it
    ran on), and `unknown_prices` (how many of them). None if it is not known to have run on a worker.
    """
    held = store.usages.of_job(job, task, now)
    if not held:
        return None
    sums: dict[str, list[float]] = {}
    unpriced = 0
    for life in store.history.lives_of(held):
        rental = rental_of(life)
        if rental.nanos is None:
            unpriced += 1
            continue
        since, until = held[life.worker_id]
        window = Window(round(since * 1000), round(until * 1000), round(now * 1000))
        for part in parts_of(rental, store.usages.of_worker(life.worker_id, since, until), window):
            if (
                part.kind is CostKind.USED
                and part.use is not None
                and part.use.job == job
                and task in (None, part.use.task)
            ):
                total = sums.setdefault(rental.currency, [0, 0.0])
                total[0] += part.micros
                total[1] += part.slot_ms
    return {
        "estimate": True,
        "currencies": [
            {"currency": currency, "cost": micros / MICROS, "slot_h": round(slot_ms / HOUR_MS, 6)}
            for currency, (micros, slot_ms) in sorted(sums.items())
        ],
        "workers": len(held),
        "unknown_prices": unpriced,
    }


def cost_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The same for people, of an explained job."""
    cost = document.get("cost")
    if cost is None:
        if any(end["started_at"] for end in document["ended"]):
            yield "it is not known to have run on a worker, so it has no cost here"
        return
    so_far = " so far" if document["state"] == "running" else ""
    where = f"on {count(cost['workers'], 'worker')}"
    for each in cost["currencies"]:
        amount = f"{each['cost']:.2f}" if each["cost"] >= 1 else f"{each['cost']:.4f}"
        yield f"it cost {amount} {each['currency']}{so_far}, for {each['slot_h']:.2f} slot hours {where} (an estimate)"
    if cost["unknown_prices"]:
        yield f"the price of {count(cost['unknown_prices'], 'worker')} that it ran on is not known"

"""The result of one simulated policy as a document: plain values, the same for the table, JSON, CSV and the page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from autoscaler.simulation.measures import HOUR, Measures, Shares, quantile
from autoscaler.simulation.rules import Rule
from autoscaler.simulation.run import Simulation

SLOWDOWN_BOUND = 10.0
"""Seconds: shorter jobs count as this long (bounded slowdown, Feitelson and Rudolph 1998)."""
MOST_NAMES = 20
"""Users or projects in a document, those with most jobs."""

Document = dict[str, Any]


def document_of(
    policy: str, run: Simulation, floor_per_core_hour: float | None, currency: str, rule: str = ""
) -> Document:
    """All figures of one run. `floor_per_core_hour`: the least price of a core that the policy may rent. `rule`: its
    name where `plan` did not decide.
    """
    measures = run.measures
    busy_hours = measures.busy_core_seconds / HOUR
    floor = None if floor_per_core_hour is None else busy_hours * floor_per_core_hour
    return {
        "policy": policy,
        "rule": rule or None,
        "complete": run.over and not run.stopped,
        "tasks": {"submitted": measures.submitted, "finished": measures.finished, "waiting": run.engine.waiting},
        "left_out_tasks": run.decider.left_out(run) if isinstance(run.decider, Rule) else None,
        "makespan_s": measures.last_end - (measures.first or 0.0),
        "wait_s": waits_of(measures),
        "bounded_slowdown": _slowdown(measures),
        "busy_core_hours": busy_hours,
        "rented_core_hours": _as_dict(measures.hours),
        "worker_hours": measures.worker_seconds / HOUR,
        "price": measures.price,
        "price_parts": _as_dict(measures.money),
        "price_of_busy_core_hours": floor,
        "price_ratio": measures.price / floor if floor else None,
        "currency": currency,
        "unpriced_workers": measures.unpriced,
        "price_by_type": _dearest(measures.price_by_type),
        "price_by_project": _dearest(measures.price_by_project),
        "launched": dict(measures.launched.most_common()),
        "removed": dict(measures.removed.most_common()),
        "launches": sum(measures.launched.values()),
        "removals": sum(measures.removed.values()),
        "launched_again": measures.relaunched,
        "not_to_be_had": run.cloud.shortfalls,
        "limited_s": dict(measures.limited),
        "interrupted": {
            "workers": measures.interrupted,
            "tasks_started_again": measures.restarted,
            "core_hours_lost": measures.lost_core_seconds / HOUR,
        },
        "passes": {"made": run.passes, "skipped": run.skipped},
        "cpu_s": {"passes": run.pass_cpu, "a_pass": run.pass_cpu / run.passes if run.passes else 0.0},
        "series": measures.series.means(measures.last_end),
    }


def _dearest(prices: Mapping[str, float]) -> dict[str, float]:
    """The dearest first, at most `MOST_NAMES`."""
    return dict(sorted(prices.items(), key=lambda item: (-item[1], item[0]))[:MOST_NAMES])


def _as_dict(shares: Shares) -> dict[str, float]:
    return {
        "busy": shares.busy,
        "stranded": shares.stranded,
        "idle": shares.idle,
        "boot": shares.boot,
        "all": shares.all,
    }


def waits_of(measures: Measures) -> Document:
    """Waits in seconds: of all tasks, and by size, owner and project."""
    names = list(measures.names)
    by_owner = _grouped(measures, (names[index] for index in measures.owners))
    by_project = _grouped(measures, (names[index] for index in measures.projects))
    by_size = _grouped(measures, (_size(slots) for slots in measures.slots))
    return {
        **_summary(measures.waits),
        "by_slots": {key: by_size[key] for key in sorted(by_size, key=_first_number)},
        "by_owner": _most(by_owner),
        "by_project": _most(by_project),
    }


def _summary(waits: Sequence[float]) -> Document:
    ordered = sorted(waits)
    return {
        "tasks": len(ordered),
        "mean": sum(ordered) / len(ordered) if ordered else 0.0,
        "median": quantile(ordered, 0.5),
        "p95": quantile(ordered, 0.95),
        "max": ordered[-1] if ordered else 0.0,
    }


def _grouped(measures: Measures, keys: Iterable[str]) -> dict[str, Document]:
    groups: defaultdict[str, list[float]] = defaultdict(list)
    for key, wait in zip(keys, measures.waits, strict=True):
        groups[key].append(wait)
    return {key: _summary(waits) for key, waits in groups.items()}


def _most(groups: Mapping[str, Document]) -> dict[str, Document]:
    ordered = sorted(groups.items(), key=lambda item: (-item[1]["tasks"], item[0]))
    return dict(ordered[:MOST_NAMES])


def _size(slots: int) -> str:
    """`1`, `2`, `3-4`, `5-8` … slots."""
    if slots <= 2:
        return str(slots)
    upper = 1 << (slots - 1).bit_length()
    return f"{upper // 2 + 1}-{upper}"


def _first_number(size: str) -> int:
    return int(size.partition("-")[0])


def _slowdown(measures: Measures) -> Document:
    values = sorted(
        max(1.0, (wait + seconds) / max(seconds, SLOWDOWN_BOUND))
        for wait, seconds in zip(measures.waits, measures.runs, strict=True)
    )
    mean = sum(values) / len(values) if values else 1.0
    return {"mean": mean, "median": quantile(values, 0.5), "p95": quantile(values, 0.95)}

"""The scheduler's configuration of a real cell (`qconf -ssconf`), as far as the simulated scheduler follows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from autoscaler.core.model.complexes import amount
from autoscaler.sge.qconf import read_attributes
from autoscaler.simulation.cell import CellConfiguration, Weights

FOLLOWED = (
    "schedule_interval",
    "flush_submit_sec",
    "flush_finish_sec",
    "queue_sort_method",
    "weight_priority",
    "weight_urgency",
    "weight_waiting_time",
)
TICKETS = ("weight_tickets_functional", "weight_tickets_share")
"""Tickets that users and projects share: they order jobs if any are given out and count (`weight_ticket`)."""
OTHERS = ("weight_ticket", *TICKETS, "max_reservation", "maxujobs")
"""What makes a difference where it is set, and is not simulated."""


def scheduler_values(text: str) -> dict[str, str]:
    """What of `qconf -ssconf` is simulated or told."""
    found = read_attributes(text)
    return {name: found[name].strip() for name in (*FOLLOWED, *OTHERS) if name in found}


def as_configured(cell: CellConfiguration, values: Mapping[str, str]) -> CellConfiguration:
    """The cell with this scheduler; what has no readable value stays."""

    def seconds(name: str, otherwise: float) -> float:
        found = amount(values.get(name, ""), "TIME")
        return otherwise if found is None else found

    def number(name: str, otherwise: float) -> float:
        found = amount(values.get(name, ""), "DOUBLE")
        return otherwise if found is None else found

    interval = seconds("schedule_interval", cell.schedule_interval)
    return replace(
        cell,
        schedule_interval=interval if interval > 0 else cell.schedule_interval,
        flush=number("flush_submit_sec", cell.flush),
        flush_finish=number("flush_finish_sec", cell.flush if cell.flush_finish is None else cell.flush_finish),
        fixed_order=values.get("queue_sort_method", "").lower() == "seqno" or cell.fixed_order,
        weights=Weights(
            number("weight_priority", cell.weights.priority),
            number("weight_urgency", cell.weights.urgency),
            number("weight_waiting_time", cell.weights.waiting_time),
        ),
    )


def not_simulated(values: Mapping[str, str]) -> Iterator[str]:
    """What is configured and left out, as sentences."""

    def counts(name: str) -> bool:
        return bool(amount(values.get(name, ""), "DOUBLE"))

    if counts("weight_ticket") and any(counts(name) for name in TICKETS):
        yield "The scheduler orders jobs by tickets, too (shares of users and projects): they are not simulated."
    if counts("max_reservation"):
        yield "The scheduler makes reservations: they are not simulated."
    if counts("maxujobs"):
        yield f"No user may run more than {values['maxujobs']} jobs at once (maxujobs): it is not simulated."

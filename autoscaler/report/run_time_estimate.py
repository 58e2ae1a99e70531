"""How long a job will run, as `explain` shows it: by earlier jobs like it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from autoscaler.core.estimates.run_times import Estimate, Likeness
from autoscaler.core.model.complexes import amount
from autoscaler.core.snapshot import Snapshot
from autoscaler.report.wording import count, duration


def like_job(snapshot: Snapshot, job: int) -> tuple[Likeness, float] | None:
    """What a waiting or running job is like, and how long it runs already. Listings of waiting jobs do not show names.
    None: there is no such job.
    """
    for host in snapshot.cluster.hosts:
        for instance in host.instances:
            for run in instance.jobs:
                if run.number == job:
                    running = 0.0 if run.started is None else max(0.0, snapshot.now - run.started)
                    like = Likeness(run.owner, queue=instance.queue, slots=run.slots, requested=_requested(run.hard))
                    return like, running
    for category in snapshot.cluster.job_categories:
        if job in category.jobs:
            ask = category.ask
            like = Likeness(ask.owner, project=ask.project or "", slots=ask.slots_min, requested=_requested(ask.hard))
            return like, 0.0
    return None


def _requested(hard: tuple[tuple[str, str], ...]) -> float | None:
    text = dict(hard).get("h_rt")
    return None if text is None else amount(text, "TIME")


def estimate_part(estimate: Estimate) -> dict[str, Any]:
    """`low_s`, `median_s`, `high_s`, `earlier` (how many jobs it is based on), `like` (in what), `error` (by what
    factor such estimates were off lately; null: none was made yet).
    """
    return {
        "low_s": round(estimate.low, 1),
        "median_s": round(estimate.median, 1),
        "high_s": round(estimate.high, 1),
        "earlier": estimate.earlier,
        "like": estimate.basis,
        "error": None if estimate.error is None else round(estimate.error, 2),
    }


def estimate_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The same for people, of an explained job."""
    estimate = document.get("estimate")
    if estimate is not None:
        low, high = duration(estimate["low_s"]), duration(estimate["high_s"])
        between = low if low == high else f"{low} to {high}"
        off = (
            ""
            if estimate["error"] is None
            else f"; such estimates were lately off by a factor of {estimate['error']:g}"
        )
        jobs = count(estimate["earlier"], "earlier job")
        yield f"it will run for about {between} in all, by {jobs} alike in: {estimate['like']}{off}"

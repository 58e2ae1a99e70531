"""A reason in two or three words, for the one sentence of a pass; `wording` makes the whole sentences.

Every short form also exists without its durations: two passes that differ in those only say the same.
"""

from __future__ import annotations

from autoscaler.core.model.reasons import Code, Fact, Reason
from autoscaler.report.reasons.table import REASONS
from autoscaler.report.wording import duration, filled, so_far, text

_AGE = ("idle_s", "age_s", "waited_s", "silent_s")
_LIMIT = ("limit_s", "timeout_s")


def brief(reason: Reason, *, times: bool = True) -> str:
    """A phrase that fits into brackets behind a name: `idle 11m > 10m`, `job 4411 runs`."""
    facts = dict(reason.facts)
    jobs = facts.get("jobs")
    if reason.code is Code.RUNS_JOBS and isinstance(jobs, tuple) and jobs:
        return f"job {jobs[0]} runs" if len(jobs) == 1 else f"{len(jobs)} jobs run"
    short = REASONS[reason.code].short
    if short is None:
        return text(Reason(reason.code, reason.facts))
    return filled(short, facts) + (_compared(facts) if times else "")


def _compared(facts: dict[str, Fact]) -> str:
    """` 11m > 10m`, ` 20s of 30s`, or only what is known of the two."""
    age = _first(facts, _AGE)
    limit = _first(facts, _LIMIT)
    if age is None:
        return ""
    if limit is None:
        return f" {duration(age)}"
    if age < limit:
        return f" {so_far(age, limit)}"
    return f" {duration(age)} {'>' if age > limit else '≥'} {duration(limit)}"


def _first(facts: dict[str, Fact], names: tuple[str, ...]) -> float | None:
    for name in names:
        value = facts.get(name)
        if isinstance(value, int | float):
            return float(value)
    return None

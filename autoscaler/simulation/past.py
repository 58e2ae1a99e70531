"""What happened on a cell in the last days, as the service and Grid Engine recorded it: a workload, the delays that
were seen, and the figures that a backtest of the settings is compared with.

Jobs come from Grid Engine's accounting, workers from the service's store. What neither says is listed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median, pstdev

from autoscaler.core.model.cluster import short_name
from autoscaler.sge.accounting import JobEnd, files_of
from autoscaler.simulation.accounting import AccountingOptions, assumptions_of, ends_that_ran, job_of
from autoscaler.simulation.cloud import Billing, Delays
from autoscaler.simulation.measures import HOUR, quantile
from autoscaler.simulation.results import Document
from autoscaler.simulation.run import PassDurations
from autoscaler.simulation.workload import Workload, WorkloadError
from autoscaler.store.history import Lifetime
from autoscaler.store.measures import Measures

PASSES_ENOUGH = 50
"""Passes from which their own durations are taken."""
ENOUGH = 5
"""Workers of a type from which its own boot time is taken, and passes with a kind of action from which its duration is.
"""


@dataclass(frozen=True)
class Past:
    """A window of time of one cell. Times as Unix seconds."""

    since: float
    until: float
    ends: Sequence[JobEnd]
    """Of jobs that ran on workers in it, the last start of each."""
    lives: Sequence[Lifetime]
    """Of workers that existed in it."""
    elsewhere: int = 0
    """Jobs that ran on persistent hosts: they are left out."""
    durations: PassDurations = field(default_factory=PassDurations)
    """Of the passes, as the service measured it."""
    left_out: Counter[str] = field(default_factory=Counter)
    """What of accounting is no start that ran, at any time."""

    def workload(self, options: AccountingOptions) -> Workload:
        """The jobs of the window. Those that ran already at its beginning run on for the rest of their time."""
        ordered = sorted(self.ends, key=lambda end: (max(end.submitted_at, self.since), end.job, end.task))
        jobs = []
        for number, end in enumerate(ordered, start=1):
            started = end.started_at or 0.0
            carried = started < self.since
            submitted = max(end.submitted_at, self.since)
            rest = replace(end, submitted_at=submitted, started_at=max(started, self.since))
            jobs.append(replace(job_of(number, rest, self.since, options), is_counted=not carried))
        said = assumptions_of(options, self.ends)
        if self.elsewhere:
            said.append(f"{self.elsewhere} tasks that ran on persistent hosts are left out.")
        said.append("Tasks that still wait or run are left out: they are not in accounting yet.")
        return Workload("the last days", jobs, said, self.since, len(jobs), left_out=self.left_out)

    def delays(self, given: Delays) -> Delays:
        """The boots that were seen, of each type of which there were enough; `given` is the rest."""
        times = {
            life.worker_id: _boot_before(life.joined_at - life.created_at - given.join, self.durations)
            for life in self.lives
            if life.joined_at is not None and life.created_at >= self.since
        }
        if not times:
            return given
        of_type: dict[str, list[float]] = {}
        for life in self.lives:
            if life.worker_id in times:
                of_type.setdefault(life.instance_type, []).append(max(1.0, times[life.worker_id]))
        boot = median(max(1.0, time) for time in times.values())
        by_type = {name: median(each) for name, each in of_type.items() if len(each) >= ENOUGH}
        off = [math.log(time / by_type.get(name, boot)) for name, each in of_type.items() for time in each]
        ended = [life for life in self.lives if life.created_at >= self.since and life.ended_at is not None]
        failing = sum(life.joined_at is None for life in ended) / len(ended) if ended else 0.0
        return replace(given, boot=boot, boots=by_type, spread=min(pstdev(off), 2.0), failing=failing)

    def happened(self, billing: Billing) -> Document:
        """The figures of the record, billed and named as those of a simulated policy. None: not known."""
        paid = {life.worker_id: self._paid(life, billing) for life in self.lives}
        prices = [life.price_per_hour for life in self.lives if paid[life.worker_id]]
        new = [end for end in self.ends if (end.started_at or 0.0) >= self.since]
        waits = sorted((end.started_at or 0.0) - max(end.submitted_at, self.since) for end in new)
        known = [
            (life.price_per_hour or 0.0) * paid[life.worker_id] / HOUR
            for life in self.lives
            if life.price_per_hour is not None
        ]
        return {
            "price": None if None in prices else sum(known),
            "worker_hours": sum(paid.values()) / HOUR,
            "launches": sum(life.created_at >= self.since for life in self.lives),
            "mean_wait_s": sum(waits) / len(waits) if waits else None,
            "median_wait_s": quantile(waits, 0.5) if waits else None,
        }

    def _paid(self, life: Lifetime, billing: Billing) -> float:
        """Seconds that are billed, but those before the window."""
        end = self.until if life.ended_at is None else min(life.ended_at, self.until)
        return max(0.0, life.created_at + billing.seconds(end - life.created_at) - max(life.created_at, self.since))


def _boot_before(joined: float, durations: PassDurations) -> float:
    """The boot after which a worker that reports at once joins so many seconds after its creation."""
    boot = joined
    for _ in range(3):  # the durations depend little on it
        boot = joined - durations.until_joined(boot)
    return boot


def until_ordered(lives: Iterable[Lifetime], ends: Mapping[str, float]) -> list[Lifetime]:
    """The lives until their ends were ordered, by `ends`: clouds bill no longer, and listings show it later."""
    return [
        life
        if life.ended_at is None or life.worker_id not in ends
        else replace(life, ended_at=min(life.ended_at, ends[life.worker_id]))
        for life in lives
    ]


def durations_of(
    measures: Measures, given: PassDurations, alike: Iterable[tuple[str, int, float]] = ()
) -> PassDurations:
    """How long the passes of a cell take, as the service has measured; `given` if it has made few. `alike`: of passes
    with actions of one kind, as the journal has them.
    """
    parts = {
        labels[0]: each.total for labels, each in measures.histograms.get("pass_part_duration_seconds", {}).items()
    }
    passes = sum(sum(each.counts) for each in measures.histograms.get("pass_duration_seconds", {}).values())
    commands = measures.histograms.get("grid_engine_command_duration_seconds", {})
    actions = sum(measures.values.get("actions_total", {}).values())
    whole = sum(parts.values())
    if passes < PASSES_ENOUGH or whole <= 0:
        return given
    acting = parts.get("act", 0.0)
    observing = (whole - acting) / passes
    of_kind: dict[str, list[tuple[float, int]]] = {}
    for kind, count, seconds in alike:
        of_kind.setdefault(kind, []).append((max(0.0, seconds - observing), count))
    return replace(
        given,
        observing=observing,
        of_kind={
            kind: sum(seconds for seconds, _ in each) / sum(count for _, count in each)
            for kind, each in sorted(of_kind.items())
            if len(each) >= ENOUGH
        },
        acting=acting / actions if actions else given.acting,
        asking=min(1.0, sum(each.total for each in commands.values()) / whole),
    )


def read_past(
    accounting: Path, lives: Iterable[Lifetime], since: float, until: float, durations: PassDurations | None = None
) -> Past:
    """The window of a cell. `accounting`: the path of its file; the one with an object a line beside it is read, too.
    Raises WorkloadError if nothing that ran on workers is recorded.
    """
    there = [life for life in lives if life.created_at < until and (life.ended_at is None or life.ended_at > since)]
    names = {short_name(life.name) for life in there if life.name}
    left_out: Counter[str] = Counter()
    ended = ends_of(accounting, since, until, left_out)
    last = {(end.job, end.task, end.submitted_at): end for end in ended}
    ours = [end for end in last.values() if short_name(end.host) in names]
    if not ours:
        raise WorkloadError(
            f"no job that ran on a worker ended since then, by {accounting} and the store ({len(there)} workers, "
            f"{len(last)} ended jobs); take a longer time, or name an accounting file as WORKLOAD"
        )
    return Past(since, until, ours, there, len(last) - len(ours), durations or PassDurations(), left_out)


def ends_of(accounting: Path, since: float, until: float, left_out: Counter[str]) -> list[JobEnd]:
    """The starts that were over in a window of time, of both of accounting's files. Counts in `left_out` what is no
    start that ran, whenever it was written. Raises WorkloadError.
    """
    return [end for file in files_of(accounting) for end in _ended_in(file, since, until, left_out)]


def _ended_in(file: Path, since: float, until: float, left_out: Counter[str]) -> list[JobEnd]:
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            return [end for end in ends_that_ran(lines, left_out) if since < (end.ended_at or 0.0) <= until]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise WorkloadError(f"cannot read the accounting file {file}: {error}; check its rights") from error


FIGURES = ("price", "worker_hours", "launches", "mean_wait_s", "median_wait_s")


def backtest_of(past: Past, simulated: Document, billing: Billing) -> Document:
    """What happened beside what was simulated with the same settings and this billing, and how far they are apart:
    `error` as a share of what happened.
    """
    figures: Mapping[str, float | None] = {
        "price": None if simulated["unpriced_workers"] else simulated["price"],
        "worker_hours": simulated["worker_hours"],
        "launches": simulated["launches"],
        "mean_wait_s": simulated["wait_s"]["mean"],
        "median_wait_s": simulated["wait_s"]["median"],
    }
    happened = past.happened(billing)
    return {
        "since": past.since,
        "until": past.until,
        "happened": happened,
        "simulated": dict(figures),
        "error": {name: _error(happened[name], figures[name]) for name in FIGURES},
    }


def _error(happened: float | None, simulated: float | None) -> float | None:
    if happened is None or simulated is None or not happened:
        return None
    return abs(simulated - happened) / happened

"""Jobs that fit on free hosts and do not start: Grid Engine's scheduler is asked what keeps them, a few a minute.

Not every cause can be read in advance: a slot that is kept for a job that reserves (`-R y`), a quota that is believed
to be exceeded, a load that is adjusted. Where the scheduler says that only the hosts that are there keep a job from
starting, the job no longer fits on them, and a worker may be launched for it. Any other cause is only reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from autoscaler.core.demand.eligibility import CategoryPart
from autoscaler.core.model.demand_vector import ELSEWHERE, CategoryDemand, Property
from autoscaler.core.model.evidence import KeptBy
from autoscaler.core.model.memory import UnstartedJob
from autoscaler.core.placement.hosts import HOSTNAME

INTERVALS = 4
"""For this many scheduler intervals a job must have fitted before the scheduler is asked."""
AT_LEAST = 20.0
"""And for this many seconds: jobs begin to fit before qmaster knows the load of their host."""


def patience(schedule_interval: float) -> float:
    """For how long a job must have fitted before the scheduler is asked about it."""
    return max(INTERVALS * schedule_interval, AT_LEAST)


def note_of(parts: Iterable[CategoryPart], unstarted: Mapping[int, UnstartedJob]) -> UnstartedJob | None:
    """What is known of the first of these jobs that did not start; None: nothing."""
    return next((unstarted[job] for part in parts for job in part.jobs if job in unstarted), None)


def kept_from_hosts(
    demands: Sequence[CategoryDemand],
    counted: Sequence[Sequence[CategoryPart]],
    unstarted: Mapping[int, UnstartedJob],
) -> tuple[CategoryDemand, ...]:
    """The demands without the hosts on which the scheduler does not start them. `counted`: the parts of each."""
    if not any(note.kept_by is KeptBy.HOSTS for note in unstarted.values()):
        return tuple(demands)
    notes = (note_of(parts, unstarted) for parts in counted)
    return tuple(_elsewhere(want, note) for want, note in zip(demands, notes, strict=True))


def _elsewhere(want: CategoryDemand, note: UnstartedJob | None) -> CategoryDemand:
    if note is None or note.kept_by is not KeptBy.HOSTS or not note.hosts:
        return want
    others = Property(HOSTNAME, "==", f"{ELSEWHERE}{'|'.join(note.hosts)})")
    return replace(want, demand=replace(want.demand, properties=(*want.demand.properties, others)))

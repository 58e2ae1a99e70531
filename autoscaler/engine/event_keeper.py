"""Keeps the events of each pass: compares it with what was reported before, and with Grid Engine's accounting."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autoscaler.core.events.events import events_of
from autoscaler.core.events.known import Accounted, KnownEvents
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.engine.pass_listener import Pass, PassListener
from autoscaler.sge.accounting import JobEnd, read_on_ends, written_last
from autoscaler.store.events import AccountingPosition, EventTable

log = logging.getLogger(__name__)


@dataclass(slots=True)
class EventKeeper(PassListener):
    """One for the life of a process. The table says what earlier processes reported."""

    title = "the events of jobs and workers"

    table: EventTable
    accounting: Path
    """SGE_ROOT/CELL/common/accounting. Of this and `accounting.jsonl` beside it, the newer one is read."""
    _known: KnownEvents | None = None
    _logged: str = ""
    _place: AccountingPosition | None = None

    def passed(self, done: Pass) -> None:
        self.note(done.snapshot, done.plan)

    def note(self, snapshot: Snapshot, plan: Plan) -> None:
        """Call this after a pass, outside of a transaction: the next pass repeats what could not be written. Raises
        StateNotKept.
        """
        if self._place is None:
            self._place = self.table.place()
        place, accounted = self._accounted(*self._place)
        known = self._known or self._before(snapshot, accounted)
        news = events_of(known, snapshot, plan, accounted)
        self.table.keep(news, None if place == self._place else place)
        self._known, self._place = news.known, place

    def _before(self, snapshot: Snapshot, accounted: Sequence[Accounted]) -> KnownEvents:
        """What earlier processes reported. Events that the table's bound has pushed out count as reported."""
        job_categories = snapshot.cluster.job_categories
        known = self.table.known(
            {*(job for category in job_categories for job in category.jobs), *(line.job for line in accounted)}
        )
        old = frozenset(
            job
            for category in job_categories
            for job, submitted in zip(category.jobs, category.submitted, strict=True)
            if submitted <= known.since and job not in known.submitted
        )
        return replace(
            known,
            submitted=known.submitted.plus(old),
            counted=known.counted.plus(old - known.uncounted),
            uncounted=known.uncounted.plus(old - known.counted),
        )

    def _accounted(self, before: str | None, offset: int | None) -> tuple[AccountingPosition, tuple[Accounted, ...]]:
        """The new lines of accounting, and how far they go."""
        try:
            file = written_last(self.accounting)
            if not file.exists():  # of a new cell, every line is news
                return (str(file), 0), ()
            # The lines of the other file were there before.
            upto, ends = read_on_ends(file, offset if before in (None, str(file)) else None)
        except OSError as error:
            if str(error) != self._logged:
                log.warning("the accounting file cannot be read, so events do not say how jobs ended: %s", error)
            self._logged = str(error)
            return (before, offset), ()
        self._logged = ""
        return (str(file), upto), tuple(map(_accounted, ends))


def _accounted(end: JobEnd) -> Accounted:
    return Accounted(
        end.job,
        str(end.task) if end.task else "",
        end.owner,
        end.host,
        end.queue,
        end.submitted_at,
        end.started_at,
        end.ended_at,
        bool(end.failed),
        end.how,
        end.project,
    )

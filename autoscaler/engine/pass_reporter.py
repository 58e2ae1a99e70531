"""Reports passes: a log line and a row of history for each pass that acts or has something new, and none twice."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Any

from autoscaler.core.snapshot import Plan
from autoscaler.engine.observe import Observation
from autoscaler.report.document import without_verdicts
from autoscaler.report.sentence import news, sentence
from autoscaler.report.wording import count, text
from autoscaler.store.store import Store

log = logging.getLogger("autoscaler.pass")


@dataclass(slots=True)
class PassReporter:
    """The loop's `Reporter`. `verbose` adds every verdict of a told pass (`CP_CAP_AUTOSCALE_VERBOSE`)."""

    store: Store | None = None
    verbose: bool = False
    zone: tzinfo | None = None
    """Of the times in documents; None: this machine's."""
    _told: str | None = field(default=None, init=False)

    def tell(self, observation: Observation, plan: Plan) -> bool:
        """Say the pass and keep its document; a pass that says nothing new is a debug line only, and False."""
        number = plan.memory.passes
        line, said = sentence(plan, number), news(plan)
        if not plan.actions and said == self._told:
            log.debug(line)
            return False
        self._told = said
        log.info(line)
        if self.verbose:
            for verdict in verdict_lines(plan):
                log.info(verdict)
        if self.store is not None:
            told = without_verdicts(observation.snapshot, plan, observation.timings, pass_number=number, zone=self.zone)
            self.store.history.add_pass(number, observation.snapshot.now, line, told | _counts(plan))
        return True


def _counts(plan: Plan) -> dict[str, Any]:
    """What the history keeps instead of verdicts: a month of passes over a thousand workers must fit on a master's
    disk. Why a job waited and how long a worker lived is kept elsewhere, once and not by pass.
    """
    persistent = sum(worker.id is None for worker in plan.workers)
    return {"workers": {"additional": len(plan.workers) - persistent, "persistent": persistent}}


def verdict_lines(plan: Plan) -> Iterator[str]:
    """Every verdict of a plan, a line each."""
    for shape in plan.shapes:
        jobs = f"job {shape.jobs[0]}{' …' if len(shape.jobs) > 1 else ''} ({count(shape.count, 'task')})"
        yield f"  {jobs}: {'counts' if shape.counted else 'does not count'}: {text(shape.reason)}"
    for worker in plan.workers:
        yield f"  {worker.name}: {worker.verdict}: {text(worker.reason)}"
    for bucket in plan.buckets:
        yield f"  {bucket.bucket.instance_type}: {'chosen' if bucket.chosen else 'not chosen'}: {text(bucket.reason)}"
    for note in plan.notes:
        yield f"  {text(note)}"

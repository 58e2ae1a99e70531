"""Reports passes: a log line and a row of history for each pass that acts or has something new, and none twice."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Any

from autoscaler.core.events.event import ranges
from autoscaler.core.model.reasons import Reason
from autoscaler.core.snapshot import JobCategoryVerdict, Plan
from autoscaler.engine.observe import Observation
from autoscaler.engine.pass_listener import Pass, PassListener
from autoscaler.report.decisions import considered
from autoscaler.report.document import without_verdicts
from autoscaler.report.sentence import brief, news, sentence, without_counts
from autoscaler.report.wording import text
from autoscaler.store.store import Store

COUNTS_AFTER = 60.0
"""Seconds after a report from which passes that differ from it only in counts are reported."""

log = logging.getLogger("autoscaler.pass")


@dataclass(slots=True)
class PassReporter(PassListener):
    """`verbose` adds each verdict that changed (`CP_CAP_AUTOSCALE_VERBOSE`)."""

    title = "the report of passes"
    in_dry_run = True

    store: Store | None = None
    verbose: bool = False
    zone: tzinfo | None = None
    """Zone of the times in documents; None: this machine's."""
    silent: bool = False
    """Whether it only keeps the history, and others log."""
    _last_reported: str | None = field(default=None, init=False)
    _reported_at: float = field(default=0.0, init=False)
    _verdicts: Verdicts = field(default_factory=lambda: Verdicts(), init=False)

    def passed(self, done: Pass) -> None:
        self.report(done.observation, done.plan)

    def report(self, observation: Observation, plan: Plan) -> bool:
        """Report the pass and keep its document; a pass without news is a debug line only, and False."""
        number = plan.memory.passes
        line, reported = sentence(plan, number), news(plan)
        in_json = {"pass": number}
        if self.verbose:
            changed = list(self._verdicts.changed(plan))
        else:
            changed, self._verdicts = [], Verdicts()
        unchanged = not plan.actions and self._says_the_same(reported, observation.snapshot.now)
        if not self.silent:
            log.log(logging.DEBUG if unchanged and not changed else logging.INFO, line, extra=in_json)
            for verdict in changed:
                log.info(verdict.text, extra={**in_json, **verdict.fields})
        if unchanged:
            return False
        self._last_reported, self._reported_at = reported, observation.snapshot.now
        if self.store is not None:
            document = without_verdicts(
                observation.snapshot, plan, observation.timings, pass_number=number, zone=self.zone
            )
            self.store.history.add_pass(number, observation.snapshot.now, line, document | _counts(plan))
        return True

    def _says_the_same(self, reported: str, now: float) -> bool:
        """Whether it repeats the last report. Other counts alone are news after `COUNTS_AFTER`, not in each pass."""
        last = self._last_reported
        if last is None or reported == last:
            return reported == last
        recent = 0.0 <= now - self._reported_at < COUNTS_AFTER
        return recent and without_counts(reported) == without_counts(last)


def _counts(plan: Plan) -> dict[str, Any]:
    """Counts in place of verdicts, and the offers that were considered for a launch: a month of passes over a thousand
    workers must fit on a master's disk. Why a job waited and how long a worker lived is kept elsewhere, once and not by
    pass.
    """
    persistent = sum(worker.id is None for worker in plan.workers)
    counts = {"additional": len(plan.workers) - persistent, "persistent": persistent}
    offers = considered(plan)
    return {"workers": counts} | ({"considered": offers} if offers else {})


@dataclass(frozen=True, slots=True)
class VerdictLine:
    """One changed verdict. `fields`: further fields of a line of JSON."""

    text: str
    fields: Mapping[str, Any]


@dataclass(slots=True)
class Verdicts:
    """The verdicts of the last pass, so that each is a line when it changes and not again."""

    _jobs: dict[int, JobKey] = field(default_factory=dict)
    _others: dict[str, tuple[str, str]] = field(default_factory=dict)

    def changed(self, plan: Plan) -> Iterator[VerdictLine]:
        """Verdicts that differ from the pass before, times excluded."""
        yield from self._of_jobs(plan)
        others: dict[str, tuple[str, str]] = {}
        for name, verdict, reason, host in _others(plan):
            others[name] = verdict, brief(reason, times=False)
            if others[name] != self._others.get(name):
                message = f"{name}: {verdict}: {text(reason)}" if verdict else text(reason)
                yield VerdictLine(f"  {message}", {"code": reason.code.value, **({"host": host} if host else {})})
        self._others = others

    def _of_jobs(self, plan: Plan) -> Iterator[VerdictLine]:
        """Jobs of one owner for which the same is new are one line. An array may have several verdicts."""
        keys: dict[int, JobKey] = {}
        job_categories: dict[JobKey, JobCategoryVerdict] = {}
        for category in plan.job_categories:
            key = (category.ask.owner, category.counted, brief(category.reason, times=False))
            for job in category.jobs:
                keys[job] = (*keys.get(job, ()), key)
            job_categories.setdefault((key,), category)
        changed: dict[JobKey, list[int]] = {}
        for job, verdicts in keys.items():
            if verdicts != self._jobs.get(job):
                changed.setdefault(verdicts, []).append(job)
        self._jobs = keys
        for verdicts, jobs in changed.items():
            owner, numbers = verdicts[0][0], ranges(jobs)
            message = "; ".join(
                f"{'counts' if one.counted else 'does not count'}: {text(one.reason)}"
                for each in verdicts
                if (one := job_categories.get((each,))) is not None
            )
            codes = [one.reason.code.value for each in verdicts if (one := job_categories.get((each,))) is not None]
            yield VerdictLine(
                f"  {'job' if numbers.isdigit() else 'jobs'} {numbers}{f' of {owner}' if owner else ''}: {message}",
                {"code": " ".join(codes), "job": numbers, "owner": owner},
            )


JobKey = tuple[tuple[str, bool, str], ...]
"""Owner, whether it counts, and why, of each verdict on a job."""


def _others(plan: Plan) -> Iterator[tuple[str, str, Reason, str]]:
    """The subject of a verdict, the verdict, its reason, and the host."""
    for worker in plan.workers:
        yield worker.name, worker.verdict, worker.reason, worker.name
    for bucket in plan.buckets:
        key = bucket.bucket
        name = " ".join(filter(None, (key.node_array, key.price_type.value, key.instance_type, key.zone)))
        yield name, "chosen" if bucket.chosen else "not chosen", bucket.reason, ""
    for note in plan.notes:
        yield brief(note, times=False), "", note, ""

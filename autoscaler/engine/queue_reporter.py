"""Reports each pass queue by queue, for Cloud Pipeline's logs: each queue has a log of its own there.

A queue's line is the sentence of a pass made of its own jobs, workers and offers. Under it, as details, are the counts
that people look for in that log, and each verdict that changed. A pass that has nothing new for a queue writes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from autoscaler.core.actions import Action, AskGridEngine, Launch, Renumber, WorkerAction
from autoscaler.core.limits.limits import switched_off
from autoscaler.core.model.complexes import matches
from autoscaler.core.model.fleet import ANY
from autoscaler.core.model.reasons import Code, Reason
from autoscaler.core.policy import QueuePolicy
from autoscaler.core.requests.arrays import GROUPS
from autoscaler.core.requests.instance_types import allowed_types
from autoscaler.core.snapshot import BucketVerdict, JobCategoryVerdict, Plan, Snapshot
from autoscaler.engine.observe import Observation
from autoscaler.engine.pass_listener import Pass, PassListener
from autoscaler.engine.pass_reporter import PassReporter, Verdicts
from autoscaler.report.sentence import news, sentence
from autoscaler.report.wording import count, few, text

log = logging.getLogger("autoscaler.pass")
GIB = 1 << 30
_FIT = frozenset({Code.FITS, Code.WAITS_FOR_COMING})


@dataclass(slots=True)
class QueueReporter(PassListener):
    """Where each queue has a log of its own. Its lines carry the queue's name."""

    title = "the report of passes by queue"
    in_dry_run = True

    history: PassReporter
    verbose: Mapping[str, bool]
    """By queue, whether details are for everybody who reads the log (`CP_CAP_AUTOSCALE_VERBOSE`)."""
    _queues: dict[str, _QueueNews] = field(default_factory=dict, init=False)

    def passed(self, done: Pass) -> None:
        self.report(done.observation, done.plan)

    def report(self, observation: Observation, plan: Plan) -> bool:
        reported = self.history.report(observation, plan)
        snapshot = observation.snapshot
        for queue in snapshot.policy.queues:
            own = plan_of(queue, plan, snapshot)
            about = self._queues.setdefault(queue.name, _QueueNews())
            loud = self.verbose.get(queue.name, False) or self.history.verbose
            about.tell(queue, own, snapshot, logging.INFO if loud else logging.DEBUG)
        return reported


@dataclass(slots=True)
class _QueueNews:
    """What was last said of one queue."""

    _line: str | None = None
    _counts: str = ""
    _choice: str = ""
    _verdicts: Verdicts = field(default_factory=Verdicts)

    def tell(self, queue: QueuePolicy, plan: Plan, snapshot: Snapshot, details: int) -> None:
        extra = {"queue": queue.name, "pass": plan.memory.passes}
        counts, changed = "; ".join(_counts(queue, plan, snapshot)), list(self._verdicts.changed(plan))
        if plan.actions or news(plan) != self._line:
            log.info(sentence(plan, plan.memory.passes), extra=extra)
        if (choice := "; ".join(_choice(queue, snapshot))) != self._choice:
            log.log(details, "  %s", choice, extra=extra)
        if counts != self._counts:
            log.log(details, "  %s", counts, extra=extra)
        for verdict in changed:
            log.log(details, verdict.text, extra={**extra, **verdict.fields})
        self._line, self._counts, self._choice = news(plan), counts, choice


def plan_of(queue: QueuePolicy, plan: Plan, snapshot: Snapshot) -> Plan:
    """The part of a plan that is about one queue, and what is about the whole cell."""
    arrays = {array.name for array in snapshot.policy.node_arrays if array.queue == queue.name}
    of_worker = {worker.id: worker.node_array.partition(GROUPS)[0] for worker in snapshot.fleet.workers}
    hosts = {
        host.name for host in snapshot.cluster.hosts if any(instance.queue == queue.name for instance in host.instances)
    }
    categories = tuple(category for category in plan.job_categories if _may_run_in(queue, category))
    jobs = {str(job) for category in categories for job in category.jobs}

    def concerns(action: Action) -> bool:
        if isinstance(action, Launch):
            return action.node_array.partition(GROUPS)[0] in arrays
        if isinstance(action, WorkerAction):
            return of_worker.get(action.worker_id, "") in arrays
        if isinstance(action, AskGridEngine):
            return any(str(question.job) in jobs for question in action.questions)
        if isinstance(action, Renumber):
            return action.queue == queue.name
        return any(job.partition(".")[0] in jobs for job in action.jobs)

    waiting, counted = sum(each.count for each in categories), sum(each.count for each in categories if each.counted)
    return replace(
        plan,
        actions=tuple(action for action in plan.actions if concerns(action)),
        job_categories=categories,
        workers=tuple(
            worker
            for worker in plan.workers
            if (worker.name in hosts if worker.id is None else of_worker.get(worker.id, "") in arrays)
        ),
        buckets=tuple(_offers(plan, arrays)),
        notes=tuple(note for note in plan.notes if not _of_another(note, queue.name, arrays, snapshot)),
        failures=tuple(each for each in plan.failures if each.bucket.node_array in (ANY, *arrays)),
        waiting=waiting,
        counted=counted,
        fitting=sum(each.count for each in categories if each.counted and each.reason.code in _FIT),
    )


def _offers(plan: Plan, arrays: Collection[str]) -> Iterator[BucketVerdict]:
    """Offers are the whole cell's: of those that any array may use, the ones that these launch, and those that are not
    to be had. What was said of one for arrays of another queue is left out.
    """
    launches = [action for action in plan.actions if isinstance(action, Launch) and action.node_array in arrays]
    taken = {offer.type.name for launch in launches for each in launch.candidates for offer in each.offers}
    for verdict in plan.buckets:
        if verdict.judged_for and verdict.judged_for.partition(GROUPS)[0] not in arrays:
            continue
        if (
            verdict.bucket.node_array in arrays
            or verdict.bucket.instance_type in taken
            or (
                not verdict.bucket.node_array
                and not verdict.chosen
                and verdict.reason.code is not Code.BUCKET_NOT_ALLOWED
            )
        ):
            yield verdict


def _of_another(note: Reason, queue: str, arrays: Collection[str], snapshot: Snapshot) -> bool:
    """Whether a note names a queue or a node array, and it is not of this queue."""
    facts = dict(note.facts)
    array, named = str(facts.get("node_array", "")).partition(GROUPS)[0], facts.get("queue")
    others = {each.name for each in snapshot.policy.queues} - {queue}
    return named in others or (array not in arrays and snapshot.policy.node_array(array) is not None)


def _may_run_in(queue: QueuePolicy, category: JobCategoryVerdict) -> bool:
    asked = category.ask.queues
    return any(matches(name.partition("@")[0] or "*", queue.name) for name in asked) if asked else queue.default


def _choice(queue: QueuePolicy, snapshot: Snapshot) -> Iterator[str]:
    """What its workers may be, and which hosts it has without them: what a person checks first after a start."""
    arrays = [array for array in snapshot.policy.node_arrays if array.queue == queue.name and array.extends is None]
    types = {
        name: f"{name} ({type_.vcpus} cores, {type_.memory / GIB:g} GiB{f', {type_.gpus} GPUs' if type_.gpus else ''})"
        for array in arrays
        if array.limits.max_workers
        for name, type_ in allowed_types(array, snapshot.fleet.buckets).items()
    }
    how = "".join(f", chosen by {array.strategy}" for array in arrays if array.hybrid)
    off = "; ".join(f": {text(cause)}" for array in arrays if (cause := switched_off(array.limits)) is not None)
    may = f"workers may be {few([types[name] for name in sorted(types)])}{how}"
    yield may if types else f"no worker is launched{off}"
    workers = {worker.name for worker in snapshot.fleet.workers if worker.name}
    stay = [
        f"{host.name} ({count(instance.slots, 'slot')})"
        for host in snapshot.cluster.hosts
        for instance in host.instances
        if instance.queue == queue.name and instance.slots and host.name not in workers
    ]
    yield f"hosts that stay: {few(stay)}" if stay else "no other hosts"


def _counts(queue: QueuePolicy, plan: Plan, snapshot: Snapshot) -> Iterator[str]:
    """Without times, so that a pass that only is later says nothing new."""
    arrays = [array for array in snapshot.policy.node_arrays if array.queue == queue.name]
    names = {array.name for array in arrays}
    there = [
        worker.name or f"run {worker.id}"
        for worker in snapshot.fleet.workers
        if worker.exists and worker.node_array.partition(GROUPS)[0] in names
    ]
    most = sum(array.limits.max_workers for array in arrays if array.extends is None)
    of = "" if any(array.limits.switched_off for array in arrays) else f" of at most {most}"
    yield f"{len(there)}{of} additional workers" + (f": {few(there)}" if there else "")
    instances = [each for host in snapshot.cluster.hosts for each in host.instances if each.queue == queue.name]
    running = {job.number for instance in instances for job in instance.jobs}
    yield f"{count(len(running), 'job')} {'runs' if len(running) == 1 else 'run'}"
    limit = queue.scale_up_timeout
    expired = [category for category in plan.job_categories if category.counted and category.waited > limit]
    if expired:
        tasks = sum(category.count for category in expired)
        slots = sum(category.count * category.ask.slots_min for category in expired)
        yield (
            f"{tasks} {'has' if tasks == 1 else 'have'} been able to run for more than "
            f"{queue.scale_up_timeout:g} s and {'needs' if tasks == 1 else 'need'} {slots} slots"
        )

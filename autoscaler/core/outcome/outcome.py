"""The result of a pass: its actions in order, verdicts on every job category, worker and bucket, notes, and memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from functools import cache

from autoscaler.core.actions import Action, Launch
from autoscaler.core.categories import category_key
from autoscaler.core.demand.demand import PendingDemand
from autoscaler.core.facts.facts import Facts
from autoscaler.core.limits.budgets import budget_notes
from autoscaler.core.limits.unanswered_orders import mark_uncertain, unanswered
from autoscaler.core.model.memory import Memory, UnstartedJob
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.outcome.decisions import Decisions
from autoscaler.core.outcome.due import next_due
from autoscaler.core.outcome.job_verdicts import VerdictContext, job_verdicts
from autoscaler.core.outcome.next_memory import next_memory
from autoscaler.core.outcome.own_growth import own_growth
from autoscaler.core.outcome.starving import starving
from autoscaler.core.outcome.unstarted_jobs import unstarted_jobs, unstarted_reasons
from autoscaler.core.outcome.waiting_notes import Waiting, tell_waiting
from autoscaler.core.readable.remembered import LastObjects
from autoscaler.core.recovery.recovery import Recovery, uncertain_jobs
from autoscaler.core.requests.targets import unknown_arrays, unknown_types
from autoscaler.core.scale_down.auto_stop import answers
from autoscaler.core.scale_down.quarantine import quarantine_notes
from autoscaler.core.scale_up.launches import Launches
from autoscaler.core.snapshot import Assigned, JobCategoryVerdict, Plan, Snapshot, WorkerVerdict
from autoscaler.core.unsatisfiable.deadlock import DeadlockVerdicts
from autoscaler.core.workers.failed_launches import with_recent_failures
from autoscaler.core.workers.observed import ObservedWorkers
from autoscaler.core.workers.step import WorkerStep
from autoscaler.core.workers.worker_state import same_host

MOST_NAMED = 4
"""Jobs of a category that an assignment names."""


def outcome_of(facts: Facts, decided: Decisions) -> Plan:
    """All decisions as one Plan."""
    steps, launches, demand, results = (
        decided.operations.steps,
        decided.launches,
        facts.demand,
        decided.forecast.results,
    )
    unstarted = unstarted_jobs(facts, decided.supply.there, results)
    uncertain = unanswered(facts.snapshot.fleet.orders)
    job_categories = mark_uncertain(_job_verdicts(facts, decided, unstarted), uncertain)
    waiting = tell_waiting(
        Waiting(
            facts.snapshot.cluster,
            facts.snapshot.memory,
            job_categories,
            facts.pass_context.now,
            wanted=facts.policy.job_context,
            blocked=facts.blocked,
            others=frozenset((*facts.snapshot.memory.unsatisfiable_jobs, *decided.unsatisfiable.notes)),
        )
    )
    memory = next_memory(facts, decided, waiting, unstarted)
    return Plan(
        actions=(
            *_actions(steps, launches, facts.recovery, decided.unsatisfiable),
            *waiting.actions,
            *decided.host_orders.actions,
        ),
        memory=memory,
        due=_due(facts, decided, memory),
        job_categories=job_categories,
        workers=(*[step.verdict for step in steps], *_persistent(facts.observed, facts.snapshot)),
        buckets=launches.buckets,
        notes=(
            *_notes(facts, decided),
            *uncertain,
            *quarantine_notes(facts.observed, facts.suspects),
            *uncertain_jobs(facts.observed),
        ),
        waiting=demand.waiting,
        counted=sum([want.count for want in decided.forecast.possible(demand.wanted)]),
        fitting=sum(decided.forecast.fitting),
        auto_stops=answers(steps, facts.snapshot.requests.auto_stops),
        withheld=launches.withheld,
        failures=facts.failed,
        refused_operations=decided.operations.refused,
        assigned=tuple(_assigned(launches, demand)),
        served=_served(launches.launches, demand),
    )


def _assigned(launches: Launches, demand: PendingDemand) -> Iterator[Assigned]:
    """What the workers of launches are meant for, with some of the jobs."""
    for array, worker, at, slots in launches.assigned:
        jobs = tuple(job for part in demand.counted[at] for job in part.jobs[:MOST_NAMED])[:MOST_NAMED]
        yield Assigned(array, worker, category_key(demand.wanted[at].demand), jobs, slots)


def _job_verdicts(
    facts: Facts, decided: Decisions, memory_of_unstarted: Mapping[int, UnstartedJob]
) -> tuple[JobCategoryVerdict, ...]:
    if not (facts.demand.counted or facts.demand.uncounted):
        return ()
    context = _verdict_context(facts, decided, memory_of_unstarted)
    return job_verdicts(facts.demand, decided.forecast.results, facts.policy, context)


def _verdict_context(
    facts: Facts, decided: Decisions, memory_of_unstarted: Mapping[int, UnstartedJob]
) -> VerdictContext:
    """What verdicts on waiting jobs depend on besides placement."""
    snapshot, demands, launches = facts.snapshot, facts.demand.wanted, decided.launches
    by_queue = with_recent_failures(
        launches.by_queue, snapshot.fleet.failures, facts.came_up, facts.policy, facts.pass_context.now
    )
    return VerdictContext(
        at=facts.pass_context.now,
        growth=facts.delays.added_to(by_queue),
        blocked=facts.blocked,
        unsatisfiable=decided.unsatisfiable.reasons,
        later=facts.delays.unless_others_come(decided.supply.coming),
        held_back=launches.held_back,
        unstarted=unstarted_reasons(facts, memory_of_unstarted),
        unhelped=decided.protection.unhelped_reasons(demands, facts.policy),
        own=own_growth(facts.policy, snapshot.fleet.buckets, launches.buckets, snapshot.cluster.complexes).of,
        expected_at=decided.supply.expected_at,
        starving=cache(
            lambda: starving(demands, decided.forecast.results, facts.observed, snapshot.cluster, facts.demand.names)
        ),
    )


def _due(facts: Facts, decided: Decisions, memory: Memory) -> float | None:
    """When time alone would change what was decided."""
    dues = (
        next_due(facts, memory, rate_limited=decided.launches.rate_limited),
        decided.swaps.due,
        decided.launches.due,
        decided.host_orders.due,
        facts.recovery.due,
        decided.unsatisfiable.due,
        facts.closed.due,
        decided.protection.due,
        decided.operations.due,
    )
    return min((at for at in dues if at is not None), default=None)


def _actions(
    steps: Sequence[WorkerStep], launches: Launches, recovery: Recovery, unsatisfiable: DeadlockVerdicts
) -> tuple[Action, ...]:
    actions: list[Action] = [step.action for step in steps if step.action is not None]
    actions += launches.launches
    actions += [recovery.release] if recovery.release is not None else []
    actions += unsatisfiable.actions
    return tuple(sorted(actions, key=lambda action: action.order))


def _persistent(observed: ObservedWorkers, snapshot: Snapshot) -> tuple[WorkerVerdict, ...]:
    """Verdicts on persistent hosts: they are never changed."""
    master, left = snapshot.policy.master, snapshot.memory.left_hosts
    return tuple(
        WorkerVerdict(host.name, None, "keep", _why_persistent(host.name, master, left)) for host in observed.others
    )


def _why_persistent(name: str, master: str, left: Collection[str]) -> Reason:
    if same_host(name, master):
        return because(Code.QMASTER_HOST)
    return because(Code.HOST_OF_LEFT_WORKER) if name in left else because(Code.PERSISTENT)


def _notes(facts: Facts, decided: Decisions) -> tuple[Reason, ...]:
    snapshot = facts.snapshot
    stopped = facts.pass_context.paused, facts.pass_context.stopping, decided.kills_stopped
    first = [reason for reason in stopped if reason is not None]
    first += [*facts.pass_context.slowed.values(), *decided.protection.notes()]
    first += facts.closed.missing.values()
    unknown = unknown_arrays(snapshot.requests, snapshot.policy)
    unknown += unknown_types(snapshot.requests, snapshot.policy)
    budgets = budget_notes(snapshot.policy, snapshot.spending)
    return (*dict.fromkeys((*first, *decided.launches.notes)), *unknown, *snapshot.cluster.set_aside, *budgets)


def _served(launches: Sequence[Launch], demand: PendingDemand) -> Mapping[str, tuple[tuple[int, ...], ...]]:
    """By category, the jobs that these launches are for."""
    keys = frozenset([key for launch in launches for key, _ in launch.assignment])
    # Launches serve the first demands first, so most keys need not be made.
    return _SERVED.value_of((demand,), lambda: _served_by(keys, demand), keys)


_SERVED = LastObjects[Mapping[str, tuple[tuple[int, ...], ...]]]()


def _served_by(keys: Set[str], demand: PendingDemand) -> Mapping[str, tuple[tuple[int, ...], ...]]:
    left, found = set(keys), dict[str, tuple[tuple[int, ...], ...]]()
    for want, parts in zip(demand.wanted, demand.counted, strict=True):
        if not left:
            break
        if want.launches and (key := category_key(want.demand)) in keys:
            found[key] = (*found.get(key, ()), *(part.jobs for part in parts))
            left.discard(key)
    return found

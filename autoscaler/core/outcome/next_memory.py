"""The memory for the next pass, without entries that no longer matter."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from autoscaler.core.actions import Annotate, Disable, Remove, Terminate
from autoscaler.core.facts.facts import Facts
from autoscaler.core.limits.limits import HOUR, as_event
from autoscaler.core.limits.lost_state import lost_at
from autoscaler.core.model.memory import Disabling, Event, Memory, UnstartedJob, WorkerNote
from autoscaler.core.outcome.decisions import Decisions
from autoscaler.core.outcome.waiting_notes import WaitingNotes
from autoscaler.core.owners import main_owner
from autoscaler.core.policy import Policy
from autoscaler.core.readable.remembered import same_objects
from autoscaler.core.recovery.failure_domains import noted
from autoscaler.core.scale_down.quarantine import WINDOW
from autoscaler.core.workers.step import BY_A_PERSON, WorkerStep


def next_memory(
    facts: Facts, decided: Decisions, waiting: WaitingNotes, unstarted: Mapping[int, UnstartedJob]
) -> Memory:
    """All that this pass leaves for the next."""
    snapshot, demand, steps = facts.snapshot, facts.demand, decided.operations.steps
    acting = [step for step in steps if step.action is not None]
    memory, policy, now = snapshot.memory, snapshot.policy, snapshot.now
    removed = [_removal(step, policy, now) for step in acting if _counts_as_removal(step)]
    touched = [Event(now, count, "", owner=owner) for owner, count in sorted(decided.unsatisfiable.touched.items())]

    def recent(events: tuple[Event, ...], window: float, new: Sequence[Event]) -> tuple[Event, ...]:
        left = tuple([event for event in events if now - event.at < window])
        return events if not new and len(left) == len(events) else (*left, *new)

    counted = max(HOUR, policy.circuit_breaker.window)
    return Memory(
        passes=memory.passes + 1,
        workers=_same(memory.workers, {**facts.observed.missing, **_notes(steps, facts.recovery_context.unvouched)}),
        able_since=demand.able_since,
        unable=demand.unable,
        details={**facts.recovery.details, **demand.details},
        swaps=decided.swaps.notes,
        backoffs=tuple(facts.launch_context.backoffs),
        stopped=facts.launch_context.stopped,
        failures_seen=max((failure.at for failure in snapshot.fleet.failures), default=memory.failures_seen),
        launches=recent(
            memory.launches, counted, [as_event(launch, policy, now) for launch in decided.launches.launches]
        ),
        removals=recent(memory.removals, counted, removed),
        quarantines=recent(memory.quarantines, WINDOW, _quarantined(acting, now)),
        kills=recent(memory.kills, counted, touched),
        unhelpful=recent(memory.unhelpful, counted, decided.protection.helped_no_job),
        queues_empty_since=facts.queues_empty_since,
        silent_since=facts.silent_since,
        observed_at=now,
        annotated_at=now if any(isinstance(each, Annotate) for each in decided.unsatisfiable.actions) else None,
        lost_at=lost_at(memory, snapshot.fleet, now),
        lookups=facts.recovery.asked,
        held_back=facts.recovery.held_back,
        circuit_breaker=decided.circuit_breaker,
        kills_stopped=decided.kills_stopped,
        host_orders=decided.host_orders.memory,
        owners=decided.unsatisfiable.remembered(facts.owners, now),
        came_up=facts.came_up,
        spot=facts.spot,
        reported=facts.reported,
        trials=decided.protection.trials,
        protected=decided.protection.arrays,
        closed_since=decided.operations.closed_since,
        unsatisfiable_jobs=decided.unsatisfiable.notes,
        unstarted=unstarted,
        waiting_notes=waiting.notes,
        waiting_written_at=now if waiting.actions else memory.waiting_written_at,
    )


def _same(before: Mapping[str, WorkerNote], notes: Mapping[str, WorkerNote]) -> Mapping[str, WorkerNote]:
    """The notes that there were, if these are the same objects."""
    same = bool(notes) and same_objects([*before.values()], [*notes.values()]) and [*before] == [*notes]
    return before if same else notes


def _notes(steps: Sequence[WorkerStep], unvouched: Container[str]) -> dict[str, WorkerNote]:
    return {
        step.worker.worker.id: step.note
        if step.note.silent_s is None and not step.note.unvouched_s
        else noted(step.note, vouched=step.worker.worker.id not in unvouched)
        for step in steps
    }


def _quarantined(steps: Sequence[WorkerStep], now: float) -> list[Event]:
    """Workers taken out of service in this pass because they seem broken."""
    return [
        Event(now, 1, step.worker.worker.node_array)
        for step in steps
        if isinstance(step.action, Disable) and step.note.disabling is Disabling.BROKEN
        if step.worker.in_service
    ]


def _removal(step: WorkerStep, policy: Policy, now: float) -> Event:
    owner = main_owner(step.worker.note.ordered_for, policy.owner)
    return Event(now, 1, step.worker.worker.node_array, owner=owner)


def _counts_as_removal(step: WorkerStep) -> bool:
    """A removal counts once, and only if the autoscaler chose it: removals that a person asked for do not count for the
    circuit breaker.
    """
    note = step.worker.note
    if not isinstance(step.action, Remove | Terminate) or note.retired_at is not None:
        return False
    if step.worker.gone or note.fenced_at is not None:
        return False
    codes = {step.action.reason.code, *(link.code for link in step.action.reason.trail)}
    return codes.isdisjoint(BY_A_PERSON)

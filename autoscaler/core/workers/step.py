"""The step of a single worker in a pass: at most one action, always a verdict, and the note that remembers it.

A pause or the circuit breaker turns a step into waiting, and is added to the reason's trail.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar

from autoscaler.core.actions import Action, Disable, Enable, Enrol, Remove, Terminate
from autoscaler.core.constraints.per_array import KeepAlive
from autoscaler.core.constraints.ruleset import NONE_KEPT
from autoscaler.core.model.cluster import Complex
from autoscaler.core.model.fleet import FailureKind, RefusedEnd
from autoscaler.core.model.memory import Disabling, WorkerNote
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.model.waits import doubled_wait
from autoscaler.core.owners import main_owner
from autoscaler.core.policy import OwnerKind
from autoscaler.core.snapshot import WorkerVerdict
from autoscaler.core.workers.phases import Phase, disabled
from autoscaler.core.workers.worker_state import WorkerState, named_in

FIRST_WAIT, LONGEST_WAIT = 60.0, 3600.0
"""Seconds until a refused termination is tried again, doubled each time."""
BY_A_PERSON = (Code.STOPPING, Code.DRAINED_BY_COMMAND)
"""Codes of reasons by which a person removes a worker."""


@dataclass(frozen=True, slots=True)
class PassContext:
    """The facts of this pass that each worker's step depends on, besides the worker itself."""

    now: float
    overrides: Overrides
    schedule_interval: float
    retry_after: float
    """Seconds after which an action without a visible effect is planned again."""
    complexes: Mapping[str, Complex]
    paused: Reason | None = None
    """Why nothing is launched and no worker leaves, except what a person requests: a pause or the circuit breaker."""
    keep_alive: KeepAlive = NONE_KEPT
    """Workers that rules keep."""
    stop_requests: frozenset[str] = frozenset()
    """Ids of workers that ask to stop."""
    refused_ends: Mapping[str, RefusedEnd] = field(default_factory=lambda: MappingProxyType({}))
    """By worker id."""
    group_pes: tuple[str, ...] = ()
    """Parallel environments of which each group of workers has one of its own."""
    owner: OwnerKind = OwnerKind.USER
    slowed: Mapping[str, Reason] = field(default_factory=lambda: MappingProxyType({}))
    """Owners of jobs no worker of whom is removed now, and why."""
    seq_nos: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """By id of each worker that gets a sequence number as it joins."""

    def stays(self, worker: WorkerState) -> Reason | None:
        """Why this worker does not leave now, unless a person requests it."""
        if self.paused is not None or not self.slowed:
            return self.paused
        return self.slowed.get(main_owner(worker.note.ordered_for, self.owner))

    def recent(self, at: float | None) -> bool:
        """Whether an action was planned so recently that its effect may not show yet: it is not planned again."""
        return at is not None and self.now - at < self.retry_after

    def drained_by_person(self, worker: WorkerState) -> Reason | None:
        """Why a person drains this worker; None: no person does."""
        if self.overrides.stop is None and not self.overrides.drain:
            return None
        if named_in(self.overrides.keep, worker):
            return None
        if self.overrides.stop == "now":
            return self.stopping
        return self.drain_command(worker) if self.drained_by_command(worker) else None

    def undrained(self, workers: Sequence[WorkerState]) -> Sequence[WorkerState]:
        """Those of these workers that no person drains."""
        if self.overrides.stop is None and not self.overrides.drain:
            return workers
        return [worker for worker in workers if self.drained_by_person(worker) is None]

    def drained_by_command(self, worker: WorkerState) -> bool:
        """Whether `drain` names this worker, whatever else a person stops."""
        return named_in(self.overrides.drain, worker) and not named_in(self.overrides.keep, worker)

    def drain_command(self, worker: WorkerState) -> Reason:
        """Why a worker that `drain` names leaves."""
        return because(Code.DRAINED_BY_COMMAND, by=who_asked(self.overrides, self.overrides.drain, worker))

    def end_refused(self, worker_id: str) -> Reason | None:
        """Why a worker is not terminated yet: its provider refused that, and the wait doubles each time. After a
        `resume` it is tried at once.
        """
        refused = self.refused_ends.get(worker_id)
        if refused is None or (self.overrides.resumed_at is not None and self.overrides.resumed_at >= refused.at):
            return None
        again_at = refused.at + doubled_wait(refused.times, FIRST_WAIT, LONGEST_WAIT)
        if self.now >= again_at:
            return None
        return because(Code.END_REFUSED, times=refused.times, again_at=again_at, message=refused.message)

    @property
    def winding_down(self) -> Reason | None:
        """Why every worker leaves as soon as neither a running nor a waiting job needs it; None: it does not."""
        return self.stopping if self.overrides.stop == "drain" else None

    @property
    def stopping(self) -> Reason | None:
        """Why nothing is launched any more: a person stops the autoscaler."""
        overrides = self.overrides
        return None if overrides.stop is None else because(Code.STOPPING, how=overrides.stop, by=overrides.stopped_by)

    def kept(self, worker: WorkerState) -> Reason | None:
        """Why this worker never leaves; None: it may leave."""
        if named_in(self.overrides.keep, worker):
            return because(Code.KEPT_BY_COMMAND, by=who_asked(self.overrides, self.overrides.keep, worker))
        # Rules and requests keep only workers that came up once, and only until a person removes them: a person cannot
        # take a rule back.
        if self.overrides.stop is not None or named_in(self.overrides.drain, worker) or worker.note.joined_at is None:
            return None
        if worker.array is not None and worker.array.keep_alive:
            return because(Code.KEPT_BY_REQUEST, node_array=worker.array.name, sets=worker.array.keep_alive)
        if self.keep_alive.holds(worker.worker.node_array, worker.worker.name):
            return because(Code.KEPT_BY_RULES)
        return None


def who_asked(overrides: Overrides, names: Collection[str], worker: WorkerState) -> str:
    """Who gave the override that names this worker; '': not known."""
    return next((overrides.asked_by.get(name, "") for name in sorted(names) if named_in((name,), worker)), "")


@dataclass(frozen=True, slots=True)
class WorkerStep:
    """The step of one worker in this pass."""

    worker: WorkerState
    verdict: WorkerVerdict
    note: WorkerNote
    action: Action | None = None
    rule: str = ""
    """The name of the rule of its procedure that took it."""
    row: Transition[Any] | None = None
    """The row that took it: of that rule, or of the table with which the rule goes on."""


# -- the table of transitions ------------------------------------------------------------------------------------------


class AboutAWorker(Protocol):
    """The argument of the rows of one procedure: a worker, with the facts for its next step."""

    @property
    def worker(self) -> WorkerState:
        """The worker."""


Known = TypeVar("Known", bound=AboutAWorker)


def always(_: object) -> bool:
    """The predicate of a row that always holds."""
    return True


@dataclass(frozen=True, slots=True)
class Transition(Generic[Known]):
    """A transition: the phases and the condition in which it is taken, its action, and the phase that follows."""

    when: str
    """Empty: whenever its rule applies."""
    holds: Callable[[Known], bool]
    take: Callable[[Known], WorkerStep]
    """Makes the step, with this action, or with none if the action has to wait."""
    action: type[Action] | None = None
    """None: it waits."""
    to: Phase | None = None
    """The phase that follows the action; None: the same."""
    sources: frozenset[Phase] = frozenset(Phase)
    reasons: tuple[Code, ...] = ()
    """Codes of the action's reason; empty: the reason comes from a verdict on its group, from demand, or from a
    request.
    """
    way_out: bool = False
    """It goes on with the rows of the way out of Grid Engine (`drain.WAY_OUT`)."""


@dataclass(frozen=True, slots=True)
class Rule(Generic[Known]):
    """The rows for one cause, read from the top; if none holds, the next rule is tried."""

    name: str
    why: str
    applies: Callable[[Known], bool]
    rows: tuple[Transition[Known], ...]
    sources: frozenset[Phase] = frozenset(Phase)


def first_step(rules: Sequence[Rule[Known]], known: Known) -> WorkerStep:
    """The step of the first row that holds, with its rule and row. The last row of a procedure always holds."""
    phase = known.worker.phase
    for rule in rules:
        if phase in rule.sources and rule.applies(known):
            for row in rule.rows:
                if phase in row.sources and row.holds(known):
                    step = row.take(known)
                    return WorkerStep(step.worker, step.verdict, step.note, step.action, rule.name, step.row or row)
    raise LookupError(f"no row for {known}")


def keep(worker: WorkerState, reason: Reason, note: WorkerNote | None = None) -> WorkerStep:
    return WorkerStep(worker, _verdict(worker, "keep", reason), note or worker.note)


def wait(worker: WorkerState, reason: Reason, note: WorkerNote | None = None) -> WorkerStep:
    return WorkerStep(worker, _verdict(worker, "wait", reason), note or worker.note)


def enrol(worker: WorkerState, pass_context: PassContext, action: Enrol) -> WorkerStep:
    repeated = worker.note.disabling is Disabling.ENROL
    note = replace(
        worker.note,
        disabled_at=pass_context.now,
        disabling=Disabling.ENROL,
        seen_disabled=False,
        enrolling_since=(worker.note.enrolling_since if repeated else None) or pass_context.now,
        left_disabled=(),
        host=action.host,
        left=False,
    )
    return WorkerStep(worker, _verdict(worker, "enrol", action.reason), note, action)


def complete(worker: WorkerState, pass_context: PassContext, action: Enrol) -> WorkerStep:
    """Give a host that its own image enrolled the missing values. The time of our mark does not change."""
    note = replace(worker.note, completed_at=pass_context.now)
    return WorkerStep(worker, _verdict(worker, "enrol", action.reason), note, action)


def enable(worker: WorkerState, pass_context: PassContext, reason: Reason) -> WorkerStep:
    """Enable the host, but what a person had disabled there. Our mark stays until an observation shows it enabled."""
    note = worker.note
    if pass_context.recent(note.enabled_at):
        return wait(worker, reason)
    queues = tuple(each.queue for each in worker.to_enable) if note.left_disabled else ()
    action = Enable(worker.worker.id, worker.name, reason, queues)
    return WorkerStep(worker, _verdict(worker, "enable", reason), replace(note, enabled_at=pass_context.now), action)


def disable(
    worker: WorkerState, pass_context: PassContext, disabling: Disabling, reason: Reason, *, by_person: bool = False
) -> WorkerStep:
    if (stays := pass_context.stays(worker)) is not None and not by_person:
        return wait(worker, reason.then(stays))
    if pass_context.recent(worker.note.tried_at):
        return wait(worker, reason)
    # Its enrolment disabled it, and nothing has enabled it since.
    already = worker.host is not None and disabled(worker.host) and worker.note.enabled_at is None
    left = worker.note.left_disabled
    if worker.note.disabling is None and worker.host is not None:
        left = tuple(each.queue for each in worker.host.instances if "d" in each.states)
    note = worker.note
    if disabling is note.disabling is Disabling.ENROL and note.enrolling_since is None:
        note = replace(note, enrolling_since=note.disabled_at)  # its time on the way in goes on
    note = replace(
        note,
        disabled_at=pass_context.now,
        disabling=disabling,
        left_disabled=left,
        seen_disabled=already,
        empty_since=pass_context.now if already and worker.empty else None,
        enabled_at=None,
        tried=None,
        tried_at=None,
    )
    action = Disable(worker.worker.id, worker.name, reason)
    return WorkerStep(worker, _verdict(worker, "disable", reason), note, action)


def remove(worker: WorkerState, pass_context: PassContext, reason: Reason, *, by_person: bool = False) -> WorkerStep:
    if (stays := pass_context.stays(worker)) is not None and not by_person:
        return wait(worker, reason.then(stays))
    action = Remove(worker.worker.id, worker.name, reason)
    return WorkerStep(
        worker, _verdict(worker, "remove", reason), replace(worker.note, retired_at=pass_context.now), action
    )


def terminate(
    worker: WorkerState,
    pass_context: PassContext,
    reason: Reason,
    *,
    failure: FailureKind | None = None,
    by_person: bool = False,
) -> WorkerStep:
    """Terminate the machine. Only for one that is no execution host."""
    note = worker.note
    if pass_context.recent(note.terminated_at):
        return wait(worker, because(Code.ENDING))
    if (stays := pass_context.stays(worker)) is not None and not by_person:
        return wait(worker, reason.then(stays))
    if (refused := pass_context.end_refused(worker.worker.id)) is not None:
        return wait(worker, refused.then(reason))
    note = replace(note, retired_at=note.retired_at or pass_context.now, terminated_at=pass_context.now)
    host = worker.worker.name or note.host
    action = Terminate(worker.worker.id, host, reason, failure)
    return WorkerStep(worker, _verdict(worker, "terminate", reason), note, action)


def _verdict(worker: WorkerState, verdict: str, reason: Reason) -> WorkerVerdict:
    return WorkerVerdict(worker.name, worker.worker.id, verdict, reason)

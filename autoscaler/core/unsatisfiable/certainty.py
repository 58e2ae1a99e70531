"""The verdict on a job that nothing allowed could run: why it is left alone, or that it is proven unsatisfiable (rule
6).

It depends on the result of `proof` for its request, on what is remembered of it, and on Grid Engine's answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from autoscaler.core.model.cluster import Cluster, JobRequest
from autoscaler.core.model.evidence import Answer, Finding
from autoscaler.core.model.memory import OwnerSeen, UnsatisfiableNote
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.model.waits import doubled_wait
from autoscaler.core.policy import DeadlockAnswer
from autoscaler.core.unsatisfiable.proof import Case, Prover

APART = 30.0
"""The least seconds between the two observations that have to agree."""
HOLDS = 900.0
"""Seconds for which an answer of Grid Engine holds, if nothing that it rests on has changed."""
FIRST_PAUSE, LONGEST_PAUSE = 30.0, 3600.0
"""Seconds until a question without an answer is asked again, doubled each time."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A waiting job that no launch could ever serve."""

    job: int
    ask: JobRequest
    oldest: float
    refusal: Reason


@dataclass(frozen=True, slots=True)
class DeadlockContext:
    """What verdicts depend on besides the job."""

    cluster: Cluster
    prover: Prover
    answer: DeadlockAnswer
    findings: Mapping[int, Finding]
    notes: Mapping[int, UnsatisfiableNote]
    """By job, as the last pass left them."""
    now: float
    owner: Callable[[JobRequest], str] = lambda ask: ask.owner
    owners: Mapping[int, str] = field(default_factory=dict)
    """By waiting job."""
    done: Mapping[str, int] = field(default_factory=dict)
    """By owner, how many jobs were deleted or held within the window of the circuit breaker."""
    known: Mapping[str, OwnerSeen] = field(default_factory=dict)
    """The owners that the cell has had."""
    most: int | None = None
    """How many of one owner may be; None: any number, because the circuit breaker judges all together."""
    window: float = 600.0
    held_back: Reason | None = None
    """Why nothing is done to any job and nothing is asked: a pause, the circuit breaker, or a `stop`."""
    no_more: Reason | None = None
    """Why no further job is deleted or held: jobs of too many owners were."""

    def limit_of(self, owner: str) -> Reason:
        return because(Code.UNSATISFIABLE_OWNER_LIMIT, owner=owner, most=self.most, window_s=self.window)

    @property
    def apart(self) -> float:
        return max(APART, 2 * self.cluster.schedule_interval)


class NextStep(Enum):
    """What follows from a verdict."""

    LEAVE = "leave"
    ASK = "ask"
    ACT = "act"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one job: the next step, the reason's last link, and when to observe again."""

    step: NextStep
    link: Reason
    due: float | None = None


def judge_job(job: int, case: Case, note: UnsatisfiableNote, runs: bool, context: DeadlockContext) -> Verdict:
    """The first reason to leave the job alone, or that it is proven unsatisfiable."""
    now = context.now
    if runs:
        return _unproven(because(Code.RUNNING_TASKS))
    if case.unproven is not None:
        return _unproven(case.unproven)
    if context.held_back is not None:
        return _unproven(context.held_back)
    if note.spared:
        return Verdict(NextStep.LEAVE, because(Code.RELEASED_BY_HAND))
    since = note.since if note.since is not None else now
    if now - since < context.apart:
        return _unproven(because(Code.CHECKED_AGAIN_LATER, again_at=since + context.apart), due=since + context.apart)
    finding = answer_to(job, note, context)
    if finding is not None and finding.answer is Answer.SATISFIABLE:
        return _unproven(case.beside or because(Code.GRID_ENGINE_DISAGREES, said=finding.said))
    if finding is not None and finding.answer is Answer.UNSATISFIABLE:
        return Verdict(NextStep.ACT, because(Code.UNSATISFIABLE, said=finding.said))
    if note.asked_at is not None:
        again_at = note.asked_at + doubled_wait(note.asked, FIRST_PAUSE, LONGEST_PAUSE)
        if now < again_at:
            answer = finding.said if finding is not None else None
            return _unproven(because(Code.NO_ANSWER, said=answer, again_at=again_at), due=again_at)
    return Verdict(NextStep.ASK, because(Code.UNPROVEN).then(because(Code.ASKING_GRID_ENGINE)))


def _unproven(cause: Reason, due: float | None = None) -> Verdict:
    return Verdict(NextStep.LEAVE, because(Code.UNPROVEN).then(cause), due)


def answer_to(job: int, note: UnsatisfiableNote, context: DeadlockContext) -> Finding | None:
    """Grid Engine's answer to this very question, if it came after the first observation and is not too old."""
    finding = context.findings.get(job)
    if finding is None or finding.fingerprint != note.fingerprint:
        return None
    if note.since is None or finding.at < note.since or context.now - finding.at >= HOLDS:
        return None
    return finding

"""Jobs that no allowed configuration can ever run: their owners are notified, Grid Engine is asked, and proven jobs are
deleted or held (rule 6).

The forecast finds them. `proof` says what is certain about their requests. `certainty` requires that two observations
far enough apart agree, that nothing they rest on has changed, and that Grid Engine itself says never. This module acts,
on few jobs of each owner in a pass and the oldest first. A job that is not proven is left alone, with a reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from autoscaler.core.actions import Annotate, AskGridEngine, Hold, JobAction, Kill, ProbeHost, Question, Release
from autoscaler.core.demand.eligibility import WAITING_STATES, CategoryPart
from autoscaler.core.model.cluster import JobRequest, names_of
from autoscaler.core.model.demand_vector import Demand
from autoscaler.core.model.evidence import Answer
from autoscaler.core.model.memory import OwnerSeen, UnsatisfiableNote
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.owners import in_turn
from autoscaler.core.policy import DeadlockAnswer
from autoscaler.core.unsatisfiable.certainty import Candidate, DeadlockContext, NextStep, Verdict, answer_to, judge_job
from autoscaler.core.unsatisfiable.probe_hosts import probe_hosts_for
from autoscaler.core.unsatisfiable.proof import Case, request
from autoscaler.core.unsatisfiable.unwritten import is_written

EXAMINED = 200
"""The most jobs that are examined at a time, the oldest, so that the memory stays small."""
QUESTIONS = 50
"""The most jobs in one question to Grid Engine."""
ASKED_A_PASS = 4
"""Of so many owners Grid Engine is asked about jobs in one pass at most, where there are several, and besides of one
about whose jobs it did not answer: such a question may take 15 s, others take a second or two.
"""
ANNOTATED = 50
"""The most jobs whose context is written in one pass."""
MOST_A_PASS = 5
"""The most jobs of one owner deleted or held in one pass, if a tenth of that owner's waiting jobs is not fewer."""
AGAIN = 60.0
"""Seconds after which a deletion, hold or release without a visible effect is planned again."""


@dataclass(frozen=True, slots=True)
class DeadlockVerdicts:
    """The verdicts on jobs that may be unsatisfiable, with the actions of this pass."""

    actions: tuple[AskGridEngine | JobAction, ...] = ()
    reasons: Mapping[int, Reason] = field(default_factory=dict)
    """By job, the whole reason of its verdict."""
    notes: Mapping[int, UnsatisfiableNote] = field(default_factory=dict)
    touched: Mapping[str, int] = field(default_factory=dict)
    """By owner, the jobs deleted or held now for the first time, which the circuit breaker counts."""
    asked: frozenset[str] = frozenset()
    """The owners about whose jobs Grid Engine is asked now."""
    answered: frozenset[str] = frozenset()
    """The owners about whose jobs its answer was seen now."""
    due: float | None = None
    """When time alone would change this."""

    def remembered(self, owners: Sequence[OwnerSeen], now: float) -> tuple[OwnerSeen, ...]:
        """These owners, with when they were asked about."""
        seen = (replace(each, answered=True) if each.owner in self.answered else each for each in owners)
        return tuple(replace(each, asked_at=now, answered=False) if each.owner in self.asked else each for each in seen)


def judge_jobs(
    candidates: Sequence[Candidate],
    held: Sequence[CategoryPart],
    possible: Iterable[CategoryPart],
    context: DeadlockContext,
) -> DeadlockVerdicts:
    """Judge every job that may be unsatisfiable, and decide the actions.

    `held`: parts that are held in Grid Engine, by us or others. `possible`: all other parts.
    """
    oldest_first = sorted(candidates, key=lambda one: (one.oldest, one.job))
    examined = in_turn((context.owner(one.ask), one) for one in oldest_first)
    ledger = _Ledger(context)
    for one in islice(examined, EXAMINED):
        ledger.examine(one)
    ledger.ask()
    ledger.act()
    ledger.notify_owners()
    ledger.review_held(held)
    ledger.withdraw(possible)
    ledger.keep_rest()
    return ledger.judgement()


@dataclass(frozen=True, slots=True)
class _Entry:
    one: Candidate
    case: Case
    verdict: Verdict


@dataclass(slots=True)
class _Share:
    """What may still be done to jobs of one owner."""

    owner: str
    now: int
    """In this pass."""
    most: int
    in_window: int | None
    """In the window of the circuit breaker, besides jobs to which it was done before; None: any number."""
    limit: Reason

    def full(self, *, first: bool) -> Reason | None:
        """Why nothing is done to a further job; `first`: nothing was done to it before."""
        if self.now <= 0:
            return because(Code.UNSATISFIABLE_LIMIT, most=self.most)
        return self.limit if first and self.in_window is not None and self.in_window <= 0 else None

    def acts(self, *, first: bool) -> None:
        self.now -= 1
        if self.in_window is not None:
            self.in_window -= first


class _Ledger:
    """Collects findings and actions while the jobs are gone through."""

    def __init__(self, context: DeadlockContext) -> None:
        self._context = context
        self._entries: list[_Entry] = []
        self._kept: dict[int, UnsatisfiableNote] = {}
        self._reasons: dict[int, Reason] = {}
        self._actions: list[AskGridEngine | JobAction] = []
        self._touched = Counter[str]()
        self._asked: set[str] = set()
        self._answered: set[str] = set()
        self._withdrawn: frozenset[int] = frozenset()
        self._running = frozenset(
            job.number for host in context.cluster.hosts for instance in host.instances for job in instance.jobs
        )
        self._waiting = {job for category in context.cluster.job_categories for job in category.jobs}

    def judgement(self) -> DeadlockVerdicts:
        dues = (entry.verdict.due for entry in self._entries)
        return DeadlockVerdicts(
            actions=tuple(self._actions),
            reasons=self._reasons,
            notes=self._kept,
            touched=self._touched,
            asked=frozenset(self._asked),
            answered=frozenset(self._answered),
            due=min((due for due in dues if due is not None), default=None),
        )

    # -- examined ------------------------------------------------------------------------------------------------

    def examine(self, one: Candidate) -> None:
        context = self._context
        case = context.prover.case(one.ask, one.refusal)
        runs = one.job in self._running
        note = self._updated_note(one, case, runs=runs)
        found = judge_job(one.job, case, note, runs, context)
        if note.since is not None or _matters(note):
            self._kept[one.job] = note
        self._entries.append(_Entry(one, case, found))
        # The cause that keeps it from a proof may be the one that it waits for: it is said once.
        said = all(cause in case.reason.trail for cause in found.link.trail)
        self._reasons[one.job] = case.reason.then(replace(found.link, trail=()) if said else found.link)

    def _updated_note(self, one: Candidate, case: Case, *, runs: bool) -> UnsatisfiableNote:
        """The note on a job after this observation. It begins anew if anything changed or speaks against it."""
        before = self._context.notes.get(one.job, UnsatisfiableNote())
        if before.held and before.released_at is None:
            before = replace(before, spared=True)
        if before.held:  # findings from before its release no longer count
            before = replace(before, since=None, held=False, held_at=None, released_at=None)
        if case.unproven is not None or runs:
            return replace(before, since=None, fingerprint="", asked_at=None, asked=0, deleted_at=None)
        fingerprint = self._context.prover.fingerprint(one.ask)
        if before.since is None or before.fingerprint != fingerprint:
            return replace(
                before, since=self._context.now, fingerprint=fingerprint, asked_at=None, asked=0, deleted_at=None
            )
        answer = answer_to(one.job, before, self._context)
        answered = answer is not None and answer.answer is not Answer.NONE
        if not answered:
            return before
        self._answered.add(self._owner(one))
        return replace(before, asked_at=None, asked=0)

    def ask(self) -> None:
        """Ask about jobs of a few owners, those first whose turn is longest ago, each in a question of its own, so that
        nobody waits behind the jobs of another.
        """
        wanting = [entry for entry in self._entries if entry.verdict.step is NextStep.ASK]
        asked: set[int] = set()
        if not any(mark.asked_at == self._context.now for mark in self._kept.values()):
            by_owner: dict[str, list[_Entry]] = {}
            for entry in wanting:
                by_owner.setdefault(self._owner(entry.one) if len(self._context.known) > 1 else "", []).append(entry)
            for owner in self._in_turn(by_owner):
                asked |= self._ask_about(by_owner[owner])
                self._asked.add(owner)
        self._later(wanting, asked)

    def _in_turn(self, owners: Iterable[str]) -> list[str]:
        """The owners about whose jobs Grid Engine is asked now."""
        known = self._context.known
        asked_at = {owner: seen.asked_at or 0.0 for owner, seen in known.items()}
        unanswered = {owner for owner, seen in known.items() if not seen.answered} - self._answered
        unanswered |= {self._owner(each.one) for each in self._entries if self._tries(each)}
        turns = sorted(owners, key=lambda owner: asked_at.get(owner, 0.0))
        slow = [owner for owner in turns if owner in unanswered]
        return [*[owner for owner in turns if owner not in unanswered][:ASKED_A_PASS], *slow[:1]]

    def _tries(self, entry: _Entry) -> int:
        """How often in a row Grid Engine was asked about it without an answer."""
        mark = self._kept.get(entry.one.job)
        return 0 if mark is None else mark.asked

    def _ask_about(self, wanting: Sequence[_Entry]) -> frozenset[int]:
        """Ask about as many jobs at once as can share probe hosts with the first one; returns which."""
        first, chosen = wanting[0], list[_Entry]()
        demands: tuple[Demand, ...] = ()
        for entry in wanting:
            if len(chosen) == QUESTIONS:
                break
            if bool(self._tries(first)) != bool(self._tries(entry)):  # it may be the cause that there was no answer
                continue
            if entry.case.one_host != first.case.one_host:
                continue
            if not first.case.one_host and entry.case.probe_hosts != first.case.probe_hosts:
                continue
            together = tuple(dict.fromkeys((*demands, *entry.case.demands)))
            if first.case.one_host and together != demands and self._probe_hosts(together) is None:
                continue
            chosen.append(entry)
            demands = together
        probe_hosts = (self._probe_hosts(demands) if first.case.one_host else None) or first.case.probe_hosts
        questions = [Question(entry.one.job, self._kept[entry.one.job].fingerprint) for entry in chosen]
        self._actions.append(AskGridEngine(tuple(questions), probe_hosts, because(Code.ASKING_GRID_ENGINE)))
        jobs = frozenset(entry.one.job for entry in chosen)
        for job in jobs:
            mark = self._kept[job]
            now = self._context.now
            self._kept[job] = replace(mark, asked_at=now, asked=mark.asked + 1)
        return jobs

    def _owner(self, one: Candidate) -> str:
        return self._context.owner(one.ask)

    def _later(self, wanting: Sequence[_Entry], jobs: Collection[int]) -> None:
        for entry in wanting:
            if entry.one.job not in jobs:
                link = because(Code.UNPROVEN).then(because(Code.OLDER_JOBS_FIRST))
                self._reasons[entry.one.job] = entry.case.reason.then(link)

    def _probe_hosts(self, demands: tuple[Demand, ...]) -> tuple[ProbeHost, ...] | None:
        return probe_hosts_for(demands, self._context.prover.allowed)

    def act(self) -> None:
        """Delete or hold proven jobs: of each owner the oldest first, few in a pass, and few in the window of the
        circuit breaker.
        """
        answer, now = self._context.answer, self._context.now
        shares = self._shares()
        groups: dict[Reason, list[tuple[str, JobRequest]]] = {}
        for entry in self._entries:
            if entry.verdict.step is not NextStep.ACT:
                continue
            job, reason = entry.one.job, entry.case.reason.then(entry.verdict.link)
            mark = self._kept[job]
            if answer is DeadlockAnswer.REPORT:
                self._reasons[job] = reason.then(because(Code.UNSATISFIABLE_REPORTED))
                continue
            deletes = answer is DeadlockAnswer.KILL
            self._reasons[job] = reason.then(
                because(Code.UNSATISFIABLE_DELETED if deletes else Code.UNSATISFIABLE_HELD)
            )
            if self._under_way(mark):
                continue
            share, first = shares[self._owner(entry.one)], (mark.deleted_at if deletes else mark.held_at) is None
            if (full := self._context.no_more or share.full(first=first)) is not None:
                self._reasons[job] = reason.then(full)
                continue
            share.acts(first=first)
            self._touched.update([share.owner] * first)
            mark = replace(mark, annotated=entry.case.reason)
            self._kept[job] = replace(mark, deleted_at=now) if deletes else replace(mark, held_at=now)
            groups.setdefault(reason, []).extend(self._tasks(entry.one))
        kind = Kill if answer is DeadlockAnswer.KILL else Hold
        for reason, found in groups.items():
            names, asks = tuple(name for name, _ in found), tuple(ask for _, ask in found)
            self._actions.append(kind(names, reason, asks=asks))

    def _shares(self) -> dict[str, _Share]:
        """By owner of the examined jobs: what may still be done to jobs of theirs."""
        context = self._context
        waiting = Counter(context.owners.values())
        under_way = Counter(context.owners.get(job, "") for job, mark in self._kept.items() if self._under_way(mark))
        shares: dict[str, _Share] = {}
        for owner in {self._owner(entry.one) for entry in self._entries}:
            most = max(1, min(MOST_A_PASS, waiting[owner] // 10))
            in_window = None if context.most is None else context.most - context.done.get(owner, 0)
            shares[owner] = _Share(owner, most - under_way[owner], most, in_window, context.limit_of(owner))
        return shares

    def _under_way(self, mark: UnsatisfiableNote) -> bool:
        """Whether it was deleted or held a moment ago and that does not show yet."""
        deletes = self._context.answer is DeadlockAnswer.KILL
        done_at = mark.deleted_at if deletes else mark.held_at
        return done_at is not None and not mark.held and self._context.now - done_at < AGAIN

    def _tasks(self, one: Candidate) -> Iterator[tuple[str, JobRequest]]:
        """All its waiting tasks with the same request, as arguments of commands, and the request of each."""
        requested = request(one.ask)
        for category in self._context.cluster.job_categories:
            if category.ask.state in WAITING_STATES and request(category.ask) == requested and one.job in category.jobs:
                for name in names_of(one.job, category.tasks[category.jobs.index(one.job)]):
                    yield name, category.ask

    def notify_owners(self) -> None:
        """Write into a job's context why it cannot run: once for a reason, from the second pass that finds it on,
        and in `ANNOTATED` jobs a pass at most.
        """
        groups: dict[Reason, list[str]] = {}
        room = ANNOTATED
        for entry in self._entries:
            mark = self._kept.get(entry.one.job)
            # qmaster spools each `qalter` as a change of the job, so the same text is not written twice.
            if (
                mark is None
                or mark.since is None
                or mark.since == self._context.now
                or (mark.annotated == entry.case.reason and is_written(mark, self._context.now))
            ):
                continue
            if self._context.held_back is not None or not room:
                continue
            room -= 1
            self._kept[entry.one.job] = replace(mark, annotated=entry.case.reason, write_at=None)
            groups.setdefault(entry.case.reason, []).append(str(entry.one.job))
        self._actions += [Annotate(tuple(jobs), reason) for reason, jobs in groups.items()]

    # -- others ---------------------------------------------------------------------------------------------------

    def review_held(self, held: Sequence[CategoryPart]) -> None:
        """Find the jobs that we hold among all held ones, and release those that can run after all."""
        groups: dict[Reason, list[str]] = {}
        for part in held:
            for job, tasks in zip(part.jobs, part.tasks, strict=True):
                mark = self._context.notes.get(job)
                if mark is None or mark.held_at is None or job in self._kept:
                    continue
                case = self._context.prover.case(part.ask)
                self._kept[job] = mark = replace(mark, held=True)
                self._reasons[job] = because(Code.UNSATISFIABLE_HELD).then(mark.annotated or case.reason)
                # `qalter -w v` does not judge a held job, so no answer of Grid Engine is awaited.
                reason = self._release(case, mark)
                if reason is not None:
                    self._kept[job] = replace(mark, released_at=self._context.now)
                    self._reasons[job] = because(Code.UNSATISFIABLE_HELD).then(reason)
                    groups.setdefault(reason, []).extend(names_of(job, tasks))
        self._actions += [Release(tuple(jobs), reason) for reason, jobs in groups.items()]

    def _release(self, case: Case, mark: UnsatisfiableNote) -> Reason | None:
        """Why a job that we hold is released now; None: it is not."""
        context = self._context
        if context.held_back is not None:
            return None
        if mark.released_at is not None and context.now - mark.released_at < AGAIN:
            return None
        if case.possible:
            return because(Code.SATISFIABLE_AGAIN)
        return because(Code.HOLDING_OFF) if context.answer is DeadlockAnswer.REPORT else None

    def withdraw(self, possible: Iterable[CategoryPart]) -> None:
        """Replace the text in a job's context if it no longer holds."""
        reported = {job for job, mark in self._context.notes.items() if mark.annotated is not None} - self._kept.keys()
        if not reported or self._context.held_back is not None:
            return
        now, notes = self._context.now, self._context.notes
        reported = {job for job in reported if is_written(notes[job], now) is (notes[job].write_at is None)}
        theirs = [(self._context.owner(part.ask), job) for part in possible for job in part.jobs if job in reported]
        found = list(islice(dict.fromkeys(in_turn(theirs)), ANNOTATED))
        self._withdrawn = frozenset(found)
        if found:
            self._actions.append(Annotate(tuple(map(str, found)), because(Code.SATISFIABLE_AGAIN)))

    def keep_rest(self) -> None:
        """Keep the notes that still matter on jobs that wait for something else now."""
        for job, mark in self._context.notes.items():
            if job in self._waiting and job not in self._kept and job not in self._withdrawn and _matters(mark):
                self._kept[job] = replace(mark, since=None, fingerprint="", asked_at=None, asked=0, deleted_at=None)


def _matters(mark: UnsatisfiableNote) -> bool:
    return mark.annotated is not None or mark.held_at is not None or mark.spared

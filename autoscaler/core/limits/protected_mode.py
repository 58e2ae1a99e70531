"""Protected mode: a node array launches ever more rarely for job categories that its launches did not help, whatever
the cause, and stops if they help no job at all.

If the last launch for a category helped none of its jobs, the next one waits. The first wait is one boot time, at least
a tenth of the time after which a launch counts as no help; each wait is twice the one before, up to an hour. The next
launch is then for one task. A launch that helps ends this. If three launches in a row helped no job, of three
categories and two owners at least, the array launches nothing for jobs of these owners until a person resumes. For
each other owner it launches one worker: if that helps, the cause is not shared, and the stop ends. Launches for request
sets, floors and created nodes go on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from autoscaler.core.categories import Categories, category_key, owners_of
from autoscaler.core.limits.launch_results import Ended, Watched, watch
from autoscaler.core.limits.limits import HOUR
from autoscaler.core.model.demand_vector import CategoryDemand, Demand
from autoscaler.core.model.memory import Event, LaunchTrial, ProtectedArray, UnhelpedCategory
from autoscaler.core.model.offered_host import Host
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.owners import main_owner, name_of, tasks_besides
from autoscaler.core.policy import NodeArrayPolicy, OwnerKind, Policy
from autoscaler.core.readable.remembered import LastObjects
from autoscaler.core.requests.arrays import family_of
from autoscaler.core.snapshot import Snapshot
from autoscaler.core.workers.observed import ObservedWorkers
from autoscaler.core.workers.step import PassContext

LONGEST_WAIT = HOUR
SHORTEST_WAIT = 0.1
"""The shortest first wait, as a part of the time after which a launch counts as no help. If machines boot in a second,
a failing prolog would otherwise cost eight of them in as many minutes.
"""
SEVERAL = 3
"""With this many categories that no launch helps, and this many launches that helped no job, a shared cause is more
likely than the categories themselves.
"""
OWNERS = 2
REMEMBERED = 200
"""How many categories of an array are remembered, those that failed last."""


@dataclass(frozen=True, slots=True)
class LaunchAllowance:
    """For how many tasks of a demand an array may launch now. `reason`: why not for all, or why it launches again."""

    tasks: int
    reason: Reason | None = None


_ALL_ALLOWED = LastObjects[tuple[LaunchAllowance, ...]](4)


@dataclass(frozen=True, slots=True)
class Protection:
    """What is known of launches that helped jobs and of those that did not."""

    arrays: Mapping[str, ProtectedArray] = field(default_factory=dict)
    """By node array of the settings."""
    watched: Mapping[str, Watched] = field(default_factory=dict)
    now: float = 0.0
    timeout: float = 0.0
    owner: OwnerKind = OwnerKind.USER
    waiting: frozenset[str] | None = None
    """Categories of which a task waits; None: not known here."""

    @property
    def trials(self) -> Mapping[str, LaunchTrial]:
        return {order_id: each.trial for order_id, each in self.watched.items()}

    @property
    def helped_no_job(self) -> tuple[Event, ...]:
        """The workers of each launch that turned out in this pass to have helped no job."""
        failed = (each.trial for each in self.watched.values() if each.ended is Ended.HELPED_NO_JOB)
        return tuple(
            Event(self.now, trial.workers, trial.node_array, owner=main_owner(trial.ordered_for, self.owner))
            for trial in failed
        )

    @property
    def due(self) -> float | None:
        """When time alone would change what may be launched."""
        ends = [record.until for array in self.arrays.values() for record in array.categories.values()]
        ends += [
            self.now + max(self.timeout - each.trial.joined_s, 0.0)
            for each in self.watched.values()
            if each.ended is None and not each.trial.closed and each.trial.joined_at is not None
        ]
        return min((end for end in ends if end > self.now), default=None)

    def hold_back(
        self, array: NodeArrayPolicy, demands: Sequence[CategoryDemand], counts: Sequence[int]
    ) -> tuple[LaunchAllowance, ...]:
        """For each demand, for how many of its tasks the array may launch."""
        name = family_of(array)
        known = self.arrays.get(name, ProtectedArray())
        open_ = [each for each in self._open() if each.trial.node_array == name]
        if known.stopped is not None:
            return self._of_others(known, known.stopped, demands, counts, open_)
        if not known.categories and not any(each.useless or each.idle for each in open_):
            return _ALL_ALLOWED.value_of((counts,), lambda: tuple([LaunchAllowance(count) for count in counts]))
        shared, tried = _shared(known), False
        allowances: list[LaunchAllowance] = []
        for want, count in zip(demands, counts, strict=True):
            if not count:
                allowance = LaunchAllowance(count)
            elif shared is not None and owners_of((want,), self.owner) <= {*shared.owners}:
                allowance = _after(shared, open_, name, self.now)
                if tried and allowance.tasks:  # one task is tried for all categories of these owners
                    allowance = LaunchAllowance(0, _unhelped(shared, name, self.now))
                tried = tried or allowance.tasks > 0
            else:
                allowance = self._of_category(want, count, name, open_)
            allowances.append(allowance)
        return tuple(allowances)

    def _of_others(
        self,
        known: ProtectedArray,
        stopped: Reason,
        demands: Sequence[CategoryDemand],
        counts: Sequence[int],
        open_: Sequence[Watched],
    ) -> tuple[LaunchAllowance, ...]:
        """The same while the array is stopped: one worker at a time for an owner none of whose jobs it failed."""
        failed = {owner for one in known.categories.values() for owner in one.owners}
        others = (at for at, want in enumerate(demands) if counts[at] and tasks_besides(want, failed, self.owner))
        tried = None if open_ else next(others, None)
        return tuple(LaunchAllowance(int(at == tried), stopped if count else None) for at, count in enumerate(counts))

    def _of_category(self, want: CategoryDemand, count: int, name: str, open_: Sequence[Watched]) -> LaunchAllowance:
        """The same by the record of this category alone."""
        key = category_key(want.demand)
        record = self.arrays.get(name, ProtectedArray()).categories.get(key)
        if record is None:
            return _beside(open_, want.demand, key, count, name)
        own = [each for each in open_ if key in dict(each.trial.assignment)]
        allowance = _after(record, own, name, self.now)
        if not record.at_start:
            return allowance
        # What is free or coming counts as theirs first: else they would get a worker in each pass until theirs is up.
        others = tasks_besides(want, record.owners, self.owner) - (want.count - count)
        return replace(allowance, tasks=max(allowance.tasks, min(count, others)))

    def unhelped_reasons(self, demands: Sequence[CategoryDemand], policy: Policy) -> Mapping[int, Reason]:
        """By position of a demand that no launch has helped so far: the reason that says so, even if it fits now."""
        reasons: dict[int, Reason] = {}
        if not any(array.categories for array in self.arrays.values()):
            return reasons
        for at, want in enumerate(demands):
            for queue in map(policy.queue, want.launches):
                known = self.arrays.get(queue.node_array) if queue is not None else None
                record = None if known is None else known.categories.get(category_key(want.demand))
                if record is not None and record.at_start and tasks_besides(want, record.owners, self.owner):
                    continue
                if record is not None and queue is not None:
                    reasons[at] = _unhelped(record, queue.node_array, self.now)
        return reasons

    def notes(self) -> tuple[Reason, ...]:
        """The notes for the whole pass: for every array the gravest."""
        reasons: list[Reason] = []
        for name, array in sorted(self.arrays.items()):
            if array.stopped is not None:
                reasons.append(array.stopped)
                continue
            waiting = [one for key, one in array.categories.items() if self.waiting is None or key in self.waiting]
            if waiting:
                reasons.append(_unhelped(max(waiting, key=lambda one: (one.until, one.failures)), name, self.now))
        return tuple(reasons)

    def _open(self) -> list[Watched]:
        return [each for each in self.watched.values() if each.ended is None and not each.trial.closed]


def protect(
    snapshot: Snapshot,
    observed: ObservedWorkers,
    pass_context: PassContext,
    demands: Sequence[CategoryDemand],
    usable: Mapping[str, Host],
) -> Protection:
    """The results of launches after this observation. `usable`: hosts with room for jobs, by name."""
    policy, overrides, memory = snapshot.policy, snapshot.overrides, snapshot.memory
    since = overrides.tried_again_at
    known = {name: _since(array, overrides) for name, array in memory.protected.items()}
    categories = Categories(demands, policy.owner)
    watched = watch(snapshot, observed, pass_context, categories, usable, since)
    for _, each in sorted(watched.items(), key=lambda item: (item[1].trial.ordered_at, item[0])):
        if each.ended in (Ended.HELPED, Ended.HELPED_NO_JOB):
            name = each.trial.node_array
            before = known.get(name, ProtectedArray())
            if each.ended is Ended.HELPED:
                known[name] = _helped(before, each.trial, categories, pass_context.now, policy.owner)
            else:
                first = _first_wait(policy, each.trial)
                known[name] = _helped_no_job(before, each, categories, first, pass_context.now, policy.owner)
    kept = {name: _remembered(array, categories, pass_context.now) for name, array in known.items()}
    kept = {name: _stopped(name, array, pass_context.now) for name, array in kept.items() if array != ProtectedArray()}
    failed = {key for array in kept.values() for key in array.categories}
    waiting = frozenset(key for key in failed if categories.waiting_since(key) is not None)
    return Protection(kept, watched, pass_context.now, policy.protected_after, policy.owner, waiting)


def _first_wait(policy: Policy, trial: LaunchTrial) -> float:
    """The boot time of this launch, or else the longest that a boot may take."""
    array = policy.node_array(trial.node_array)
    longest = LONGEST_WAIT if array is None else array.boot_timeout
    boot = longest if trial.boot_s is None else trial.boot_s
    return min(max(SHORTEST_WAIT * policy.protected_after, boot), LONGEST_WAIT)


def _since(array: ProtectedArray, overrides: Overrides) -> ProtectedArray:
    """Without failures from before a person's `resume` or `retry`; `retry` does not end a stop."""
    resumed, retried = overrides.resumed_at or 0.0, overrides.retried_at or 0.0
    if array.stopped_at is not None and array.stopped_at > resumed:
        return array
    left = {key: one for key, one in array.categories.items() if one.failed_at > max(resumed, retried)}
    return replace(array, categories=left, failures=array.failures if left else 0, stopped=None, stopped_at=None)


def _helped(
    known: ProtectedArray, trial: LaunchTrial, categories: Categories, now: float, kind: OwnerKind
) -> ProtectedArray:
    """Its categories no longer count as unhelped, except one whose jobs all still wait while jobs of others run, and
    one whose jobs of other owners failed at their start.
    """
    owners = {name_of(each, kind) for each in trial.ordered_for}
    stuck = {
        key
        for key, _ in trial.assignment
        if trial.started and key not in trial.started and _waits_on(key, trial, categories)
    }
    stuck |= {key for key, one in known.categories.items() if one.at_start and owners.isdisjoint(one.owners)}
    left = {key: one for key, one in known.categories.items() if key not in dict(trial.assignment) or key in stuck}
    if known.stopped_at is not None and trial.ordered_at >= known.stopped_at:  # one for others, who are served again
        known = replace(known, stopped=None, stopped_at=None)
    return replace(known, categories=left, failures=0, helped_at=now)


def _helped_no_job(
    known: ProtectedArray, watched: Watched, categories: Categories, first: float, now: float, kind: OwnerKind
) -> ProtectedArray:
    """Its categories count as unhelped, except those whose jobs of that time no longer wait: they were helped
    otherwise, unless jobs failed at their start there. Such jobs no longer wait, because they are in error.
    """
    trial = watched.trial
    keys = [key for key, _ in trial.assignment if _waits_on(key, trial, categories)]
    if not keys:
        return _failed_at_start(known, trial, first, now, kind) if trial.failed_at_start else known
    shared, found = _shared(known), dict(known.categories)
    seen = _seen(watched)
    for key in keys:
        before, owners = found.get(key), categories.owners(key)
        if shared is not None and {*owners} <= {*shared.owners}:
            before = shared if before is None or before.failures < shared.failures else before
        failures, wait = (1, first) if before is None else (before.failures + 1, 2 * max(before.wait_s, first / 2))
        found[key] = UnhelpedCategory(failures, now, min(wait, LONGEST_WAIT), owners, seen)
    return replace(known, categories=found, failures=known.failures + 1)


def _seen(watched: Watched) -> tuple[str, ...]:
    """What shows why none of the jobs has started on the workers of a launch."""
    if watched.trial.joined_at is None:
        return ("none joined",)
    free = ("the scheduler starts none of them there though it is free",)
    return watched.trial.seen or (free if watched.idle else ("it left before one started",))


def _failed_at_start(
    known: ProtectedArray, trial: LaunchTrial, first: float, now: float, kind: OwnerKind
) -> ProtectedArray:
    """The categories of the trial, for those for whom most of it was ordered: further jobs of theirs would fail too."""
    owner, found = main_owner(trial.ordered_for, kind), dict(known.categories)
    for key, _ in trial.assignment:
        before = found.get(key)
        if before is not None and owner not in before.owners:
            continue
        failures, wait = (1, first) if before is None else (before.failures + 1, 2 * max(before.wait_s, first / 2))
        seen = (*trial.seen, "a job failed at its start")[:4]
        found[key] = UnhelpedCategory(failures, now, min(wait, LONGEST_WAIT), (owner,), seen, at_start=True)
    return replace(known, categories=found)


def _waits_on(key: str, trial: LaunchTrial, categories: Categories) -> bool:
    """Whether a task of it still waits that waited when the workers joined (or were ordered, if none joined)."""
    since = categories.waiting_since(key)
    return since is not None and since <= (trial.ordered_at if trial.joined_at is None else trial.joined_at)


def _remembered(array: ProtectedArray, categories: Categories, now: float) -> ProtectedArray:
    """Without categories of which no task has waited for long, and without the oldest failures beyond REMEMBERED."""
    if not array.categories:
        return array
    left = {
        key: one
        for key, one in array.categories.items()
        if now < one.until + LONGEST_WAIT or categories.waiting_since(key) is not None
    }
    last = sorted(left, key=lambda key: (-left[key].failed_at, key))[:REMEMBERED]
    return replace(array, categories={key: left[key] for key in sorted(last)})


def _failing(array: ProtectedArray) -> list[UnhelpedCategory]:
    """Categories whose last failure is newer than the last launch that helped, and is not perhaps the jobs' own."""
    waiting = (one for one in array.categories.values() if not one.at_start)
    return [one for one in waiting if array.helped_at is None or one.failed_at > array.helped_at]


def _shared(array: ProtectedArray) -> UnhelpedCategory | None:
    """If SEVERAL categories fail, one record for all categories of their owners, because further jobs of theirs with
    other requests would fail as well: the record that waits longest, with those owners.
    """
    failing = _failing(array)
    if len(failing) < SEVERAL:
        return None
    owners = tuple(sorted({owner for one in failing for owner in one.owners}))
    return replace(max(failing, key=lambda one: (one.until, one.failures)), owners=owners)


def _stopped(name: str, array: ProtectedArray, now: float) -> ProtectedArray:
    failing = _failing(array)
    owners = {owner for one in failing for owner in one.owners}
    if array.stopped is not None or array.failures < SEVERAL or len(failing) < SEVERAL or len(owners) < OWNERS:
        return array
    seen = tuple(dict.fromkeys(what for one in failing for what in one.seen))[:4]
    stopped = because(Code.PROTECTED_MODE, node_array=name, failures=array.failures, categories=len(failing), seen=seen)
    return replace(array, stopped=stopped, stopped_at=now)


def _beside(open_: Sequence[Watched], demand: Demand, key: str, count: int, name: str) -> LaunchAllowance:
    """Until a launch has its result, nothing more is launched for tasks whose workers came and cannot take them. If
    none of these workers fits such a task, the next one would not either: nothing is launched for the demand.
    """
    awaited = 0
    for each in open_:
        tasks = dict(each.trial.assignment).get(key, 0)
        unfit = each.unfit_for(demand) if tasks else 0
        awaited += count if unfit and unfit == len(each.idle) else 0
        awaited += -(-tasks * (each.useless + unfit) // max(each.trial.workers, 1))
    left = max(count - awaited, 0)
    return LaunchAllowance(left, None if left == count else _awaited(open_, name))


def _after(record: UnhelpedCategory, open_: Sequence[Watched], name: str, now: float) -> LaunchAllowance:
    if open_:
        return LaunchAllowance(0, _awaited(open_, name).then(_unhelped(record, name, now)))
    return LaunchAllowance(0 if now < record.until else 1, _unhelped(record, name, now))


def _awaited(open_: Sequence[Watched], name: str) -> Reason:
    joined = [each for each in open_ if each.trial.joined_at is not None]
    seen = tuple(dict.fromkeys(what for each in joined for what in _seen(each)))[:4]
    return because(Code.LAUNCH_AWAITED, node_array=name, seen=seen)


def _unhelped(record: UnhelpedCategory, name: str, now: float) -> Reason:
    return because(
        Code.LAUNCHES_DID_NOT_HELP,
        node_array=name,
        failures=record.failures,
        until_at=record.until if now < record.until else None,
        seen=record.seen,
    )

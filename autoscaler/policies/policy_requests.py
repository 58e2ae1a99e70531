"""Calls the autoscale policies before every plan, off the loop's thread, and keeps their requests as request sets.

A pass waits only a moment for them; a later answer counts in the next pass. While a policy fails, answers with
something else than a list of node arrays, or does not answer, its requests are not renewed and lapse a few minutes
after its last answer, like those of any other caller. A failure is logged once.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial

from autoscaler.background import Executor, on_thread
from autoscaler.constraints.request_documents import Caller, ask
from autoscaler.core.model.request_sets import POLICY_PREFIX
from autoscaler.core.outcome.sample import Sample
from autoscaler.core.policy import Policy
from autoscaler.core.requests.arrays import arrays_present, in_force
from autoscaler.core.snapshot import Snapshot
from autoscaler.errors import SettingsError
from autoscaler.policies.interface import Arrays, AutoscalePolicy, set_before, set_of
from autoscaler.store.samples import SampleTable
from autoscaler.store.store import Store

PATIENCE = 0.5
"""Seconds that a pass waits for all policies together, without those that were late the last time."""
SLOW_PATIENCE = 0.02
"""Seconds that it waits for each of those, to notice one that is fast again."""
VALID = 300.0
"""Seconds that an answer holds without a newer one."""
RENEWED = 30.0
"""Seconds after which an unchanged answer is written again; nine tenths of its time are left then."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Recorded:
    """The `Past` of one question."""

    table: SampleTable
    now: float

    def samples(self, since: float, until: float | None = None) -> Sequence[Sample]:
        return self.table.between(since, self.now if until is None else until, now=self.now)


@dataclass(slots=True)
class _Call:
    """A call of a policy that is under way."""

    began: float
    answer: Future[str]
    """The arrays as JSON."""
    late: bool = False
    """Whether a pass went on without it."""
    overdue: bool = False
    """Whether it exceeded the deadline, so that its answer is ignored."""


@dataclass(frozen=True, slots=True)
class _Written:
    """The content of a policy's set as written last."""

    arrays: str
    at: float


@dataclass(slots=True)
class Policies:
    """One for a process; called before every plan, when everything else is observed."""

    chosen: Mapping[str, AutoscalePolicy]
    store: Store
    deadline: float = 10.0
    """Seconds after which an answer is ignored."""
    valid: float = VALID
    on_late: Callable[[], None] = lambda: None
    """Called from another thread when a late answer differs from the last one."""
    stopwatch: Callable[[], float] = time.monotonic
    executor: Executor = on_thread
    patience: float = PATIENCE
    cluster: str = ""
    """The cluster's name: a request that names another cluster is refused."""
    _calls: dict[str, _Call] = field(default_factory=dict)
    _written: dict[str, _Written] = field(default_factory=dict)
    _failing: dict[str, str] = field(default_factory=dict)
    """Why each failing policy fails, by name."""
    _slow: set[str] = field(default_factory=set)
    """Policies whose last answer was late."""
    _begun: bool = False

    def ask(self, snapshot: Snapshot, base: Policy) -> Snapshot:
        """The snapshot with the policies' requests. `base`: the policy in force without any requests.

        Raises StateNotKept.
        """
        changed = self._forget_unchosen(snapshot)
        for name, policy in self.chosen.items():
            if name not in self._calls:
                self._call(name, policy, snapshot)
        until = self.stopwatch() + self.patience
        for name in self.chosen:
            changed |= self._collect(name, snapshot, base, until)
        if not changed:
            return snapshot
        requests = self.store.requests.load(snapshot.now)
        fleet = snapshot.fleet
        allowed = in_force(base, requests, arrays_present(fleet, snapshot.memory), fleet.buckets)
        return replace(snapshot, requests=requests, policy=allowed)

    def _forget_unchosen(self, snapshot: Snapshot) -> bool:
        """At the first call, end the sets of policies that an earlier process had and that are no longer chosen."""
        if self._begun:
            return False
        self._begun = True
        own = {set_of(name) for name in self.chosen}
        sets = [one.name for one in snapshot.requests.sets if one.name.startswith(POLICY_PREFIX)]
        ended = [self.store.requests.end(name) for name in sets if name not in own]
        return any(ended)

    def _call(self, name: str, policy: AutoscalePolicy, snapshot: Snapshot) -> None:
        past = Recorded(self.store.samples, snapshot.now)
        answer = self.executor(partial(_answer, policy, snapshot, past), f"policy-{name}")
        self._calls[name] = _Call(self.stopwatch(), answer)

    def _collect(self, name: str, snapshot: Snapshot, base: Policy, until: float) -> bool:
        """Take an answer that is there or comes in a moment; return whether the set changed."""
        question = self._calls[name]
        left = max(0.0, until - self.stopwatch())
        patience = min(left, SLOW_PATIENCE) if name in self._slow else left
        try:
            error = question.answer.exception(patience)
        except TimeoutError:
            self._slow.add(name)
            return self._go_on_without(name, question)
        del self._calls[name]
        if not question.late:
            self._slow.discard(name)
        if error is not None:
            return self._fail(name, f"{type(error).__name__}: {error}")
        if question.overdue:
            return False  # it is called again
        try:
            changed = self._keep(name, question.answer.result(), snapshot, base)
        except SettingsError as error:
            return self._fail(name, f"its request is not valid: {error}")
        if self._failing.pop(name, None) is not None:
            log.info("the autoscale policy %s answers again", name)
        return changed

    def _go_on_without(self, name: str, question: _Call) -> bool:
        """Keep its former requests until the deadline."""
        if self.stopwatch() - question.began > self.deadline:
            question.overdue = True
            return self._fail(name, f"it did not answer within {self.deadline:g} s")
        if not question.late:
            question.late = True
            before = self._written.get(name, _Written("[]", 0.0)).arrays
            question.answer.add_done_callback(partial(self._report_if_new, before))
        return False

    def _report_if_new(self, before: str, answer: Future[str]) -> None:
        if answer.exception() is None and answer.result() != before:
            self.on_late()

    def _keep(self, name: str, arrays: str, snapshot: Snapshot, base: Policy) -> bool:
        """Write a policy's requests if they changed or lapse soon."""
        wanted, written = json.loads(arrays), self._written.get(name)
        stands = set_before(name, snapshot) is not None
        known = written is not None and written.arrays == arrays and snapshot.now - written.at < RENEWED
        if stands == bool(wanted) and (known or not wanted):
            return False
        if wanted:
            own = [array.name for array in base.node_arrays]
            ask(
                self.store,
                wanted,
                Caller("policy", snapshot.now, own, self.cluster, of_policy=True),
                request_set=set_of(name),
                expiration_interval=self.valid,
            )
        else:
            self.store.requests.end(set_of(name))
        self._written[name] = _Written(arrays, snapshot.now)
        return True

    def _fail(self, name: str, why: str) -> bool:
        """Log a failure. Its requests are not renewed; the next pass calls it again, unless its thread still hangs."""
        kind = why.partition(":")[0]
        if self._failing.get(name) != kind:
            log.warning("the autoscale policy %s fails; its last request lapses soon: %s", name, " ".join(why.split()))
        self._failing[name] = kind
        return False


def _answer(policy: AutoscalePolicy, snapshot: Snapshot, past: Recorded) -> str:
    """Call the policy, on its thread. The answer is JSON, so that it shares no objects with the loop."""
    arrays: Arrays = policy.requests(snapshot, past)
    return json.dumps([dict(array) for array in arrays], allow_nan=False)

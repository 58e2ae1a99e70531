"""All workers in one observation: machines matched with hosts, and the updated memory of each.

Then `phases` gives the phase and the conditions of each. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter

from autoscaler.core.hosts.host_owners import Claims, Hosts
from autoscaler.core.hosts.load_reports import counted_silence
from autoscaler.core.hosts.missing_values import Values, cut_short, half_enrolled, has_slots, missing_values
from autoscaler.core.model.changed import changed
from autoscaler.core.model.cluster import Cluster, ExecutionHost
from autoscaler.core.model.fleet import Fleet, InstanceType, Interruption, MachineState, OrderedFor, Worker
from autoscaler.core.model.memory import Disabling, Memory, WorkerNote
from autoscaler.core.policy import NodeArrayPolicy, Policy
from autoscaler.core.workers.failed_launches import failed_to_join
from autoscaler.core.workers.marks import FOR_GOOD
from autoscaler.core.workers.observed import ObservedWorkers
from autoscaler.core.workers.phases import (
    Condition,
    WorkerFacts,
    conditions_of,
    disabled,
    in_alarm,
    phase_of,
    takes,
)
from autoscaler.core.workers.settled import SettledObservation, SettledWorkers, sources_of
from autoscaler.core.workers.worker_state import WorkerState

_SETTLED = SettledObservation()
_OLDEST_FIRST = attrgetter("worker.created_at", "worker.id")


def observe_workers(
    cluster: Cluster,
    fleet: Fleet,
    memory: Memory,
    policy: Policy,
    now: float,
    settled: SettledObservation | None = None,
) -> ObservedWorkers:
    """Match machines with hosts and derive every state. `settled`: the last observation of this caller; a plan's own if
    not given.
    """
    settled, sources = _SETTLED if settled is None else settled, sources_of(cluster, fleet, memory, policy)
    observed = settled.of(sources)
    if observed is None:
        observed = _observed(cluster, fleet, memory, policy, now, settled.states)
        settled.keep(sources, observed)
    return observed


def _observed(
    cluster: Cluster, fleet: Fleet, memory: Memory, policy: Policy, now: float, settled: SettledWorkers
) -> ObservedWorkers:
    hosts = Hosts(cluster)
    claims = Claims(hosts, fleet.workers, memory.workers, now - policy.order_grace)
    observation = _Observation(hosts, claims, fleet, memory, policy, now, cluster, settled)
    listed = {machine.id for machine in fleet.workers}
    unlisted = {worker_id: note for worker_id, note in memory.workers.items() if worker_id not in listed}
    owners = claims.owners(unlisted)
    settled.begin(observation.shared)
    machines = [
        observation.machine(machine, host, owners) for machine, host in zip(fleet.workers, claims.named, strict=True)
    ]
    settled.only(frozenset(listed))
    gone_missing: dict[str, WorkerNote] = {}
    absent: list[WorkerState] = []
    for worker_id, note in unlisted.items():
        seen = note if note.missing_since is not None else replace(note, missing_since=now)
        host = observation.hosts.named(note.host)
        if host is not None and not note.left and owners.get(host.name) == worker_id:
            worker = observation.unlisted(worker_id, seen, host)
            absent.append(worker)
            gone_missing[worker_id] = worker.note
        elif now - (seen.missing_since or now) < policy.order_grace:
            gone_missing[worker_id] = seen
    named = {worker.host.name for worker in (*machines, *absent) if worker.host is not None}
    return ObservedWorkers(
        workers=tuple(sorted(machines, key=_OLDEST_FIRST)),
        others=tuple(host for host in cluster.hosts if host.name not in named),
        missing=gone_missing,
        missing_hosts={m.worker.id: m.host for m in absent if m.host is not None and not m.gone},
        unlisted=tuple(absent),
    )


def creation_time(worker: Worker, before: WorkerNote | None, earliest: float | None, now: float) -> float:
    """When its machine was made, by our own clock: when its cloud says, but not after the observation that first showed
    it, and not before `earliest`. `before`: its note, if an earlier observation showed it.
    """
    if before is not None:
        return min(worker.created_at, before.first_seen) if before.made_at is None else before.made_at
    return min(worker.created_at if earliest is None else max(worker.created_at, earliest), now)


@dataclass(frozen=True)
class _Observation:
    """The values that the observation of each machine needs."""

    hosts: Hosts
    claims: Claims
    fleet: Fleet
    memory: Memory
    policy: Policy
    now: float
    cluster: Cluster
    settled: SettledWorkers

    @cached_property
    def any_reporting(self) -> bool:
        return any(host.heard for host in self.cluster.hosts)

    def facts(
        self,
        worker: Worker,
        host: ExecutionHost | None,
        note: WorkerNote,
        before: WorkerNote | None,
        *,
        missing_values: Values = (),
        name_held: Condition | None = None,
    ) -> WorkerFacts:
        """The facts that give the phase and conditions of a listed worker."""
        return WorkerFacts(
            worker,
            host,
            note,
            self.policy.node_array(worker.node_array),
            self.now,
            before=before,
            notice=self.notice(worker),
            enrols_itself=self.fleet.enrols_itself,
            missing_values=missing_values,
            name_held=name_held,
            any_reporting=self.any_reporting,
            silence_timeout=self.policy.silence_timeout,
            schedule_interval=self.cluster.schedule_interval,
        )

    @cached_property
    def ordered_for(self) -> Mapping[str, tuple[OrderedFor, ...]]:
        """By id of each order that is known."""
        return {order.id: order.ordered_for for order in self.fleet.orders if order.ordered_for}

    @cached_property
    def _planned_at(self) -> Mapping[str, float]:
        """By id of each order that is known: when it was planned, by our own clock."""
        return {each.id: each.ordered_at if each.planned_at is None else each.planned_at for each in self.fleet.orders}

    def earliest_creation(self, worker: Worker) -> float | None:
        """Before this time a machine that was not seen before was not made: its order was planned then, or an
        observation did not show it, although listings may lag; None: nothing is known.
        """
        if worker.taken_over:
            return None
        observed_at, planned_at = self.memory.observed_at, self._planned_at.get(worker.order_id or "")
        unseen_at = None if observed_at is None else observed_at - self.policy.order_grace
        return max((at for at in (unseen_at, planned_at) if at is not None), default=None)

    def machine(self, worker: Worker, host: ExecutionHost | None, owners: Mapping[str, str]) -> WorkerState:
        """`host`: the one that has its name, whoever owns it."""
        before = self.memory.workers.get(worker.id)
        if host is None or owners.get(host.name) == worker.id:
            if host is not None and (before is None or before.host is None):
                before = self._with_older_mark(worker, host, before)
            successor = self.claims.successor(worker, host) if host is not None else None
            state = None if successor is not None else self._settled(worker, host, before)
            if state is None:
                state = _machine(self, worker, host, before, successor=successor)
                self.settled.keep(state)
            return state
        owner = owners.get(host.name)
        newer = next((other for other in self.fleet.workers if other.id == owner), None)
        awaited = worker.exists and (newer is None or newer.created_at <= worker.created_at)
        held = Condition.NAME_AWAITED if awaited else Condition.NAME_TAKEN
        return _machine(self, worker, None, before, name_held=held)

    def _with_older_mark(self, worker: Worker, host: ExecutionHost, before: WorkerNote | None) -> WorkerNote | None:
        """The note of a machine that takes over the execution host of an older one, with our mark if we had disabled
        that host.
        """
        if not disabled(host):
            return before
        marked = (
            note
            for worker_id, note in self.memory.workers.items()
            if worker_id != worker.id and note.disabling is not None and note.disabled_at is not None
            if not note.left and note.host == host.name
        )
        older = next(marked, None)
        if older is None:
            return before
        mine = before or WorkerNote(first_seen=self.now)
        mine = replace(mine, disabled_at=older.disabled_at, disabling=Disabling.LOST, seen_disabled=True)
        return replace(mine, left_disabled=older.left_disabled)

    @property
    def shared(self) -> object:
        """What the state of each settled worker depends on besides the worker itself."""
        policy, cluster = self.policy, self.cluster
        return (
            self.fleet.enrols_itself,
            policy.silence_timeout,
            cluster.schedule_interval,
            cluster.complexes,
            self.any_reporting,
        )

    def _settled(self, worker: Worker, host: ExecutionHost | None, before: WorkerNote | None) -> WorkerState | None:
        """Its state, if that is the one of the last observation."""
        array = self.policy.node_array(worker.node_array)
        if host is None or before is None or array is None:
            return None
        if worker.id in self.noticed or self.claims.handed(host):
            return None
        return self.settled.known(worker, host, before, array, self.ordered_for.get(worker.order_id or "", ()))

    @cached_property
    def noticed(self) -> frozenset[str]:
        """Ids of the workers with a notice of their cloud."""
        return frozenset(notice.worker_id for notice in self.fleet.interruptions)

    def unlisted(self, worker_id: str, note: WorkerNote, host: ExecutionHost) -> WorkerState:
        """The state of a worker known from memory only."""
        bucket = note.bucket
        state = MachineState.TERMINATED if note.gone else MachineState.RUNNING
        kind = InstanceType(bucket.instance_type if bucket else "", "", note.vcpus, 0)
        name = bucket.node_array if bucket else ""
        made_at = note.first_seen if note.made_at is None else note.made_at
        worker = Worker(worker_id, kind, name, state, made_at, note.host, order_id=note.order_id)
        worker = replace(worker, group_id=note.group_id or None)
        successor, array = self.claims.successor_of_unlisted(note, host), self.policy.node_array(name)
        on_their_way = _on_their_way(host, note, successor, lives=False)
        known = replace(note, silent_s=self.silence(note, host), on_their_way=on_their_way)
        # Grid Engine shows what happens to its host all the same, and a later observation would not.
        own, half = None if array is None else array.queue, self.half_enrolled(worker, host, known, array)
        seen = _undone_by_hand(known, _seen_host(known, host, own, self.now, half_enrolled=half), self.now)
        if host.busy or disabled(host):
            seen = replace(seen, idle_since=None, alarm_since=None)
        facts = replace(self.facts(worker, host, seen, note), notice=None, listed=False)
        return WorkerState(
            worker, host, seen, note, facts.array, phase_of(facts), conditions_of(facts), successor=successor
        )

    def silence(self, before: WorkerNote | None, host: ExecutionHost) -> float | None:
        if host.heard:
            return None
        known = before.silent_s if before else None
        return counted_silence(known, self.memory.observed_at, self.now, any_reporting=self.any_reporting)

    def still_missing(
        self, worker: Worker, host: ExecutionHost | None, note: WorkerNote, array: NodeArrayPolicy | None
    ) -> Values:
        """The values that a host which its own image enrolled still needs before it can be enabled. If a person enabled
        it, that still holds as long as nothing runs there.
        """
        if not self.fleet.enrols_itself or host is None or array is None or note.disabling is not Disabling.ENROL:
            return ()
        if host.busy or not (host.heard and any(instance.queue == array.queue for instance in host.instances)):
            return ()
        return missing_values(worker, host, array, self.cluster.complexes, tried=note.completed_at is not None)

    def half_enrolled(
        self, worker: Worker, host: ExecutionHost, note: WorkerNote, array: NodeArrayPolicy | None
    ) -> bool:
        """Whether its enrolment was cut short: then it may be enabled although no person enabled it."""
        enrols_itself = self.fleet.enrols_itself
        unqueued = not enrols_itself and note.disabling is Disabling.ENROL and _without_queue(host, array)
        half = unqueued or half_enrolled(worker, host, note, array, enrols_itself=enrols_itself)
        return half or bool(self.still_missing(worker, host, note, array))

    def maybe_disabled_by_person(self, worker: Worker, host: ExecutionHost, array: NodeArrayPolicy | None) -> bool:
        """Whether a person may have disabled a complete worker: the first pass with an empty store cannot know.

        An empty worker of the autoscaler whose place ours took has yet to join: its image disables it, that one enables
        it, and would end it as idle even if a person had disabled it.
        """
        if self.memory.passes or self.memory.workers or not (worker.ready and disabled(host)):
            return False
        if worker.taken_over and not host.busy:
            return False
        return array is None or not missing_values(worker, host, array, self.cluster.complexes, tried=False)

    def notice(self, worker: Worker) -> Interruption | None:
        """The worker's notice: of several the gravest, and of these the soonest."""
        given = [notice for notice in self.fleet.interruptions if notice.worker_id == worker.id]
        return min(given, key=lambda notice: (not takes(notice), notice.at), default=None)


def _machine(
    observation: _Observation,
    worker: Worker,
    host: ExecutionHost | None,
    before: WorkerNote | None,
    *,
    name_held: Condition | None = None,
    successor: Worker | None = None,
) -> WorkerState:
    now, array = observation.now, observation.policy.node_array(worker.node_array)
    seen = _as_listed(observation, worker, before)
    if host is None:
        note = _without_host(seen, worker, name_held)
    else:
        seen, note = _with_host(observation, seen, worker, host, before, successor)
    by_hand = _enabled_by_hand(seen, note)
    note = _undone_by_hand(seen, note, now)
    missing = observation.still_missing(worker, host, note, array)
    facts = observation.facts(worker, host, note, before, missing_values=missing, name_held=name_held)
    state = WorkerState(
        worker,
        host,
        note,
        before,
        array,
        phase_of(facts),
        conditions_of(facts),
        enabled_by_hand=by_hand,
        notice=observation.notice(worker),
        successor=successor,
        missing_values=missing,
    )
    if state.in_service and host is not None and array is not None and not host.busy:
        note = _idle(note, array, now, observation.memory.observed_at, alarm=in_alarm(host, array.queue))
    elif not (state.draining and state.enabled and state.empty):  # else its idle time goes on if disabling it failed
        note = changed(note, idle_since=None, alarm_since=None)
    if host is not None and not state.coming and (host.busy or (host.heard and has_slots(host) and not disabled(host))):
        note = changed(note, opened=True)
    missing = missing if state.coming and Condition.INCOMPLETE in state.conditions else ()
    if note is state.note and missing is state.missing_values:
        return state
    return replace(state, note=note, conditions=conditions_of(replace(facts, note=note)), missing_values=missing)


def _as_listed(observation: _Observation, worker: Worker, before: WorkerNote | None) -> WorkerNote:
    """The note with what the provider says of the machine."""
    seen = changed(
        before or WorkerNote(first_seen=observation.now),
        made_at=creation_time(worker, before, observation.earliest_creation(worker), observation.now),
        missing_since=None,
        bucket=worker.bucket if worker.exists else None,
        gone=not worker.exists,
        only_ended=not worker.exists and (before is None or before.only_ended),
        order_id=worker.order_id,
        ordered_for=(before.ordered_for if before else ()) or observation.ordered_for.get(worker.order_id or "", ()),
        group_id=worker.group_id or (before.group_id if before else ""),
        vcpus=worker.type.vcpus,
        price_per_hour=worker.price_per_hour,
        stopped=worker.stopped or (worker.state is not MachineState.RUNNING and before is not None and before.stopped),
    )
    if before is not None and before.gone:
        return seen
    failed = seen.failed or failed_to_join(worker, seen, observation.fleet, known=before is not None)
    return changed(seen, failed=failed)


def _without_host(seen: WorkerNote, worker: Worker, name_held: Condition | None) -> WorkerNote:
    """The note of a machine that is no execution host."""
    had = seen.host is not None and (seen.joined_at is not None or not worker.exists)
    enrolling = worker.exists and seen.disabling is Disabling.ENROL and seen.retired_at is None
    left = not enrolling and (seen.left or (name_held is None and had))
    name = seen.host or (worker.name if seen.only_ended else None)
    return changed(seen, idle_since=None, empty_since=None, silent_s=None, left=left, host=name)


def _with_host(
    observation: _Observation,
    seen: WorkerNote,
    worker: Worker,
    host: ExecutionHost,
    before: WorkerNote | None,
    successor: Worker | None,
) -> tuple[WorkerNote, WorkerNote]:
    """The note of an execution host: as it was before this observation showed its queues, and after."""
    enrols_itself, array = observation.fleet.enrols_itself, observation.policy.node_array(worker.node_array)
    seen = changed(
        seen,
        silent_s=observation.silence(before, host),
        left=False,
        on_their_way=_on_their_way(host, seen, successor, lives=worker.exists),
        uncertain_jobs=tuple(sorted(observation.claims.uncertain_jobs(worker, host))) if worker.exists else (),
    )
    if enrols_itself:
        if observation.maybe_disabled_by_person(worker, host, array):
            # It joined before, reporting or not: when it reports again, it must not count as a worker that joins now.
            seen = replace(seen, joined_at=observation.now)
        else:
            seen = _enrolled_by_image(seen, host, observation.now)
    elif (worker.exists and before is None and cut_short(worker, host, array)) or _made_by_others(
        worker, host, seen, array, known=before is not None
    ):
        seen = replace(seen, disabled_at=observation.now, disabling=Disabling.ENROL)
    half = observation.half_enrolled(worker, host, seen, array)
    own = None if array is None else array.queue
    return seen, _seen_host(changed(seen, host=host.name), host, own, observation.now, half_enrolled=half)


def _made_by_others(
    worker: Worker, host: ExecutionHost, note: WorkerNote, array: NodeArrayPolicy | None, *, known: bool
) -> bool:
    """Whether its image or a person made it an execution host before the autoscaler enrolled it, in other queues or in
    none. `known`: an earlier observation showed the machine.
    """
    ours = note.enrolling_since is not None or note.disabling is not None or note.retired_at is not None
    if ours or not (worker.ready and host.heard and _without_queue(host, array)):
        return False
    return bool(host.instances) or (known and note.joined_at is None)


def _without_queue(host: ExecutionHost, array: NodeArrayPolicy | None) -> bool:
    """Whether it is no host of its node array's queue."""
    return array is not None and not any(instance.queue == array.queue for instance in host.instances)


def _enabled_by_hand(seen: WorkerNote, note: WorkerNote) -> bool:
    """Whether a person enabled what we had disabled."""
    undone = seen.disabling is not None and note.disabling is None and note.enabled_at is None
    return undone and seen.seen_disabled and seen.enabled_at is None


def _undone_by_hand(seen: WorkerNote, note: WorkerNote, now: float) -> WorkerNote:
    """The note with what it means that a person enabled it, if one did."""
    if not _enabled_by_hand(seen, note):
        return note
    if seen.disabling is Disabling.BROKEN:
        return replace(note, trusted_at=now)
    return replace(note, stop_undone=True) if seen.disabling is Disabling.AUTO_STOP else note


def _idle(
    note: WorkerNote, array: NodeArrayPolicy, now: float, observed_at: float | None, *, alarm: bool
) -> WorkerNote:
    """The note of an empty worker in service. In alarm no job could have started there, so its idle time does not grow,
    unless the alarm lasts longer than boots and jobs that just ended may cause.
    """
    idle = note.idle_since if note.idle_since is not None else now
    if not alarm:
        return changed(note, idle_since=idle, alarm_since=None)
    since = note.alarm_since if note.alarm_since is not None else now
    if note.idle_since is not None and now - since < array.boot_timeout:
        idle = min(idle + max(now - (observed_at if observed_at is not None else now), 0.0), now)
    return replace(note, idle_since=idle, alarm_since=since)


def _on_their_way(host: ExecutionHost, note: WorkerNote, successor: Worker | None, *, lives: bool) -> tuple[str, ...]:
    """Jobs in transfer to this machine. If there is a newer one of its name, those that it never took. If it no longer
    lives, an unlisted newer one may exist, so earlier ones are kept too.
    """
    if successor is not None:
        return note.on_their_way
    now = (job.name for job in host.jobs if job.on_its_way)
    return tuple(dict.fromkeys(now if lives else (*note.on_their_way, *now)))


def _enrolled_by_image(note: WorkerNote, host: ExecutionHost, now: float) -> WorkerNote:
    """The note with the mark of enrolment, if the worker reports for the first time or not yet: its image may disable
    the host only after it enrolled it.
    """
    if note.disabling is not None or note.joined_at is not None or (host.busy and not disabled(host)):
        return note
    return replace(note, disabled_at=now, disabling=Disabling.ENROL)


def _seen_host(
    note: WorkerNote, host: ExecutionHost, queue: str | None, now: float, *, half_enrolled: bool = False
) -> WorkerNote:
    """The note after an observation of its execution host. `queue`: its node array's."""
    if host.heard and note.joined_at is None:
        note = replace(note, joined_at=now)
    note = _late_mark(note, host, now)
    if note.disabling is None:
        return changed(note, retired_at=None, empty_since=None, disabled_queues=())
    shut = {each.queue for each in host.instances if "d" in each.states}
    enabled = {each.queue for each in host.instances} - shut
    if note.left_disabled:
        # What a person enables meanwhile is theirs no longer: if we disable it again, we enable it again.
        note = replace(note, left_disabled=tuple(queue for queue in note.left_disabled if queue not in enabled))
    if disabled(host):
        since = None if host.busy else note.empty_since if note.empty_since is not None else now
        retired = None if host.busy else note.retired_at
        note = changed(note, seen_disabled=True, empty_since=since, retired_at=retired)
    else:
        note = replace(note, empty_since=None, retired_at=None)
        if _without_effect(note, enabled, shut, now):
            return replace(
                note,
                disabling=None,
                disabled_at=None,
                left_disabled=(),
                tried=note.disabling,
                tried_at=note.disabled_at,
            )
        note = _seen_enabled(note, enabled, shut, queue, heard=host.heard, half_enrolled=half_enrolled)
    return changed(note, disabled_queues=() if note.disabling is None else _seen_shut(note, enabled, shut))


LATE_EFFECT = 120.0
"""Seconds for which a command without an answer may still take effect."""


def _late_mark(note: WorkerNote, host: ExecutionHost, now: float) -> WorkerNote:
    """The note with the mark of a command that had shown no effect, if it has one now; without it after a while."""
    if note.tried is None or (note.disabling is None and not disabled(host) and _recent(note.tried_at, now)):
        return note
    if note.disabling is None and disabled(host) and _recent(note.tried_at, now):
        note = replace(note, disabling=note.tried, disabled_at=note.tried_at)
    return replace(note, tried=None, tried_at=None)


def _recent(at: float | None, now: float) -> bool:
    return at is not None and now - at < LATE_EFFECT


def _without_effect(note: WorkerNote, enabled: Set[str], shut: Set[str], now: float) -> bool:
    """Whether nothing has shown a host as disabled since we wanted to disable it: then it has no mark. A worker that
    leaves for good keeps its mark, as that decision stands.
    """
    stands = note.disabling is Disabling.ENROL or note.disabling in FOR_GOOD
    shown = shut - set(note.left_disabled) or enabled & set(note.disabled_queues)
    planned = note.disabled_at is not None and note.disabled_at < now
    return planned and not (stands or shown or note.seen_disabled or note.enabled_at is not None)


def _seen_shut(note: WorkerNote, enabled: Set[str], shut: Set[str]) -> tuple[str, ...]:
    """Queues there that an observation has shown disabled since the mark was set."""
    there = enabled | (shut - set(note.left_disabled))
    return tuple(sorted(there & {*note.disabled_queues, *shut}))


def _seen_enabled(
    note: WorkerNote, enabled: Set[str], shut: Set[str], own: str | None, *, heard: bool, half_enrolled: bool
) -> WorkerNote:
    """The note of a host with our mark that shows as enabled, wholly or in part: without the mark, unless the host was
    enabled by neither us nor a person. Only a queue that was seen disabled since the mark can have been enabled.
    """
    enrolled = note.disabling is Disabling.ENROL
    if half_enrolled or (enrolled and note.joined_at is None):  # a person enabled it, but it has yet to join
        return note
    still, opened = shut - set(note.left_disabled), enabled & set(note.disabled_queues)
    if own in still and not (note.enabled_at is not None and opened):
        # A further queue has it now. Its own is as we left it, and no person has disabled that.
        by_nobody = enrolled or note.enabled_at is not None
        return note if by_nobody else replace(note, seen_disabled=False)
    if still and own not in opened and not enrolled and note.seen_disabled and note.enabled_at is None:
        return replace(note, seen_disabled=False)  # a new queue is enabled on it: that was no person
    if note.enabled_at is not None or note.seen_disabled or (enrolled and heard):
        silent = None if note.silent_s is None else 0.0  # a person who enables it wants it watched anew
        note = replace(note, disabled_at=None, disabling=None, seen_disabled=False, enabled_at=None, left_disabled=())
        return replace(note, silent_s=silent, fenced_at=None, idle_since=None)
    return note

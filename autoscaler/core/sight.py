"""All workers as one look shows them: machines matched with hosts, and the memory of each brought up to date.

Then `life` reads the state of each off. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from autoscaler.core.cluster import Cluster, Complex, ExecutionHost
from autoscaler.core.fleet import Fleet, InstanceType, Interruption, MachineState, Worker
from autoscaler.core.lacking import Values, lacking
from autoscaler.core.life import Life, Machine, barely_made, disabled, half_enrolled, life, takes
from autoscaler.core.lost.hearing import counted_silence
from autoscaler.core.lost.matching import Claims, Hosts
from autoscaler.core.memory import Disabling, Memory, WorkerNote
from autoscaler.core.policy import NodeArrayPolicy, Policy


@dataclass(frozen=True, slots=True)
class Sight:
    """All machines of ours, the hosts that are nobody's of ours, and the notes of workers the listing leaves out."""

    machines: tuple[Machine, ...]
    others: tuple[ExecutionHost, ...]
    """Persistent hosts."""
    missing: Mapping[str, WorkerNote]
    missing_hosts: Mapping[str, ExecutionHost]
    """By worker id: hosts of workers that the listing leaves out, and whose end nobody confirmed. They run on."""
    unlisted: tuple[Machine, ...] = ()
    """Workers that the listing leaves out and whose execution hosts are there: GONE where their end is certain."""

    @property
    def known(self) -> tuple[Machine, ...]:
        """All of them, listed or not."""
        return (*self.machines, *self.unlisted)


def look(cluster: Cluster, fleet: Fleet, memory: Memory, policy: Policy, now: float) -> Sight:
    """Match machines with hosts and derive every state."""
    hosts = Hosts(cluster)
    claims = Claims(hosts, fleet.workers, memory.workers, now - policy.order_grace)
    eye = _Eye(hosts, claims, fleet, memory, policy, now, any(host.heard for host in cluster.hosts), cluster.complexes)
    listed = {worker.id for worker in fleet.workers}
    unlisted = {worker_id: note for worker_id, note in memory.workers.items() if worker_id not in listed}
    owners = claims.owners(unlisted)
    machines = [eye.machine(worker, owners) for worker in fleet.workers]
    gone_missing: dict[str, WorkerNote] = {}
    absent: list[Machine] = []
    for worker_id, note in unlisted.items():
        seen = note if note.missing_since is not None else replace(note, missing_since=now)
        host = eye.hosts.named(note.host)
        if host is not None and not note.left and owners.get(host.name) == worker_id:
            machine = eye.unlisted(worker_id, seen, host)
            absent.append(machine)
            gone_missing[worker_id] = machine.note
        elif now - (seen.missing_since or now) < policy.order_grace:
            gone_missing[worker_id] = seen
    named = {machine.host.name for machine in (*machines, *absent) if machine.host is not None}
    return Sight(
        machines=tuple(sorted(machines, key=lambda machine: (machine.worker.created_at, machine.worker.id))),
        others=tuple(host for host in cluster.hosts if host.name not in named),
        missing=gone_missing,
        missing_hosts={m.worker.id: m.host for m in absent if m.host is not None and m.life is Life.UNLISTED},
        unlisted=tuple(absent),
    )


@dataclass(frozen=True, slots=True)
class _Eye:
    """What every single look at a machine needs."""

    hosts: Hosts
    claims: Claims
    fleet: Fleet
    memory: Memory
    policy: Policy
    now: float
    any_heard: bool
    complexes: Mapping[str, Complex]

    def machine(self, worker: Worker, owners: Mapping[str, str]) -> Machine:
        before = self.memory.workers.get(worker.id)
        host = self.hosts.named(worker.name or (before.host if before else None))
        if host is None or owners.get(host.name) == worker.id:
            before = self._heritage(worker, host, before)
            heir = self.claims.heir(worker, host) if host is not None else None
            return _machine(self, worker, host, before, heir=heir)
        owner = owners.get(host.name)
        newer = next((other for other in self.fleet.workers if other.id == owner), None)
        awaited = worker.exists and (newer is None or newer.created_at <= worker.created_at)
        return _machine(self, worker, None, before, taken=Life.NAME_AWAITED if awaited else Life.NAME_TAKEN)

    def _heritage(self, worker: Worker, host: ExecutionHost | None, before: WorkerNote | None) -> WorkerNote | None:
        """The note of a machine that takes over the entry of an older one, with our mark on it: we disabled it."""
        if host is None or not disabled(host) or (before is not None and before.host is not None):
            return before
        marked = (
            note
            for worker_id, note in self.memory.workers.items()
            if worker_id != worker.id and note.disabling is not None and note.disabled_at is not None
            if not note.left and note.host == host.name
        )
        elder = next(marked, None)
        if elder is None:
            return before
        mine = before or WorkerNote(first_seen=self.now)
        return replace(mine, disabled_at=elder.disabled_at, disabling=Disabling.LOST, seen_disabled=True)

    def unlisted(self, worker_id: str, note: WorkerNote, host: ExecutionHost) -> Machine:
        """A worker known from memory only."""
        bucket = note.bucket
        state = MachineState.TERMINATED if note.gone else MachineState.RUNNING
        kind = InstanceType(bucket.instance_type if bucket else "", "", note.vcpus, 0)
        array = bucket.node_array if bucket else ""
        worker = Worker(worker_id, kind, array, state, note.first_seen, note.host, order_id=note.order_id)
        worker = replace(worker, group_id=note.group_id or None)
        heir = self.claims.heir(worker, host)
        on_their_way = _on_their_way(host, note, heir, lives=False)
        seen = replace(note, silent_s=self.silence(note, host), on_their_way=on_their_way)
        life = Life.GONE if note.gone else Life.UNLISTED
        return Machine(worker, host, seen, note, self.policy.node_array(array), life, heir=heir)

    def silence(self, before: WorkerNote | None, host: ExecutionHost) -> float | None:
        if host.heard:
            return None
        known = before.silent_s if before else None
        return counted_silence(known, self.memory.looked_at, self.now, any_heard=self.any_heard)

    def lacks(
        self, worker: Worker, host: ExecutionHost | None, note: WorkerNote, array: NodeArrayPolicy | None
    ) -> Values:
        """What a host that its own image has made, and that is about to be let in, still lacks. A person may have let
        it in before, as long as nothing runs there.
        """
        if not self.fleet.enrols_itself or host is None or array is None or note.disabling is not Disabling.ENROL:
            return ()
        if host.busy or not (host.heard and any(instance.queue == array.queue for instance in host.instances)):
            return ()
        return lacking(worker, host, array, self.complexes, tried=note.completed_at is not None)

    def notice(self, worker: Worker) -> Interruption | None:
        """Of several notices the gravest, and of these the soonest."""
        given = [notice for notice in self.fleet.interruptions if notice.worker_id == worker.id]
        return min(given, key=lambda notice: (not takes(notice), notice.at), default=None)


def _machine(
    eye: _Eye,
    worker: Worker,
    host: ExecutionHost | None,
    before: WorkerNote | None,
    *,
    taken: Life | None = None,
    heir: Worker | None = None,
) -> Machine:
    fleet, now, notice = eye.fleet, eye.now, eye.notice(worker)
    array = eye.policy.node_array(worker.node_array)
    seen = replace(
        before or WorkerNote(first_seen=now),
        missing_since=None,
        bucket=worker.bucket if worker.exists else None,
        gone=not worker.exists,
        only_ended=not worker.exists and (before is None or before.only_ended),
        order_id=worker.order_id,
        group_id=worker.group_id or (before.group_id if before else ""),
        vcpus=worker.type.vcpus,
        price_per_hour=worker.price_per_hour,
    )
    if host is None:
        had = seen.host is not None and (seen.heard_at is not None or not worker.exists)
        enrolling = worker.exists and seen.disabling is Disabling.ENROL and seen.retired_at is None
        left = not enrolling and (seen.left or (taken is None and had))
        name = seen.host or (worker.name if seen.only_ended else None)
        note = replace(seen, idle_since=None, empty_since=None, silent_s=None, left=left, host=name)
    else:
        on_their_way = _on_their_way(host, seen, heir, lives=worker.exists)
        in_doubt = tuple(sorted(eye.claims.in_doubt(worker, host))) if worker.exists else ()
        seen = replace(
            seen, silent_s=eye.silence(before, host), left=False, on_their_way=on_their_way, in_doubt=in_doubt
        )
        if fleet.enrols_itself:
            seen = _made_by_its_image(seen, host, now)
        elif before is None and worker.exists and barely_made(host):
            seen = replace(seen, disabled_at=now, disabling=Disabling.ENROL)
        half = half_enrolled(worker, host, seen, array, enrols_itself=fleet.enrols_itself)
        half = half or bool(eye.lacks(worker, host, seen, array))
        note = _seen_host(replace(seen, host=host.name), host, now, half_enrolled=half)
    by_hand = seen.disabling is not None and note.disabling is None and note.enabled_at is None
    by_hand = by_hand and seen.seen_disabled and seen.enabled_at is None
    if by_hand and seen.disabling is Disabling.BROKEN:
        note = replace(note, trusted_at=now)
    if by_hand and seen.disabling is Disabling.AUTO_STOP:
        note = replace(note, stop_undone=True)
    lacks = eye.lacks(worker, host, note, array)
    state = life(worker, host, note, array, enrols_itself=fleet.enrols_itself, taken=taken, notice=notice)
    state = Life.ENROLLABLE if state in (Life.READY, Life.JOINING) and lacks and worker.ready else state
    lacks = lacks if state is Life.ENROLLABLE else ()
    if state is Life.IN_SERVICE and host is not None and not host.busy:
        note = replace(note, idle_since=note.idle_since if note.idle_since is not None else now)
    else:
        note = replace(note, idle_since=None)
    return Machine(
        worker, host, note, before, array, state, enabled_by_hand=by_hand, notice=notice, heir=heir, lacks=lacks
    )


def _on_their_way(host: ExecutionHost, note: WorkerNote, heir: Worker | None, *, lives: bool) -> tuple[str, ...]:
    """Jobs that this machine has not taken yet. Once there is a newer one of its name, those it never took; where it
    no longer lives one may be there that no listing shows, and what was on its way stays in question.
    """
    if heir is not None:
        return note.on_their_way
    now = (job.name for job in host.jobs if job.on_its_way)
    return tuple(dict.fromkeys(now if lives else (*note.on_their_way, *now)))


def _made_by_its_image(note: WorkerNote, host: ExecutionHost, now: float) -> WorkerNote:
    """The mark of one that is first heard, or not yet: its image may disable it a moment after it makes it a host."""
    if note.disabling is not None or note.heard_at is not None or (host.busy and not disabled(host)):
        return note
    return replace(note, disabled_at=now, disabling=Disabling.ENROL)


def _seen_host(note: WorkerNote, host: ExecutionHost, now: float, *, half_enrolled: bool = False) -> WorkerNote:
    """The note after a look at its execution host."""
    if host.heard and note.heard_at is None:
        note = replace(note, heard_at=now)
    if note.disabling is None:
        return replace(note, retired_at=None, empty_since=None)
    if disabled(host):
        since = None if host.busy else note.empty_since if note.empty_since is not None else now
        retired = None if host.busy else note.retired_at
        return replace(note, seen_disabled=True, empty_since=since, retired_at=retired)
    note = replace(note, empty_since=None, retired_at=None)
    early = note.disabling is Disabling.ENROL and note.heard_at is None  # a person enabled it: it joins all the same
    if half_enrolled or early:
        return note
    joined = note.disabling is Disabling.ENROL and host.heard
    if note.enabled_at is not None or note.seen_disabled or joined:
        silent = None if note.silent_s is None else 0.0  # a person who enables it wants it watched anew
        note = replace(note, disabled_at=None, disabling=None, seen_disabled=False, enabled_at=None)
        return replace(note, silent_s=silent, fenced_at=None)
    return note

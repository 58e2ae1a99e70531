"""The rules of docs/safety.md, checked against the truth of a simulated world and nothing that the autoscaler knows.

Notified of every observation, decision and change when it passes the seam; the journal is read in one place only,
where the rule itself rests on it: a worker drains if the journal says that we disabled it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from autoscaler.core.actions import PROBE_HOST_PREFIX
from autoscaler.core.model.fleet import MachineState, Worker
from autoscaler.providers.fake import Machine
from autoscaler.providers.interface import GROUP_ID, LaunchOrder
from tests.soak.cell import SCHEDULE_INTERVAL
from tests.soak.group_rules import GroupRules, group_of, host_group
from tests.soak.job_rules import JobRules
from tests.soak.jobs import IN_GROUP, MAIN, Job, Room, Run
from tests.soak.request_rules import check_created_nodes
from tests.soak.retries import Retries

if TYPE_CHECKING:
    from tests.soak.world import World

HOUR = 3600.0
STALE = 120.0
LONGEST_GAP = 120.0
"""Seconds between two observations that count as silence at most."""
NOTICE_MARGIN = 30.0
"""Seconds before its cloud takes it from which a worker may be ended with what it runs."""
"""Seconds after which what was read may not be acted on."""
_PARTS = frozenset({"qstat", "qhost", "workers", "buckets"})
_OBSERVATIONS_KEPT = 200
TOGETHER = 60.0
"""Seconds between the beginnings of two silences that may have one cause."""


@dataclass
class Observation:
    """One pass's reading of the world, as it really was."""

    began: float
    damaged: list[str] = field(default_factory=list)
    parts: set[str] = field(default_factory=set)
    empty: dict[str, bool] = field(default_factory=dict)
    """By host, disabled ones only: whether nothing was on it at any moment of the reading."""
    able: list[tuple[Job, int]] = field(default_factory=list)
    """Jobs of the autoscaled queue with how many tasks of them could start, and since when they wait."""
    again: list[tuple[Job, int]] = field(default_factory=list)
    """Jobs that will wait again: their machine is about to be taken or ended."""
    rooms: list[Room] = field(default_factory=list)
    """What was free where jobs could start, at each moment of the reading."""
    silent: set[str] = field(default_factory=set)
    """Silent hosts."""
    guessed: bool = False
    """Whether an answer was wrong in a way that cannot be noticed: of another moment, or with other figures."""
    decided_at: float | None = None

    @property
    def good(self) -> bool:
        return self.decided_at is not None and not self.damaged and self.parts >= _PARTS


class Rules:
    """Collects what was broken, as `rule n: …`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.broken: list[str] = []
        self.observation = Observation(world.clock.now)
        self.disabled_empty_since: dict[str, float] = {}
        """Since when every good observation of this store showed a host disabled and empty."""
        self.observations: dict[str, list[tuple[float, bool]]] = {}
        """Good observations of a host: when, and whether it was disabled."""
        self.listed: set[str] = set()
        """Machines that some listing of this store showed."""
        self.shown: dict[str, set[str]] = {}
        """By name: the machines that the latest listing showed as not gone, whether they were or not."""
        self.orders: set[str] = set()
        """Orders of this store."""
        self.store_began = world.clock.now
        self.changes: list[str] = []
        """Of this pass."""
        self.observed_at = world.clock.now
        self.silent_for: dict[str, float] = {}
        self.vouched_for: dict[str, float] = {}
        """Seconds for which, without a break, another worker of its zone reported and none fell silent with it."""
        """By host: for how long every good observation has found it silent."""
        self.made_for: dict[str, str] = {}
        """By execution host: the machine that it was made an execution host for."""
        self.made_before_loss: dict[str, str] = {}
        """The same, as it was when a store was last lost."""
        self.jobs = JobRules(world, self.breaks)
        self.groups = GroupRules(self, self.breaks)
        self.retries = Retries(world, self.breaks)

    def breaks(self, rule: int, what: str) -> None:
        text = f"rule {rule}: {what}"
        if text not in self.broken:
            self.broken.append(text)

    # -- observing ------------------------------------------------------------------------------------------------

    def begin_pass(self) -> None:
        self.observation = Observation(self.world.clock.now)
        self.changes = []
        self.jobs.begin_pass()
        self.groups.begin_pass()

    def reads(self, part: str, *, damaged: str = "") -> None:
        observation, cell = self.observation, self.world.cell
        if observation.decided_at is not None:
            return
        if damaged:
            observation.damaged.append(f"{part}: {damaged}")
        observation.parts.add(part)
        if part in ("qstat", "qstat -u", "qhost"):
            observation.rooms.append(cell.room(self.world.serves))
            for name in cell.hosts:
                if not cell.reports(name):
                    observation.silent.add(name)
                calm = cell.all_disabled(name) and name not in cell.occupied | cell.reserved
                observation.empty[name] = observation.empty.get(name, True) and calm
            self.groups.reads()
        if part == "qstat":
            self.jobs.reads_qstat(bool(damaged))
        if part in ("qstat", "qstat -u"):
            observation.able = [
                (job, len(tasks)) for job, tasks in cell.able() if MAIN in job.pools and not job.foreign_host
            ]
            observation.again = [(job, 1) for job, run in cell.runs if MAIN in job.pools and self._comes_back(run)]

    def _comes_back(self, run: Run) -> bool:
        """Whether it stands where it cannot stay."""
        world = self.world
        leaving = any(
            world.interruption_of(world.machine_of(name)) or not world.cell.reports(name) for name in run.hosts
        )
        return leaving or world.lost(run)

    def ends_pass(self, done: object) -> None:
        self.jobs.ends_pass(undisturbed=done is not None and not self.world.troubles.met)
        self.world.troubles.met = False

    def lists(self, workers: Sequence[Worker]) -> None:
        self.listed |= {worker.id for worker in workers}
        self.shown = {}
        for worker in workers:
            if worker.name is not None and worker.state is not MachineState.TERMINATED:
                self.shown.setdefault(worker.name, set()).add(worker.id)

    def decides(self) -> None:
        observation, now = self.observation, self.world.clock.now
        observation.decided_at = now
        self.jobs.decides(observation)
        if not observation.good:
            return
        cell, gap = self.world.cell, min(observation.began - self.observed_at, LONGEST_GAP)
        silent = observation.silent | (self.silent_for.keys() & cell.hosts.keys() if observation.guessed else set())
        self.silent_for = {name: self.silent_for[name] + gap if name in self.silent_for else 0.0 for name in silent}
        self.vouched_for = {
            name: self.vouched_for.get(name, 0.0) + gap if self._somebody_vouches_for(name) else 0.0 for name in silent
        }
        self.groups.decides(gap)
        self.observed_at = observation.began
        for name in cell.hosts:
            kept = self.observations.setdefault(name, [])
            kept.append((observation.began, cell.all_disabled(name)))
            del kept[:-_OBSERVATIONS_KEPT]
        calm = {name for name, empty in observation.empty.items() if empty or observation.guessed}
        self.disabled_empty_since = {name: self.disabled_empty_since.get(name, observation.began) for name in calm}

    def loses_store(self) -> None:
        """A new store begins: nothing that an earlier one knew may be relied on."""
        self.disabled_empty_since.clear()
        self.observations.clear()
        self.listed.clear()
        self.orders.clear()
        self.jobs.loses_store()
        self.groups.loses_store()
        self.made_before_loss = dict(self.made_for)
        self.store_began = self.world.clock.now
        cell = self.world.cell
        # A host without slots is one whose enrolment was cut short: nobody but us left it so (decision 49).
        begun = {name for name, values in cell.hosts.items() if "slots=0" in values}
        cell.off = {at: who if at[1] in begun else "person" for at, who in cell.off.items()}

    # -- rule 2 ------------------------------------------------------------------------------------------------------

    def _acts(self, what: str) -> None:
        observation = self.observation
        self.changes.append(what)
        if not observation.good:
            missing = sorted(_PARTS - observation.parts)
            self.breaks(2, f"{what} after an observation that was damaged {observation.damaged} or missed {missing}")
        elif observation.decided_at is not None and observation.decided_at - observation.began > STALE:
            self.breaks(2, f"{what} on an observation that took {observation.decided_at - observation.began:.0f} s")

    # -- rules 1 and 4: Grid Engine ----------------------------------------------------------------------------------

    def changes_host(self, argv: Sequence[str]) -> None:
        name, what = host_of(argv), " ".join(argv)
        world, cell = self.world, self.world.cell
        if (name or "").startswith(PROBE_HOST_PREFIX) or any(PROBE_HOST_PREFIX in word for word in argv):
            return  # ours at any time: also swept away before the first decision
        self._acts(what)
        self.jobs.changes(argv, self.observation.began)
        if name is None:
            return
        if argv[:2] == ("qconf", "-Ae") and name not in cell.hosts:
            named, shown = world.machine_of(name), self.shown.get(name, set())
            by_truth = named.id if named is not None else ""
            # A listing that lags may show the one that had the name before.
            self.made_for[name] = by_truth if by_truth in shown or len(shown) != 1 else next(iter(shown))
        if name not in {machine.name for machine in world.ours}:
            self.breaks(4, f"{what}: {name} is no worker of ours")
        if argv[:2] == ("qmod", "-e"):
            self.groups.enables(name)
        if argv[:2] == ("qmod", "-d"):
            self.groups.disables(name)
        removing = argv[1] in ("-dattr", "-purge", "-de")
        shutting = argv[:2] == ("qmod", "-d") and name in cell.hosts and cell.can_start_jobs(name)
        gone = name in self.made_for and not world.lives(self.made_for[name])
        by_person = [at for at in cell.instances_of(name) if cell.off.get(at) == "person"]
        if argv[:2] == ("qmod", "-e") and any(f"{at[0]}@{name}" in argv or f"*@{name}" in argv for at in by_person):
            self.breaks(4, f"{what}: a person disabled {by_person}")
        if (MAIN, name) not in by_person and not all(cell.off.get(at) == "person" for at in cell.instances_of(name)):
            by_person = []  # it serves on
        if world.keeps(world.machine_of(name)) and not gone and (removing or (shutting and not self._leaves(name))):
            self.breaks(4, f"{what}: {name} is to be kept")
        if argv[:2] == ("qmod", "-d") and name in world.drained:
            cell.off |= dict.fromkeys(by_person, "us")  # a drain makes it ours
        if by_person and not gone and (removing or shutting) and name not in world.drained and world.stopping is None:
            self.breaks(4, f"{what}: a person disabled {by_person}")
        if removing and name in cell.hosts:
            self._removes(name, what)

    def _leaves(self, name: str) -> bool:
        """Whether it is silent, or interrupted: then no job may start there, even if a person keeps it."""
        world = self.world
        return name in self.observation.silent or world.interruption_of(world.machine_of(name)) is not None

    def _removes(self, name: str, what: str) -> None:
        cell, since = self.world.cell, self.disabled_empty_since.get(name)
        if not cell.all_disabled(name):
            self.breaks(1, f"{what}: jobs can still start on {name}")
        if not self.world.lives(self.made_for.get(name, "")):
            return  # its machine is gone for sure: what is left of it in Grid Engine can run nothing
        if since is None or self.observation.began - since < SCHEDULE_INTERVAL:
            self.breaks(
                1, f"{what}: no two observations, {SCHEDULE_INTERVAL:g} s apart, showed {name} disabled and empty"
            )

    # -- rules 1 and 4: the provider ---------------------------------------------------------------------------------

    def terminates(self, ids: Sequence[str]) -> None:
        world, cell = self.world, self.world.cell
        self._acts(f"terminate {list(ids)}")
        for worker_id in ids:
            machine = world.cloud.machines.get(worker_id)
            if machine is None or machine.ended_at is not None:
                continue
            if machine.cell != world.tag:
                self.breaks(4, f"terminates {worker_id}, which is not ours")
            if machine.id not in world.served:
                self.retries.fails([machine.bucket.type.name])
            if world.keeps(machine):
                self.breaks(4, f"terminates {worker_id}, which is to be kept")
            check_created_nodes(world, machine, self.breaks)
            if self._may_be_fenced(machine):
                continue
            if machine.name in cell.occupied | cell.reserved and self.made_for.get(machine.name) == machine.id:
                self.breaks(1, f"terminates {worker_id} with work on it")
            elif self.made_for.get(machine.name) == machine.id and machine.name in cell.hosts:
                self.breaks(1, f"terminates {worker_id}, which still is an execution host")

    def _may_be_fenced(self, machine: Machine) -> bool:
        """Silent for too long while another worker of its zone reports (decision 61), or drained by a person; or about
        to be taken by its cloud, with nothing on it that may not start again.
        """
        world, name, limit = self.world, machine.name, self.world.policy.silence_timeout
        drained = name in world.drained or machine.id in world.drained
        if self.vouched_for.get(name, 0.0) >= limit or (drained and self.silent_for.get(name, 0.0) >= limit):
            return True
        notice = world.interruption_of(machine)
        runs = [(job, run) for job, run in world.cell.runs if name in run.hosts]
        again = all(job.rerun and self._living(run) <= {name} for job, run in runs) and name not in world.cell.reserved
        return notice is not None and world.clock.now >= notice.at - NOTICE_MARGIN and again

    def _somebody_vouches_for(self, name: str) -> bool:
        """Whether another worker of its zone reports, and none of them fell silent at about the same time."""
        machine = self.world.machine_of(name)
        if machine is None:
            return True  # its cloud no longer has it
        zone = machine.bucket.key.zone
        others = [
            other.name
            for other in self.world.ours
            if other.ended_at is None and other.name in self.world.cell.hosts and other.name != name
            if other.bucket.key.zone == zone
        ]
        began = self.silent_for[name]
        together = any(abs(self.silent_for[other] - began) < TOGETHER for other in others if other in self.silent_for)
        return not together and any(other not in self.silent_for for other in others)

    def _living(self, run: Run) -> set[str]:
        """Its hosts whose machines are not gone."""
        lives = self.world.lives
        return {name for name in run.hosts if name in self.world.persistent or lives(self.made_for.get(name, ""))}

    # -- rules 3 and 5: launching ------------------------------------------------------------------------------------

    def orders_machines(self, order: LaunchOrder) -> None:
        self._acts(f"launch {order.token}")

    def launched(self, order: LaunchOrder, new: Sequence[Machine], before: Collection[str]) -> None:
        """`before`: machines of ours that lived before the call."""
        first = order.order_id not in self.orders
        self.orders.add(order.order_id)
        if not new:
            return
        self.groups.launched(order, new, before)
        grouped = GROUP_ID in order.tags
        records = self.world.people.journal.orders(0)
        ordered_at = {record.id: record.ordered_at for record in records}
        asked = {record.id for record in records if record.for_requests or record.nodes}
        self._keeps_to_limits(order, ordered_at)
        batch = self.world.policy.node_arrays[0].scale_up_batch
        if order.order_id not in asked and not grouped and order.count > batch:
            self.breaks(5, f"a batch of {order.count}, where {batch} are allowed")
        if len({machine.token for machine in self.world.ours if machine.order.order_id == order.order_id}) > 1:
            self.breaks(3, f"order {order.order_id} was met twice")
        # Asked again, or late: judged when it was made. What callers ask for needs no job.
        if first and ordered_at[order.order_id] == self.observation.began and order.order_id not in asked:
            if not grouped:
                self._is_needed(new, before)
            elif not self.observation.guessed and not self.groups.needs(order):
                self.breaks(3, f"launches a group of {order.node_array}, which nothing needs")

    def _keeps_to_limits(self, order: LaunchOrder, ordered_at: Mapping[str, float]) -> None:
        world = self.world
        array = world.policy.node_arrays[0]
        limits, now = array.limits, world.clock.now
        known = [machine for machine in world.living if self.knowable(machine)]
        if len(known) > limits.max_workers:
            self.breaks(5, f"{len(known)} workers, where {limits.max_workers} are allowed")
        cores = sum(machine.bucket.type.vcpus for machine in known)
        if limits.max_cores is not None and cores > limits.max_cores:
            self.breaks(5, f"{cores} cores, where {limits.max_cores} are allowed")
        price = sum(machine.bucket.price_per_hour or 0.0 for machine in known)
        if limits.max_price_per_hour is not None and price > limits.max_price_per_hour + 1e-6:
            self.breaks(5, f"{price:.3f} an hour, where {limits.max_price_per_hour} are allowed")
        lately = [m for m in world.ours if now - ordered_at.get(m.order.order_id, 0.0) < HOUR]
        if limits.max_launches_per_hour is not None and len(lately) > limits.max_launches_per_hour:
            self.breaks(5, f"{len(lately)} launches in an hour, where {limits.max_launches_per_hour} are allowed")

    def _is_needed(self, new: Sequence[Machine], before: Collection[str]) -> None:
        """All but the last of the new machines beside what was there and coming must not have been enough."""
        world = self.world
        queue = world.policy.queues[0]
        decided_at = self.observation.decided_at or 0.0
        if self.observation.guessed:
            return
        if not self.observation.again and not any(
            decided_at - _able_since(job) >= queue.scale_up_timeout for job, _ in self.observation.able
        ):
            self.breaks(3, f"launches {len(new)} though no job waited {queue.scale_up_timeout:g} s")
        coming = [m for m in world.living if m.id in before and self.knowable(m) and self.is_coming(m)]
        coming = [m for m in coming if not self.groups.may_be_terminated(m)]
        there, fewer = [room.copy() for room in self.observation.rooms], self.observation.rooms
        for room in there:
            _join(room, coming)
        for room in fewer:
            _join(room, (*coming, *new[:-1]))
        grouped = [
            (job, count) for job, count in (*self.observation.able, *self.observation.again) if job.pe == IN_GROUP
        ]
        needed = [
            (job, count) for job, count in (*self.observation.able, *self.observation.again) if job.pe != IN_GROUP
        ]
        fitting = [take_what_fits(room, grouped) for room in fewer]
        if not all(fitting):
            return  # it may wait for a group that is expected back, and leave others no room there
        if not all(fits(room, needed) for room in fewer):
            return
        # What fits where nothing new is needed starts there, also in the way of a larger one that waits for more.
        for room in there:
            take_what_fits(room, grouped)
            left = starts_at_once(room, needed)
            _join(room, new[:-1])
            if not fits(room, left):
                return
        what = [(job.number, count, job.slots, job.pe) for job, count in needed]
        self.breaks(3, f"launches {len(new)} where {len(new) - 1} and {len(coming)} coming would do for {what}")

    def knowable(self, machine: Machine) -> bool:
        """Whether the autoscaler can know of it: by this store's order or any listing since."""
        return machine.order.order_id in self.orders or machine.id in self.listed

    def is_coming(self, machine: Machine) -> bool:
        world, cell, name = self.world, self.world.cell, machine.name
        late = world.clock.now - machine.created_at >= world.policy.node_arrays[0].boot_timeout
        if (
            late
            or machine.id in world.served
            or world.interruption_of(machine)
            or name in world.drained
            or name in cell.deleted_by_people
        ):
            return False
        return not any(cell.off.get(at) == "person" for at in cell.instances_of(name))

    # -- states that must hold all the time --------------------------------------------------------------------------

    def check(self) -> None:
        world, cell = self.world, self.world.cell
        self.jobs.check()
        self.groups.check()
        for job, run in cell.runs:
            if missing := run.hosts - cell.hosts.keys():
                self.breaks(1, f"{sorted(missing)} removed under job {job.number}")
        for machine in world.cloud.machines.values():
            if machine.cell != world.tag and machine.ended_at is not None:
                self.breaks(4, f"{machine.id}, which is not ours, was ended")
        for name, slots in world.persistent.items():
            if name not in cell.hosts or cell.slots.get(name) != slots or name not in cell.members:
                self.breaks(4, f"persistent {name} was changed")


def take_what_fits(room: Room, able: Sequence[tuple[Job, int]]) -> bool:
    """Give these tasks their places; whether there were any for all."""
    for job, count in able:
        for _ in range(count):
            on = room.place(job)
            if on is None:
                return False
            room.take(job, on)
    return True


def starts_at_once(room: Room, able: Sequence[tuple[Job, int]]) -> list[tuple[Job, int]]:
    """Give places to all tasks that find one, in their order; which are left."""
    left = []
    for job, count in able:
        waiting = count
        while waiting and (on := room.place(job)) is not None:
            room.take(job, on)
            waiting -= 1
        if waiting:
            left.append((job, waiting))
    return left


def _join(room: Room, machines: Iterable[Machine]) -> None:
    """These stand there, too, as they will once they have booted."""
    for machine in machines:
        type_, group = machine.bucket.type, group_of(machine)
        queues = [(MAIN, type_.vcpus)]
        room.add(machine.name, type_.vcpus, type_.memory / 2**30, queues, group=host_group(group) if group else "")


def fits(room: Room, able: Sequence[tuple[Job, int]]) -> bool:
    """Whether all these tasks find a place at once, the large ones first."""
    for job, count in sorted(able, key=lambda item: (item[0].pe is None, -item[0].slots, -item[0].memory)):
        for _ in range(count):
            on = room.place(job)
            if on is None:
                return False
            room.take(job, on)
    return True


def host_of(argv: Sequence[str]) -> str | None:
    """The host that a change is about."""
    match tuple(argv):
        case ("qmod", "-d" | "-e", target):
            return target.partition("@")[2]
        case ("qconf", "-Ae", file):
            lines = (line.split(None, 1) for line in Path(file).read_text(encoding="utf-8").splitlines())
            return dict(pair for pair in lines if len(pair) == 2)["hostname"].strip()
        case ("qconf", "-aattr" | "-dattr", "hostgroup", "hostlist", name, _):
            return name
        case ("qconf", "-rattr", "exechost", "complex_values", _, name):
            return name
        case ("qconf", "-rattr", "queue", "slots", _, target) | ("qconf", "-purge", "queue", "slots", target):
            return target.partition("@")[2]
        case ("qconf", "-de" | "-ds" | "-dh" | "-dconf", name):
            return name
        case _:
            return None


def _able_since(job: Job) -> float:
    """The earliest moment at which its wait may have begun."""
    return max(job.submitted, job.start_after or 0.0)

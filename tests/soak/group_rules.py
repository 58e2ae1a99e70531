"""The rules of docs/groups.md, checked against machines, hosts and jobs as they really are: rule 10.

A group is one instance type in one place, never more than asked, enabled when it is whole, kept as long as any
of it is used, known to Grid Engine as exactly its hosts, and never half for long.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from autoscaler.providers.fake import Machine
from autoscaler.providers.interface import GROUP_ID, LaunchOrder
from tests.soak.jobs import GROUPED, IN_GROUP, Job

if TYPE_CHECKING:
    from tests.soak.rules import Rules
    from tests.soak.world import World

RULE = 10
INCOMPLETE_FOR = 900.0
"""Seconds for which good observations may find a part of a group that never served: an order without an answer counts
for ten minutes, and a boot for two.
"""
HOUR = 3600.0
_HOST_GROUP = "@sge-autoscaler-"


def group_of(machine: Machine | None) -> str:
    """The id of its group; '' where it is of none."""
    return "" if machine is None else machine.order.tags.get(GROUP_ID, "")


def host_group(group: str) -> str:
    """What docs/groups.md calls it in Grid Engine."""
    return _HOST_GROUP + group.replace(":", "_")


def of_workers(group: str) -> bool:
    """Whether its size is a number of workers, by its id: `execute:64-w1`."""
    return group.rpartition("-")[2].startswith("w")


def want(machine: Machine) -> int:
    """How many of its type make its group whole."""
    size = int(machine.order.node_array.rpartition(":")[2])
    return size if of_workers(group_of(machine)) else -(-size // machine.bucket.type.vcpus)


@dataclass
class GroupRules:
    """Notified of every observation and change by Rules."""

    rules: Rules
    breaks: Callable[[int, str], None]
    busy: set[str] = field(default_factory=set)
    """Machines that had work on them whenever this pass observed them."""
    observed: bool = False
    incomplete_for: dict[str, float] = field(default_factory=dict)
    """By group: for how long good observations have found only a part of it."""

    @property
    def world(self) -> World:
        return self.rules.world

    # -- what is so --------------------------------------------------------------------------------------------------

    def members(self, group: str) -> list[Machine]:
        return [machine for machine in self.world.living if group_of(machine) == group]

    def machine_on(self, host: str) -> Machine | None:
        """The machine that this execution host was made for."""
        return self.world.cloud.machines.get(self.rules.made_for.get(host, ""))

    def served(self, group: str) -> bool:
        return any(
            machine.id in self.world.served
            for machine in self.world.cloud.machines.values()
            if group_of(machine) == group
        )

    def may_be_terminated(self, machine: Machine) -> bool:
        """Whether it is of a part of a group that never served and has lost others: what it needs may be unavailable,
        and then the part serves no job.
        """
        group = group_of(machine)
        if not group or self.served(group) or len(self.members(group)) >= want(machine):
            return False
        machines = self.world.cloud.machines.values()
        return any(each.ended_at is not None for each in machines if group_of(each) == group)

    # -- observations ---------------------------------------------------------------------------------------------

    def begin_pass(self) -> None:
        self.busy, self.observed = set(), False

    def reads(self) -> None:
        cell = self.world.cell
        on = {machine.id for name in cell.occupied | cell.reserved if (machine := self.machine_on(name)) is not None}
        self.busy, self.observed = (self.busy & on if self.observed else on), True

    def decides(self, seconds: float) -> None:
        """A good observation, so long after the one before."""
        world = self.world
        hindered = world.people.overrides.load()
        if hindered.paused or hindered.stop is not None:
            return
        half: dict[str, float] = {}
        for group in {group_of(machine) for machine in world.living} - {""}:
            members = self.members(group)
            names = {machine.name for machine in members}
            touched = names & (world.kept | world.drained | world.cell.deleted_by_people)
            by_hand = any(who == "person" and at[1] in names for at, who in world.cell.off.items())
            if len(members) >= want(members[0]) or self.served(group) or touched or by_hand:
                continue
            waits = self._awaits_its_hour(want(members[0]) - len(members))
            half[group] = self.incomplete_for.get(group, 0.0) + (0.0 if waits else seconds)
            if half[group] > INCOMPLETE_FOR:
                self.breaks(RULE, f"a part of a group stays: of {group} {sorted(names)} for {half[group]:.0f} s")
        self.incomplete_for = half

    def _awaits_its_hour(self, missing: int) -> bool:
        """Whether the launches of this hour leave no room for the missing workers of a group: the next hour does."""
        most = self.world.policy.node_arrays[0].limits.max_launches_per_hour
        since = self.world.clock.now - HOUR
        orders = [order for order in self.world.people.journal.orders(since) if order.ordered_at > since]
        launched = sum(max(candidate.count for candidate in order.candidates) for order in orders)
        return most is not None and launched + missing > most

    def loses_store(self) -> None:
        self.incomplete_for.clear()

    # -- launches ----------------------------------------------------------------------------------------------------

    def launched(self, order: LaunchOrder, new: Sequence[Machine], before: Collection[str]) -> None:
        group = order.tags.get(GROUP_ID)
        if group is None:
            return
        known = [m for m in self.members(group) if m.id in before and self.rules.knowable(m)]
        kinds = {(m.bucket.type.name, m.bucket.key.zone, m.bucket.key.placement_group) for m in (*known, *new)}
        if len(kinds) > 1:
            self.breaks(RULE, f"a group of several kinds: {group} of {sorted(kinds)}")
        staying = [machine for machine in known if self._stays(machine)]
        if len(staying) + len(new) > want(new[0]):
            what = f"{group} gets {len(new)} beside {[machine.id for machine in staying]}, and wants {want(new[0])}"
            self.breaks(RULE, f"a group larger than asked: {what}")
        self.world.injected["workers of groups"] += len(new)

    def needs(self, order: LaunchOrder) -> bool:
        """Whether a request or a job needs a group of this array, or a group in service lost workers. A coming group is
        completed for any job that is to use it. Requests as they were when the pass began count: they may be over by
        now.
        """
        world, observation = self.world, self.rules.observation
        begun = len(self.members(order.tags[GROUP_ID])) > order.count
        jobs = any(begun or job.pe == IN_GROUP for job, _ in (*observation.able, *observation.again))
        sets = world.people.requests.load(observation.began).sets
        requested = any(
            target.groups and target.node_array == order.node_array for one in sets for target in one.targets
        )
        return jobs or requested or self.served(order.tags[GROUP_ID])

    def _stays(self, machine: Machine) -> bool:
        """Whether nothing prevents its staying in its group."""
        world, cell = self.world, self.world.cell
        if self.rules.is_coming(machine):
            return True
        open_now = any(map(cell.accepts_jobs, cell.instances_of(machine.name)))
        interrupted = any(notice.worker_id == machine.id for notice in world.cloud.notices)
        leaving = interrupted or machine.name in world.drained
        return open_now and self.machine_on(machine.name) == machine and not leaving

    # -- changes -----------------------------------------------------------------------------------------------------

    def enables(self, host: str) -> None:
        """Before `qmod -e`: the first of a group that takes jobs comes with all others ready."""
        machine = self.machine_on(host)
        group = group_of(machine)
        if machine is None or not group or self.served(group):
            return
        made_for = self.rules.made_for
        if any(
            each.id in self.world.disturbed or made_for.get(each.name, each.id) != each.id
            for each in self.members(group)
        ):
            return  # a person changed it, or one replaced a namesake that had served
        observation, hosts, shown = self.rules.observation, self.world.cell.hosts, self.rules.shown
        there = [
            each
            for each in self.world.cloud.machines.values()
            if group_of(each) == group
            if each.ended_at is None or each.ended_at >= observation.began or each.id in shown.get(each.name, ())
            if each.name in hosts and each.name not in observation.silent
        ]
        if len(there) < want(machine):
            self.breaks(RULE, f"takes jobs before all of its group are ready: {host} of {group}, {len(there)} are")

    def disables(self, host: str) -> None:
        """Before `qmod -d` of a host that takes jobs: not while any other of its group has work."""
        world, machine = self.world, self.machine_on(host)
        group = group_of(machine)
        if machine is None or not group or self.rules.observation.guessed or not world.lives(machine.id):
            return
        by_itself = machine.id in world.disturbed or host in self.rules.observation.silent or world.stopping is not None
        others = {each.id for each in self.members(group)} - {machine.id}
        begun = any(self._is_draining(other) for other in others)  # and is not taken back half-way
        if not by_itself and not begun and others & self.busy and world.cell.can_start_jobs(host):
            self.breaks(
                RULE,
                f"one is removed while others of its group have work: {host} of {group}, {sorted(others & self.busy)}",
            )

    def _is_draining(self, machine_id: str) -> bool:
        """Whether one that served is disabled by the autoscaler already."""
        name, off = self.world.cloud.machines[machine_id].name, self.world.cell.off
        return machine_id in self.world.served and any(off.get(at) == "us" for at in self.world.cell.instances_of(name))

    # -- states that must hold all the time --------------------------------------------------------------------------

    def check(self) -> None:
        cell, groups = self.world.cell, self.world.cell.groups
        if groups is None:
            return
        for host in cell.hosts:
            group = group_of(self.machine_on(host))
            if group and cell.can_start_jobs(host):
                self._is_known(host, group)
        for name, hosts in groups.hosts.items():
            strangers = [host for host in hosts if name not in map(host_group, self._groups_of(host))]
            if strangers:
                self.breaks(RULE, f"a host group names what is none of it: {name} has {strangers}")
        for job, run in cell.runs:
            # Another of the same name may be handed what was on its way to one that is gone.
            own = [place for host, place in run.delivered.items() if self.rules.made_for.get(host) == place]
            self._is_in_one(job, own)

    def _groups_of(self, host: str) -> list[str]:
        """The group that it was made for. Its machine may have been gone by then: any that ever had its name."""
        machine = self.machine_on(host)
        named = (each for each in self.world.ours if each.name == host)
        return [group_of(each) for each in ([machine] if machine is not None else named)]

    def _is_known(self, host: str, group: str) -> None:
        groups, values = self.world.cell.groups, self.world.cell.hosts[host].split(",")
        name = host_group(group)
        if groups is None or groups.of(host) != [name] or f"group_id={group}" not in values:
            self.breaks(
                RULE,
                f"takes jobs without being known as of its group: {host} of {group} has {values}",
            )
        elif f"{GROUPED}_{name.removeprefix(_HOST_GROUP)}" not in groups.pe_lists.get(name, ()):
            self.breaks(RULE, f"takes jobs without a parallel environment of its group: {host} of {group}")

    def _is_in_one(self, job: Job, places: Iterable[str]) -> None:
        found = {group_of(self.world.cloud.machines.get(place)) for place in places}
        if job.pe == IN_GROUP and (len(found) > 1 or "" in found):
            self.breaks(RULE, f"job {job.number} runs in {sorted(found)}")

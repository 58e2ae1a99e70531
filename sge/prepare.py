"""A master's preparation for workers: queue, host group, two parallel environments, its own slots.

`differences` compares the wanted objects with the existing ones and decides nothing else; `carry_out` changes Grid
Engine by one of them and keeps the earlier object. Existing objects are compared only in attributes that workers need:
a queue's other attributes are its administrator's.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autoscaler.core.model.cluster import Queue
from autoscaler.sge import notices, objects
from autoscaler.sge.admin import Administrator, Change
from autoscaler.sge.complex_table import has_complex, rows_of, text_row
from autoscaler.sge.membership import split_objects
from autoscaler.sge.qconf import (
    joined,
    read_assignments,
    read_attributes,
    read_host_group,
    read_names,
    read_pe,
    read_queue,
    resolve_hosts,
    split_overrides,
)


@dataclass(frozen=True, slots=True)
class Preparation:
    """The needs of one autoscaled queue."""

    queue: str
    host_group: str
    pe_local: str
    pe_mpi: str
    pe_slots: int
    master: str
    """The master's host name as Grid Engine prints it."""
    pe_mpi_slots: int | None = None
    """Of `pe_mpi`, if they differ from `pe_slots`."""
    terminate_method: str = "NONE"
    shell_start_mode: str = "posix_compliant"
    """Both of a new queue; an existing one keeps its own."""
    master_slots: int | None = None
    """Slots of this queue on the master; 0: none; None: its present ones."""
    notices: bool = False
    """Whether workers report interruption notices by a load value, which has to be a complex."""
    group_pes: tuple[str, ...] = ()
    """Parallel environments that the queue must not offer itself: each group of workers has a copy."""
    in_order: bool = False
    """Whether the scheduler should fill hosts in the order of their sequence numbers."""


@dataclass(frozen=True, slots=True)
class Present:
    """The existing objects: name → text as `qconf -s…` prints it."""

    queues: Mapping[str, str]
    host_groups: Mapping[str, str]
    pes: Mapping[str, str]
    execution_hosts: Mapping[str, str]
    """Only masters that are execution hosts."""
    submit_hosts: tuple[str, ...]
    complexes: str = ""
    """The whole table, if notices are wanted."""
    scheduler: str = ""
    """The scheduler's configuration, if it should fill hosts in one order."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One object that is missing, or differs from the wanted one."""

    kind: str
    """queue, host group, parallel environment, execution host or submit host."""
    name: str
    before: str
    """'' if it is missing."""
    after: str
    commands: tuple[tuple[str, ...], ...]
    """Words for `qconf`; FILE stands for a file with `after`."""

    @property
    def missing(self) -> bool:
        return not self.before

    @property
    def shown(self) -> str:
        """The difference as removed lines (-) and added lines (+)."""
        lines = difflib.unified_diff(
            joined(self.before).splitlines(),
            joined(self.after).splitlines(),
            f"{self.kind} {self.name} as it is" if self.before else "/dev/null",
            f"{self.kind} {self.name} as wanted",
            lineterm="",
            n=0,
        )
        return "\n".join(lines)


FILE = "FILE"
SCHEDULER, SCHEDULER_KIND = "scheduler", "scheduler configuration"
SORT_METHOD, LOAD, SEQNO = "queue_sort_method", "load", "seqno"
_MSCONF = ("-Msconf", FILE)


def read_present(administrator: Administrator, wanted: Sequence[Preparation]) -> Present:
    """Read the existing objects. Raises GridEngineNotObservable."""
    show = administrator.show
    groups = [name for name in read_names(show("-shgrpl")) if name.startswith("@")]
    pes = read_names(show("-spl"))
    hosts = {name.lower() for name in read_names(show("-sel"))}
    masters = [master for master in dict.fromkeys(each.master for each in wanted) if master.lower() in hosts]
    return Present(
        queues={read_attributes(text)["qname"]: text for text in split_objects(show("-sq", "*"), "qname")},
        host_groups={name: show("-shgrp", name) for name in groups},
        pes={name: show("-sp", name) for name in pes},
        execution_hosts={name: show("-se", name) for name in masters},
        submit_hosts=read_names(show("-ss")),
        complexes=show("-sc") if any(each.notices for each in wanted) else "",
        scheduler=show("-ssconf") if any(each.in_order for each in wanted) else "",
    )


def differences(wanted: Sequence[Preparation], present: Present) -> tuple[Difference, ...]:
    """All that is missing or different, in the order in which it can be carried out; empty if nothing is."""
    found: dict[tuple[str, str], Difference] = {}
    for compare in (_notice, _master, _host_group, _pes, _queue, _submit_host, _scheduler):
        for preparation in wanted:
            for difference in compare(preparation, present):
                found.setdefault((difference.kind, difference.name), difference)
    return tuple(found.values())


def carry_out(administrator: Administrator, difference: Difference, saved: Path) -> tuple[Change, ...]:
    """Create or change one object. The earlier one is first written into the directory `saved`.

    Raises GridEngineRefused.
    """
    if difference.before:
        saved.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"[^A-Za-z0-9@._-]", "-", f"{difference.kind}-{difference.name}")
        (saved / f"{name}.txt").write_text(difference.before, encoding="utf-8")
    with objects.as_file(difference.after) as file:
        return tuple(
            administrator.configure(*(str(file) if word == FILE else word for word in words))
            for words in difference.commands
        )


# -- one kind of object each ------------------------------------------------------------------------------------


def _notice(wanted: Preparation, present: Present) -> Iterator[Difference]:
    """The complex with which a worker reports interruption notices; jobs cannot request it."""
    if not wanted.notices or has_complex(present.complexes, notices.COMPLEX):
        return
    rows, row = rows_of(present.complexes), text_row(present.complexes, notices.COMPLEX, requestable=False)
    before, after = ("\n".join(lines) + "\n" for lines in (rows, (*rows, row)))
    yield Difference("complex", notices.COMPLEX, before, after, (("-Mc", FILE),))


def _joins(wanted: Preparation, present: Present) -> bool:
    """Whether the master belongs into the host group: it gives slots, or no other host is there.

    Grid Engine refuses `qsub -q main.q` as a request for an unknown queue while that queue has no instance at all. A
    master of no slots runs nothing and needs no execd, and keeps the queue known when the last worker has left.
    """
    return bool(wanted.master_slots) or not _reached((wanted.host_group,), present)


def _master(wanted: Preparation, present: Present) -> Iterator[Difference]:
    """The master as execution host, if it joins the group."""
    master, slots = wanted.master, wanted.master_slots
    before = present.execution_hosts.get(master)
    if before is None:
        if _joins(wanted, present):
            after = objects.exec_host(master, {"slots": str(slots)} if slots else {})
            yield Difference("execution host", master, "", after, (("-Ae", FILE),))
        return
    if not slots:
        return
    values = read_assignments(read_attributes(before).get("complex_values", ""))
    if "slots" in values and int(values["slots"]) < slots:
        changed = ",".join(f"{name}={value}" for name, value in (values | {"slots": str(slots)}).items())
        after = _with(before, "complex_values", changed)
        command = ("-mattr", "exechost", "complex_values", f"slots={slots}", master)
        yield Difference("execution host", master, before, after, (command,))


def _host_group(wanted: Preparation, present: Present) -> Iterator[Difference]:
    """The group that workers join, with the master if that is to be in it."""
    group, members = wanted.host_group, (wanted.master,) if _joins(wanted, present) else ()
    before = present.host_groups.get(group)
    if before is None:
        yield Difference("host group", group, "", objects.host_group(group, members), (("-Ahgrp", FILE),))
        return
    _, there = read_host_group(before)
    missing = [host for host in members if host.lower() not in _reached(there, present)]
    if missing:
        after = _with(before, "hostlist", " ".join([*there, *missing]))
        commands = tuple(("-aattr", "hostgroup", "hostlist", host, group) for host in missing)
        yield Difference("host group", group, before, after, commands)


def _pes(wanted: Preparation, present: Present) -> Iterator[Difference]:
    """Jobs on one host, and jobs across hosts that start their tasks by `qrsh -inherit`."""
    for name, rule, across in ((wanted.pe_local, "$pe_slots", False), (wanted.pe_mpi, "$fill_up", True)):
        before = present.pes.get(name)
        slots = (wanted.pe_mpi_slots or wanted.pe_slots) if across else wanted.pe_slots
        if before is None:
            after = objects.parallel_environment(name, slots=slots, allocation_rule=rule, across_hosts=across)
            yield Difference("parallel environment", name, "", after, (("-Ap", FILE),))
            continue
        there = read_pe(before)
        changes: dict[str, str] = {}
        if there.slots < slots:
            changes["slots"] = str(slots)
        if (there.allocation_rule == "$pe_slots") is across:
            changes["allocation_rule"] = rule
        # Without it `qrsh -inherit` starts no task of the job on another host.
        if across and read_attributes(before).get("control_slaves", "").upper() != "TRUE":
            changes["control_slaves"] = "TRUE"
        if changes:
            after = before
            for attribute, value in changes.items():
                after = _with(after, attribute, value)
            commands = tuple(("-rattr", "pe", attribute, value, name) for attribute, value in changes.items())
            yield Difference("parallel environment", name, before, after, commands)


def _queue(wanted: Preparation, present: Present) -> Iterator[Difference]:
    """The queue takes hosts from the group, offers both PEs but those of groups, and gives the master's slots."""
    before = present.queues.get(wanted.queue)
    pes = tuple(pe for pe in dict.fromkeys((wanted.pe_local, wanted.pe_mpi)) if pe not in wanted.group_pes)
    if before is None:
        own = {wanted.master: wanted.master_slots} if wanted.master_slots else {}
        methods = {"terminate_method": wanted.terminate_method, "shell_start_mode": wanted.shell_start_mode}
        after = objects.queue(wanted.queue, host_group=wanted.host_group, pes=pes, slots_by_host=own)
        for attribute, value in methods.items():
            after = _with(after, attribute, value) if read_attributes(after)[attribute] != value else after
        yield Difference("queue", wanted.queue, "", after, (("-Aq", FILE),))
        return
    there = read_queue(before)
    after = before
    commands: list[tuple[str, ...]] = []
    if wanted.host_group not in there.hostlist:
        after = _with(after, "hostlist", " ".join([*there.hostlist, wanted.host_group]))
        commands.append(("-aattr", "queue", "hostlist", wanted.host_group, wanted.queue))
    for pe in pes:
        if pe not in there.pe_list:
            after = _append(after, "pe_list", pe)
            commands.append(("-aattr", "queue", "pe_list", pe, wanted.queue))
    for pe in wanted.group_pes:
        if pe in there.pe_list:
            after = _without(after, "pe_list", pe)
            commands.append(("-dattr", "queue", "pe_list", pe, wanted.queue))
    now = _master_slots(there, wanted, present)
    slots = now if wanted.master_slots is None else wanted.master_slots
    if now != slots or (_joins(wanted, present) and _master_slots(there, wanted, present, joined=True) != slots):
        after = _with_override(after, "slots", wanted.master, str(slots))
        commands.append(("-rattr", "queue", "slots", str(slots), f"{wanted.queue}@{wanted.master}"))
    if commands:
        yield Difference("queue", wanted.queue, before, after, tuple(commands))


def _submit_host(wanted: Preparation, present: Present) -> Iterator[Difference]:
    """Without it no job can be submitted on the master."""
    if wanted.master.lower() not in (host.lower() for host in present.submit_hosts):
        yield Difference("submit host", wanted.master, "", f"{wanted.master}\n", (("-as", wanted.master),))


def _scheduler(wanted: Preparation, present: Present) -> Iterator[Difference]:
    """Hosts in the order of their sequence numbers, where workers get some. It holds for the whole cell."""
    before = present.scheduler
    if wanted.in_order and before and read_attributes(before).get(SORT_METHOD, LOAD) != SEQNO:
        yield Difference(SCHEDULER_KIND, SCHEDULER, before, _with(before, SORT_METHOD, SEQNO), (_MSCONF,))


def _master_slots(queue: Queue, wanted: Preparation, present: Present, *, joined: bool = False) -> int:
    """Slots of the queue on the master as it is, or once it has `joined` the group: its own entry, else its group's,
    else the queue's for all.
    """
    master = wanted.master.lower()
    if master in queue.slots_by_host:
        return queue.slots_by_host[master]
    if not joined and master not in _reached(queue.hostlist, present):
        return 0
    of_group = next(
        (
            where
            for where in queue.slots_by_host
            if where.startswith("@")
            and (master in _reached((where,), present) or (joined and where == wanted.host_group))
        ),
        None,
    )
    return queue.slots if of_group is None else queue.slots_by_host[of_group]


def _reached(members: Sequence[str], present: Present) -> set[str]:
    groups = {name: read_host_group(text)[1] for name, text in present.host_groups.items()}
    return {host.lower() for host in resolve_hosts(members, groups)}


# -- texts with one attribute changed, to be shown -----------------------------------------------------------------


def _edit(text: str, attribute: str, change: Callable[[str], str]) -> str:
    lines = joined(text).splitlines()
    pattern = re.compile(rf"({re.escape(attribute)}\s+)(.*)")
    edited = [match[1] + change(match[2].strip()) if (match := pattern.fullmatch(line)) else line for line in lines]
    return "\n".join(edited) + "\n"


def _with(text: str, attribute: str, value: str) -> str:
    return _edit(text, attribute, lambda _: value)


def _append(text: str, attribute: str, word: str) -> str:
    return _edit(text, attribute, lambda value: word if value.upper() == "NONE" else f"{value} {word}")


def _without(text: str, attribute: str, word: str) -> str:
    def change(old: str) -> str:
        default, own = split_overrides(old)
        words = [each for each in re.split(r"[\s,]+", default) if each != word]
        return ",".join((" ".join(words) or "NONE", *(f"[{where}={what}]" for where, what in own.items())))

    return _edit(text, attribute, change)


def _with_override(text: str, attribute: str, host: str, value: str) -> str:
    def change(old: str) -> str:
        default, own = split_overrides(old)
        own = {where: what for where, what in own.items() if where.lower() != host.lower()} | {host: value}
        return ",".join((default, *(f"[{where}={what}]" for where, what in own.items())))

    return _edit(text, attribute, change)
